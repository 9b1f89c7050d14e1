"""What a controller or webhook process needs around its decisions: API access, caches, queues, metrics.

All asyncio, one event loop per process.  Modules are imported by name; this package exports nothing.
"""

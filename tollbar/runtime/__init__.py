"""What a controller or webhook process needs around its decisions: API access, caches, queues, metrics.

All asyncio, one event loop per process.  Modules are imported by name; this package exports nothing.
"""

from tollbar.runtime.deferred import defer

# `access` reads kubeconfigs with modules of the library, and kopf looks for two classes in it.  The library's __init__
# imports clients, streams and what else there is: 9 MB, and a third of a second.
defer("kubernetes")
defer("kubernetes.aio")

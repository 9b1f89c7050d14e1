"""Nodes and the Pods on them, as the scheduler sees them: live in the cache, frozen in a snapshot for each cycle."""

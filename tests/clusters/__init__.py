"""Clusters in memory: a controller or the scheduler at work on them, and random ones for properties."""

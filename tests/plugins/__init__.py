"""Scheduler plugins and gate classes under test: what they run on, toys, and the samples of the examples."""

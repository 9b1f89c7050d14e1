"""Tollbar: Pods that need a reserved device get the tolerations for it, before they are scheduled."""

__version__ = "0.1.0"

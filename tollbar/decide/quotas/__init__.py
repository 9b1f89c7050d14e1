"""Dynamic quota: which of the Pods that wait for room are released, in which order."""

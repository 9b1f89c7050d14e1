"""Dynamic quota: which of the Pods that wait for room may go, in which order."""

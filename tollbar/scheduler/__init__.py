"""The scheduler core: kube-scheduler's framework, queue, cache and plugins (Kubernetes 1.37) in Python.

What decides knows no API client: `tollbar.scheduler` is driven by a process that schedules (`controllers.scheduler`),
and by commands that only ask what it would do.
"""

"""An API server in memory: one process that answers what Tollbar asks of Kubernetes, and 501 to everything else.

`server` speaks HTTP, `registry` does what a request means, `storage` keeps objects and their history, `kinds` says what
is served (`builtin` and `definitions` list it), `strategies` what a kind's objects must look like, `admission` who is
asked first, `controllers` what happens by itself.  `launcher` runs it as a child process.
"""

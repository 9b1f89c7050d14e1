"""An API server in memory: one process that answers what Tollbar asks of Kubernetes, and 501 to everything else.

`server` speaks HTTP, `registry` creates, updates and patches objects of any kind, `storage` keeps them with their
history.  `kinds` has what is served, from `builtin` and `definitions`; `strategies` default and validate the objects of
a kind; `admission` calls plugins and webhooks; `controllers` stand in for kube-controller-manager; `scheduling` is
Tollbar's scheduler, in the place of kube-scheduler.  `launcher` runs it all as a child process.

What it makes of one object is told by pure functions, which need neither a server nor storage: `decoding` checks types
and finds unknown fields, by the structures in `shapes`; `kinds` has the strategies, `defaults` what they fill in;
`patches` and `bindings` make the next version; `matchconditions` says whether a webhook is asked.  They raise the
exceptions in `errors`.  Other packages may use these modules, and the rest of this one through `launcher` and a client.
"""

"""A cluster in memory in which the webhook's decision, the controllers and the scheduler run on virtual time.

    cluster = SimulatedCluster(loop, start=now, scheduler=configuration)
    cluster.put(objects)
    async with cluster.running():
        cluster.create(pod)
        await cluster.settle()

`loop` is an event loop whose time passes at once when no task has anything to do, `api` the API server, and `cluster`
puts them together.  `plan` is what a simulation begins with, `playing` goes from there to the outcome, `records` and
`verdicts` keep what the scheduler found, and `report` describes the outcome for each Pod.

The deciding code is that of production: the decision of the webhook, `controllers.gates`, `controllers.claims` in the
place of kube-controller-manager's claim controller, `controllers.reservations` as far as it makes claims, and
`controllers.scheduler` in the place of kube-scheduler.
"""

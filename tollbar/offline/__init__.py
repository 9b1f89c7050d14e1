"""A copy of a cluster as a value, and what Tollbar and its scheduler would decide on it.

    cluster = Cluster(objects)                       # or `await loading.load(client)`
    cluster.package(pod), cluster.gate_plan(pod), cluster.verdicts(pod)
    attempt = cluster.scheduler.attempt(pod)         # one scheduling cycle, with its whole Diagnosis
    with cluster.changed(put=[node], without=[taint_rule]):
        ...                                          # the same questions, about a cluster that is a little different

The objects are in the stores that the processes keep, with the same projections, indexes and views over them, and the
decisions are those of `tollbar.decide` and `tollbar.scheduler`: nothing is decided twice.  Nothing here writes to a
cluster.
"""

from tollbar.offline.cluster import Cluster
from tollbar.offline.scheduling import Attempt, OfflineScheduler

__all__ = ["Attempt", "Cluster", "OfflineScheduler"]

"""What would change it: changes tried on the copy, one by one and, where none helps by itself, one after the other.

Nothing is guessed: a change helps if the scheduler core finds a Node for the Pod on the changed copy.  The number of
attempts is bounded, because each costs a look at every Node.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from tollbar.explain import devices, nodes, taints
from tollbar.explain.causes import Cause
from tollbar.explain.changes import Change, Group, Rejection, remedy_of, with_tolerations
from tollbar.explain.values import Remedy
from tollbar.model.objects import Object
from tollbar.model.resources import NODES
from tollbar.offline import Attempt, Cluster
from tollbar.scheduler.framework.diagnosis import FitError
from tollbar.scheduler.framework.status import Status
from tollbar.scheduler.plugins.dynamic_resources.pod_claims import NAME as DYNAMIC_RESOURCES

_NODE_AFFINITY: Final = "NodeAffinity"
_BY_PLUGIN: Final[Mapping[str, nodes.Rejections]] = {
    **nodes.BY_PLUGIN,
    "TaintToleration": taints.rejections,
    DYNAMIC_RESOURCES: devices.rejections,
}
_ORDER: Final = tuple(Cause)
_DEPTH: Final = 3
"""So many changes are combined at most."""
_ATTEMPTS: Final = 40
_FURTHER: Final = 4
"""Changes that are tried in addition to one that does not help."""


@dataclass(slots=True)
class Attempts:
    """How many are left."""

    left: int = _ATTEMPTS

    def take(self) -> bool:
        self.left -= 1
        return self.left >= 0


def groups(cluster: Cluster, attempt: Attempt) -> list[Group]:
    """The rejected Nodes by plugin and reasons; the largest group first."""
    if not isinstance(attempt.result, FitError):
        return []
    statuses = attempt.result.diagnosis.statuses
    found: dict[tuple[str, tuple[str, ...]], Group] = {}
    for node in cluster.scheduler.snapshot:
        status = statuses.get(node.name)
        key = status.plugin, status.reasons
        found.setdefault(key, Group(*key)).nodes.append(node.name)
    return sorted(found.values(), key=lambda group: (-len(group.nodes), group.plugin, group.reasons))


def rejections(cluster: Cluster, pod: Object, attempt: Attempt) -> list[Rejection]:
    """What stands in the way on the Nodes, and what might help."""
    if isinstance(attempt.result, Status):
        return [_failure(cluster, pod, attempt.result)]
    found = [
        each
        for group in _asked_for(cluster, pod, groups(cluster, attempt))
        for each in _BY_PLUGIN.get(group.plugin, nodes.other)(cluster, pod, group)
    ]
    choices = [each for each in found if each.is_choice]
    return [*(each for each in found if not each.is_choice), *choices]


def _asked_for(cluster: Cluster, pod: Object, given: Sequence[Group]) -> Iterator[Group]:
    """The groups with those Nodes that the Pod asks for; all others are one group that NodeAffinity rejects.

    Taints and cordons are looked at before labels, also those of Nodes that the Pod does not want.
    """
    others = Group(_NODE_AFFINITY, ())
    for group in given:
        asked: list[str] = []
        for name in group.nodes:
            is_asked_for = nodes.is_asked_for(pod, cluster.get(NODES, name) or {})
            (asked if is_asked_for else others.nodes).append(name)
        if asked:
            yield Group(group.plugin, group.reasons, asked)
    if others.nodes:
        yield others


def _failure(cluster: Cluster, pod: Object, status: Status) -> Rejection:
    """The attempt ended before Nodes were told apart."""
    if not len(cluster.scheduler.snapshot):
        return Rejection(Cause.NO_NODES, "the cluster has no Node", "who runs the cluster", "add a Node")
    return devices.failure(cluster, pod, status) or nodes.by_plugin(status.plugin, status.message)


def tried(cluster: Cluster, pod: Object, found: Sequence[Rejection]) -> tuple[list[Rejection], list[Remedy]]:
    """The rejections with those first of which a change helps, in the order of causes; and the remedies likewise.

    Where no change helps by itself, changes are combined, and the rejections that have to go one after the other come
    first in that order, also those that show only then.  What the Pod itself chooses comes last.
    """
    attempts = Attempts()
    causes = [each for each in found if not each.is_choice] or found
    first, remedies = _helpful(cluster, pod, causes, attempts)
    choices = [each for each in found if each not in causes]
    remedies += [_try(cluster, pod, [change])[0] for each in choices for change in each.changes if attempts.take()]
    others = sorted((each for each in causes if each not in first), key=_order)
    return [*first, *others, *choices], sorted(remedies, key=lambda each: not each.helps)


def _helpful(
    cluster: Cluster, pod: Object, found: Sequence[Rejection], attempts: Attempts
) -> tuple[list[Rejection], list[Remedy]]:
    """The rejections that have to go, and all remedies that were tried."""
    remedies: list[Remedy] = []
    first: list[Rejection] = []
    pairs = [(rejection, change) for rejection in found for change in rejection.changes]
    for rejection, change in pairs:
        if not attempts.take():
            break
        remedy, _ = _try(cluster, pod, [change])
        remedies.append(remedy)
        if remedy.helps and rejection not in first:
            first.append(rejection)
    if first:
        return sorted(first, key=_order), remedies
    for pair in pairs:
        if (chain := _combined(cluster, pod, [pair], attempts)) is not None:
            remedy, _ = _try(cluster, pod, [change for _, change in chain])
            stages: dict[tuple[Cause, str], Rejection] = {}
            for each, _ in chain:
                stages.setdefault((each.cause, each.what), each)
            return list(stages.values()), [remedy, *remedies]
    return [], remedies


def _order(rejection: Rejection) -> int:
    return _ORDER.index(rejection.cause)


def _try(cluster: Cluster, pod: Object, changes: Sequence[Change]) -> tuple[Remedy, list[Rejection]]:
    """What comes of the changes together, and what stands in the way then."""
    with ExitStack() as stack:
        for change in changes:
            stack.enter_context(cluster.changed(put=change.put, without=change.without))
            pod = change.edit(pod)
        if any(change.by_rules for change in changes):
            given = [each for addition in cluster.gate_plan(pod).additions for each in addition.tolerations]
            pod = with_tolerations(pod, given)
        attempt = cluster.scheduler.attempt(pod)
        remaining = [] if attempt.node_name else rejections(cluster, pod, attempt)
    text = ", and ".join(change.text for change in changes)
    return remedy_of(changes[0].cause, text, attempt), remaining


def _combined(
    cluster: Cluster, pod: Object, chain: list[tuple[Rejection, Change]], attempts: Attempts
) -> list[tuple[Rejection, Change]] | None:
    """The chain with further changes that together help; None if there are none within depth and attempts."""
    if not attempts.take():
        return None
    remedy, remaining = _try(cluster, pod, [change for _, change in chain])
    if remedy.helps:
        return chain
    if len(chain) == _DEPTH:
        return None
    known = {change.text for _, change in chain}
    further = [(r, c) for r in remaining for c in r.changes if c.text not in known]
    for each in further[:_FURTHER]:
        if (found := _combined(cluster, pod, [*chain, each], attempts)) is not None:
            return found
    return None

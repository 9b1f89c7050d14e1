"""DefaultPreemption: makes room for a Pod by deleting Pods of lower priority from one Node.

Source: pkg/scheduler/framework/plugins/defaultpreemption and pkg/scheduler/framework/preemption.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from tollbar.model import selectors
from tollbar.model.objects import Object, key_of, spec
from tollbar.model.steps import Steps
from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.cache.selector import PodSelector
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.diagnosis import Diagnosis, FitError, NodeStatuses
from tollbar.scheduler.framework.events import Action, ClusterEvent, ClusterEventWithHint, EventResource, QueueingHint
from tollbar.scheduler.framework.handle import Handle, PluginsRunner
from tollbar.scheduler.framework.interface import Arguments, Filter, Nominate
from tollbar.scheduler.framework.reuse import Rejections, Victims
from tollbar.scheduler.framework.status import Code, Status, failed, unresolvable, unschedulable
from tollbar.scheduler.plugins.evictions import Evictions

NEVER: Final = "not eligible due to preemptionPolicy=Never."
TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."
NO_VICTIMS: Final = unresolvable("No preemption victims found for incoming pod")
NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
UNDER_WAY: Final = "waiting for the preemption for this pod to be finished"
NOT_STARTED: Final = "9999"
"""Sorts after every start time: a Pod that no kubelet has started counts as started at this moment."""
_PREEMPTION: Final = "preemption: "
_PRIORITY_SHIFT: Final = 2**31
"""Makes every priority positive, so that of negative ones, too, fewer Pods have the smaller sum."""


def without_preemption(message: str) -> str:
    """The message of the condition PodScheduled without what came of preemption, with which it ends."""
    return message.partition(f" {_PREEMPTION}")[0]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A Node where the Pod fits once the victims are gone; the most important victim comes first.

    `violations` counts the victims whose deletion violates a PodDisruptionBudget.
    """

    node_name: str
    victims: tuple[PodInfo, ...]
    violations: int


class DefaultPreemption:
    name = "DefaultPreemption"

    def __init__(self, args: Arguments, handle: Handle) -> None:
        self._handle = handle
        self._percentage = cast("int", args.get("minCandidateNodesPercentage", 10))
        self._absolute = cast("int", args.get("minCandidateNodesAbsolute", 100))
        self._evictions = Evictions(handle, self.name)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """The plugins that its Pod failed at decide when it is tried again, so this one never queues it."""
        deleted = ClusterEvent(EventResource.ASSIGNED_POD, Action.DELETE)
        return [ClusterEventWithHint(deleted, hint=lambda *_: QueueingHint.SKIP)]

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        return unresolvable(UNDER_WAY) if self._evictions.is_under_way(pod.uid) else None

    def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: NodeStatuses
    ) -> Steps[tuple[Nominate | None, Status | None]]:
        self._handle.metrics.preemption_tried()
        nominate, status = yield from self._preempt(state, pod, statuses)
        return nominate, replace(status, reasons=(f"{_PREEMPTION}{status.message}",)) if status.message else status

    def _preempt(
        self, state: CycleState, pod: PodInfo, statuses: NodeStatuses
    ) -> Steps[tuple[Nominate | None, Status]]:
        if ineligible := self._ineligible(pod, statuses):
            return None, unschedulable(ineligible)
        if not self._handle.snapshot.nodes:
            return None, failed("no nodes available")
        nodes = self._potential_nodes(statuses)
        dry_run = _DryRun(self._handle, state, pod)
        if nodes:
            yield from dry_run.run(nodes, self._candidates_wanted(len(nodes)))
        if not dry_run.candidates:
            return dry_run.unhelpful()
        best = choose(dry_run.candidates)
        self._evictions.start(pod, best.node_name, best.victims)
        found = f"found a potential placement for pod on node {best.node_name}, preempting {len(best.victims)} victims"
        return Nominate(best.node_name), Status(Code.SUCCESS, (found,))

    def _ineligible(self, pod: PodInfo, statuses: NodeStatuses) -> str:
        """Why the Pod may not preempt others; empty if it may.

        While victims on its nominated Node terminate it waits for them, unless other reasons rule that Node out.
        """
        if pod.spec.get("preemptionPolicy") == "Never":
            return NEVER
        nominated = self._handle.snapshot.get(pod.nominated_node_name)
        if nominated is None or statuses.get(nominated.name).code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return ""
        waits = any(
            each.is_terminating and each.is_preempted and each.priority < pod.priority
            for each in nominated.pods.values()
        )
        return TERMINATING if waits else ""

    def _potential_nodes(self, statuses: NodeStatuses) -> list[NodeInfo]:
        """Nodes where the removal of Pods may help, from a random one on."""
        said, absent = statuses.by_node.get, statuses.absent
        if not statuses.by_node and absent.code is not Code.UNSCHEDULABLE:
            return []  # PreFilter has rejected all of them
        nodes = [each for each in self._handle.snapshot if said(each.name, absent).code is Code.UNSCHEDULABLE]
        offset = self._handle.rng.randrange(len(nodes)) if nodes else 0
        return nodes[offset:] + nodes[:offset]

    def _candidates_wanted(self, nodes: int) -> int:
        return min(max(nodes * self._percentage // 100, self._absolute), nodes)


class _DryRun:
    """Tries on copies of the Nodes which Pods would have to go.

    `candidates` has those first that violate no PodDisruptionBudget; `statuses` says what speaks against other Nodes.
    """

    def __init__(self, handle: Handle, state: CycleState, pod: PodInfo) -> None:
        self.statuses = NodeStatuses(absent=unresolvable(NOT_HELPFUL))
        self._violating: list[Candidate] = []
        self._harmless: list[Candidate] = []
        self._errors: dict[str, None] = {}
        self._handle = handle
        self._state = state
        self._pod = pod

    @property
    def candidates(self) -> list[Candidate]:
        return self._harmless + self._violating

    def run(self, nodes: Sequence[NodeInfo], wanted: int) -> Steps[None]:
        """Look at one Node after the other until there are enough candidates, one of them without violation."""
        budgets = self._handle.listers.pod_disruption_budgets.values()
        snapshot, runner = self._handle.snapshot, self._handle.runner
        kept = runner.trials(self._state, self._pod, snapshot)
        victims = kept.victims(budgets)
        of_pods = runner.filters_of_pods(self._state, self._pod)
        for node in self._promising(nodes, kept):
            is_kept = self._may_keep(kept, node.name)
            known = victims.get(node.name) if is_kept else None
            found: Candidate | Status
            if known is not None:
                found = Candidate(node.name, tuple(node.pods[each] for each in known.uids), known.violations)
            else:
                trial = _Trial(runner, self._state, self._pod, node, of_pods)
                try:
                    found = yield from trial.select_victims(budgets)
                except _TrialFailed as error:
                    found = failed(str(error))
                is_kept = self._may_keep(kept, node.name)
            yield
            if isinstance(found, Status):
                self._reject(node.name, found)
                if found.is_rejected and is_kept:
                    kept.put(node.name, found)
                continue
            if is_kept:
                victims[node.name] = Victims(tuple(each.uid for each in found.victims), found.violations)
            among = self._violating if found.violations else self._harmless
            if len(among) < wanted:
                among.append(found)
            if self._harmless and len(self.candidates) >= wanted:
                return

    def _may_keep(self, kept: Rejections, node_name: str) -> bool:
        """Whether what is found out about the Node may be kept, with the Pods that are nominated to it by now."""
        return kept.may_keep(node_name, self._handle.runner.nominated_pods(self._pod, node_name))

    def _promising(self, nodes: Sequence[NodeInfo], kept: Rejections) -> list[NodeInfo]:
        """Those that have to be tried.  Without Pods of lower priority, or where an equal Pod was rejected, a Node is
        rejected at once."""
        snapshot = self._handle.snapshot
        lower = snapshot.groups.group(PodSelector.of_lower_priority(self._pod.priority)).counts.tolist()
        rows = snapshot.table.rows
        told = kept.known_for(self._handle.nominator.node_of(self._pod.uid))
        promising = []
        for node in nodes:
            status = told.get(node.name) if lower[rows[node.name]] else NO_VICTIMS
            if status is None:
                promising.append(node)
            else:
                self.statuses.by_node[node.name] = status
        return promising

    def unhelpful(self) -> tuple[Nominate | None, Status]:
        """The answer without any candidate: nothing is nominated any more, unless something went wrong."""
        if self._errors:
            messages = list(self._errors)
            return None, failed(messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]")
        error = FitError(len(self._handle.snapshot), Diagnosis(self.statuses))
        return Nominate(""), unschedulable(str(error))

    def _reject(self, node_name: str, status: Status) -> None:
        self.statuses.by_node[node_name] = status
        if status.code is Code.ERROR:
            self._errors[status.message] = None


class _TrialFailed(Exception):
    """A plugin could not take a Pod into account or out of it."""


class _Trial:
    """The choice of victims on one Node, tried on copies of `state` and `node`.

    `of_pods` are asked whenever a Pod comes back to the Node; the other filters depend on the Node's object alone and
    are asked once.
    """

    def __init__(
        self, runner: PluginsRunner, state: CycleState, pod: PodInfo, node: NodeInfo, of_pods: Sequence[Filter]
    ) -> None:
        self._runner = runner
        self._state = state
        self._pod = pod
        self._of_pods = of_pods
        self._node = node

    def select_victims(self, budgets: Iterable[Object]) -> Steps[Candidate | Status]:
        """Take away all Pods of lower priority, then put back as many as fit, the most important ones first.

        Those whose deletion violates a budget are put back before all others.  Source: SelectVictimsOnNode.
        """
        lower = [each for each in self._node.pods.values() if each.priority < self._pod.priority]
        self._state, self._node = self._state.clone(), self._node.copy()
        for each in lower:
            self._take_away(each)
        rejected = yield from self._filter()
        if rejected is not None:
            return rejected
        violating, harmless = split_by_budgets(sorted(lower, key=_importance), budgets)
        victims = []
        for each in (*violating, *harmless):
            self._put_back(each)
            if (yield from self._filter(self._of_pods)) is not None:
                self._take_away(each)
                victims.append(each)
            yield
        if not victims:
            return failed(f'expected at least one victim pod on node "{self._node.name}"')
        violations = sum(each in violating for each in victims)
        return Candidate(self._node.name, tuple(sorted(victims, key=_importance)), violations)

    def _filter(self, plugins: Iterable[Filter] | None = None) -> Steps[Status | None]:
        return self._runner.filter_with_nominated_pods(self._state, self._pod, self._node, plugins)

    def _take_away(self, victim: PodInfo) -> None:
        self._node.remove_pod(victim.uid)
        _check(self._runner.remove_pod(self._state, self._pod, victim, self._node))

    def _put_back(self, victim: PodInfo) -> None:
        self._node.add_pod(victim)
        _check(self._runner.add_pod(self._state, self._pod, victim, self._node))


def _check(status: Status | None) -> None:
    if status is not None:
        raise _TrialFailed(status.message)


def split_by_budgets(pods: Iterable[PodInfo], budgets: Iterable[Object]) -> tuple[list[PodInfo], list[PodInfo]]:
    """The Pods whose deletion, in this order, violates a PodDisruptionBudget, and the others.

    A budget allows `status.disruptionsAllowed` deletions, besides those that the API server has let pass already
    (`status.disruptedPods`).  One with an empty selector is about no Pod, nor is any about a Pod without labels.
    Source: FilterVictimsWithPDBViolation.
    """
    violating: list[PodInfo] = []
    harmless: list[PodInfo] = []
    left = [_Budget(each) for each in budgets if any(_selector(each).values())]
    for pod in pods:
        is_violated = bool(pod.labels) and any(each.is_violated_by(pod) for each in left)
        (violating if is_violated else harmless).append(pod)
    return violating, harmless


class _Budget:
    def __init__(self, budget: Object) -> None:
        status = budget.get("status") or {}
        self._namespace = key_of(budget).namespace
        self._selector = _selector(budget)
        self._disrupted = status.get("disruptedPods") or {}
        self._allowed = status.get("disruptionsAllowed") or 0

    def is_violated_by(self, pod: PodInfo) -> bool:
        """Count the deletion of the Pod, if the budget is about it."""
        if pod.key.namespace != self._namespace or pod.key.name in self._disrupted:
            return False
        if not selectors.matches(self._selector, pod.labels):
            return False
        self._allowed -= 1
        return self._allowed < 0


def _selector(budget: Object) -> Object:
    return spec(budget).get("selector") or {}


def choose(candidates: Sequence[Candidate]) -> Candidate:
    """The candidate that does least harm; of equal ones the first.

    Source: pickOneNodeForPreemption.
    """
    return min(candidates, key=_harm)


def _harm(candidate: Candidate) -> tuple[Any, ...]:
    """Less is better: violated budgets, the highest priority, the sum of priorities, how many victims there are.

    At last, those are spared that have run for longer: of the victims of the highest priority, the one that started
    first counts.
    """
    victims = candidate.victims
    highest = victims[0].priority
    earliest = min(started(each) for each in victims if each.priority == highest)
    return (
        candidate.violations,
        highest,
        sum(each.priority + _PRIORITY_SHIFT for each in victims),
        len(victims),
        _Descending(earliest),
    )


@dataclass(frozen=True, slots=True)
class _Descending:
    """Sorts the latest first."""

    text: str

    def __lt__(self, other: "_Descending") -> bool:
        return self.text > other.text


def _importance(pod: PodInfo) -> tuple[int, str]:
    """Sorts the most important Pods first: those of higher priority, then those that have run for longer."""
    return -pod.priority, started(pod)


def started(pod: PodInfo) -> str:
    return pod.start_time or NOT_STARTED

"""Filter for all Nodes of a snapshot at once, by plugins that can answer so (FilterNodes, FilterKnown, FilterReasons).

kube-scheduler calls Filter for Node after Node, in several threads.  Here most plugins answer with a mask, and their
answers are kept for the next Pods with the same spec (`tollbar.scheduler.framework.reuse`).
"""

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import TypeAlias

import numpy as np

from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.framework.answers import as_error, failure_of, status_of
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.filtering import Filtering
from tollbar.scheduler.framework.instrumented import REUSED
from tollbar.scheduler.framework.interface import FilterKnown, FilterNodes, FilterReasons, Known, Mask
from tollbar.scheduler.framework.points import Point
from tollbar.scheduler.framework.reuse import Rejections, Reuse, Reused, Trials
from tollbar.scheduler.framework.status import Status, by_identity

_Masked: TypeAlias = Mask | Status
"""It has a name because annotations of nested functions are evaluated whenever these are made."""


class FilteringByMasks(Filtering):
    """Filter as `Filtering` has it, and for all Nodes at once."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._reuse = Reuse()
        self._vectorised = {each.name: each for each in self.plugins.filter if isinstance(each, FilterNodes)}
        self._reasoning = {each.name: each for each in self.plugins.filter if isinstance(each, FilterReasons)}
        self._knowing = [each for each in self.plugins.filter if isinstance(each, FilterKnown)]

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> dict[str, Mask] | Status:
        """The masks of the plugins that can answer for all Nodes at once, by plugin.  No nominated Pods are counted."""
        if (reused := self._reuse.of(pod, nodes)) is not None:
            state.write(REUSED, reused)
        masks = {}
        for each in self.filters(state):
            if (plugin := self._vectorised.get(each.name)) is not None:
                mask = self._mask(plugin, state, pod, nodes)
                if isinstance(mask, Status):
                    return as_error(f'running "{plugin.name}" filter plugin', mask).with_plugin(plugin.name)
                masks[plugin.name] = mask
        return masks

    def filter_known(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> dict[str, Known]:
        """What is known of Nodes by plugins that cannot answer for all of them at once."""
        found = {}
        for plugin in self._knowing:
            if plugin.name not in state.skip_filter:
                known = self._ask(Point.FILTER, plugin.name, state, plugin.filter_known, state, pod, nodes)
                if isinstance(known, Known):
                    found[plugin.name] = known
        return found

    def rejections(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> Rejections:
        """What is kept of rejections of Pods with this spec."""
        reused = state.read(REUSED, Reused)
        kept = Rejections() if reused is None else reused.rejections
        self._update(kept, state, pod, nodes)
        return kept

    def trials(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> Trials:
        """What is kept of trials of preemption for Pods with this spec."""
        reused = state.read(REUSED, Reused)
        kept = Trials() if reused is None else reused.trials
        self._update(kept, state, pod, nodes)
        return kept

    def _update(self, kept: Rejections, state: CycleState, pod: PodInfo, nodes: Snapshot) -> None:
        """Keep what the plugins say before the first whose answers depend on more than the Pod's spec and the Node."""
        filters = self.filters(state)
        first = tuple(takewhile(lambda each: self._depends_on(each, pod) is not None, filters))
        kept.update(first, nodes, self.handle.nominator, pod.priority, is_complete=first == filters)

    def filter_reasons(
        self, state: CycleState, pod: PodInfo, nodes: Snapshot, masks: Mapping[str, Mask], told: Sequence[Status | None]
    ) -> list[Status | None] | Status:
        """What is `told` of Nodes, by place in the snapshot, and what the plugins with these masks say of the others.

        Of a Node it is what the first plugin says that rejects it, None where that has to be asked for: all plugins
        before must have masks, too.  No nominated Pods are counted.
        """
        found = list(told)
        left: Mask = np.array([each is None for each in told], np.bool_)
        for each in self.filters(state):
            if each.name not in masks or not left.any():
                break
            rejected, left = left & ~masks[each.name], left & masks[each.name]
            if each.name in self._reasoning and rejected.any():
                reasons = self._reasons(self._reasoning[each.name], state, pod, nodes)
                if isinstance(reasons, Status):
                    return as_error(f'running "{each.name}" filter plugin', reasons).with_plugin(each.name)
                for place in rejected.nonzero()[0].tolist():
                    found[place] = reasons[place]
        return found

    def _reasons(
        self, plugin: FilterReasons, state: CycleState, pod: PodInfo, nodes: Snapshot
    ) -> list[Status | None] | Status:
        """In the name of the plugin; one Status is a failure."""
        answer = self._ask(Point.FILTER, plugin.name, state, plugin.filter_reasons, state, pod, nodes)
        if not isinstance(answer, list) or len(answer) != len(nodes):
            return failure_of(answer, "a list with an answer for each Node")
        named: dict[int, Status | None] = {}
        for one, each in by_identity(answer).items():
            status = status_of(each)
            if status is not None and not status.is_rejected:
                return status
            named[one] = status.with_plugin(plugin.name) if status is not None else None
        return [named[id(each)] for each in answer]

    def _mask(self, plugin: FilterNodes, state: CycleState, pod: PodInfo, nodes: Snapshot) -> _Masked:
        def about_all() -> _Masked:
            mask = self._ask(Point.FILTER, plugin.name, state, plugin.filter_nodes, state, pod, nodes)
            self.metrics.evaluated(Point.FILTER, plugin.name, len(nodes))
            if isinstance(mask, np.ndarray) and mask.dtype == np.bool_ and mask.shape == (len(nodes),):
                return mask
            return failure_of(mask, "a mask of the Nodes")

        def about(node: NodeInfo) -> bool:
            answer = self._ask(Point.FILTER, plugin.name, state, plugin.filter, state, pod, node)
            self.metrics.evaluated(Point.FILTER, plugin.name, 1)
            return answer is None

        reused, depends_on = state.read(REUSED, Reused), self._depends_on(plugin, pod)
        if reused is None or depends_on is None:
            return about_all()
        return reused.masks.of(plugin.name, depends_on, nodes, about_all, about)

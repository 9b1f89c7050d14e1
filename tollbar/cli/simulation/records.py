"""What the scheduler has tried, in the annotations that the web page of kube-scheduler-simulator shows.

The format is that of https://sigs.k8s.io/kube-scheduler-simulator: for each extension point an annotation whose value
is JSON, by Node and plugin or by plugin, and the attempts so far in `result-history`.  Of an attempt it is recorded
what Filter says of each Node, also where the scheduler itself looked no further, and what the Score plugins gave.  The
Nodes that a PreFilter plugin leaves are not recorded (`prefilter-result`).

The record is bounded: so many Pods, the first that are tried; of each the last attempts, and no more bytes than the API
server takes in annotations; of each attempt so many Nodes, the one that was taken and those with the best scores first.
"""

import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import orjson

from controllers.scheduler.cycle import Attempt
from tollbar.model import pods
from tollbar.model.objects import Key, Object, annotations_of, key_of, metadata
from tollbar.model.steps import result_of
from tollbar.scheduler.algorithm import Scheduled
from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.config.load import API_VERSION, KIND
from tollbar.scheduler.framework.diagnosis import FitError
from tollbar.scheduler.framework.interface import Plugin
from tollbar.scheduler.framework.status import Status

PREFIX: Final = "kube-scheduler-simulator.sigs.k8s.io/"
MAX_PODS: Final = 1_000
"""Pods whose attempts are recorded, the first that are tried."""
MAX_NODES: Final = 100
"""Nodes that are recorded of one attempt."""
MAX_ATTEMPTS: Final = 10
"""Attempts that are recorded of one Pod, the last ones."""
_BYTES: Final = 200 * 1024
"""Of all annotations of a Pod; the API server takes 256 KiB."""
_BY_NODE: Final = frozenset({"filter-result", "score-result", "finalscore-result"})
_PASSED: Final = "passed"
_SUCCESS: Final = "success"
_VICTIM: Final = "preemption victim"


@dataclass(frozen=True, slots=True)
class _Tried:
    """An attempt: `results` by the last part of an annotation's name, `binding` those of a Pod that gets its Node."""

    results: dict[str, Any]
    binding: dict[str, dict[str, str]]

    def of_nodes(self, count: int) -> "_Tried":
        """With what is said of the first so many Nodes alone."""
        kept = set(list(self.results.get("filter-result", ()))[:count])
        by_node = {
            name: {node: said for node, said in self.results[name].items() if node in kept}
            for name in _BY_NODE & self.results.keys()
        }
        return _Tried({**self.results, **by_node}, self.binding)

    def annotations(self, *, is_bound: bool = False, nominated: str = "") -> dict[str, str]:
        after = self.binding if is_bound else {name: {} for name in self.binding}
        made_room = {nominated: {"DefaultPreemption": _VICTIM}} if nominated else {}
        given = {**self.results, **after, "postfilter-result": made_room}
        return {
            f"{PREFIX}{name}": value if isinstance(value, str) else _json(value)
            for name, value in sorted(given.items())
        }


def _packed(tried: _Tried) -> bytes:
    """What is said of many Nodes is much alike."""
    return zlib.compress(orjson.dumps((tried.results, tried.binding)), 1)


def _unpacked(packed: bytes) -> _Tried:
    return _Tried(*orjson.loads(zlib.decompress(packed)))


class Records:
    """Is told of attempts (`controllers.scheduler.cycle.Observe`)."""

    def __init__(self) -> None:
        self._left_out: set[Key] = set()
        self._tried: dict[Key, list[bytes]] = {}

    def __call__(self, attempt: Attempt, result: Scheduled | FitError | Status) -> None:
        key = attempt.pod.key
        if key not in self._tried and len(self._tried) >= MAX_PODS:
            self._left_out.add(key)
            return
        found = self._tried.setdefault(key, [])
        found.append(_packed(_recorded(attempt, result)))
        del found[:-MAX_ATTEMPTS]

    @property
    def notice(self) -> str:
        """What whoever reads the record has to know; empty if it has every Pod."""
        left = len(self._left_out)
        return f"the attempts of {MAX_PODS:,} Pods are in it, and nothing of {left:,} more" if left else ""

    def annotated(self, pod: Object) -> Object:
        """The Pod, as it is when nothing is left to happen, with the annotations about its attempts."""
        if key_of(pod) not in self._tried:
            return pod
        *earlier, last = map(_unpacked, self._tried[key_of(pod)])
        nominated = (pod.get("status") or {}).get("nominatedNodeName") or ""
        history, nodes = [each.annotations() for each in earlier], MAX_NODES
        while True:
            latest = last.of_nodes(nodes).annotations(is_bound=pods.is_bound(pod), nominated=nominated)
            shown = {**latest, f"{PREFIX}result-history": _json([*history, latest])}
            annotations = {**annotations_of(pod), **shown}
            size = sum(len(name.encode()) + len(text.encode()) for name, text in annotations.items())
            if size <= _BYTES or (nodes == 1 and not history):
                return {**pod, "metadata": {**metadata(pod), "annotations": annotations}}
            if history:
                del history[0]
            else:
                nodes //= 2

    def snapshot(self, objects: Callable[[str], list[Object]], profiles: Iterable[str]) -> Object:
        """What the web page imports: the objects of each kind, and a scheduler for each of these profiles.

        The simulator starts its own scheduler with the configuration, and fails without one.  It has kube-scheduler's
        plugins, so those are what the profiles have there.
        """
        return {
            "pods": [self.annotated(pod) for pod in objects("Pod")],
            "nodes": objects("Node"),
            "pvs": objects("PersistentVolume"),
            "pvcs": objects("PersistentVolumeClaim"),
            "storageClasses": objects("StorageClass"),
            "priorityClasses": objects("PriorityClass"),
            "namespaces": objects("Namespace"),
            "schedulerConfig": {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "profiles": [{"schedulerName": name} for name in profiles],
            },
        }


def _recorded(attempt: Attempt, result: Scheduled | FitError | Status) -> _Tried:
    state, plugins = attempt.state, attempt.framework.plugins
    scheduled = result if isinstance(result, Scheduled) else None
    scores = scheduled.scores if scheduled is not None else None
    shown = list(_shown(attempt, result))
    rows = {node.name: row for row, node in enumerate(scores.nodes)} if scores is not None else {}
    given = scores.by_plugin if scores is not None else {}
    scored = [node.name for node in shown if node.name in rows]
    results = {
        "prefilter-result": {},
        "prefilter-result-status": _status(plugins.pre_filter, state.skip_filter),
        "filter-result": {node.name: _filtered(attempt, node) for node in shown},
        "prescore-result": _status(plugins.pre_score, state.skip_score) if scores is not None else {},
        "score-result": {
            name: {plugin: str(each.raw[rows[name]]) for plugin, each in given.items()} for name in scored
        },
        "finalscore-result": {
            name: {plugin: str(each.normalized[rows[name]] * each.weight) for plugin, each in given.items()}
            for name in scored
        },
        "permit-result": _status(plugins.permit) if scheduled is not None else {},
        "permit-result-timeout": {},
        "selected-node": scheduled.node_name if scheduled is not None else "",
    }
    binding = {"reserve-result": plugins.reserve, "prebind-result": plugins.pre_bind, "bind-result": plugins.bind[:1]}
    return _Tried(results, {name: _status(each) for name, each in binding.items()})


def _status(plugins: Iterable[Plugin], skipped: Collection[str] = ()) -> dict[str, str]:
    """By plugin; one that was skipped has nothing to say."""
    return {each.name: "" if each.name in skipped else _SUCCESS for each in plugins}


def _shown(attempt: Attempt, result: Scheduled | FitError | Status) -> Iterator[NodeInfo]:
    """The Nodes that are recorded, the one that was taken first; none where Filter was not called."""
    if isinstance(result, Status) or (isinstance(result, FitError) and result.diagnosis.pre_filter_message):
        return
    first: list[NodeInfo] = []
    if isinstance(result, Scheduled):
        first = [node for node in attempt.framework.handle.snapshot if node.name == result.node_name]
        if result.scores is not None:  # there are none of the only Node that fits
            best = result.scores.totals.argsort(kind="stable")[::-1][:MAX_NODES].tolist()
            scored = (result.scores.nodes[place] for place in best)
            first = [*first, *(node for node in scored if node.name != result.node_name)][:MAX_NODES]
    known = {node.name for node in first}
    yield from first
    others = (node for node in attempt.framework.handle.snapshot if node.name not in known)
    for _, node in zip(range(MAX_NODES - len(first)), others, strict=False):
        yield node


def _filtered(attempt: Attempt, node: NodeInfo) -> dict[str, str]:
    """By plugin, up to the first that rejects the Node."""
    state, framework = attempt.state.clone(), attempt.framework
    status = result_of(framework.filter_with_nominated_pods(state, attempt.pod, node))
    found: dict[str, str] = {}
    for plugin in framework.filters(state):
        if status is not None and plugin.name == status.plugin:
            found[plugin.name] = status.message
            break
        found[plugin.name] = _PASSED
    return found


def _json(value: object) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()

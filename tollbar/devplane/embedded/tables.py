"""Tables (meta.k8s.io/v1 Table), as `kubectl get` prints them.

Custom resources have their additionalPrinterColumns, built-in kinds some of the columns that
k8s.io/kubernetes/pkg/printers/internalversion has; most have name and age only.
"""

import re
from collections.abc import Iterable
from typing import Any, Final

from tollbar.devplane.embedded.kinds import Column, Kind
from tollbar.model import claims, pods, timestamps
from tollbar.model.objects import Object, metadata, spec

_STEP: Final = re.compile(
    r"""\.?((?:\\.|[^.\[\]\\])+)|\[(\d+|\*)\]|\['([^']+)'\]|\[\?\(@\.([\w.]+)==["']([^"']*)["']\)\]"""
)
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86_400, 365 * 86_400
_UNITS: Final = (
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
    (float("inf"), _YEAR, "y", 0, ""),
)
"""Up to which age in seconds which unit is used, and which smaller unit beside it."""


def table(kind: Kind, objects: Iterable[Object], meta: Object, now: float, include: str = "Metadata") -> Object:
    """`meta` is the list's metadata, `now` the time that ages count to; `include` is Metadata, Object or None."""
    columns = kind.columns or _COLUMNS.get(kind.resource.kind, (_AGE,))
    if kind.resource.kind != "Event":
        columns = (_NAME, *columns)
    members = ("name", "type", "format", "description", "priority")
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
        "columnDefinitions": [{member: getattr(each, member) for member in members} for each in columns],
        "rows": [
            {"cells": [_cell(each, obj, now) for each in columns], "object": _shown(obj, include)} for obj in objects
        ],
    }


def _shown(obj: Object, include: str) -> Object | None:
    if include in ("Object", "None"):
        return obj if include == "Object" else None
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def _cell(column: Column, obj: Object, now: float) -> Any:
    found = at_path(obj, column.path) if isinstance(column.path, str) else [column.path(obj)]
    if not found:
        return None
    if column.type == "date":
        return age(found[0], now)
    if column.type == "string":
        return ",".join(str(each).lower() if isinstance(each, bool) else str(each) for each in found)
    return found[0]


def at_path(obj: Any, path: str) -> list[Any]:
    """The values at a JSONPath of a CRD's column: members, indexes, `[*]` and `[?(@.key=="value")]`."""
    found = [obj]
    for name, index, quoted, key, value in _STEP.findall(path):
        if index or key:
            lists = [each for each in found if isinstance(each, list)]
            found = [each for members in lists for each in _selected(members, index, key, value)]
        else:
            member = quoted or re.sub(r"\\(.)", r"\1", name)
            found = [each[member] for each in found if isinstance(each, dict) and each.get(member) is not None]
    return found


def _selected(members: list[Any], index: str, key: str, value: str) -> list[Any]:
    if key:
        return [each for each in members if at_path(each, f".{key}") == [value]]
    return members if index == "*" else members[int(index) : int(index) + 1]


def age(moment: str | None, now: float) -> str:
    """How long ago, in one unit or two (HumanDuration of apimachinery)."""
    if not moment:
        return "<unknown>"
    seconds = max(0, int(now - timestamps.parse(moment)))
    _, unit, letter, small, second = next(each for each in _UNITS if seconds < each[0])
    rest = seconds % unit // small if small else 0
    return f"{seconds // unit}{letter}" + (f"{rest}{second}" if rest else "")


def _ready(pod: Object) -> str:
    states = (pod.get("status") or {}).get("containerStatuses") or ()
    return f"{sum(bool(each.get('ready')) for each in states)}/{len(spec(pod).get('containers') or ())}"


def _pod_status(pod: Object) -> str:
    if pods.is_deleting(pod):
        return "Terminating"
    status = pod.get("status") or {}
    if pods.gate_names(pod):
        return "SchedulingGated"
    said = status.get("reason") or status.get("phase") or "Unknown"
    for each in status.get("containerStatuses") or ():
        state = each.get("state") or {}
        said = (state.get("waiting") or {}).get("reason") or (state.get("terminated") or {}).get("reason") or said
    return str(said)


def _restarts(pod: Object) -> str:
    return str(sum(each.get("restartCount", 0) for each in (pod.get("status") or {}).get("containerStatuses") or ()))


def _first_seen(event: Object) -> Any:
    """Of a core Event or of one of events.k8s.io."""
    return event.get("deprecatedFirstTimestamp") or event.get("firstTimestamp") or event.get("eventTime")


def _last_seen(event: Object) -> Any:
    last = event.get("deprecatedLastTimestamp") or event.get("lastTimestamp")
    return (event.get("series") or {}).get("lastObservedTime") or last or _first_seen(event)


def _about(event: Object) -> str:
    about = event.get("regarding") or event.get("involvedObject") or {}
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def _claim(claim: Object) -> str:
    states = ["deleted"] if metadata(claim).get("deletionTimestamp") else []
    if claims.allocation(claim):
        states += ["allocated", *(["reserved"] if claims.reserved_for(claim) else [])]
    return ",".join(states) or "pending"


def _node(node: Object) -> str:
    ready = at_path(node, '.status.conditions[?(@.type=="Ready")].status')
    words = ["Ready" if each == "True" else "NotReady" for each in ready] or ["Unknown"]
    return ",".join([*words, *(["SchedulingDisabled"] if spec(node).get("unschedulable") else [])])


_NAME: Final = Column("Name", path=".metadata.name", format="name")
_AGE: Final = Column("Age", "date", ".metadata.creationTimestamp")
_ROLE: Final = (Column("Role", path=".roleRef.name"), _AGE)
_COLUMNS: Final[dict[str, tuple[Column, ...]]] = {
    "Pod": (
        Column("Ready", path=_ready),
        Column("Status", path=_pod_status),
        Column("Restarts", path=_restarts),
        _AGE,
        Column("IP", path=lambda pod: (pod.get("status") or {}).get("podIP") or "<none>", priority=1),
        Column("Node", path=lambda pod: spec(pod).get("nodeName") or "<none>", priority=1),
    ),
    "Event": (
        Column("Last Seen", "date", _last_seen),
        Column("Type", path=".type"),
        Column("Reason", path=".reason"),
        Column("Object", path=_about),
        Column("Message", path=lambda event: (event.get("note") or event.get("message") or "").strip()),
        Column("First Seen", "date", _first_seen, priority=1),
        Column("Name", path=".metadata.name", priority=1),
    ),
    "Node": (Column("Status", path=_node), _AGE, Column("Version", path=".status.nodeInfo.kubeletVersion")),
    "Namespace": (Column("Status", path=".status.phase"), _AGE),
    "Lease": (Column("Holder", path=".spec.holderIdentity"), _AGE),
    "ResourceClaim": (Column("State", path=_claim), _AGE),
    "ResourceSlice": (
        Column("Node", path=".spec.nodeName"),
        Column("Driver", path=".spec.driver"),
        Column("Pool", path=".spec.pool.name"),
        _AGE,
    ),
    "RoleBinding": _ROLE,
    "ClusterRoleBinding": _ROLE,
}

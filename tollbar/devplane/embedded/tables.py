"""Tables, as `kubectl get` prints them: columns and cells of every kind.

Called by the server when a client accepts a Table.  Custom resources have their additionalPrinterColumns, built-in
kinds the cells that k8s.io/kubernetes/pkg/printers/internalversion gives them, as far as people look at them here.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from tollbar.devplane.embedded.kinds import Column, Kind
from tollbar.model import claims, pods, timestamps
from tollbar.model.objects import Object, metadata, spec

_AGE: Final = Column("Age")
_NAME: Final = Column("Name", description="Name must be unique within a namespace.", format="name")
_UNKNOWN: Final = "<unknown>"
_STEP: Final = re.compile(
    r"""\.?((?:\\.|[^.\[\]\\])+)|\[(\d+|\*)\]|\['([^']+)'\]|\[\?\(@\.([\w.]+)==["']([^"']*)["']\)\]"""
)


class _Printer(NamedTuple):
    """The columns of a kind after its name, and their cells."""

    columns: tuple[Column, ...]
    cells: Callable[[Object, float], list[Any]]


def table(kind: Kind, objects: Iterable[Object], meta: Object, now: float, include: str = "Metadata") -> Object:
    """`meta` is the list's metadata, `now` the time that ages count to; `include` is Metadata, Object or None."""
    printer = _printer(kind)
    columns = printer.columns if kind.resource.kind == "Event" else (_NAME, *printer.columns)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
        "columnDefinitions": [_definition(each) for each in columns],
        "rows": [
            {
                "cells": [metadata(obj)["name"], *printer.cells(obj, now)][-len(columns) :],
                "object": _shown(obj, include),
            }
            for obj in objects
        ],
    }


def _shown(obj: Object, include: str) -> Object | None:
    if include == "Object":
        return obj
    if include == "None":
        return None
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def _definition(column: Column) -> Object:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def _printer(kind: Kind) -> _Printer:
    if kind.custom:
        return _Printer(kind.columns, lambda obj, now: [_cell(each, obj, now) for each in kind.columns])
    return _PRINTERS.get(kind.resource.kind, _PLAIN)


def _cell(column: Column, obj: Object, now: float) -> Any:
    found = at_path(obj, column.path)
    if not found:
        return None
    if column.type == "date":
        return age(found[0], now)
    if column.type == "string":
        return ",".join(str(each).lower() if isinstance(each, bool) else str(each) for each in found)
    return found[0]


def at_path(obj: Any, path: str) -> list[Any]:
    """What a JSONPath of a CRD's column finds: members, indexes, `[*]` and `[?(@.key=="value")]`."""
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
    """How long ago, in the two coarsest units that matter (HumanDuration of apimachinery)."""
    if not moment:
        return _UNKNOWN
    seconds = int(now - timestamps.parse(moment))
    if seconds < 0:
        return "<invalid>" if seconds < -1 else "0s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    for below, text in (
        (120, f"{seconds}s"),
        (600, _two(minutes, "m", seconds % 60, "s")),
        (10_800, f"{minutes}m"),
        (28_800, _two(hours, "h", minutes % 60, "m")),
        (172_800, f"{hours}h"),
        (691_200, _two(days, "d", hours % 24, "h")),
        (63_072_000, f"{days}d"),
    ):
        if seconds < below:
            return text
    return _two(days // 365, "y", days % 365, "d") if days < 8 * 365 else f"{days // 365}y"


def _two(large: int, unit: str, small: int, smaller: str) -> str:
    return f"{large}{unit}{small}{smaller}" if small else f"{large}{unit}"


def _created(obj: Object, now: float) -> str:
    return age(metadata(obj).get("creationTimestamp"), now)


def _pod(pod: Object, now: float) -> list[Any]:
    status, body = pod.get("status") or {}, spec(pod)
    states = status.get("containerStatuses") or []
    ready = sum(bool(each.get("ready")) for each in states)
    restarts = sum(each.get("restartCount", 0) for each in states)
    readiness = [each["conditionType"] for each in body.get("readinessGates") or ()]
    return [
        f"{ready}/{len(body.get('containers') or ())}",
        _pod_status(pod, status),
        str(restarts),
        _created(pod, now),
        status.get("podIP") or "<none>",
        body.get("nodeName") or "<none>",
        status.get("nominatedNodeName") or "<none>",
        ",".join(readiness) or "<none>",
    ]


def _pod_status(pod: Object, status: Object) -> str:
    if pods.is_deleting(pod):
        return "Terminating"
    said = status.get("reason") or status.get("phase") or "Unknown"
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            said = "SchedulingGated"
    for each in status.get("containerStatuses") or ():
        state = each.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
        said = waiting.get("reason") or ended.get("reason") or said
    return str(said)


def _event(event: Object, now: float) -> list[Any]:
    """An Event of either group."""
    about = event.get("regarding") or event.get("involvedObject") or {}
    series = event.get("series") or {}
    last = series.get("lastObservedTime") or event.get("deprecatedLastTimestamp") or event.get("lastTimestamp")
    first = event.get("deprecatedFirstTimestamp") or event.get("firstTimestamp") or event.get("eventTime")
    return [
        age(last or first, now),
        event.get("type", ""),
        event.get("reason", ""),
        f"{about.get('kind', '').lower()}/{about.get('name', '')}",
        about.get("fieldPath", ""),
        event.get("reportingController") or event.get("reportingComponent") or "",
        (event.get("note") or event.get("message") or "").strip(),
        age(first, now),
        series.get("count", 1),
        metadata(event)["name"],
    ]


def _claim(claim: Object, now: float) -> list[Any]:
    states = ["deleted"] if metadata(claim).get("deletionTimestamp") else []
    if claims.allocation(claim):
        states += ["allocated", *(["reserved"] if claims.reserved_for(claim) else [])]
    return [",".join(states) or "pending", _created(claim, now)]


def _node(node: Object, now: float) -> list[Any]:
    status = node.get("status") or {}
    ready = [each for each in status.get("conditions") or () if each.get("type") == "Ready"]
    words = [("Ready" if each.get("status") == "True" else "NotReady") for each in ready] or ["Unknown"]
    if spec(node).get("unschedulable"):
        words.append("SchedulingDisabled")
    return [",".join(words), "<none>", _created(node, now), (status.get("nodeInfo") or {}).get("kubeletVersion", "")]


def _plain(*paths: str) -> Callable[[Object, float], list[Any]]:
    """Cells at dotted paths (`#path` counts), then the age."""

    def cells(obj: Object, now: float) -> list[Any]:
        found: list[Any] = []
        for path in paths:
            values = at_path(obj, f".{path.removeprefix('#')}")
            if path.startswith("#"):
                found.append(sum(map(len, values)))
            else:
                found.append(values[0] if values else "")
        return [*found, _created(obj, now)]

    return cells


def _columns(*names: str) -> tuple[Column, ...]:
    """Columns by name; a name with a plus is shown on request only."""
    return tuple(Column(name.removeprefix("+"), priority=int(name.startswith("+"))) for name in names)


_EVENT: Final = _columns(
    "Last Seen",
    "Type",
    "Reason",
    "Object",
    "+Subobject",
    "+Source",
    "Message",
    "+First Seen",
    "+Count",
    "+Name",
)
_PLAIN: Final = _Printer((_AGE,), _plain())
_PRINTERS: Final = {
    "Pod": _Printer(
        _columns("Ready", "Status", "Restarts", "Age", "+IP", "+Node", "+Nominated Node", "+Readiness Gates"), _pod
    ),
    "Event": _Printer(_EVENT, _event),
    "Node": _Printer(_columns("Status", "Roles", "Age", "Version"), _node),
    "Namespace": _Printer(_columns("Status", "Age"), _plain("status.phase")),
    "ConfigMap": _Printer((Column("Data", "integer"), _AGE), _plain("#data")),
    "Secret": _Printer((Column("Type"), Column("Data", "integer"), _AGE), _plain("type", "#data")),
    "Lease": _Printer(_columns("Holder", "Age"), _plain("spec.holderIdentity")),
    "ResourceClaim": _Printer(_columns("State", "Age"), _claim),
    "ResourceSlice": _Printer(
        _columns("Node", "Driver", "Pool", "Age"), _plain("spec.nodeName", "spec.driver", "spec.pool.name")
    ),
    "RoleBinding": _Printer(_columns("Role", "Age"), _plain("roleRef.name")),
    "ClusterRoleBinding": _Printer(_columns("Role", "Age"), _plain("roleRef.name")),
    "MutatingWebhookConfiguration": _Printer((Column("Webhooks", "integer"), _AGE), _plain("#webhooks")),
    "ValidatingWebhookConfiguration": _Printer((Column("Webhooks", "integer"), _AGE), _plain("#webhooks")),
    "PriorityClass": _Printer((Column("Value", "integer"), _AGE), _plain("value")),
}

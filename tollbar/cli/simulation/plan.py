"""What a simulation begins with: the objects of a cluster and of files, and the Pods that are created then."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import click

from tollbar import wellknown
from tollbar.cli import inputs
from tollbar.cli.clusterdump import ClusterDump
from tollbar.cli.manifests import Located, Unreadable
from tollbar.decide.pods import justification, tolerations
from tollbar.model import pods
from tollbar.model.objects import Object, annotations_of, controller_of, key_of, labels_of, metadata, spec
from tollbar.model.resources import NAMESPACES, NODES, PODS, RESOURCE_SLICES
from tollbar.model.texts import counted


@dataclass(slots=True)
class Plan:
    """What a simulation begins with: `objects` that are there, and what is created then, each with what it is called.

    `moved` are Pods that were on Nodes which are gone, `new` are Pods and workloads of the files.  `unread` has, by
    kind, why the cluster's objects of that kind are not known.  `unserved` are the kinds that its API server serves in
    no version that is read; one that the files bring is none of them.
    """

    objects: list[Object]
    new: list[tuple[str, Object]]
    start: float
    moved: list[tuple[str, Object]] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)
    unserved: frozenset[str] = frozenset()
    notes: list[str] = field(default_factory=list)


def plan(files: Sequence[Located], base: ClusterDump | None, without: Sequence[str], start: float) -> Plan:
    """What to simulate.  Raises UsageError for a Node that does not exist, Unreadable for what is there twice."""
    once = set()
    known = {(obj["kind"], key_of(obj)): obj for obj in (base.items if base is not None else ())}
    made = Plan([], [], start, unread=dict(base.unread) if base is not None else {})
    for located in files:
        obj = located.obj
        if obj["kind"] == "DaemonSet":
            made.notes.append(f"DaemonSet {key_of(obj)}: passed over; Tollbar leaves its Pods alone")
        elif obj["kind"] in inputs.WORKLOADS or (obj["kind"] == PODS.kind and not pods.is_bound(obj)):
            title = f"{obj['kind']} {key_of(obj)}".rstrip("/")
            if key_of(obj).name and title in once:
                raise Unreadable(f"{located.file}:{located.line('')}: {title}: is in the files twice")
            once.add(title)
            made.new.append((title, obj))
        else:
            known[obj["kind"], key_of(obj)] = {**obj, "metadata": {"generation": 1, **metadata(obj)}}
    for kind, count in Counter(kind for kind, _ in known if kind in inputs.OF_GATE_CLASSES).items():
        made.notes.append(f"{counted(count, kind)} passed over: no gate class decides in a simulation")
    made.moved = _without(known, without)
    made.objects = list(known.values())
    made.unserved = frozenset(base.unserved if base is not None else ()) - {obj["kind"] for obj in made.objects}
    namespaces = {key_of(obj).name for kind, obj in ((o["kind"], o) for o in made.objects) if kind == NAMESPACES.kind}
    for name in sorted({key_of(obj).namespace for _, obj in (*made.new, *made.moved)} - namespaces):
        made.objects.append(inputs.new_namespace(name))
        if base is not None:
            made.notes.append(f"namespace {name} is not in the cluster: simulated without labels")
    return made


def _without(known: dict[Any, Object], names: Sequence[str]) -> list[tuple[str, Object]]:
    """Take these Nodes away with their devices and Pods; the Pods that somebody would create again, as `Plan.moved`."""
    nodes = {key_of(obj).name: obj for obj in known.values() if obj["kind"] == NODES.kind}
    for name in names:
        if not any(fnmatchcase(node, name) for node in nodes):
            raise click.UsageError(f"there is no Node {name}")
    gone = {node for node in nodes if any(fnmatchcase(node, name) for name in names)}
    moved = []
    for key, obj in list(known.items()):
        node = spec(obj).get("nodeName")
        if obj["kind"] == NODES.kind and key_of(obj).name in gone:
            del known[key]
        elif obj["kind"] in (RESOURCE_SLICES.kind, PODS.kind) and node in gone:
            del known[key]
            is_made_again = controller_of(obj) is not None and not pods.is_daemon(obj) and not pods.is_mirror(obj)
            if obj["kind"] == PODS.kind and is_made_again and not pods.is_terminal(obj):
                moved.append((f"moved from {node}", _again(obj, labels_of(nodes[node]))))
    return moved


def _again(pod: Object, node_labels: Mapping[str, str]) -> Object:
    """The Pod as its controller would create it again: without Node and status, and without what was added to it.

    Added were the labels that the API server copied from its Node, and what Tollbar gave.
    """
    copied = pods.topology_labels(node_labels).items()
    bare = tolerations.without_recorded(pod, [each.toleration for each in justification.given(pod)])
    meta = {name: value for name, value in metadata(pod).items() if name not in ("uid", "creationTimestamp")}
    meta["labels"] = {
        name: value
        for name, value in labels_of(pod).items()
        if name != wellknown.LABEL_GATE and (name, value) not in copied
    }
    meta["annotations"] = {
        name: value for name, value in annotations_of(pod).items() if name != wellknown.ANNOTATION_PROVENANCE
    }
    body = {name: value for name, value in spec(bare).items() if name != "nodeName"}
    return {**PODS.type_meta, "metadata": meta, "spec": body}

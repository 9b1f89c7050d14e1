"""What comes of a scenario, in terms that do not depend on chance: what two controllers are compared by.  Pure.

Names that the API server chose, uids, times and versions are replaced by what they stand for; of a claim's history
remains the order of its states, of the controller's writes what each did to which object.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from history.recording import Change

from parity.dsl import POD_CLAIM
from tollbar.devplane.audit import COMPLETE, Record
from tollbar.model.objects import Object, metadata, uid_of

_DROPPED: Final = frozenset(
    {
        "creationTimestamp",
        "resourceVersion",
        "managedFields",
        "uid",
        "namespace",
        "generation",
        "deletionGracePeriodSeconds",
        "conditions",
        "startTime",
        "podIP",
        "podIPs",
        "hostIP",
        "hostIPs",
        "containerStatuses",
        "initContainerStatuses",
        "allocationTimestamp",
        "observedGeneration",
        "qosClass",
    }
)
_POD_SPEC: Final = ("nodeName", "resourceClaims", "schedulingGates", "schedulingGroup")
_MAPS: Final = frozenset({"reservedFor", "resourceClaimStatuses"})
"""Lists whose order says nothing."""
_FREE: Final = "free"
_GONE: Final = "gone"
_VERBS: Final = {"update": "write", "patch": "write"}
"""An update with a resourceVersion and a patch with a uid are ways of saying the same."""
_FINISHED: Final = ("Succeeded", "Failed")
_REFUSED: Final = 300
_CONFLICT: Final = 409
_NOT_FOUND: Final = 404
_REASONS: Final = ("FailedResourceClaimCreation", "ReservationBlocked")


@dataclass(frozen=True)
class Trace:
    """Of one scenario.  Everything is plain data, keyed by what objects are called here."""

    objects: Mapping[str, Any] = field(default_factory=dict)
    """As they are in the end, by kind and label."""
    history: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """States of each claim in their order."""
    writes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What the controller wrote of each object and was granted, in order; the same again and again is said once."""
    count: int = 0
    """How many writes that were."""
    refused: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What the controller tried to write of each object and the API server refused, with the code; each said once."""
    warnings: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Reasons and notes of the controller's Warning events, by object; each said once."""
    in_vain: Sequence[str] = ()
    """What the scenario waited for in vain."""

    def comparable(self) -> Mapping[str, Any]:
        """Without how many writes it took, and without the claims that a Pod got after it had finished, if they went
        again: upstream makes some or none, by chance (the difference `finished-pods-get-no-claims`).
        """
        finished = [
            name.removeprefix("Pod ")
            for name, obj in self.objects.items()
            if name.startswith("Pod ") and (obj.get("status") or {}).get("phase") in _FINISHED
        ]
        later = {
            label
            for label, states in self.history.items()
            if "#" in label and label.partition("/")[0] in finished and list(states) == [_FREE, _GONE]
        }
        found: Any = asdict(self)
        del found["count"]
        for label in later:
            del found["history"][label]
            found["writes"].pop(f"resourceclaims <{label}>", None)
        first = {f"<{label}>": f"<{label.partition('#')[0]}>" for label in later}
        found["objects"] = _replaced(found["objects"], first)
        return found


@dataclass(frozen=True, slots=True)
class Place:
    """Where two traces differ; None where one side has nothing."""

    path: tuple[str, ...]
    upstream: Any
    ours: Any

    def __str__(self) -> str:
        return f"{' / '.join(self.path)}: upstream {self.upstream}, ours {self.ours}"


def apart(upstream: Trace, ours: Trace) -> list[Place]:
    """Every place where two traces differ."""
    return list(_apart((), upstream.comparable(), ours.comparable()))


def _apart(path: tuple[str, ...], upstream: Any, ours: Any) -> Iterator[Place]:
    if isinstance(upstream, dict) and isinstance(ours, dict):
        for name in sorted({*upstream, *ours}):
            yield from _apart((*path, name), upstream.get(name), ours.get(name))
    elif upstream != ours:
        yield Place(path, upstream, ours)


class Names:
    """Labels of objects: their name, or for a generated claim whose it is; the n-th of a label has a number."""

    def __init__(self, changes: Iterable[Change]) -> None:
        self._by_uid: dict[str, str] = {}
        self._by_name: dict[str, str] = {}
        seen: Counter[str] = Counter()
        for change in changes:
            uid = uid_of(change.object)
            if uid not in self._by_uid:
                label = _label(change.object)
                seen[change.kind, label] += 1
                number = seen[change.kind, label]
                self._by_uid[uid] = f"{label}#{number}" if number > 1 else label
                if "generateName" in metadata(change.object):
                    self._by_name[metadata(change.object)["name"]] = f"<{self._by_uid[uid]}>"

    def of(self, obj: Object) -> str:
        return self._by_uid[uid_of(obj)]

    def of_uid(self, uid: str) -> str:
        return self._by_uid.get(uid, "nobody")

    def of_name(self, name: str) -> str:
        return self._by_name.get(name, name)


def _label(obj: Object) -> str:
    """Whose it is, for a generated claim."""
    meta = metadata(obj)
    if "generateName" not in meta:
        return str(meta["name"])
    owner = next((each["name"] for each in meta.get("ownerReferences", ())), "nobody")
    return f"{owner}/{meta.get('annotations', {}).get(POD_CLAIM, 'unnamed')}"


def _replaced(value: Any, by: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _replaced(member, by) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced(each, by) for each in value]
    return by.get(value, value) if isinstance(value, str) else value


def trace(
    changes: Sequence[Change],
    records: Iterable[Record],
    events: Iterable[Object],
    user: str,
    in_vain: Sequence[str],
) -> Trace:
    """Of one namespace: its changes, the audit log's records and the events there."""
    names = Names(changes)
    collected, unprotected = _collected(changes)
    written = [
        each
        for each in records
        if _is_write_of(each, user)
        and each.name not in unprotected
        and not (each.verb == "delete" and each.name in collected)
    ]
    granted = [each for each in written if each.code < _REFUSED]
    return Trace(
        objects=objects(changes, names),
        history=_history(changes, names, unprotected),
        writes=_writes(granted, names),
        count=len(granted),
        refused=_refused(written, names),
        warnings=_warnings(events, names),
        in_vain=tuple(in_vain),
    )


def objects(changes: Sequence[Change], names: Names | None = None) -> dict[str, Any]:
    """What is there at the end of these changes, by kind and label."""
    names = names or Names(changes)
    last: dict[str, Change] = {uid_of(change.object): change for change in changes}
    return {
        f"{change.kind} {names.of(change.object)}": plain(_part(change), names)
        for change in last.values()
        if not change.deleted
    }


def _part(change: Change) -> Object:
    """Of a Pod what claims have to do with."""
    if change.kind != "Pod":
        return change.object
    wanted = {name: value for name, value in change.object["spec"].items() if name in _POD_SPEC}
    return {**change.object, "spec": wanted}


def plain(value: Any, names: Names) -> Any:
    """Without what is by chance, with labels in the place of names."""
    if isinstance(value, dict):
        kept = {name: plain(member, names) for name, member in value.items() if name not in _DROPPED}
        if "deletionTimestamp" in value:
            kept["deletionTimestamp"] = "set"
        if "uid" in value and "kind" not in value.get("metadata", {"kind": ""}):
            kept["uid"] = names.of_uid(value["uid"])
        for name in _MAPS & kept.keys():
            kept[name] = sorted(kept[name], key=str)
        return kept
    if isinstance(value, list):
        return [plain(each, names) for each in value]
    return names.of_name(value) if isinstance(value, str) else value


def _history(changes: Iterable[Change], names: Names, unprotected: Set[str]) -> dict[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for change in changes:
        if change.kind != "ResourceClaim":
            continue
        states = found[names.of(change.object)]
        if change.deleted:
            # Whether the last finalizer goes before the garbage collector comes or after it is by chance.
            if len(states) > 1 and states[-1] == _FREE:
                states.pop()
            if metadata(change.object)["name"] in unprotected:
                owners = [names.of_uid(each["uid"]) for each in metadata(change.object)["ownerReferences"]]
                while len(states) > 1 and not any(owner in states[-1] for owner in owners):
                    states.pop()
            states.append(_GONE)
        elif (state := _state(change.object, names)) not in states[-1:]:
            states.append(state)
    return dict(found)


def _state(claim: Object, names: Names) -> str:
    """Deletion is left out: when the garbage collector comes along is by chance."""
    status = claim.get("status") or {}
    entries = sorted(
        names.of_uid(each["uid"]) if each["resource"] in ("pods", "podgroups") else each["name"]
        for each in status.get("reservedFor") or ()
    )
    parts = (
        "protected" if metadata(claim).get("finalizers") else "",
        "allocated" if "allocation" in status else "",
        f"reserved for {', '.join(entries)}" if entries else "",
    )
    return ", ".join(part for part in parts if part) or _FREE


def _collected(changes: Iterable[Change]) -> tuple[set[str], set[str]]:
    """Names of claims whose Pod is gone: the garbage collector deletes them, too, and who is first is by chance.

    Secondly those of them that never had a finalizer: what is written of them before they are gone is by chance as
    well.
    """
    gone = {uid_of(change.object) for change in changes if change.kind == "Pod" and change.deleted}
    claims = [metadata(change.object) for change in changes if change.kind == "ResourceClaim"]
    collected = {
        each["name"] for each in claims if any(owner["uid"] in gone for owner in each.get("ownerReferences", ()))
    }
    return collected, collected - {each["name"] for each in claims if each.get("finalizers")}


def _is_write_of(record: Record, user: str) -> bool:
    return record.user == user and record.stage == COMPLETE and record.is_write and record.resource != "events"


def _writes(granted: Iterable[Record], names: Names) -> dict[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for record in granted:
        name = names.of_name(record.name) or "new"
        if (what := _what(record)) not in found[f"{record.resource} {name}"][-1:]:
            found[f"{record.resource} {name}"].append(what)
    return dict(found)


def _what(record: Record) -> str:
    return f"{_VERBS.get(record.verb, record.verb)} {record.subresource}".strip()


def _refused(written: Iterable[Record], names: Names) -> dict[str, list[str]]:
    """Conflicts are by chance, and so are refusals of what is gone already."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for record in written:
        if record.code >= _REFUSED and record.code not in (_CONFLICT, _NOT_FOUND):
            found[f"{record.resource} {names.of_name(record.name) or 'new'}"].add(f"{_what(record)}: {record.code}")
    return {name: sorted(each) for name, each in found.items()}


def _warnings(events: Iterable[Object], names: Names) -> dict[str, list[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for event in events:
        if event.get("type") == "Warning" and event.get("reason") in _REASONS:
            about = event["regarding"]
            label = f"{about['kind']} {names.of_uid(about['uid'])}"
            found[label].add(f"{event['reason']}: {_note(event['note'])}")
    return {name: sorted(each) for name, each in found.items()}


def _note(note: str) -> str:
    """Without what client-go says of many alike; upstream writes a space for the name that the claim has not yet."""
    return note.removeprefix("(combined from similar events): ").replace(
        "create ResourceClaim : ", "create ResourceClaim: "
    )

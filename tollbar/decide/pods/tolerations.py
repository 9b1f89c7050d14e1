"""Which tolerations a Pod lacks, and the JSON Patch that writes them: one patch per Pod, never an edit of an old entry.

How it is built and fenced: `tollbar.decide.gates.mutations`.
"""

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from tollbar import wellknown
from tollbar.decide.gates import mutations
from tollbar.decide.gates.answers import Mutation
from tollbar.decide.gates.mutations import Action
from tollbar.decide.rules.rule import Rule
from tollbar.model import names, pods
from tollbar.model.jsonpatch import Patch
from tollbar.model.objects import Object, annotations_of, labels_of, metadata, spec
from tollbar.model.tolerations import Identity, identity, validate

Via = Literal["admission", "gate", "late"]

_COMPACT: Final = json.JSONEncoder(separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Addition:
    """The tolerations that one true rule brings and that the Pod lacks."""

    rule: str
    generation: int
    tolerations: tuple[Object, ...]


def additions_for(pod: Object, rules: Iterable[Rule]) -> tuple[Addition, ...]:
    """What these true rules add.  Each toleration once, for the first rule by name; entries that exist are not touched.

    Two tolerations are the same when key, operator (empty is Equal), value, effect and tolerationSeconds are.
    """
    present = set(map(identity, pods.tolerations(pod)))
    additions = []
    for rule in sorted(rules, key=lambda rule: rule.name):
        if added := lacking(rule.tolerations, present):
            present.update(map(identity, added))
            additions.append(Addition(rule.name, rule.generation, added))
    return tuple(additions)


def lacking(wanted: Iterable[Object], present: Collection[Identity]) -> tuple[Object, ...]:
    """The wanted tolerations that are not present, each once."""
    found: dict[Identity, Object] = {}
    for toleration in wanted:
        found.setdefault(identity(toleration), toleration)
    return tuple(toleration for same, toleration in found.items() if same not in present)


def patch(pod: Object, additions: Sequence[Addition], *, via: Via, gate: Action, fenced: bool) -> Patch:
    """The operations that add these tolerations with their record, and set or remove our gate.  Empty if none."""
    return mutations.patch(pod, mutation(pod, additions, via, gate), gate=wellknown.GATE, action=gate, fenced=fenced)


def mutation(pod: Object, additions: Sequence[Addition], via: Via, gate: Action) -> Mutation:
    """What these additions change in the Pod: the tolerations, their record if there is room, and the gate's label."""
    return Mutation(
        tolerations=tuple(toleration for addition in additions for toleration in addition.tolerations),
        labels=_label(pod, gate),
        annotations=_provenance(pod, additions, via) if additions else {},
    )


def _label(pod: Object, gate: Action) -> dict[str, str]:
    if gate == "remove":
        return {wellknown.LABEL_GATE: wellknown.GATE_RELEASED}
    is_set = gate == "keep" or labels_of(pod).get(wellknown.LABEL_GATE) == wellknown.GATE_HELD
    return {} if is_set else {wellknown.LABEL_GATE: wellknown.GATE_HELD}


def _provenance(pod: Object, additions: Sequence[Addition], via: Via) -> dict[str, str]:
    text = record([*provenance_of(pod), *(entry(addition, via) for addition in additions)])
    return {wellknown.ANNOTATION_PROVENANCE: text} if has_room(pod, text) else {}


def has_room(obj: Object, text: str) -> bool:
    """Whether the API server takes this record beside the other annotations of the object."""
    annotations = {**annotations_of(obj), wellknown.ANNOTATION_PROVENANCE: text}
    return names.annotations_size(annotations) <= names.ANNOTATIONS_MAX


def entry(addition: Addition, via: Via) -> dict[str, Any]:
    """What the provenance record says about one addition."""
    return {
        "rule": addition.rule,
        "generation": addition.generation,
        "added": list(addition.tolerations),
        "via": via,
    }


def record(entries: Sequence[dict[str, Any]]) -> str:
    """The text of a provenance record."""
    return _COMPACT.encode(entries)


def provenance_of(pod: Object) -> list[dict[str, Any]]:
    """The entries of the Pod's provenance record that are as `entry` makes them: anybody may write anything there."""
    try:
        entries = json.loads(annotations_of(pod).get(wellknown.ANNOTATION_PROVENANCE) or "[]")
    except (ValueError, RecursionError):
        return []
    return [each for each in entries if _is_entry(each)] if isinstance(entries, list) else []


def _is_entry(found: Any) -> bool:
    if not isinstance(found, dict) or not isinstance(found.get("added"), list):
        return False
    types = {"rule": str, "generation": int, "via": str}
    are_typed = all(isinstance(found.get(name), type_) for name, type_ in types.items())
    return are_typed and not any(validate(each, path="") for each in found["added"])


def without_record(obj: Object) -> Object:
    """The Pod, claim or template without its provenance record."""
    kept = {name: text for name, text in annotations_of(obj).items() if name != wellknown.ANNOTATION_PROVENANCE}
    return {**obj, "metadata": {**metadata(obj), "annotations": kept}}


def without_recorded(pod: Object, added: Iterable[Object]) -> Object:
    """The Pod as it was before these tolerations were added to it."""
    identities = {identity(toleration) for toleration in added}
    kept = [toleration for toleration in pods.tolerations(pod) if identity(toleration) not in identities]
    body = {**spec(pod), "tolerations": kept}
    if not kept:
        del body["tolerations"]  # as a Pod has it that never had any
    return {**pod, "spec": body}

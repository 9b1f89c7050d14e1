"""Which tolerations a Pod lacks, and the JSON Patch that writes them: one patch per Pod, never an edit of an old entry.

The patch is built from the Pod it applies to, so that every path in it exists; a `test` of the uid, of the gate's index
and of the tolerations fences it against a Pod that has changed meanwhile (`fenced`; not at admission, where a failing
`test` in a webhook's patch would answer the user with an error).
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from tollbar import wellknown
from tollbar.decide.rules.rule import Rule
from tollbar.model import jsonpatch, pods
from tollbar.model.jsonpatch import Operation, Patch, pointer
from tollbar.model.objects import Object, annotations_of, labels_of, metadata, spec, uid_of
from tollbar.model.tolerations import identity, validate

Via = Literal["admission", "gate", "late"]

_TOTAL_ANNOTATION_BYTES: Final = 256 * 1024
"""metadata.annotations: names and values together (apimachinery, TotalAnnotationSizeLimitB)."""


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
    present = {identity(toleration) for toleration in pods.tolerations(pod)}
    additions = []
    for rule in sorted(rules, key=lambda rule: rule.name):
        lacking = []
        for toleration in rule.tolerations:
            if identity(toleration) not in present:
                present.add(identity(toleration))
                lacking.append(toleration)
        if lacking:
            additions.append(Addition(rule.name, rule.generation, tuple(lacking)))
    return tuple(additions)


def patch(
    pod: Object, additions: Sequence[Addition], *, via: Via, gate: Literal["keep", "add", "remove"], fenced: bool
) -> Patch:
    """The operations that add these tolerations with their record, and set or remove our gate.  Empty if none."""
    operations = [
        *(_gate_operations(pod, fenced) if gate == "remove" else ()),
        *(_add_gate_operations(pod) if gate == "add" else ()),
        *_toleration_operations(pod, additions, fenced),
        *_provenance_operations(pod, additions, via, fenced),
    ]
    if operations and fenced:
        operations.insert(0, jsonpatch.test("/metadata/uid", uid_of(pod)))
    return tuple(operations)


def _gate_operations(pod: Object, fenced: bool) -> Iterable[Operation]:
    place = pods.gate_names(pod).index(wellknown.GATE)
    if fenced:
        yield jsonpatch.test(pointer("spec", "schedulingGates", place, "name"), wellknown.GATE)
    yield jsonpatch.remove(pointer("spec", "schedulingGates", place))
    yield from _set(pod, "labels", wellknown.LABEL_GATE, wellknown.GATE_RELEASED, fenced)


def _add_gate_operations(pod: Object) -> Iterable[Operation]:
    gate = {"name": wellknown.GATE}
    if wellknown.GATE not in pods.gate_names(pod):
        yield (
            jsonpatch.add("/spec/schedulingGates/-", gate)
            if pods.gate_names(pod)
            else jsonpatch.add("/spec/schedulingGates", [gate])
        )
    if labels_of(pod).get(wellknown.LABEL_GATE) != wellknown.GATE_HELD:
        yield from _set(pod, "labels", wellknown.LABEL_GATE, wellknown.GATE_HELD, fenced=False)


def _toleration_operations(pod: Object, additions: Sequence[Addition], fenced: bool) -> Iterable[Operation]:
    lacking = [toleration for addition in additions for toleration in addition.tolerations]
    if not lacking:
        return
    if fenced:  # against one that was added meanwhile, by an earlier patch of ours whose answer was lost for example
        yield jsonpatch.test("/spec/tolerations", spec(pod).get("tolerations"))
    if pods.tolerations(pod):
        yield from (jsonpatch.add("/spec/tolerations/-", toleration) for toleration in lacking)
    else:
        yield jsonpatch.add("/spec/tolerations", lacking)


def _provenance_operations(pod: Object, additions: Sequence[Addition], via: Via, fenced: bool) -> Iterable[Operation]:
    if not additions:
        return
    text = record([*provenance_of(pod), *(entry(addition, via) for addition in additions)])
    others = {k: v for k, v in annotations_of(pod).items() if k != wellknown.ANNOTATION_PROVENANCE}
    size = sum(len(f"{name}{value}".encode()) for name, value in others.items()) + len(wellknown.ANNOTATION_PROVENANCE)
    if size + len(text) <= _TOTAL_ANNOTATION_BYTES:
        yield from _set(pod, "annotations", wellknown.ANNOTATION_PROVENANCE, text, fenced)


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
    return json.dumps(entries, separators=(",", ":"))


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


def without_recorded(pod: Object, added: Iterable[Object]) -> Object:
    """The Pod as it was before these tolerations were added to it."""
    identities = {identity(toleration) for toleration in added}
    kept = [toleration for toleration in pods.tolerations(pod) if identity(toleration) not in identities]
    body = {**spec(pod), "tolerations": kept}
    if not kept:
        del body["tolerations"]  # as a Pod has it that never had any
    return {**pod, "spec": body}


def _set(
    pod: Object, member: Literal["labels", "annotations"], name: str, value: str, fenced: bool
) -> Iterable[Operation]:
    """Set one label or annotation.  Adding the whole map would overwrite one that appeared meanwhile: tested for."""
    if metadata(pod).get(member):
        yield jsonpatch.add(pointer("metadata", member, name), value)
        return
    if fenced:
        yield jsonpatch.test(pointer("metadata", member), metadata(pod).get(member))
    yield jsonpatch.add(pointer("metadata", member), {name: value})

"""Checks and writes what a release changes: one JSON Patch for each Pod, built from the Pod that it applies to.

Every path exists in that Pod; a `test` of the uid, of the gate's index and of what is appended to fences the patch
against a Pod that has changed meanwhile (`fenced`; not at admission, where a failing `test` in a webhook's patch would
answer the user with an error).

Source of the rules: ValidatePodUpdate in k8s.io/kubernetes/pkg/apis/core/validation.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias

from tollbar import wellknown
from tollbar.decide.gates.answers import Mutation
from tollbar.model import jsonpatch, names, nodeaffinity, pods, tolerations
from tollbar.model.fields import FieldError, entry, forbidden, invalid, too_long
from tollbar.model.jsonpatch import Operation, Patch, pointer
from tollbar.model.objects import Object, annotations_of, spec, uid_of

Action: TypeAlias = Literal["keep", "add", "remove"]

_APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_INTEGER: Final = re.compile("-[0-9]{1,63}|0|[1-9][0-9]{0,63}")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
ONLY_ADDITIONS: Final = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
ONLY_GATED: Final = "may only be changed while the Pod has a scheduling gate"


def errors(pod: Object, mutation: Mutation, *, gated: bool) -> list[FieldError]:
    """What the API server would refuse in this change of the Pod; `gated` is whether the Pod has a gate until then."""
    found = []
    for index, toleration in enumerate(mutation.tolerations):
        found += tolerations.validate(toleration, path=f"tolerations[{index}]")
    given = spec(pod).get("nodeSelector") or {}
    for key, value in mutation.node_selector.items():
        path = entry("nodeSelector", key)
        if given.get(key, value) != value:
            found.append(invalid(path, value, ONLY_ADDITIONS))
        found += _label_errors(key, value, path)
    for index, requirement in enumerate(mutation.required):
        found += nodeaffinity.validate(requirement, path=f"required[{index}]")
    for index, term in enumerate(mutation.preferred):
        found += nodeaffinity.validate_preferred(term, path=f"preferred[{index}]")
    for key, value in mutation.labels.items():
        found += _label_errors(key, value, entry("labels", key))
    found += _annotation_errors(annotations_of(pod), mutation.annotations)
    if not gated:
        frozen = {
            "nodeSelector": mutation.node_selector,
            "required": mutation.required,
            "preferred": mutation.preferred,
        }
        found += [forbidden(field, ONLY_GATED) for field, value in frozen.items() if value]
    return found


def _label_errors(key: str, value: Any, path: str) -> Iterator[FieldError]:
    yield from (invalid(path, key, problem) for problem in names.qualified_name(key))
    if not isinstance(value, str):
        yield invalid(path, value, "must be a string")
    else:
        yield from (invalid(path, value, problem) for problem in names.label_value(value))


def _annotation_errors(present: Mapping[str, str], added: Mapping[str, str]) -> Iterator[FieldError]:
    total = {**present, **added}
    for key, value in added.items():
        path = entry("annotations", key)
        yield from (invalid(path, key, problem) for problem in names.qualified_name(key))
        if not isinstance(value, str):
            yield invalid(path, value, "must be a string")
            del total[key]
        elif present.get(key) != value:
            if key == wellknown.MIRROR_ANNOTATION:
                yield forbidden(path, "may not add mirror pod annotation")
            if key.startswith(_APPARMOR):
                yield forbidden(path, "may not add AppArmor annotations")
            if key == _DELETION_COST and not _is_int32(value):
                yield invalid(path, value, "must be a 32bit integer")
    if added and names.annotations_size(total) > names.ANNOTATIONS_MAX:
        yield too_long("annotations", names.ANNOTATIONS_MAX)


def _is_int32(text: str) -> bool:
    return _INTEGER.fullmatch(text) is not None and -(2**31) <= int(text) < 2**31


def lacking(pod: Object, mutation: Mutation) -> Mutation:
    """The change without tolerations that the Pod has: they would be appended again."""
    present = {tolerations.identity(toleration) for toleration in pods.tolerations(pod)}
    wanted = (each for each in mutation.tolerations if tolerations.identity(each) not in present)
    return replace(mutation, tolerations=tuple(wanted))


def patch(pod: Object, mutation: Mutation, *, gate: str, action: Action, fenced: bool) -> Patch:
    """The operations that make this change and set or remove the gate.  Empty if there is nothing to do."""
    operations = [
        *(_remove_gate(pod, gate, fenced) if action == "remove" else ()),
        *(_add_gate(pod, gate) if action == "add" else ()),
        *_set(pod, ("metadata", "labels"), mutation.labels, fenced),
        *_add_tolerations(pod, mutation.tolerations, fenced),
        *_set(pod, ("spec", "nodeSelector"), mutation.node_selector, fenced),
        *_narrow(pod, mutation, fenced),
        *_set(pod, ("metadata", "annotations"), mutation.annotations, fenced),
    ]
    if operations and fenced:
        operations.insert(0, jsonpatch.test("/metadata/uid", uid_of(pod)))
    return tuple(operations)


def narrowed(affinity: Object, mutation: Mutation) -> Object:
    """The Pod's `spec.affinity` with these requirements in every term, and these preferences beside its own.

    A term without any requirement selects no Node, and the API server lets it get none.
    """
    node = dict(affinity.get("nodeAffinity") or {})
    if mutation.required:
        terms = (node.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
        node[_REQUIRED] = {
            "nodeSelectorTerms": [_with(each, mutation.required) for each in terms]
            or [{"matchExpressions": list(mutation.required)}]
        }
    if mutation.preferred:
        node[_PREFERRED] = _with_new(node.get(_PREFERRED), mutation.preferred)
    return {**affinity, "nodeAffinity": node}


def _with(term: Object, required: Iterable[Object]) -> Object:
    if not term.get("matchExpressions") and not term.get("matchFields"):
        return term
    return {**term, "matchExpressions": _with_new(term.get("matchExpressions"), required)}


def _with_new(present: Sequence[Object] | None, more: Iterable[Object]) -> list[Object]:
    kept = list(present or ())
    return [*kept, *(each for each in more if each not in kept)]


def _remove_gate(pod: Object, gate: str, fenced: bool) -> Iterator[Operation]:
    place = pods.gate_names(pod).index(gate)
    if fenced:
        yield jsonpatch.test(pointer("spec", "schedulingGates", place, "name"), gate)
    yield jsonpatch.remove(pointer("spec", "schedulingGates", place))


def _add_gate(pod: Object, gate: str) -> Iterator[Operation]:
    present = pods.gate_names(pod)
    if gate not in present:
        entry_ = {"name": gate}
        yield (
            jsonpatch.add("/spec/schedulingGates/-", entry_)
            if present
            else jsonpatch.add("/spec/schedulingGates", [entry_])
        )


def _add_tolerations(pod: Object, lacking: tuple[Object, ...], fenced: bool) -> Iterator[Operation]:
    if not lacking:
        return
    if fenced:  # against one that was added meanwhile, by an earlier patch of ours whose answer was lost for example
        yield jsonpatch.test("/spec/tolerations", spec(pod).get("tolerations"))
    if pods.tolerations(pod):
        yield from (jsonpatch.add("/spec/tolerations/-", toleration) for toleration in lacking)
    else:
        yield jsonpatch.add("/spec/tolerations", list(lacking))


def _narrow(pod: Object, mutation: Mutation, fenced: bool) -> Iterator[Operation]:
    if not mutation.required and not mutation.preferred:
        return
    before = spec(pod).get("affinity")
    after = narrowed(before or {}, mutation)
    if after != before:
        if fenced:
            yield jsonpatch.test("/spec/affinity", before)
        yield jsonpatch.add("/spec/affinity", after)


def _set(pod: Object, path: tuple[str, str], entries: Mapping[str, str], fenced: bool) -> Iterator[Operation]:
    """Set entries of a map.  Adding the whole map would overwrite one that appeared meanwhile: tested for."""
    part, member = path
    present = (pod.get(part) or {}).get(member)
    if present:
        yield from (jsonpatch.add(pointer(part, member, name), value) for name, value in entries.items())
    elif entries:
        if fenced:
            yield jsonpatch.test(pointer(part, member), present)
        yield jsonpatch.add(pointer(part, member), dict(entries))

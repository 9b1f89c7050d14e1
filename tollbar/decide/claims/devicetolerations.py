"""Which tolerations of devices the requests of a new ResourceClaim or ResourceClaimTemplate get (KEP-5055).

A rule is evaluated for each request, and for each entry of `firstAvailable`.  Its only input is then the claim with
this request alone, in the form `exactly`.  So the same expression or prototypes that select Pods also select requests.

Invariants: total on any object of the API; nothing but tolerations and the record is changed, and no toleration that
is there; no request gets more than `MOST`, so that no API server refuses a claim for what is added; deciding again
about the result adds nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tollbar import wellknown
from tollbar.cel import CelEngine
from tollbar.decide.pods import alternatives, tolerations
from tollbar.decide.pods.matching import AT_ADMISSION, Evaluator, SelectorCompiler, Truth
from tollbar.decide.pods.package import Missing, Package
from tollbar.decide.rules.rule import UNKNOWN_OF_A_NEW_CLAIM, Rule
from tollbar.model import jsonpatch, pods
from tollbar.model.claims import requests_of, template_claim_spec, with_requests
from tollbar.model.jsonpatch import Patch, pointer
from tollbar.model.objects import Object, annotations_of, key_of, labels_of, metadata, spec
from tollbar.model.texts import counted
from tollbar.model.tolerations import identity

MOST: Final = 16
"""Tolerations of one request, by the documentation of resource.k8s.io/v1.  Kubernetes 1.37 does not enforce it."""
_RECORD: Final = pointer("metadata", "annotations", wellknown.ANNOTATION_PROVENANCE)
_WARNED: Final = 16
"""Warnings about one object, at most."""


@dataclass(frozen=True, slots=True)
class DeviceTolerationFacts:
    """`obj` is a ResourceClaim or a ResourceClaimTemplate that is about to be created, in its namespace.

    `classes` are the DeviceClasses that its requests name, as far as they exist.  `managed`: the namespace is one of
    ours; `ready`: every cache has synced.
    """

    obj: Object
    namespace: Object | None
    classes: Mapping[str, Object]
    rules: tuple[Rule, ...]
    engine: CelEngine
    selector: SelectorCompiler
    managed: bool
    ready: bool = True


@dataclass(frozen=True, slots=True)
class DeviceAddition:
    """What one true rule brings to one request, which is named as in the status of claims: `gpu`, or `gpu/large`."""

    rule: str
    generation: int
    request: str
    tolerations: tuple[Object, ...]

    @property
    def entry(self) -> dict[str, Any]:
        """What the record says about it."""
        return {
            "rule": self.rule,
            "generation": self.generation,
            "request": self.request,
            "added": list(self.tolerations),
            "via": "creation",
        }


@dataclass(frozen=True, slots=True)
class DeviceTolerationPlan:
    """`obj` is the object as it is to be created, `patch` what makes it so; `audited` is what rules in Audit would add.

    `undecided` are (rule, request, why): nobody decides about the request later, so it stays as it is.
    """

    obj: Object
    patch: Patch = ()
    additions: tuple[DeviceAddition, ...] = ()
    audited: tuple[DeviceAddition, ...] = ()
    undecided: tuple[tuple[str, str, str], ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """For whoever creates the object."""
        found = [
            *(
                f"tollbar: rule {each.rule} (Audit) would add {counted(len(each.tolerations), 'device toleration')}"
                f" to request {each.request}"
                for each in self.audited
            ),
            *(
                f"tollbar: rule {rule} gives request {request} no device tolerations: {why}"
                for rule, request, why in self.undecided
            ),
        ]
        return tuple(found[:_WARNED])


def decide(facts: DeviceTolerationFacts) -> DeviceTolerationPlan:
    """What is added to the object.  A record in it that Tollbar did not write is removed (decision 0005)."""
    obj = facts.obj
    if not facts.managed or not facts.ready or _is_left_alone(obj):
        return DeviceTolerationPlan(obj)
    if wellknown.ANNOTATION_PROVENANCE not in annotations_of(obj):
        return _decide(facts)
    if _is_true_record(facts):
        return DeviceTolerationPlan(obj)
    plan = _decide(replace(facts, obj=tolerations.without_record(obj)))
    return replace(plan, patch=(jsonpatch.remove(_RECORD), *plan.patch))


def _is_left_alone(obj: Object) -> bool:
    """Claims for extended resources are written after their devices were chosen, so that a toleration does nothing."""
    return pods.is_skipped(obj) or wellknown.EXTENDED_RESOURCE_CLAIM_ANNOTATION in annotations_of(obj)


def _decide(facts: DeviceTolerationFacts) -> DeviceTolerationPlan:
    """Rules in Audit come last, so that they cost only what those in force leave."""
    requests = list(_requests(facts))
    additions: list[DeviceAddition] = []
    audited: list[DeviceAddition] = []
    undecided: list[tuple[str, str, str]] = []
    for rule in sorted(facts.rules, key=lambda rule: (rule.mode != "Enforce", rule.name)):
        for request in requests if rule.in_scope(facts.namespace) else ():
            answer = _judge(rule, request)
            if isinstance(answer, str):
                undecided.append((rule.name, request.place.name, answer))
            elif answer and rule.mode == "Enforce":
                additions.append(DeviceAddition(rule.name, rule.generation, request.place.name, answer))
                request.given += answer
            elif answer:
                audited.append(DeviceAddition(rule.name, rule.generation, request.place.name, answer))
    obj, patch = _written(facts.obj, [each for each in requests if each.given], additions)
    return DeviceTolerationPlan(obj, patch, tuple(additions), tuple(audited), tuple(undecided))


@dataclass(slots=True)
class _Request:
    """A place, what rules are asked about it, and what it is given."""

    place: "_Place"
    package: Package
    evaluator: Evaluator
    given: list[Object] = field(default_factory=list)

    @property
    def tolerations(self) -> list[Object]:
        """All that it has then."""
        return [*self.place.tolerations, *self.given]


def _requests(facts: DeviceTolerationFacts) -> Iterator[_Request]:
    """All share one budget."""
    evaluator: Evaluator | None = None
    for place in _places(facts.obj):
        package = _package(facts, place)
        if evaluator is None:
            evaluator = Evaluator(package, facts.engine, facts.selector, AT_ADMISSION)
        else:
            evaluator = evaluator.about(package)
        yield _Request(place, package, evaluator)


def _judge(rule: Rule, request: _Request) -> tuple[Object, ...] | str:
    """The tolerations that this rule adds here, or why that cannot be decided."""
    if not request.package.classes and rule.reads_any("deviceClasses"):
        return f"DeviceClass {request.place.device_class} does not exist"
    verdict = request.evaluator.verdict(rule)
    if verdict.truth is not Truth.TRUE:
        return () if verdict.truth is Truth.FALSE else verdict.why
    lacking = tolerations.lacking(rule.device_tolerations, set(map(identity, request.tolerations)))
    if len(request.tolerations) + len(lacking) > MOST:
        return f"a request takes {MOST} at most" if lacking else ()
    return lacking


def _written(obj: Object, given: Iterable[_Request], additions: Sequence[DeviceAddition]) -> tuple[Object, Patch]:
    """The object with the tolerations and their record, if there is room for it, and the patch that makes it so."""
    patch = []
    for request in given:
        path = (*_path(obj), *request.place.path, "tolerations")
        obj = _changed(obj, path, request.tolerations)
        patch.append(jsonpatch.add(pointer(*path), request.tolerations))
    name, text = wellknown.ANNOTATION_PROVENANCE, tolerations.record([each.entry for each in additions])
    if additions and tolerations.has_room(obj, text):
        others = metadata(obj).get("annotations")
        obj = _changed(obj, ("metadata", "annotations"), {**annotations_of(obj), name: text})
        patch.append(
            jsonpatch.add(pointer("metadata", "annotations"), {name: text})
            if others is None
            else jsonpatch.add(_RECORD, text)
        )
    return obj, tuple(patch)


@dataclass(frozen=True, slots=True)
class _Place:
    """A request or an entry of `firstAvailable`: its path in the claim's spec, and the request in `exactly` form."""

    name: str
    path: tuple[str | int, ...]
    exactly: Object

    @property
    def device_class(self) -> str:
        return str((self.exactly.get("exactly") or {}).get("deviceClassName"))

    @property
    def tolerations(self) -> list[Object]:
        return (self.exactly.get("exactly") or {}).get("tolerations") or []


def _places(obj: Object) -> Iterator[_Place]:
    for index, request in enumerate(requests_of(_as_claim(obj))):
        listed = request.get("firstAvailable") or ()
        if not listed and not isinstance(request.get("exactly"), dict):
            continue  # of a kind that is not known here
        for choice, exactly in enumerate(alternatives.choices(request)):
            inside: tuple[str | int, ...] = ("firstAvailable", choice) if listed else ("exactly",)
            name = f"{request.get('name')}/{listed[choice].get('name')}" if listed else str(request.get("name"))
            yield _Place(name, ("devices", "requests", index, *inside), exactly)


def _path(obj: Object) -> tuple[str, ...]:
    """Where the spec of the claim is."""
    return ("spec", "spec") if obj.get("kind") == "ResourceClaimTemplate" else ("spec",)


def _as_claim(obj: Object) -> Object:
    """What rules see of the claim, or of a claim that the template describes."""
    if obj.get("kind") == "ResourceClaimTemplate":
        labels, annotations, body = labels_of(spec(obj)), annotations_of(spec(obj)), template_claim_spec(obj)
    else:
        labels, annotations, body = labels_of(obj), annotations_of(obj), spec(obj)
    meta = {
        "namespace": key_of(obj).namespace,
        **({"labels": labels} if labels else {}),
        **({"annotations": annotations} if annotations else {}),
    }
    return with_requests({"metadata": meta, "spec": body})


def _package(facts: DeviceTolerationFacts, place: _Place) -> Package:
    """The claim with this request alone; no Pod is known of it."""
    claim = _as_claim(facts.obj)
    devices = {**claim["spec"]["devices"], "requests": [place.exactly]}
    device_class = facts.classes.get(place.device_class)
    namespace = key_of(facts.obj).namespace
    return Package(
        pod={"metadata": {"namespace": namespace}},
        namespace=facts.namespace,
        claims=({**claim, "spec": {**claim["spec"], "devices": devices}},),
        classes={} if device_class is None else {place.device_class: device_class},
        missing=() if facts.namespace is not None else (Missing("Namespace", namespace),),
        unknown=UNKNOWN_OF_A_NEW_CLAIM,
    )


def _changed(value: Any, path: tuple[str | int, ...], wanted: Any) -> Any:
    """A copy with `wanted` at the path, or without what is there if it is None."""
    if not path:
        return wanted
    first, *rest = path
    if isinstance(first, int):
        return [*value[:first], _changed(value[first], tuple(rest), wanted), *value[first + 1 :]]
    if wanted is None and not rest:
        return {name: member for name, member in value.items() if name != first}
    return {**value, first: _changed(value.get(first), tuple(rest), wanted)}


def without_recorded(obj: Object) -> Object:
    """The claim or template as it was before what the record lists was added, and without the record."""
    before = tolerations.without_record(obj)
    recorded: dict[str, set[object]] = {}
    for each in tolerations.provenance_of(obj):
        recorded.setdefault(str(each.get("request")), set()).update(map(identity, each["added"]))
    for place in _places(obj):
        added = recorded.get(place.name, set())
        kept = [each for each in place.tolerations if identity(each) not in added]
        if len(kept) != len(place.tolerations):
            before = _changed(before, (*_path(obj), *place.path, "tolerations"), kept or None)
    return before


def _is_true_record(facts: DeviceTolerationFacts) -> bool:
    """Whether the record is what the rules give the object as it was without it: an earlier pass, or the controllers,
    wrote it."""
    obj = facts.obj
    again = _decide(replace(facts, obj=without_recorded(obj))).additions
    text = tolerations.record([each.entry for each in again])
    if not again or annotations_of(obj)[wellknown.ANNOTATION_PROVENANCE] != text:
        return False
    present = {place.name: set(map(identity, place.tolerations)) for place in _places(obj)}
    return all(set(map(identity, each.tolerations)) <= present[each.request] for each in again)

"""Small random clusters: few names, so that everything meets everything, and rules that read all kinds of inputs.

What is drawn from is made once: Hypothesis takes longer to look at a new strategy than to draw from a known one.
"""

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from functools import cache
from typing import Any, Final

from fakes.engine import FakeEngine, FakeProgram, expression, failing, has_label, wants_class
from fakes.manager import Managed
from hypothesis import strategies as st
from objects.builders import (
    CREATED,
    Built,
    Claim,
    DeviceClass,
    Pod,
    SchedulingGate,
    Template,
    TolerationRule,
    claim,
    device_class,
    namespace,
    pod,
    scheduling_gate,
    template,
    toleration,
    toleration_rule,
)

import controllers.gates
import controllers.rules
import controllers.watchdog
from clusters.drawing import pick
from tollbar import wellknown
from tollbar.decide.pods.admission import AdmissionFacts
from tollbar.decide.pods.scope import AdmissionMode
from tollbar.decide.pods.tolerationgate import GateFacts
from tollbar.decide.rules.rule import Rule
from tollbar.model.objects import Key, Object, key_of, labels_of, metadata
from tollbar.runtime.clock import Clock
from tollbar.runtime.detection import KeptTolerations
from tollbar.views import kinds
from tollbar.views.gatherer import Gatherer
from tollbar.views.matches import Matches

RESOURCE: Final = "example.com/gpu"
IMPLICIT: Final = "deviceclass.resource.kubernetes.io/tpu"
NOT_TEAM_B: Final = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["b"]}]}
ONLY_TEAM_A: Final = {"matchLabels": {"team": "a"}}
TOLERATIONS: Final = (
    toleration("example.com/a"),
    toleration("example.com/b"),
    {"key": "example.com/a", "operator": "Equal", "value": "x"},
    {"key": "example.com/a", "value": "x"},
    toleration("example.com/a", effect="NoExecute", tolerationSeconds=60),
)


def _reading(says: Callable[[Mapping[str, Any]], Any], *reads: str) -> FakeProgram:
    return expression(says, *reads).program  # type: ignore[return-value]


EXPRESSIONS: Final = {
    "a claim wants gpu": wants_class("gpu").program,
    "a claim wants gpu or tpu": wants_class("gpu", "tpu").program,
    "a claim is of team a": _reading(
        lambda given: any(labels_of(each).get("team") == "a" for each in given["claims"]), "claims.metadata.labels.team"
    ),
    "a claim is called c1": _reading(
        lambda given: any(each["metadata"]["name"] == "c1" for each in given["claims"]), "claims.metadata.name"
    ),
    "there are no claims": _reading(lambda given: not given["claims"], "claims"),
    "a class is fast": _reading(
        lambda given: any(labels_of(each).get("tier") == "fast" for each in given["deviceClasses"].values()),
        "deviceClasses.metadata.labels.tier",
    ),
    "the Pod is an app": has_label("app").program,
    "the Pod has no labels": _reading(lambda given: "labels" not in metadata(given["pod"]), "pod.metadata.labels"),
    "the Pod has annotations": _reading(
        lambda given: "annotations" in metadata(given["pod"]), "pod.metadata.annotations"
    ),
    "the Pod is called web": _reading(lambda given: given["pod"]["metadata"]["name"] == "web", "pod.metadata.name"),
    "the Pod has gates": _reading(lambda given: "schedulingGates" in given["pod"]["spec"], "pod.spec.schedulingGates"),
    "the Pod waits": _reading(lambda given: given["pod"]["status"]["phase"] == "Pending", "pod.status.phase"),
    "the namespace is team a's": _reading(
        lambda given: labels_of(given["namespaceObject"]).get("team") == "a", "namespaceObject.metadata.labels.team"
    ),
    "fails": failing().program,
}
SELECTORS: Final = {
    "is a gpu": _reading(lambda given: given["device"]["driver"] == "gpu", "device.driver"),
    "is a nic": _reading(lambda given: given["device"]["driver"] == "nic", "device.driver"),
    "selects by error": _reading(lambda given: given["nope"], "device.driver"),
}
ENGINE: Final = FakeEngine({**EXPRESSIONS, **SELECTORS})  # type: ignore[dict-item]


def seldom(value: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from([None] * 19 + [value])


def some(values: Iterable[Any], most: int = 3) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.sampled_from(list(values)), max_size=most, unique_by=repr)


_BOOLEANS: Final = st.booleans()
_GATES: Final = some(["a.dev/x", wellknown.GATE, wellknown.GATE, "b.dev/y"])
_CLAIMS: Final = some(["c1", "c2"])
_TEMPLATES: Final = some(["t1", "t2"])
_GENERATED: Final = st.sampled_from(["", "{name}-t1", None])
_RESOURCES: Final = some([RESOURCE, IMPLICIT, "example.com/nic"], 2)
_MEMBERS: Final = st.sampled_from(["requests", "limits"])
_COUNTS: Final = st.sampled_from(["0", "1", "2"])
_TOLERATED: Final = some(TOLERATIONS)
_LABELS: Final = st.sampled_from([{}, {}, {"app": "web"}, {"tier": "x"}])
_RECORDS: Final = st.sampled_from(
    ["[]", "{", '[{"rule":"gpu","generation":1,"added":[],"via":"admission"}]', "[" * 5_000]
)
_ANNOTATIONS: Final = st.fixed_dictionaries({}, optional={"a": st.just("b"), "tollbar.dev/tolerations": _RECORDS})
_OWNERS: Final = st.sampled_from([*[""] * 9, "ReplicaSet", "DaemonSet"])
_CHANGES: Final[tuple[st.SearchStrategy[Any], ...]] = (
    seldom(lambda it: it.labelled({"tollbar.dev/skip": "true"})),
    seldom(lambda it: it.deleting()),
    st.sampled_from([*[None] * 5, *[lambda it: it.phase("Pending")] * 5, lambda it: it.phase("Failed")]),
    seldom(lambda it: it.annotated({"kubernetes.io/config.mirror": "x"})),
)


@cache
@st.composite
def pods(draw: st.DrawFn, name: str) -> Pod:
    built = pod(name)
    if gates := draw(_GATES):
        built = built.gated(*dict.fromkeys(gates))
    built = built.claims(*draw(_CLAIMS))
    for reference in draw(_TEMPLATES):
        built = built.templates(reference)
        generated = draw(_GENERATED)
        if generated != "":
            built = built.generated(reference, generated and generated.format(name=name))
    for resource in draw(_RESOURCES):
        member = draw(_MEMBERS)
        built = built.wants({resource: draw(_COUNTS)}, init=draw(_BOOLEANS), member=member)
    built = built.tolerating(*draw(_TOLERATED)) if draw(_BOOLEANS) else built
    if labels := draw(_LABELS):
        built = built.labelled(labels)
    if annotations := draw(_ANNOTATIONS):
        built = built.annotated(annotations)
    if owner := draw(_OWNERS):
        built = built.owned_by(owner, api_version="apps/v1")
    for change in _CHANGES:
        if changed := draw(change):
            built = changed(built)
    return built


_ALTERNATIVES: Final = st.lists(st.sampled_from(["gpu", "tpu", "nic"]), min_size=1, max_size=3)
_REQUESTS: Final = st.lists(st.one_of(_ALTERNATIVES.map(lambda given: given[:1]), _ALTERNATIVES), max_size=2)
_TEAMS: Final = st.sampled_from(["", "a", "b"])
_MOSTLY: Final = st.sampled_from([True, True, True, False])
_TEAM_A: Final = st.sampled_from([None, {"team": "a"}])
_ANNOTATED: Final = st.sampled_from([None, {"a": "b"}])
_BACKED: Final = st.sampled_from([RESOURCE, "example.com/nic"])
_TIERS: Final = st.sampled_from(["fast", "slow"])
_SELECTED: Final = some(SELECTORS, 2)


@cache
@st.composite
def claims(draw: st.DrawFn, name: str) -> Claim:
    built = claim(name)
    for classes in draw(_REQUESTS):
        built = built.request(*classes)
    if team := draw(_TEAMS):
        built = built.labelled(team=team)
    owner, _, generated = name.partition("-")
    if generated and draw(_MOSTLY):
        built = built.generated_for(pod(owner))
    return built


@cache
@st.composite
def templates(draw: st.DrawFn, name: str) -> Template:
    built = template(name)
    for classes in draw(_REQUESTS):
        built = built.request(*classes)
    return built.giving(draw(_TEAM_A), draw(_ANNOTATED))


@cache
@st.composite
def classes(draw: st.DrawFn, name: str) -> DeviceClass:
    built = device_class(name)
    if draw(_BOOLEANS):
        built = built.backing(draw(_BACKED))
    if draw(_BOOLEANS):
        built = built.labelled(tier=draw(_TIERS))
    return built.selecting(*draw(_SELECTED))


@cache
def namespaces(name: str) -> st.SearchStrategy[Built]:
    plain = namespace(name)
    return st.sampled_from(
        [*[plain, plain.labelled(team="a")] * 4, plain.labelled(team="b"), plain.labelled({"tollbar.dev/skip": "true"})]
    )


MATCHES: Final[Mapping[str, Callable[[TolerationRule], TolerationRule]]] = {
    **{f"cel-{i}": lambda it, text=text: it.cel(text) for i, text in enumerate(EXPRESSIONS)},
    "extended": lambda it: it.extended(RESOURCE, "example.com/other"),
    "implicit": lambda it: it.extended(IMPLICIT),
    "gpu": lambda it: it.device("gpu"),
    "nic": lambda it: it.device("nic"),
}
"""A name for a rule, and how it matches."""


_GIVEN: Final = st.lists(st.sampled_from(TOLERATIONS), min_size=1, max_size=2)
_SELECTED_TEAMS: Final = st.sampled_from([*[""] * 6, "a", "b"])
_RULE_MODES: Final = st.sampled_from([*["Enforce"] * 6, "Audit", "Disabled"])
_ALTERNATIVES_COUNT: Final = st.sampled_from(["All", "Any", "First"])


@cache
@st.composite
def rules(draw: st.DrawFn, name: str) -> TolerationRule:
    built = MATCHES[name](toleration_rule(name))
    built = built.giving(*draw(_GIVEN))
    if team := draw(_SELECTED_TEAMS):
        built = built.in_namespaces(team=team)
    return built.mode(draw(_RULE_MODES)).when(draw(_ALTERNATIVES_COUNT))


@cache
def scheduling_gates(name: str) -> st.SearchStrategy[SchedulingGate]:
    ours, stranger = scheduling_gate(name), scheduling_gate(name, "a.dev/x")
    return st.sampled_from(
        [ours.expiring("60s"), ours.expiring("5s"), ours.expiring("60s", "Report"), stranger.expiring(None, "Report")]
    )


KINDS: Final[Mapping[str, tuple[tuple[str, ...], Callable[[str], st.SearchStrategy[Any]]]]] = {
    "Pod": (("web", "api"), pods),
    "ResourceClaim": (("c1", "c2", "web-t1"), claims),
    "ResourceClaimTemplate": (("t1", "t2"), templates),
    "DeviceClass": (("gpu", "tpu", "nic"), classes),
    "Namespace": (("ml",), namespaces),
    "TolerationRule": (tuple(MATCHES), rules),
    "SchedulingGate": (("g1",), scheduling_gates),
}


_RULES: Final = some(MATCHES, 6)
_NEARLY_ALWAYS: Final = st.sampled_from([True] * 7 + [False])


@st.composite
def clusters(draw: st.DrawFn, *without: str) -> dict[tuple[str, str], Object]:
    """Objects by kind and name, without these kinds; most of what could be there is, and some of the rules."""
    cluster = {}
    for kind, (names, strategy) in KINDS.items():
        if kind in without:
            continue
        present = draw(_RULES) if kind == "TolerationRule" else names
        for name in present:
            if kind == "TolerationRule" or draw(_NEARLY_ALWAYS):
                cluster[kind, name] = draw(strategy(name))
    return cluster


Touch = Callable[[Any], Built]
TOUCHES: Final[Mapping[str, tuple[Touch, ...]]] = {
    "Pod": (
        lambda it: it.labelled(app="web"),
        lambda it: it.labelled({"tollbar.dev/skip": "true"}),
        lambda it: it.but("metadata.labels", None),
        lambda it: it.annotated({"a": "b"}),
        lambda it: it.annotated({"kubernetes.io/config.mirror": "x"}),
        lambda it: it.but("metadata.annotations", None),
        lambda it: it.owned_by("DaemonSet", api_version="apps/v1"),
        lambda it: it.but("metadata.ownerReferences", None),
        lambda it: it.generated("t1", "web-t1"),
        lambda it: it.generated("t2", None),
        lambda it: it.but("status.resourceClaimStatuses", None),
        lambda it: it.phase("Pending"),
        lambda it: it.phase("Succeeded"),
        lambda it: it.but("status.conditions", [{"type": "PodScheduled", "status": "False"}]),
        lambda it: it.deleting(),
        lambda it: it.bound(),
        lambda it: it.but("spec.schedulingGates", None),
        lambda it: it.gated(),
        lambda it: it.tolerating(*TOLERATIONS),
        lambda it: it.but("metadata.uid", "another"),
    ),
    "ResourceClaim": (
        lambda it: it.labelled(team="a"),
        lambda it: it.but("metadata.labels", None),
        lambda it: it.generated_for(pod("web")),
        lambda it: it.but("metadata.ownerReferences", None),
        lambda it: it.but("metadata.finalizers", ["x"]),
        lambda it: it.but("status.allocation", {}),
    ),
    "ResourceClaimTemplate": (lambda it: it.labelled(team="a"),),
    "DeviceClass": (
        lambda it: it.labelled(tier="fast"),
        lambda it: it.but("metadata.labels", None),
        lambda it: it.backing(RESOURCE),
        lambda it: it.but("spec.extendedResourceName", None),
        lambda it: it.selecting("is a gpu"),
        lambda it: it.but("spec.selectors", None),
    ),
    "Namespace": (
        lambda it: it.labelled(team="a"),
        lambda it: it.labelled(team="b"),
        lambda it: it.labelled({"tollbar.dev/skip": "true"}),
        lambda it: it.annotated({"a": "b"}),
    ),
    "TolerationRule": (
        lambda it: it.mode("Enforce"),
        lambda it: it.mode("Audit"),
        lambda it: it.when("Any"),
        lambda it: it.in_namespaces(team="a"),
        lambda it: it.in_namespaces(),
        lambda it: it.but("status.pendingMatches", 3),
        lambda it: it.labelled(a="b"),
    ),
    "SchedulingGate": (
        lambda it: it.expiring("5s"),
        lambda it: it.expiring("60s", "Report"),
        lambda it: it.ready("False", "NotAnOwner"),
        lambda it: it.but("spec.gateName", "a.dev/x"),
    ),
}
"""What happens to objects of each kind while they live, one thing at a time; some of it matters to nobody."""


_DAMAGES: Final = st.integers(0, 4)
_DAMAGE: Final = st.sampled_from(["absent", "null", "empty"])


@st.composite
def damaged(draw: st.DrawFn, obj: Object) -> Object:
    """The object with some members absent, null or empty, as their types allow."""
    copy = deepcopy(obj)
    for _ in range(draw(_DAMAGES)):
        part, member = pick(draw, _members(copy))
        kind = type(part[member])
        what = draw(_DAMAGE)
        if what == "absent":
            del part[member]
        elif what == "null" and isinstance(part, dict):
            part[member] = None
        elif kind in (dict, list, str):
            part[member] = kind()
        if not copy:
            break
    return copy


def _members(value: Any) -> list[tuple[Any, Any]]:
    """Every place in the value that something is at."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for member, below in inside for place in ((value, member), *_members(below))]


class World(Managed):
    """A cluster in stores, a gatherer over them, and the controllers of Pods by name, which nothing has woken yet."""

    def __init__(
        self,
        objects: Iterable[Object] = (),
        managed: Object = NOT_TEAM_B,
        *,
        engine: FakeEngine = ENGINE,
        client: Any = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(client, clock=clock)
        self.gather = self.gatherer(engine, managed)
        self.pods = self.caches.store(kinds.PENDING_PODS)
        self.matches = Matches(self.pods)
        self.kept = KeptTolerations(client, self.clock, "tollbar-system")
        self.controllers = {
            "gates": controllers.gates.setup(self, self.gather, self.matches),
            "rules": controllers.rules.setup(self, self.gather, self.matches, self.kept),
            "watchdog": controllers.watchdog.setup(self, user="me"),
        }
        self.fill(objects)


def gate_facts(pod_: Object, gatherer: Gatherer, rules_: tuple[Rule, ...] | None = None) -> GateFacts:
    return GateFacts(
        package=gatherer.package(pod_),
        rules=gatherer.ruleset.rules if rules_ is None else rules_,
        engine=ENGINE,
        selector=gatherer.ruleset.selector,
        managed=gatherer.is_managed(key_of(pod_).namespace),
        policy=gatherer.gate_policy(),
    )


def admission_facts(
    pod_: Object, gatherer: Gatherer, mode: AdmissionMode = "Auto", rules_: tuple[Rule, ...] | None = None
) -> AdmissionFacts:
    return AdmissionFacts(
        package=gatherer.package(pod_, at_admission=True),
        rules=gatherer.ruleset.rules if rules_ is None else rules_,
        engine=ENGINE,
        selector=gatherer.ruleset.selector,
        mode=mode,
        managed=gatherer.is_managed(key_of(pod_).namespace),
    )


MOMENTS: Final = st.sampled_from([CREATED, CREATED + 1, CREATED + 3, CREATED + 61])
WEB: Final = Key("ml", "web")

"""Pods with our gate and without it, what is known of them, and the plans that are expected for them."""

import json
from dataclasses import dataclass, field, replace
from typing import Any

from fakes.engine import FakeEngine, expression, failing, has_label, no_selector, rule, wants_class
from objects import patching
from objects.builders import CREATED, Pod, claim, device_class, namespace, pod, template, toleration

from tollbar import wellknown
from tollbar.decide.pods import package, tolerationgate
from tollbar.decide.pods.scope import SHIPPED_GATE_POLICY, GatePolicy
from tollbar.decide.pods.tolerationgate import GateFacts, GatePlan, TolerationCase
from tollbar.decide.pods.tolerations import Addition
from tollbar.decide.rules.rule import Rule
from tollbar.model.jsonpatch import Patch
from tollbar.model.objects import Object
from tollbar.model.plan import DONE, Event, Outcome, RetryAfter
from tollbar.views.lookup import PackageLookup

ML, GPU_CLASS = namespace(), device_class("gpu")
CLAIM, TEMPLATE = claim("gpu").request("gpu"), template("gpu").request("gpu")
CLUSTER = (ML, GPU_CLASS, CLAIM, TEMPLATE)
EMPTY = (ML,)

TOLERATION = toleration("example.com/gpu")
GPU = rule("gpu", wants_class("gpu"))
APP = rule("app", has_label("app"))
SAME = replace(GPU, name="same")
EQUAL = replace(GPU, tolerations=({"key": "k", "operator": "Equal", "value": "v"},))
AUDIT = replace(GPU, name="audit", mode="Audit")
AUDIT_TOO = replace(AUDIT, name="audit-too")
FAILING = rule("r", failing())
CHAINED = replace(
    rule(
        "chained", expression(lambda inputs: TOLERATION in inputs["pod"]["spec"]["tolerations"], "pod.spec.tolerations")
    ),
    tolerations=(toleration("example.com/chained"),),
)
CLAIM_NAMED = rule("claim", expression(lambda _: True, "claims.metadata.name"))
ELSEWHERE = replace(GPU, namespace_selector={"matchLabels": {"team": "b"}})

REPORT = replace(SHIPPED_GATE_POLICY, release_on_expiry=False)
NO_DEADLINE = GatePolicy(max_hold=None)
UNUSABLE = replace(SHIPPED_GATE_POLICY, usable=False)

HELD = pod().gated().claims("gpu").tolerating(toleration("x"))
FREE = pod().claims("gpu").tolerating(toleration("x"))
PLAIN = pod().gated()


@dataclass
class Given:
    """A Pod so many seconds after its creation, in a cluster that has everything."""

    pod: Pod
    rules: tuple[Rule, ...] = (GPU,)
    cluster: tuple[Object, ...] = CLUSTER
    age: float = 1.0
    facts: dict[str, Any] = field(default_factory=dict)

    def gather(self) -> GateFacts:
        return GateFacts(
            package=package.assemble(self.pod, PackageLookup.of(self.cluster)),
            rules=self.rules,
            engine=FakeEngine(),
            selector=no_selector,
            **{"managed": True, "policy": SHIPPED_GATE_POLICY, **self.facts},
        )

    def decide(self) -> GatePlan:
        return tolerationgate.decide(self.gather(), CREATED + self.age)

    def refused(self) -> GatePlan:
        """What comes after other admission has refused what is decided."""
        return TolerationCase(self.gather(), CREATED + self.age).refused(self.decide(), "no")


TEST_UID = {"op": "test", "path": "/metadata/uid", "value": "uid-of-web"}
ONLY_X = {"op": "test", "path": "/spec/tolerations", "value": [toleration("x")]}
APPEND = {"op": "add", "path": "/spec/tolerations/-", "value": TOLERATION}
LABEL = {"op": "add", "path": "/metadata/labels/tollbar.dev~1gate", "value": "released"}


def lift(place: int = 0) -> Patch:
    path = f"/spec/schedulingGates/{place}"
    test = {"op": "test", "path": f"{path}/name", "value": wellknown.GATE}
    return (TEST_UID, test, {"op": "remove", "path": path}, LABEL)


def first_record(via: str, *rules: Rule) -> Patch:
    entries = [{"rule": each.name, "generation": 1, "added": list(each.tolerations), "via": via} for each in rules]
    text = json.dumps(entries, separators=(",", ":"))
    return (
        {"op": "test", "path": "/metadata/annotations", "value": None},
        {"op": "add", "path": "/metadata/annotations", "value": {"tollbar.dev/tolerations": text}},
    )


BLOCKED = "; kube-scheduler waits for ResourceClaim gpu, until then kubectl shows SchedulingGated"


def additions(*rules: Rule) -> tuple[Addition, ...]:
    return tuple(Addition(each.name, 1, each.tolerations) for each in rules)


def nothing(*because: Any, outcome: Outcome = DONE, events: tuple[Event, ...] = (), **more: Any) -> GatePlan:
    return GatePlan(because=because, outcome=outcome, events=events, **more)


def released(
    *because: Any, note: str = "released; no toleration added", patch: Patch | None = None, **more: Any
) -> GatePlan:
    """Without tolerations."""
    event = Event("Normal", "GateReleased", note, "Release")
    return GatePlan(lift() if patch is None else patch, (event,), DONE, because, released=True, via="gate", **more)


def added(note: str) -> Event:
    return Event("Normal", "TolerationsAdded", note, "AddTolerations")


def overdue(note: str, action: str) -> Event:
    return Event("Warning", "GateOverdue", note, action)


def waiting(for_: str, *events: Event, after: float | None) -> GatePlan:
    return nothing(f"WaitingFor: {for_}", outcome=DONE if after is None else RetryAfter(after), events=events)


RELEASED_WITH_GPU = GatePlan(
    (*lift(), ONLY_X, APPEND, *first_record("gate", GPU)),
    (added("1 toleration by gpu; released"),),
    because=("Matched: rule gpu",),
    released=True,
    via="gate",
    additions=additions(GPU),
    matched=(GPU,),
)
LATE_WITH_GPU = GatePlan(
    (TEST_UID, ONLY_X, APPEND, *first_record("late", GPU)),
    (added("1 toleration by gpu; added after admission"),),
    because=("Matched: rule gpu",),
    additions=additions(GPU),
    matched=(GPU,),
)


def is_done_once(given: Given) -> bool:
    """Whether nothing is left to do for the Pod as the patch leaves it."""
    patched = Pod(patching.apply(given.pod, given.decide().patch))
    after = replace(given, pod=patched).decide()
    return (after.patch, after.released, after.additions) == ((), False, ())


def leaves_what_it_expects(given: Given) -> bool:
    """Whether the expected Pod is what the patch leaves, but for the record."""
    plan = given.decide()
    expected = tolerationgate.expected(given.gather(), plan)
    patched = patching.apply(given.pod, plan.patch)
    return expected is not None and _without_record(expected) == _without_record(patched)


def _without_record(obj: Object) -> Object:
    """Also without what is empty, which the API server leaves out."""
    annotations = {k: v for k, v in obj["metadata"].get("annotations", {}).items() if k != "tollbar.dev/tolerations"}
    meta = {**obj["metadata"], "annotations": annotations}
    return {**obj, "metadata": meta, "spec": {k: v for k, v in obj["spec"].items() if v != []}}

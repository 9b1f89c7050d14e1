"""Decisions with the engine that runs in production: what rules of an administrator really say."""

import json
from typing import Any

import pytest
from fakes.manager import Managed
from objects.builders import (
    CREATED,
    DeviceClass,
    Pod,
    TolerationRule,
    claim,
    device_class,
    namespace,
    pod,
    template,
    toleration,
    toleration_rule,
)

from controllers.gates.predicates import Predicates
from tollbar.cel import engine
from tollbar.decide.pods import admission, tolerationgate
from tollbar.decide.pods.admission import AdmissionFacts
from tollbar.decide.pods.reasons import PodReason
from tollbar.decide.pods.scope import SHIPPED_GATE_POLICY
from tollbar.decide.pods.tolerationgate import GateFacts
from tollbar.decide.rules.rule import Rule
from tollbar.model.objects import Object, key_of
from tollbar.model.plan import Reason
from tollbar.runtime.source import Delta
from tollbar.views.gatherer import Gatherer

CEL = engine()


def plain(obj: Any) -> Any:
    """As decoded JSON: the engine takes nothing else."""
    return json.loads(json.dumps(obj))


def gathering(*objects: Object) -> Gatherer:
    manager = Managed()
    gatherer = manager.gatherer(CEL)
    manager.fill(map(plain, objects))
    assert all(isinstance(gatherer.ruleset.get(key_of(rule).name), Rule) for rule in gatherer.rules.values())
    return gatherer


def admitted(given: Pod, gatherer: Gatherer) -> tuple[str, list[str]]:
    """The decision, and the keys of the tolerations that come with it."""
    plan = admission.decide(
        AdmissionFacts(
            package=gatherer.package(plain(given), at_admission=True),
            rules=gatherer.ruleset.rules,
            engine=CEL,
            selector=gatherer.ruleset.selector,
            mode="Auto",
            managed=True,
        )
    )
    return plan.decision, [added["key"] for addition in plan.additions for added in addition.tolerations]


def later(given: Pod, gatherer: Gatherer) -> tolerationgate.GatePlan:
    facts = GateFacts(
        package=gatherer.package(plain(given)),
        rules=gatherer.ruleset.rules,
        engine=CEL,
        selector=gatherer.ruleset.selector,
        managed=True,
        policy=SHIPPED_GATE_POLICY,
    )
    return tolerationgate.decide(facts, CREATED + 1)


WANTS_GPU = 'claims.exists(c, c.spec.devices.requests.exists(r, r.exactly.deviceClassName == "gpu"))'
FAST_CLASS = 'deviceClasses.exists(name, deviceClasses[name].metadata.labels["example.com/tier"] == "fast")'
ADMIN = "claims.exists(c, c.spec.devices.requests.exists(r, has(r.exactly.adminAccess) && r.exactly.adminAccess))"
NEW = pod().being_created()
GENERATED = pod().being_created(generate_name=True)
GPU = toleration_rule("gpu").cel(WANTS_GPU)
GPU_OR_NOTHING = toleration_rule("gpu").cel(WANTS_GPU.replace("exists", "all"))
A100 = toleration_rule("a100").device("gpu.example.com", model={"string": "a100"})
MODELS: DeviceClass = device_class("gpu").selecting(
    'device.driver == "gpu.example.com"', 'device.attributes["gpu.example.com"].model == "a100"'
)
TEAM = toleration_rule("team").cel('namespaceObject.metadata.labels["team"] == "a"')
CLUSTER = (
    namespace().labelled(team="a"),
    device_class("gpu").labelled({"example.com/tier": "fast"}),
    device_class("tpu"),
    claim("gpu").request("gpu"),
    claim("tpu").request("tpu"),
    claim("either").request("gpu", "tpu"),
    template("gpu").request("gpu"),
    claim("empty").but("spec.devices", {"requests": None}),
    template("empty").but("spec.spec.devices", {"requests": None}),
)
ONLY_GPU = ("tolerated", ["example.com/gpu"])
NOTHING: tuple[str, list[str]] = ("ignored", [])

ADMITTED: dict[str, tuple[Pod, TolerationRule, tuple[str, list[str]]]] = {
    "a claim by name": (NEW.claims("gpu"), GPU, ONLY_GPU),
    "a template": (NEW.templates("gpu"), GPU, ONLY_GPU),
    "a template, with a name to be generated": (GENERATED.templates("gpu"), GPU, ONLY_GPU),
    "a claim of another class": (NEW.claims("tpu"), GPU, NOTHING),
    "one of two alternatives": (NEW.claims("either"), GPU, NOTHING),
    "one of two alternatives, for Any": (NEW.claims("either"), GPU.when("Any"), ONLY_GPU),
    "no claims": (NEW, GPU, NOTHING),
    "null instead of requests": (NEW.claims("empty"), GPU_OR_NOTHING, ONLY_GPU),
    "null instead of requests in a template": (NEW.templates("empty"), GPU_OR_NOTHING, ONLY_GPU),
    "null instead of sources of a volume": (
        NEW.but("spec.volumes", [{"name": "a", "projected": {"sources": None}}]),
        toleration_rule("gpu").cel("pod.spec.volumes.all(v, v.projected.sources.all(s, has(s.secret)))"),
        ONLY_GPU,
    ),
    "a claim that is not there": (NEW.claims("none"), GPU, ("gated", [])),
    "a class by its label": (NEW.claims("gpu"), toleration_rule("gpu").cel(FAST_CLASS), ONLY_GPU),
    "a class without labels is an error": (NEW.claims("tpu"), toleration_rule("gpu").cel(FAST_CLASS), NOTHING),
    "a request without adminAccess": (NEW.claims("gpu"), toleration_rule("gpu").cel(ADMIN), NOTHING),
    "the namespace": (NEW, TEAM, ("tolerated", ["example.com/team"])),
    "a name that is there": (NEW, toleration_rule("gpu").cel('pod.metadata.name == "web"'), ONLY_GPU),
    "a name that is not": (GENERATED, toleration_rule("gpu").cel('pod.metadata.name == "web"'), ("gated", [])),
    "what the name begins with": (
        GENERATED,
        toleration_rule("gpu").cel('pod.metadata.generateName.startsWith("web")'),
        ONLY_GPU,
    ),
    "the status": (NEW, toleration_rule("gpu").cel("has(pod.status.phase)"), ("gated", [])),
    "a claim's name to come": (
        NEW.templates("gpu"),
        toleration_rule("gpu").cel('claims.exists(c, c.metadata.name == "x")'),
        ("gated", []),
    ),
    "a class without selectors selects every device": (NEW.claims("tpu"), A100, ("tolerated", ["example.com/a100"])),
}
WITH_MODELS = (*CLUSTER, MODELS)


@pytest.mark.parametrize(("given", "rule", "want"), ADMITTED.values(), ids=ADMITTED)
def test_admission(given: Pod, rule: TolerationRule, want: tuple[str, list[str]]) -> None:
    assert admitted(given, gathering(*CLUSTER, rule)) == want


PROTOTYPES: dict[str, tuple[TolerationRule, tuple[str, list[str]]]] = {
    "that the class selects": (A100, ("tolerated", ["example.com/a100"])),
    "of another model": (toleration_rule("a100").device("gpu.example.com", model={"string": "t4"}), NOTHING),
    "of another driver": (toleration_rule("a100").device("x.dev", model={"string": "a100"}), NOTHING),
    "without the attribute, which is an error": (toleration_rule("a100").device("gpu.example.com"), NOTHING),
}


@pytest.mark.parametrize(("rule", "want"), PROTOTYPES.values(), ids=PROTOTYPES)
def test_a_prototype(rule: TolerationRule, want: tuple[str, list[str]]) -> None:
    assert admitted(NEW.claims("gpu"), gathering(*WITH_MODELS, rule)) == want


def test_a_rule_over_budget_is_false_for_that_pod_and_told() -> None:
    expensive = "pod.spec.containers.all(c, pod.spec.containers.all(d, d.name != c.name || d.image == c.image))"
    large = pod().gated().but("spec.containers", [{"name": f"c{i}", "image": "x"} for i in range(200)])
    plan = later(large, gathering(*CLUSTER, toleration_rule("r").cel(expensive), TEAM))
    assert (plan.released, [event.reason for event in plan.events], [rule.name for rule in plan.matched]) == (
        True,
        ["TolerationsAdded", "RuleEvaluationFailed"],
        ["team"],
    )


def test_one_pod_cannot_keep_a_controller_busy() -> None:
    """256 alternatives, each of which costs all that one evaluation may: the budget of the Pod ends it."""
    wide = claim("gpu")
    for _ in range(8):
        wide = wide.request("gpu", "gpu")
    for _ in range(1000):
        wide = wide.request("gpu")
    rules = [toleration_rule(f"r{i:02}").cel(WANTS_GPU.replace('"gpu"', f'"x{i}"')).when("Any") for i in range(40)]
    cluster = (namespace(), device_class("gpu"), wide, *rules)
    plan = later(pod().gated().claims("gpu"), gathering(*cluster))
    assert (plan.released, plan.because[-1]) == (True, Reason(PodReason.COST_LIMIT_EXCEEDED, "rule r39"))


# reads of the engine and the predicates over them, for names with dots in them
TEAM_LABEL = 'claims.exists(c, c.metadata.labels["example.com/team"] == "a")'
LABELLED = claim().labelled({"example": "x", "example.com/team": "a", "example.com/other": "b"})
READ: dict[str, tuple[Any, str, Any, Any, bool]] = {
    "a label with a domain that changes": (
        Predicates.claim,
        TEAM_LABEL,
        LABELLED,
        LABELLED.labelled({"example.com/team": "b"}),
        True,
    ),
    "a label that is read by a simple name": (
        Predicates.claim,
        'claims.exists(c, c.metadata.labels.team == "a")',
        LABELLED.labelled(team="b"),
        LABELLED.labelled(team="a"),
        True,
    ),
    "another label than that": (
        Predicates.claim,
        'claims.exists(c, c.metadata.labels.team == "a")',
        LABELLED,
        LABELLED.labelled({"example.com/team": "b"}),
        False,
    ),
    "a class's label with a domain": (
        Predicates.device_class,
        FAST_CLASS,
        device_class().labelled({"example": "x", "example.com/tier": "slow"}),
        device_class().labelled({"example": "x", "example.com/tier": "fast"}),
        True,
    ),
    "an annotation with a domain": (
        Predicates.pod,
        'pod.metadata.annotations["example.com/a"] == "b"',
        pod().annotated({"example": "x", "example.com/a": "a"}),
        pod().annotated({"example": "x", "example.com/a": "b"}),
        True,
    ),
}


@pytest.mark.parametrize(("predicate", "expression", "old", "new", "want"), READ.values(), ids=READ)
def test_what_a_rule_reads_matters(predicate: Any, expression: str, old: Object, new: Object, want: bool) -> None:
    gatherer = gathering(toleration_rule("r").cel(expression).giving(toleration("example.com/a")))
    when = Predicates(gatherer.ruleset, expected={})
    assert predicate(when, Delta(plain(old), plain(new), initial=False)) is want

"""Which changes matter to the gates controller, and whom they concern."""

from collections.abc import Callable
from typing import Any

import pytest
from builders import (
    Built,
    claim,
    device_class,
    namespace,
    pod,
    scheduling_gate,
    template,
    toleration_rule,
)
from worlds import ONLY_TEAM_A, caches_of

from controllers import mappers, predicates
from tollbar import wellknown
from tollbar.model.objects import Key, Object
from tollbar.runtime.store import Delta
from tollbar.views.caches import PodCaches

WANTS_GPU = toleration_rule("r1").cel("a claim wants gpu")
CLAIM_OF_TEAM_A = toleration_rule("r1").cel("a claim is of team a")
CLASS_IS_FAST = toleration_rule("r1").cel("a class is fast")
IS_AN_APP = toleration_rule("r1").cel("the Pod is an app")
HAS_ANNOTATIONS = toleration_rule("r1").cel("the Pod has annotations")
WAITS = toleration_rule("r1").cel("the Pod waits")
NAMESPACE_OF_TEAM_A = toleration_rule("r1").cel("the namespace is team a's")
DEVICE = toleration_rule("r1").device("gpu")
EXTENDED = toleration_rule("r1").extended("example.com/gpu")

Case = tuple[list[Object], Built, Callable[[Any], Built], bool]

POD: dict[str, Case] = {
    "its gates": ([], pod().gated(), lambda it: it.but("spec.schedulingGates", None), True),
    "its tolerations": ([], pod(), lambda it: it.tolerating({"key": "a"}), True),
    "its labels": ([], pod(), lambda it: it.labelled(a="b"), True),
    "its owner": ([], pod(), lambda it: it.owned_by("DaemonSet", api_version="apps/v1"), True),
    "its claim's name": ([], pod().templates("t"), lambda it: it.generated("t", "web-t-x"), True),
    "its deletion": ([], pod(), lambda it: it.deleting(), True),
    "its end": ([], pod().phase("Pending"), lambda it: it.phase("Failed"), True),
    "that it is a mirror": ([], pod(), lambda it: it.annotated({"kubernetes.io/config.mirror": "x"}), True),
    "an annotation matters to nobody": ([IS_AN_APP], pod(), lambda it: it.annotated({"a": "b"}), False),
    "but to a rule that reads it": ([HAS_ANNOTATIONS], pod(), lambda it: it.annotated({"a": "b"}), True),
    "a condition matters to nobody": (
        [WAITS],
        pod().phase("Pending"),
        lambda it: it.but("status.conditions", [{}]),
        False,
    ),
    "another phase neither": ([], pod(), lambda it: it.phase("Pending"), False),
    "but to a rule that reads it, too": ([WAITS], pod(), lambda it: it.phase("Pending"), True),
    "nor a new resourceVersion": ([IS_AN_APP], pod(), lambda it: it.but("metadata.resourceVersion", "7"), False),
}
OWNED = claim("web-t1").generated_for(pod())
CLAIM: dict[str, Case] = {
    "its spec": ([WANTS_GPU], claim(), lambda it: it.request("gpu"), True),
    "whose it is": ([WANTS_GPU], OWNED, lambda it: it.but("metadata.ownerReferences", None), True),
    "a label that a rule reads": ([CLAIM_OF_TEAM_A], claim(), lambda it: it.labelled(team="a"), True),
    "a label that none reads": ([WANTS_GPU], claim(), lambda it: it.labelled(team="a"), False),
    "another label than the one that a rule reads": (
        [CLAIM_OF_TEAM_A],
        claim().labelled(b="c"),
        lambda it: it.labelled(a="b"),
        False,
    ),
    "a finalizer": ([WANTS_GPU], claim(), lambda it: it.but("metadata.finalizers", ["x"]), False),
    "nothing at all when no rule reads claims": ([IS_AN_APP], claim(), lambda it: it.request("gpu"), False),
}
TEMPLATE: dict[str, Case] = {
    "its spec, which cannot change": ([WANTS_GPU], template(), lambda it: it.request("gpu"), True),
    "its own labels": ([CLAIM_OF_TEAM_A], template(), lambda it: it.labelled(team="a"), False),
    "nothing when no rule reads claims": ([IS_AN_APP], template(), lambda it: it.request("gpu"), False),
}
CLASS: dict[str, Case] = {
    "its selectors": ([DEVICE], device_class(), lambda it: it.selecting("is a gpu"), True),
    "what it backs": ([WANTS_GPU], device_class(), lambda it: it.backing("example.com/gpu"), True),
    "a label that a rule reads": ([CLASS_IS_FAST], device_class(), lambda it: it.labelled(tier="fast"), True),
    "a label that none reads": ([WANTS_GPU, DEVICE], device_class(), lambda it: it.labelled(tier="fast"), False),
    "nothing when no rule reads packages": (
        [EXTENDED],
        device_class(),
        lambda it: it.backing("example.com/gpu"),
        False,
    ),
}
NAMESPACE: dict[str, Case] = {
    "its labels": ([], namespace(), lambda it: it.labelled(a="b"), True),
    "an annotation": ([NAMESPACE_OF_TEAM_A], namespace(), lambda it: it.annotated({"a": "b"}), False),
}
RULE: dict[str, Case] = {
    "its spec": ([], WANTS_GPU, lambda it: it.mode("Audit"), True),
    "its status": ([], WANTS_GPU, lambda it: it.but("status.pendingMatches", 3), False),
    "its labels": ([], WANTS_GPU, lambda it: it.labelled(a="b"), False),
}
SCHEDULING_GATE: dict[str, Case] = {
    "its spec": ([], scheduling_gate(), lambda it: it.expiring("5s"), True),
    "the numbers that we write": ([], scheduling_gate(), lambda it: it.but("status.oldestHeldSeconds", 31), False),
}
PREDICATES: dict[str, tuple[Any, Case]] = {
    f"{kind}: {row}": (predicate, case)
    for kind, predicate, rows in (
        ("a Pod", predicates.pod_matters, POD),
        ("a claim", predicates.claim_matters, CLAIM),
        ("a template", predicates.template_matters, TEMPLATE),
        ("a class", predicates.class_matters, CLASS),
        ("a namespace", predicates.namespace_matters, NAMESPACE),
        ("a rule", predicates.spec_matters, RULE),
        ("a SchedulingGate", predicates.spec_matters, SCHEDULING_GATE),
    )
    for row, case in rows.items()
}


@pytest.mark.parametrize(("predicate", "case"), PREDICATES.values(), ids=PREDICATES)
def test_an_update_matters(predicate: Any, case: Case) -> None:
    rules, old, touch, want = case
    assert predicate(Delta(old, touch(old), initial=False), caches_of(rules)) is want


# what comes and what goes, with a rule that reads packages
EXISTENCE: dict[str, tuple[Any, Object, bool, bool]] = {
    "a Pod that is gone needs no decision": (predicates.pod_matters, pod(), True, False),
    "a claim": (predicates.claim_matters, claim(), True, True),
    "a template": (predicates.template_matters, template(), True, True),
    "a class": (predicates.class_matters, device_class(), True, True),
    "a namespace": (predicates.namespace_matters, namespace(), True, True),
    "a rule": (predicates.spec_matters, WANTS_GPU, True, True),
}


@pytest.mark.parametrize(("predicate", "obj", "comes", "goes"), EXISTENCE.values(), ids=EXISTENCE)
def test_coming_and_going_matters(predicate: Any, obj: Object, comes: bool, goes: bool) -> None:
    caches = caches_of([WANTS_GPU])
    came, went = Delta(None, obj, initial=False), Delta(obj, None, initial=False)
    assert (predicate(came, caches), predicate(went, caches)) == (comes, goes)


GATES: dict[str, tuple[Object | None, Object | None, bool]] = {
    "a held Pod comes": (None, pod().gated("a.dev/x"), True),
    "a Pod without gates comes": (None, pod(), False),
    "a gate goes": (pod().gated("a.dev/x", "b.dev/y"), pod().gated("b.dev/y"), True),
    "a held Pod goes": (pod().gated("a.dev/x"), None, True),
    "something else changes": (pod().gated("a.dev/x"), pod().gated("a.dev/x").labelled(a="b"), False),
}


@pytest.mark.parametrize(("old", "new", "want"), GATES.values(), ids=GATES)
def test_gates_changed(old: Object | None, new: Object | None, want: bool) -> None:
    assert predicates.gates_changed(Delta(old, new, initial=False), caches_of(())) is want


def in_team(team: str) -> Built:
    return namespace(team).labelled(team=team)


CLUSTER = [
    pod("by-name").claims("c1"),
    pod("by-status").templates("t1").generated("t1", "by-status-t1"),
    pod("by-template").templates("t2"),
    pod("by-resource").wants({"example.com/gpu": "1"}),
    pod("by-implicit-name").wants({"deviceclass.resource.kubernetes.io/gpu": "1"}),
    pod("plain").gated(),
    pod("elsewhere", "a").claims("c1").gated("a.dev/x"),
    claim("c1").request("gpu"),
    claim("c1", "a").request("tpu"),
    claim("by-status-t1").request("nic", "gpu").generated_for(pod("by-status")),
    template("t2").request("tpu", "gpu"),
    namespace().labelled(team="c"),
    in_team("a"),
    in_team("b"),
    pod("unmanaged", "b"),
    scheduling_gate("ours"),
    scheduling_gate("others", "a.dev/x"),
    WANTS_GPU,
    toleration_rule("r2").cel("fails"),
]
EVERYBODY = {"by-name", "by-status", "by-template", "by-resource", "by-implicit-name", "plain", "elsewhere"}
HERE = EVERYBODY - {"elsewhere"}
CACHES = caches_of(CLUSTER)


def came(new: Object) -> Delta:
    return Delta(None, new, initial=False)


def went(old: Object) -> Delta:
    return Delta(old, None, initial=False)


MAPPED: dict[str, tuple[Any, Delta, set[str]]] = {
    "a Pod concerns itself": (mappers.itself, came(pod("x")), {"x"}),
    "a Pod of the same name with another uid too": (
        mappers.itself,
        Delta(pod("x"), pod("x").but("metadata.uid", "u"), initial=False),
        {"x"},
    ),
    "a claim concerns who names it, in its namespace": (mappers.pods_of_claim, came(claim("c1")), {"by-name"}),
    "and who has its name in the status": (mappers.pods_of_claim, came(claim("by-status-t1")), {"by-status"}),
    "but not the Pod that it is generated for, before its status says so": (
        mappers.pods_of_claim,
        came(claim("by-template-t2").generated_for(pod("by-template"))),
        set(),
    ),
    "a claim that goes": (mappers.pods_of_claim, went(claim("c1")), {"by-name"}),
    "a template concerns who refers to it": (mappers.pods_of_template, came(template("t2")), {"by-template"}),
    "also when its claim is there": (mappers.pods_of_template, went(template("t1")), {"by-status"}),
    "a class concerns whose claims and templates name it, and its implicit resource": (
        mappers.pods_of_class,
        came(device_class("gpu")),
        {"by-name", "by-status", "by-template", "by-implicit-name"},
    ),
    "in every namespace": (mappers.pods_of_class, went(device_class("tpu")), {"elsewhere", "by-template"}),
    "and the resource that it backs": (
        mappers.pods_of_class,
        came(device_class("x").backing("example.com/gpu")),
        {"by-resource"},
    ),
    "or backed": (
        mappers.pods_of_class,
        Delta(device_class("x").backing("example.com/gpu"), device_class("x"), initial=False),
        {"by-resource"},
    ),
    "a namespace concerns its Pods": (mappers.pods_of_namespace, came(namespace()), HERE),
    "a rule concerns everybody who is managed": (mappers.pods_of_rule, came(WANTS_GPU), EVERYBODY),
    "or the namespaces that it looks at": (mappers.pods_of_rule, came(WANTS_GPU.in_namespaces(team="c")), HERE),
    "or looked at": (
        mappers.pods_of_rule,
        Delta(WANTS_GPU.in_namespaces(team="c"), WANTS_GPU.in_namespaces(team="a"), initial=False),
        EVERYBODY,
    ),
    "our SchedulingGate concerns who is held": (mappers.held_pods, came(scheduling_gate()), {"plain"}),
    "one that was ours, too": (
        mappers.held_pods,
        Delta(scheduling_gate(), scheduling_gate("tolerations", "a.dev/x"), initial=False),
        {"plain"},
    ),
    "somebody else's concerns nobody": (mappers.held_pods, came(scheduling_gate("x", "a.dev/x")), set()),
    "the webhook's configuration concerns every rule": (mappers.every_rule, came({}), {"r1", "r2"}),
    "a Pod concerns the SchedulingGates of its gates": (
        mappers.declared_gates,
        Delta(pod().gated("a.dev/x"), pod().gated(wellknown.GATE, "b.dev/y"), initial=False),
        {"ours", "others"},
    ),
}


@pytest.mark.parametrize(("mapper", "delta", "want"), MAPPED.values(), ids=MAPPED)
def test_mappers(mapper: Callable[[Delta, PodCaches], Any], delta: Delta, want: set[str]) -> None:
    assert {key.name for key in mapper(delta, CACHES)} == want


def test_a_rule_concerns_pods_of_a_namespace_that_is_not_known_yet() -> None:
    caches = caches_of([pod("early", "new")], managed=ONLY_TEAM_A)
    assert list(mappers.pods_of_rule(came(WANTS_GPU.in_namespaces(team="c")), caches)) == [Key("new", "early")]

"""Which changes matter to the controllers of Pods, and whom they concern: the rows of their tables of watches."""

from collections.abc import Callable
from typing import Any

import pytest
from clusters.strategies import ONLY_TEAM_A, World
from objects.builders import (
    Built,
    claim,
    device_class,
    namespace,
    pod,
    scheduling_gate,
    template,
    toleration_rule,
)

from tollbar import wellknown
from tollbar.model.objects import Key, Object
from tollbar.runtime.source import Delta, Watch
from tollbar.runtime.store import Store

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


def watch_of(world: World, controller: str, kind: str) -> Watch[Any, Key]:
    """What this controller does about changes of this kind."""
    watches = world.controllers[controller].watches
    (found,) = (each for each in watches if isinstance(each.source, Store) and each.source.resource.kind == kind)
    return found


def came(new: Object) -> Delta:
    return Delta(None, new, initial=False)


def went(old: Object) -> Delta:
    return Delta(old, None, initial=False)


def matters(delta: Delta, kind: str, rules: list[Object], controller: str = "gates") -> bool:
    return watch_of(World(rules), controller, kind).predicate(delta)


def concerned(world: World, controller: str, delta: Delta) -> set[Key]:
    kind = next(obj["kind"] for obj in delta.objects)
    return set(watch_of(world, controller, kind).mapper(delta))


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
UPDATES: dict[str, Case] = {
    f"{kind}: {row}": case
    for kind, rows in (
        ("a Pod", POD),
        ("a claim", CLAIM),
        ("a template", TEMPLATE),
        ("a class", CLASS),
        ("a namespace", NAMESPACE),
        ("a rule", RULE),
        ("a SchedulingGate", SCHEDULING_GATE),
    )
    for row, case in rows.items()
}


@pytest.mark.parametrize("case", UPDATES.values(), ids=UPDATES)
def test_an_update_matters(case: Case) -> None:
    rules, old, touch, want = case
    assert matters(Delta(old, touch(old), initial=False), old["kind"], rules) is want


@pytest.mark.parametrize(("_rules", "old", "touch", "want"), RULE.values(), ids=RULE)
def test_an_update_of_a_rule_matters_to_its_status(
    _rules: Any, old: Built, touch: Callable[[Any], Built], want: bool
) -> None:
    assert matters(Delta(old, touch(old), initial=False), "TolerationRule", [], "rules") is want


# what comes and what goes, with a rule that reads packages
EXISTENCE: dict[str, tuple[Object, bool, bool]] = {
    "a Pod that is gone needs no decision": (pod(), True, False),
    "a claim": (claim(), True, True),
    "a template": (template(), True, True),
    "a class": (device_class(), True, True),
    "a namespace": (namespace(), True, True),
    "a rule": (WANTS_GPU, True, True),
    "a SchedulingGate": (scheduling_gate(), True, True),
}


@pytest.mark.parametrize(("obj", "comes", "goes"), EXISTENCE.values(), ids=EXISTENCE)
def test_coming_and_going_matters(obj: Object, comes: bool, goes: bool) -> None:
    found = [matters(delta, obj["kind"], [WANTS_GPU]) for delta in (came(obj), went(obj))]
    assert found == [comes, goes]


GATES: dict[str, tuple[Object | None, Object | None, bool]] = {
    "a held Pod comes": (None, pod().gated("a.dev/x"), True),
    "a Pod without gates comes": (None, pod(), False),
    "a gate goes": (pod().gated("a.dev/x", "b.dev/y"), pod().gated("b.dev/y"), True),
    "a held Pod goes": (pod().gated("a.dev/x"), None, True),
    "something else changes": (pod().gated("a.dev/x"), pod().gated("a.dev/x").labelled(a="b"), False),
}


@pytest.mark.parametrize(("old", "new", "want"), GATES.values(), ids=GATES)
def test_a_change_of_a_pods_gates_matters_to_their_scheduling_gates(
    old: Object | None, new: Object | None, want: bool
) -> None:
    assert matters(Delta(old, new, initial=False), "Pod", [], "watchdog") is want


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
WORLD = World(CLUSTER)


CONFIGURATION: Object = {"kind": "MutatingWebhookConfiguration", "metadata": {"name": "tollbar", "uid": "u"}}
MAPPED: dict[str, tuple[str, Delta, set[str]]] = {
    "a Pod concerns itself": ("gates", came(pod("x")), {"x"}),
    "a Pod of the same name with another uid too": (
        "gates",
        Delta(pod("x"), pod("x").but("metadata.uid", "u"), initial=False),
        {"x"},
    ),
    "a claim concerns who names it, in its namespace": ("gates", came(claim("c1")), {"by-name"}),
    "and who has its name in the status": ("gates", came(claim("by-status-t1")), {"by-status"}),
    "but not the Pod that it is generated for, before its status says so": (
        "gates",
        came(claim("by-template-t2").generated_for(pod("by-template"))),
        set(),
    ),
    "a claim that goes": ("gates", went(claim("c1")), {"by-name"}),
    "a template concerns who refers to it": ("gates", came(template("t2")), {"by-template"}),
    "also when its claim is there": ("gates", went(template("t1")), {"by-status"}),
    "a class concerns whose claims and templates name it, and its implicit resource": (
        "gates",
        came(device_class("gpu")),
        {"by-name", "by-status", "by-template", "by-implicit-name"},
    ),
    "in every namespace": ("gates", went(device_class("tpu")), {"elsewhere", "by-template"}),
    "and the resource that it backs": (
        "gates",
        came(device_class("x").backing("example.com/gpu")),
        {"by-resource"},
    ),
    "or backed": (
        "gates",
        Delta(device_class("x").backing("example.com/gpu"), device_class("x"), initial=False),
        {"by-resource"},
    ),
    "a namespace concerns its Pods": ("gates", came(namespace()), HERE),
    "a rule concerns everybody who is managed": ("gates", came(WANTS_GPU), EVERYBODY),
    "or the namespaces that it looks at": ("gates", came(WANTS_GPU.in_namespaces(team="c")), HERE),
    "or looked at": (
        "gates",
        Delta(WANTS_GPU.in_namespaces(team="c"), WANTS_GPU.in_namespaces(team="a"), initial=False),
        EVERYBODY,
    ),
    "our SchedulingGate concerns who is held": ("gates", came(scheduling_gate()), {"plain"}),
    "one that was ours, too": (
        "gates",
        Delta(scheduling_gate(), scheduling_gate("tolerations", "a.dev/x"), initial=False),
        {"plain"},
    ),
    "somebody else's concerns nobody": ("gates", came(scheduling_gate("x", "a.dev/x")), set()),
    "the webhook's configuration concerns every rule": ("rules", came(CONFIGURATION), {"r1", "r2"}),
    "a Pod concerns the SchedulingGates of its gates": (
        "watchdog",
        Delta(pod().gated("a.dev/x"), pod().gated(wellknown.GATE, "b.dev/y"), initial=False),
        {"ours", "others"},
    ),
}


@pytest.mark.parametrize(("controller", "delta", "want"), MAPPED.values(), ids=MAPPED)
def test_a_change_concerns(controller: str, delta: Delta, want: set[str]) -> None:
    assert {key.name for key in concerned(WORLD, controller, delta)} == want


def test_a_rule_concerns_pods_of_a_namespace_that_is_not_known_yet() -> None:
    world = World([pod("early", "new")], managed=ONLY_TEAM_A)
    assert concerned(world, "gates", came(WANTS_GPU.in_namespaces(team="c"))) == {Key("new", "early")}

"""What a release changes in a Pod, compared as Kueue compares a Pod with its Workload (tests/e2e/kueue.py)."""

from typing import Any

import pytest
from e2e import kueue
from objects.builders import pod
from objects.patching import apply

from tollbar.decide.gates import mutations
from tollbar.gates import Mutation
from tollbar.model.objects import Object, spec

GATE = "tollbar.dev/tolerations"
TAINT = {"key": "example.com/gpu", "value": "true", "effect": "NoSchedule"}
GPU = {"key": "example.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
IN_B = {"key": "pool", "operator": "In", "values": ["b"]}
PREFERRED = {"weight": 1, "preference": {"matchExpressions": [IN_B]}}
POD = pod().gated(GATE, kueue.GATE).wants({"cpu": "1"}).annotated({kueue.ROLE_HASH: "worker"})


def flavor(name: str = "a", **body: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"nodeLabels": {"pool": name}, **body}}


def released(about: Object, mutation: Mutation) -> Object:
    patched: Object = apply(about, mutations.patch(about, mutation, gate=GATE, action="remove", fenced=True))
    return patched


def workload(about: Object, *said: str) -> Object:
    conditions = [{"type": each, "status": "True"} for each in said]
    return {"spec": {"podSets": [kueue.pod_set("main", about)]}, "status": {"conditions": conditions}}


STAGES = {"waits": (), "reserved": ("QuotaReserved",), "admitted": ("QuotaReserved", "Admitted")}
CHANGES: dict[str, tuple[Mutation, list[str]]] = {
    "the gate alone": (Mutation(), []),
    "tolerations": (Mutation(tolerations=(GPU,)), ["waits", "reserved"]),
    "a narrowed affinity": (Mutation(required=(IN_B,), preferred=(PREFERRED,)), []),
    "a node selector": (Mutation(node_selector={"zone": "z"}), []),
    "labels and annotations": (Mutation(labels={"a": "b"}, annotations={"c": "d"}), []),
}


@pytest.mark.parametrize(("mutation", "otherwise"), CHANGES.values(), ids=CHANGES)
def test_when_a_release_makes_the_workload_of_a_single_pod_another_one(
    mutation: Mutation, otherwise: list[str]
) -> None:
    after = released(POD, mutation)
    found = [
        stage
        for stage, said in STAGES.items()
        if not kueue.is_of_pod(workload(POD, *said), after, flavor() if said else None)
    ]
    assert found == otherwise


@pytest.mark.parametrize(("mutation", "_"), CHANGES.values(), ids=CHANGES)
def test_no_release_changes_the_role_of_a_pod_in_its_group(mutation: Mutation, _: list[str]) -> None:
    group = {"spec": {"podSets": kueue.pod_sets([POD, POD])}}
    own = kueue.pod_sets([POD, released(POD, mutation)])
    assert ([each["count"] for each in own], kueue.is_of_group(group, own)) == ([2], True)


def test_what_is_started_to_a_flavor_is_still_that_of_its_workload() -> None:
    """Kueue gives node selector and tolerations of the flavor; ours come before or after."""
    given = flavor(tolerations=[{**GPU, "key": "example.com/other"}])
    after = released({**POD, "spec": kueue.started(spec(POD), given)}, Mutation(tolerations=(GPU,)))
    before = {**POD, "spec": kueue.started(spec(released(POD, Mutation(tolerations=(GPU,)))), given)}
    admitted = workload(POD, *STAGES["admitted"])
    assert kueue.is_of_pod(admitted, after, given)
    assert kueue.is_of_pod(admitted, before, given)


FLAVORS: dict[str, tuple[Object, Mutation, str]] = {
    "no label of it is asked for": (flavor(), Mutation(), ""),
    "the affinity leads to it": (flavor("b"), Mutation(required=(IN_B,)), ""),
    "the affinity leads elsewhere": (flavor(), Mutation(required=(IN_B,)), "flavor a doesn't match node affinity"),
    "the node selector leads elsewhere": (
        flavor(),
        Mutation(node_selector={"pool": "b"}),
        "flavor a doesn't match node affinity",
    ),
    "the affinity is about other labels": (flavor(), Mutation(required=({**IN_B, "key": "zone"},)), ""),
    "its taint is not tolerated": (
        flavor(nodeTaints=[TAINT]),
        Mutation(),
        "untolerated taint example.com/gpu in flavor a",
    ),
    "its taint is tolerated": (flavor(nodeTaints=[TAINT]), Mutation(tolerations=(GPU,)), ""),
    "it tolerates its own taint": (flavor(nodeTaints=[TAINT], tolerations=[GPU]), Mutation(), ""),
}


@pytest.mark.parametrize(("given", "mutation", "why"), FLAVORS.values(), ids=FLAVORS)
def test_a_flavor_is_chosen_by_what_is_in_the_workload(given: Object, mutation: Mutation, why: str) -> None:
    """So a change that comes after the Workload was made is not looked at: the flavor may be one that the Pod cannot
    use."""
    assert kueue.unfit(given, spec(released(POD, mutation))) == why
    assert kueue.unfit(flavor(), spec(POD)) == ""


def test_a_node_selector_that_contradicts_the_flavor_ends_the_workload() -> None:
    late = released(POD, Mutation(node_selector={"pool": "b"}))
    narrowed = released(POD, Mutation(required=(IN_B,)))
    assert (kueue.conflict(spec(late), flavor()), kueue.conflict(spec(narrowed), flavor())) == (True, False)

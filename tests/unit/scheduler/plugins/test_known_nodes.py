"""On which Nodes the claims of a Pod are known to fit without asking Filter: where Filter would say the same."""

from collections.abc import Sequence
from typing import Any

import pytest
from objects.builders import Built, device_class
from objects.builders import pod as a_pod
from objects.devices import a_claim, allocation, published
from plugins.dynamicresources import UU, World, info, node, said
from plugins.toys import done

from tollbar import wellknown
from tollbar.scheduler.plugins.dynamic_resources.extended_resources import STALE
from tollbar.scheduler.plugins.dynamic_resources.pod_claims import NAME, PodClaims

N1, N2 = published("s1", "g0", node="n1"), published("s2", "g1", node="n2")
UNAVAILABLE = "UnschedulableAndUnresolvable: resourceclaim not available on the node"
CANNOT = "UnschedulableAndUnresolvable: cannot allocate all claims"


def wanting(name: str, **more: Any) -> Built:
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1, **more}
    return a_claim(name).but("spec.devices.requests", [{"name": "r0", "exactly": exactly}])


def allocated(name: str, *, terms: Sequence[Any] | None, **result: Any) -> Built:
    given = allocation(f"of-{name}")
    given["devices"]["results"] = [{**each, **result} for each in given["devices"]["results"]]
    selector = {} if terms is None else {"nodeSelector": {"nodeSelectorTerms": list(terms)}}
    return wanting(name).but("status.allocation", {**given, **selector})


def named(*names: str) -> list[Any]:
    return [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [each]}]} for each in names]


EAST = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["east"]}]}]
ON_N1, EVERYWHERE = allocated("one", terms=named("n1")), allocated("any", terms=None)
WAITING = allocated("wait", terms=named("n1"), bindingConditions=["Ready"], bindingFailureConditions=["Failed"])
NOT_YET, TOO_MANY = wanting("new"), wanting("much", count=2)
CASES: dict[str, tuple[list[Built], dict[str, str] | None]] = {
    "a claim on one Node": ([ON_N1], {"n1": "Success", "n2": UNAVAILABLE}),
    "a claim on either": ([allocated("two", terms=named("n1", "n2"))], {"n1": "Success", "n2": "Success"}),
    "a claim on Nodes with a label": ([allocated("east", terms=EAST)], {"n1": UNAVAILABLE, "n2": "Success"}),
    "a claim on Nodes that are gone": ([allocated("old", terms=named("n9"))], {"n1": UNAVAILABLE, "n2": UNAVAILABLE}),
    "a claim on any Node": ([EVERYWHERE], {"n1": "Success", "n2": "Success"}),
    "claims on two Nodes": (
        [ON_N1, allocated("other", terms=named("n2"))],
        {"n1": UNAVAILABLE, "n2": UNAVAILABLE},
    ),
    "one on a Node, and one that any may get": ([ON_N1, NOT_YET], {"n1": "Success", "n2": UNAVAILABLE}),
    "one on a Node, and one that no Node can have": ([ON_N1, TOO_MANY], {"n1": CANNOT, "n2": CANNOT}),
    "one on any, and one that no Node can have": ([EVERYWHERE, TOO_MANY], {"n1": CANNOT, "n2": CANNOT}),
    "one that any may get": ([NOT_YET], {"n1": "Success", "n2": "Success"}),
    "one whose device has to become ready": ([WAITING], None),
}
SAID_AT_ONCE = {"one on any, and one that no Node can have", "one that any may get"}
"""Here all Nodes that are rejected are so for one reason, which Filter need not be asked for."""


@pytest.mark.parametrize("case", CASES)
def test_what_is_known_is_what_filter_says(case: str) -> None:
    claims, expected = CASES[case]
    pod = a_pod().claims(*(each["metadata"]["name"] for each in claims))
    world = World(*claims, N1, N2, nodes=[node("n1"), node("n2", labels={"zone": "east"})])
    nodes = world.handle.snapshot
    assert world.pre_filter(pod) == "Success"
    world.plugin.filter_known(world.state, info(pod), nodes)  # from now on answers are kept
    asked = world.filter(pod)
    assert world.pre_filter(pod) == "Success"

    found = world.plugin.filter_known(world.state, info(pod), nodes)

    if expected is None:
        assert (found, asked["n2"]) == (None, UNAVAILABLE)
        return
    assert found is not None
    fits = {name: said == "Success" for name, said in expected.items()}
    assert asked == expected
    assert dict(zip(fits, found.fits.tolist(), strict=True)) == fits
    assert dict(zip(fits, found.rejected.tolist(), strict=True)) == {name: not each for name, each in fits.items()}
    assert found.why is None or set(expected.values()) <= {"Success", CANNOT}
    assert (found.why is not None) == (case in SAID_AT_ONCE)


def test_nodes_that_are_known_to_fit_are_enough_when_the_time_to_look_at_others_is_over() -> None:
    world = World(NOT_YET, N1, N2, args={"filterTimeout": 1.0})
    pod, (first, second) = info(a_pod().claims("new")), world.handle.snapshot.nodes
    for node_info in (None, first):
        world.pre_filter(pod.object)
        world.plugin.filter_known(world.state, pod, world.handle.snapshot)
        if node_info is not None:
            assert done(world.plugin.filter(world.state, pod, node_info)) is None
    world.pre_filter(pod.object)
    known = world.plugin.filter_known(world.state, pod, world.handle.snapshot)
    world.time = 2.0
    answer = said(done(world.plugin.filter(world.state, pod, second)))
    assert known is not None
    assert (known.fits.tolist(), answer) == (
        [True, False],
        "Unschedulable: node n2: timed out trying to allocate devices",
    )


RESOURCE, OTHER = "example.com/gpu", "example.com/tpu"
WANTS = a_pod().but("spec.containers", []).wants({RESOURCE: "1"})


def test_of_extended_resources_it_is_known_where_devices_have_to_provide_them() -> None:
    own = {"metadata": {"name": "n3"}, "status": {"allocatable": {RESOURCE: "1"}}}
    world = World(N1, published("s3", "g2", node="n3"), nodes=[node("n1"), node("n2"), own])
    world.manager.stores[2].apply(device_class().backing(RESOURCE))
    nodes, pod = world.handle.snapshot, info(WANTS)
    assert world.pre_filter(WANTS) == "Success"
    world.plugin.filter_known(world.state, pod, nodes)  # from now on answers are kept
    asked = world.filter(WANTS)
    assert world.pre_filter(WANTS) == "Success"

    found = world.plugin.filter_known(world.state, pod, nodes)

    assert asked == {"n1": "Success", "n2": CANNOT, "n3": "Success"}
    assert found is not None
    assert (found.fits.tolist(), found.rejected.tolist()) == ([True, False, False], [False, True, False])
    assert (said(world.plugin.reserve(world.state, pod, "n1")), world.held()) == ("Success", ["g0"])


def test_of_extended_resources_nothing_is_known_while_there_is_a_claim_of_an_earlier_attempt() -> None:
    """Also where that is allocated, so that nothing is left to be allocated: Filter rejects it on all Nodes."""
    left = EVERYWHERE.owned_by("Pod", "web").annotated({wellknown.EXTENDED_RESOURCE_CLAIM_ANNOTATION: "true"})
    world = World(left, N1)
    world.manager.stores[2].apply(device_class().backing(RESOURCE))
    assert world.pre_filter(WANTS) == "Success"
    assert world.plugin.filter_known(world.state, info(WANTS), world.handle.snapshot) is None
    assert world.filter(WANTS) == dict.fromkeys(("n1", "n2"), f"{UU}: {STALE}")


def test_a_pod_that_is_being_bound_keeps_nothing_of_the_search_also_where_its_own_has_the_resource() -> None:
    own = {"metadata": {"name": "n3"}, "status": {"allocatable": {RESOURCE: "1"}}}
    world = World(N1, nodes=[node("n1"), own])
    world.manager.stores[2].apply(device_class().backing(RESOURCE))
    world.filter(WANTS)
    found = world.state.read(NAME, PodClaims)
    assert found is not None
    assert set(found.on_nodes) == {"n1"}
    assert said(world.plugin.reserve(world.state, info(WANTS), "n3")) == "Success"
    assert world.state.read(NAME, PodClaims) is None


def test_of_extended_resources_nothing_is_known_while_no_class_stands_for_one_of_them() -> None:
    world = World(N1)
    world.manager.stores[2].apply(device_class().backing(RESOURCE))
    pod = WANTS.wants({OTHER: "1"})
    assert world.pre_filter(pod) == "Success"
    assert world.plugin.filter_known(world.state, info(pod), world.handle.snapshot) is None

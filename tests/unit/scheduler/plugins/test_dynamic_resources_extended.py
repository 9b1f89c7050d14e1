"""DynamicResources: extended resources that devices provide, and the claim that is made for them (KEP-5004)."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from objects.builders import Pod, device_class
from objects.builders import pod as a_pod
from objects.devices import a_claim
from plugins.dynamicresources import CANNOT, CLAIM, DOWN, N1, UU, World, info, node, said

from tollbar import wellknown
from tollbar.model.objects import Object
from tollbar.scheduler.plugins.dynamic_resources import extended_resources

RESOURCE = "example.com/gpu"
BACKED = device_class().backing(RESOURCE)
WANTS = a_pod().but("spec.containers", []).wants({RESOURCE: "1"})
LEFT = a_claim("left").owned_by("Pod", "web").annotated({wellknown.EXTENDED_RESOURCE_CLAIM_ANNOTATION: "true"})
"""A claim that an earlier attempt has created for the Pod."""


def extended(made: Pod, world_nodes: Iterable[Object], *objects: Object) -> World:
    world = World(*objects, nodes=world_nodes)
    world.manager.stores[2].apply(BACKED)
    return world


EXTENDED: dict[str, tuple[Pod, list[Object], list[Object], Any]] = {
    "devices provide it": (WANTS, [node("n1"), node("n2")], [N1], {"n1": "Success", "n2": f"{UU}: {CANNOT}"}),
    "a device plugin provides it": (WANTS, [node("n1", example_com="1")], [], None),
    "no class stands for it": (
        a_pod().but("spec.containers", []).wants({"example.com/tpu": "1"}),
        [node("n1")],
        [N1],
        "Skip",
    ),
    "nothing provides another one": (
        WANTS.wants({"example.com/tpu": "1"}),
        [node("n1")],
        [N1],
        {"n1": f"{UU}: cannot fit resource"},
    ),
    "an earlier attempt has left a claim": (
        WANTS,
        [node("n1")],
        [N1, LEFT],
        {"n1": f"{UU}: cannot schedule extended resource claim"},
    ),
}


@pytest.mark.parametrize("case", EXTENDED)
def test_extended_resources_that_devices_provide(case: str) -> None:
    pod, nodes, objects, expected = EXTENDED[case]
    if expected is None:
        nodes = [{"metadata": {"name": "n1"}, "status": {"allocatable": {RESOURCE: "1"}}}]
        expected = {"n1": "Success"}
    assert extended(pod, nodes, *objects).filter(pod) == expected


async def test_the_claim_for_extended_resources_is_created_allocated_and_recorded() -> None:
    world = extended(WANTS, [node("n1")], N1)
    world.reserve(WANTS)
    before = world.held()
    answer = await world.pre_bind(WANTS)
    created = world.claim("web-extended-resources-x")
    calls = [each.replace("web-extended-resources-x", "x") for each in world.api.made]
    name = "container-0-request-0"
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    assert (answer, before, world.held(), created["spec"], calls, world.api.statuses) == (
        "Success",
        ["g0"],
        ["g0"],
        {"devices": {"requests": [{"name": name, "exactly": exactly}]}},
        ["create x", "update x", "update/status x", "patch web"],
        [
            {
                "extendedResourceClaimStatus": {
                    "requestMappings": [
                        {"containerName": "containers-0", "resourceName": RESOURCE, "requestName": name}
                    ],
                    "resourceClaimName": "web-extended-resources-x",
                }
            }
        ],
    )


CAME_LATE: dict[str, tuple[Pod, Sequence[Object], Any]] = {
    "no class stood for any resource of the Pod": (WANTS, [], "Skip"),
    "a class stood for another one": (
        WANTS.wants({"example.com/tpu": "1"}),
        [device_class("tpu").backing("example.com/tpu")],
        {"n1": "Success"},
    ),
}


@pytest.mark.parametrize("case", CAME_LATE)
def test_a_pod_is_not_bound_without_devices_where_a_class_comes_while_nodes_are_looked_at(case: str) -> None:
    """NodeResourcesFit leaves to devices whatever a class stands for when it is asked about a Node."""
    pod, classes, expected = CAME_LATE[case]
    there = {"metadata": {"name": "n1"}, "status": {"allocatable": {RESOURCE: "0"}}}
    world = World(N1, nodes=[there])
    for each in classes:
        world.manager.stores[2].apply(each)
    found = world.filter(pod)
    world.manager.stores[2].apply(BACKED)
    answer = said(world.plugin.reserve(world.state, info(pod), "n1"))
    assert (found, answer) == (
        expected,
        f"{UU}: a device class has come to stand for an extended resource in the meantime: {RESOURCE}",
    )


@pytest.mark.parametrize(("problems", "measured"), [([], [True]), ([DOWN], [False])])
async def test_creations_of_claims_are_counted(problems: list[Exception], measured: list[bool]) -> None:
    world = extended(WANTS, [node("n1")], N1)
    world.api.problems = {"create": problems}
    await world.bind(WANTS)
    assert world.measured == measured


async def test_unreserve_deletes_the_claim_for_extended_resources() -> None:
    world = extended(WANTS, [node("n1")], N1)
    world.api.problems = {"patch": [DOWN]}
    answer = await world.bind(WANTS)
    world.while_sleeping = world.watch
    await world.unreserve(WANTS)
    assert (answer, list(world.api.objects), world.held()) == (
        "Error: update pod ml/web ExtendedResourceClaimStatus: etcd is down",
        [],
        [],
    )


async def test_what_an_earlier_attempt_has_left_is_deleted_once_however_often_the_pod_is_tried_meanwhile() -> None:
    world = extended(WANTS, [node("n1")], N1, LEFT)
    world.while_sleeping = world.watch
    for _ in range(3):
        world.filter(WANTS)
        world.post_filter(WANTS)
    await world.carry_out()
    assert (world.api.made, world.activated) == (["get web", "delete left"], ["web"])


async def test_post_filter_deletes_what_an_earlier_attempt_has_left() -> None:
    world = extended(WANTS, [node("n1")], N1, LEFT.but("metadata.finalizers", [wellknown.DELETE_PROTECTION_FINALIZER]))
    world.filter(WANTS)
    answer = world.post_filter(WANTS)
    before: list[str] = []

    def late_watch() -> None:
        before.extend(world.activated)
        if len(world.slept) == 3:
            world.watch()

    world.while_sleeping = late_watch
    await world.carry_out()
    assert (answer, world.api.made, before, world.activated) == (
        "Unschedulable: deletion of ResourceClaim completed",
        ["get web", "update left", "delete left"],
        [],
        ["web"],
    )


async def test_a_pod_that_a_device_plugin_serves_needs_no_write() -> None:
    plugged = [{"metadata": {"name": "n1"}, "status": {"allocatable": {RESOURCE: "1"}}}]
    world = extended(WANTS, plugged)
    assert (await world.bind(WANTS), world.api.made) == ("Success", [])


async def test_a_pod_with_a_claim_that_a_device_plugin_serves_gets_its_claim_alone() -> None:
    plugged = [{"metadata": {"name": "n1"}, "status": {"allocatable": {RESOURCE: "1"}}}]
    world = extended(WANTS, plugged, CLAIM, N1)
    assert (await world.bind(WANTS.claims("gpu")), world.api.made) == ("Success", ["update gpu", "update/status gpu"])


def containers(*init: Object | tuple[int, str], main: Sequence[int]) -> Object:
    """A Pod whose containers want so many; init containers with `Always` are sidecars."""

    def container(name: str, count: int, **more: str) -> Object:
        return {"name": name, "resources": {"requests": {"cpu": "1", RESOURCE: str(count)}}, **more}

    starting = [
        container(f"i{place}", each[0], restartPolicy=each[1]) if isinstance(each, tuple) else each
        for place, each in enumerate(init)
    ]
    running = [container(f"c{place}", count) for place, count in enumerate(main)]
    return {"metadata": {"name": "web", "namespace": "ml"}, "spec": {"initContainers": starting, "containers": running}}


REQUESTS: dict[str, tuple[Object, dict[str, int], list[str]]] = {
    "each container its own": (
        containers(main=[1, 2]),
        {"container-0-request-1": 1, "container-1-request-1": 2},
        ["c0:container-0-request-1", "c1:container-1-request-1"],
    ),
    "a container that wants none": (
        containers(main=[0, 2]),
        {"container-1-request-1": 2},
        ["c1:container-1-request-1"],
    ),
    "a sidecar has its own": (
        containers((1, "Always"), main=[1]),
        {"container-0-request-1": 1, "container-1-request-1": 1},
        ["i0:container-0-request-1", "c0:container-1-request-1"],
    ),
    "an init container uses those of later containers": (
        containers((2, ""), main=[1, 2]),
        {"container-1-request-1": 1, "container-2-request-1": 2},
        [
            "c0:container-1-request-1",
            "c1:container-2-request-1",
            "i0:container-1-request-1",
            "i0:container-2-request-1",
        ],
    ),
    "an init container gets what it needs beyond": (
        containers((4, ""), main=[1]),
        {"container-0-request-1": 3, "container-1-request-1": 1},
        ["c0:container-1-request-1", "i0:container-1-request-1", "i0:container-0-request-1"],
    ),
    "init containers share what the greatest of them needs beyond": (
        containers((2, ""), (4, ""), main=[1]),
        {"container-1-request-1": 3, "container-2-request-1": 1},
        [
            "c0:container-2-request-1",
            "i0:container-2-request-1",
            "i0:container-1-request-1",
            "i1:container-2-request-1",
            "i1:container-1-request-1",
        ],
    ),
    "an init container does not use those of sidecars before it": (
        containers((1, "Always"), (1, ""), main=[0]),
        {"container-0-request-1": 1, "container-1-request-1": 1},
        ["i0:container-0-request-1", "i1:container-1-request-1"],
    ),
}


@pytest.mark.parametrize("case", REQUESTS)
def test_the_requests_for_extended_resources(case: str) -> None:
    pod, requests, mappings = REQUESTS[case]
    found = extended_resources.claim_for(extended_resources.virtual(pod), pod, [RESOURCE], {RESOURCE: BACKED})
    asked = {each["name"]: each["exactly"]["count"] for each in found.claim["spec"]["devices"]["requests"]}
    mapped = [f"{each['containerName']}:{each['requestName']}" for each in found.mappings]
    assert (asked, mapped) == (requests, mappings)

"""DynamicResources: what the claims of a Pod get on a Node, in which time, and which Node scores most."""

import gc
import itertools
from typing import Any

import pytest
from objects.builders import Built, device_class
from objects.builders import pod as a_pod
from objects.devices import DRIVER, a_claim, allocation, published, selecting, shared, whole
from plugins.dynamicresources import (
    ALTERNATIVES,
    CANNOT,
    CLAIM,
    GPU,
    N1,
    N2,
    UU,
    WEB,
    World,
    conditions,
    info,
    node,
    on_node,
    requesting,
    said,
    wanting,
)
from plugins.toys import MaskToy, ScoreToy, done, framework

from tollbar.model.objects import Object
from tollbar.scheduler.algorithm import Scheduled, schedule_pod
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.plugins.dynamic_resources import ownership
from tollbar.scheduler.plugins.dynamic_resources.known_nodes import KnownNodes

UNAVAILABLE = f"{UU}: resourceclaim not available on the node"
BAD = wanting("gpu", selectors=[{"cel": {"expression": "device.attributes['x'].y"}}])
FILTERS: dict[str, tuple[list[Object], Any]] = {
    "a Node has a device": ([CLAIM, N1], {"n1": "Success", "n2": f"{UU}: {CANNOT}"}),
    "each has one": ([CLAIM, N1, N2], {"n1": "Success", "n2": "Success"}),
    "a claim that is named twice counts once": (
        [CLAIM, published("s1", "g0", node="n1")],
        {"n1": "Success", "n2": f"{UU}: {CANNOT}"},
    ),
    "two are wanted": ([wanting("gpu", 2), N1, N2], {"n1": "Success", "n2": f"{UU}: {CANNOT}"}),
    "another claim has one of two": (
        [wanting("gpu", 2), a_claim("other", "g0"), N1],
        {"n1": f"{UU}: {CANNOT}", "n2": f"{UU}: {CANNOT}"},
    ),
    "the allocated claim can be used everywhere": ([a_claim("gpu", "g0")], {"n1": "Success", "n2": "Success"}),
    "the allocated claim can be used on one Node": (
        [on_node(a_claim("gpu", "g0"), "n2")],
        {"n1": UNAVAILABLE, "n2": "Success"},
    ),
    "a selector fails": (
        [BAD, N1],
        {
            "n1": "Error: claim ml/gpu: selector #0 on device gpu.example.com/n1/g0: CEL runtime error: no such key: y",
            "n2": f"{UU}: {CANNOT}",
        },
    ),
    "a pool is invalid": (
        [CLAIM, published("s1", "g0", "g0", node="n1")],
        {"n1": f"{UU}: invalid resource pools were encountered", "n2": f"{UU}: {CANNOT}"},
    ),
    "binding conditions are true": ([conditions("ready")], {"n1": "Success", "n2": "Success"}),
    "binding conditions are not true yet": ([conditions()], {"n1": "Success", "n2": "Success"}),
    "binding has failed": ([conditions("ready", "broken")], {"n1": UNAVAILABLE, "n2": UNAVAILABLE}),
    "binding takes too long": (
        [conditions(at="2025-12-31T23:49:59Z")],
        {"n1": UNAVAILABLE, "n2": UNAVAILABLE},
    ),
    "binding took long but is done": (
        [conditions("ready", at="2025-12-31T23:00:00Z")],
        {"n1": "Success", "n2": "Success"},
    ),
    "the Pod has no claims": ([], "Skip"),
}


@pytest.mark.parametrize("case", FILTERS)
def test_what_filter_says(case: str) -> None:
    objects, expected = FILTERS[case]
    pod = WEB.claims("gpu") if "twice" in case else WEB
    found = World(*objects).filter(pod if objects else a_pod())
    if isinstance(found, dict):
        found = {name: each.split(". consider")[0] for name, each in found.items()}
    assert found == expected


def test_filter_works_in_pieces_and_starts_over_when_devices_are_taken_meanwhile() -> None:
    selectors = [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]
    world = World(wanting("gpu", 2, selectors=selectors), N1, nodes=[node("n1")])
    ticks = itertools.count()
    world.handle.monotonic = lambda: next(ticks) * 0.003
    world.pre_filter(WEB)
    steps: Any = world.plugin.filter(world.state, info(WEB), world.handle.snapshot.nodes[0])
    next(steps)
    world.manager.stores[0].apply(a_claim("other", "g0"))
    assert said(done(steps)) == f"{UU}: {CANNOT}"


STRICT = GPU.but("spec.selectors", selecting("device.driver == 'other'"))
"""The class, which selects no device by now."""


def test_what_fits_a_class_that_has_changed_meanwhile_is_not_kept_for_the_class_as_it_was() -> None:
    world = World(CLAIM, N1)
    classes = world.manager.stores[2]
    classes.apply(STRICT)
    first, second = world.handle.snapshot.nodes
    world.pre_filter(WEB)
    before = [said(done(world.plugin.filter(world.state, info(WEB), second)))]
    classes.apply(GPU)
    world.manager.stores[0].apply(a_claim("other", "g9"))  # so that the search starts over
    before.append(said(done(world.plugin.filter(world.state, info(WEB), first))))
    classes.apply(STRICT)
    assert (before, world.filter(WEB)) == (
        [f"{UU}: {CANNOT}", f"{UU}: {CANNOT}"],
        {"n1": f"{UU}: {CANNOT}", "n2": f"{UU}: {CANNOT}"},
    )


def test_what_fits_a_class_as_it_was_is_not_kept_for_the_class_that_has_changed_meanwhile() -> None:
    """Devices have to provide the extended resource on one of the Nodes, so that what is allocated differs."""
    tpu = "example.com/tpu"
    there = {"metadata": {"name": "n1"}, "status": {"allocatable": {tpu: "1"}}}
    pod = WEB.but("spec.containers", []).wants({tpu: "1"})
    slices = N1, published("s2", "g2", "g3", node="n2")
    world = World(CLAIM, device_class("tpu").backing(tpu), *slices, nodes=[there, node("n2")])
    first, second = world.handle.snapshot.nodes
    world.pre_filter(pod)
    before = [said(done(world.plugin.filter(world.state, info(pod), first)))]
    world.manager.stores[2].apply(STRICT)
    before.append(said(done(world.plugin.filter(world.state, info(pod), second))))
    assert (before, world.filter(pod)) == (
        ["Success", "Success"],
        {"n1": f"{UU}: {CANNOT}", "n2": f"{UU}: {CANNOT}"},
    )


def test_filter_ends_when_its_time_is_over() -> None:
    world = World(CLAIM, N1, nodes=[node("n1")], args={"filterTimeout": 1.0})
    ticks = itertools.count()
    world.handle.monotonic = lambda: next(ticks) * 0.6
    assert world.filter(WEB) == {"n1": "Error: node n1: timed out trying to allocate devices"}


def test_the_time_of_filter_is_for_all_nodes_together() -> None:
    names = [f"n{number}" for number in range(1, 10)]
    slices = [published(f"s-{name}", "g0", node=name) for name in names]
    world = World(CLAIM, *slices, nodes=[node(name) for name in names], args={"filterTimeout": 1.0})
    ticks = itertools.count()
    world.handle.monotonic = lambda: next(ticks) * 0.06
    found = world.filter(WEB)
    assert found["n1"] == "Success"
    assert found["n9"] == "Unschedulable: node n9: timed out trying to allocate devices"


@pytest.mark.parametrize("device", ["g0", shared("g0")], ids=["whole", "shared"])
def test_when_the_time_of_filter_is_over_the_nodes_that_fit_are_enough(device: str | Object) -> None:
    names = [f"n{number}" for number in range(20)]
    slices = [published(f"s-{name}", device, node=name) for name in names]
    world = World(CLAIM, *slices, nodes=[node(name) for name in names], args={"filterTimeout": 1.0})
    ticks = itertools.count()
    world.handle.monotonic = lambda: next(ticks) * 0.06
    profile = framework(world.plugin, ScoreToy("score"), MaskToy("mask"), handle=world.handle)
    outcome = done(schedule_pod(profile, CycleState(), info(WEB), world.handle.snapshot, 0))
    assert isinstance(outcome.result, Scheduled)
    assert 0 < outcome.result.feasible_nodes < len(names)


OURS = f"{UU}: cannot allocate all claims with devices that are exclusive to this scheduler"
LABELLED = [node("n1", labels={"pool": "ours"}), node("n2")]
EVERYWHERE = {**Built(published("s3", "g3", pool="net", allNodes=True)).but("spec.nodeName", None)}
OWNED: dict[str, tuple[list[Object], Any, Any]] = {
    "everything": ([CLAIM, N1, N2], "all", {"n1": "Success", "n2": "Success"}),
    "nothing": (
        [CLAIM, N1],
        None,
        f"{UU}: {ownership.NOTHING}",
    ),
    "nothing is needed for a claim that is allocated": (
        [a_claim("gpu", "g0")],
        None,
        {"n1": "Success", "n2": "Success"},
    ),
    "the driver": ([CLAIM, N1], {"drivers": [DRIVER]}, {"n1": "Success", "n2": OURS}),
    "another driver": ([CLAIM, N1], {"drivers": ["nic.example.com"]}, {"n1": OURS, "n2": OURS}),
    "one of the Nodes": (
        [CLAIM, N1, N2],
        {"nodeSelector": {"pool": "ours"}},
        {"n1": "Success", "n2": f"{UU}: {ownership.OTHER_NODE}"},
    ),
    "a Node, but not what other Nodes can use as well": (
        [CLAIM, EVERYWHERE],
        {"nodeSelector": {"pool": "ours"}},
        {"n1": OURS, "n2": f"{UU}: {ownership.OTHER_NODE}"},
    ),
}


@pytest.mark.parametrize("case", OWNED)
def test_devices_are_allocated_that_are_exclusive_to_the_scheduler(case: str) -> None:
    objects, exclusive, expected = OWNED[case]
    assert World(*objects, nodes=LABELLED, args={"exclusive": exclusive}).filter(WEB) == expected


@pytest.mark.parametrize("exclusive", ["some", {}, {"drivers": [1]}, {"nodeSelector": {}}, {"drivers": [], "x": 1}])
def test_an_ownership_that_is_none_is_an_error(exclusive: object) -> None:
    with pytest.raises(ValueError, match="exclusive: must be all"):
        World(args={"exclusive": exclusive})


def alternatives(name: str, *counts: int) -> Built:
    asked = [{"name": f"o{place}", "deviceClassName": "gpu", "count": count} for place, count in enumerate(counts)]
    return a_claim(name).but("spec.devices.requests", [{"name": "r0", "firstAvailable": asked}])


def chosen(made: Built, request: str) -> Built:
    return made.but("status.allocation", allocation(whole("g0", request=request)))


SCORES: dict[str, tuple[list[Object], Any]] = {
    "no claim has alternatives": ([CLAIM, N1, N2], "Skip"),
    "the Pod has no claims": ([], "Skip"),
    "the better alternative fits on one Node alone": ([alternatives("gpu", 2, 1), N1, N2], ([8, 7], [100, 87])),
    "alternatives of a claim that is allocated count everywhere": (
        [chosen(alternatives("gpu", 2, 1), "r0/o1")],
        ([0, 0], [0, 0]),
    ),
}


@pytest.mark.parametrize("case", SCORES)
def test_earlier_alternatives_score_more(case: str) -> None:
    objects, expected = SCORES[case]
    assert World(*objects).scores(WEB if objects else a_pod()) == expected


def test_on_a_node_that_is_known_to_fit_a_pod_is_scored_and_reserved_without_filter() -> None:
    lists = {
        name: requesting(**ALTERNATIVES).but("metadata.name", name).but("metadata.uid", name) for name in ("a", "b")
    }
    world = World(*lists.values(), device_class("tpu"), N1, N2)
    nodes = world.handle.snapshot
    pods = [a_pod(name).claims(name) for name in lists]

    def known(pod: Object) -> list[str]:
        assert world.pre_filter(pod) == "Success"
        found = world.plugin.filter_known(world.state, info(pod), nodes)
        assert found is not None
        return [each.name for each, fits in zip(nodes, found.fits.tolist(), strict=True) if fits]

    before = known(pods[0])
    world.reserve(pods[0], "n1")
    after = known(pods[1])
    score = world.plugin.score(world.state, info(pods[1]), nodes.nodes[1])

    assert (before, after, score, known(pods[1])) == ([], ["n2"], 8, ["n2"])
    assert (said(world.plugin.reserve(world.state, info(pods[1]), "n2")), world.held()) == ("Success", ["g0", "g2"])


def test_what_was_known_of_a_node_is_reserved_although_something_has_changed_since() -> None:
    world = World(CLAIM, N1, N2)
    pod = info(WEB)
    nodes = world.handle.snapshot
    assert world.pre_filter(WEB) == "Success"
    assert world.plugin.filter_known(world.state, pod, nodes) is not None
    assert world.filter(WEB) == {"n1": "Success", "n2": "Success"}
    assert world.pre_filter(WEB) == "Success"
    found = world.plugin.filter_known(world.state, pod, nodes)
    assert found is not None
    assert found.fits.all()

    world.manager.stores[1].apply(N1.but("metadata.resourceVersion", "2").but("spec.pool.generation", 2))

    assert (said(world.plugin.reserve(world.state, pod, "n1")), world.held()) == ("Success", ["g0"])


def kept_of_nodes() -> int:
    return sum(isinstance(each, KnownNodes) for each in gc.get_objects())


def test_what_is_known_of_all_nodes_is_forgotten_with_its_kind_of_claims() -> None:
    gc.collect()
    before = kept_of_nodes()
    world = World(*(wanting(f"of-{count}", count) for count in range(1, 80)), N1)
    for count in range(1, 80):
        pod = info(a_pod(f"p{count}").claims(f"of-{count}"))
        assert world.plugin.pre_filter(world.state, pod, world.handle.snapshot) is None
        assert world.plugin.filter_known(world.state, pod, world.handle.snapshot) is not None

    assert kept_of_nodes() - before <= 64

"""The manager's slices with the taints of DeviceTaintRules, and its DeviceClasses."""

import logging
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from objects.builders import Built, device_class
from objects.devices import TAINT, published, taint_rule

from tollbar.dra.allocator import Allocator
from tollbar.dra.manager import DraManager
from tollbar.model.objects import Key, Object
from tollbar.views.devices import KINDS, dra_manager
from tollbar.views.lookup import filled

NODE: Object = {"kind": "Node", "metadata": {"name": "n1"}}
OWN: Object = {"key": "example.com/own", "effect": "NoExecute"}
OTHER: Object = {**TAINT, "key": "example.com/other"}


def following(*objects: Object) -> DraManager:
    return dra_manager(filled(objects, KINDS))


def tainted(manager: DraManager) -> dict[str, list[str]]:
    """The keys of the taints of each device that the Node can use."""
    return {
        device.id.device: [taint["key"].removeprefix("example.com/") for taint in device.taints]
        for pool in manager.inventory.pools(NODE)
        for device in pool.devices
    }


RULES: dict[str, tuple[Sequence[Object], dict[str, list[str]]]] = {
    "no rule": ([], {"g0": ["own"], "g1": []}),
    "an empty selector selects all devices": ([taint_rule("r")], {"g0": ["own", "broken"], "g1": ["broken"]}),
    "a rule without a selector selects none": (
        [taint_rule("r").but("spec.deviceSelector", None)],
        {"g0": ["own"], "g1": []},
    ),
    "by driver": ([taint_rule("r", driver="gpu.example.com")], {"g0": ["own", "broken"], "g1": ["broken"]}),
    "by pool": ([taint_rule("r", pool="n1")], {"g0": ["own", "broken"], "g1": ["broken"]}),
    "by device": ([taint_rule("r", device="g1")], {"g0": ["own"], "g1": ["broken"]}),
    "by all of them": (
        [taint_rule("r", driver="gpu.example.com", pool="n1", device="g0")],
        {"g0": ["own", "broken"], "g1": []},
    ),
    "not by another driver": ([taint_rule("r", driver="nic.example.com")], {"g0": ["own"], "g1": []}),
    "not by another pool": ([taint_rule("r", pool="n2", device="g0")], {"g0": ["own"], "g1": []}),
    "not by another device": ([taint_rule("r", driver="gpu.example.com", device="g7")], {"g0": ["own"], "g1": []}),
    "the taints of two rules come in the order of the rules' names": (
        [taint_rule("z", device="g1"), taint_rule("a", OTHER)],
        {"g0": ["own", "other"], "g1": ["other", "broken"]},
    ),
    "two rules with one taint add it twice": (
        [taint_rule("a", device="g1"), taint_rule("b", device="g1")],
        {"g0": ["own"], "g1": ["broken", "broken"]},
    ),
}


@pytest.mark.parametrize(("rules", "want"), RULES.values(), ids=RULES)
def test_taint_rules(rules: Sequence[Object], want: dict[str, list[str]]) -> None:
    manager = following(published("s", {"name": "g0", "taints": [OWN]}, "g1"), *rules)
    assert tainted(manager) == want


def test_a_changed_rule_leaves_the_devices_that_it_selected_before() -> None:
    manager = following(published("s", "g0", "g1"), taint_rule("r", device="g0"))
    rules = manager.stores[3]
    assert tainted(manager) == {"g0": ["broken"], "g1": []}
    rules.apply(taint_rule("r", device="g1"))
    assert tainted(manager) == {"g0": [], "g1": ["broken"]}
    rules.apply(taint_rule("r", OTHER, device="g1"))
    assert tainted(manager) == {"g0": [], "g1": ["other"]}
    rules.remove(taint_rule("r"))
    assert tainted(manager) == {"g0": [], "g1": []}


def test_only_the_pool_that_a_changed_rule_selects_is_made_anew_else_all_are() -> None:
    manager = following(
        published("s1", "g0", node="n1"),
        published("s2", "g0", node="n1", pool="other"),
        published("s3", "g0", node="n1", driver="nic.example.com"),
    )
    rules = manager.stores[3]

    def made_anew(rule: Object) -> list[str]:
        before = {str(pool.id): pool for pool in manager.inventory.pools(NODE)}
        rules.apply(rule)
        return sorted(str(pool.id) for pool in manager.inventory.pools(NODE) if pool is not before[str(pool.id)])

    everything = ["gpu.example.com/n1", "gpu.example.com/other", "nic.example.com/n1"]
    assert made_anew(taint_rule("a", driver="gpu.example.com", pool="n1")) == ["gpu.example.com/n1"]
    assert made_anew(taint_rule("b", pool="n1")) == everything
    assert made_anew(taint_rule("b", pool="n1").but("metadata.labels", {"a": "b"})) == []
    assert made_anew(taint_rule("b", driver="gpu.example.com", pool="other")) == everything
    assert made_anew(taint_rule("b", driver="gpu.example.com", pool="other", device="g0")) == ["gpu.example.com/other"]
    assert made_anew(taint_rule("c")) == everything


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["one way", "the other way"])
def test_slices_that_disagree_about_their_number_are_judged_alike_in_whatever_order_they_come(
    order: tuple[int, int],
) -> None:
    count = {"name": "n1", "generation": 1}
    objects = [
        published("a", "g0").but("spec.pool", {**count, "resourceSliceCount": 2}),
        published("b", "g1").but("spec.pool", {**count, "resourceSliceCount": 1}),
    ]
    assert tainted(following(*(objects[each] for each in order))) == {"g0": [], "g1": []}


def test_a_tainted_device_is_not_allocated() -> None:
    manager = following(published("s", "g0", "g1"), taint_rule("r", device="g0"), device_class())
    claim = {
        "metadata": {"name": "a", "namespace": "ml", "uid": "a"},
        "spec": {"devices": {"requests": [{"name": "r0", "exactly": {"deviceClassName": "gpu"}}]}},
    }
    found: Any = Allocator(manager.inventory, manager.claims.state, manager.classes).allocate(NODE, [claim])
    assert [result["device"] for result in found[0]["devices"]["results"]] == ["g1"]


MALFORMED: dict[str, tuple[int, Object, Object]] = {
    "a slice without a pool": (1, published("s").but("spec.pool", None), published("s", "g0")),
    "a slice with a capacity that is no quantity": (
        1,
        published("s", {"name": "g0", "capacity": {"memory": {"value": "much"}}}),
        published("s", "g0"),
    ),
    "a slice with a list for a driver": (1, published("s", driver=["d"]), published("s", "g0")),
    "a rule without a taint": (3, taint_rule("r").but("spec.taint", None), taint_rule("r", device="g7")),
    "a rule with a taint that is no object": (3, taint_rule("r", "taint"), taint_rule("r", device="g7")),  # type: ignore[arg-type]
    "a rule with a driver that is no text": (
        3,
        taint_rule("r").but("spec.deviceSelector", {"driver": {}}),
        taint_rule("r", device="g7"),
    ),
}


@pytest.mark.parametrize(("number", "bad", "good"), MALFORMED.values(), ids=MALFORMED)
def test_what_cannot_be_read_is_left_out_and_told_once(
    number: int, bad: Built, good: Built, caplog: pytest.LogCaptureFixture
) -> None:
    manager = following(published("other", "g9", pool="other"), good)
    store, fine = manager.stores[number], tainted(manager)
    with caplog.at_level(logging.WARNING):
        for turn in ("1", "2"):
            store.apply(bad.but("metadata.labels", {"turn": turn}))
            assert tainted(manager) == {"g9": []}
            assert len(manager.malformed) == 1
    assert [record.getMessage() for record in caplog.records] == ["a malformed object is left out"]
    store.apply(good.but("metadata.labels", {"turn": "3"}))
    assert (tainted(manager), len(manager.malformed)) == (fine, 0)
    store.apply(bad)
    store.discard(Key("", bad["metadata"]["name"]))
    assert len(manager.malformed) == 0


OLD, NEW = device_class("old").backing("example.com/gpu").created(1), device_class("new").backing("example.com/gpu")
LATER = device_class("later").backing("example.com/gpu")


def test_a_class_stands_for_its_extended_resource_again_when_a_newer_one_is_gone() -> None:
    """kube-scheduler forgets the resource then, until the class changes."""
    manager = following(OLD, NEW)
    store = manager.stores[2]

    def found() -> str | None:
        backing = manager.classes.for_extended_resource("example.com/gpu")
        return backing["metadata"]["name"] if backing is not None else None

    assert found() == "new"
    store.apply(LATER)
    assert found() == "later"  # created at the same time, and the lower name
    store.apply(LATER.but("spec.extendedResourceName", "example.com/other"))
    assert found() == "new"
    store.remove(NEW)
    assert found() == "old"
    store.remove(OLD)
    assert found() is None


def test_classes_are_found_by_name_and_by_the_resource_that_every_class_has() -> None:
    classes = following(OLD, NEW).classes
    assert (sorted(classes), len(classes)) == (["new", "old"], 2)
    assert classes["old"] is classes.for_extended_resource("deviceclass.resource.kubernetes.io/old")
    assert classes.get("none") is None
    assert classes.for_extended_resource("deviceclass.resource.kubernetes.io/none") is None


@pytest.mark.behaviour(42)
def test_the_allocator_is_imported_without_the_manager_and_without_a_client() -> None:
    program = "import sys, tollbar.dra; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    assert "tollbar.dra.allocator" in loaded
    unwanted = {"asyncio", *(f"tollbar.dra.{name}" for name in ("manager", "claims", "classes", "malformed"))}
    assert not unwanted.intersection(loaded)
    assert not [name for name in loaded if name.startswith(("tollbar.runtime", "tollbar.views"))]

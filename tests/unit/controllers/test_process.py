"""The controllers process as a whole: what each mode reads, what its leader runs, and when it is ready."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fakes.manager import Managed, turns
from objects.builders import pod, scheduling_gate
from unit.gates.zones import Zone

from controllers.__main__ import setup
from tollbar import wellknown
from tollbar.gates import registry
from tollbar.model.objects import Object
from tollbar.model.resources import SELF_SUBJECT_REVIEWS, Resource
from tollbar.views import kinds

USER = "system:serviceaccount:toll:controllers"


class Api:
    """Answers access reviews, records the selectors of every list, and never answers lists."""

    def __init__(self) -> None:
        self.lists: dict[str, tuple[str, str]] = {}

    async def create(self, res: Resource, obj: Object, *_: Any) -> Object:
        assert res == SELF_SUBJECT_REVIEWS
        return {**obj, "status": {"userInfo": {"username": USER}}}

    async def list(
        self, res: Resource, _: str = "", *, field_selector: str = "", label_selector: str = "", **__: Any
    ) -> Object:
        self.lists[res.plural] = (field_selector, label_selector)
        await asyncio.Event().wait()
        return {}

    async def raw(self, *_: Any, **__: Any) -> bytes:
        await asyncio.Event().wait()
        return b""

    async def served(self, _: str) -> set[str]:
        return {"podgroups"}


POD_KINDS = {
    "resourceclaims": ("", ""),
    "resourceclaimtemplates": ("", ""),
    "deviceclasses": ("", ""),
    "namespaces": ("", ""),
    "tolerationrules": ("", ""),
    "schedulinggates": ("", ""),
    "mutatingwebhookconfigurations": ("", "app.kubernetes.io/name=tollbar"),
    "validatingwebhookconfigurations": ("", "app.kubernetes.io/name=tollbar"),
    "secrets": ("metadata.name=tollbar-webhook-ca", ""),
}
CLAIM_KINDS = {"pods": ("", ""), "workloadclaims": ("", ""), "podgroups": ("", "")}
ALWAYS = {
    "controller certificates",
    "controller gates",
    "controller rules",
    "controller watchdog",
    "declare the gate",
    "kept tolerations",
}
BESIDE = ALWAYS | {
    "controller reservations",
    "controller swaps",
    "controller workloadclaims",
    "watches of workloads",
    "oscillations of claims",
    "claims mode",
}
MODES: dict[str, tuple[dict[str, tuple[str, str]], set[str]]] = {
    "Disabled": ({**POD_KINDS, "pods": ("spec.nodeName=", "")}, ALWAYS),
    "Complement": ({**POD_KINDS, **CLAIM_KINDS}, BESIDE),
    "Replace": ({**POD_KINDS, **CLAIM_KINDS}, BESIDE | {"controller claims"}),
}


@asynccontextmanager
async def running(work: Any) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    yield
    task.cancel()
    await asyncio.wait({task})


@pytest.mark.parametrize(("mode", "lists"), [(mode, lists) for mode, (lists, _) in MODES.items()])
async def test_bound_pods_and_their_groups_are_read_only_where_claims_are_looked_after(
    mode: str, lists: dict[str, tuple[str, str]]
) -> None:
    api = Api()
    manager = Managed(api, claims=mode)
    await setup(manager)
    manager.phases()
    async with running(manager.caches.run()):
        await turns()
    assert api.lists == lists


@pytest.mark.parametrize(("mode", "work"), [(mode, work) for mode, (_, work) in MODES.items()])
async def test_the_leader_runs_the_controllers_of_its_mode(mode: str, work: set[str]) -> None:
    manager = Managed(Api(), claims=mode)
    await setup(manager)
    (leading,) = manager.phases()[4]
    before = asyncio.all_tasks()
    async with running(leading.run(asyncio.Event())):
        await turns(3)
        found = {task.get_name() for task in asyncio.all_tasks() - before}
    assert (manager.elects, {name for name in found if not name.startswith("Task-")}) == (True, work)


@pytest.mark.parametrize("mode", MODES)
async def test_the_lease_says_how_claims_are_looked_after_from_the_beginning(mode: str) -> None:
    manager = Managed(Api(), claims=mode)
    await setup(manager)
    assert manager.lease_annotations[wellknown.ANNOTATION_CLAIMS] == mode


async def test_the_lease_says_which_gates_of_classes_are_released(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "IN_TREE", {"zone": Zone})
    found = []
    for gates in ([], ["zone"]):
        manager = Managed(Api(), gates=gates)
        await setup(manager)
        found.append(manager.lease_annotations[wellknown.ANNOTATION_GATES])
    assert found == ["", Zone.name]


class Dropping(Api):
    """Drops tolerations of devices."""

    async def raw(self, method: str, *_: Any, **__: Any) -> bytes:
        if method != "POST":
            await asyncio.Event().wait()
        return b'{"spec": {"devices": {"requests": [{"name": "tried", "exactly": {}}]}}}'


async def test_the_leader_says_on_the_lease_what_the_api_server_does_with_tolerations_of_devices() -> None:
    manager = Managed(Dropping())
    await setup(manager)
    before = manager.lease_annotations.get(wellknown.ANNOTATION_DEVICE_TOLERATIONS)
    async with running(manager.leading("kept tolerations")()):
        await turns()
    assert (before, manager.lease_annotations[wellknown.ANNOTATION_DEVICE_TOLERATIONS]) == (None, "Dropped")


OWNERS: dict[str, tuple[list[Object], bool]] = {
    "nobody has declared our gate": ([], True),
    "this process is among the owners of our gate": (
        [scheduling_gate().but("spec.owners", ["somebody", USER])],
        True,
    ),
    "only others own our gate": ([scheduling_gate("mine", wellknown.GATE).but("spec.owners", ["somebody"])], False),
    "nobody owns our gate": ([scheduling_gate("mine", wellknown.GATE)], False),
    "only another gate has other owners": ([scheduling_gate("x", "a.dev/x").but("spec.owners", ["somebody"])], True),
}


@pytest.mark.parametrize(("gates", "ready"), OWNERS.values(), ids=OWNERS)
async def test_whether_the_process_may_release_what_it_gates(gates: list[Object], ready: bool) -> None:
    manager = Managed(Api(), claims="Disabled")
    await setup(manager)
    manager.fill(gates)
    problem = manager.health._ready["gate-owner"]()
    assert problem == (None if ready else f"{USER} is not among the owners of SchedulingGate mine")


@pytest.mark.behaviour(16)
async def test_how_many_pods_our_gate_holds_is_a_metric() -> None:
    manager = Managed(Api(), claims="Disabled")
    await setup(manager)
    manager.fill([pod("a").gated(), pod("b").gated("a.dev/x"), pod("c")])
    assert (
        len(manager.caches.store(kinds.PENDING_PODS)),
        manager.metrics.registry.get_sample_value("tollbar_gated_pods"),
    ) == (3, 1.0)


async def test_in_how_many_namespaces_pods_are_held_for_too_long_is_a_metric() -> None:
    manager = Managed(Api(), claims="Disabled")
    await setup(manager)
    manager.fill([pod("a", "one").gated(), pod("b", "one").gated(), pod("c", "two").gated("a.dev/x")])
    value = manager.metrics.registry.get_sample_value
    assert (value("tollbar_overdue_namespaces"), value("tollbar_gate_hold_seconds_count")) == (1.0, 0.0)

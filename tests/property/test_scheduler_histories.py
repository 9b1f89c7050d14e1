"""Whatever happens to a cluster and its scheduler: Pods are bound once, devices given once, and nothing is forgotten.

Pods, Nodes, devices and claims come, change and go; calls of the API fail with and without effect; watches are late;
the lease is lost; the process is killed.  The judge is `history.placements`, with nothing but what was stored.  In the
end there is room for everything: then nothing may be left waiting, and as much must be free as there is without Pods.
TOLLBAR_SCHEDULER_HISTORIES says how many histories there are.
"""

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from clusters.scheduler import FAULTS, ApiServer, World, enabling, node
from fakes.clocks import in_fake_time
from history.placements import leftovers, wrongs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from objects.builders import Built, Pod, claim, device_class, pod, toleration
from objects.devices import published

from tollbar.model.objects import Object, metadata, spec, uid_of
from tollbar.scheduler.framework.interface import Wait

HISTORIES = int(os.environ.get("TOLLBAR_SCHEDULER_HISTORIES", "20"))
RESOURCE = "example.com/gpu"
NODES = ("n1", "n2", "n3")
TAINT = {"key": "example.com/special", "value": "yes", "effect": "NoSchedule"}
FEW, MANY = 2, 12
"""Devices of a Node while things happen, and in the end."""
STORM = 500
"""More equal calls than back-off allows, which is at least a second at first and ten in the end."""
WITH_PERMIT = enabling("Turnstile")


class Turnstile:
    """Lets Pods with the label `permit` wait, unless it is open."""

    name = "Turnstile"
    is_open = False

    def __init__(self, _args: object, _handle: object) -> None:
        pass

    def permit(self, _state: object, waiting: Any, _node_name: str) -> Wait | None:
        return Wait(20.0) if "permit" in waiting.labels and not Turnstile.is_open else None


def wanting(name: str, cpu: str = "1") -> Pod:
    return pod(name).but("spec.containers", []).wants({"cpu": cpu})


SPREAD = {
    "maxSkew": 1,
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "spread"}},
}
SORTS: dict[str, Any] = {
    "plain": wanting,
    "important": lambda name: wanting(name, "3").but("spec.priority", 10),
    "spread": lambda name: wanting(name).labelled(app="spread").but("spec.topologySpreadConstraints", [SPREAD]),
    "own": lambda name: wanting(name).claims(name),
    "sharing": lambda name: wanting(name).claims("shared"),
    "both": lambda name: wanting(name).claims("shared", name),
    "generated": lambda name: wanting(name).templates("gpu"),
    "extended": lambda name: wanting(name).wants({RESOURCE: "1"}),
    "gated": lambda name: wanting(name).gated("example.com/quota"),
    "late": lambda name: wanting(name).but("spec.nodeSelector", {"kubernetes.io/hostname": "n3"}),
    "permitted": lambda name: wanting(name).labelled(permit="yes"),
    "permitted, with a claim": lambda name: wanting(name).labelled(permit="yes").claims(name),
}
"""Pods by name."""


def with_devices(node_name: str, count: int, generation: int) -> Built:
    made = published(f"slice-{node_name}", *(f"g{number}" for number in range(count)), node=node_name)
    return made.but("spec.pool.generation", generation)


class History:
    """A cluster with a scheduler, and what others do in it."""

    def __init__(self) -> None:
        self.api = ApiServer(
            [
                device_class().backing(RESOURCE),
                claim("shared").request("gpu"),
                *(node(name) for name in NODES[:2]),
                node("n3", taints=[TAINT]),
                *(with_devices(name, FEW, 1) for name in NODES),
            ],
            latency=0.1,
        )
        self.generation = 1
        Turnstile.is_open = False
        self.world = self.started()
        self.world.lead()

    def started(self) -> World:
        return World(self.api, plugins={"Turnstile": Turnstile}, configuration=WITH_PERMIT)

    # What users and administrators do.

    async def create(self, sort: str, number: int) -> None:
        name = f"{sort.replace(', ', '-').replace(' ', '-')}-{number}"
        if self.api.find("Pod", name):
            return
        made = SORTS[sort](name).but("metadata.uid", f"{name}-{len(self.api.changes['Pod'])}")
        for each in made.at("spec.resourceClaims", []):
            owned = each.get("resourceClaimName")
            if owned == name and not self.api.find("ResourceClaim", name):
                self.api.store(claim(name).request("gpu"))
        self.api.store(made)

    async def delete(self, sort: str, number: int) -> None:
        if found := self.api.find("Pod", f"{sort.replace(', ', '-').replace(' ', '-')}-{number}"):
            self.deleted(found)

    async def release(self) -> None:
        """Gates are removed, and tolerations are added."""
        for each in self.api.all("Pod"):
            if spec(each).get("schedulingGates"):
                self.api.store(each.but("spec.schedulingGates", None))
            elif "late" in metadata(each)["name"] and not spec(each).get("tolerations"):
                self.api.store(each.tolerating(toleration(TAINT["key"])))

    async def taint(self, name: str) -> None:
        if found := self.api.find("Node", name, ""):
            taints = [] if found.at("spec.taints") else [TAINT]
            self.api.store(found.but("spec.taints", taints))

    async def node(self, name: str) -> None:
        """It goes, or is back."""
        if found := self.api.find("Node", name, ""):
            self.api.drop(found)
        else:
            self.api.store(node(name))

    async def publish(self, name: str, count: int) -> None:
        """The driver publishes other devices."""
        self.generation += 1
        self.api.store(with_devices(name, count, self.generation))

    async def open(self, is_open: bool) -> None:
        Turnstile.is_open = is_open
        for each in list(self.world.handle.waiting_pods.values()):
            if is_open:
                each.allow("Turnstile")
            else:
                each.reject("Turnstile", "not you")

    # What other components do.

    async def kubelet(self) -> None:
        for each in self.api.all("Pod"):
            if metadata(each).get("deletionTimestamp"):
                self.api.drop(each)

    async def controller(self) -> None:
        """Claims are generated, and freed when their Pods are gone."""
        pods = {uid_of(each): each for each in self.api.all("Pod")}
        for each in pods.values():
            if each.at("spec.resourceClaims", [{}])[0].get("resourceClaimTemplateName") and not each.at(
                "status.resourceClaimStatuses"
            ):
                made = claim(f"{metadata(each)['name']}-x").request("gpu").generated_for(each, "gpu")
                self.api.store(made.but("metadata.uid", f"claim-of-{uid_of(each)}"))
                self.api.store(each.generated("gpu", metadata(made)["name"]))
        for each in self.api.all("ResourceClaim"):
            users = [entry for entry in each.at("status.reservedFor", []) if entry["uid"] in pods]
            owners = metadata(each).get("ownerReferences") or ()
            if any(owner["uid"] not in pods for owner in owners):
                self.api.drop(each)
            elif len(users) != len(each.at("status.reservedFor", [])):
                status = {**each["status"], "reservedFor": users} if users else {}
                self.api.store(each.but("status", status))

    # What happens to the scheduler.

    async def faults(self, *faults: str) -> None:
        self.api.faults.extend(faults)

    async def breaks(self, verb: str) -> None:
        """Calls with this verb fail, or succeed again."""
        self.api.broken ^= {verb}

    async def watch(self, kind: str, count: int | None) -> None:
        self.world.watch(kind, count)

    async def passes(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def lease(self) -> None:
        """It is lost, or it is won."""
        if self.world.leads:
            await self.world.stop()
        else:
            self.world.lead()

    async def killed(self) -> None:
        await self.world.stop()
        self.world = self.started()
        self.world.lead()

    # The end.

    async def ends(self) -> None:
        """There is room for everything, everybody works, and time passes."""
        self.api.faults.clear()
        self.api.broken.clear()
        self.resized("64", MANY)
        await self.open(True)
        if not self.world.leads:
            self.world.lead()
        for _ in range(8):
            await self.release()
            await self.settled()
            if not self.left():
                break

    async def settled(self) -> None:
        await self.kubelet()
        await self.controller()
        self.world.watch()
        await asyncio.sleep(400)
        self.world.watch()

    async def cleared(self) -> None:
        """All Pods are deleted, and then all claims: who gives a Pod up leaves its claims allocated."""
        for each in self.api.all("Pod"):
            self.deleted(each)
        await self.settled()
        for each in self.api.all("ResourceClaim"):
            self.api.drop(each)
        await self.settled()

    def deleted(self, found: Any) -> None:
        if spec(found).get("nodeName"):
            self.api.store(found.deleting())
        else:
            self.api.drop(found)

    async def filled(self) -> None:
        """One Pod for each Node that takes all that it has."""
        for name in NODES:
            wants = claim(f"all-{name}").but("spec.devices.requests", [ALL])
            self.api.store(wants)
            self.api.store(wanting(f"all-{name}", "64").claims(f"all-{name}").but("spec.nodeSelector", host(name)))
        await self.settled()

    def resized(self, cpu: str, devices: int) -> None:
        self.generation += 1
        for name in NODES:
            self.api.store(node(name, cpu=cpu).but("status.allocatable.pods", "100"))
            self.api.store(with_devices(name, devices, self.generation))

    def left(self) -> list[str]:
        return list(leftovers({(kind, key.name): each for (kind, key), each in self.api.objects.items()}))

    def wrongs(self) -> list[str]:
        twice = [f"{uid}: bound to {nodes}" for uid, nodes in self.api.bound.items() if len(nodes) > 1]
        return [*wrongs(self.api.changes["Pod"] + self.api.changes["ResourceClaim"]), *twice]

    def kept(self) -> dict[str, int]:
        """What the scheduler remembers of Pods that are not bound, without what is nothing."""
        world = self.world
        sizes = {
            **world.queue.counts(),
            "in flight": len(world.queue.in_flight),
            "assumed": world.assumed(),
            "in Permit": len(world.handle.waiting_pods),
            "in PreBind": len(world.handle.pods_in_pre_bind),
            "nominated to": len(world.handle.nominator.nominated_nodes()),
        }
        return {name: size for name, size in sizes.items() if size}


ALL = {"name": "all", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": MANY}}


def host(name: str) -> Object:
    return {"kubernetes.io/hostname": name}


numbers = st.integers(0, 2)
sorts = st.sampled_from(list(SORTS))
names = st.sampled_from(NODES)
kinds = st.sampled_from(["Pod", "Pod", "ResourceClaim", "ResourceClaim", "Node", "ResourceSlice", ""])
creations = st.tuples(st.just("create"), st.tuples(sorts, numbers))
watching = st.tuples(st.just("watch"), st.tuples(kinds, st.none() | st.integers(1, 3)))
passing = st.tuples(st.just("passes"), st.tuples(st.sampled_from([0.05, 0.15, 0.35, 1.0, 5.0, 40.0])))
failing = st.lists(st.sampled_from(["ok", *FAULTS]), min_size=1, max_size=5).map(lambda each: ("faults", tuple(each)))
rare = st.one_of(
    st.tuples(st.just("delete"), st.tuples(sorts, numbers)),
    st.tuples(st.just("taint"), st.tuples(names)),
    st.tuples(st.just("node"), st.tuples(names)),
    st.tuples(st.just("publish"), st.tuples(names, st.integers(0, FEW))),
    st.tuples(st.just("open"), st.tuples(st.booleans())),
    st.tuples(st.just("breaks"), st.tuples(st.sampled_from(["bind", "create", "delete", "get", "patch", "replace"]))),
    st.sampled_from([(each, ()) for each in ("release", "kubelet", "controller", "lease", "lease", "killed")]),
)
steps = st.lists(st.one_of(creations, watching, passing, failing, rare), min_size=10, max_size=60)


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    """What fails is logged."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.behaviour(25, 48, 50)
@pytest.mark.timeout(180 + HISTORIES // 2)
@settings(max_examples=HISTORIES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(steps)
def test_pods_are_bound_once_devices_are_given_once_and_nothing_is_forgotten(history: list[tuple[str, Any]]) -> None:
    async def run() -> None:
        here = History()
        for what, arguments in history:
            await getattr(here, what)(*arguments)
        await here.ends()
        assert (here.wrongs(), here.left(), here.kept()) == ([], [], {})
        await here.cleared()
        await here.filled()
        assert (here.wrongs(), here.left(), here.kept()) == ([], [], {})
        await here.world.stop()
        assert max(Counter(here.api.calls).values()) < STORM, "something is tried again without a pause"
        assert here.api.altered() == [], "caches share what they have: nobody may change it"
        assert asyncio.all_tasks() == {asyncio.current_task()}

    in_fake_time(run())

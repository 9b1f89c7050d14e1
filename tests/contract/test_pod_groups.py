"""PodGroups, where both feature gates are on (KEP-4671, KEP-5729): who may join one, and what it keeps.

On a plane of its own, with one Node; what kube-scheduler reserves for a PodGroup is seen in
tests/e2e/test_many_consumers.py.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from contract.api import Answer, Api, settings, told, until
from contract.claims import ALLOCATION, claim
from contract.objects import made, pod
from contract.tables import Rows, last, rows
from planes.access import Access
from planes.parameters import since
from planes.podgroups import FLAGS, NONE_BEFORE
from planes.replacing import restarted_with

from tollbar import wellknown
from tollbar.devplane.background import BackgroundKubelet
from tollbar.devplane.binaries import Binaries
from tollbar.devplane.layout import CONTROLLER_MANAGER
from tollbar.devplane.nodes import NodeSpec
from tollbar.devplane.real.components import Options
from tollbar.devplane.real.launcher import RealPlane
from tollbar.model.objects import Object
from tollbar.model.resources import POD_GROUPS, PODS, RESOURCE_CLAIMS
from tollbar.runtime.client import PatchType

pytestmark = [pytest.mark.real, since("1.37", NONE_BEFORE)]

SHARED = {"name": "gpu", "resourceClaimName": "gpu"}
WEB = {"apiGroup": "apps", "resource": "deployments", "name": "web", "uid": "u1"}


@pytest.fixture(scope="module")
def contracted(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPlane]:
    with (
        RealPlane(binaries, tmp_path_factory.mktemp("grouped"), Options(flags=FLAGS)) as plane,
        BackgroundKubelet(plane.kubeconfig) as kubelet,
    ):
        kubelet.add_node(NodeSpec("node"))
        yield plane


@pytest.fixture(scope="module")
def access(contracted: RealPlane) -> Access:
    return Access.of(settings(contracted))


def group(*claims: Object) -> Object:
    return made(POD_GROUPS, "gang", spec={"schedulingPolicy": {"basic": {}}, "resourceClaims": list(claims)})


def member(name: str = "web") -> Object:
    return pod(name=name, schedulingGroup={"podGroupName": "gang"}, resourceClaims=[SHARED])


def gone(api: Api) -> int:
    until(lambda: api.get(POD_GROUPS, "gang").code == 404, "the PodGroup is gone")
    return api.get(POD_GROUPS, "gang").code


def ending(api: Api) -> Any:
    """A PodGroup that was deleted and has a Pod."""
    api.create(group(SHARED)).accepted()
    api.create(member()).accepted()
    api.bind().accepted()
    return api.delete(POD_GROUPS, "gang").accepted()


def reserved(api: Api, *others: Object) -> None:
    """Claim `gpu`, allocated, and reserved for a PodGroup and these."""
    uid = api.create(group(SHARED))["metadata.uid"]
    entry = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "gang", "uid": uid}
    created = api.create(claim(finalizers=[wellknown.DELETE_PROTECTION_FINALIZER])).accepted()
    status = {"allocation": ALLOCATION, "reservedFor": [entry, *others]}
    api.replace({**created.object, "status": status}, "status").accepted()


def left(api: Api, *others: Object) -> Any:
    """What is left of that claim once the PodGroup is gone."""
    reserved(api, *others)
    last(api.delete(POD_GROUPS, "gang"), gone(api))
    until(lambda: len(of(api).get("reservedFor", ())) == len(others), "its entry is gone")
    until(lambda: others or not api.get(RESOURCE_CLAIMS, "gpu")["metadata.finalizers"], "its finalizer is gone")
    return of(api)


def of(api: Api) -> Object:
    """The status of the claim."""
    found: Object = api.get(RESOURCE_CLAIMS, "gpu").object.get("status") or {}
    return found


def blocked(api: Api) -> Any:
    """What is said of a Pod whose group has another one of a priority that is not the group's, and where it goes
    when that one is gone."""
    api.create(group()).accepted()
    for name, spec in (("high", {"priorityClassName": "system-cluster-critical"}), ("low", {})):
        of_group = {"schedulerName": "default-scheduler", "schedulingGroup": {"podGroupName": "gang"}}
        api.create(pod(name=name, **of_group, **spec)).accepted()
        until(lambda name=name: rejection(api, name), f"{name} was tried")
    said = rejection(api, "low")
    api.delete(PODS, "high", gracePeriodSeconds=0).accepted()
    return said, until(lambda: api.get(PODS, "low")["spec.nodeName"], "low is bound")


def rejection(api: Api, name: str) -> Any:
    """Reason and message of the condition PodScheduled while it is False."""
    conditions = api.get(PODS, name)["status.conditions"] or ()
    return next(((each["reason"], each["message"]) for each in conditions if each["type"] == "PodScheduled"), None)


def facts(answer: Answer) -> Any:
    return answer["metadata.finalizers"], answer["spec.priority"], answer["spec.resourceClaims"]


POD_GROUP: Rows = {
    "it is protected, has a priority, and keeps its claims": (
        lambda api: facts(api.create(group(SHARED))),
        (["scheduling.k8s.io/podgroup-protection"], 0, [SHARED]),
    ),
    "a dry run answers the same": (
        lambda api: facts(api.create(group(SHARED), dryRun="All")),
        (["scheduling.k8s.io/podgroup-protection"], 0, [SHARED]),
    ),
    "its claims cannot be changed": (
        lambda api: last(
            api.create(group(SHARED)),
            api.patch(POD_GROUPS, "gang", {"spec": {"resourceClaims": []}}, PatchType.MERGE).code,
        ),
        422,
    ),
    "it has four claims at most": (
        lambda api: api.create(group(*({**SHARED, "name": f"gpu-{number}"} for number in range(5)))).code,
        422,
    ),
    "a Pod may name it before it is there": (
        lambda api: api.create(member())["spec.schedulingGroup"],
        {"podGroupName": "gang"},
    ),
    "a Pod cannot be put into one later": (
        lambda api: last(
            api.create(pod()),
            api.patch(PODS, "web", {"spec": {"schedulingGroup": {"podGroupName": "gang"}}}, PatchType.MERGE).code,
        ),
        422,
    ),
    "without Pods it goes at once": (
        lambda api: last(api.create(group(SHARED)), api.delete(POD_GROUPS, "gang"), gone(api)),
        404,
    ),
    "with a Pod it stays": (
        lambda api: last(ending(api), bool(api.get(POD_GROUPS, "gang")["metadata.deletionTimestamp"])),
        True,
    ),
    "others may join it then": (
        lambda api: last(ending(api), api.create(member("another"))["spec.schedulingGroup"]),
        {"podGroupName": "gang"},
    ),
    "it goes with its last Pod": (
        lambda api: last(ending(api), api.delete(PODS, "web", gracePeriodSeconds=0), gone(api)),
        404,
    ),
    "its end frees the claim that is reserved for it": (lambda api: left(api), {}),
    "beside the entry of a workload the claim stays allocated": (
        lambda api: left(api, WEB),
        {"allocation": ALLOCATION, "reservedFor": [WEB]},
    ),
}


ANOTHER_PRIORITY = (
    "all pods in a single pod group should have the same priority as the pod group's priority, got 2000000000 and 0"
)


def test_one_pod_of_another_priority_keeps_the_others_of_its_group_from_being_scheduled(api: Api) -> None:
    assert blocked(api) == (("SchedulerError", ANOTHER_PRIORITY), "node")


def test_when_the_feature_gates_are_off_again_nobody_takes_the_entry_of_a_pod_group_away(
    contracted: RealPlane, api: Api
) -> None:
    """The entry of a Pod that is gone as well tells that kube-controller-manager has looked at the claim."""
    gone_pod = {"resource": "pods", "name": "web", "uid": "u2"}
    with restarted_with(contracted, CONTROLLER_MANAGER):
        reserved(api, gone_pod)
        api.delete(POD_GROUPS, "gang").accepted()
        no_finalizers = {"metadata": {"finalizers": None}}
        api.patch(POD_GROUPS, "gang", no_finalizers, PatchType.MERGE).accepted()
        gone(api)
        until(lambda: gone_pod not in of(api)["reservedFor"], "the entry of the Pod is gone")
        left_over = of(api)
    assert ([each["resource"] for each in left_over["reservedFor"]], "allocation" in left_over) == (["podgroups"], True)
    until(lambda: not of(api), "with the gates on it is freed")


@rows(POD_GROUP)
def test_pod_groups(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want

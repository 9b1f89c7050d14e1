"""A copy from an API server: what may be read, in which namespace, and what is said of the rest."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from clusters.scheduler import node
from objects.builders import CREATED, claim, pod, scheduling_gate

from tollbar.explain import pods
from tollbar.explain.causes import Cause
from tollbar.model.objects import Object
from tollbar.model.resources import LEASES, NODES, POD_GROUPS, PODS, RESOURCE_CLAIMS, SCHEDULING_GATES, Resource
from tollbar.offline.cluster import Cluster
from tollbar.offline.loading import load
from tollbar.runtime.errors import Forbidden, NotFound


@dataclass
class Server:
    """Serves these objects; `forbidden` are plurals in all namespaces, `anywhere` those that nobody may read at all."""

    objects: list[Object]
    forbidden: set[str] = field(default_factory=set)
    anywhere: set[str] = field(default_factory=set)
    unserved: set[str] = field(default_factory=set)
    asked: list[tuple[str, str, str]] = field(default_factory=list)

    async def served(self, api_version: str) -> frozenset[str]:
        return frozenset()

    async def list(self, res: Resource, namespace: str = "", *, field_selector: str = "", **_: Any) -> Object:
        self.asked.append((res.plural, namespace, field_selector))
        if res.plural in self.unserved:
            raise NotFound(404, "NotFound", "the server could not find the requested resource")
        if res.plural in self.anywhere or (res.plural in self.forbidden and not namespace):
            raise Forbidden(403, "Forbidden", f"cannot list {res.plural}")
        items = [
            {name: value for name, value in obj.items() if name not in ("apiVersion", "kind")}
            for obj in self.objects
            if obj["kind"] == res.kind and namespace in ("", obj["metadata"].get("namespace", ""))
        ]
        return {"metadata": {}, "items": items}


class Frozen:
    def now(self) -> float:
        return CREATED

    monotonic = now

    async def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)


@pytest.fixture(scope="module", autouse=True)
def _read() -> None:
    """What the first copy in a process reads from files: the schema of Kubernetes, and which plugins are installed."""
    Cluster()


async def loaded(server: Server, **more: Any) -> Any:
    return await load(server, clock=Frozen(), **more)  # type: ignore[arg-type]


async def test_all_that_may_be_read() -> None:
    objects: list[Object] = [pod(), claim(), node("n1"), scheduling_gate()]
    server, told = Server(objects), {}
    given = await loaded(server, progress=told.__setitem__)
    assert {each["metadata"]["name"] for each in given.objects()} == {"web", "gpu", "n1", "tolerations"}
    assert [given.objects(each) for each in (PODS, NODES)] == [[pod()], [node("n1")]]
    assert (given.unknown, given.now) == ({}, CREATED)
    assert (told["Pod"], told["ResourceSlice"]) == (1, 0)
    assert (LEASES.plural, "tollbar-system", "metadata.name=tollbar-controllers") in server.asked


async def test_what_may_not_be_read_is_unknown() -> None:
    given = await loaded(Server([pod(), node("n1")], forbidden={"nodes", "pods"}))
    assert given.unknown == {"Node": "cannot list nodes", "Pod": "cannot list pods"}
    assert not given.objects()


async def test_what_may_be_read_in_a_namespace() -> None:
    objects: list[Object] = [pod(), pod("other", "b"), claim(), node("n1")]
    server = Server(objects, forbidden={"nodes", "pods", "resourceclaims"}, anywhere={"nodes", "resourceclaims"})
    given = await loaded(server, namespace="ml")
    assert given.objects() == [pod()]
    assert given.unknown == {
        "Node": "cannot list nodes",
        "Pod": "cannot list pods; read in namespace ml alone",
        "ResourceClaim": "cannot list resourceclaims",
    }
    known = [given.knows(PODS), given.knows(PODS, namespace="b"), given.knows(PODS, namespace="ml")]
    assert (known, given.knows(RESOURCE_CLAIMS, namespace="ml")) == ([False, False, True], False)


async def test_kinds_that_are_not_served_are_empty() -> None:
    given = await loaded(Server([pod()], unserved={"schedulinggates", "tolerationrules"}))
    assert (given.objects(), given.objects(SCHEDULING_GATES), given.unknown) == ([pod()], [], {})


async def test_no_pod_waits_for_a_pod_group_where_these_are_served_in_no_version_that_is_read() -> None:
    member = pod().but("spec.schedulingGroup", {"podGroupName": "gang"}).claims("gpu")
    given = await loaded(Server([member, claim(), node("n1")]))
    assert not given.serves(POD_GROUPS)
    causes = [each.cause for each in pods.explain(given, given.objects(PODS)[0]).findings]
    assert Cause.POD_GROUP_MISSING not in causes

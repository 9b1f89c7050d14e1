"""The same plane through Tollbar's own client: what it sends is understood, what it is told becomes its errors."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest
from contract.api import PATIENCE, Api
from contract.objects import GPU, add, check, config_map, lease, pod, put

from tollbar.model.resources import CONFIG_MAPS, LEASES, PODS, Resource
from tollbar.runtime.client import Client, PatchType
from tollbar.runtime.errors import ApiError, Invalid
from tollbar.runtime.metrics import Metrics

NO_SUCH = Resource("contract.example.com", "v9", "gadgets", "Gadget", namespaced=False)
OTHER_UID = "00000000-0000-0000-0000-000000000000"


@pytest.fixture
async def client(contracted: Any) -> AsyncIterator[Client]:
    connected = await Client.connect(
        kubeconfig=str(contracted.kubeconfig), metrics=Metrics(), user_agent="tollbar-contract"
    )
    yield connected
    await connected.close()


Call = Callable[[Client, str], Awaitable[Any]]
ERRORS: dict[str, tuple[Call, tuple[str, int, str]]] = {
    "what is not there": (lambda client, ns: client.get(PODS, "none", ns), ("NotFound", 404, "NotFound")),
    "an API that is not served": (lambda client, _: client.list(NO_SUCH), ("NotFound", 404, "")),
    "a name that is taken": (
        lambda client, ns: client.create(PODS, pod("example.com/a"), ns),
        ("AlreadyExists", 409, "AlreadyExists"),
    ),
    "an older version": (
        lambda client, ns: client.patch(PODS, "web", [put("/metadata/resourceVersion", "1")], namespace=ns),
        ("Conflict", 409, "Conflict"),
    ),
    "another uid at deletion": (
        lambda client, ns: client.delete(PODS, "web", ns, uid=OTHER_UID),
        ("Conflict", 409, "Conflict"),
    ),
    "what validation refuses": (
        lambda client, ns: client.patch(PODS, "web", [add("/spec/tolerations/-", {**GPU, "value": "x"})], namespace=ns),
        ("Invalid", 422, "Invalid"),
    ),
    "a patch of an old view": (
        lambda client, ns: client.patch(PODS, "web", [check("/metadata/uid", OTHER_UID)], namespace=ns),
        ("Invalid, stale", 422, "Invalid"),
    ),
    "a continuation that is none": (
        lambda client, ns: client.list(PODS, ns, continue_="nonsense"),
        ("ApiError", 400, "BadRequest"),
    ),
}


@pytest.mark.parametrize(("call", "want"), ERRORS.values(), ids=ERRORS)
async def test_errors(api: Api, client: Client, call: Call, want: tuple[str, int, str]) -> None:
    api.create(pod("example.com/a")).accepted()
    with pytest.raises(ApiError) as refused:
        await call(client, api.namespace)
    stale = ", stale" if isinstance(refused.value, Invalid) and not refused.value.refused else ""
    assert (f"{type(refused.value).__name__}{stale}", refused.value.status, refused.value.reason) == want


async def test_pages_are_followed(api: Api, client: Client) -> None:
    for name in "abc":
        api.create(lease(name)).accepted()
    first = await client.list(LEASES, api.namespace, limit=2)
    second = await client.list(LEASES, api.namespace, limit=2, continue_=first["metadata"]["continue"])
    names = [[each["metadata"]["name"] for each in page["items"]] for page in (first, second)]
    assert (names, second["metadata"].get("continue")) == ([["a", "b"], ["c"]], None)


async def test_an_object_is_applied_watched_and_deleted_by_its_uid(api: Api, client: Client) -> None:
    start = (await client.list(CONFIG_MAPS, api.namespace))["metadata"]["resourceVersion"]
    applied = await client.patch(
        CONFIG_MAPS,
        "map",
        config_map(),
        namespace=api.namespace,
        patch_type=PatchType.APPLY,
        field_manager="me",
        force=True,
    )
    await client.delete(CONFIG_MAPS, "map", api.namespace, uid=applied["metadata"]["uid"])
    watch = client.watch(
        CONFIG_MAPS,
        api.namespace,
        resource_version=start,
        field_selector="metadata.name=map",
        timeout_seconds=int(PATIENCE),
    )
    seen = []
    async with aclosing(watch) as events:
        async for event in events:
            if event.type != "BOOKMARK":
                seen.append(event.type)
            if event.type == "DELETED":
                break
    assert seen == ["ADDED", "DELETED"]


async def test_discovery_tells_what_is_served(client: Client) -> None:
    served = [
        {"pods", "namespaces"} <= await client.served("v1"),
        "resourceclaims" in await client.served("resource.k8s.io/v1"),
        await client.served("contract.example.com/v9"),
    ]
    assert served == [True, True, set()]

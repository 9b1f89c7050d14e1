"""What another leader created a moment ago: asked for once, until the cache has caught up."""

import asyncio
from typing import Any

import pytest
from clusters.claims import ClaimsWorld
from fakes.manager import turns
from objects.builders import claim, pod, template

from controllers.claims import unseen
from controllers.claims.mappers import ClaimKey
from tollbar.model.objects import Object, key_of
from tollbar.model.plan import DONE
from tollbar.model.resources import Resource
from tollbar.runtime.errors import Forbidden

WEB = pod().templates("gpu")
MADE = claim("web-gpu-x").generated_for(WEB, "gpu").but("metadata.resourceVersion", "10")
GPU = template("gpu").request("gpu")


class Api:
    """Has these claims at version 10; tells what it was asked."""

    def __init__(self, *claims: Object, version: str = "10") -> None:
        self._claims = claims
        self._version = version
        self.asked: list[str] = []

    async def list(self, _resource: Resource, namespace: str = "", *, limit: int = 500, **_: Any) -> Object:
        self.asked.append(f"list {namespace or 'all'}, {limit}")
        await asyncio.sleep(0)
        return {"items": list(self._claims), "metadata": {"resourceVersion": self._version}}

    async def create(self, _resource: Resource, obj: Object) -> Object:
        self.asked.append("create")
        return {**obj, "metadata": {**obj["metadata"], "name": "made", "uid": "u", "resourceVersion": "11"}}

    async def patch(self, _resource: Resource, _name: str, body: Object, **_: Any) -> Object:
        self.asked.append(f"record {body['status']['resourceClaimStatuses'][0]['resourceClaimName']}")
        return {**WEB, "metadata": {**WEB["metadata"], "resourceVersion": "11"}}


async def taken_over(api: Api, *objects: Object, seen: str = "9") -> ClaimsWorld:
    """Just after another leader has stopped; the cache has come to the version `seen`."""
    world = ClaimsWorld(api, GPU, *objects)
    await world.work(seen)
    return world


async def reconciled(world: ClaimsWorld, name: str = "web") -> None:
    assert await world.controller.reconcile(ClaimKey("Pod", "ml", name)) == DONE


async def test_a_claim_that_only_the_api_server_knows_is_recorded_not_made_again() -> None:
    api = Api(MADE)
    await reconciled(await taken_over(api, WEB))
    assert api.asked == ["list all, 1", "list ml, 10", "record web-gpu-x"]


async def test_a_namespace_is_listed_once_whoever_asks() -> None:
    api = Api()
    world = await taken_over(api, *(pod(name).templates("gpu") for name in "abc"))
    await asyncio.gather(*(reconciled(world, name) for name in "abc"))
    assert [asked for asked in api.asked if asked.startswith("list")] == ["list all, 1", "list ml, 10"]
    assert api.asked.count("create") == 3


async def test_what_a_shared_list_found_is_taken_once_however_many_waited_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every worker may wait for the list of a large namespace: to take it for each of them would stop the leader."""
    world = await taken_over(Api(MADE), *(pod(name).templates("gpu") for name in "abc"))
    taken, assume = list[str](), world.claims.assume

    def noting(obj: Object, *, created: bool = False) -> None:
        taken.append(key_of(obj).name)
        assume(obj, created=created)

    monkeypatch.setattr(world.claims, "assume", noting)
    await asyncio.gather(*(reconciled(world, name) for name in "abc"))
    assert taken.count("web-gpu-x") == 1


async def test_a_cache_that_has_come_as_far_needs_no_list() -> None:
    api = Api(MADE)
    world = await taken_over(api, WEB)
    world.claims.resource_version = "10"
    await reconciled(world)
    assert api.asked == ["list all, 1", "create", "record made"]


async def test_nobody_asks_when_nothing_is_made() -> None:
    api = Api(MADE)
    await reconciled(await taken_over(api, WEB.generated("gpu", "web-gpu-x"), MADE))
    assert api.asked == ["list all, 1"]


async def test_versions_that_cannot_be_compared_cost_a_list_for_each_namespace() -> None:
    api = Api(MADE, version="opaque")
    await reconciled(await taken_over(api, WEB, seen="opaque"))
    assert api.asked == ["list all, 1", "list ml, 10", "record web-gpu-x"]


class Hanging(Api):
    """Answers the list of a namespace as late as it is told; tells how many such calls were given up."""

    given_up = 0

    def __init__(self, *claims: Object) -> None:
        super().__init__(*claims)
        self.listing = asyncio.Event()
        self.answers = asyncio.Event()

    async def list(self, resource: Resource, namespace: str = "", *, limit: int = 500, **how: Any) -> Object:
        if namespace:
            self.listing.set()
            try:
                await self.answers.wait()
            except asyncio.CancelledError:
                self.given_up += 1
                raise
        return await super().list(resource, namespace, limit=limit, **how)


async def test_a_list_is_waited_for_until_the_cache_has_come_as_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unseen, "_LOOK_AGAIN", 0.01)
    api = Hanging()
    world = await taken_over(api, *(pod(name).templates("gpu") for name in "abc"))
    waiting = asyncio.gather(*(reconciled(world, name) for name in "abc"))
    await api.listing.wait()
    assert api.asked == ["list all, 1"]
    world.claims.resource_version = "10"
    async with asyncio.timeout(60.0):
        await waiting
    await turns()
    assert (api.asked.count("create"), api.given_up) == (3, 1)


async def test_a_list_of_an_earlier_leadership_is_given_up_and_another_one_begun() -> None:
    api = Hanging(MADE)
    world = await taken_over(api, WEB)
    waiting = asyncio.create_task(reconciled(world))
    await api.listing.wait()
    api.listing.clear()
    await world.taking_over.unseen.begin()
    async with asyncio.timeout(60.0):
        await api.listing.wait()
        api.answers.set()
        await waiting
    assert api.given_up == 1
    assert api.asked == ["list all, 1", "list all, 1", "list ml, 10", "record web-gpu-x"]


async def test_a_list_that_fails_is_made_again_for_whoever_asks_next() -> None:
    class Refusing(Api):
        refused = 0

        async def list(self, resource: Resource, namespace: str = "", **how: Any) -> Object:
            if namespace and not self.refused:
                self.refused += 1
                raise Forbidden(403, "Forbidden", "no right")
            return await super().list(resource, namespace, **how)

    api = Refusing(MADE)
    world = await taken_over(api, WEB)
    with pytest.raises(Forbidden):
        await reconciled(world)
    await reconciled(world)
    assert api.asked == ["list all, 1", "list ml, 10", "record web-gpu-x"]

"""The reflector of a kind that a server has in one version or another."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from random import Random
from typing import Any

from unit.runtime.answers import pod

from tollbar.model import resources
from tollbar.model.objects import Object
from tollbar.model.resources import Resource
from tollbar.runtime.detection import pod_groups
from tollbar.runtime.errors import Forbidden, NotFound
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.reflector import RECHECK_MANY, Reflector
from tollbar.runtime.store import Store


class Upgraded:
    """Serves PodGroups in one version after another; in each a list and a watch, which ends with the version."""

    def __init__(self, *versions: str) -> None:
        self.calls: list[str] = []
        self.looked: list[str] = []
        """The versions of the API that discovery was asked for."""
        self.enough = asyncio.Event()
        self._versions = list(versions)

    async def list(self, res: Resource, *_args: Any, **_options: Any) -> Object:
        self.calls.append(f"list {res.version}")
        if res.version != self._versions[0]:
            raise NotFound(404, "NotFound", "the server could not find the requested resource", method="GET")
        return {"metadata": {"resourceVersion": "9"}, "items": [pod("gang", 3)]}

    async def watch(self, res: Resource, *_args: Any, **_options: Any) -> AsyncIterator[Any]:
        self.calls.append(f"watch {res.version}")
        if len(self._versions) == 1:
            self.enough.set()
            await asyncio.Event().wait()
        del self._versions[0]
        raise NotFound(404, "NotFound", "gone", method="GET")
        yield  # a generator, as the client's is

    async def served(self, group_version: str) -> set[str]:
        self.looked.append(group_version.rpartition("/")[2])
        return {"podgroups"} if group_version.endswith(f"/{self._versions[0]}") else {"priorityclasses"}


def following(source: Upgraded, store: Store, clock: Any, rng: Random, metrics: Metrics) -> Any:
    locate = partial(pod_groups, source)
    return Reflector(source, store, locate=locate, clock=clock, rng=rng, metrics=metrics)  # type: ignore[arg-type]


async def test_a_kind_that_is_served_in_another_version_is_followed(clock: Any, rng: Random, metrics: Metrics) -> None:
    source, told = Upgraded("v1alpha3", "v1"), list[tuple[bool, bool]]()
    store = Store(resources.POD_GROUPS)
    store.subscribe(lambda delta: told.append((delta.old is not None, delta.initial)))
    reflector = following(source, store, clock, rng, metrics)
    task = asyncio.create_task(reflector.run())
    await source.enough.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert source.calls == [
        "list v1alpha3",
        "watch v1alpha3",
        "list v1alpha3",
        "list v1",
        "watch v1",
    ]
    assert (store.resource.version, told) == ("v1", [(False, True), (True, True)])


async def test_in_another_version_of_the_api_nothing_counts_as_known(clock: Any, rng: Random, metrics: Metrics) -> None:
    """An update that was assumed has the resourceVersion of the same object in the other version, but not its looks."""
    store = Store(resources.POD_GROUPS)
    store.apply({**pod("gang", 2), "apiVersion": "scheduling.k8s.io/v1beta1"})
    store.assume({**pod("gang", 3), "apiVersion": "scheduling.k8s.io/v1beta1"})
    source = Upgraded("v1")
    reflector = following(source, store, clock, rng, metrics)
    assert await reflector._list()
    assert [each["apiVersion"] for each in store.values()] == ["scheduling.k8s.io/v1"]


async def test_a_kind_of_several_versions_is_looked_for_often(clock: Any, rng: Random, metrics: Metrics) -> None:
    source = Upgraded("none")
    store = Store(resources.POD_GROUPS)
    reflector = following(source, store, clock, rng, metrics)
    assert (await reflector._round(), reflector.served, store.synced.is_set()) == (RECHECK_MANY, False, True)
    assert not store.served


class Forbidding(Upgraded):
    """Refuses lists before it looks whether it serves the kind, as the API server does."""

    async def list(self, res: Resource, *_args: Any, **_options: Any) -> Object:
        raise Forbidden(403, "Forbidden", "podgroups.scheduling.k8s.io is forbidden", method="GET")


async def test_a_kind_that_may_not_be_listed_is_not_waited_for_where_it_is_not_served(
    clock: Any, rng: Random, metrics: Metrics
) -> None:
    store, source = Store(resources.POD_GROUPS), Forbidding("none")
    reflector = following(source, store, clock, rng, metrics)
    assert (await reflector._round(), store.served, store.synced.is_set()) == (RECHECK_MANY, False, True)
    assert source.looked == ["v1", "v1beta1", "v1alpha3", resources.POD_GROUPS.version], "once, and for its own version"


async def test_a_kind_that_is_served_and_may_not_be_listed_is_waited_for(
    clock: Any, rng: Random, metrics: Metrics
) -> None:
    store = Store(resources.POD_GROUPS)
    source = Forbidding("v1")
    reflector = following(source, store, clock, rng, metrics)
    await reflector._round()
    assert (store.served, store.synced.is_set(), source.looked) == (True, False, ["v1"])

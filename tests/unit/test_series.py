"""How many series there are does not grow with the rules, Pods and namespaces that have come and gone."""

from typing import Any

from clusters.strategies import World
from fakes.clocks import Aged
from fakes.engine import FakeEngine, failing
from fakes.manager import Managed
from objects.builders import Pod, TolerationRule, namespace, pod, toleration, toleration_rule
from objects.reviews import about_pod

from tollbar.model.objects import Object, key_of
from tollbar.runtime.metrics import Metrics
from webhooks.pods import PodHandler

ROUNDS = 500
AT_ONCE = 20
"""Rules that are there at one time, 10,000 in all; the first one of each round fails, the others add a toleration."""
ENGINE = FakeEngine({"fails": failing().program})  # type: ignore[dict-item]


def rules(number: int) -> list[TolerationRule]:
    """Those of one round, which no other round has."""
    first, *others = (f"rule-{number}-{each}" for each in range(AT_ONCE))
    giving = (toleration_rule(each).extended("example.com/gpu").giving(toleration(f"{each}/x")) for each in others)
    return [toleration_rule(first).cel("fails"), *giving]


def a_pod(number: int) -> Pod:
    return pod(f"pod-{number}", f"namespace-{number}").wants({"example.com/gpu": "1"}).labelled(app=f"app-{number}")


def series(metrics: Metrics) -> int:
    return sum(len(family.samples) for family in metrics.registry.collect())


def test_of_the_webhook() -> None:
    world = Managed()
    handle = PodHandler(world.gatherer(ENGINE), mode="Auto", metrics=world.metrics, releasing=lambda: True)
    between, after = set(), set()
    for number in range(ROUNDS):
        web, there = a_pod(number), rules(number)
        world.fill([namespace(key_of(web).namespace), *there])
        handle(about_pod(web.being_created(), namespace=key_of(web).namespace))
        between.add(series(world.metrics))
        for rule in there:
            world.remove(rule)
        after.add(series(world.metrics))
    (without,) = after
    assert (between, b"rule-" in world.metrics.render()) == ({without + AT_ONCE}, False)


class Api:
    """Answers every patch with the Pod as it was; `meanwhile` is deleted while it is under way."""

    world: World
    web: Object
    meanwhile: list[TolerationRule]

    async def patch(self, *_: Any, **__: Any) -> Object:
        for rule in self.meanwhile:
            self.world.remove(rule)
            await self.world.controllers["rules"].reconcile(key_of(rule))
        return self.web


async def test_of_the_controllers() -> None:
    api = Api()
    api.world = world = World([], engine=ENGINE, client=api, clock=Aged())
    between, after = set(), set()
    for number in range(ROUNDS):
        api.web, there = a_pod(number), rules(number)
        world.fill([namespace(key_of(api.web).namespace), *there, api.web])
        api.meanwhile = there[1:] if number % 2 else []
        await world.controllers["gates"].reconcile(key_of(api.web))
        between.add(series(world.metrics))
        for obj in (api.web, *there):
            world.remove(obj)
        for rule in there:
            await world.controllers["rules"].reconcile(key_of(rule))
        after.add(series(world.metrics))
    (without,) = after
    several = AT_ONCE + len(there[1:])  # what it matched counts for each, and what it added or that it failed
    assert (between, b"rule-" in world.metrics.render()) == ({without + several, without + 1}, False)

"""What is left for people when a rule matches a Pod: a count, and in Audit one line in the log."""

import logging
from typing import Any

import pytest
from clusters.strategies import World
from fakes.clocks import Aged
from fakes.engine import FakeEngine, has_label
from objects.builders import TolerationRule, namespace, pod, toleration, toleration_rule

from tollbar.model.objects import Key, Object, key_of

ENGINE = FakeEngine({"is an app": has_label("app").program})  # type: ignore[dict-item]
WANTED = toleration("example.com/a")
AUDIT = toleration_rule("gpu").cel("is an app").giving(WANTED).mode("Audit")
APP = pod().labelled(app="web")
LINE = {"rule": "gpu", "generation": 1, "object": "ml/web", "wouldAdd": ["example.com/a:NoSchedule op=Exists"]}


class Api:
    """Answers every patch with the Pod as it was."""

    def __init__(self) -> None:
        self.patches: list[Any] = []

    async def patch(self, *given: Any, **_: Any) -> Object:
        self.patches.append(given[2])
        return APP.but("metadata.resourceVersion", "7")


class Audited(World):
    """A Pod and this rule, whose log is read."""

    def __init__(self, log: pytest.LogCaptureFixture, rule: TolerationRule = AUDIT, web: Object = APP) -> None:
        log.set_level(logging.INFO, logger="controllers.gates")
        self._log, self.api = log, Api()
        super().__init__([web, namespace(), rule], {}, engine=ENGINE, client=self.api, clock=Aged())

    async def decide(self) -> None:
        await self.controllers["gates"].reconcile(key_of(APP))

    @property
    def matches_counted(self) -> float | None:
        return self.metrics.registry.get_sample_value("tollbar_rule_matches_total", {"rule": "gpu"})

    @property
    def lines(self) -> list[Object]:
        return [
            {name: vars(record)[name] for name in LINE}
            for record in self._log.records
            if record.getMessage() == "a rule in Audit matches the Pod"
        ]


async def test_a_match_in_audit_is_counted_and_logged_with_what_the_rule_would_add(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = Audited(caplog)
    await world.decide()
    assert (world.lines, world.matches_counted, world.api.patches) == ([LINE], 1, [])


async def test_tolerations_that_the_pod_has_would_not_be_added(caplog: pytest.LogCaptureFixture) -> None:
    world = Audited(caplog, web=APP.tolerating(WANTED))
    await world.decide()
    assert (world.lines, world.matches_counted) == ([{**LINE, "wouldAdd": []}], 1)


async def test_a_pod_that_is_decided_again_is_not_told_again(caplog: pytest.LogCaptureFixture) -> None:
    world = Audited(caplog)
    await world.decide()
    world.fill([APP.but("metadata.labels", None)])
    await world.decide()
    world.fill([APP.but("status.phase", "Pending")])
    await world.decide()
    assert (world.lines, world.matches_counted) == ([LINE], 1)


async def test_a_pod_that_got_a_node_before_it_was_decided_about_is_told_and_not_patched(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = Audited(caplog, web=APP.gated())
    world.remove(APP.gated())
    await world.decide()
    await world.decide()
    assert (world.lines, world.matches_counted, world.api.patches) == ([LINE], 1, [])


async def test_a_rule_that_was_edited_is_told_anew(caplog: pytest.LogCaptureFixture) -> None:
    world = Audited(caplog)
    await world.decide()
    world.fill([AUDIT.giving(toleration("example.com/b")).but("metadata.generation", 2)])
    await world.decide()
    again = {**LINE, "generation": 2, "wouldAdd": ["example.com/b:NoSchedule op=Exists"]}
    assert (world.lines, world.matches_counted) == ([LINE, again], 2)


async def test_a_match_in_force_is_counted_and_its_line_is_that_of_the_release(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = Audited(caplog, AUDIT.mode("Enforce"))
    await world.decide()
    assert (world.lines, world.matches_counted, len(world.api.patches)) == ([], 1, 1)


async def test_a_rule_that_is_deleted_loses_its_series_and_what_is_made_anew_begins_at_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = Audited(caplog)
    await world.decide()
    world.remove(AUDIT)
    await world.controllers["rules"].reconcile(Key("", "gpu"))
    gone = world.matches_counted
    world.fill([AUDIT.but("metadata.uid", "another")])
    await world.decide()
    assert (gone, world.matches_counted, len(world.lines)) == (None, 1, 2)

"""The loop of the toleration gate, also for Pods without it that lack tolerations; it tells which rules match."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tollbar import wellknown
from tollbar.decide.gates.release import Refusal
from tollbar.decide.pods import tolerationgate
from tollbar.decide.pods.tolerationgate import GatePlan, TolerationCase
from tollbar.decide.rules import events
from tollbar.gates.loop import Loop
from tollbar.model import tolerations
from tollbar.model.objects import Key, Object
from tollbar.runtime.manager import Manager
from tollbar.runtime.store import Store
from tollbar.views.gatherer import Gatherer
from tollbar.views.matches import Matches

_log: Final = logging.getLogger(__name__)


class TolerationLoop(Loop[TolerationCase, GatePlan]):
    """`expected` are Pods as the patches being sent will leave them: a watch event may arrive before the answer."""

    def __init__(
        self, manager: Manager, pods: Store, gatherer: Gatherer, matches: Matches, expected: dict[Key, Object]
    ) -> None:
        super().__init__(manager, wellknown.GATE, pods)
        self._gatherer = gatherer
        self._matches = matches
        self._expected = expected

    def pod(self, key: Key) -> Object | None:
        """None when the Pod has been decided about and is gone or has got a node."""
        return self.pods.get(key) or self._matches.departed(key)

    def case(self, pod: Object, refusal: Refusal | None, now: float) -> TolerationCase:
        return TolerationCase(self._gatherer.gate_facts(pod, refusal), now)

    def decided(self, key: Key, plan: GatePlan) -> None:
        """Count the rules that had not been known to match the Pod, and log what those in Audit would add."""
        would_add = {addition.rule: addition.tolerations for addition in plan.audited}
        for rule in self._matches.record(key, plan.matched, self.manager.clock.now()):
            self.manager.metrics.counter("tollbar_rule_matches_total").labels(rule.name).inc()
            if rule.mode == "Audit":
                _log.info(
                    "a rule in Audit matches the Pod",
                    extra={
                        "rule": rule.name,
                        "generation": rule.generation,
                        "object": str(key),
                        "wouldAdd": [*map(tolerations.text, would_add.get(rule.name, ()))],
                    },
                )

    @contextmanager
    def sending(self, key: Key, case: TolerationCase, plan: GatePlan) -> Iterator[None]:
        if (expected := tolerationgate.expected(case.facts, plan)) is not None:
            self._expected[key] = expected
        try:
            yield
        finally:
            self._expected.pop(key, None)

    def done(self, key: Key, case: TolerationCase, plan: GatePlan) -> None:
        metrics = self.manager.metrics
        # A rule may have been deleted while the patch was under way: its series are gone and must not come back.
        for addition in plan.additions:
            if Key("", addition.rule) in self._gatherer.rules:
                added = metrics.counter("tollbar_tolerations_added_total").labels(addition.rule, plan.via)
                added.inc(len(addition.tolerations))
        for name, why in plan.failed:
            rule = self._gatherer.rules.get(Key("", name))
            if rule is not None:
                metrics.counter("tollbar_rule_errors_total").labels(rule=name, reason="EvaluationFailed").inc()
                self.recorder.emit(rule, events.rule_failing(why))
        if plan.released:
            metrics.histogram("tollbar_gate_hold_seconds").observe(case.at(self.manager.clock.now()).age)
            _log.info(
                "Released",
                extra={
                    "object": str(key),
                    "because": [*map(str, plan.because)],
                    "rules": [a.rule for a in plan.additions],
                },
            )

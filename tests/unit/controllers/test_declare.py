"""Who declares our gate: the controllers, when nobody has, and never a second time."""

import asyncio
import logging
from typing import Any

import pytest
from objects.builders import SchedulingGate, scheduling_gate

from controllers.watchdog.declare import RETRY, declare
from tollbar import wellknown
from tollbar.api.gates import shipped_gate
from tollbar.model import resources
from tollbar.model.objects import Object
from tollbar.model.resources import Resource
from tollbar.runtime.caches import Caches
from tollbar.runtime.clock import SystemClock
from tollbar.runtime.errors import AlreadyExists, ApiError, Forbidden, NotFound
from tollbar.views import kinds

USER = "system:serviceaccount:toll:my-controllers"
CREATED = [(resources.SCHEDULING_GATES, shipped_gate(owners=(USER,)))]


class Api:
    """Takes note of what is created, and refuses it with each of these errors once."""

    def __init__(self, errors: list[ApiError]) -> None:
        self.created: list[tuple[Resource, Object]] = []
        self._errors = errors

    async def create(self, resource: Resource, obj: Object) -> Object:
        self.created.append((resource, obj))
        if self._errors:
            raise self._errors.pop(0)
        return obj


class Naps(SystemClock):
    """Sleeps are not slept."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


DECLARED = (logging.INFO, "declared the gate")
FAILED = (logging.WARNING, "the gate is not declared, the defaults apply")

ABSENT = NotFound(404, "NotFound", "the page")

CASES: dict[str, tuple[list[SchedulingGate], list[ApiError], tuple[list[Any], list[tuple[int, str]], list[float]]]] = {
    "an empty cluster": ([], [], (CREATED, [DECLARED], [])),
    "only another gate's object": ([scheduling_gate("quota", "a.dev/quota")], [], (CREATED, [DECLARED], [])),
    "our gate's object, as somebody changed it": ([scheduling_gate().expiring("5s", "Report")], [], ([], [], [])),
    "our gate's object under another name": ([scheduling_gate("mine", wellknown.GATE)], [], ([], [], [])),
    "somebody was quicker": ([], [AlreadyExists(409, "AlreadyExists", "there")], (CREATED, [], [])),
    "no right to it": ([], [Forbidden(403, "Forbidden", "no")], (CREATED, [FAILED], [])),
    "the kind comes later": ([], [ABSENT, ABSENT], (CREATED * 3, [DECLARED], [RETRY, RETRY])),
}


@pytest.mark.parametrize(("given", "errors", "want"), CASES.values(), ids=CASES)
async def test_declare(given: list[SchedulingGate], errors: list[ApiError], want: Any, caplog: Any) -> None:
    caplog.set_level(logging.INFO, "controllers")
    gates = Caches().store(kinds.GATES)
    for gate in given:
        gates.apply(gate)
    gates.synced.set()
    api, clock = Api(list(errors)), Naps()
    await declare(api, gates, shipped_gate(owners=(USER,)), clock)  # type: ignore[arg-type]
    assert (api.created, [(record.levelno, record.getMessage()) for record in caplog.records], clock.slept) == want


async def test_it_is_declared_only_after_a_list_showed_that_it_is_not_there() -> None:
    api, gates = Api([]), Caches().store(kinds.GATES)
    declaring = asyncio.create_task(declare(api, gates, shipped_gate(owners=(USER,)), Naps()))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    early = list(api.created)
    gates.replace([scheduling_gate()])
    await declaring
    assert (early, api.created) == ([], [])

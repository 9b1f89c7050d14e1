"""Who declares our gate: the controllers, when nobody has, and never a second time."""

import logging
from typing import Any

import pytest
from builders import SchedulingGate, scheduling_gate

from controllers.watchdog.declare import declare
from tollbar import wellknown
from tollbar.api.gates import shipped_gate
from tollbar.model.objects import Object
from tollbar.runtime import resources
from tollbar.runtime.errors import AlreadyExists, ApiError, Forbidden, NotFound
from tollbar.runtime.resources import Resource
from tollbar.runtime.store import Store
from tollbar.views import indexers

USER = "system:serviceaccount:toll:my-controllers"
CREATED = [(resources.SCHEDULING_GATES, shipped_gate(owners=(USER,)))]


class Api:
    """Takes note of what is created, and then refuses it with `error`, if any."""

    def __init__(self, error: ApiError | None) -> None:
        self.created: list[tuple[Resource, Object]] = []
        self._error = error

    async def create(self, resource: Resource, obj: Object) -> Object:
        self.created.append((resource, obj))
        if self._error is not None:
            raise self._error
        return obj


DECLARED = (logging.INFO, "declared the gate")
FAILED = (logging.WARNING, "the gate is not declared, the defaults apply")

CASES: dict[str, tuple[list[SchedulingGate], ApiError | None, tuple[list[Any], list[tuple[int, str]]]]] = {
    "an empty cluster": ([], None, (CREATED, [DECLARED])),
    "only another gate's object": ([scheduling_gate("quota", "a.dev/quota")], None, (CREATED, [DECLARED])),
    "our gate's object, as somebody changed it": ([scheduling_gate().expiring("5s", "Report")], None, ([], [])),
    "our gate's object under another name": ([scheduling_gate("mine", wellknown.GATE)], None, ([], [])),
    "somebody was quicker": ([], AlreadyExists(409, "AlreadyExists", "there"), (CREATED, [])),
    "no right to it": ([], Forbidden(403, "Forbidden", "no"), (CREATED, [FAILED])),
    "the kind is not served yet": ([], NotFound(404, "NotFound", "the page"), (CREATED, [FAILED])),
}


@pytest.mark.parametrize(("given", "error", "want"), CASES.values(), ids=CASES)
async def test_declare(given: list[SchedulingGate], error: ApiError | None, want: Any, caplog: Any) -> None:
    caplog.set_level(logging.INFO, "controllers")
    gates = Store(resources.SCHEDULING_GATES, indexers=indexers.GATES)
    for gate in given:
        gates.apply(gate)
    api = Api(error)
    await declare(api, gates, USER)  # type: ignore[arg-type]
    assert (api.created, [(record.levelno, record.getMessage()) for record in caplog.records]) == want

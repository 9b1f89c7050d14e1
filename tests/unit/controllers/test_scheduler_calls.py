"""The scheduler's calls: a binding whose answer does not say whether the Pod is bound, and a server that is busy."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest
from plugins.toys import POD

from controllers.scheduler.calls import ApiCalls
from tollbar.model.objects import Object
from tollbar.runtime.errors import ApiError, Conflict, NotFound, ServerError, TooManyRequests, Unreachable

LOST, BROKEN = Unreachable("no answer", method="POST"), ServerError(500, "InternalError", "broken", method="POST")
BOUND_ALREADY = Conflict(409, "Conflict", "pod web is already assigned")
BUSY = TooManyRequests(429, "TooManyRequests", "busy", retry_after=1.0)
GONE = NotFound(404, "NotFound", "no pod")


def stored(node_name: str = "", uid: str = POD.uid) -> Object:
    return {"metadata": {"uid": uid}, "spec": {"nodeName": node_name} if node_name else {}}


class Api:
    """Answers the binding, and then questions about the Pod, with these; errors are raised."""

    def __init__(self, binding: ApiError | None, found: Iterable[ApiError | Object]) -> None:
        self._binding = binding
        self._found = iter(found)

    async def raw(self, *_: Any) -> bytes:
        if self._binding is not None:
            raise self._binding
        return b"{}"

    async def get(self, *_: Any) -> Object:
        found = next(self._found)
        if isinstance(found, ApiError):
            raise found
        return found


CASES: dict[str, tuple[ApiError | None, list[ApiError | Object], ApiError | None]] = {
    "it is answered": (None, [], None),
    "the answer is lost, it was done": (LOST, [stored("n")], None),
    "the answer is lost, it was not done": (LOST, [stored()], LOST),
    "the answer is an error of the server, it was done": (BROKEN, [stored("n")], None),
    "an earlier one was done, the answer to which was lost": (BOUND_ALREADY, [stored("n")], None),
    "somebody else has bound it": (BOUND_ALREADY, [stored("m")], BOUND_ALREADY),
    "another Pod of its name is bound there": (LOST, [stored("n", "another")], LOST),
    "the Pod is gone": (LOST, [GONE], GONE),
    "the server is busy for a long time": (BUSY, [], BUSY),
    "nothing is answered for a long time": (LOST, [*[LOST, BROKEN, BUSY] * 10, stored("n")], None),
}


@pytest.mark.looptime
@pytest.mark.parametrize("case", CASES)
async def test_whether_a_pod_is_bound(case: str) -> None:
    binding, found, expected = CASES[case]
    client: Any = Api(binding, found)
    failure: ApiError | None = None
    try:
        await ApiCalls(client).bind(POD, "n")
    except ApiError as error:
        failure = error
    assert failure is expected


CLAIM = {"metadata": {"name": "c", "namespace": "ml"}}
WRITES: dict[str, Callable[[ApiCalls], Awaitable[Any]]] = {
    "bind": lambda calls: calls.bind(POD, "n"),
    "delete a Pod": lambda calls: calls.delete_pod(POD),
    "patch the status of a Pod": lambda calls: calls.patch_pod_status(POD, {}),
    "create": lambda calls: calls.create("ResourceClaim", CLAIM),
    "update": lambda calls: calls.update("ResourceClaim", CLAIM, subresource="status"),
    "delete": lambda calls: calls.delete("ResourceClaim", POD.key),
}
BUDGET = TooManyRequests(
    429, "TooManyRequests", "not now", {"causes": [{"reason": "DisruptionBudget"}]}, retry_after=10.0
)
UNTIL = {
    "a busy server does in the end what it has refused": ([BUSY, BUSY], 3, None),
    "an error is not repeated: the write may have been done": ([BROKEN], 1, BROKEN),
    "nor is a budget's refusal, which takes as long as it takes": ([BUDGET], 1, BUDGET),
}


class Refusing:
    """Every call is answered with these errors first."""

    def __init__(self, errors: Iterable[ApiError]) -> None:
        self.calls = 0
        self._errors = list(errors)

    async def _call(self, *_: Any, **__: Any) -> Any:
        self.calls += 1
        if self._errors:
            raise self._errors.pop(0)
        return {}

    raw = patch = create = replace = delete = _call

    async def get(self, *_: Any) -> Object:
        return stored()


@pytest.mark.looptime
@pytest.mark.parametrize("until", UNTIL)
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
async def test_which_writes_are_repeated(write: Callable[[ApiCalls], Awaitable[Any]], until: str) -> None:
    errors, calls, expected = UNTIL[until]
    client: Any = Refusing(errors)
    failure: ApiError | None = None
    try:
        await write(ApiCalls(client))
    except ApiError as error:
        failure = error
    assert (client.calls, failure) == (calls, expected)


class Patching:
    def __init__(self) -> None:
        self.body: Object = {}

    async def patch(self, _resource: object, _name: str, body: Object, **_: Any) -> Object:
        self.body = body
        return {}


async def test_a_status_is_that_of_this_very_pod_and_not_of_a_later_one_of_its_name() -> None:
    client: Any = Patching()
    await ApiCalls(client).patch_pod_status(POD, {"status": {"nominatedNodeName": None}})
    assert client.body == {"metadata": {"uid": POD.uid}, "status": {"nominatedNodeName": None}}

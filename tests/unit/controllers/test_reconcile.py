"""One Pod, once decided: what each answer of the API server to the patch leads to."""

from typing import Any

import pytest
from clusters.strategies import World
from fakes.clocks import Aged
from objects.builders import namespace, pod

from tollbar.model.objects import Object, key_of
from tollbar.model.plan import DONE, Failed, Outcome, Requeue
from tollbar.runtime.errors import ApiError, error_from_status

DENIAL = 'admission webhook "policy.example.com" denied the request: no'
RELEASED = "Pod web: GateReleased: released; no toleration added"
DENIED = f"Pod web: ReleaseRefused: the API server refused the patch: {DENIAL}"


class Api:
    """Answers a patch with the released Pod, or with this Status."""

    def __init__(self, status: Object | None) -> None:
        self._status = status

    async def patch(self, *_: Any, **__: Any) -> Object:
        if self._status is not None:
            raise error_from_status(self._status)
        return pod().but("metadata.resourceVersion", "7")


def world(status: Object | None) -> World:
    return World([pod().gated().but("metadata.resourceVersion", "6"), namespace()], client=Api(status), clock=Aged())


REFUSED = Failed("ReleaseRefused", at_most=59.0)
ANSWERS: dict[str, tuple[Object | None, Outcome, list[str]]] = {
    "it is taken": (None, DONE, [RELEASED]),
    "the Pod is gone": ({"code": 404}, DONE, []),
    "the Pod moved": ({"code": 422, "details": {}}, Requeue("StaleView"), []),
    "somebody wrote at the same moment": ({"code": 409}, Requeue("StaleView"), []),
    "a webhook denies without a code": ({"code": 400, "message": DENIAL}, REFUSED, [DENIED]),
    "a webhook denies with the code of a stale view": ({"code": 422, "message": DENIAL}, REFUSED, [DENIED]),
    "a webhook denies with the code of an absent Pod": ({"code": 404, "message": DENIAL}, REFUSED, [DENIED]),
    "a policy denies": (
        {"code": 422, "message": "no", "details": {"causes": [{"message": "no"}]}},
        REFUSED,
        ["Pod web: ReleaseRefused: the API server refused the patch: no"],
    ),
}


@pytest.mark.parametrize(("status", "outcome", "said"), ANSWERS.values(), ids=ANSWERS)
async def test_an_answer_to_the_patch(status: Object | None, outcome: Outcome, said: list[str]) -> None:
    given = world(status)
    assert (await given.controllers["gates"].reconcile(key_of(pod())), given.told.said) == (outcome, said)


@pytest.mark.parametrize("code", [400, 401, 429, 503])
async def test_a_server_error_is_raised_to_the_controller_loop(code: int) -> None:
    given = world({"code": code})
    with pytest.raises(ApiError):
        await given.controllers["gates"].reconcile(key_of(pod()))

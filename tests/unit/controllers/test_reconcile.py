"""One Pod, once decided: what each answer of the API server to the patch leads to."""

from typing import Any

import pytest
from builders import CREATED, namespace, pod
from worlds import caches_of

from controllers.gates.reconcile import Deps, reconcile
from controllers.gates.refusals import Refusals
from tollbar.model.objects import Object, key_of
from tollbar.model.plan import DONE, Event, Failed, Outcome, Requeue
from tollbar.runtime.clock import SystemClock
from tollbar.runtime.errors import ApiError, error_from_status
from tollbar.runtime.metrics import Metrics
from tollbar.views.matches import Matches

DENIAL = 'admission webhook "policy.example.com" denied the request: no'
RELEASED = "GateReleased: released; no toleration added"
DENIED = f"ReleaseRefused: the API server refused the patch: {DENIAL}"


class Now(SystemClock):
    def now(self) -> float:
        return CREATED + 1


class Api:
    """Answers a patch with the released Pod, or with this Status."""

    def __init__(self, status: Object | None) -> None:
        self._status = status

    async def patch(self, *_: Any, **__: Any) -> Object:
        if self._status is not None:
            raise error_from_status(self._status)
        return pod().but("metadata.resourceVersion", "7")


class Recorder:
    def __init__(self) -> None:
        self.said: list[str] = []

    def emit(self, _regarding: Object, event: Event) -> None:
        self.said.append(f"{event.reason}: {event.note}")


def deps(status: Object | None) -> tuple[Deps, Recorder]:
    caches = caches_of([pod().gated().but("metadata.resourceVersion", "6"), namespace()])
    for store in caches.stores:
        store.synced.set()
    recorder = Recorder()
    api: Any = Api(status)
    matches, refusals = Matches(caches.pods), Refusals(caches.pods)
    return Deps(api, caches, recorder, Metrics(), matches, Now(), refusals), recorder  # type: ignore[arg-type]


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
        ["ReleaseRefused: the API server refused the patch: no"],
    ),
}


@pytest.mark.parametrize(("status", "outcome", "said"), ANSWERS.values(), ids=ANSWERS)
async def test_an_answer_to_the_patch(status: Object | None, outcome: Outcome, said: list[str]) -> None:
    given, recorder = deps(status)
    assert (await reconcile(key_of(pod()), given), recorder.said) == (outcome, said)


@pytest.mark.parametrize("code", [400, 401, 429, 503])
async def test_a_failure_of_the_server_is_the_loops_business(code: int) -> None:
    given, _ = deps({"code": code})
    with pytest.raises(ApiError):
        await reconcile(key_of(pod()), given)

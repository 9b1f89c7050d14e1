"""One WorkloadClaim, once decided: its claim is made or annotated, and a refusal is said."""

from typing import Any

import pytest
from builders import CREATED, Built, Claim, claim, template
from managing import Managed

from controllers import reservations
from tollbar.decide.claims.reservations import RECHECK, State
from tollbar.model.objects import Key, Object
from tollbar.model.plan import DONE, Outcome, Requeue, RetryAfter
from tollbar.model.resources import Resource
from tollbar.runtime.clock import SystemClock
from tollbar.runtime.errors import error_from_status
from tollbar.views import kinds
from tollbar.views.oscillations import Oscillations
from tollbar.views.reservations import States

KEY = Key("ml", "web-gpu")
WANTED = Built(
    apiVersion="tollbar.dev/v1alpha1",
    kind="WorkloadClaim",
    metadata={"namespace": "ml", "name": "web-gpu", "uid": "wc1", "generation": 1, "resourceVersion": "1"},
    spec={
        "workloadRef": {"apiGroup": "apps", "resource": "deployments", "name": "web"},
        "resourceClaimTemplateName": "one",
    },
)


class Now(SystemClock):
    def now(self) -> float:
        return CREATED + 1


class Api:
    """Refuses writes of claims with this Status; tells what was written, and which reason a status had."""

    def __init__(self, status: Object | None = None) -> None:
        self._status = status
        self.done: list[str] = []

    def _refuse(self) -> None:
        if self._status is not None:
            raise error_from_status(self._status, method="POST")

    async def create(self, res: Resource, obj: Object) -> Object:
        self._refuse()
        self.done.append(f"create {res.kind} {obj['metadata']['name']}")
        return obj

    async def patch(self, res: Resource, name: str, body: Object, **_: Any) -> Object:
        if "status" in body:
            assert _["namespace"] == "ml"
            (condition,) = body["status"]["conditions"]
            self.done.append(f"status {condition['status']} {condition['reason']}")
            return {**WANTED, "status": body["status"]}
        self._refuse()
        self.done.append(f"annotate {res.kind} {name} {body['metadata']['uid']}")
        return claim(name)


async def reconcile(api: Api, found: Claim | None = None, state: State | None = None, key: Key = KEY) -> Outcome:
    """By the controller, in a cluster with the WorkloadClaim, its template and perhaps its claim."""
    manager = Managed(api, clock=Now())
    states = States(manager.metrics)
    oscillations = Oscillations(manager.caches.store(kinds.CLAIMS_WITH_STATUS), manager.clock)
    _, controller = reservations.setup(manager, None, states, oscillations)
    manager.fill([WANTED, template("one").request("gpu"), *([found] if found is not None else ())])
    states.record(KEY, state)
    return await controller.reconcile(key)


MINE = claim("web-gpu").owned_by("WorkloadClaim", "web-gpu", uid="wc1")
DENIED = {"code": 403, "message": "exceeded quota"}
INVALID = {"code": 422, "message": "no such class", "details": {"causes": [{"message": "no"}]}}
AGAIN = RetryAfter(RECHECK)

CASES: dict[str, tuple[Api, Claim | None, Outcome, list[str]]] = {
    "no claim yet": (Api(), None, DONE, ["create ResourceClaim web-gpu"]),
    "it has just come": (Api({"code": 409, "reason": "AlreadyExists"}), None, Requeue("StaleView"), []),
    "no right, or no quota": (Api(DENIED), None, AGAIN, ["status False PermissionDenied"]),
    "the template asks for what is not valid": (Api(INVALID), None, AGAIN, ["status False InvalidSpec"]),
    "it says nothing yet": (Api(), MINE, DONE, ["annotate ResourceClaim web-gpu uid-of-web-gpu"]),
    "somebody else's": (Api(), claim("web-gpu"), DONE, ["status False ClaimTaken"]),
}


@pytest.mark.parametrize(("api", "found", "outcome", "done"), CASES.values(), ids=CASES)
async def test_answers(api: Api, found: Claim | None, outcome: Outcome, done: list[str]) -> None:
    assert (await reconcile(api, found), api.done) == (outcome, done)


async def test_the_status_says_how_the_reservation_stands() -> None:
    written = {
        "tollbar.dev/reserved-for": "deployments.apps/web",
        "tollbar.dev/release": "WhenDeleted",
        "tollbar.dev/workload-claim": "web-gpu",
    }
    api = Api()
    await reconcile(api, MINE.annotated(written), State(False, "NotAllocated", "waiting"))
    assert api.done == ["status False NotAllocated"]


async def test_one_that_is_gone_is_nothing_to_do() -> None:
    api = Api()
    assert (await reconcile(api, key=Key("ml", "gone")), api.done) == (DONE, [])

"""One claim, once decided: what is written, in which order, and what each answer of the API server leads to."""

from dataclasses import replace
from typing import Any

import pytest
from builders import Claim, claim, pod
from fakes import FakeEngine

from controllers.reservations.reconcile import Deps, gather, reconcile
from controllers.reservations.states import States
from tollbar.decide.claims.reservations import RECHECK, Knowledge, State, Workload
from tollbar.model import resources
from tollbar.model.claims import pod_entry
from tollbar.model.objects import Key, Object
from tollbar.model.plan import DONE, Event, Outcome, Requeue, RetryAfter
from tollbar.model.resources import Resource
from tollbar.runtime.clock import SystemClock
from tollbar.runtime.errors import error_from_status
from tollbar.runtime.metrics import Metrics
from tollbar.views.caches import ClaimCaches
from tollbar.views.oscillations import Oscillations

KEY = Key("ml", "gpu")
ENTRY = {"apiGroup": "apps", "resource": "deployments", "name": "web", "uid": "u1"}
KEPT = claim().annotated({"tollbar.dev/reserved-for": "deployments.apps/web"}).but("metadata.resourceVersion", "1")
TO_PIN = KEPT.allocated()
TO_FREE = KEPT.annotated({"tollbar.dev/reserved-uid": "u1"}).allocated().reserved(ENTRY)
TO_SHRINK = TO_FREE.reserved(pod_entry(pod("web")))
WEB = Workload(Knowledge.FOUND, {"metadata": {"name": "web", "uid": "u1"}})
GONE = Workload(Knowledge.ABSENT)
IDLE = Workload(
    Knowledge.FOUND,
    {"metadata": {"uid": "u1", "generation": 1}, "spec": {"replicas": 0}, "status": {"observedGeneration": 1}},
)


class Api:
    """Takes every write, or refuses the `number`-th with this Status; tells what was tried."""

    def __init__(self, status: Object | None = None, number: int = 1, *pods: Object) -> None:
        self._status = status
        self._number = number
        self._pods = pods
        self.tried: list[str] = []

    def _write(self, what: str) -> Object:
        self.tried.append(what)
        if self._status is not None and len(self.tried) == self._number:
            raise error_from_status(self._status)
        return TO_PIN.but("metadata.resourceVersion", str(1 + len(self.tried)))

    async def patch(self, _res: Resource, _name: str, body: Object, *, subresource: str = "", **_: Any) -> Object:
        meta = body["metadata"]
        what = "annotations" if "annotations" in meta else "finalizer" if "finalizers" in meta else "entry"
        assert meta["uid"] == "uid-of-gpu"
        return self._write(f"patch {subresource or 'claim'}: {what}")

    async def replace(self, _res: Resource, obj: Object, subresource: str = "") -> Object:
        status = obj["status"]
        entries = len(status.get("reservedFor") or ())
        allocated = "allocated" if "allocation" in status else "free"
        assert obj["metadata"]["resourceVersion"] == "1"
        return self._write(f"put {subresource}: {entries} entries, {allocated}")

    async def list(self, res: Resource, namespace: str = "", **_: Any) -> Object:
        assert (res, namespace) == (resources.PODS, "ml")
        return {"metadata": {}, "items": list(self._pods)}

    async def get(self, *_: Any) -> Object:
        raise error_from_status({"code": 404, "details": {"name": "web-gpu"}})


class Recorder:
    def __init__(self) -> None:
        self.said: list[str] = []

    def emit(self, regarding: Object, event: Event) -> None:
        self.said.append(f"{regarding['kind']} {event.reason}")


class Found:
    """Instead of watches: this workload."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self.forgotten: list[Key] = []

    async def look_up(self, *_: Any) -> Workload:
        return self._workload

    def forget(self, key: Key) -> None:
        self.forgotten.append(key)


def deps(api: Api, workload: Workload, *claims: Claim) -> Deps:
    caches = ClaimCaches(engine=FakeEngine(), managed_namespaces={}, system_namespace="tollbar-system")
    for each in claims:
        caches.claims.apply(each)
    given: list[Any] = [api, caches, Recorder(), Found(workload), States(Metrics()), Oscillations(SystemClock())]
    return Deps(*given, hot_loop=lambda: True, replaces=lambda: False, wedged_by_pins=never)


async def never() -> bool:
    return False


WRITES: dict[str, tuple[Claim, Workload, list[str], str]] = {
    "the record goes before the entry": (
        TO_PIN,
        WEB,
        ["patch claim: annotations", "patch status: entry"],
        "ClaimReserved",
    ),
    "the record is there already": (
        TO_PIN.annotated({"tollbar.dev/reserved-uid": "u1"}),
        WEB,
        ["patch status: entry"],
        "ClaimReserved",
    ),
    "the last entry and the allocation go in one write, then the finalizer": (
        TO_FREE,
        GONE,
        ["put status: 0 entries, free", "patch claim: finalizer"],
        "ClaimDeallocated",
    ),
    "an entry that is not the last": (TO_SHRINK, GONE, ["put status: 1 entries, allocated"], "ReservationReleased"),
}


@pytest.mark.parametrize(("given", "workload", "tried", "said"), WRITES.values(), ids=WRITES)
async def test_writes(given: Claim, workload: Workload, tried: list[str], said: str) -> None:
    api = Api()
    made = deps(api, workload, given)
    outcome = await reconcile(KEY, made)
    assert (outcome, api.tried, made.recorder.said) == (DONE, tried, [f"ResourceClaim {said}"])  # type: ignore[attr-defined]


STALE = Requeue("StaleView")
DENIED = 'may not update resource "resourceclaims/binding" in API group "resource.k8s.io"'


def invalid(field: str, message: str) -> Object:
    cause = {"reason": "FieldValueForbidden", "field": field, "message": message}
    return {"code": 422, "message": f"is invalid: {field}: {message}", "details": {"causes": [cause]}}


BINDING = {**invalid("status.allocation", DENIED), "message": DENIED}
FREE = invalid("status.reservedFor", "may not be specified when `allocated` is not set")
ENDING = invalid("status.reservedFor", "new entries may not be added while `deletionTimestamp` are set")
POLICY = {"code": 422, "message": "no", "details": {"causes": [{"message": "no"}]}}
WEBHOOK = {"code": 400, "message": 'admission webhook "a.example.com" denied the request: no'}
UID = {"code": 422, "message": "immutable", "details": {"causes": [{"field": "metadata.uid", "message": "immutable"}]}}
AGAIN = RetryAfter(RECHECK)
BLOCKED = ["ResourceClaim ReservationBlocked"]
NO_RIGHTS = State(False, "PermissionDenied", "no rights")
NOT_BOUND, KEPT_ALL_THE_SAME = State(False, "PermissionDenied", DENIED), State(True, "PermissionDenied", DENIED)

REFUSALS: dict[str, tuple[Claim, Workload, Object, int, Outcome, State | None, list[str]]] = {
    "the claim is gone": (TO_PIN, WEB, {"code": 404}, 1, DONE, None, []),
    "another claim of that name": (TO_PIN, WEB, UID, 1, STALE, None, []),
    "freed meanwhile": (TO_PIN, WEB, FREE, 2, STALE, None, []),
    "deleted meanwhile": (TO_PIN, WEB, ENDING, 2, STALE, None, []),
    "somebody wrote meanwhile": (TO_FREE, GONE, {"code": 409}, 1, STALE, None, []),
    "somebody wrote between the status and the finalizer": (TO_FREE, GONE, {"code": 409}, 2, STALE, None, []),
    "no right to annotate": (
        TO_PIN,
        WEB,
        {"code": 403, "message": "no rights"},
        1,
        AGAIN,
        NO_RIGHTS,
        BLOCKED,
    ),
    "no right to reserve": (TO_PIN, WEB, BINDING, 2, AGAIN, NOT_BOUND, BLOCKED),
    "a policy says no": (TO_PIN, WEB, POLICY, 1, AGAIN, State(False, "PermissionDenied", "no"), BLOCKED),
    "a webhook says no": (
        TO_PIN,
        WEB,
        WEBHOOK,
        2,
        AGAIN,
        State(False, "PermissionDenied", WEBHOOK["message"]),
        BLOCKED,
    ),
    "no right to release": (TO_FREE, GONE, BINDING, 1, AGAIN, KEPT_ALL_THE_SAME, BLOCKED),
}


@pytest.mark.parametrize(
    ("given", "workload", "status", "number", "outcome", "state", "said"), REFUSALS.values(), ids=REFUSALS
)
async def test_refusals(
    given: Claim,
    workload: Workload,
    status: Object,
    number: int,
    outcome: Outcome,
    state: State | None,
    said: list[str],
) -> None:
    made = deps(Api(status, number), workload, given)
    found = await reconcile(KEY, made)
    assert (found, made.states.get(KEY), made.recorder.said) == (outcome, state, said)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("pods", "tried"),
    [
        ([pod("other").claims("another")], ["put status: 0 entries, free", "patch claim: finalizer"]),
        ([pod("late").claims("gpu")], []),
    ],
    ids=["nobody", "a Pod that the cache does not know yet"],
)
async def test_an_idle_workload_lets_go_when_the_api_server_knows_of_nobody(
    pods: list[Object], tried: list[str]
) -> None:
    api = Api(None, 1, *pods)
    await reconcile(KEY, deps(api, IDLE, TO_FREE.annotated({"tollbar.dev/release": "WhenIdle"})))
    assert api.tried == tried


async def test_the_facts_are_of_one_moment() -> None:
    """It turns out that nobody else is at work while the API server is asked for its version."""
    alone: list[bool] = []

    async def answers_late() -> bool:
        alone.append(True)
        return True

    made = replace(deps(Api(), WEB, TO_FREE), hot_loop=lambda: not alone, wedged_by_pins=answers_late)
    facts = [await gather(KEY, TO_FREE, made) for _ in range(2)]
    assert [(each.hot_loop, each.wedged_by_pins) for each in facts] == [(True, True), (False, False)]


async def test_a_pin_is_given_up_when_the_one_whose_place_we_were_to_take_is_found_at_work() -> None:
    api, found = Api(), list[bool]()
    made = replace(deps(api, WEB, TO_FREE), replaces=lambda: not found, wedged_by_pins=always)
    assert (await reconcile(KEY, made), api.tried) == (RetryAfter(RECHECK), [])
    found.append(True)
    await reconcile(KEY, made)
    assert api.tried == ["put status: 0 entries, free", "patch claim: finalizer"]


async def always() -> bool:
    return True


async def test_a_claim_that_is_gone_is_forgotten() -> None:
    made = deps(Api(), WEB)
    made.states.record(KEY, State(True, "Held"))
    outcome = await reconcile(KEY, made)
    assert (outcome, made.states.get(KEY), made.workloads.forgotten) == (DONE, None, [KEY])  # type: ignore[attr-defined]


async def test_an_intent_without_its_workload_claim_is_none() -> None:
    """The cache lacks it, and the API server says the same."""
    api = Api()
    given = TO_SHRINK.annotated({"tollbar.dev/workload-claim": "web-gpu"})
    await reconcile(KEY, deps(api, WEB, given))
    assert api.tried == ["put status: 1 entries, allocated"]

"""One claim, once decided: what is written, in which order, and what each answer of the API server leads to."""

import asyncio
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from fakes.manager import Managed
from objects.builders import Claim, claim, pod

from controllers import reservations
from controllers.reservations import reconcile
from tollbar.decide.claims import reservations as decisions
from tollbar.decide.claims.reservations import (
    RECHECK,
    ClaimController,
    ConsumersOf,
    Knowledge,
    ReservationFacts,
    ReservationPlan,
    State,
    Workload,
)
from tollbar.model import resources
from tollbar.model.ask import Ask
from tollbar.model.claims import pod_entry
from tollbar.model.objects import Key, Object, key_of
from tollbar.model.plan import DONE, Outcome, Requeue, RetryAfter
from tollbar.model.resources import Resource
from tollbar.runtime import asking
from tollbar.runtime.errors import error_from_status
from tollbar.runtime.source import Channel
from tollbar.views import kinds
from tollbar.views.oscillations import Oscillations
from tollbar.views.reservations import ReservationStates
from tollbar.views.takeover import Problem, Takeover

KEY = Key("ml", "gpu")
ENTRY = {"apiGroup": "apps", "resource": "deployments", "name": "web", "uid": "u1"}
KEPT = claim().annotated({"tollbar.dev/reserved-for": "deployments.apps/web"}).but("metadata.resourceVersion", "1")
TO_PIN = KEPT.allocated()
TO_FREE = KEPT.annotated({"tollbar.dev/reserved-uid": "u1"}).allocated().reserved(ENTRY)
TO_SHRINK = TO_FREE.reserved(pod_entry(pod("web")))
WEB = Workload(Knowledge.FOUND, {"metadata": {"name": "web", "uid": "u1"}})
GONE = Workload(Knowledge.ABSENT)
UPSTREAM, TAKING_OVER, OURS = ClaimController
IDLE = Workload(
    Knowledge.FOUND,
    {"metadata": {"uid": "u1", "generation": 1}, "spec": {"replicas": 0}, "status": {"observedGeneration": 1}},
)


class Api:
    """Takes every write, or refuses the `number`-th with this Status; tells what was tried.

    `when_asked` is called when it is asked for its version.
    """

    def __init__(
        self,
        status: Object | None = None,
        number: int = 1,
        *pods: Object,
        version: str = "v1.37.0",
        when_asked: Callable[[], None] = lambda: None,
    ) -> None:
        self._status = status
        self._number = number
        self._pods = pods
        self._version = version
        self._when_asked = when_asked
        self.tried: list[str] = []

    def _write(self, what: str) -> Object:
        self.tried.append(what)
        if self._status is not None and len(self.tried) == self._number:
            raise error_from_status(self._status)
        return TO_PIN.but("metadata.resourceVersion", str(1 + len(self.tried)))

    async def patch(self, _res: Resource, _name: str, body: Object, *, subresource: str = "", **_: Any) -> Object:
        meta = body["metadata"]
        what = "annotations" if "annotations" in meta else "entry" if "status" in body else "finalizer"
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

    async def raw(self, *_: Any) -> bytes:
        self._when_asked()
        return orjson.dumps({"gitVersion": self._version})


class Found:
    """Instead of watches: this workload."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self.changes: Channel[Key] = Channel("workloads")
        self.forgotten: list[Key] = []

    async def look_up(self, *_: Any) -> Workload:
        return self._workload

    def forget(self, key: Key) -> None:
        self.forgotten.append(key)

    async def run(self) -> None:
        """There is nothing to watch."""


class World:
    """The controller of reservations in a cluster of these claims, whose workload is this one.

    Kubernetes' own claim controller may be at work beside it unless there is a `takeover` that says otherwise.
    """

    def __init__(self, api: Api, workload: Workload, *claims: Claim, takeover: Takeover | None = None) -> None:
        self.manager = Managed(api)
        self.said = self.manager.told
        self.states = ReservationStates(self.manager.metrics)
        self.workloads = Found(workload)
        oscillations = Oscillations(self.manager.caches.store(kinds.CLAIMS_WITH_STATUS), self.manager.clock)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(reservations, "Workloads", lambda *_, **__: self.workloads)
            self.controller, _ = reservations.setup(
                self.manager, takeover, self.states, oscillations, self.manager.device_tolerations()
            )
        self.manager.fill(claims)

    async def reconcile(self) -> Outcome:
        return await self.controller.reconcile(KEY)


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
    world = World(api, workload, given)
    outcome = await world.reconcile()
    assert (outcome, api.tried, world.said.reasons) == (DONE, tried, [f"ResourceClaim gpu: {said}"])


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
BLOCKED = ["ResourceClaim gpu: ReservationBlocked"]
NO_RIGHTS = State(False, "PermissionDenied", "no rights", "")
NOT_BOUND, KEPT_ALL_THE_SAME = State(False, "PermissionDenied", DENIED, ""), State(True, "PermissionDenied", DENIED, "")

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
    "a policy says no": (TO_PIN, WEB, POLICY, 1, AGAIN, State(False, "PermissionDenied", "no", ""), BLOCKED),
    "a webhook says no": (
        TO_PIN,
        WEB,
        WEBHOOK,
        2,
        AGAIN,
        State(False, "PermissionDenied", WEBHOOK["message"], ""),
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
    world = World(Api(status, number), workload, given)
    found = await world.reconcile()
    assert (found, world.states.get(KEY), world.said.reasons) == (outcome, state, said)


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
    await World(api, IDLE, TO_FREE.annotated({"tollbar.dev/release": "WhenIdle"})).reconcile()
    assert api.tried == tried


async def test_of_the_pods_that_only_the_server_knows_one_is_in_memory() -> None:
    pods = [pod(f"p{number}").claims("gpu") for number in range(3)]
    api: Any = Api(None, 1, pod("done").claims("gpu").but("status.phase", "Succeeded"), pod("other"), *pods)
    found = await reconcile.consumers_of(ConsumersOf(KEY), api, asyncio.Semaphore(1))
    assert [key_of(each).name for each in found] == ["p0"]


@pytest.fixture
def decided(monkeypatch: pytest.MonkeyPatch) -> list[ReservationFacts]:
    """The facts from which there is a plan."""
    seen: list[ReservationFacts] = []
    decide = decisions.decide

    def noting(facts: ReservationFacts) -> ReservationPlan | Ask:
        plan = decide(facts)
        if not isinstance(plan, Ask):
            seen.append(facts)
        return plan

    monkeypatch.setattr(decisions, "decide", noting)
    return seen


async def test_the_facts_are_of_one_moment(decided: list[ReservationFacts]) -> None:
    """It turns out that nobody else is at work while the API server is asked for its version."""
    takeover = Takeover()
    world = World(Api(version="v1.35.0", when_asked=lambda: takeover.found(None)), WEB, TO_FREE, takeover=takeover)
    for _ in range(2):
        await world.reconcile()
    assert [(each.claim_controller, each.ignores_pinned) for each in decided] == [(OURS, False), (OURS, False)]


ANOTHER = Problem("AnotherGenerator", "")
BESIDE: dict[str, tuple[list[Problem | None] | None, str, tuple[ClaimController, bool]]] = {
    "Complement": (None, "v1.36.0", (UPSTREAM, False)),
    "Complement, before Kubernetes 1.36": (None, "v1.35.9", (UPSTREAM, True)),
    "Replace, before anything was found out": ([], "v1.36.0", (TAKING_OVER, False)),
    "Replace, before anything was found out, before Kubernetes 1.36": ([], "v1.35.9", (TAKING_OVER, True)),
    "Replace, working": ([None], "v1.35.9", (OURS, False)),
    "Replace, refused": ([Problem("MissingRights", "")], "v1.35.9", (TAKING_OVER, True)),
    "Replace, beside another generator": ([None, ANOTHER], "v1.35.9", (UPSTREAM, True)),
    "Replace, alone again": ([None, ANOTHER, None], "v1.35.9", (OURS, False)),
}
"""What was found about other generators (None: in this mode nobody looks), the API server's version, and the facts:
claim_controller and ignores_pinned."""


@pytest.mark.parametrize(("findings", "version", "want"), BESIDE.values(), ids=BESIDE)
async def test_what_kubernetes_own_claim_controller_may_do(
    decided: list[ReservationFacts],
    findings: list[Problem | None] | None,
    version: str,
    want: tuple[ClaimController, bool],
) -> None:
    takeover = None if findings is None else Takeover()
    for found in findings or ():
        assert takeover is not None
        takeover.found(found)
    await World(Api(version=version), WEB, TO_FREE, takeover=takeover).reconcile()
    assert [(each.claim_controller, each.ignores_pinned) for each in decided] == [want]


async def test_a_pin_is_given_up_when_the_one_whose_place_we_were_to_take_is_found_at_work() -> None:
    api, takeover = Api(version="v1.35.0"), Takeover()
    world = World(api, WEB, TO_FREE, takeover=takeover)
    assert (await world.reconcile(), api.tried) == (RetryAfter(RECHECK), [])
    takeover.found(ANOTHER)
    await world.reconcile()
    assert api.tried == ["put status: 0 entries, free", "patch claim: finalizer"]


async def test_a_claim_that_is_gone_is_forgotten() -> None:
    world = World(Api(), WEB)
    world.states.record(KEY, State(True, "Held"))
    outcome = await world.reconcile()
    assert (outcome, world.states.get(KEY), world.workloads.forgotten) == (DONE, None, [KEY])


async def test_an_intent_without_its_workload_claim_is_none() -> None:
    """The cache lacks it, and the API server says the same."""
    api = Api()
    given = TO_SHRINK.annotated({"tollbar.dev/workload-claim": "web-gpu"})
    await World(api, WEB, given).reconcile()
    assert api.tried == ["put status: 1 entries, allocated"]


@pytest.mark.parametrize(
    ("names", "tried"), [("another", ["put status: 1 entries, allocated"]), ("gpu", [])], ids=["another", "this one"]
)
async def test_of_a_workload_claim_that_the_cache_lacks_only_what_it_says_is_kept(
    monkeypatch: pytest.MonkeyPatch, names: str, tried: list[str]
) -> None:
    """Its author may make the metadata as large as the API server stores them."""

    class Having(Api):
        async def get(self, *_: Any) -> Object:
            return {
                **resources.WORKLOAD_CLAIMS.type_meta,
                "metadata": {"name": "web-gpu", "namespace": "ml", "labels": {"a": "x" * 10_000}},
                "spec": {
                    "workloadRef": {"apiGroup": "apps", "resource": "deployments", "name": "web"},
                    "resourceClaimName": names,
                },
            }

    monkeypatch.setattr(asking, "MOST_BYTES", 5_000)
    api = Having()
    await World(api, WEB, TO_SHRINK.annotated({"tollbar.dev/workload-claim": "web-gpu"})).reconcile()
    assert api.tried == tried

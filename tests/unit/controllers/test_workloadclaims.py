"""One WorkloadClaim, once decided: its claim is made or annotated, and a refusal is said."""

import asyncio
from typing import Any

import orjson
import pytest
from fakes.clocks import Aged, Hand
from fakes.manager import Managed, turns
from objects.builders import Built, Claim, claim, pod_group, template, workload_claim

from controllers import reservations
from tollbar.decide.claims.reservations import RECHECK, State
from tollbar.model.objects import Key, Object
from tollbar.model.plan import DONE, Outcome, Requeue, RetryAfter
from tollbar.model.resources import Resource
from tollbar.runtime.controller import Controller
from tollbar.runtime.errors import ApiError, Forbidden, NotFound, Unreachable, error_from_status
from tollbar.views import kinds
from tollbar.views.oscillations import Oscillations
from tollbar.views.reservations import ReservationStates

KEY = Key("ml", "web-gpu")
WANTED = workload_claim(resourceClaimTemplateName="one").but("metadata.resourceVersion", "1")
GROUPED = WANTED.but("spec.podGroup", {"podClaimName": "device"})


class Now(Aged, Hand):
    """Wall time stands still, monotonic time is moved."""


class Api:
    """Refuses writes of claims with this Status; tells what was written, and which reason a status had."""

    def __init__(
        self,
        status: Object | None = None,
        *,
        serves_groups: bool = True,
        shares_claims: bool = True,
        groups: Object | None = None,
        template: Object | ApiError | None = None,
    ) -> None:
        """`groups` is what writes of PodGroups are refused with, `template` what a read of one is answered with."""
        self._status = status
        self._serves_groups = serves_groups
        self._shares_claims = shares_claims
        self._groups = groups
        self.template = template
        self.wanted: Object = WANTED
        self.done: list[str] = []
        self.asked: list[str] = []
        """The requests that change nothing."""

    async def served(self, api_version: str) -> set[str]:
        self.asked.append(api_version)
        return {"podgroups"} if self._serves_groups and api_version == "scheduling.k8s.io/v1beta1" else set()

    async def get(self, res: Resource, name: str, namespace: str) -> Object:
        self.asked.append(f"get {res.kind} {namespace}/{name}")
        if self.template is None:
            raise NotFound(404, "NotFound", "", {"name": name})
        if isinstance(self.template, ApiError):
            raise self.template
        return self.template

    async def raw(self, method: str, path: str, body: bytes, *, query: Object) -> bytes:
        assert (method, path, query) == (
            "POST",
            "/apis/scheduling.k8s.io/v1beta1/namespaces/ml/podgroups",
            {"dryRun": "All"},
        )
        self.asked.append("dry run")
        if self._groups is not None:
            raise error_from_status(self._groups, method="POST")
        made = Built(orjson.loads(body))
        return orjson.dumps(made if self._shares_claims else made.but("spec.resourceClaims", []))

    async def delete(self, res: Resource, name: str, namespace: str, *, uid: str) -> None:
        if self._groups is not None:
            raise error_from_status(self._groups, method="DELETE")
        self.done.append(f"delete {res.kind} {namespace}/{name} {uid}")

    def _refuse(self) -> None:
        if self._status is not None:
            raise error_from_status(self._status, method="POST")

    async def create(self, res: Resource, obj: Object) -> Object:
        self._refuse()
        self.done.append(f"create {res.kind} {obj['metadata']['name']}")
        self.created: Object = orjson.loads(orjson.dumps(obj))
        return self.created

    async def patch(self, res: Resource, name: str, body: Object, **_: Any) -> Object:
        if "status" in body:
            assert _["namespace"] == "ml"
            said = " ".join(f"{each['status']} {each['reason']}" for each in body["status"]["conditions"])
            self.done.append(f"status {said}")
            return {**self.wanted, "status": body["status"]}
        self._refuse()
        self.done.append(f"annotate {res.kind} {name} {body['metadata']['uid']}")
        return claim(name)


async def reconcile(
    api: Api,
    found: Claim | None = None,
    state: State | None = None,
    key: Key = KEY,
    *more: Object,
    wanted: Object = WANTED,
) -> Outcome:
    """By the controller, in a cluster with the WorkloadClaim, its template and perhaps its claim."""
    return await started(api, found, state, *more, wanted=wanted)[1].reconcile(key)


def started(
    api: Api, found: Claim | None, state: State | None, *more: Object, wanted: Object
) -> tuple[Managed, Controller[Key]]:
    api.wanted = wanted
    manager = Managed(api, clock=Now())
    states = ReservationStates(manager.metrics)
    oscillations = Oscillations(manager.caches.store(kinds.CLAIMS_WITH_STATUS), manager.clock)
    _, controller = reservations.setup(manager, None, states, oscillations, manager.device_tolerations())
    manager.fill([wanted, *more, template("one").request("gpu"), *([found] if found is not None else ())])
    states.record(KEY, state)
    return manager, controller


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


LARGE = template("one").request("gpu").annotated({"example.com/note": "x" * kinds.MOST_BYTES})
READ = "get ResourceClaimTemplate ml/one"
UNREADABLE = Forbidden(403, "Forbidden", "no right", method="GET")
OF_A_LARGE_TEMPLATE: dict[str, tuple[Api, Outcome, list[str]]] = {
    "it is read": (Api(template=LARGE), DONE, ["create ResourceClaim web-gpu"]),
    "it is gone by now": (Api(), Requeue("StaleView"), []),
    "it may not be read": (Api(template=UNREADABLE), AGAIN, ["status False PermissionDenied"]),
}


@pytest.mark.parametrize(("api", "outcome", "done"), OF_A_LARGE_TEMPLATE.values(), ids=OF_A_LARGE_TEMPLATE)
async def test_a_template_that_is_too_large_for_the_caches(api: Api, outcome: Outcome, done: list[str]) -> None:
    manager, controller = started(api, None, None, wanted=WANTED)
    manager.fill([LARGE])
    assert (await controller.reconcile(KEY), api.done, api.asked) == (outcome, done, [READ])


async def test_the_claim_of_a_template_that_is_too_large_has_all_of_it_and_hinders_nobody_who_reads() -> None:
    class Reading(Api):
        async def create(self, res: Resource, obj: Object) -> Object:
            async with asyncio.timeout(60.0):
                async with manager.reading, manager.reading:
                    return await super().create(res, obj)

    api = Reading(template=LARGE)
    manager, controller = started(api, None, None, wanted=WANTED)
    manager.fill([LARGE])
    await controller.reconcile(KEY)
    assert api.created["spec"] == LARGE["spec"]["spec"]
    assert api.created["metadata"]["annotations"]["tollbar.dev/workload-claim"] == "web-gpu"


async def test_it_is_read_and_created_in_turn_with_the_large_claims_of_pods() -> None:
    api = Api(template=LARGE)
    manager, controller = started(api, None, None, wanted=WANTED)
    manager.creating = asyncio.Semaphore(0)
    manager.fill([LARGE])
    waiting = asyncio.create_task(controller.reconcile(KEY))
    await turns()
    before = list(api.asked)
    manager.creating.release()
    await waiting
    assert (before, api.asked, api.done) == ([], [READ], ["create ResourceClaim web-gpu"])


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


ANNOTATED = MINE.annotated(
    {
        "tollbar.dev/reserved-for": "deployments.apps/web",
        "tollbar.dev/release": "WhenDeleted",
        "tollbar.dev/workload-claim": "web-gpu",
    }
)
GROUP = (
    pod_group("web-gpu")
    .but("metadata.ownerReferences", MINE["metadata"]["ownerReferences"])
    .but("spec.resourceClaims", [{"name": "device", "resourceClaimName": "web-gpu"}])
)
ENTRY = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "web-gpu", "uid": "uid-of-web-gpu"}
USED = ANNOTATED.allocated().reserved(ENTRY)
HELD, GONE = State(True, "Held"), State(False, "Released")
DELETED = "delete PodGroup ml/web-gpu uid-of-web-gpu"
GROUPS: dict[str, tuple[Api, State, list[Object], Object, Outcome, list[str]]] = {
    "it is made": (Api(), HELD, [], GROUPED, DONE, ["create PodGroup web-gpu", "status True Held"]),
    "none is served": (Api(serves_groups=False), HELD, [], GROUPED, AGAIN, ["status True Held False NotServed"]),
    "its claims would be dropped": (
        Api(shares_claims=False),
        HELD,
        [],
        GROUPED,
        AGAIN,
        ["status True Held False ClaimsNotShared"],
    ),
    "it is refused": (Api(groups=DENIED), HELD, [], GROUPED, AGAIN, ["status True Held False Refused"]),
    "its deletion is refused": (
        Api(groups=DENIED),
        GONE,
        [GROUP],
        GROUPED,
        AGAIN,
        ["status False Released False Refused"],
    ),
    "it is there": (Api(), HELD, [GROUP], GROUPED, DONE, ["status True Held True Ready"]),
    "somebody else's": (
        Api(),
        HELD,
        [pod_group("web-gpu")],
        GROUPED,
        DONE,
        ["status True Held False Taken"],
    ),
    "the workload is gone": (Api(), GONE, [GROUP], GROUPED, DONE, [DELETED, "status False Released True Ready"]),
    "somebody has deleted it meanwhile": (
        Api(groups={"code": 404}),
        GONE,
        [GROUP],
        GROUPED,
        DONE,
        ["status False Released True Ready"],
    ),
    "nobody asks for it any more": (Api(), HELD, [GROUP], WANTED, DONE, [DELETED, "status True Held"]),
    "it may not be deleted": (Api(groups=DENIED), HELD, [GROUP], WANTED, AGAIN, ["status True Held False Refused"]),
    "it has come, and the watch does not show it yet": (
        Api(groups={"code": 409, "reason": "AlreadyExists"}),
        HELD,
        [],
        GROUPED,
        DONE,
        ["status True Held"],
    ),
}


@pytest.mark.parametrize(("api", "state", "found", "wanted", "outcome", "done"), GROUPS.values(), ids=GROUPS)
async def test_the_pod_group(
    api: Api, state: State, found: list[Object], wanted: Object, outcome: Outcome, done: list[str]
) -> None:
    assert (await reconcile(api, USED, state, KEY, *found, wanted=wanted), api.done) == (outcome, done)


@pytest.mark.parametrize("api", [Api(serves_groups=False), Api(groups=DENIED)], ids=["not served", "refused"])
async def test_a_pod_group_that_cannot_be_made_is_not_asked_for_at_each_change(api: Api) -> None:
    manager, controller = started(api, USED, HELD, wanted=GROUPED)
    clock = manager.clock
    assert isinstance(clock, Now)
    await controller.reconcile(KEY)
    before = list(api.asked)
    assert await controller.reconcile(KEY) == AGAIN
    assert api.asked == before
    clock.seconds += RECHECK
    await controller.reconcile(KEY)
    assert api.asked == before * 2


async def test_a_pod_group_that_was_made_is_known_before_the_watch_shows_it() -> None:
    api = Api()
    _, controller = started(api, USED, HELD, wanted=GROUPED)
    await controller.reconcile(KEY)
    await controller.reconcile(KEY)
    assert api.done.count("create PodGroup web-gpu") == 1


class Proxied(Api):
    async def raw(self, *_: Any, **__: Any) -> bytes:
        return b"<html>"


async def test_a_proxy_that_answers_in_the_api_servers_place_is_no_error_of_the_program() -> None:
    with pytest.raises(Unreachable):
        await reconcile(Proxied(), USED, HELD, wanted=GROUPED)


async def test_a_claim_that_may_not_be_written_does_not_keep_the_pod_group() -> None:
    api = Api(DENIED)
    assert await reconcile(api, MINE, HELD, KEY, GROUP, wanted=WANTED) == AGAIN
    assert api.done == [DELETED, "status False PermissionDenied"]


async def test_a_refused_pod_group_does_not_keep_the_claim_from_being_annotated() -> None:
    api = Api(groups=DENIED)
    await reconcile(api, MINE, HELD, KEY, GROUP, wanted=WANTED)
    assert "annotate ResourceClaim web-gpu uid-of-web-gpu" in api.done

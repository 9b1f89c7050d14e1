"""One key of the claims controller: what is written, in which order, and what each answer leads to."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import orjson
import pytest
from clusters.claims import ClaimsWorld
from fakes.clocks import Hand
from fakes.manager import turns
from objects.builders import Template, claim, pod, template

from controllers.claims.consumers import HELD_BACK, TURN
from controllers.claims.mappers import ClaimKey
from tollbar import wellknown
from tollbar.api.reasons import ModeReason
from tollbar.decide.claims import consumers
from tollbar.model.claims import pod_entry
from tollbar.model.objects import Object, key_of
from tollbar.model.plan import DONE, Failed, Outcome, Requeue
from tollbar.model.resources import Resource
from tollbar.runtime import asking, creating
from tollbar.runtime.clock import Clock
from tollbar.runtime.errors import ApiError, Conflict, Forbidden, Invalid, NotFound, ServerError, Unreachable
from tollbar.views import kinds
from tollbar.views.takeover import Problem

GPU = template("gpu").request("gpu")
NIC = template("nic").request("nic")
LARGE = GPU.annotated({"example.com/note": "x" * kinds.MOST_BYTES})
WEB = pod().templates("gpu").but("metadata.resourceVersion", "1")
MADE = claim("web-gpu-x").generated_for(WEB, "gpu").but("metadata.resourceVersion", "1")
IN_USE = MADE.allocated().reserved(pod_entry(WEB))
PAST = WEB.generated("gpu", "web-gpu-x").bound().phase("Succeeded")
REMOVED = "$deleteFromPrimitiveList/finalizers"
FINALIZER = wellknown.DELETE_PROTECTION_FINALIZER
VERSION = "1"
"""Of what is there; whatever is written or created gets a later one."""
UNSEEN = MADE.but("metadata.resourceVersion", "2")


class Api:
    """Answers as if everything went well, or with the error that a call (`verb plural/subresource`) is given once."""

    def __init__(self, *, live: tuple[Object, ...] = (), errors: dict[str, ApiError] | None = None) -> None:
        self.calls: list[str] = []
        self.bodies: list[Any] = []
        self._live = {(obj["kind"], key_of(obj).name): obj for obj in live}
        self._errors = dict(errors or {})

    def _call(self, verb: str, resource: Resource, sub: str = "", body: Any = None) -> None:
        call = f"{verb} {resource.plural}/{sub}".rstrip("/")
        self.calls.append(call)
        self.bodies.append(body)
        if call in self._errors:
            raise self._errors.pop(call)

    async def get(self, resource: Resource, name: str, _namespace: str) -> Object:
        self._call("get", resource)
        if (resource.kind, name) not in self._live:
            raise NotFound(404, "NotFound", "", {"name": name})
        return self._live[resource.kind, name]

    async def list(self, resource: Resource, _namespace: str = "", **_: Any) -> Object:
        self._call("list", resource)
        items = [obj for obj in self._live.values() if obj["kind"] == resource.kind]
        return {"items": items, "metadata": {"resourceVersion": VERSION}}

    async def create(self, resource: Resource, obj: Object) -> Object:
        obj = orjson.loads(orjson.dumps(obj))
        self._call("create", resource, body=obj)
        name = f"{obj['metadata']['generateName']}{len(self.calls)}"
        created = {"name": name, "uid": f"uid-of-{name}", "resourceVersion": "2"}
        return {**obj, "metadata": {**obj["metadata"], **created}}

    async def replace(self, resource: Resource, obj: Object, subresource: str) -> Object:
        self._call("update", resource, subresource, obj)
        return {**IN_USE, "status": obj["status"], "metadata": {**IN_USE["metadata"], "resourceVersion": "2"}}

    async def patch(self, resource: Resource, _name: str, body: Any, *, subresource: str = "", **_: Any) -> Object:
        self._call("patch", resource, subresource, body)
        given = PAST if resource.kind == "Pod" else IN_USE
        return {**given, "metadata": {**given["metadata"], "resourceVersion": "3"}}

    async def delete(self, resource: Resource, _name: str, _namespace: str, *, uid: str) -> None:
        self._call("delete", resource, body=uid)


async def working(api: Api, *there: Object, clock: Clock | None = None) -> ClaimsWorld:
    """Nobody else is at work, and the cache of claims is up to date; no call has been made."""
    world = ClaimsWorld(api, *there, clock=clock)
    await world.work(seen=VERSION)
    assert api.calls == ["list resourceclaims"]
    api.calls.clear()
    api.bodies.clear()
    return world


THE_POD = ClaimKey("Pod", "ml", "web")
THE_CLAIM = ClaimKey("ResourceClaim", "ml", "web-gpu-x")
STALE = Requeue("StaleView")
REFUSED = Failed("FailedResourceClaimCreation")

NO_TEMPLATE = 'resource claim template "gpu": resourceclaimtemplate.resource.k8s.io "gpu" not found'

Case = tuple[ClaimKey, list[Object], Api, Outcome, list[str]]
CALLS: dict[str, Case] = {
    "a Pod that is gone": (THE_POD, [], Api(), DONE, []),
    "a Pod without its claim": (THE_POD, [GPU, WEB], Api(), DONE, ["create resourceclaims", "patch pods/status"]),
    "a Pod without two claims is told of both at once": (
        THE_POD,
        [GPU, NIC, WEB.templates("nic")],
        Api(),
        DONE,
        ["create resourceclaims", "create resourceclaims", "patch pods/status"],
    ),
    "a Pod without its claim, whose template is too large for the caches": (
        THE_POD,
        [LARGE, WEB],
        Api(live=(LARGE,)),
        DONE,
        ["get resourceclaimtemplates", "create resourceclaims", "patch pods/status"],
    ),
    "a template that is too large for the caches is gone by now": (
        THE_POD,
        [LARGE, WEB],
        Api(),
        STALE,
        ["get resourceclaimtemplates"],
    ),
    "a Pod that was not told of its claim": (THE_POD, [GPU, WEB, MADE], Api(), DONE, ["patch pods/status"]),
    "a claim that the cache has not got, and the server has": (
        THE_POD,
        [GPU, WEB.generated("gpu", "web-gpu-x")],
        Api(live=(UNSEEN,)),
        DONE,
        ["get resourceclaims"],
    ),
    "a claim that the server has not got either": (
        THE_POD,
        [GPU, WEB.generated("gpu", "web-gpu-x")],
        Api(live=(WEB.generated("gpu", "web-gpu-x"),)),
        DONE,
        ["get resourceclaims", "get pods", "create resourceclaims", "patch pods/status"],
    ),
    "neither a claim nor its Pod is there any more": (
        THE_POD,
        [GPU, WEB.generated("gpu", "web-gpu-x")],
        Api(),
        DONE,
        ["get resourceclaims", "get pods"],
    ),
    "a Pod with a node, whose claim is free": (
        THE_POD,
        [WEB.generated("gpu", "web-gpu-x").bound(), MADE.allocated()],
        Api(),
        DONE,
        ["patch resourceclaims/status"],
    ),
    "the claim is not allocated any more": (
        THE_POD,
        [WEB.generated("gpu", "web-gpu-x").bound(), MADE.allocated()],
        Api(errors={"patch resourceclaims/status": Invalid(422, "Invalid", "", {"causes": [{"field": "status"}]})}),
        STALE,
        ["patch resourceclaims/status"],
    ),
    "the Pod is another one by now": (
        THE_POD,
        [GPU, WEB, MADE],
        Api(errors={"patch pods/status": Invalid(422, "Invalid", "", {"causes": [{"field": "metadata.uid"}]})}),
        STALE,
        ["patch pods/status"],
    ),
    "the Pod is gone by now": (
        THE_POD,
        [GPU, WEB, MADE],
        Api(errors={"patch pods/status": NotFound(404, "NotFound", "")}),
        DONE,
        ["patch pods/status"],
    ),
    "a claim that is gone": (THE_CLAIM, [], Api(), DONE, []),
    "a claim whose Pod has ended": (
        THE_CLAIM,
        [PAST, IN_USE],
        Api(),
        DONE,
        ["update resourceclaims/status", "patch resourceclaims", "delete resourceclaims"],
    ),
    "a scheduler was quicker": (
        THE_CLAIM,
        [PAST, IN_USE],
        Api(errors={"update resourceclaims/status": Conflict(409, "Conflict", "")}),
        STALE,
        ["update resourceclaims/status"],
    ),
    "a consumer that the cache has not got, and the server has": (
        THE_CLAIM,
        [IN_USE],
        Api(live=(WEB,)),
        DONE,
        ["get pods"],
    ),
    "a consumer that the server has not got either": (
        THE_CLAIM,
        [IN_USE],
        Api(),
        DONE,
        ["get pods", "update resourceclaims/status", "patch resourceclaims"],
    ),
    "a consumer of a kind that is not served any more": (
        THE_CLAIM,
        [
            MADE.allocated().reserved(
                {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "g"}
            )
        ],
        Api(errors={"get podgroups": NotFound(404, "NotFound", "the server could not find the requested resource")}),
        DONE,
        ["get podgroups"],
    ),
}


@pytest.mark.parametrize(("key", "there", "api", "outcome", "calls"), CALLS.values(), ids=CALLS)
async def test_calls(key: ClaimKey, there: list[Object], api: Api, outcome: Outcome, calls: list[str]) -> None:
    world = await working(api, *there)
    assert (await world.controller.reconcile(key), api.calls) == (outcome, calls)


async def test_a_right_that_is_missing_is_no_stale_view() -> None:
    error = Invalid(422, "Invalid", "requires permission on resourceclaims/binding", {"causes": [{"field": "status"}]})
    api = Api(errors={"patch resourceclaims/status": error})
    world = await working(api, WEB.generated("gpu", "web-gpu-x").bound(), MADE.allocated())
    with pytest.raises(Invalid):
        await world.controller.reconcile(THE_POD)


async def test_a_pod_group_is_not_gone_because_its_kind_is() -> None:
    gang = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PodGroup", "metadata": {"namespace": "ml", "name": "g"}}
    gang["metadata"] |= {"uid": "g", "resourceVersion": "1"}
    entry = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "g"}
    unserved = NotFound(404, "NotFound", "the server could not find the requested resource")
    api = Api(errors={"get podgroups": unserved})
    world = await working(api, gang, MADE.allocated().reserved(entry))
    world.manager.caches.stores["podgroups"].replace([])  # what a reflector does when discovery has lost the kind
    assert (await world.controller.reconcile(THE_CLAIM), api.calls) == (DONE, ["get podgroups"])


async def test_a_consumer_that_cannot_be_asked_for_keeps_its_entry() -> None:
    api = Api(errors={"get pods": Forbidden(403, "Forbidden", "no")})
    world = await working(api, IN_USE)
    with pytest.raises(Forbidden):
        await world.controller.reconcile(THE_CLAIM)
    assert api.calls == ["get pods"]


async def test_every_write_is_fenced() -> None:
    """A PUT of the status takes `generateName` away when its body has none."""
    generated = IN_USE.but("metadata.generateName", "web-gpu-")
    bodies = []
    for key, there in ((THE_POD, [GPU, WEB]), (THE_CLAIM, [PAST, generated])):
        api = Api()
        world = await working(api, *there)
        await world.controller.reconcile(key)
        bodies += api.bodies
    _, record, free, unprotect, delete = bodies
    assert (record["metadata"], free["metadata"], free["status"], unprotect, delete) == (
        {"namespace": "ml", "name": "web", "uid": "uid-of-web"},
        {
            "namespace": "ml",
            "name": "web-gpu-x",
            "generateName": "web-gpu-",
            "uid": "uid-of-web-gpu-x",
            "resourceVersion": "1",
        },
        {},
        {"metadata": {"uid": "uid-of-web-gpu-x", "resourceVersion": "2", REMOVED: [FINALIZER]}},
        "uid-of-web-gpu-x",
    )


async def test_a_deleted_claim_is_not_deleted_again_before_the_watch_shows_it() -> None:
    api = Api()
    world = await working(api, PAST, MADE)
    await world.controller.reconcile(THE_CLAIM)
    await world.controller.reconcile(THE_CLAIM)
    assert api.calls == ["delete resourceclaims"]


async def test_a_deletion_that_failed_is_tried_again() -> None:
    api = Api(errors={"delete resourceclaims": Conflict(409, "Conflict", "")})
    world = await working(api, PAST, MADE)
    assert (await world.controller.reconcile(THE_CLAIM), await world.controller.reconcile(THE_CLAIM)) == (STALE, DONE)
    assert api.calls == ["delete resourceclaims"] * 2


@pytest.mark.parametrize("error", [Unreachable("no answer in time"), ServerError(500, "InternalError", "")], ids=repr)
@pytest.mark.parametrize(
    ("left", "calls"), [((UNSEEN,), []), ((), ["create resourceclaims"])], ids=["made", "not made"]
)
async def test_a_lost_answer_is_looked_up(error: ApiError, left: tuple[Object, ...], calls: list[str]) -> None:
    api = Api(live=left, errors={"create resourceclaims": error})
    world = await working(api, GPU, WEB)
    with pytest.raises(ApiError):
        await world.controller.reconcile(THE_POD)
    await world.controller.reconcile(THE_POD)
    assert api.calls[1:] == ["list resourceclaims", *calls, "patch pods/status"]
    assert world.manager.told.said[0].startswith(
        "Pod web: FailedResourceClaimCreation: PodResourceClaim gpu: create ResourceClaim: "
    )


async def test_a_lost_answer_is_forgotten_once_the_watch_shows_the_claim() -> None:
    api = Api(errors={"create resourceclaims": Unreachable("no answer in time")})
    world = await working(api, GPU, WEB)
    unseen = world.taking_over.unseen
    with pytest.raises(ApiError):
        await world.controller.reconcile(THE_POD)
    asked = [bool(unseen.questions(WEB))]
    world.manager.fill([MADE])
    await world.controller.reconcile(THE_POD)
    assert (*asked, bool(unseen.questions(WEB))) == (True, False)
    assert "list resourceclaims" not in api.calls


async def test_a_claim_is_not_made_twice_before_the_watch_shows_it() -> None:
    api = Api(errors={"patch pods/status": Conflict(409, "Conflict", "")})
    world = await working(api, GPU, WEB)
    assert (await world.controller.reconcile(THE_POD), await world.controller.reconcile(THE_POD)) == (STALE, DONE)
    assert api.calls == ["create resourceclaims", "patch pods/status", "patch pods/status"]


SAID: dict[str, tuple[list[Object], Callable[[], Api], list[str]]] = {
    "the template is missing": (
        [WEB],
        Api,
        [f"Pod web: FailedResourceClaimCreation: PodResourceClaim gpu: {NO_TEMPLATE}"],
    ),
    "a template that is too large for the caches may not be read": (
        [LARGE, WEB],
        lambda: Api(errors={"get resourceclaimtemplates": Forbidden(403, "Forbidden", "no right", method="GET")}),
        ["Pod web: FailedResourceClaimCreation: PodResourceClaim gpu: read its template: no right"],
    ),
    "the API server refuses the claim": (
        [GPU, WEB],
        lambda: Api(errors={"create resourceclaims": Forbidden(403, "Forbidden", "exceeded quota")}),
        ["Pod web: FailedResourceClaimCreation: PodResourceClaim gpu: create ResourceClaim: exceeded quota"],
    ),
}


@pytest.mark.parametrize(("there", "api", "said"), SAID.values(), ids=SAID)
async def test_what_cannot_be_done_is_said(there: list[Object], api: Callable[[], Api], said: list[str]) -> None:
    world = await working(api(), *there)
    assert (await world.controller.reconcile(THE_POD), world.manager.told.said) == (REFUSED, said)


async def test_a_pod_of_whose_claims_too_much_would_be_read_is_told_how_much_may_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The cache has none of them yet; nothing is written."""
    monkeypatch.setattr(asking, "MOST_BYTES", 1 << 20)
    crowded = MADE.but("metadata.ownerReferences", [{"name": "n" * 1000}] * 1000)
    api = Api(live=(crowded.but("metadata.name", "web-nic-x"),))
    world = await working(api, GPU, NIC, WEB.templates("nic").generated("nic", "web-nic-x"))
    assert (await world.controller.reconcile(THE_POD), api.calls) == (REFUSED, ["get resourceclaims"])
    told = (
        "Pod web: FailedResourceClaimCreation: PodResourceClaim nic: checking for claim before creating it: what"
        " is read of the claims that the status names takes more than 1 MiB of memory; use fewer claims in one Pod, or"
        " claims with fewer owners and shorter parameters"
    )
    assert world.manager.told.said == [told]


async def test_creations_are_counted_as_upstream_counts_them() -> None:
    api = Api(errors={"create resourceclaims": Forbidden(403, "Forbidden", "exceeded quota")})
    world = await working(api, GPU, WEB)
    for _ in range(2):
        await world.controller.reconcile(THE_POD)
    counter = world.manager.metrics.counter("dynamic_resource_allocation_resourceclaim_creates_total")
    counted = {status: counter.labels(status, "false", "", "Pod")._value.get() for status in ("success", "failure")}
    assert counted == {"success": 1, "failure": 1}


async def test_the_status_is_written_under_our_own_name() -> None:
    seen: list[Any] = []

    class Noting(Api):
        async def patch(self, resource: Resource, name: str, body: Any, **how: Any) -> Object:
            seen.append((how["field_manager"], how["force"], body["status"]))
            return await super().patch(resource, name, body, **how)

    recorded = claim("n").generated_for(WEB, "nic")
    world = await working(Noting(), GPU, MADE, WEB.templates("nic").generated("nic", "n"), recorded)
    await world.controller.reconcile(THE_POD)
    both = [{"name": "gpu", "resourceClaimName": "web-gpu-x"}, {"name": "nic", "resourceClaimName": "n"}]
    assert seen == [(wellknown.CLAIMS_FIELD_MANAGER, True, {"resourceClaimStatuses": both})]


async def test_the_claim_of_a_template_that_is_too_large_for_the_caches_is_as_the_api_server_has_it() -> None:
    api = Api(live=(LARGE,))
    world = await working(api, LARGE, WEB)
    await world.controller.reconcile(THE_POD)
    assert api.bodies[1] == consumers.new_claim(WEB, "gpu", LARGE)


async def test_a_template_that_could_not_be_read_leaves_no_doubt_whether_its_claim_was_created() -> None:
    api = Api(live=(LARGE,), errors={"get resourceclaimtemplates": Unreachable("no answer", method="GET", final=True)})
    world = await working(api, LARGE, WEB)
    with pytest.raises(Unreachable):
        await world.controller.reconcile(THE_POD)
    assert world.taking_over.unseen.questions(WEB) == ()


async def test_templates_that_are_too_large_are_not_in_memory_while_their_claims_are_created() -> None:
    """Of more Pods than may read at one time: whoever reads next waits for no creation."""

    class Specification(dict[str, Any]):
        there = most = 0

        def __init__(self, spec: Object) -> None:
            super().__init__(spec)
            Specification.there += 1
            Specification.most = max(Specification.most, Specification.there)

        def __del__(self) -> None:
            Specification.there -= 1

    class Hanging(Api):
        async def get(self, resource: Resource, name: str, namespace: str) -> Object:
            found = await super().get(resource, name, namespace)
            whole = {**found, "spec": {**found["spec"], "spec": Specification(found["spec"]["spec"])}}
            await asyncio.sleep(0)
            return whole

        async def create(self, resource: Resource, obj: Object) -> Object:
            begun.append(Specification.there)
            if len(begun) == len(pods):
                all_begun.set()
            await all_begun.wait()
            return await super().create(resource, obj)

    begun, all_begun = list[int](), asyncio.Event()
    pods = [pod(f"web-{number}").templates("gpu") for number in range(3 * asking.AT_ONCE)]
    world = await working(Hanging(live=(LARGE,)), LARGE, *pods)
    async with asyncio.timeout(60.0):
        done = [world.controller.reconcile(ClaimKey("Pod", "ml", key_of(each).name)) for each in pods]
        assert await asyncio.gather(*done) == [DONE] * len(pods)
    assert Specification.there == 0
    assert max(*begun, Specification.most) <= asking.AT_ONCE


LONG = GPU.giving(annotations={"example.com/note": "x" * creating.SHORT})


@pytest.mark.parametrize("given", [LARGE, LONG], ids=["too large for the caches", "of the caches"])
async def test_while_creations_hang_few_large_claims_are_in_memory_and_small_ones_are_created(given: Template) -> None:
    begun: list[str] = []

    class Hanging(Api):
        async def create(self, resource: Resource, obj: Object) -> Object:
            if obj["metadata"]["namespace"] == "ml":
                begun.append(obj["metadata"]["generateName"])
                await asyncio.Event().wait()
            return await super().create(resource, obj)

    pods = [pod(f"web-{number}").templates("gpu") for number in range(2 * creating.AT_ONCE)]
    small = (GPU.but("metadata.namespace", "next"), pod("other", "next").templates("gpu"))
    api = Hanging(live=(given,))
    world = await working(api, given, *pods, *small)
    keys = [ClaimKey("Pod", "ml", key_of(each).name) for each in pods]
    waiting = [asyncio.create_task(world.controller.reconcile(key)) for key in keys]
    await turns()
    assert (len(begun), api.calls.count("get resourceclaimtemplates") <= creating.AT_ONCE) == (creating.AT_ONCE, True)
    assert await world.controller.reconcile(ClaimKey("Pod", "next", "other")) == DONE
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)


SEEN: dict[str, Callable[[ClaimsWorld], None]] = {
    "suspected": lambda world: world.manager.fill(
        [claim("theirs").generated_for(pod("served"), "gpu").written_by("velero", {"f:spec": {}})]
    ),
    "found": lambda world: world.takeover.found(Problem(ModeReason.ANOTHER_GENERATOR, "it works")),
}


@pytest.mark.parametrize("given", [LARGE, LONG], ids=["too large for the caches", "of the caches"])
@pytest.mark.parametrize("seen", SEEN.values(), ids=SEEN)
async def test_who_waits_for_a_turn_creates_no_claim_when_another_generator_is_there_by_then(
    seen: Callable[[ClaimsWorld], None], given: Template
) -> None:
    api = Api(live=(given,))
    world = await working(api, given, WEB)
    world.taking_over.competing.start()
    async with AsyncExitStack() as others:
        for _ in range(creating.AT_ONCE):
            await others.enter_async_context(world.manager.creating)
        waiting = asyncio.create_task(world.controller.reconcile(THE_POD))
        await turns()
        seen(world)
    assert (await waiting, "create resourceclaims" in api.calls) == (HELD_BACK, False)


async def test_a_worker_is_given_back_while_claims_of_templates_that_are_too_large_are_created() -> None:
    """By the real queue with one worker: another namespace does not wait for all of the tenant's claims, nor is
    decided anew after each of them."""
    names = [f"t{number}" for number in range(4)]
    large = [LARGE.but("metadata.name", name) for name in names]
    api = Api(live=tuple(large))
    pods = {"web": pod("web").templates(*names), "other": pod("other", "next").templates("gpu")}
    clock = Hand()
    world = await working(api, *large, GPU.but("metadata.namespace", "next"), *pods.values(), clock=clock)
    made: list[str] = []

    async def create(resource: Resource, obj: Object) -> Object:
        made.append(obj["metadata"]["namespace"])
        clock.seconds += 0.6 * TURN
        if len(made) == 1:
            world.controller.queue.add(ClaimKey("Pod", "next", "other"))
        return await Api.create(api, resource, obj)

    async def patch(_resource: Resource, name: str, body: Any, **_: Any) -> Object:
        recorded.append([each["name"] for each in body["status"]["resourceClaimStatuses"]])
        if len(recorded) == 2:
            world.controller.queue.shut_down()
        return pods[name].but("metadata.resourceVersion", "3").but("status", body["status"])

    recorded: list[list[str]] = []
    api.create, api.patch = create, patch  # type: ignore[method-assign]
    async with asyncio.timeout(60.0):
        await world.controller.run()
    assert made == ["ml", "ml", "next", "ml", "ml"]
    assert sorted(recorded) == [["gpu"], names]

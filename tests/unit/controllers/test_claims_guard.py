"""When Replace does not begin, or stops: rights that are missing, somebody else who generates, a trial that fails."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml
from builders import claim, pod, pod_group, template
from claimworld import view_of

from controllers.claims import guard, loop
from controllers.claims.guard import NAME, RIGHTS, Problem, problem
from controllers.claims.rivals import LONGEST, SHORTEST, Rivals, other_generator_of
from tollbar.model.objects import Object
from tollbar.model.plan import Event
from tollbar.model.resources import (
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    SELF_SUBJECT_ACCESS_REVIEWS,
    Resource,
)
from tollbar.runtime.clock import SystemClock
from tollbar.runtime.errors import AlreadyExists, ApiError, Forbidden, NotFound
from tollbar.runtime.metrics import Metrics

MANIFEST = Path(__file__).parents[3] / "manifests/components/claims-replace/rights.yaml"
ALL = sum(len(verbs) for _, _, verbs in RIGHTS)
OURS = {(PODS.kind, NAME), (RESOURCE_CLAIM_TEMPLATES.kind, NAME)}


class Clock(SystemClock):
    """Sleeping takes no time but the clock's own."""

    def __init__(self) -> None:
        self.passed = 0.0
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return self.passed

    async def sleep(self, seconds: float) -> None:
        self.passed += seconds
        self.pauses.append(seconds)
        await asyncio.sleep(0)


class Api:
    """A cluster that denies some verbs, and in which `generator` records a claim as soon as there is a Pod."""

    def __init__(
        self, denied: tuple[str, ...] = (), generator: str = "", refuses: type[ApiError] | None = None
    ) -> None:
        self.there: dict[tuple[str, str], Object] = {}
        self.reviews = self.created = 0
        self.made: list[str] = []
        self._denied = denied
        self.generator = generator
        self.refuses = refuses

    async def create(self, resource: Resource, obj: Object) -> Object:
        if resource == SELF_SUBJECT_ACCESS_REVIEWS:
            self.reviews += 1
            asked = obj["spec"]["resourceAttributes"]
            path = "/".join(filter(None, (asked["resource"], asked["subresource"])))
            return {"status": {"allowed": f"{asked['verb']} {path}" not in self._denied}}
        if self.refuses is not None and resource == PODS:
            raise self.refuses(403, "Forbidden", "no")
        if resource == RESOURCE_CLAIMS:
            self.made.append(obj["metadata"]["generateName"])
            return {**obj, "metadata": {**obj["metadata"], "name": f"made-{len(self.made)}", "uid": "u"}}
        if (resource.kind, obj["metadata"]["name"]) in self.there:
            raise AlreadyExists(409, "AlreadyExists", "there")
        self.created += 1
        self.there[resource.kind, obj["metadata"]["name"]] = obj
        return obj

    async def get(self, resource: Resource, name: str, _namespace: str) -> Object:
        found = self.there.get((resource.kind, name))
        if found is None:
            raise NotFound(404, "NotFound", "")
        if not self.generator:
            return found
        fields = {"f:status": {"f:resourceClaimStatuses": {}}}
        managed = [{"manager": "kubectl", "fieldsV1": {}}, {"manager": self.generator, "fieldsV1": fields}]
        status = {"resourceClaimStatuses": [{"name": "trial"}]}
        return {**found, "metadata": {**found["metadata"], "managedFields": managed}, "status": status}

    async def list(self, *_: Any, **__: Any) -> Object:
        return {"items": [], "metadata": {"resourceVersion": "7"}}

    async def patch(self, _resource: Resource, name: str, body: Object, *, namespace: str, **_: Any) -> Object:
        return {**pod(name, namespace).templates("gpu"), **body}

    async def delete(self, resource: Resource, name: str, _namespace: str, **_: Any) -> None:
        if self.there.pop((resource.kind, name), None) is None:
            raise NotFound(404, "NotFound", "")


OTHER = (
    "field manager ResourceClaimController generates ResourceClaims already: "
    "run kube-controller-manager with --controllers=*,-resourceclaim-controller"
)
MISSING = (
    "missing rights: create resourceclaims.resource.k8s.io, update resourceclaims/binding.resource.k8s.io; "
    "the component claims-replace of the manifests grants them"
)
PROBLEMS: dict[str, tuple[Api, Problem | None, float]] = {
    "none": (Api(), None, guard.PATIENCE),
    "two rights are missing": (
        Api(denied=("create resourceclaims", "update resourceclaims/binding")),
        Problem("MissingRights", MISSING),
        0,
    ),
    "kube-controller-manager's controller runs": (
        Api(generator="ResourceClaimController"),
        Problem("AnotherGenerator", OTHER),
        0,
    ),
    "it cannot be tried out": (
        Api(refuses=Forbidden),
        Problem("NotTried", "cannot try out whether somebody else generates claims: 403 Forbidden: no"),
        0,
    ),
}


@pytest.mark.parametrize(("api", "want", "waited"), PROBLEMS.values(), ids=PROBLEMS)
async def test_problem(api: Api, want: Problem | None, waited: float) -> None:
    clock = Clock()
    found = await problem(api, "tollbar-system", clock, "me")  # type: ignore[arg-type]
    assert (found, clock.passed, api.there, api.reviews) == (want, waited, {}, ALL)


LEFT = {"metadata": {"name": NAME, "uid": "old"}, "status": {"resourceClaimStatuses": [{"name": "trial"}]}}


async def test_without_a_trial_only_the_rights_are_asked_for_and_leftovers_go() -> None:
    api = Api(generator="ResourceClaimController")
    api.there = dict.fromkeys(OURS, LEFT)
    found = await problem(api, "tollbar-system", Clock(), "me", trial=False)  # type: ignore[arg-type]
    assert (found, api.created, api.reviews, api.there) == (None, 0, ALL, {})


async def test_what_a_trial_left_when_it_was_killed_is_no_evidence() -> None:
    api = Api()
    api.there = dict.fromkeys(OURS, LEFT)
    found = await problem(api, "tollbar-system", Clock(), "me")  # type: ignore[arg-type]
    assert (found, api.there) == (None, {})


async def test_without_a_namespace_of_our_own_the_trial_is_made_in_default() -> None:
    class Elsewhere(Api):
        async def create(self, resource: Resource, obj: Object) -> Object:
            if obj.get("metadata", {}).get("namespace") == "tollbar-system":
                raise NotFound(404, "NotFound", 'namespaces "tollbar-system" not found')
            return await super().create(resource, obj)

    api, clock = Elsewhere(generator="ResourceClaimController"), Clock()
    found = await problem(api, "tollbar-system", clock, "me")  # type: ignore[arg-type]
    assert (found, api.there) == (Problem("AnotherGenerator", OTHER), {})


class Recorder:
    def __init__(self) -> None:
        self.said: list[str] = []

    def emit(self, regarding: Object, event: Event) -> None:
        self.said.append(f"{regarding['kind']} {regarding['metadata']['name']}: {event.reason}: {event.note}")


class World:
    """The claims controller of a cluster with the template `gpu`."""

    def __init__(self, api: Api, *, handed_over: bool = False) -> None:
        self.api, self.recorder, self.clock = api, Recorder(), Clock()
        self.view = view_of(template("gpu").request("gpu"))
        self.claims = loop.Claims(
            api,  # type: ignore[arg-type]
            self.view.caches,
            self.recorder,  # type: ignore[arg-type]
            namespace="tollbar-system",
            instance="me",
            workers=1,
            clock=self.clock,
            metrics=Metrics(),
            handed_over=lambda: handed_over,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.claims.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not holds():  # noqa: ASYNC110 - of the state of a loop nothing tells
                await asyncio.sleep(0)

    def somebody_makes_a_claim(self, manager: str, name: str = "theirs") -> None:
        made = claim(name).generated_for(pod("served"), "gpu").written_by(manager, {"f:spec": {}})
        self.view.caches.claims.apply(made)


async def test_it_says_so_and_begins_when_the_other_one_is_gone() -> None:
    world = World(Api(generator="ResourceClaimController"))
    told: list[bool] = []
    world.claims.subscribe(lambda: told.append(world.claims.gives_way))
    async with world.running():
        await world.until(lambda: len(world.recorder.said) == 2)
        assert (world.claims.problem(), world.claims.is_working, world.claims.gives_way) == (OTHER, False, True)
        world.api.generator = ""
        await world.until(lambda: world.claims.is_working)
    assert (world.claims.problem(), world.claims.gives_way, told) == (None, False, [True, False])
    assert set(world.recorder.said) == {f"Namespace tollbar-system: ClaimsNotReplaced: {OTHER}"}


async def test_no_trial_when_another_of_ours_generated_a_moment_ago() -> None:
    world = World(Api(), handed_over=True)
    async with world.running():
        await world.until(lambda: world.claims.is_working)
    assert (world.clock.passed, world.api.created, world.api.reviews) == (0, 0, ALL)


async def test_it_gives_way_to_somebody_who_begins_later_and_makes_up_for_it_afterwards() -> None:
    world = World(Api(), handed_over=True)
    users = world.view.caches.claim_users
    async with world.running():
        users.apply(pod("before").templates("gpu"))
        await world.until(lambda: world.api.made == ["before-gpu-"])
        world.api.generator = "ResourceClaimController"
        world.somebody_makes_a_claim("kube-controller-manager")
        await world.until(lambda: world.claims.refused is not None)
        assert (world.claims.is_working, world.claims.problem()) == (False, OTHER)
        users.apply(pod("meanwhile").templates("gpu"))
        await world.until(lambda: len(world.recorder.said) >= 3)
        assert world.api.made == ["before-gpu-"]
        world.api.generator = ""
        await world.until(lambda: "meanwhile-gpu-" in world.api.made)
    assert (world.claims.is_working, world.claims.refused) == (True, None)


async def test_a_claim_that_only_looks_generated_costs_one_trial_and_no_pause() -> None:
    world = World(Api(), handed_over=True)
    async with world.running():
        await world.until(lambda: world.claims.is_working)
        world.somebody_makes_a_claim("kubectl-create", "first")
        await world.until(lambda: world.clock.passed >= guard.PATIENCE + loop.RETRY)
        world.somebody_makes_a_claim("kubectl-create", "second")
        world.view.caches.claim_users.apply(pod("web").templates("gpu"))
        await world.until(lambda: world.api.made == ["web-gpu-"])
    assert (world.api.created, world.claims.is_working, world.recorder.said) == (2, True, [])


async def test_one_that_was_found_counts_as_there_until_a_trial_shows_otherwise() -> None:
    world = World(Api(generator="ResourceClaimController"))
    async with world.running():
        await world.until(lambda: world.claims.refused is not None)
        world.api.refuses = Forbidden
        await world.until(lambda: (world.claims.problem() or "").startswith("cannot try out"))
        assert (world.claims.is_working, world.claims.gives_way) == (False, True)


async def test_what_was_never_tried_gives_way_to_nobody() -> None:
    world = World(Api(refuses=Forbidden))
    async with world.running():
        await world.until(lambda: world.claims.refused is not None)
        assert (world.claims.is_working, world.claims.gives_way) == (False, False)


async def test_one_that_was_too_slow_for_a_trial_is_tried_again_soon() -> None:
    world = World(Api(), handed_over=True)
    async with world.running():
        await world.until(lambda: world.claims.is_working)
        world.somebody_makes_a_claim("kube-controller-manager", "first")
        await world.until(lambda: world.clock.passed >= guard.PATIENCE + loop.RETRY)
        world.api.generator = "ResourceClaimController"
        world.clock.passed += SHORTEST
        world.somebody_makes_a_claim("kube-controller-manager", "second")
        await world.until(lambda: world.claims.refused is not None)
    assert world.claims.problem() == OTHER


async def test_a_suspicion_that_cannot_be_tried_is_tried_ever_more_seldom_beside_the_work() -> None:
    world = World(Api(), handed_over=True)
    async with world.running():
        await world.until(lambda: world.claims.is_working)
        world.api.refuses = Forbidden
        world.somebody_makes_a_claim("velero")
        await world.until(lambda: len(world.clock.pauses) >= 7)
        assert (world.clock.pauses[:7], world.claims.is_working) == ([15, 30, 60, 120, 240, 300, 300], True)


async def test_a_trial_of_ours_that_still_shows_gets_no_claim_and_that_of_another_process_does() -> None:
    world = World(Api())
    users = world.view.caches.claim_users
    async with world.running():
        users.apply(pod("mine").templates("gpu").annotated({"tollbar.dev/claims-trial": "me"}))
        users.apply(pod("theirs").templates("gpu").annotated({"tollbar.dev/claims-trial": "another"}))
        users.apply(pod("web").templates("gpu"))
        await world.until(lambda: "web-gpu-" in world.api.made)
    assert world.api.made == ["theirs-gpu-", "web-gpu-"]


async def test_the_pod_of_a_trial_says_whose_it_is() -> None:
    seen: list[bool] = []

    class Watched(Api):
        async def create(self, resource: Resource, obj: Object) -> Object:
            seen.extend(guard.is_trial(obj, name) for name in ("me", "another") if resource == PODS)
            return await super().create(resource, obj)

    await problem(Watched(), "tollbar-system", Clock(), "me")  # type: ignore[arg-type]
    assert seen == [True, False]


async def test_a_manager_is_cleared_for_longer_each_time_and_anew_after_a_long_silence() -> None:
    clock, store = Clock(), view_of().caches.claims
    rivals, numbers = Rivals(clock), count()
    rivals.watch(store)

    async def silence() -> float:
        """Seconds until it is suspected again, while it makes a claim each second."""
        begun = clock.passed
        while True:
            made = claim(f"c{next(numbers)}").generated_for(pod(), "gpu").written_by("velero", {"f:spec": {}})
            store.apply(made)
            with suppress(TimeoutError):
                async with asyncio.timeout(0):
                    await rivals.suspect()
                    rivals.clear("velero")
                    return clock.passed - begun
            clock.passed += 1

    lasted = [await silence() for _ in range(7)]
    clock.passed += 2 * LONGEST
    lasted += [await silence() for _ in range(2)]
    assert lasted == [0, 30, 60, 120, 240, 300, 300, 0, 30]


GENERATED = claim().generated_for(pod(), "gpu")
MAKERS: dict[str, tuple[Object, str]] = {
    "kube-controller-manager's": (
        GENERATED.written_by("kube-controller-manager", {"f:spec": {}}),
        "kube-controller-manager",
    ),
    "a PodGroup's": (
        claim().generated_for(pod_group(), "gpu").written_by("kube-controller-manager", {"f:spec": {}}),
        "kube-controller-manager",
    ),
    "ours": (GENERATED.written_by("tollbar-controllers", {"f:spec": {}}), ""),
    "nobody knows whose": (GENERATED, ""),
    "one of kube-scheduler's, for extended resources": (
        claim().owned_by("Pod").written_by("kube-scheduler", {"f:spec": {}}),
        "",
    ),
    "a claim of a user": (claim().written_by("kubectl-create", {"f:spec": {}}), ""),
}


@pytest.mark.parametrize(("given", "want"), MAKERS.values(), ids=MAKERS)
def test_who_else_generates(given: Object, want: str) -> None:
    assert other_generator_of(given) == want


def test_the_rights_that_are_asked_for_are_those_that_the_component_grants() -> None:
    """No more in the manifest than what the controller says that it needs, and no less."""
    (role,) = (each for each in yaml.safe_load_all(MANIFEST.read_text()) if each["kind"] == "ClusterRole")
    granted = {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert granted == {(group, resource, verb) for group, resource, verbs in RIGHTS for verb in verbs}


def test_the_trial_is_named_as_the_component_allows_it() -> None:
    roles = (each for each in yaml.safe_load_all(MANIFEST.read_text()) if each["kind"] == "Role")
    named = {name for role in roles for rule in role["rules"] for name in rule.get("resourceNames", ())}
    assert named == {NAME}

"""When Replace does not begin, or yields: rights that are missing, another generator, a probe that cannot be made."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml
from clusters.claims import ClaimsWorld
from fakes.clocks import InstantClock
from objects.builders import CREATED, claim, pod, pod_group, template

from controllers.claims import probe, takeover
from controllers.claims.competing import HOLD, LONGEST, SHORTEST, CompetingGenerators, other_generator_of
from controllers.claims.probe import NAME, RIGHTS, problem
from tollbar.decide.claims.modes import RECENTLY, record
from tollbar.model import timestamps
from tollbar.model.conditions import Condition
from tollbar.model.objects import Object, key_of
from tollbar.model.plan import DONE
from tollbar.model.resources import (
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    SELF_SUBJECT_ACCESS_REVIEWS,
    Resource,
)
from tollbar.runtime.clock import SystemClock
from tollbar.runtime.errors import AlreadyExists, ApiError, Forbidden, NotFound, Unreachable
from tollbar.runtime.store import Store
from tollbar.views import kinds
from tollbar.views.takeover import Phase, Problem

MANIFEST = Path(__file__).parents[3] / "manifests/components/claims-replace/rights.yaml"
ALL = sum(len(verbs) for _, _, verbs in RIGHTS)
OURS = {(PODS.kind, NAME), (RESOURCE_CLAIM_TEMPLATES.kind, NAME)}


def instant() -> InstantClock:
    """Its time is that which has passed since what `objects.builders` makes was created."""
    return InstantClock(0.0, CREATED)


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
            return {
                **obj,
                "metadata": {**obj["metadata"], "name": f"made-{len(self.made)}", "uid": "u", "resourceVersion": "8"},
            }
        if (resource.kind, obj["metadata"]["name"]) in self.there:
            raise AlreadyExists(409, "AlreadyExists", "there")
        self.created += 1
        self.there[resource.kind, obj["metadata"]["name"]] = obj
        return obj

    async def get(self, resource: Resource, name: str, _namespace: str) -> Object:
        found = self.there.get((resource.kind, name))
        if found is None:
            raise NotFound(404, "NotFound", "")
        if not self.generator or name != NAME:
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
    "none": (Api(), None, probe.TIMEOUT),
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
    clock = instant()
    found = await problem(api, "tollbar-system", clock, "me")  # type: ignore[arg-type]
    assert (found, clock.time, api.there, api.reviews) == (want, waited, {}, ALL)


LEFT = {"metadata": {"name": NAME, "uid": "old"}, "status": {"resourceClaimStatuses": [{"name": "trial"}]}}


async def test_without_a_probe_only_the_rights_are_asked_for_and_leftovers_go() -> None:
    api = Api(generator="ResourceClaimController")
    api.there = dict.fromkeys(OURS, LEFT)
    found = await problem(api, "tollbar-system", instant(), "me", with_pod=False)  # type: ignore[arg-type]
    assert (found, api.created, api.reviews, api.there) == (None, 0, ALL, {})


async def test_what_a_probe_left_when_it_was_killed_is_no_evidence() -> None:
    api = Api()
    api.there = dict.fromkeys(OURS, LEFT)
    found = await problem(api, "tollbar-system", instant(), "me")  # type: ignore[arg-type]
    assert (found, api.there) == (None, {})


class Away(Api):
    """`asked` about the Pod of the probe; it answers nothing while it `hangs`, and accepts nothing if it `is_gone`."""

    def __init__(self) -> None:
        super().__init__()
        self.hangs = self.is_gone = False
        self.asked = asyncio.Event()

    async def get(self, resource: Resource, name: str, namespace: str) -> Object:
        if (PODS.kind, NAME) in self.there:
            self.asked.set()
        if self.hangs:
            await asyncio.Event().wait()
        if self.is_gone:
            raise Unreachable("cannot connect", method="GET", sent=False)
        return await super().get(resource, name, namespace)


@pytest.mark.looptime
@pytest.mark.parametrize(("how", "left"), [("", set()), ("hangs", OURS), ("is_gone", OURS)])
async def test_a_probe_that_is_cancelled_ends_soon_and_deletes_what_it_can(how: str, left: set[Any]) -> None:
    """A leader that has lost the lease has to stop, or its process ends; that is when the API server is away."""
    api = Away()
    made = asyncio.create_task(problem(api, "tollbar-system", SystemClock(), "me"))  # type: ignore[arg-type]
    await api.asked.wait()
    if how:
        setattr(api, how, True)
    cancelled = asyncio.get_running_loop().time()
    made.cancel()
    await asyncio.wait({made})
    lasted = asyncio.get_running_loop().time() - cancelled
    assert (made.cancelled(), lasted < 2.0, set(api.there)) == (True, True, left)


async def test_without_a_namespace_of_our_own_the_probe_is_made_in_default() -> None:
    class Elsewhere(Api):
        async def create(self, resource: Resource, obj: Object) -> Object:
            if obj.get("metadata", {}).get("namespace") == "tollbar-system":
                raise NotFound(404, "NotFound", 'namespaces "tollbar-system" not found')
            return await super().create(resource, obj)

    api, clock = Elsewhere(generator="ResourceClaimController"), instant()
    found = await problem(api, "tollbar-system", clock, "me")  # type: ignore[arg-type]
    assert (found, api.there) == (Problem("AnotherGenerator", OTHER), {})


CONDITION = record("", Condition("True", "Generating"), CREATED)
GENERATED = {
    "metadata": {"annotations": {"tollbar.dev/claims": "Replace", "tollbar.dev/claims-condition": CONDITION}},
    "spec": {"renewTime": timestamps.micro_time(CREATED)},
}
"""The Lease of a leader of ours that generated claims until a moment ago."""


class World(ClaimsWorld):
    """The claims controller of a cluster with the template `gpu`."""

    def __init__(self, api: Api, *, taken_over: Object | None = None) -> None:
        self.api, self.clock = api, instant()
        super().__init__(api, template("gpu").request("gpu"), clock=self.clock)
        self.said = self.manager.told.said
        self.manager.lease_taken_over = taken_over or {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.manager.leading("controller claims")())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not holds():  # noqa: ASYNC110 - of the state of a loop nothing tells
                await asyncio.sleep(0)

    async def until_working(self) -> None:
        await self.until(lambda: self.takeover.works)

    async def until_refused(self) -> None:
        await self.until(lambda: self.takeover.problem is not None)

    def comes(self, obj: Object) -> None:
        self.api.there[obj["kind"], key_of(obj).name] = obj
        self.manager.fill([obj])

    def somebody_makes_a_claim(self, manager: str, name: str = "theirs") -> None:
        self.comes(claim(name).generated_for(pod("served"), "gpu").written_by(manager, {"f:spec": {}}))


async def test_it_says_that_another_generates_and_begins_when_that_one_has_ended() -> None:
    world = World(Api(generator="ResourceClaimController"))
    told: list[Phase] = []
    world.takeover.changes.subscribe(told.append)
    async with world.running():
        await world.until(lambda: len(world.said) == 2)
        assert (world.takeover.readiness(), world.takeover.phase) == (OTHER, Phase.YIELDING)
        assert (world.takeover.works, world.takeover.yields) == (False, True)
        world.api.generator = ""
        await world.until_working()
    assert (world.takeover.readiness(), world.takeover.yields) == (None, False)
    assert told == [Phase.YIELDING, Phase.WORKING]
    assert set(world.said) == {f"Namespace tollbar-system: ClaimsNotReplaced: {OTHER}"}


async def test_no_probe_when_another_of_ours_generated_a_moment_ago() -> None:
    world = World(Api(), taken_over=GENERATED)
    async with world.running():
        await world.until_working()
    assert (world.clock.time, world.api.created, world.api.reviews) == (0, 0, ALL)


@pytest.mark.parametrize(("seconds", "probes"), [(RECENTLY, 0), (RECENTLY + 1, 1)], ids=["recently", "long ago"])
async def test_whether_another_of_ours_generated_a_moment_ago_is_judged_when_the_caches_are_filled(
    seconds: float, probes: int
) -> None:
    world = World(Api(), taken_over=GENERATED)
    world.claims.synced.clear()
    async with world.running():
        for _ in range(9):
            await asyncio.sleep(0)
        assert world.api.reviews == 0
        world.clock.time = seconds
        world.claims.synced.set()
        await world.until_working()
    assert (world.api.created, world.api.reviews) == (2 * probes, ALL)  # a template and a Pod


async def test_it_yields_to_a_generator_that_is_switched_on_later_and_makes_up_for_it_afterwards() -> None:
    world = World(Api(), taken_over=GENERATED)
    async with world.running():
        world.comes(pod("before").templates("gpu"))
        await world.until(lambda: world.api.made == ["before-gpu-"])
        world.api.generator = "ResourceClaimController"
        world.somebody_makes_a_claim("kube-controller-manager")
        await world.until_refused()
        assert (world.takeover.works, world.takeover.readiness()) == (False, OTHER)
        world.comes(pod("meanwhile").templates("gpu"))
        await world.until(lambda: len(world.said) >= 3)
        assert world.api.made == ["before-gpu-"]
        world.api.generator = ""
        await world.until(lambda: "meanwhile-gpu-" in world.api.made)
        assert (world.takeover.works, world.takeover.problem) == (True, None)


async def test_a_generator_that_comes_back_at_once_is_probed_at_once() -> None:
    world = World(Api(), taken_over=GENERATED)
    told: list[tuple[Phase, float]] = []

    def comes_back(phase: Phase) -> None:
        told.append((phase, world.clock.time))
        if len(told) == 2:
            world.api.generator = "ResourceClaimController"
            world.somebody_makes_a_claim("kube-controller-manager", "second")

    async with world.running():
        await world.until_working()
        world.takeover.changes.subscribe(comes_back)
        world.api.generator = "ResourceClaimController"
        world.somebody_makes_a_claim("kube-controller-manager", "first")
        await world.until_refused()
        world.api.generator = ""
        await world.until(lambda: len(told) == 3)
    assert [phase for phase, _ in told] == [Phase.YIELDING, Phase.WORKING, Phase.YIELDING]
    assert told[1][1] == told[2][1]


async def test_from_the_first_claim_of_somebody_else_on_none_is_created_until_a_probe_has_found_nobody() -> None:
    world = World(Api(), taken_over=GENERATED)
    async with world.running():
        await world.until_working()
        world.somebody_makes_a_claim("velero")
        world.comes(pod("web").templates("gpu"))
        await world.until(lambda: world.api.made == ["web-gpu-"])
        assert (world.clock.time >= probe.TIMEOUT, world.takeover.works) == (True, True)


async def test_claims_are_held_back_for_one_probe_in_five_minutes_at_most() -> None:
    """A tenant may make claims that look generated, each by another field manager."""
    clock = instant()
    store = Store(kinds.CLAIMS_WITH_STATUS.resource, project=kinds.CLAIMS_WITH_STATUS.project)
    competing = CompetingGenerators(store, clock)
    competing.start()
    held = []
    for number in range(int(LONGEST) + 5):
        made = claim(f"c{number}").generated_for(pod(), "gpu").written_by(f"tenant-{number}", {"f:spec": {}})
        store.apply(made)
        held.append(competing.holds)
        clock.time += 1
        if number % 5 == 4:
            competing.clear(await competing.suspect())
    assert held == [True] * 5 + [False] * 295 + [True] * 5


async def test_claims_are_held_back_for_a_while_when_no_probe_can_be_made() -> None:
    world = World(Api(), taken_over=GENERATED)
    async with world.running():
        await world.until_working()
        world.api.refuses = Forbidden
        world.somebody_makes_a_claim("velero")
        world.comes(pod("web").templates("gpu"))
        await world.until(lambda: world.api.made == ["web-gpu-"])
        assert (world.clock.time >= HOLD, world.takeover.works) == (True, True)


async def test_the_api_server_is_asked_for_the_pod_once_somebody_else_was_seen() -> None:
    world = World(Api(), taken_over=GENERATED)
    async with world.running():
        await world.until_working()
        world.somebody_makes_a_claim("velero")
        await world.until(lambda: world.clock.time >= probe.TIMEOUT + takeover.RETRY)
        world.manager.fill([pod("gone").templates("gpu")])
        world.comes(pod("web").templates("gpu"))
        await world.until(lambda: world.api.made == ["web-gpu-"])


async def test_a_claim_that_only_looks_generated_causes_one_probe_and_does_not_stop_the_controller() -> None:
    world = World(Api(), taken_over=GENERATED)
    async with world.running():
        await world.until_working()
        world.somebody_makes_a_claim("kubectl-create", "first")
        await world.until(lambda: world.clock.time >= probe.TIMEOUT + takeover.RETRY)
        world.somebody_makes_a_claim("kubectl-create", "second")
        world.comes(pod("web").templates("gpu"))
        await world.until(lambda: world.api.made == ["web-gpu-"])
        assert (world.api.created, world.takeover.works, world.said) == (2, True, [])


async def test_after_a_generator_was_found_the_controller_stays_stopped_until_a_probe_finds_none() -> None:
    world = World(Api(generator="ResourceClaimController"))
    async with world.running():
        await world.until_refused()
        world.api.refuses = Forbidden
        await world.until(lambda: (world.takeover.readiness() or "").startswith("cannot try out"))
        assert (world.takeover.works, world.takeover.yields) == (False, True)


async def test_a_probe_that_fails_does_not_stop_the_controller() -> None:
    world = World(Api(refuses=Forbidden))
    async with world.running():
        await world.until_refused()
        assert (world.takeover.works, world.takeover.yields) == (False, False)


async def test_a_generator_that_was_too_slow_for_a_probe_is_probed_again_soon() -> None:
    world = World(Api(), taken_over=GENERATED)
    async with world.running():
        await world.until_working()
        world.somebody_makes_a_claim("kube-controller-manager", "first")
        await world.until(lambda: world.clock.time >= probe.TIMEOUT + takeover.RETRY)
        world.api.generator = "ResourceClaimController"
        world.clock.time += SHORTEST
        world.somebody_makes_a_claim("kube-controller-manager", "second")
        await world.until_refused()
        assert world.takeover.readiness() == OTHER


async def test_a_replica_that_leads_no_more_is_ready_and_probes_when_it_leads_again() -> None:
    world = World(Api(generator="ResourceClaimController"))
    async with world.running():
        await world.until_refused()
    assert (world.takeover.phase, world.takeover.readiness()) == (Phase.PROBING, None)
    world.api.generator = ""
    created = world.api.created
    world.comes(pod("web").templates("gpu"))
    async with world.running():
        await world.until(lambda: world.api.made == ["web-gpu-"])
        assert world.api.created == created + 2


async def test_a_suspicion_whose_probe_fails_is_probed_again_with_back_off_while_the_controller_works() -> None:
    world = World(Api(), taken_over=GENERATED)
    async with world.running():
        await world.until_working()
        world.api.refuses = Forbidden
        world.somebody_makes_a_claim("velero")
        await world.until(lambda: len(world.clock.slept) >= 7)
        assert (world.clock.slept[:7], world.takeover.works) == ([15, 30, 60, 120, 240, 300, 300], True)


async def test_the_pod_of_our_own_probe_gets_no_claim_but_that_of_another_process_does() -> None:
    world = World(Api())
    async with world.running():
        world.comes(pod("mine").templates("gpu").annotated({"tollbar.dev/claims-trial": "me"}))
        world.comes(pod("theirs").templates("gpu").annotated({"tollbar.dev/claims-trial": "another"}))
        world.comes(pod("web").templates("gpu"))
        await world.until(lambda: "web-gpu-" in world.api.made)
    assert world.api.made == ["theirs-gpu-", "web-gpu-"]


FINDINGS = {
    "before anything was found out": [],
    "while a right is missing": [Problem("MissingRights", "")],
    "while somebody else generates": [None, Problem("AnotherGenerator", "")],
}


@pytest.mark.parametrize("findings", FINDINGS.values(), ids=FINDINGS)
async def test_nothing_is_written(findings: list[Problem | None]) -> None:
    world = World(Api())
    world.comes(pod("web").templates("gpu"))
    world.controller.connect()
    for found in findings:
        world.takeover.found(found)
    key = await world.controller.queue.get()
    assert (await world.controller.reconcile(key), world.api.made) == (DONE, [])


async def test_what_a_standby_sees_of_others_is_no_suspicion_when_it_takes_over() -> None:
    world = World(Api(), taken_over=GENERATED)
    world.somebody_makes_a_claim("kube-controller-manager")
    async with world.running():
        await world.until_working()
        world.manager.fill([pod("web").templates("gpu")])
        await world.until(lambda: world.api.made == ["web-gpu-"])
        assert (world.api.created, world.takeover.works) == (0, True)


async def test_the_pod_of_a_probe_says_whose_it_is() -> None:
    seen: list[bool] = []

    class Watched(Api):
        async def create(self, resource: Resource, obj: Object) -> Object:
            seen.extend(probe.is_probe(obj, name) for name in ("me", "another") if resource == PODS)
            return await super().create(resource, obj)

    await problem(Watched(), "tollbar-system", instant(), "me")  # type: ignore[arg-type]
    assert seen == [True, False]


async def test_a_manager_is_cleared_for_longer_each_time_and_anew_after_a_long_silence() -> None:
    clock, numbers = instant(), count()
    cached = kinds.CLAIMS_WITH_STATUS
    store = Store(cached.resource, project=cached.project)
    competing = CompetingGenerators(store, clock)
    competing.start()

    async def silence() -> float:
        """Seconds until it is suspected again, while it makes a claim each second."""
        begun = clock.time
        while True:
            made = claim(f"c{next(numbers)}").generated_for(pod(), "gpu").written_by("velero", {"f:spec": {}})
            store.apply(made)
            with suppress(TimeoutError):
                async with asyncio.timeout(0):
                    await competing.suspect()
                    competing.clear("velero")
                    return clock.time - begun
            clock.time += 1

    lasted = [await silence() for _ in range(7)]
    clock.time += 2 * LONGEST
    lasted += [await silence() for _ in range(2)]
    assert lasted == [0, 30, 60, 120, 240, 300, 300, 0, 30]


MADE = claim().generated_for(pod(), "gpu")
MAKERS: dict[str, tuple[Object, str]] = {
    "kube-controller-manager's": (
        MADE.written_by("kube-controller-manager", {"f:spec": {}}),
        "kube-controller-manager",
    ),
    "a PodGroup's": (
        claim().generated_for(pod_group(), "gpu").written_by("kube-controller-manager", {"f:spec": {}}),
        "kube-controller-manager",
    ),
    "ours": (MADE.written_by("tollbar-controllers", {"f:spec": {}}), ""),
    "nobody knows whose": (MADE, ""),
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


def test_the_role_of_the_component_names_the_probe_s_objects() -> None:
    roles = (each for each in yaml.safe_load_all(MANIFEST.read_text()) if each["kind"] == "Role")
    named = {name for role in roles for rule in role["rules"] for name in rule.get("resourceNames", ())}
    assert named == {NAME}

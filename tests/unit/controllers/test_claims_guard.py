"""When Replace does not begin: rights that are missing, somebody else who generates claims, a trial that fails."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from claimworld import view_of

from controllers.claims import guard, loop
from controllers.claims.guard import NAME, RIGHTS, problem
from tollbar.model.objects import Object
from tollbar.model.plan import Event
from tollbar.runtime.clock import SystemClock
from tollbar.runtime.errors import AlreadyExists, ApiError, Forbidden, NotFound
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.resources import PODS, RESOURCE_CLAIM_TEMPLATES, SELF_SUBJECT_ACCESS_REVIEWS, Resource

MANIFEST = Path(__file__).parents[3] / "manifests/components/claims-replace/rights.yaml"
ALL = sum(len(verbs) for _, _, verbs in RIGHTS)
OURS = {(PODS.kind, NAME), (RESOURCE_CLAIM_TEMPLATES.kind, NAME)}


class Clock(SystemClock):
    """Sleeping takes no time but the clock's own."""

    def __init__(self) -> None:
        self.passed = 0.0

    def monotonic(self) -> float:
        return self.passed

    async def sleep(self, seconds: float) -> None:
        self.passed += seconds


class Api:
    """A cluster that denies some verbs, and in which `generator` records a claim as soon as there is a Pod."""

    def __init__(
        self, denied: tuple[str, ...] = (), generator: str = "", refuses: type[ApiError] | None = None
    ) -> None:
        self.there: dict[tuple[str, str], Object] = {}
        self.reviews = 0
        self._denied = denied
        self.generator = generator
        self._refuses = refuses

    async def create(self, resource: Resource, obj: Object) -> Object:
        if resource == SELF_SUBJECT_ACCESS_REVIEWS:
            self.reviews += 1
            asked = obj["spec"]["resourceAttributes"]
            path = "/".join(filter(None, (asked["resource"], asked["subresource"])))
            return {"status": {"allowed": f"{asked['verb']} {path}" not in self._denied}}
        if self._refuses is not None and resource == PODS:
            raise self._refuses(403, "Forbidden", "no")
        if (resource.kind, obj["metadata"]["name"]) in self.there:
            raise AlreadyExists(409, "AlreadyExists", "there")
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
PROBLEMS: dict[str, tuple[Api, str | None, float]] = {
    "none": (Api(), None, guard.PATIENCE),
    "two rights are missing": (
        Api(denied=("create resourceclaims", "update resourceclaims/binding")),
        MISSING,
        0,
    ),
    "kube-controller-manager's controller runs": (Api(generator="ResourceClaimController"), OTHER, 0),
    "it cannot be tried out": (
        Api(refuses=Forbidden),
        "cannot try out whether somebody else generates claims: 403 Forbidden: no",
        0,
    ),
}


@pytest.mark.parametrize(("api", "want", "waited"), PROBLEMS.values(), ids=PROBLEMS)
async def test_problem(api: Api, want: str | None, waited: float) -> None:
    clock = Clock()
    found = await problem(api, "tollbar-system", clock)  # type: ignore[arg-type]
    assert (found, clock.passed, api.there, api.reviews) == (want, waited, {}, ALL)


async def test_what_a_trial_left_when_it_was_killed_is_no_evidence() -> None:
    api = Api()
    left = {"metadata": {"name": NAME, "uid": "old"}, "status": {"resourceClaimStatuses": [{"name": "trial"}]}}
    api.there = dict.fromkeys(OURS, left)
    found = await problem(api, "tollbar-system", Clock())  # type: ignore[arg-type]
    assert (found, api.there) == (None, {})


async def test_without_a_namespace_of_our_own_the_trial_is_made_in_default() -> None:
    class Elsewhere(Api):
        async def create(self, resource: Resource, obj: Object) -> Object:
            if obj.get("metadata", {}).get("namespace") == "tollbar-system":
                raise NotFound(404, "NotFound", 'namespaces "tollbar-system" not found')
            return await super().create(resource, obj)

    api, clock = Elsewhere(generator="ResourceClaimController"), Clock()
    found = await problem(api, "tollbar-system", clock)  # type: ignore[arg-type]
    assert (found, api.there) == (OTHER, {})


class Recorder:
    def __init__(self) -> None:
        self.said: list[str] = []

    def emit(self, regarding: Object, event: Event) -> None:
        self.said.append(f"{regarding['kind']} {regarding['metadata']['name']}: {event.reason}: {event.note}")


async def test_it_says_so_and_begins_when_the_other_one_is_gone() -> None:
    api, recorder, clock = Api(generator="ResourceClaimController"), Recorder(), Clock()
    claims = loop.Claims(
        api,  # type: ignore[arg-type]
        view_of().caches,
        recorder,  # type: ignore[arg-type]
        namespace="tollbar-system",
        workers=1,
        clock=clock,
        metrics=Metrics(),
    )
    slept = clock.sleep
    problems: list[str | None] = []

    async def other_one_goes(seconds: float) -> None:
        await slept(seconds)
        if seconds == loop.RETRY:
            problems.append((claims.problem(), claims.is_working))
            api.generator = "" if len(problems) == 2 else api.generator

    clock.sleep = other_one_goes  # type: ignore[method-assign]
    await claims._until_allowed()
    said = f"Namespace tollbar-system: ClaimsNotReplaced: {OTHER}"
    assert (problems, claims.problem(), claims.is_working) == ([(OTHER, False)] * 2, None, True)
    assert recorder.said == [said, said]


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

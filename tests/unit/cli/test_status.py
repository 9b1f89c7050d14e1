"""What `tollbar status` makes of what it reads; that it reads it, is tried on a real API server (tests/e2e)."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import click
import pytest
from builders import CREATED, Built, claim, pod, scheduling_gate, toleration_rule

from tollbar import wellknown
from tollbar.api import webhooks
from tollbar.api.gates import CONTROLLERS
from tollbar.cli.status import Reservation, Status, gather, problems, reservations
from tollbar.decide.claims.events import ClaimEvent
from tollbar.model import timestamps
from tollbar.model.objects import Object
from tollbar.model.resources import LEASES, Resource
from tollbar.runtime.clock import SystemClock
from tollbar.runtime.errors import Forbidden, NotFound

NOW = CREATED + 1000
FINE = Status(
    server="v1.37.0",
    mode="Complement",
    condition={"status": "True", "reason": "Complementing", "message": "so"},
    leader="controllers-0",
    of_dev=False,
    untrusted=(),
    generator="kube-controller-manager",
    pod_groups="",
    may_bind=True,
    held_pods=2,
    rules_not_ready=(),
    reservations={"Held": 3, "NotAllocated": 1, "Released": 1, "WorkloadMissing": 1},
    unreserved=(),
    loops=(),
    refusals=(),
)


def refused(reason: str) -> Object:
    return {"status": "False", "reason": reason, "message": "so"}


PROBLEMS: dict[str, tuple[Status, list[str]]] = {
    "all is well": (FINE, []),
    "no Lease, as under `tollbar dev`": (replace(FINE, mode="", leader=None, of_dev=True), []),
    "no Lease: no controller ever ran": (
        replace(FINE, mode="", leader=None),
        ["no controller has ever led: look at the Pods of the Deployment tollbar-controllers"],
    ),
    "the certificate was never given": (
        replace(FINE, untrusted=("zz-tollbar-pods",)),
        ["zz-tollbar-pods has no CA bundle, so that its webhook cannot be called: run `tollbar certs --apply`"],
    ),
    "nobody leads": (replace(FINE, leader=""), ["nobody holds the controllers' Lease"]),
    "a rule that does not compile": (
        replace(FINE, rules_not_ready=("gpu: InvalidExpression",)),
        ["rule gpu: InvalidExpression"],
    ),
    "reservations that cannot be made": (
        replace(FINE, unreserved=("ml/a: Full: so", "ml/b: KindUnknown: so")),
        ["reservation ml/a: Full: so", "reservation ml/b: KindUnknown: so"],
    ),
    "more reservations than a person reads": (
        replace(FINE, unreserved=("a",) * 12),
        [*["reservation a"] * 10, "2 more reservations like these"],
    ),
    "a loop": (
        replace(FINE, loops=("ml/gpu",)),
        ["the entries of a finished Pod come and go on ResourceClaim ml/gpu: delete that Pod, or use claims: Replace"],
    ),
    "no right to bind": (
        replace(FINE, may_bind=False),
        ["the controllers may not update and patch resourceclaims/binding: no claim can be reserved"],
    ),
    "no right to bind, and no need": (replace(FINE, may_bind=False, mode="Disabled"), []),
    "Replace is refused": (
        replace(FINE, mode="Replace", condition=None, refusals=("somebody else generates",)),
        ["somebody else generates"],
    ),
    "Replace is refused, as the Lease says; Events may be old": (
        replace(FINE, mode="Replace", condition=refused("AnotherGenerator"), refusals=("old",)),
        ["claims: Replace: so"],
    ),
    "Replace was refused a moment ago": (replace(FINE, mode="Replace", refusals=("old",)), []),
    "nobody makes claims": (replace(FINE, condition=refused("NobodyGenerates")), ["claims: Complement: so"]),
    "a reason of the condition for which there is a more specific problem": (
        replace(FINE, condition=refused("PermissionDenied"), may_bind=False),
        ["the controllers may not update and patch resourceclaims/binding: no claim can be reserved"],
    ),
    "claims are made by us although they should not": (
        replace(FINE, generator="tollbar-controllers"),
        ["claims: Complement, but the newest claim of a Pod was made by Tollbar"],
    ),
}


@pytest.mark.parametrize(("given", "want"), PROBLEMS.values(), ids=PROBLEMS)
def test_problems(given: Status, want: list[str]) -> None:
    assert problems(given) == want


ENTRY = {"apiGroup": "apps", "resource": "deployments", "name": "web", "uid": "u1"}
KEPT = claim("kept").annotated({"tollbar.dev/reserved-for": "deployments.apps/web"})


def workload_claim(name: str, reason: str) -> Built:
    reserved = {"type": "Reserved", "status": "True", "reason": reason, "message": "so"}
    return Built(metadata={"name": name, "namespace": "ml"}, status={"conditions": [reserved] if reason else []})


def test_each_reservation_is_counted_once() -> None:
    asked = [workload_claim("a", "Held"), workload_claim("b", "Full"), workload_claim("c", "")]
    found = [
        claim("unasked"),
        KEPT,
        KEPT.allocated(),
        KEPT.allocated().reserved(ENTRY),
        KEPT.annotated({"tollbar.dev/workload-claim": "web"}).allocated().reserved(ENTRY),
    ]
    assert reservations(asked, found) == [
        Reservation("ml/a", "Held", "so"),
        Reservation("ml/b", "Full", "so"),
        Reservation("ml/c", "Unknown"),
        Reservation("ml/kept", "NotAllocated"),
        Reservation("ml/kept", "NotReserved"),
        Reservation("ml/kept", "Held"),
    ]


class Now(SystemClock):
    def now(self) -> float:
        return NOW


class Server:
    """An API server with these objects, by plural, on which `lease` is what comes of reading the Lease."""

    def __init__(self, found: Mapping[str, list[Object]], lease: Object | Exception, *, installed: bool = True) -> None:
        self._found = found
        self._lease = lease
        self._installed = installed

    async def list(self, res: Resource, _namespace: str = "", *, field_selector: str = "", **_: Any) -> Object:
        items = self._found.get(res.plural, [])
        if res.plural == "events":
            items = [each for each in items if f"reason={each['reason']}" == field_selector]
        return {"metadata": {}, "items": items}

    async def get(self, res: Resource, *_: Any) -> Object:
        assert res == LEASES
        if isinstance(self._lease, Exception):
            raise self._lease
        return self._lease

    async def raw(self, *_: Any) -> bytes:
        return json.dumps({"gitVersion": "v1.37.0"}).encode()

    async def served(self, group_version: str) -> set[str]:
        if group_version == wellknown.API_VERSION:
            return {"tolerationrules"} if self._installed else set()
        return {"podgroups"} if group_version == "scheduling.k8s.io/v1beta1" else set()

    async def create(self, _res: Resource, review: Object) -> Object:
        asked = review["spec"]
        return {
            "status": {"allowed": asked.get("user") == CONTROLLERS and asked["resourceAttributes"]["verb"] == "update"}
        }


UNTRUSTED: Object = webhooks.pods_configuration(webhooks.at_service())


def event(reason: str, seen: float, **regarding: str) -> Object:
    return {"reason": reason, "note": "n", "eventTime": timestamps.micro_time(seen), "regarding": regarding}


CONDITION = {"type": "ClaimsModeFits", "status": "False", "reason": "NotTried", "message": "so"}


def lease(renewed: float) -> Object:
    return {
        "metadata": {
            "annotations": {
                wellknown.ANNOTATION_CLAIMS: "Replace",
                wellknown.ANNOTATION_CLAIMS_CONDITION: json.dumps(CONDITION),
            }
        },
        "spec": {
            "holderIdentity": "controllers-0",
            "leaseDurationSeconds": 15,
            "renewTime": timestamps.micro_time(renewed),
        },
    }


def generated(manager: str, seconds: float) -> Built:
    made = claim(manager).annotated({wellknown.POD_CLAIM_NAME_ANNOTATION: "gpu"}).created(CREATED + seconds)
    fields = [
        {"manager": "x", "fieldsV1": {"f:metadata": {"f:finalizers": {}}}},
        {"manager": manager, "fieldsV1": {"f:spec": {}}},
    ]
    return made.but("metadata.managedFields", fields)


async def test_what_is_read() -> None:
    server: Any = Server(
        {
            "schedulinggates": [scheduling_gate().but("spec.owners", ["somebody", CONTROLLERS])],
            "pods": [pod("held").gated(), pod("free")],
            "tolerationrules": [
                toleration_rule("good").but("status.conditions", [{"type": "Ready", "status": "True"}]),
                toleration_rule("bad").but("status.conditions", [{"type": "Ready", "status": "False", "reason": "X"}]),
                toleration_rule("new"),
            ],
            "resourceclaims": [generated("old", 1), generated("newest", 2), claim()],
            "workloadclaims": [workload_claim("a", "Held"), workload_claim("b", "Full")],
            "mutatingwebhookconfigurations": [UNTRUSTED, Built(metadata={"name": "another"}, webhooks=[{}])],
            "events": [
                event(ClaimEvent.UPSTREAM_OSCILLATION, NOW - 10, namespace="ml", name="gpu"),
                event(ClaimEvent.UPSTREAM_OSCILLATION, NOW - 20, namespace="ml", name="gpu"),
                event(ClaimEvent.UPSTREAM_OSCILLATION, NOW - 900, namespace="ml", name="old"),
                event(ClaimEvent.CLAIMS_NOT_REPLACED, NOW - 10),
            ],
        },
        lease(NOW - 5),
    )
    assert await gather(server, "tollbar-system", Now()) == Status(
        server="v1.37.0",
        mode="Replace",
        condition=CONDITION,
        leader="controllers-0",
        of_dev=False,
        untrusted=("zz-tollbar-pods",),
        generator="newest",
        pod_groups="scheduling.k8s.io/v1beta1",
        may_bind=False,
        held_pods=1,
        rules_not_ready=("bad: X", "new: not looked at yet"),
        reservations={"Full": 1, "Held": 1},
        unreserved=("ml/b: Full: so",),
        loops=("ml/gpu",),
        refusals=("n",),
    )


NONE = NotFound(404, "NotFound", "none")


@pytest.mark.parametrize(
    ("given", "leader"),
    [
        (NONE, None),
        (Forbidden(403, "Forbidden", "no"), "unknown: the Lease may not be read"),
        (lease(NOW - 5), "controllers-0"),
        (lease(NOW - 60), ""),
    ],
    ids=["no Lease", "may not be read", "held", "expired"],
)
async def test_who_leads(given: Object | Exception, leader: str | None) -> None:
    server: Any = Server({}, given)
    assert (await gather(server, "tollbar-system", Now())).leader == leader


async def test_under_dev_the_right_to_bind_is_that_of_whoever_started_it_and_is_not_known() -> None:
    configuration = webhooks.pods_configuration(webhooks.at_url("https://127.0.0.1:9443", b"ca"))
    configuration["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "tollbar-dev"
    server: Any = Server(
        {
            "schedulinggates": [scheduling_gate().but("spec.owners", [CONTROLLERS, "me"])],
            "mutatingwebhookconfigurations": [configuration],
        },
        NONE,
    )
    found = await gather(server, "tollbar-system", Now())
    assert (found.of_dev, found.may_bind, found.untrusted) == (True, None, ())


@pytest.mark.parametrize("gates", [[], [scheduling_gate().but("spec.owners", ["tollbar:admin"])]])
async def test_of_no_service_account_the_right_to_bind_is_not_known(gates: list[Object]) -> None:
    server: Any = Server({"schedulinggates": gates}, lease(NOW - 5))
    assert (await gather(server, "tollbar-system", Now())).may_bind is None


async def test_events_from_before_tollbar_was_removed_are_no_problem() -> None:
    server: Any = Server({"events": [event(ClaimEvent.CLAIMS_NOT_REPLACED, NOW - 10)]}, NONE)
    assert (await gather(server, "tollbar-system", Now())).refusals == ()


async def test_without_its_definitions_tollbar_is_not_installed() -> None:
    server: Any = Server({}, NONE, installed=False)
    with pytest.raises(click.ClickException, match=r"not installed in this cluster: tollbar\.dev is not served"):
        await gather(server, "tollbar-system", Now())

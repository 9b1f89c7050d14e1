"""What `tollbar status` makes of what it reads; that it reads it, is tried on a real API server (tests/e2e)."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from objects.builders import CREATED, Built, claim, pod, scheduling_gate, toleration_rule
from processes.transcripts import steps
from unit.gates.zones import Zone

import tollbar
from tollbar import wellknown
from tollbar.api import webhooks
from tollbar.api.gates import CONTROLLERS
from tollbar.cli.status import command, crds
from tollbar.cli.status.claims import Reservation, reservations
from tollbar.cli.status.command import Status, exit_code, gather, problems
from tollbar.cli.status.gates import GateStatus, HeldPod
from tollbar.cli.status.quotas import QuotaStatus, status_of
from tollbar.cli.status.webhook import Admission, Webhook
from tollbar.decide.claims.events import ClaimEvent
from tollbar.gates import registry
from tollbar.model import timestamps
from tollbar.model.objects import Object
from tollbar.model.resources import LEASES, Resource
from tollbar.runtime.clock import SystemClock
from tollbar.runtime.errors import Forbidden, NotFound

PAGE = (Path(__file__).parents[4] / "docs" / "operations" / "troubleshooting.md").read_text()
NOW = CREATED + 1000
PODS_WEBHOOK = Webhook("zz-tollbar-pods", "10.0.0.1:9443", "", expires=NOW + 20 * 86400)
RULES_WEBHOOK = replace(PODS_WEBHOOK, configuration="zz-tollbar-rules")
OUTSIDE = Webhook(
    "zz-tollbar-pods",
    "tollbar-webhook.tollbar-system.svc:443",
    "",
    "tollbar-webhook.tollbar-system.svc has no address here",
    endpoints=2,
)
FINE_ADMISSION = Admission(pods=(PODS_WEBHOOK,), rules=(RULES_WEBHOOK,), by_policy=False, called=True)
FINE_GATE = GateStatus(
    name="tolerations",
    gate=wellknown.GATE,
    max_hold=60.0,
    on_expiry="Release",
    refused="",
    held=2,
    overdue=(),
)
FINE_QUOTA = QuotaStatus("research", {"cpu": "400"}, {"cpu": "392"}, 40, 3, "")
FINE = Status(
    now=NOW,
    server="v1.37.0",
    parts={},
    crds=(),
    admission=FINE_ADMISSION,
    gates=(FINE_GATE,),
    mode="Complement",
    condition={"status": "True", "reason": "Complementing", "message": "so"},
    leader="controllers-0",
    of_dev=False,
    generator="kube-controller-manager",
    pod_groups="",
    may_bind=True,
    held_pods=2,
    rules_not_ready=(),
    placements_not_ready=(),
    quotas=(),
    released=frozenset({"tollbar.dev/quota"}),
    reservations={"Held": 3, "NotAllocated": 1, "Released": 1, "WorkloadMissing": 1},
    unreserved=(),
    loops=(),
    refusals=(),
    unread=(),
)
ALL_UNKNOWN = replace(
    FINE,
    parts=None,
    crds=None,
    admission=Admission(pods=None, rules=None, by_policy=False, called=None),
    gates=None,
    mode="",
    condition=None,
    leader="unknown: the Lease may not be read",
    generator=None,
    may_bind=None,
    held_pods=None,
    rules_not_ready=None,
    placements_not_ready=None,
    quotas=None,
    released=None,
    reservations=None,
    loops=None,
    unread=("pods is forbidden",),
)


ON_THE_PAGE = replace(
    FINE,
    server="v1.37.0",
    parts={
        "tollbar-controllers": "2 of 2 ready, tollbar:0.1.0",
        "tollbar-webhook": "2 of 2 ready, tollbar:0.1.0",
    },
    admission=replace(FINE_ADMISSION, pods=(OUTSIDE,), rules=(replace(OUTSIDE, configuration="zz-tollbar-rules"),)),
    leader="tollbar-controllers-5f8d7c6b9-x2v4q-3f1c9a7e",
    gates=(replace(FINE_GATE, held=0, owned=True),),
    held_pods=0,
    reservations={"Held": 3},
)
"""The overlay `default`, from a machine that knows no addresses of Services."""


def admission(**changes: Any) -> Status:
    return replace(FINE, admission=replace(FINE_ADMISSION, **changes))


def webhook(**changes: Any) -> Status:
    """One problem of both webhooks, as they have the same address."""
    both = (replace(PODS_WEBHOOK, **changes), replace(RULES_WEBHOOK, **changes))
    return admission(pods=both[:1], rules=both[1:])


def gate(**changes: Any) -> Status:
    return replace(FINE, gates=(replace(FINE_GATE, **changes),))


def refused(reason: str) -> Object:
    return {"status": "False", "reason": reason, "message": "so"}


PROBLEMS: dict[str, tuple[Status, list[str]]] = {
    "all is well": (FINE, []),
    "no Lease, as under `tollbar dev`": (replace(FINE, mode="", leader=None, of_dev=True), []),
    "no Lease: no controller ever ran": (
        replace(FINE, mode="", leader=None),
        ["no controller has ever led: look at the Pods of the Deployment tollbar-controllers"],
    ),
    "what may not be read is no problem": (ALL_UNKNOWN, []),
    "the webhook never started": (
        webhook(problem="nothing listens at 127.0.0.1:9443"),
        ["zz-tollbar-pods, zz-tollbar-rules: nothing listens at 127.0.0.1:9443"],
    ),
    "no endpoints, and no connection from here": (
        webhook(not_tried="it has no address here", endpoints=0, expires=None),
        [
            (
                "zz-tollbar-pods, zz-tollbar-rules: no ready endpoint for 10.0.0.1:9443:"
                " look at the Pods of the Deployment tollbar-webhook"
            )
        ],
    ),
    "the certificate was not renewed": (
        webhook(expires=NOW + 6 * 86400),
        [
            (
                f"zz-tollbar-pods, zz-tollbar-rules: the certificate expires at {timestamps.time(NOW + 6 * 86400)}"
                " and has not been renewed"
            )
        ],
    ),
    "a CRD of an earlier version": (replace(FINE, crds=("CRD a is older",)), ["CRD a is older"]),
    "the API server calls in vain": (
        admission(called=False),
        ["the API server gets no answer from the webhook: a broken rule passed a dry run"],
    ),
    "the configurations were deleted": (
        admission(pods=(), rules=()),
        [
            "no MutatingWebhookConfiguration of Tollbar: tolerations come late; apply the manifests again",
            "no ValidatingWebhookConfiguration of Tollbar: broken rules are stored; apply the manifests again",
        ],
    ),
    "the configuration for rules was deleted": (
        admission(rules=()),
        ["no ValidatingWebhookConfiguration of Tollbar: broken rules are stored; apply the manifests again"],
    ),
    "a policy in the webhook's place": (admission(pods=(), rules=(), by_policy=True, called=None), []),
    "perhaps a policy in the webhook's place": (admission(pods=(), rules=(), by_policy=None), []),
    "the controllers do not own the gate": (
        gate(refused="NotAnOwner: so"),
        ["SchedulingGate tolerations: NotAnOwner: so"],
    ),
    "a Pod that is overdue": (
        gate(overdue=(HeldPod("ml/a", 333.3),)),
        ["Pod ml/a is held by tollbar.dev/tolerations for 333 s, longer than its maxHold 1m0s"],
    ),
    "more Pods than a person reads": (
        gate(overdue=(HeldPod("ml/a", 300.0),) * 12),
        [
            *["Pod ml/a is held by tollbar.dev/tolerations for 300 s, longer than its maxHold 1m0s"] * 10,
            "2 more Pods that tollbar.dev/tolerations holds for too long",
        ],
    ),
    "nobody leads": (replace(FINE, leader=""), ["nobody holds the controllers' Lease"]),
    "a rule that does not compile": (
        replace(FINE, rules_not_ready=("gpu: InvalidExpression",)),
        ["rule gpu: InvalidExpression"],
    ),
    "a placement rule that does not compile": (
        replace(FINE, placements_not_ready=("pool: InvalidSpec",)),
        ["placement rule pool: InvalidSpec"],
    ),
    "a quota of which more is used than it allows": (
        replace(FINE, quotas=(replace(FINE_QUOTA, problem="Exceeded: so"), FINE_QUOTA)),
        ["quota research: Exceeded: so"],
    ),
    "Pods held by the gate of a class that the leader does not have": (
        gate(gate="tollbar.dev/ordinal", owned=True),
        ["2 Pods are held by tollbar.dev/ordinal, and the controllers that lead run without its gate class"],
    ),
    "Pods held by the gate of a class that the leader has": (gate(gate="tollbar.dev/quota", owned=True), []),
    "Pods held by the gate of somebody else": (gate(gate="example.com/other"), []),
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


CODES = {
    "all is well": (FINE, 0),
    "a problem": (replace(FINE, leader=""), 1),
    "a problem, and something that may not be read": (replace(ALL_UNKNOWN, leader=""), 1),
    "nothing may be read": (ALL_UNKNOWN, 3),
}


@pytest.mark.parametrize(("given", "want"), CODES.values(), ids=CODES)
def test_the_exit_code(given: Status, want: int) -> None:
    assert exit_code(given) == want


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


def test_too_many_pods_and_a_missing_pod_group_are_problems_of_their_own() -> None:
    crowded = {"type": "ConsumersFit", "status": "False", "reason": "TooManyConsumers", "message": "400"}
    asked = workload_claim("a", "Held")
    unserved = {**crowded, "type": "PodGroupReady", "reason": "NotServed", "message": "none"}
    told = reservations([asked.but("status.conditions", [*asked["status"]["conditions"], crowded, unserved])], [])
    assert [str(each) for each in told] == ["ml/a: Held: so", "ml/a: TooManyConsumers: 400", "ml/a: NotServed: none"]
    assert [each.is_fine for each in told] == [True, False, False]


class Now(SystemClock):
    def now(self) -> float:
        return NOW


EMPTY: Object = {"components": {"schemas": {}}}


class Server:
    """An API server with these objects, by plural, on which `lease` is what comes of reading the Lease."""

    host = "https://10.0.0.9:6443"

    def __init__(
        self,
        found: Mapping[str, list[Object] | Exception],
        lease: Object | Exception,
        *,
        installed: bool = True,
        document: Object | Exception = EMPTY,
    ) -> None:
        self._found = found
        self._lease = lease
        self._installed = installed
        self._document = document

    async def list(self, res: Resource, _namespace: str = "", *, field_selector: str = "", **_: Any) -> Object:
        items = self._found.get(res.plural, [])
        if isinstance(items, Exception):
            raise items
        if res.plural == "events":
            items = [each for each in items if f"reason={each['reason']}" == field_selector]
        return {"metadata": {}, "items": items}

    async def get(self, res: Resource, *_: Any) -> Object:
        assert res == LEASES
        if isinstance(self._lease, Exception):
            raise self._lease
        return self._lease

    async def raw(self, method: str, path: str, *_: Any, **__: Any) -> bytes:
        if method == "POST":
            raise FORBIDDEN
        if path.startswith("/openapi/"):
            if isinstance(self._document, Exception):
                raise self._document
            return json.dumps(self._document).encode()
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


FORBIDDEN = Forbidden(403, "Forbidden", "no")
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
                wellknown.ANNOTATION_GATES: "tollbar.dev/quota,tollbar.dev/ordinal",
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


def test_the_page_shows_how_it_looks_when_all_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    async def found(*_: Any) -> Status:
        return ON_THE_PAGE

    monkeypatch.setattr(command, "_main", found)
    monkeypatch.setattr(tollbar, "__version__", "0.1.0")
    result = CliRunner().invoke(command.command, [])
    assert (result.exit_code, result.output) == (0, steps(PAGE)[0].output)


async def test_what_is_read() -> None:
    server: Any = Server(
        {
            "schedulinggates": [scheduling_gate().but("spec.owners", ["somebody", CONTROLLERS])],
            "pods": [pod("held").gated(), pod("foreign").gated("example.com/quota"), pod("free")],
            "deployments": [
                Built(
                    metadata={"name": "tollbar-webhook", "labels": {"app.kubernetes.io/name": "tollbar"}},
                    spec={"replicas": 2, "template": {"spec": {"containers": [{"image": "tollbar:0.1.0"}]}}},
                    status={"readyReplicas": 1},
                )
            ],
            "tolerationrules": [
                toleration_rule("good").but("status.conditions", [{"type": "Ready", "status": "True"}]),
                toleration_rule("bad").but("status.conditions", [{"type": "Ready", "status": "False", "reason": "X"}]),
                toleration_rule("new"),
            ],
            "placementrules": [Built(metadata={"name": "pool"})],
            "podquotas": [a_quota({"used": {"cpu": "9"}, **said_ready("InForce")}, limits={"cpu": "10"})],
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
        now=NOW,
        server="v1.37.0",
        parts={"tollbar-webhook": "1 of 2 ready, tollbar:0.1.0"},
        crds=tuple(crds.problems(EMPTY)),
        admission=Admission(
            pods=(
                Webhook(
                    "zz-tollbar-pods",
                    "tollbar-webhook.tollbar-system.svc:443",
                    "no CA bundle, so that the webhook cannot be called: nobody has written one",
                    endpoints=0,
                ),
            ),
            rules=(),
            by_policy=False,
            called=None,
        ),
        gates=(
            GateStatus(
                name="tolerations",
                gate=wellknown.GATE,
                max_hold=None,
                on_expiry="Report",
                refused="not looked at yet",
                held=1,
                overdue=(),
                owned=True,
            ),
        ),
        mode="Replace",
        condition=CONDITION,
        leader="controllers-0",
        of_dev=False,
        generator="newest",
        pod_groups="scheduling.k8s.io/v1beta1",
        may_bind=False,
        held_pods=1,
        rules_not_ready=("bad: X", "new: not looked at yet"),
        placements_not_ready=("pool: not looked at yet",),
        quotas=(QuotaStatus("research", {"cpu": "10"}, {"cpu": "9"}, 0, 0, ""),),
        released=frozenset({"tollbar.dev/quota", "tollbar.dev/ordinal"}),
        reservations={"Full": 1, "Held": 1},
        unreserved=("ml/b: Full: so",),
        loops=("ml/gpu",),
        refusals=("n",),
        unread=(),
    )


NONE = NotFound(404, "NotFound", "none")


@pytest.mark.parametrize(
    ("given", "leader"),
    [
        (NONE, None),
        (FORBIDDEN, "unknown: the Lease may not be read"),
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
    assert (found.of_dev, found.may_bind) == (True, None)


@pytest.mark.parametrize("gates", [[], [scheduling_gate().but("spec.owners", ["tollbar:admin"])]])
async def test_of_no_service_account_the_right_to_bind_is_not_known(gates: list[Object]) -> None:
    server: Any = Server({"schedulinggates": gates}, lease(NOW - 5))
    assert (await gather(server, "tollbar-system", Now())).may_bind is None


async def test_the_classes_that_are_installed_give_the_limits_of_gates_that_are_not_valid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry, "IN_TREE", {"zone": Zone})
    unclear = scheduling_gate("zone", Zone.name).but("spec.maxHold", "soon")
    server: Any = Server({"schedulinggates": [unclear]}, NONE)
    found = await gather(server, "tollbar-system", Now())
    assert [(each.gate, each.limit) for each in found.gates or ()] == [
        (Zone.name, "maxHold 1m0s"),
        (wellknown.GATE, "maxHold 1m0s"),
    ]


async def test_events_from_before_tollbar_was_removed_are_no_problem() -> None:
    server: Any = Server({"events": [event(ClaimEvent.CLAIMS_NOT_REPLACED, NOW - 10)]}, NONE)
    assert (await gather(server, "tollbar-system", Now())).refusals == ()


async def test_without_its_definitions_tollbar_is_not_installed() -> None:
    server: Any = Server({}, NONE, installed=False)
    with pytest.raises(click.ClickException, match=r"not installed in this cluster: tollbar\.dev is not served"):
        await gather(server, "tollbar-system", Now())


KINDS = (
    "deployments",
    "events",
    "mutatingwebhookconfigurations",
    "placementrules",
    "podquotas",
    "pods",
    "resourceclaims",
    "schedulinggates",
    "tolerationrules",
    "validatingwebhookconfigurations",
    "workloadclaims",
)


async def test_what_may_not_be_read_is_unknown_and_not_0() -> None:
    not_read = {kind: Forbidden(403, "Forbidden", f"not {kind}") for kind in KINDS}
    server: Any = Server(not_read, FORBIDDEN, document=Forbidden(403, "Forbidden", "not openapi"))
    found = await gather(server, "tollbar-system", Now())
    refused = tuple(f"not {kind}" for kind in KINDS)
    assert found == replace(ALL_UNKNOWN, pod_groups="scheduling.k8s.io/v1beta1", unread=found.unread)
    assert sorted(found.unread) == sorted((*refused, "no", "not openapi"))


def a_quota(status: Object | None, **spec: Any) -> Object:
    body = {"limits": {"cpu": "400", "memory": "2Ti"}, **spec}
    return {"metadata": {"name": "research"}, "spec": body, **({} if status is None else {"status": status})}


def said_ready(reason: str, status: str = "True", message: str = "") -> Object:
    return {"conditions": [{"type": "Ready", "status": status, "reason": reason, "message": message}]}


QUOTAS: Mapping[str, tuple[Object, str, str]] = {
    "in force": (
        a_quota({"used": {"cpu": "392", "memory": "5"}, "running": 40, "waiting": 3, **said_ready("InForce")}),
        "cpu 392/400, memory 5/2199023255552; 40 run, 3 wait",
        "",
    ),
    "exceeded": (
        a_quota({"used": {"cpu": "500"}, **said_ready("Exceeded", message="so")}),
        "cpu 500/400, memory ?/2199023255552; 0 run, 0 wait",
        "Exceeded: so",
    ),
    "not valid": (
        a_quota(said_ready("InvalidSpec", "False", "so"), limits={"cpu": "much"}),
        "no limits; 0 run, 0 wait",
        "InvalidSpec: so",
    ),
    "not looked at": (
        a_quota(None),
        "cpu ?/400, memory ?/2199023255552; 0 run, 0 wait",
        "not looked at yet: no controller leads with the gate class quota",
    ),
}


@pytest.mark.parametrize(("quota", "shown", "problem"), QUOTAS.values(), ids=QUOTAS)
def test_how_a_quota_stands(quota: Object, shown: str, problem: str) -> None:
    found = status_of(quota)
    assert (str(found), found.problem) == (shown, problem)

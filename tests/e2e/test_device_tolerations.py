"""Tolerations of devices that claims get by rules: what kube-scheduler and Tollbar's scheduler allocate then."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from objects.builders import Claim, Pod, Template, TolerationRule, device_class, toleration_rule
from planes.objects import Cluster, a_ready_rule, as_written, provenance
from planes.parameters import since
from planes.policies import said, until_said
from processes.stack import ROOT, Stack, eventually

from tollbar.devplane.background import BackgroundKubelet
from tollbar.model.objects import Object, annotations_of
from tollbar.wellknown import ANNOTATION_PROVENANCE, LABEL_SKIP

pytestmark = [pytest.mark.timeout(300), since("1.36", "taints of devices are off by default")]

OURS = "tollbar-scheduler"
DRIVERS = {"default-scheduler": "theirs-cards.example.com", OURS: "our-cards.example.com"}
TAINT = {"key": "example.com/card", "value": "reserved", "effect": "NoSchedule"}
TOLERATION = {"key": "example.com/card", "operator": "Exists", "effect": "NoSchedule"}
USES = ("one", "first", "all", "all")
"""Of the devices of a driver, by their number."""


@pytest.fixture(scope="module")
def cards(stack: Stack, nodes: BackgroundKubelet) -> Iterator[None]:
    """Tainted devices, of one driver for each scheduler."""
    for driver in DRIVERS.values():
        devices = [
            {"name": f"card-{index}", "attributes": {"use": {"string": use}}, "taints": [TAINT]}
            for index, use in enumerate(USES)
        ]
        nodes.publish_devices("plain", driver, devices)
    exclusive = {"name": "DynamicResources", "args": {"exclusive": {"drivers": [DRIVERS[OURS]]}}}
    process = stack.scheduler(profiles=[{"schedulerName": OURS, "pluginConfig": [exclusive]}])
    yield
    process.stop()


class Cards:
    """The claims of one namespace for the devices of one driver."""

    def __init__(self, cluster: Cluster, scheduler: str) -> None:
        self.cluster = cluster
        self.scheduler = scheduler
        self.driver = DRIVERS[scheduler]
        self.class_ = cluster.unique(f"cards-{scheduler.partition('-')[0]}")
        cluster.create(device_class(self.class_).selecting(f'device.driver == "{self.driver}"'))

    def opening(self) -> TolerationRule:
        """The rule that gives requests of this class the toleration."""
        expression = (
            f'claims.exists(c, c.spec.devices.requests.exists(r, r.exactly.deviceClassName == "{self.class_}"))'
        )
        return toleration_rule(self.cluster.unique("cards")).cel(expression).giving_devices(TOLERATION)

    def rule(self) -> None:
        """In force, and known to the webhook."""
        a_ready_rule(self.cluster, self.opening())
        eventually(
            lambda: provenance(self.cluster.tried(self.claim("tried", self.exactly("one")))),
            what="known to the webhook",
        )

    def exactly(self, use: str, **more: object) -> Object:
        selector = {"cel": {"expression": f'device.attributes["{self.driver}"].use == "{use}"'}}
        return {"deviceClassName": self.class_, "selectors": [selector], **more}

    def claim(self, name: str, exactly: Object) -> Claim:
        return self.cluster.claim(name).but("spec.devices.requests", [{"name": "r", "exactly": exactly}])

    def prioritized(self, name: str, *alternatives: Object) -> Template:
        listed = [{"name": f"a{index}", **each} for index, each in enumerate(alternatives)]
        request = {"name": "r", "firstAvailable": listed}
        return self.cluster.template(name).but("spec.spec.devices.requests", [request])

    def pod(self, name: str) -> Pod:
        return self.cluster.pod(name).but("spec.schedulerName", self.scheduler)

    def devices(self, pod: str) -> list[tuple[str, str]]:
        """Request and device of each result, once the Pod is bound."""
        assert self.cluster.bound_to(pod) == "plain"
        statuses = self.cluster.get(pod)["status"].get("resourceClaimStatuses") or [{"resourceClaimName": pod}]
        name = statuses[0]["resourceClaimName"]
        claim = self.cluster.kubectl.json("get", "resourceclaim", name, "-n", self.cluster.namespace)
        results = claim["status"]["allocation"]["devices"]["results"]
        assert all(each["tolerations"] == [TOLERATION] for each in results)
        return [(each["request"], each["device"]) for each in results]


@pytest.mark.parametrize("scheduler", DRIVERS)
def test_every_form_of_request_gets_a_tainted_device(cluster: Cluster, cards: None, scheduler: str) -> None:
    """By admission; of a template the claims that kube-controller-manager makes."""
    given = Cards(cluster, scheduler)
    given.rule()
    cluster.kubectl("label", "namespace", cluster.namespace, "resource.kubernetes.io/admin-access=true")
    cluster.create(
        given.claim("one", given.exactly("one")),
        given.prioritized("first", given.exactly("none"), given.exactly("first")),
        given.claim("all", given.exactly("all", allocationMode="All")),
        given.claim("admin", given.exactly("one", adminAccess=True)),
    )
    cluster.create(
        given.pod("first").templates("first"), *(given.pod(name).claims(name) for name in ("one", "all", "admin"))
    )
    assert {name: given.devices(name) for name in ("one", "first", "all", "admin")} == {
        "one": [("r", "card-0")],
        "first": [("r/a1", "card-1")],
        "all": [("r", "card-2"), ("r", "card-3")],
        "admin": [("r", "card-0")],
    }


def test_in_audit_whoever_creates_a_claim_is_warned_and_nothing_is_added(cluster: Cluster, cards: None) -> None:
    given = Cards(cluster, "default-scheduler")
    rule = given.opening().mode("Audit")
    a_ready_rule(cluster, rule)
    name, claim = rule["metadata"]["name"], given.claim("tried", given.exactly("one"))
    warning = f"Warning: tollbar: rule {name} (Audit) would add 1 device toleration to request r"
    eventually(lambda: warning in cluster.warned(claim, "--dry-run=server"), what="known to the webhook")
    tried = given.cluster.tried(claim)
    assert (provenance(tried), "tolerations" in tried["spec"]["devices"]["requests"][0]["exactly"]) == ([], False)
    status = cluster.kubectl.json("get", "tolerationrule", name)["status"]
    assert "pendingMatches" not in status, "it is for claims alone"


@pytest.mark.parametrize("scheduler", DRIVERS)
def test_a_claim_from_before_the_rule_stays_as_it_is_and_is_explained(
    cluster: Cluster, cards: None, stack: Stack, scheduler: str
) -> None:
    given = Cards(cluster, scheduler)
    cluster.create(given.claim("early", given.exactly("one")), given.pod("early").claims("early"))

    def is_rejected() -> bool:
        conditions = cluster.get("early")["status"].get("conditions", [])
        return any(each["type"] == "PodScheduled" and each.get("reason") == "Unschedulable" for each in conditions)

    eventually(is_rejected, what="the scheduler has tried")
    given.rule()
    told = stack.tollbar("explain", "pod", "early", "-n", cluster.namespace).stdout
    claim = cluster.kubectl.json("get", "resourceclaim", "early", "-n", cluster.namespace)
    assert "tolerations" not in claim["spec"]["devices"]["requests"][0]["exactly"]
    assert (
        "DeviceTainted" in told,
        f"the claim made anew, with the tolerations of rule {cluster.unique('cards')}" in told,
    ) == (
        True,
        True,
    ), told


def test_a_reserved_key_comes_by_a_rule_and_no_other_way(cluster: Cluster, cards: None, stack: Stack) -> None:
    """By the record that the webhook writes, request by request; kube-controller-manager makes claims of templates."""
    given = Cards(cluster, "default-scheduler")
    given.rule()
    other = cluster.unique("other")
    cluster.create(device_class(other).selecting(f'device.driver == "{given.driver}"'))
    helps_itself = {"name": "own", "exactly": {"deviceClassName": other, "tolerations": [TOLERATION]}}
    asks = given.claim("asks", given.exactly("one"))
    with reserved_device_keys(cluster, given) as tenant:
        assert said(cluster.kubectl, *tenant, stdin=json.dumps(as_written(asks))) == ""
        both = as_written(asks.but("spec.devices.requests", [*asks["spec"]["devices"]["requests"], helps_itself]))
        refused = said(cluster.kubectl, *tenant, stdin=json.dumps(both))
        assert "of the reserved key example.com/card in request own; user" in refused
        listed = given.prioritized("first", given.exactly("none"), given.exactly("first"))
        cluster.kubectl(*tenant[:1], *tenant[2:], stdin=json.dumps(as_written(listed)))
        cluster.create(given.pod("first").templates("first"))
        assert given.devices("first") == [("r/a1", "card-1")]
        record = annotations_of(given.cluster.tried(asks))
        forged = as_written(given.claim("forges", given.exactly("one", tolerations=[TOLERATION])), annotations=record)
        assert "only a TolerationRule gives" in said(cluster.kubectl, *tenant, stdin=json.dumps(forged))
        stack.running["webhook"].stop()
        try:
            assert "only a TolerationRule gives" in said(cluster.kubectl, *tenant, stdin=json.dumps(forged))
            assert said(cluster.kubectl, *tenant, stdin=json.dumps(as_written(asks))) == ""
        finally:
            stack.webhook()


@contextmanager
def reserved_device_keys(cluster: Cluster, given: Cards) -> Iterator[list[str]]:
    """The component of that name in force, and how a tenant of the namespace creates a claim without effect."""
    kubectl, folder = cluster.kubectl, ROOT / "manifests/components/reserved-device-keys"
    files = [f"--filename={folder}/{name}.yaml" for name in ("rights", "claims", "record")]
    tenant = f"system:serviceaccount:{cluster.namespace}:a"
    binding = ("tenants", f"--user={tenant}", "-n", cluster.namespace)
    kubectl("create", "rolebinding", *binding, "--clusterrole=edit")
    creates = ["create", "--dry-run=server", f"--as={tenant}", "-f", "-"]
    kubectl("apply", "--server-side", *files)
    tolerating = given.claim("tried", given.exactly("one", tolerations=[TOLERATION]))
    recorded = given.claim("tried", given.exactly("one")).annotated({ANNOTATION_PROVENANCE: "[]"})
    try:
        until_said(kubectl, "only a TolerationRule gives", *creates, stdin=json.dumps(as_written(tolerating)))
        left_alone = json.dumps(as_written(recorded.labelled({LABEL_SKIP: "true"})))
        eventually(lambda: ANNOTATION_PROVENANCE not in kubectl(*creates, "-o", "yaml", stdin=left_alone))
        yield creates
    finally:
        kubectl("delete", *files)
        until_said(kubectl, "", *creates, stdin=json.dumps(as_written(tolerating)))

"""The component `reserved-device-keys` on a real API server: who may create claims that carry a reserved toleration.

What Tollbar's webhook records there is seen in tests/e2e/test_device_tolerations.py.  Here a record that comes with the
request stands for it, in a namespace in which nothing takes it off.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from objects.builders import claim, template
from planes.objects import as_written
from planes.parameters import since
from planes.policies import binding, role, said, spared, until_said
from processes.stack import ROOT, eventually

from tollbar.api.gates import CONTROLLERS
from tollbar.decide.claims.devicetolerations import DeviceAddition
from tollbar.decide.pods.tolerations import record
from tollbar.devplane.kubectl import Kubectl
from tollbar.model.objects import Object
from tollbar.wellknown import ANNOTATION_PROVENANCE

pytestmark = since("1.36", "no MutatingAdmissionPolicy")

FOLDER = ROOT / "manifests/components/reserved-device-keys"
FILES = [f"--filename={FOLDER}/{name}.yaml" for name in ("claims", "record")]
RIGHTS = f"--filename={FOLDER}/rights.yaml"
RECORD_BINDING = "mutatingadmissionpolicybinding/tollbar-reserved-device-keys-record"
KEY = "example.com/card"
CARD = {"key": KEY, "operator": "Exists", "effect": "NoSchedule"}
FOR_A_MINUTE = {"key": KEY, "operator": "Equal", "value": "a", "effect": "NoExecute", "tolerationSeconds": 60}
MANY = [{"key": KEY, "operator": "Equal", "value": str(number)} for number in range(16)]
OTHER = {"key": "example.com/other", "operator": "Exists"}
EVERYTHING = {"operator": "Exists"}
RECORDING = "tried-reserved-device-keys"
"""The namespace in which a record stays that comes with the request."""
CLAIM_CONTROLLER = "system:serviceaccount:kube-system:resource-claim-controller"
MANAGER = "system:kube-controller-manager"
SUPPORT = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": RECORDING}},
    role(
        "tried-reserved-device-keys",
        {
            "apiGroups": ["resource.k8s.io"],
            "resources": ["resourceclaims", "resourceclaimtemplates"],
            "verbs": ["get", "create"],
        },
    ),
    binding("tried-reserved-device-keys", "alice", CONTROLLERS, MANAGER, CLAIM_CONTROLLER),
]


@pytest.fixture(scope="module")
def plane(real_plane: Any) -> Any:
    """Admission policies are only there."""
    return real_plane


def exactly(*tolerations: Object, name: str = "r") -> Object:
    return {"name": name, "exactly": {"deviceClassName": "cards", "tolerations": list(tolerations)}}


def first(*alternatives: list[Object], name: str = "r") -> Object:
    listed = [
        {"name": f"a{index}", "deviceClassName": "cards", "tolerations": given}
        for index, given in enumerate(alternatives)
    ]
    return {"name": name, "firstAvailable": listed}


def asking(*requests: Object, annotations: Any = None, namespace: str = "default") -> str:
    built = claim("tried", namespace).but("spec.devices.requests", list(requests)).annotated(annotations or {})
    return json.dumps(as_written(built))


def of_template(*requests: Object) -> str:
    return json.dumps(as_written(template("tried", "default").but("spec.spec.devices.requests", list(requests))))


def recorded(*rules: Mapping[str, Sequence[Object]]) -> dict[str, str]:
    """The record of what each of these rules gave, by the names of requests."""
    additions = (
        DeviceAddition(f"rule-{number}", 1, request, tuple(tolerations))
        for number, rule in enumerate(rules)
        for request, tolerations in rule.items()
    )
    return {ANNOTATION_PROVENANCE: record([each.entry for each in additions])}


def create(user: str) -> tuple[str, ...]:
    """As an administrator if nobody is named."""
    return ("create", "--dry-run=server", "-f", "-", *([f"--as={user}"] if user else []))


@pytest.fixture(scope="module")
def reserving(plane: Any) -> Iterator[Kubectl]:
    kubectl: Kubectl = plane.kubectl
    kubectl.apply(*SUPPORT)
    kubectl("apply", RIGHTS)
    kubectl("apply", "--warnings-as-errors", *FILES)
    until_said(kubectl, "reserved key", *create("alice"), stdin=asking(exactly(CARD)))
    until_said(kubectl, "", *create(CONTROLLERS), stdin=asking(exactly(CARD)))
    spared(kubectl, RECORD_BINDING, RECORDING)

    def stays(namespace: str) -> bool:
        tried = asking(exactly(), annotations=RECORDED, namespace=namespace)
        return ANNOTATION_PROVENANCE in kubectl(*create("alice"), "-o", "yaml", stdin=tried)

    eventually(lambda: stays(RECORDING) and not stays("default"))
    yield kubectl
    kubectl("delete", *FILES, RIGHTS)
    until_said(kubectl, "", *create("alice"), stdin=asking(exactly(CARD)))
    everything = {"apiVersion": "v1", "kind": "List", "items": SUPPORT}
    kubectl("delete", "--ignore-not-found", "--wait", "-f", "-", stdin=json.dumps(everything))


RECORDED = recorded({"r": [CARD]})


def refusal(*which: str) -> str:
    return (
        f"only a TolerationRule gives tolerations of {', '.join(which)}; user alice may not use them; leave them out:"
        " a rule that is true for the request adds them"
    )


THE_KEY = f"the reserved key {KEY} in request"
ATTEMPTS: dict[str, tuple[str, str, str]] = {
    "a reserved key": ("alice", asking(exactly(CARD)), refusal(f"{THE_KEY} r")),
    "with other members": ("alice", asking(exactly(FOR_A_MINUTE)), refusal(f"{THE_KEY} r")),
    "every key": ("alice", asking(exactly(OTHER, EVERYTHING)), refusal("every key in request r")),
    "in a list": ("alice", asking(first([OTHER], [CARD])), refusal(f"{THE_KEY} r/a1")),
    "in several requests": (
        "alice",
        asking(exactly(name="none"), exactly(CARD, name="one"), first([EVERYTHING, CARD], [], name="two")),
        refusal(f"{THE_KEY} one", "every key in request two/a0", f"{THE_KEY} two/a0"),
    ),
    "in a template": ("alice", of_template(exactly(CARD)), refusal(f"{THE_KEY} r")),
    "in a list of a template": ("alice", of_template(first([CARD])), refusal(f"{THE_KEY} r/a0")),
    "with a record that the client wrote": (
        "alice",
        asking(exactly(CARD), annotations=RECORDED),
        refusal(f"{THE_KEY} r"),
    ),
    "another key": ("alice", asking(exactly(OTHER), first([OTHER], name="s")), ""),
    "none": ("alice", asking(exactly()), ""),
    "no requests": ("alice", asking(), ""),
    "by an administrator": ("", asking(exactly(CARD, EVERYTHING)), ""),
    "by kube-controller-manager": (MANAGER, asking(exactly(CARD)), ""),
    "by its claim controller": (CLAIM_CONTROLLER, asking(exactly(CARD)), ""),
    "by Tollbar's controllers": (CONTROLLERS, asking(exactly(CARD)), ""),
}


@pytest.mark.parametrize(("user", "obj", "want"), ATTEMPTS.values(), ids=ATTEMPTS)
def test_who_may_create_a_claim_with_a_reserved_key(reserving: Kubectl, user: str, obj: str, want: str) -> None:
    answer = said(reserving, *create(user), stdin=obj)
    assert answer.endswith(want) if want else answer == ""


def test_the_largest_claim_is_refused_like_any_other(reserving: Kubectl) -> None:
    """What is evaluated for it stays within the API server's limits."""
    every = [CARD] * 16
    largest = asking(*(first(*([every] * 8), name=f"r{number}") for number in range(32)))
    answer = said(reserving, *create("alice"), stdin=largest)
    assert answer.endswith(refusal(*(f"{THE_KEY} r0/a0",) * 8, "others"))


@pytest.mark.parametrize(("user", "stays"), [("alice", False), (CONTROLLERS, True)])
def test_whose_record_stays(reserving: Kubectl, user: str, stays: bool) -> None:
    shown = reserving(*create(user), "-o", "yaml", stdin=asking(exactly(), annotations=RECORDED))
    assert (ANNOTATION_PROVENANCE in shown) is stays


def given(*requests: Object, by: Sequence[Mapping[str, Sequence[Object]]]) -> str:
    """A claim that has, from whomever, what its requests tolerate, and from these rules what the record says."""
    return asking(*requests, annotations=recorded(*by), namespace=RECORDING)


OF_REQUESTS: dict[str, tuple[str, str]] = {
    "what a rule gave": (given(exactly(CARD), by=[{"r": [CARD]}]), ""),
    "what it gave an entry of a list": (given(first([OTHER], [CARD, OTHER]), by=[{"r/a1": [CARD]}]), ""),
    "what two rules gave": (given(exactly(*MANY), by=[{"r": MANY[:7]}, {"r": MANY[7:]}]), ""),
    "every member": (given(exactly(FOR_A_MINUTE), by=[{"r": [FOR_A_MINUTE]}]), ""),
    "another toleration of the key": (given(exactly(CARD, FOR_A_MINUTE), by=[{"r": [CARD]}]), refusal(f"{THE_KEY} r")),
    "another request": (
        given(exactly(CARD, name="r1"), exactly(CARD, name="r2"), by=[{"r1": [CARD]}]),
        refusal(f"{THE_KEY} r2"),
    ),
    "a request before it": (
        given(exactly(CARD, name="r1"), exactly(CARD, name="r2"), by=[{"r2": [CARD]}]),
        refusal(f"{THE_KEY} r1"),
    ),
    "a request with a longer name": (
        given(exactly(CARD, name="r"), exactly(CARD, name="r1"), by=[{"r": [CARD]}]),
        refusal(f"{THE_KEY} r1"),
    ),
    "a request with a shorter name": (
        given(exactly(CARD, name="r"), exactly(CARD, name="r1"), by=[{"r1": [CARD]}]),
        refusal(f"{THE_KEY} r"),
    ),
    "another entry of the list": (given(first([CARD], [CARD]), by=[{"r/a0": [CARD]}]), refusal(f"{THE_KEY} r/a1")),
    "a request that is named like an entry": (
        given(first([CARD]), exactly(CARD, name="a0"), by=[{"r/a0": [CARD]}]),
        refusal(f"{THE_KEY} a0"),
    ),
    "an entry of another request": (
        given(first([CARD], name="r"), first([CARD], name="r1"), by=[{"r1/a0": [CARD]}]),
        refusal(f"{THE_KEY} r/a0"),
    ),
}


@pytest.mark.parametrize(("obj", "want"), OF_REQUESTS.values(), ids=OF_REQUESTS)
def test_what_a_rule_gave_one_request_counts_for_that_request_alone(reserving: Kubectl, obj: str, want: str) -> None:
    answer = said(reserving, *create("alice"), stdin=obj)
    assert answer.endswith(want) if want else answer == ""


PLACES = [f"r{number}/a{alternative}" for number in range(32) for alternative in range(8)]
LARGEST = {
    "most entries": [{place: [toleration] for place in PLACES} for toleration in MANY[:7]],
    "most tolerations": [dict.fromkeys(PLACES, MANY)],
}
"""Records of about the 256 KiB that all annotations of an object may have, of the claim with the most requests."""


@pytest.mark.parametrize("rules", LARGEST.values(), ids=LARGEST)
def test_the_largest_record_is_read_to_its_end(reserving: Kubectl, rules: list[dict[str, list[Object]]]) -> None:
    """What is evaluated for it stays within the API server's limits."""
    has = [each for rule in rules for each in rule[PLACES[0]]]
    requests = [first(*([has] * 8), name=f"r{number}") for number in range(32)]
    assert said(reserving, *create("alice"), stdin=given(*requests, by=rules)) == ""
    *whole, last = rules
    without = {place: tolerations for place, tolerations in last.items() if place != PLACES[-1]}
    answer = said(reserving, *create("alice"), stdin=given(*requests, by=[*whole, without]))
    assert f"{THE_KEY} {PLACES[-1]}" in answer

"""The component `reserved-device-keys` on a real API server: who may create claims that carry a reserved toleration.

What Tollbar's webhook records there is seen in tests/e2e/test_device_tolerations.py.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from builders import claim, template
from cluster import as_written
from planes import since
from policies import binding, role, said, until_said
from stack import ROOT, eventually

from tollbar.api.gates import CONTROLLERS
from tollbar.devplane.kubectl import Kubectl
from tollbar.model.objects import Object

pytestmark = since("1.36", "no MutatingAdmissionPolicy")

FOLDER = ROOT / "manifests/components/reserved-device-keys"
FILES = [f"--filename={FOLDER}/{name}.yaml" for name in ("claims", "record")]
RIGHTS = f"--filename={FOLDER}/rights.yaml"
KEY = "example.com/card"
CARD = {"key": KEY, "operator": "Exists", "effect": "NoSchedule"}
FOR_A_MINUTE = {"key": KEY, "value": "a", "effect": "NoExecute", "tolerationSeconds": 60}
OTHER = {"key": "example.com/other", "operator": "Exists"}
EVERYTHING = {"operator": "Exists"}
RECORD = [{"rule": "cards", "generation": 1, "request": "r", "added": [CARD], "via": "creation"}]
RECORDED = {"tollbar.dev/tolerations": json.dumps(RECORD, separators=(",", ":"))}
CLAIM_CONTROLLER = "system:serviceaccount:kube-system:resource-claim-controller"
MANAGER = "system:kube-controller-manager"
SUPPORT = [
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


def asking(*requests: Object, annotations: Any = None) -> str:
    built = claim("tried", "default").but("spec.devices.requests", list(requests)).annotated(annotations or {})
    return json.dumps(as_written(built))


def of_template(*requests: Object) -> str:
    return json.dumps(as_written(template("tried", "default").but("spec.spec.devices.requests", list(requests))))


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
    dry = (*create("alice"), "-o", "yaml")
    eventually(lambda: "tollbar.dev" not in kubectl(*dry, stdin=asking(exactly(), annotations=RECORDED)))
    yield kubectl
    kubectl("delete", *FILES, RIGHTS)
    until_said(kubectl, "", *create("alice"), stdin=asking(exactly(CARD)))
    everything = {"apiVersion": "v1", "kind": "List", "items": SUPPORT}
    kubectl("delete", "--ignore-not-found", "--wait", "-f", "-", stdin=json.dumps(everything))


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


@pytest.mark.parametrize(("user", "recorded"), [("alice", False), (CONTROLLERS, True)])
def test_whose_record_stays(reserving: Kubectl, user: str, recorded: bool) -> None:
    shown = reserving(*create(user), "-o", "yaml", stdin=asking(exactly(), annotations=RECORDED))
    assert ("tollbar.dev/tolerations" in shown) is recorded

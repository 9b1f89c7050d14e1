"""What a release may change in a Pod: what the API server would refuse, and the patch."""

import pytest
from objects import patching
from objects.builders import Pod, pod, toleration

from tollbar.decide.gates import mutations
from tollbar.decide.gates.answers import Mutation
from tollbar.devplane.embedded.validation import podupdates
from tollbar.model.jsonpatch import Patch
from tollbar.model.objects import Object
from tollbar.model.pods import gate_names

GATE = "tollbar.dev/zone"
HELD = pod().gated(GATE)
GPU = toleration("example.com/gpu")
IN_A: Object = {"key": "zone", "operator": "In", "values": ["a"]}
SSD: Object = {"key": "disk", "operator": "Exists"}
RATHER: Object = {"weight": 10, "preference": {"matchExpressions": [SSD]}}
COST = "controller.kubernetes.io/pod-deletion-cost"
MIRROR = "kubernetes.io/config.mirror"
APPARMOR = "container.apparmor.security.beta.kubernetes.io"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
SELECTING = HELD.but("spec.nodeSelector", {"disk": "ssd"})


def affinity(*terms: Object, preferred: tuple[Object, ...] = ()) -> Object:
    node = {**({REQUIRED: {"nodeSelectorTerms": list(terms)}} if terms else {})}
    return {"nodeAffinity": {**node, **({PREFERRED: list(preferred)} if preferred else {})}}


def needing(*terms: Object) -> Pod:
    return HELD.but("spec.affinity", affinity(*terms))


def rather(field: object) -> Object:
    return {"weight": 1, "preference": {"matchFields": [field]}}


def too_long(field: str, letter: str, part: str = "", value: str = "") -> str:
    """What is said of an entry whose key or value is one of these letters, 64 times."""
    text = (value or letter) * 64
    return f'{field}[{letter * 64}]: Invalid value: "{text}": {part}must be no more than 63 bytes'


MISTAKES: dict[str, tuple[Pod, Mutation, list[str]]] = {
    "nothing": (HELD, Mutation(), []),
    "all that is allowed": (
        HELD,
        Mutation((GPU,), {"disk": "ssd"}, (IN_A,), (RATHER,), {"a": "b"}, {"example.com/why": "any text\n"}),
        [],
    ),
    "a value that the Pod has": (SELECTING, Mutation(node_selector={"disk": "ssd"}), []),
    "another value than the Pod has": (
        SELECTING,
        Mutation(node_selector={"disk": "hdd"}),
        [
            (
                'nodeSelector[disk]: Invalid value: "hdd": only additions to spec.nodeSelector are allowed (no'
                " mutations or deletions)"
            )
        ],
    ),
    "a toleration of everything, for a key": (
        HELD,
        Mutation(tolerations=({"operator": "Equal"},)),
        [
            (
                'tolerations[0].operator: Invalid value: "Equal": operator must be Exists when `key` is empty, which'
                ' means "match all values and all keys"'
            )
        ],
    ),
    "an operator that there is not": (
        HELD,
        Mutation(required=({"key": "zone", "operator": "Near", "values": ["a"]},)),
        ['required[0].operator: Invalid value: "Near": not a valid selector operator'],
    ),
    "In nothing": (
        HELD,
        Mutation(required=({"key": "zone", "operator": "In"},)),
        ["required[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"],
    ),
    "Exists with a value": (
        HELD,
        Mutation(required=({**SSD, "values": ["x"]},)),
        ["required[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"],
    ),
    "more than two values": (
        HELD,
        Mutation(required=({"key": "cpus", "operator": "Gt", "values": ["1", "2"]},)),
        ["required[0].values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'"],
    ),
    "a weight of nothing": (
        HELD,
        Mutation(preferred=({**RATHER, "weight": 0},)),
        ["preferred[0].weight: Invalid value: 0: must be in the range 1-100"],
    ),
    "a weight that is no number": (
        HELD,
        Mutation(preferred=({**RATHER, "weight": True},)),
        ["preferred[0].weight: Invalid value: true: must be in the range 1-100"],
    ),
    "a preference for a Node": (
        HELD,
        Mutation(preferred=(rather({"key": "metadata.name", "operator": "NotIn", "values": ["node-1"]}),)),
        [],
    ),
    "a preference by another field than the name": (
        HELD,
        Mutation(preferred=(rather({"key": "spec.unschedulable", "operator": "In", "values": ["false"]}),)),
        [
            (
                'preferred[0].preference.matchFields[0].key: Invalid value: "spec.unschedulable": not a valid field'
                " selector key"
            )
        ],
    ),
    "a preference for two Nodes": (
        HELD,
        Mutation(preferred=(rather({"key": "metadata.name", "operator": "In", "values": ["a", "b"]}),)),
        [
            (
                "preferred[0].preference.matchFields[0].values: Required value: must be only one value when `operator`"
                " is 'In' or 'NotIn' for node field selector"
            )
        ],
    ),
    "a preference for a Node that there cannot be": (
        HELD,
        Mutation(
            preferred=(
                rather({"key": "metadata.name", "operator": "Exists"}),
                rather({"key": "metadata.name", "operator": "In", "values": [5]}),
                rather({"key": "metadata.name", "operator": "In", "values": "a"}),
                rather("a"),
            )
        ),
        [
            ('preferred[0].preference.matchFields[0].operator: Invalid value: "Exists": not a valid selector operator'),
            "preferred[1].preference.matchFields[0].values[0]: Invalid value: 5: must be a string",
            (
                'preferred[2].preference.matchFields[0]: Invalid value: {"key": "metadata.name", "operator": "In",'
                ' "values": "a"}: key must be a string, and values a list of strings'
            ),
            'preferred[3].preference.matchFields[0]: Invalid value: "a": must be an object',
        ],
    ),
    "the cost of its deletion": (HELD, Mutation(annotations={COST: "-100"}), []),
    "a cost of its deletion that is none": (
        HELD,
        Mutation(annotations={COST: "+1"}),
        [f'annotations[{COST}]: Invalid value: "+1": must be a 32bit integer'],
    ),
    "a cost of its deletion that is too high": (
        HELD,
        Mutation(annotations={COST: "2147483648"}),
        [f'annotations[{COST}]: Invalid value: "2147483648": must be a 32bit integer'],
    ),
    "the least cost of its deletion": (HELD, Mutation(annotations={COST: "-2147483648"}), []),
    "the greatest cost of its deletion": (HELD, Mutation(annotations={COST: "2147483647"}), []),
    "a cost of its deletion that is too low": (
        HELD,
        Mutation(annotations={COST: "-2147483649"}),
        [f'annotations[{COST}]: Invalid value: "-2147483649": must be a 32bit integer'],
    ),
    "a mirror of a static Pod": (
        HELD,
        Mutation(annotations={MIRROR: "x"}),
        [f"annotations[{MIRROR}]: Forbidden: may not add mirror pod annotation"],
    ),
    "a profile of AppArmor": (
        HELD,
        Mutation(annotations={f"{APPARMOR}/main": "unconfined"}),
        [f"annotations[{APPARMOR}/main]: Forbidden: may not add AppArmor annotations"],
    ),
    "a profile of AppArmor that the Pod has": (
        HELD.but("metadata.annotations", {f"{APPARMOR}/main": "unconfined"}),
        Mutation(annotations={f"{APPARMOR}/main": "unconfined"}),
        [],
    ),
    "a mirror of a static Pod that it is": (
        HELD.but("metadata.annotations", {MIRROR: "x"}),
        Mutation(annotations={MIRROR: "x"}),
        [],
    ),
    "values that are no texts": (
        HELD,
        Mutation(node_selector={"disk": 1}, labels={"a": 2}, annotations={"b": 3}),  # type: ignore[dict-item]
        [
            "nodeSelector[disk]: Invalid value: 1: must be a string",
            "labels[a]: Invalid value: 2: must be a string",
            "annotations[b]: Invalid value: 3: must be a string",
        ],
    ),
    "keys and values that are too long": (
        HELD,
        Mutation(
            node_selector={"s" * 64: "d" * 64}, labels={"l" * 64: "v" * 64}, annotations={"a" * 64: "any", "b" * 64: ""}
        ),
        [
            too_long("nodeSelector", "s", "name part "),
            too_long("nodeSelector", "s", value="d"),
            too_long("labels", "l", "name part "),
            too_long("labels", "l", value="v"),
            too_long("annotations", "a", "name part "),
            too_long("annotations", "b", "name part "),
        ],
    ),
    "annotations that are just small enough beside the Pod's": (
        HELD.but("metadata.annotations", {"a": "x" * 65535, "b": "y"}),
        Mutation(annotations={"b": "x" * (3 * 65536 - 1)}),
        [],
    ),
    "annotations that are too large beside the Pod's": (
        HELD.but("metadata.annotations", {"a": "x" * 65535, "b": "y"}),
        Mutation(annotations={"b": "x" * (3 * 65536)}),
        ["annotations: Too long: may not be more than 262144 bytes"],
    ),
    "all that is wrong is told": (
        pod(),
        Mutation(({"operator": "Equal"},) * 2, {}, ({"key": "zone", "operator": "Near", "values": ["a"]},) * 2),
        [
            *(
                f'tolerations[{index}].operator: Invalid value: "Equal": operator must be Exists when `key` is empty,'
                ' which means "match all values and all keys"'
                for index in range(2)
            ),
            *(
                f'required[{index}].operator: Invalid value: "Near": not a valid selector operator'
                for index in range(2)
            ),
            "required: Forbidden: may only be changed while the Pod has a scheduling gate",
        ],
    ),
    "a Pod without any gate takes tolerations only": (
        pod(),
        Mutation((GPU,), {"disk": "ssd"}, (IN_A,), (RATHER,)),
        [
            f"{field}: Forbidden: may only be changed while the Pod has a scheduling gate"
            for field in ("nodeSelector", "required", "preferred")
        ],
    ),
}


@pytest.mark.parametrize(("given", "mutation", "want"), MISTAKES.values(), ids=MISTAKES)
def test_errors(given: Pod, mutation: Mutation, want: list[str]) -> None:
    assert [*map(str, mutations.errors(given, mutation, gated=bool(gate_names(given))))] == want


NARROWED: dict[str, tuple[Pod, Mutation, Object]] = {
    "no affinity": (HELD, Mutation(required=(IN_A,)), affinity({"matchExpressions": [IN_A]})),
    "every term": (
        needing({"matchExpressions": [SSD]}, {"matchFields": [SSD]}),
        Mutation(required=(IN_A,)),
        affinity({"matchExpressions": [SSD, IN_A]}, {"matchFields": [SSD], "matchExpressions": [IN_A]}),
    ),
    "a term that selects nothing goes on to select nothing": (
        needing({}, {"matchExpressions": [SSD]}),
        Mutation(required=(IN_A,)),
        affinity({}, {"matchExpressions": [SSD, IN_A]}),
    ),
    "what a term has is not added again": (
        needing({"matchExpressions": [IN_A]}),
        Mutation(required=(IN_A, SSD)),
        affinity({"matchExpressions": [IN_A, SSD]}),
    ),
    "preferences beside the Pod's own": (
        HELD.but("spec.affinity", affinity(preferred=(RATHER,))),
        Mutation(preferred=(RATHER, {**RATHER, "weight": 1})),
        affinity(preferred=(RATHER, {**RATHER, "weight": 1})),
    ),
    "the Pod's own preferences stay": (
        HELD.but("spec.affinity", affinity(preferred=(RATHER,))),
        Mutation(preferred=({**RATHER, "weight": 1},)),
        affinity(preferred=(RATHER, {**RATHER, "weight": 1})),
    ),
    "affinity to Pods stays": (
        HELD.but("spec.affinity", {"podAffinity": {"x": []}}),
        Mutation(required=(IN_A,)),
        {"podAffinity": {"x": []}, **affinity({"matchExpressions": [IN_A]})},
    ),
}


@pytest.mark.parametrize(("given", "mutation", "want"), NARROWED.values(), ids=NARROWED)
def test_affinity(given: Pod, mutation: Mutation, want: Object) -> None:
    patch = mutations.patch(given, mutation, gate=GATE, action="remove", fenced=True)
    after = patching.apply(given, patch)
    assert after["spec"]["affinity"] == want
    assert podupdates.validate(after, given) == [], "an API server takes it"


TEST_UID = {"op": "test", "path": "/metadata/uid", "value": "uid-of-web"}
LIFT: Patch = (
    TEST_UID,
    {"op": "test", "path": "/spec/schedulingGates/0/name", "value": GATE},
    {"op": "remove", "path": "/spec/schedulingGates/0"},
)
PATCHES: dict[str, tuple[Pod, Mutation, Patch]] = {
    "the gate alone": (HELD, Mutation(), LIFT),
    "a first node selector": (
        HELD,
        Mutation(node_selector={"disk": "ssd", "zone": "a"}),
        (
            *LIFT,
            {"op": "test", "path": "/spec/nodeSelector", "value": None},
            {"op": "add", "path": "/spec/nodeSelector", "value": {"disk": "ssd", "zone": "a"}},
        ),
    ),
    "a first node selector in the place of an empty one": (
        HELD.but("spec.nodeSelector", {}),
        Mutation(node_selector={"disk": "ssd"}),
        (
            *LIFT,
            {"op": "test", "path": "/spec/nodeSelector", "value": {}},
            {"op": "add", "path": "/spec/nodeSelector", "value": {"disk": "ssd"}},
        ),
    ),
    "a first requirement": (
        HELD,
        Mutation(required=(IN_A,)),
        (
            *LIFT,
            {"op": "test", "path": "/spec/affinity", "value": None},
            {"op": "add", "path": "/spec/affinity", "value": affinity({"matchExpressions": [IN_A]})},
        ),
    ),
    "a toleration that the Pod has not": (
        HELD,
        Mutation((GPU,)),
        (
            *LIFT,
            {"op": "test", "path": "/spec/tolerations", "value": None},
            {"op": "add", "path": "/spec/tolerations", "value": [GPU]},
        ),
    ),
    "one more": (
        SELECTING,
        Mutation(node_selector={"a/b": "c"}),
        (*LIFT, {"op": "add", "path": "/spec/nodeSelector/a~1b", "value": "c"}),
    ),
    "a toleration that the Pod has": (HELD.tolerating(GPU), Mutation((GPU,)), LIFT),
    "a requirement that the Pod has": (needing({"matchExpressions": [IN_A]}), Mutation(required=(IN_A,)), LIFT),
}


@pytest.mark.parametrize(("given", "mutation", "want"), PATCHES.values(), ids=PATCHES)
def test_patch(given: Pod, mutation: Mutation, want: Patch) -> None:
    lacking = mutations.lacking(given, mutation)
    assert mutations.patch(given, lacking, gate=GATE, action="remove", fenced=True) == want


CHANGES = [
    Mutation(tolerations=(GPU,)),
    Mutation(node_selector={"disk": "ssd"}),
    Mutation(required=(IN_A,)),
    Mutation(preferred=(RATHER,)),
    Mutation(labels={"a": "b"}),
    Mutation(annotations={"a": "b"}),
]


@pytest.mark.parametrize("mutation", CHANGES)
def test_a_change_is_one_whatever_it_changes(mutation: Mutation) -> None:
    assert (bool(mutation), bool(Mutation())) == (True, False)

"""Tolerations of Pods: what admission gives, what may be added later, what is refused."""

from typing import Any

from contract.api import Answer, Api, told
from contract.objects import DEFAULTS, GPU, NOT_READY, UNREACHABLE, add, pod, put, remove
from contract.tables import Rows, forbidden, invalid, last, rows

from tollbar.model.objects import Object
from tollbar.model.resources import PODS
from tollbar.runtime.client import PatchType

LIST = "/spec/tolerations"
TEMPORARY = {"key": "example.com/a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}
FOREVER = {key: value for key, value in TEMPORARY.items() if key != "tolerationSeconds"}
EQUAL = {"key": "example.com/a", "value": "x"}
ALL = {"operator": "Exists"}
KEPT = invalid(
    'Pod "web"', forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
)


def given(api: Api, *tolerations: Object, **spec: Any) -> Any:
    """The tolerations that a new Pod has in the end."""
    answer = api.create(pod("example.com/a", tolerations=list(tolerations), **spec))
    return answer["spec.tolerations"] if answer.code < 300 else told(answer)


AT_CREATION: Rows = {
    "none: two for five minutes": (lambda api: api.create(pod())["spec.tolerations"], DEFAULTS),
    "an empty list: the same": (lambda api: given(api), DEFAULTS),
    "others: the two behind them": (lambda api: given(api, GPU), [GPU, *DEFAULTS]),
    "one of the two: the other": (
        lambda api: given(api, {**UNREACHABLE, "tolerationSeconds": 1}),
        [{**UNREACHABLE, "tolerationSeconds": 1}, NOT_READY],
    ),
    "everything: nothing more": (lambda api: given(api, ALL), [ALL]),
    "everything of NoExecute: nothing more": (
        lambda api: given(api, {**ALL, "effect": "NoExecute"}),
        [{**ALL, "effect": "NoExecute"}],
    ),
    "everything of NoSchedule: the two": (
        lambda api: given(api, {**ALL, "effect": "NoSchedule"}),
        [{**ALL, "effect": "NoSchedule"}, *DEFAULTS],
    ),
    "the same twice": (lambda api: given(api, GPU, GPU), [GPU, GPU, *DEFAULTS]),
    "no operator: it stays empty": (lambda api: given(api, EQUAL)[0], EQUAL),
}


@rows(AT_CREATION)
def test_at_creation(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want


def later(api: Api, *operations: Object, of: Object | None = None, path: str = "spec.tolerations") -> Any:
    """The tolerations after a JSON Patch of a Pod that has, in this order: GPU, TEMPORARY, EQUAL and the two."""
    api.create(of or pod("example.com/a", tolerations=[GPU, TEMPORARY, EQUAL])).accepted()
    answer = api.patch(PODS, "web", operations)
    return answer[path] if answer.code < 300 else told(answer)


HAD = [GPU, TEMPORARY, EQUAL, *DEFAULTS]
NEW = {"key": "example.com/new", "operator": "Exists"}


def bound(api: Api, phase: str = "Pending") -> Answer:
    api.create(pod()).accepted()
    api.bind().accepted()
    return api.patch(PODS, "web", {"status": {"phase": phase}}, PatchType.MERGE, "status")


def added(api: Api) -> int:
    """The code for one more toleration."""
    return api.patch(PODS, "web", [add(f"{LIST}/-", NEW)]).code


LATER: Rows = {
    "one more": (lambda api: later(api, add(f"{LIST}/-", NEW)), [*HAD, NEW]),
    "one more, first": (lambda api: later(api, add(f"{LIST}/0", NEW)), [NEW, *HAD]),
    "one more, for everything": (lambda api: later(api, add(f"{LIST}/-", ALL)), [*HAD, ALL]),
    "one more of the same": (lambda api: later(api, add(f"{LIST}/-", GPU)), [*HAD, GPU]),
    "another order": (lambda api: later(api, put(LIST, HAD[::-1])), HAD[::-1]),
    "one less": (lambda api: later(api, remove(f"{LIST}/0")), KEPT),
    "one of the two that admission gave less: it comes back": (
        lambda api: later(api, remove(f"{LIST}/4")),
        HAD,
    ),
    "one of two equal ones less": (
        lambda api: later(api, remove(f"{LIST}/0"), of=pod(tolerations=[GPU, GPU])),
        [GPU, *DEFAULTS],
    ),
    "another key": (lambda api: later(api, put(f"{LIST}/0/key", "example.com/b")), KEPT),
    "another effect": (lambda api: later(api, put(f"{LIST}/0/effect", "NoExecute")), KEPT),
    "Equal where nothing was written": (lambda api: later(api, add(f"{LIST}/2/operator", "Equal")), KEPT),
    "other seconds": (
        lambda api: later(api, put(f"{LIST}/1/tolerationSeconds", 5))[1],
        {**TEMPORARY, "tolerationSeconds": 5},
    ),
    "no seconds any more": (lambda api: later(api, remove(f"{LIST}/1/tolerationSeconds"))[1], FOREVER),
    "seconds where there were none": (
        lambda api: later(api, add(f"{LIST}/0/tolerationSeconds", 5), of=pod(tolerations=[FOREVER]))[0],
        {**FOREVER, "tolerationSeconds": 5},
    ),
    "on a Pod with a Node": (lambda api: last(bound(api), added(api)), 200),
    "on a running Pod": (lambda api: last(bound(api, "Running"), added(api)), 200),
    "on a finished Pod": (lambda api: last(bound(api, "Succeeded"), added(api)), 200),
    "on a Pod that is being deleted": (
        lambda api: last(bound(api), api.delete(PODS, "web"), added(api)),
        200,
    ),
    "through the status: ignored": (
        lambda api: last(
            api.create(pod()),
            api.patch(PODS, "web", [add(f"{LIST}/-", NEW)], sub="status")["spec.tolerations"],
        ),
        DEFAULTS,
    ),
    "five hundred more": (
        lambda api: len(later(api, *[add(f"{LIST}/-", {**NEW, "key": f"example.com/k{n}"}) for n in range(500)])),
        505,
    ),
    "a wrong one, later": (
        lambda api: later(api, add(f"{LIST}/-", {"key": "a b", "operator": "Exists"})).causes[0][1],
        "spec.tolerations[5].key",
    ),
}


@rows(LATER)
def test_later(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want


def refused(api: Api, **toleration: Any) -> Any:
    """The causes (field, message) for a Pod with this one toleration."""
    answer = api.create(pod(tolerations=[toleration]))
    return [(field.removeprefix("spec.tolerations[0]"), text) for _, field, text in answer.refusal().causes]


NAME = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric"
    " character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is"
    " '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
LABEL = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is"
    " '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
REFUSED: Rows = {
    "a key with a blank": (
        lambda api: refused(api, key="a b", operator="Exists"),
        [(".key", f'Invalid value: "a b": {NAME}')],
    ),
    "a value with a blank": (
        lambda api: refused(api, key="a", value="a b"),
        [(".operator", f'Invalid value: "a b": {LABEL}')],
    ),
    "Exists with a value": (
        lambda api: refused(api, key="a", operator="Exists", value="x"),
        [(".operator", "Invalid value: \"x\": value must be empty when `operator` is 'Exists'")],
    ),
    "no key without Exists": (
        lambda api: refused(api, value="x"),
        [
            (
                ".operator",
                (
                    'Invalid value: "": operator must be Exists when `key` is empty, which means "match all values and'
                    ' all keys"'
                ),
            )
        ],
    ),
    "seconds without NoExecute": (
        lambda api: refused(api, key="a", operator="Exists", effect="NoSchedule", tolerationSeconds=1),
        [
            (
                ".effect",
                "Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set",
            )
        ],
    ),
    "an unknown effect": (
        lambda api: refused(api, key="a", operator="Exists", effect="Never"),
        [
            (
                ".effect",
                'Unsupported value: "Never": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"',
            )
        ],
    ),
    "an unknown operator": (
        lambda api: refused(api, key="a", operator="In"),
        [(".operator", 'Unsupported value: "In": supported values: "Equal", "Exists"')],
    ),
    "a numeric operator": (
        lambda api: refused(api, key="a", operator="Gt", value="1"),
        [(".operator", 'Unsupported value: "Gt": supported values: "Equal", "Exists", "Lt", "Gt"')],
    ),
}


@rows(REFUSED)
def test_refused(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want

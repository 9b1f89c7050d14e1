"""Tolerations: what the API server refuses, in its words, which two are the same, which taints they tolerate."""

from typing import Any

import pytest

from tollbar.model.objects import Object
from tollbar.model.tolerations import identity, is_reserved, text, tolerates, untolerated, validate

P = "spec.tolerations[0]"
KEY = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation "
    "is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)

VALIDATE: dict[str, tuple[Any, list[str]]] = {
    "Exists for every key": ({"operator": "Exists"}, []),
    "Exists for one key": ({"key": "example.com/gpu", "operator": "Exists", "effect": "NoSchedule"}, []),
    "an implicit Equal": ({"key": "gpu", "value": "a"}, []),
    "an Equal without a value": ({"key": "gpu", "operator": "Equal"}, []),
    "NoExecute for a while": ({"key": "gpu", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}, []),
    "everything empty": (
        {},
        [
            (
                f'{P}.operator: Invalid value: "": operator must be Exists when `key` is empty,'
                ' which means "match all values and all keys"'
            )
        ],
    ),
    "Equal without a key": (
        {"operator": "Equal", "value": "a"},
        [
            (
                f'{P}.operator: Invalid value: "Equal": operator must be Exists when `key` is empty,'
                ' which means "match all values and all keys"'
            )
        ],
    ),
    "a bad key": ({"key": "my gpu", "operator": "Exists"}, [f'{P}.key: Invalid value: "my gpu": {KEY}']),
    "a bad value, blamed on the operator": (
        {"key": "gpu", "value": "a b"},
        [f'{P}.operator: Invalid value: "a b": {VALUE}'],
    ),
    "Exists with a value": (
        {"key": "gpu", "operator": "Exists", "value": "a"},
        [f"{P}.operator: Invalid value: \"a\": value must be empty when `operator` is 'Exists'"],
    ),
    "seconds without NoExecute": (
        {"key": "gpu", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5},
        [
            f"{P}.effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set",
        ],
    ),
    "an unknown effect": (
        {"key": "gpu", "operator": "Exists", "effect": "Never"},
        [
            f'{P}.effect: Unsupported value: "Never": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"',
        ],
    ),
    "an unknown operator": (
        {"key": "gpu", "operator": "In", "value": "a"},
        [f'{P}.operator: Unsupported value: "In": supported values: "Equal", "Exists"'],
    ),
    "an operator behind a feature gate": (
        {"key": "gpu", "operator": "Gt", "value": "1"},
        [f'{P}.operator: Unsupported value: "Gt": supported values: "Equal", "Exists"'],
    ),
    "several mistakes": (
        {"key": "-", "operator": "Is", "effect": "Now"},
        [
            f'{P}.key: Invalid value: "-": {KEY}',
            f'{P}.operator: Unsupported value: "Is": supported values: "Equal", "Exists"',
            f'{P}.effect: Unsupported value: "Now": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"',
        ],
    ),
    "no object at all": ("gpu", [f'{P}: Invalid value: "gpu": must be an object']),
    "fields of other types": (
        {"key": 1, "operator": ["Exists"], "tolerationSeconds": True},
        [
            f"{P}.key: Invalid value: 1: must be a string",
            f'{P}.operator: Invalid value: ["Exists"]: must be a string',
            f"{P}.tolerationSeconds: Invalid value: true: must be an integer",
        ],
    ),
}


@pytest.mark.parametrize(("given", "want"), VALIDATE.values(), ids=VALIDATE)
def test_validate(given: Any, want: list[str]) -> None:
    assert [str(error) for error in validate(given, path=P)] == want


SAME = {
    "an empty operator means Equal": (
        {"key": "a", "value": "b"},
        {"key": "a", "operator": "Equal", "value": "b"},
        True,
    ),
    "absent and empty are the same": ({"operator": "Exists"}, {"operator": "Exists", "key": "", "effect": ""}, True),
    "null is absent": ({"operator": "Exists", "tolerationSeconds": None}, {"operator": "Exists"}, True),
    "another effect": ({"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}, False),
    "another operator": ({"key": "a", "operator": "Exists"}, {"key": "a"}, False),
    "zero seconds are not for ever": (
        {"key": "a", "effect": "NoExecute", "tolerationSeconds": 0},
        {"key": "a", "effect": "NoExecute"},
        False,
    ),
}


@pytest.mark.parametrize(("one", "other", "want"), SAME.values(), ids=SAME)
def test_identity(one: dict[str, Any], other: dict[str, Any], want: bool) -> None:
    assert (identity(one) == identity(other)) is want


def test_reserved_keys_are_those_of_kubernetes_and_the_one_that_matches_everything() -> None:
    keys = ["", "node.kubernetes.io/not-ready", "node-role.kubernetes.io/control-plane"]
    others = ["example.com/gpu", "node.kubernetes.io", "my.node.kubernetes.io/x", "kubernetes.io/arch"]
    assert [is_reserved(key) for key in keys + others] == [True] * 3 + [False] * 4


TAINT = {"key": "gpu", "value": "a", "effect": "NoSchedule"}
TOLERATES: dict[str, tuple[Object, Object, bool]] = {
    "an equal value": ({"key": "gpu", "operator": "Equal", "value": "a"}, TAINT, True),
    "an equal value of another effect": ({"key": "gpu", "value": "a", "effect": "NoExecute"}, TAINT, False),
    "another value": ({"key": "gpu", "value": "b"}, TAINT, False),
    "no operator means Equal": ({"key": "gpu", "value": "a"}, TAINT, True),
    "Equal to a taint without a value": ({"key": "gpu"}, {"key": "gpu", "effect": "NoSchedule"}, True),
    "Exists takes every value": ({"key": "gpu", "operator": "Exists"}, TAINT, True),
    "Exists of another key": ({"key": "fpga", "operator": "Exists"}, TAINT, False),
    "no effect means every effect": ({"key": "gpu", "operator": "Exists"}, {**TAINT, "effect": "NoExecute"}, True),
    "no key means every key": ({"operator": "Exists"}, TAINT, True),
    "no key for one effect": ({"operator": "Exists", "effect": "NoExecute"}, TAINT, False),
    "seconds do not matter": ({"operator": "Exists", "tolerationSeconds": 0}, {**TAINT, "effect": "NoExecute"}, True),
    "Lt and Gt tolerate nothing while their feature gate is off": (
        {"key": "gpu", "operator": "Gt", "value": "1"},
        {"key": "gpu", "value": "1", "effect": "NoSchedule"},
        False,
    ),
    "an unknown operator": ({"key": "gpu", "operator": "Is", "value": "a"}, TAINT, False),
}


@pytest.mark.parametrize(("toleration", "taint", "want"), TOLERATES.values(), ids=TOLERATES)
def test_tolerates(toleration: Object, taint: Object, want: bool) -> None:
    assert tolerates(toleration, taint) is want


EVICTING, PREFERRING = {**TAINT, "effect": "NoExecute"}, {**TAINT, "effect": "PreferNoSchedule"}
UNTOLERATED: dict[str, tuple[list[Object], list[Object], Object | None]] = {
    "a Node without taints": ([], [], None),
    "no toleration": ([TAINT], [], TAINT),
    "one of two tolerations fits": ([TAINT], [{"key": "fpga"}, {"key": "gpu", "operator": "Exists"}], None),
    "the first that is not tolerated": (
        [TAINT, EVICTING],
        [{"key": "gpu", "value": "a", "effect": "NoSchedule"}],
        EVICTING,
    ),
    "a preference keeps nobody away": ([PREFERRING], [], None),
    "nor does the effect None of device taints": ([{**TAINT, "effect": "None"}], [], None),
}


@pytest.mark.parametrize(("taints", "given", "want"), UNTOLERATED.values(), ids=UNTOLERATED)
def test_untolerated(taints: list[Object], given: list[Object], want: Object | None) -> None:
    assert untolerated(taints, given) == want


TEXTS: dict[str, tuple[Object, str]] = {
    "Exists": ({"key": "a/b", "operator": "Exists", "effect": "NoSchedule"}, "a/b:NoSchedule op=Exists"),
    "Equal": ({"key": "gpu", "value": "a", "effect": "NoSchedule"}, "gpu=a:NoSchedule"),
    "Equal without a value": ({"key": "gpu", "operator": "Equal"}, "gpu"),
    "every effect": ({"key": "gpu", "operator": "Exists"}, "gpu op=Exists"),
    "everything": ({"operator": "Exists"}, "op=Exists"),
    "for a while": (
        {"key": "gpu", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30},
        "gpu:NoExecute op=Exists for 30s",
    ),
}


@pytest.mark.parametrize(("toleration", "want"), TEXTS.values(), ids=TEXTS)
def test_a_toleration_reads_as_kubectl_describe_prints_it(toleration: Object, want: str) -> None:
    assert text(toleration) == want

"""PodQuotas: parsed, or every mistake in one clear line."""

from decimal import Decimal
from typing import Any

import pytest

from tollbar.api import texts
from tollbar.api.quotas import PodQuota, parse_quota
from tollbar.api.reasons import QuotaReason


def quota(**spec: Any) -> dict[str, Any]:
    given = {"limits": {"cpu": "2"}, **spec}
    return {
        "apiVersion": "tollbar.dev/v1alpha1",
        "kind": "PodQuota",
        "metadata": {"name": "q"},
        "spec": {field: value for field, value in given.items() if value is not None},
    }


ERRORS: dict[str, tuple[Any, list[str]]] = {
    "no object": ([], ["Invalid value: []: must be an object"]),
    "no limits": (quota(limits=None), ["spec.limits: Required value"]),
    "less than nothing": (
        quota(limits={"cpu": "-1"}),
        ['spec.limits[cpu]: Invalid value: "-1": must be a quantity of 0 or more'],
    ),
    "no quantity": (
        quota(limits={"cpu": "much"}),
        ['spec.limits[cpu]: Invalid value: "much": must be a quantity of 0 or more'],
    ),
    "as a ResourceQuota has it": (
        quota(limits={"requests.cpu": "1", "limits.cpu": "1", "requests.example.com/gpu": "1"}),
        [
            f'spec.limits[{name}]: Invalid value: "{name}": {texts.OF_REQUESTS}'
            for name in ("requests.cpu", "limits.cpu", "requests.example.com/gpu")
        ],
    ),
    "no patience": (
        quota(patience="0s"),
        ['spec.patience: Invalid value: "0s": must be a duration longer than 0s, such as 60s or 1m30s'],
    ),
    "another order": (
        quota(sharing="Random"),
        ['spec.sharing: Unsupported value: "Random": supported values: "FirstCome", "Fair"'],
    ),
}


@pytest.mark.parametrize(("given", "want"), ERRORS.values(), ids=ERRORS)
def test_mistakes(given: Any, want: list[str]) -> None:
    found = parse_quota(given)
    assert isinstance(found, list)
    assert ([str(error) for error in found], {error.reason for error in found}) == (want, {QuotaReason.INVALID_SPEC})


BAD = {
    "a resource that cannot be": {"limits": {"a b": "1"}},
    "no resource": {"limits": {}},
    "a selector that the API server refuses": {
        "podSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": []}]}
    },
    "a member that is not there": {"hard": {"cpu": "1"}},
}


@pytest.mark.parametrize("spec", BAD.values(), ids=BAD)
def test_what_is_refused(spec: Any) -> None:
    assert isinstance(parse_quota(quota(**spec)), list)


def test_limits_are_numbers() -> None:
    found = parse_quota(quota(limits={"cpu": "1500m", "memory": "1Ki", "pods": 3}))
    assert isinstance(found, PodQuota)
    assert found.spec.amounts == {"cpu": Decimal("1.5"), "memory": Decimal(1024), "pods": Decimal(3)}
    assert (found.spec.patience_seconds, found.spec.sharing) == (600.0, "FirstCome")

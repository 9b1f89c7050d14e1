"""Kubernetes' types quantity and semver."""

from collections.abc import Callable
from typing import Any

import pytest

X: dict[str, Any] = {"s": "abc", "fraction": "1.5", "memory": "96Gi", "version": "1.2.3", "old": "01.2"}

TRUE = {
    "quantities compare": (
        'quantity("1Gi").compareTo(quantity("1024Mi")) == 0 && quantity("1").compareTo(quantity("2")) == -1'
        ' && quantity("2").compareTo(quantity("1")) == 1'
    ),
    "quantities are greater or less": (
        'quantity("2Gi").isGreaterThan(quantity("2G")) && quantity("1m").isLessThan(quantity("1"))'
        ' && !quantity("1").isGreaterThan(quantity("1")) && !quantity("1").isLessThan(quantity("1"))'
    ),
    "quantities equal by value": 'quantity("1k") == quantity("1000") && quantity("1k") != quantity("1Ki")',
    "quantity arithmetic": (
        'quantity("50k").add(quantity("20k")).sub(quantity("10")).add(5).sub(1) == quantity("69994")'
    ),
    "the sign of a quantity": 'sign(quantity("-5m")) == -1 && sign(quantity("0")) == 0 && sign(quantity("1n")) == 1',
    "quantities as integers": (
        'quantity("50k").isInteger() && quantity("50k").asInteger() == 50000'
        ' && quantity("1Gi").asInteger() == 1073741824'
    ),
    "quantities that are no integers": '!quantity("500m").isInteger() && !quantity("1e30").isInteger()',
    "whole quantities that Kubernetes does not keep as integers": (
        '!quantity("1.0").isInteger() && !quantity("1000m").isInteger() && !quantity("1.5Gi").isInteger()'
        ' && !quantity("1Ei").isInteger() && !quantity("500m").add(quantity("500m")).isInteger()'
    ),
    "quantities as doubles": (
        'quantity("500m").asApproximateFloat() == 0.5 && quantity("1e999").asApproximateFloat() > 1e308'
        ' && quantity("3e-9").asApproximateFloat() == 3.0000000000000004e-09'
    ),
    "isQuantity": 'isQuantity("1.3Gi") && !isQuantity("200K") && !isQuantity("Three") && !isQuantity("")',
    "a quantity needs no digits": 'isQuantity("Mi") && quantity("Ki") == quantity("0") && !isQuantity("Ei")',
    "a quantity from data": "quantity(x.memory).compareTo(quantity('80Gi')) >= 0",
    "a quantity on the right of another kind": 'dyn(1) != quantity("1") && !(dyn("1") == quantity("1"))',
    "a quantity and null": 'dyn(quantity("1")) != null && !(dyn(quantity("1")) == null)',
    "a quantity is never in a list of other kinds": '!(dyn(quantity("1")) in [1]) && dyn(quantity("1")) != 1',
    "versions compare": (
        'semver("1.2.3").compareTo(semver("1.10.0")) == -1 && semver("1.0.0").compareTo(semver("1.0.0+b")) == 0'
        ' && semver("2.0.0").compareTo(semver("1.0.0")) == 1'
    ),
    "versions are greater or less": (
        'semver("1.0.0").isGreaterThan(semver("1.0.0-rc.1")) && semver("0.9.0").isLessThan(semver("1.0.0"))'
    ),
    "pre-releases compare": (
        'semver("1.0.0-1").isLessThan(semver("1.0.0-a")) && semver("1.0.0-a").isLessThan(semver("1.0.0-a.1"))'
    ),
    "versions equal by precedence": 'semver("1.0.0+a") == semver("1.0.0+b") && semver("1.0.0") != semver("1.0.1")',
    "parts of a version": (
        'semver("1.2.3").major() == 1 && semver("1.2.3").minor() == 2 && semver("1.2.3").patch() == 3'
    ),
    "parts beyond 63 bits wrap around": 'semver("18446744073709551615.0.0").major() == -1',
    "a normalized version": 'semver("v1.2", true) == semver("1.2.0") && semver("1.2.0", false) == semver("1.2.0")',
    "leading zeros are normalized": 'semver("01.02.00-rc.1", true) == semver("1.2.0-rc.1") && isSemver(x.old, true)',
    "a pre-release without patch is normalized": 'semver("v7.0.-rc.1", true) == semver("7.0.0-rc.1")',
    "isSemver": 'isSemver("1.2.3") && !isSemver("v1.0") && isSemver("v1.0", true) && !isSemver("x", true)',
    "no semantic versions": (
        '!isSemver("1.0.0-01") && !isSemver("1.0.0-") && !isSemver("1.0.0+a..b") && !isSemver("1.0-rc", true)'
        ' && !isSemver("V1.0.0", true) && !isSemver("", true) && !isSemver("18446744073709551616.0.0")'
    ),
    "a version from data": "semver(x.version).minor() == 2",
}


@pytest.mark.parametrize("source", TRUE.values(), ids=TRUE)
def test_the_expression_is_true(answer: Callable[..., Any], source: str) -> None:
    assert answer(source, x=X) is True


FAILURES = {
    "not a quantity": ("quantity(x.s)", "not a quantity"),
    "a quantity that is no integer": ("quantity(x.fraction).asInteger()", "cannot convert value to integer"),
    "a quantity compared with a number": (
        'dyn(quantity("1")) == size(x) - size(x)',
        "no such overload: ==(quantity, int)",
    ),
    "a version compared with a text": ('dyn(semver("1.0.0")) == x.version', "no such overload: ==(semver, string)"),
    "the order of quantities": ('dyn(quantity("1")) < dyn(quantity("2"))', "no such overload: <(quantity, quantity)"),
    "not a version": ("semver(x.s)", "not a semantic version"),
    "not a version even when normalized": ("semver(x.s, true)", "not a semantic version"),
}


@pytest.mark.parametrize(("source", "want"), FAILURES.values(), ids=FAILURES)
def test_the_expression_fails_with_this_error(value: Callable[..., Any], source: str, want: str) -> None:
    kind, text = value(source, x=X)
    assert (kind, text.partition(": ")[2]) == ("RUNTIME", want)

"""Semantic versions 2.0.0."""

from itertools import pairwise

import pytest

from tollbar.model.semver import Version, parse

ASCENDING = [
    "0.0.1",
    "0.9.10",
    "1.0.0-0",
    "1.0.0-1",
    "1.0.0-11",
    "1.0.0--1",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.1",
    "1.10.0",
    "10.0.0",
    "18446744073709551615.0.0",
]


@pytest.mark.parametrize(("lower", "higher"), list(pairwise(ASCENDING)))
def test_precedence(lower: str, higher: str) -> None:
    a, b = parse(lower), parse(higher)
    assert (a < b, b > a, a <= b, a == b, b < a) == (True, True, True, False, False)


def test_parts() -> None:
    assert repr(parse("1.2.3-rc.1+build.5")) == repr(Version(1, 2, 3, ("rc", "1"), "build.5"))


def test_build_metadata_has_no_precedence() -> None:
    a, b = parse("1.0.0+a"), parse("1.0.0+b")
    assert (a == b, hash(a) == hash(b), a < b) == (True, True, False)


REFUSED = {
    "nothing": "",
    "two numbers": "1.2",
    "four numbers": "1.2.3.4",
    "a leading zero": "01.2.3",
    "a leading zero in a pre-release number": "1.2.3-01",
    "a v": "v1.2.3",
    "an empty pre-release": "1.2.3-",
    "an empty identifier": "1.2.3-a..b",
    "an empty build": "1.2.3+",
    "a space": "1.2.3 ",
    "a trailing newline": "1.2.3\n",
    "an underscore": "1.2.3-a_b",
    "a sign": "-1.2.3",
    "a number that needs more than 64 bits": "18446744073709551616.0.0",
    "a pre-release number that needs more than 64 bits": "1.0.0-18446744073709551616",
    "text that is too long": "1.0.0-" + "a" * 251,
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a semantic version"):
        parse(text)


NORMALIZED = {
    "a v goes": ("v1.0.0", "1.0.0"),
    "missing numbers are zero": ("1", "1.0.0"),
    "a missing patch is zero": ("v1.2", "1.2.0"),
    "leading zeros go": ("01.002.0003", "1.2.3"),
    "zeros alone become one": ("000.0.0", "0.0.0"),
    "a pre-release stays": ("v01.2.3-rc.1", "1.2.3-rc.1"),
    "a version in order stays": ("1.2.3", "1.2.3"),
}


@pytest.mark.parametrize(("text", "want"), NORMALIZED.values(), ids=NORMALIZED)
def test_normalized(text: str, want: str) -> None:
    assert parse(text, normalize=True) == parse(want)


@pytest.mark.parametrize("text", ["1.2-rc", "1+build", "vv1.0.0", "v", "1..2", "a.b.c"])
def test_not_normalized(text: str) -> None:
    with pytest.raises(ValueError, match="not a semantic version"):
        parse(text, normalize=True)


def test_versions_do_not_compare_with_other_things() -> None:
    assert (parse("1.0.0") == "1.0.0", parse("1.0.0").__lt__("1.0.0")) == (False, NotImplemented)  # type: ignore[arg-type]

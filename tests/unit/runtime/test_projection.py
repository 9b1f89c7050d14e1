"""Projections: what is kept of an object, of one that is too large, and by two projections together."""

from dataclasses import replace

import pytest

from tollbar.model.objects import Object
from tollbar.runtime.projection import UNCOUNTED, Keep, drop_managed_fields

SPEC = Keep(frozenset({"spec"}))
LIMITED = replace(SPEC, most=10_000)
IDENTITY: Object = {"namespace": "ml", "name": "a", "uid": "u", "resourceVersion": "1"}


def given(length: int) -> Object:
    meta = {**IDENTITY, "labels": {"a": "b"}, "managedFields": [{"manager": "kubectl"}]}
    return {"metadata": meta, "spec": {"note": "x" * length}, "status": {"b": 2}}


def test_all_but_the_managed_fields_is_kept_and_the_given_object_stays_as_it_was() -> None:
    obj = given(1)
    labelled = {**IDENTITY, "labels": {"a": "b"}}
    assert drop_managed_fields(obj) == {"metadata": labelled, "spec": obj["spec"], "status": obj["status"]}
    assert obj == given(1)


@pytest.mark.parametrize("keep", [SPEC, LIMITED], ids=["without a limit", "with one"])
def test_of_a_small_object_the_metadata_and_the_named_members_are_kept(keep: Keep) -> None:
    assert keep(given(10)) == {"metadata": {**IDENTITY, "labels": {"a": "b"}}, "spec": {"note": "x" * 10}}


def test_of_a_large_one_the_identity_is_kept() -> None:
    assert LIMITED(given(10_000)) == {"metadata": IDENTITY, "spec": {}, "stub": True}


def test_a_stub_weighs_what_it_weighs_beside_the_whole_object() -> None:
    small, large = LIMITED.limited(LIMITED.kept(given(5_000))), LIMITED.limited(LIMITED.kept(given(10_000)))
    (_, of_whole), (stub, of_stub) = small, large
    assert (of_stub, LIMITED.weigh(stub)) == ((0, 0, of_whole.stub), of_stub)
    assert 5_000 < of_whole.spares < of_whole.whole < 10_000


def test_without_a_limit_nothing_is_weighed() -> None:
    assert SPEC.limited(SPEC.kept(given(10_000)))[1] is UNCOUNTED


STATUS = Keep(frozenset({"status"}), managers=True)
TOGETHER: dict[str, tuple[Keep, Keep, Keep]] = {
    "the members and managers of both": (SPEC, STATUS, Keep(frozenset({"spec", "status"}), managers=True)),
    "the larger limit": (LIMITED, replace(LIMITED, most=20_000), replace(LIMITED, most=20_000)),
    "what one without a limit keeps whole in stubs": (
        LIMITED,
        STATUS,
        Keep(
            frozenset({"spec", "status"}),
            managers=True,
            most=10_000,
            anyway=frozenset({"status", "metadata"}),
        ),
    ),
}


@pytest.mark.parametrize(("one", "other", "want"), TOGETHER.values(), ids=TOGETHER)
def test_two_projections_together_keep(one: Keep, other: Keep, want: Keep) -> None:
    assert (one | other, other | one) == (want, want)


def test_two_that_keep_something_else_of_the_metadata_of_stubs_have_no_union() -> None:
    other = replace(LIMITED, stub_metadata=lambda meta: meta)
    assert (LIMITED | other, other | LIMITED, other | other) == (other, other, other)
    with pytest.raises(ValueError, match="metadata of stubs"):
        other | replace(LIMITED, stub_metadata=lambda _: {})

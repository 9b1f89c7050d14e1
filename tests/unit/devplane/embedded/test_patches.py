"""Strategic merge patches beyond the contract: order, directives, lists of scalars."""

from typing import Any

import pytest

from tollbar.devplane.embedded.errors import Refused
from tollbar.devplane.embedded.kinds import Kinds
from tollbar.devplane.embedded.patches import merge_patch, strategic_merge
from tollbar.model.objects import Object
from tollbar.model.resources import PODS

POD = Kinds().at(PODS).shape


def names(*given: str) -> list[Object]:
    return [{"name": name} for name in given]


SPEC: dict[str, tuple[Object, Object, Any]] = {
    "what is new comes first": (
        {"containers": names("a", "b")},
        {"containers": names("c")},
        {"containers": names("c", "a", "b")},
    ),
    "an order that is asked for is not kept": (
        {"containers": names("a", "b")},
        {"containers": names("c"), "$setElementOrder/containers": names("b", "c", "a")},
        {"containers": names("c", "a", "b")},
    ),
    "a member is merged, null removes a field of it": (
        {"containers": [{"name": "a", "image": "i", "command": ["c"]}]},
        {"containers": [{"name": "a", "image": "j", "command": None}]},
        {"containers": [{"name": "a", "image": "j"}]},
    ),
    "a map is emptied on request": (
        {"securityContext": {"runAsUser": 1}},
        {"securityContext": {"$patch": "delete"}},
        {"securityContext": {}},
    ),
    "a list without a key is one value": (
        {"tolerations": [{"key": "a"}]},
        {"tolerations": [{"key": "b"}]},
        {"tolerations": [{"key": "b"}]},
    ),
}


@pytest.mark.parametrize(("target", "patch", "want"), SPEC.values(), ids=SPEC)
def test_strategic_merge(target: Object, patch: Object, want: Any) -> None:
    assert strategic_merge({"spec": target}, {"spec": patch}, POD) == {"spec": want}


@pytest.mark.parametrize("directive", [{"$patch": "replace"}, {"$retainKeys": ["name"]}])
def test_other_directives_are_refused_rather_than_ignored(directive: Object) -> None:
    with pytest.raises(Refused, match="does not have"):
        strategic_merge({"spec": {}}, {"spec": {"securityContext": directive}}, POD)


META: dict[str, tuple[Object, Object, Any]] = {
    "a list of scalars is merged": (
        {"finalizers": ["a/x"]},
        {"finalizers": ["a/y", "a/x"]},
        {"finalizers": ["a/x", "a/y"]},
    ),
    "scalars are deleted by name": (
        {"finalizers": ["a/x", "a/y"]},
        {"$deleteFromPrimitiveList/finalizers": ["a/x"]},
        {"finalizers": ["a/y"]},
    ),
}


@pytest.mark.parametrize(("target", "patch", "want"), META.values(), ids=META)
def test_strategic_merge_of_scalars(target: Object, patch: Object, want: Any) -> None:
    assert strategic_merge({"metadata": target}, {"metadata": patch}, POD) == {"metadata": want}


def test_a_patch_does_not_change_what_it_is_applied_to() -> None:
    target: Object = {"spec": {"containers": names("a")}, "metadata": {"labels": {"a": "1"}}}
    before = {"spec": {"containers": names("a")}, "metadata": {"labels": {"a": "1"}}}
    patch: Object = {"spec": {"containers": [{"name": "a", "image": "i"}]}, "metadata": {"labels": {"a": None}}}

    results = (strategic_merge(target, patch, POD)["spec"], merge_patch(target, patch)["metadata"])

    assert (results, target) == (({"containers": [{"name": "a", "image": "i"}]}, {"labels": {}}), before)

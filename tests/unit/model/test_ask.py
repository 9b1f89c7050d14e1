"""What is kept of an object that was asked for."""

import pytest

from tollbar.model.ask import Get, kept
from tollbar.model.objects import Key, Object
from tollbar.model.resources import PODS

POD: Object = {
    "kind": "Pod",
    "metadata": {"name": "web", "annotations": {"note": "x"}},
    "spec": {"containers": [{"name": "a", "image": "b"}, {"image": "c"}], "resourceClaims": None, "nodeName": "n"},
}

KEPT: dict[str, tuple[set[str], Object]] = {
    "members": ({"kind", "spec.nodeName"}, {"kind": "Pod", "spec": {"nodeName": "n"}}),
    "through lists": ({"spec.containers.name"}, {"spec": {"containers": [{"name": "a"}, {}]}}),
    "all that lies below": ({"metadata"}, {"metadata": POD["metadata"]}),
    "a path below another one": ({"metadata", "metadata.name"}, {"metadata": POD["metadata"]}),
    "what is null": ({"spec.resourceClaims.name"}, {"spec": {"resourceClaims": None}}),
    "what is not there": ({"status.phase", "spec.volumes.name"}, {"spec": {}}),
}


@pytest.mark.parametrize(("paths", "want"), KEPT.values(), ids=KEPT)
def test_what_is_kept(paths: set[str], want: Object) -> None:
    assert kept(POD, paths) == want


def test_what_is_kept_of_it_makes_no_other_question() -> None:
    key = Key("ml", "web")
    assert {Get(PODS, key): 1}[Get(PODS, key, frozenset({"kind"}))] == 1

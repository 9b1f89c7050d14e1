"""What goes over the wire: paths, selectors that nobody can parse, protobuf of kubectl, ages, columns' paths."""

from collections.abc import Mapping
from typing import Any

import pytest

from tollbar.devplane.embedded import openapi, paths, protobuf, selectors, tables
from tollbar.devplane.embedded.access import Action
from tollbar.devplane.embedded.errors import Refused
from tollbar.devplane.embedded.kinds import Kinds
from tollbar.model.objects import Object
from tollbar.model.resources import CONFIG_MAPS

PATHS: dict[str, tuple[str, str, Mapping[str, str], Action]] = {
    "a list": ("GET", "/api/v1/pods", {}, Action("list", "", "pods")),
    "a watch": ("GET", "/api/v1/pods", {"watch": "true"}, Action("watch", "", "pods")),
    "an object": ("GET", "/api/v1/namespaces/n/pods/p", {}, Action("get", "", "pods", "", "n", "p")),
    "a name that is quoted": (
        "GET",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/a%2Fb",
        {},
        Action("get", "rbac.authorization.k8s.io", "clusterroles", "", "", "a/b"),
    ),
    "a subresource": (
        "PATCH",
        "/api/v1/namespaces/n/pods/p/status",
        {},
        Action("patch", "", "pods", "status", "n", "p"),
    ),
    "a namespace": ("DELETE", "/api/v1/namespaces/n", {}, Action("delete", "", "namespaces", "", "", "n")),
    "a namespace's subresource": (
        "PUT",
        "/api/v1/namespaces/n/finalize",
        {},
        Action("update", "", "namespaces", "finalize", "", "n"),
    ),
    "several": ("DELETE", "/api/v1/namespaces/n/pods", {}, Action("deletecollection", "", "pods", "", "n")),
    "no resource": ("GET", "/apis/apps/v1", {}, Action("get", path="/apis/apps/v1")),
}


@pytest.mark.parametrize(("method", "path", "query", "want"), PATHS.values(), ids=PATHS)
def test_paths(method: str, path: str, query: Mapping[str, str], want: Action) -> None:
    assert paths.action(method, path, query, paths.parse(path)) == want


UNPARSABLE = {
    "a list without its end": "a in (b",
    "a list that is none": "a in b",
    "an unknown operator": "a like b",
    "a comma too many": "a=b,",
    "two values": "a=b c",
    "not equal": "!a=b",
}


@pytest.mark.parametrize("selector", UNPARSABLE.values(), ids=UNPARSABLE)
def test_selectors_that_cannot_be_parsed(selector: str) -> None:
    with pytest.raises(Refused, match="unable to parse requirement: found"):
        selectors.parse(Kinds().at(CONFIG_MAPS), selector, "")


REVIEW = (
    b'k8s\0\n2\n\x17authorization.k8s.io/v1\x12\x17SelfSubjectAccessReview\x12>\n\x10\n\0\x12\0\x1a\0"\0*\x002\08\0B\0'
    b'\x12 \n\x1e\n\x07default\x12\x05patch\x1a\0"\0*\x04pods2\0:\0\x1a\x08\x08\0\x12\0\x1a\0 \0\x1a\0"\0'
)
"""As `kubectl auth can-i patch pods` sends it."""


def test_a_review_that_kubectl_sends_as_protobuf_is_decoded() -> None:
    attributes = {"namespace": "default", "verb": "patch", "resource": "pods"}
    found = protobuf.decode(REVIEW)

    asked = {key: value for key, value in found["spec"]["resourceAttributes"].items() if value}
    assert (found["apiVersion"], found["kind"], asked) == (
        "authorization.k8s.io/v1",
        "SelfSubjectAccessReview",
        attributes,
    )


NO_PROTOBUF = {
    "JSON": (b"{}", 400),
    "cut off": (REVIEW[:40], 400),
    "a kind that is not known": (REVIEW.replace(b"SelfSubjectAccessReview", b"SomethingElseThatIsSent"), 501),
}


@pytest.mark.parametrize(("body", "want"), NO_PROTOBUF.values(), ids=NO_PROTOBUF)
def test_unknown_protobuf_is_refused(body: bytes, want: int) -> None:
    with pytest.raises(Refused) as refused:
        protobuf.decode(body)

    assert refused.value.code == want


AGES = {
    0: "0s",
    119: "119s",
    120: "2m",
    121: "2m1s",
    600: "10m",
    10_800: "3h",
    11_700: "3h15m",
    28_800: "8h",
    172_800: "2d",
    176_400: "2d1h",
    691_200: "8d",
    63_072_000: "2y",
    66_000_000: "2y33d",
    300_000_000: "9y",
}


def test_ages_have_the_units_that_kubectl_shows() -> None:
    assert {seconds: tables.age("2026-01-01T00:00:00Z", 1_767_225_600.0 + seconds) for seconds in AGES} == AGES


OBJECT: Object = {
    "metadata": {"labels": {"a.b/c": "x"}},
    "status": {"conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "False"}], "list": [1, 2]},
}
COLUMNS: dict[str, list[Any]] = {
    ".status.list[1]": [2],
    ".status.list[*]": [1, 2],
    '.status.conditions[?(@.type=="B")].status': ["False"],
    ".status.conditions[*].type": ["A", "B"],
    r".metadata.labels.a\.b/c": ["x"],
    ".metadata.labels['a.b/c']": ["x"],
    ".status.none.more": [],
    ".status.list[7]": [],
}


@pytest.mark.parametrize(("path", "want"), COLUMNS.items(), ids=COLUMNS)
def test_paths_of_columns(path: str, want: list[Any]) -> None:
    assert tables.at_path(OBJECT, path) == want


def test_the_openapi_document_of_every_kind_lists_its_patch_types() -> None:
    kinds = Kinds()
    taken = {}
    for path in openapi.answer(kinds, "/openapi/v3")["paths"]:  # type: ignore[index]
        document = openapi.answer(kinds, f"/openapi/v3/{path}")
        assert document is not None
        for item in document["paths"].values():
            if "patch" in item:
                gvk = item["patch"]["x-kubernetes-group-version-kind"]
                taken[gvk["group"], gvk["kind"]] = len(item["patch"]["requestBody"]["content"])

    assert taken == {(kind.resource.group, kind.resource.kind): 4 for kind in kinds}

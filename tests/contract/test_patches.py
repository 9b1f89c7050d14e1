"""Patches: JSON Patch, merge patch, strategic merge patch."""

from typing import Any

from contract.api import Answer, Api, Refusal, told
from contract.objects import GPU, add, check, config_map, pod, put, remove
from contract.tables import STALE, Rows, forbidden, invalid, last, not_found, outdated, rows, wrong

from tollbar.model.objects import Object
from tollbar.model.resources import CONFIG_MAPS, PODS
from tollbar.runtime.client import PatchType

OTHER_UID = "00000000-0000-0000-0000-000000000000"
OTHER = wrong("metadata.uid", '"UID"', "field is immutable")
NOTED = {"a/b": "1", "c": "2"}


def patched(api: Api, *operations: Object, path: str = "data") -> Any:
    """A ConfigMap with data {a: "1", b: "2"} and NOTED annotations, after a JSON Patch: what is at the path."""
    api.create(config_map(data={"a": "1", "b": "2"}, annotations=NOTED)).accepted()
    answer = api.patch(CONFIG_MAPS, "map", operations)
    return answer[path] if answer.code < 300 else told(answer)


def twice(api: Api, *operations: Object, kind: PatchType = PatchType.JSON) -> bool:
    """Whether a patch leaves the version as it is."""
    before = api.create(config_map()).accepted()
    body = operations if kind is PatchType.JSON else operations[0]
    return api.patch(CONFIG_MAPS, "map", body, kind).accepted().version == before.version


def raw(api: Api, body: bytes, kind: str = PatchType.JSON.value) -> Answer:
    api.create(config_map()).accepted()
    return api.request("PATCH", api.path(CONFIG_MAPS, "map"), body, content_type=kind)


def on_its_own_version(api: Api, newest: bool) -> Any:
    first = api.create(config_map()).accepted()
    second = api.patch(CONFIG_MAPS, "map", [put("/data/a", "2")]).accepted()
    version = (second if newest else first).version
    return api.patch(CONFIG_MAPS, "map", [put("/metadata/resourceVersion", version), put("/data/a", "3")])


JSON_PATCHES: Rows = {
    "add": (lambda api: patched(api, add("/data/c", "3")), {"a": "1", "b": "2", "c": "3"}),
    "add what is there replaces it": (lambda api: patched(api, add("/data/a", "3")), {"a": "3", "b": "2"}),
    "add a whole map replaces the map": (lambda api: patched(api, add("/data", {"z": "9"})), {"z": "9"}),
    "add below what is not there": (lambda api: patched(api, add("/metadata/labels/a", "1")), STALE),
    "add the map first": (
        lambda api: patched(
            api, add("/metadata/labels", {}), add("/metadata/labels/a~1b", "1"), path="metadata.labels"
        ),
        {"a/b": "1"},
    ),
    "~1 is a slash": (
        lambda api: patched(api, put("/metadata/annotations/a~1b", "x"), path="metadata.annotations"),
        {"a/b": "x", "c": "2"},
    ),
    "replace": (lambda api: patched(api, put("/data/a", "3")), {"a": "3", "b": "2"}),
    "replace what is not there adds it": (
        lambda api: patched(api, put("/data/c", "3")),
        {"a": "1", "b": "2", "c": "3"},
    ),
    "replace below what is not there": (lambda api: patched(api, put("/metadata/labels/a", "1")), STALE),
    "remove": (lambda api: patched(api, remove("/data/a")), {"b": "2"}),
    "remove what is not there": (lambda api: patched(api, remove("/data/c")), STALE),
    "move": (
        lambda api: patched(api, {"op": "move", "from": "/data/a", "path": "/data/c"}),
        {"b": "2", "c": "1"},
    ),
    "copy": (
        lambda api: patched(api, {"op": "copy", "from": "/data/a", "path": "/data/b"}),
        {"a": "1", "b": "1"},
    ),
    "a test that holds": (lambda api: patched(api, check("/data/a", "1"), remove("/data/a")), {"b": "2"}),
    "a test that does not hold": (lambda api: patched(api, check("/data/a", "2"), remove("/data/a")), STALE),
    "a test of what is not there": (lambda api: patched(api, check("/data/c", "2")), STALE),
    "a test against null of what is not there": (
        lambda api: patched(api, check("/data/c", None), add("/data/c", "3")),
        {"a": "1", "b": "2", "c": "3"},
    ),
    "a test against null of what is there": (lambda api: patched(api, check("/data/a", None)), STALE),
    "a test against null below what is not there": (
        lambda api: patched(api, check("/metadata/labels/a", None)),
        STALE,
    ),
    "a test of a map compares values, not the order of keys": (
        lambda api: patched(api, check("/data", {"b": "2", "a": "1"}), remove("/data/a")),
        {"b": "2"},
    ),
    "a test of the uid": (
        lambda api: (
            (uid := api.create(config_map()).accepted()["metadata.uid"])
            and api.patch(CONFIG_MAPS, "map", [check("/metadata/uid", uid), remove("/data")])
        ),
        200,
    ),
    "a test of another uid": (lambda api: patched(api, check("/metadata/uid", OTHER_UID)), STALE),
    "all or nothing": (
        lambda api: last(
            patched(api, put("/data/a", "9"), check("/data/b", "x")),
            api.get(CONFIG_MAPS, "map")["data"],
        ),
        {"a": "1", "b": "2"},
    ),
    "operations see what those before them did": (
        lambda api: patched(api, add("/data/c", "3"), check("/data/c", "3"), remove("/data/a")),
        {"b": "2", "c": "3"},
    ),
    "an unknown operation": (lambda api: patched(api, {"op": "zap", "path": "/data/a"}), STALE),
    "no operation at all: no new version": (lambda api: twice(api), True),
    "only a test: no new version": (lambda api: twice(api, check("/data/a", "1")), True),
    "what changes nothing: no new version": (lambda api: twice(api, put("/data/a", "1")), True),
    "a body that is no list": (
        lambda api: (answer := told(raw(api, b"{}"))) and (answer.code, answer.reason),
        (400, "BadRequest"),
    ),
    "a body that is no JSON": (
        lambda api: (answer := told(raw(api, b"[{"))) and (answer.code, answer.reason),
        (400, "BadRequest"),
    ),
    "another media type": (lambda api: raw(api, b"[]", "application/json").code, 415),
    "more than 10000 operations": (
        lambda api: api.create(config_map()) and api.patch(CONFIG_MAPS, "map", [check("/data/a", "1")] * 10_001),
        Refusal(
            413,
            "RequestEntityTooLarge",
            "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001",
        ),
    ),
    "an object that is not there": (lambda api: api.patch(CONFIG_MAPS, "map", []), not_found('configmaps "map"')),
    "with the newest version in it": (lambda api: on_its_own_version(api, newest=True), 200),
    "with an older version in it": (
        lambda api: on_its_own_version(api, newest=False),
        outdated('configmaps "map"'),
    ),
    "the uid cannot be changed": (
        lambda api: patched(api, put("/metadata/uid", OTHER_UID)),
        invalid('ConfigMap "map"', OTHER),
    ),
    "what validation refuses names its causes": (
        lambda api: patched(api, add("/data/a b", "1")).causes[0][:2],
        ("FieldValueInvalid", "data[a b]"),
    ),
}


@rows(JSON_PATCHES)
def test_json_patches(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want


def gates_after(api: Api, *operations: Object) -> Any:
    """The gates a, b, c of a Pod after a JSON Patch, in one word."""
    api.create(pod("e.com/a", "e.com/b", "e.com/c")).accepted()
    answer = api.patch(PODS, "web", operations)
    return names_of(answer) if answer.code < 300 else told(answer)


def names_of(answer: Answer) -> str:
    return "".join(each["name"][-1] for each in answer["spec.schedulingGates"] or ())


GATES = "/spec/schedulingGates"
LIST_PATCHES: Rows = {
    "by index": (lambda api: gates_after(api, remove(f"{GATES}/1")), "ac"),
    "by an index past the end": (lambda api: gates_after(api, remove(f"{GATES}/3")), STALE),
    "a test of what the index holds": (
        lambda api: gates_after(api, check(f"{GATES}/1/name", "e.com/b"), remove(f"{GATES}/1")),
        "ac",
    ),
    "an index that means another one by now": (
        lambda api: last(
            gates_after(api, remove(f"{GATES}/0")),
            api.patch(PODS, "web", [check(f"{GATES}/1/name", "e.com/b"), remove(f"{GATES}/1")]),
        ),
        STALE,
    ),
    "indexes count in the list as changed so far": (
        lambda api: gates_after(api, remove(f"{GATES}/0"), remove(f"{GATES}/0")),
        "c",
    ),
    "- appends": (
        lambda api: last(
            api.create(pod()),
            [each["key"] for each in api.patch(PODS, "web", [add("/spec/tolerations/-", GPU)])["spec.tolerations"]],
        ),
        ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "example.com/gpu"],
    ),
    "an index inserts": (
        lambda api: last(
            api.create(pod()),
            [each["key"] for each in api.patch(PODS, "web", [add("/spec/tolerations/0", GPU)])["spec.tolerations"]],
        ),
        ["example.com/gpu", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"],
    ),
    "the whole list": (lambda api: gates_after(api, remove(GATES)), ""),
}


@rows(LIST_PATCHES)
def test_json_patches_of_lists(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want


def merged(api: Api, body: Object, path: str = "data") -> Any:
    """A ConfigMap with data {a: "1", b: "2"} after a merge patch: what is at the path."""
    api.create(config_map(data={"a": "1", "b": "2"}, finalizers=["e.com/a"])).accepted()
    answer = api.patch(CONFIG_MAPS, "map", body, PatchType.MERGE)
    return answer[path] if answer.code < 300 else told(answer)


def merged_version(api: Api, newest: bool) -> Answer:
    first = api.create(config_map()).accepted()
    second = api.patch(CONFIG_MAPS, "map", {"data": {"a": "2"}}, PatchType.MERGE).accepted()
    version = (second if newest else first).version
    return api.patch(CONFIG_MAPS, "map", {"metadata": {"resourceVersion": version}}, PatchType.MERGE)


MERGE_PATCHES: Rows = {
    "maps are merged": (lambda api: merged(api, {"data": {"b": "3"}}), {"a": "1", "b": "3"}),
    "null removes": (lambda api: merged(api, {"data": {"b": None}}), {"a": "1"}),
    "null of what is not there": (lambda api: merged(api, {"data": {"c": None}}), {"a": "1", "b": "2"}),
    "null removes a whole map": (lambda api: merged(api, {"data": None}), None),
    "a map that is not there is made": (
        lambda api: merged(api, {"metadata": {"labels": {"a": "1"}}}, "metadata.labels"),
        {"a": "1"},
    ),
    "lists are replaced": (
        lambda api: merged(api, {"metadata": {"finalizers": ["e.com/b"]}}, "metadata.finalizers"),
        ["e.com/b"],
    ),
    "what changes nothing: no new version": (
        lambda api: twice(api, {"data": {"a": "1"}}, kind=PatchType.MERGE),
        True,
    ),
    "with the newest version in it": (lambda api: merged_version(api, newest=True), 200),
    "with an older version in it": (lambda api: merged_version(api, newest=False), outdated('configmaps "map"')),
    "with another uid in it": (
        lambda api: merged(api, {"metadata": {"uid": OTHER_UID}}),
        invalid('ConfigMap "map"', OTHER),
    ),
    "a body that is a list": (
        lambda api: raw(api, b"[]", PatchType.MERGE.value).code,
        400,
    ),
    "an object that is not there": (
        lambda api: api.patch(CONFIG_MAPS, "map", {}, PatchType.MERGE),
        not_found('configmaps "map"'),
    ),
}


@rows(MERGE_PATCHES)
def test_merge_patches(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want


def strategic(api: Api, body: Object, path: str = "") -> Any:
    """A Pod with gates a, b, c, after a strategic merge patch: what is at the path, or the names of its gates."""
    api.create(pod("e.com/a", "e.com/b", "e.com/c", containers=TWO)).accepted()
    answer = api.patch(PODS, "web", body, PatchType.STRATEGIC)
    if answer.code >= 300:
        return told(answer)
    return answer[path] if path else names_of(answer)


OTHERS = {"key": "example.com/other", "operator": "Exists"}
TWO = [{"name": "main", "image": "none"}, {"name": "side", "image": "none"}]
STRATEGIC_PATCHES: Rows = {
    "a gate is removed by name": (
        lambda api: strategic(api, {"spec": {"schedulingGates": [{"name": "e.com/b", "$patch": "delete"}]}}),
        "ac",
    ),
    "a gate that is not there is removed by name": (
        lambda api: strategic(api, {"spec": {"schedulingGates": [{"name": "e.com/z", "$patch": "delete"}]}}),
        "abc",
    ),
    "containers are merged by name": (
        lambda api: [
            each["image"]
            for each in strategic(
                api, {"spec": {"containers": [{"name": "side", "image": "other"}]}}, "spec.containers"
            )
        ],
        ["none", "other"],
    ),
    "tolerations are one value, of which admission gives the usual two again": (
        lambda api: [each["key"] for each in strategic(api, {"spec": {"tolerations": [GPU]}}, "spec.tolerations")],
        ["example.com/gpu", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"],
    ),
    "tolerations are one value: another one is lost": (
        lambda api: last(
            strategic(api, {"spec": {"tolerations": [GPU]}}),
            api.patch(PODS, "web", {"spec": {"tolerations": [OTHERS]}}, PatchType.STRATEGIC),
        ),
        invalid(
            'Pod "web"',
            forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds"),
        ),
    ),
    "labels are merged, null removes": (
        lambda api: strategic(api, {"metadata": {"labels": {"a": "1", "b": None}}}, "metadata.labels"),
        {"a": "1"},
    ),
    "with another uid in it": (
        lambda api: strategic(api, {"metadata": {"uid": OTHER_UID}}),
        invalid('Pod "web"', OTHER),
    ),
    "with an older version in it": (
        lambda api: last(
            first := api.create(pod("e.com/a")),
            api.patch(PODS, "web", {"metadata": {"labels": {"a": "1"}}}, PatchType.MERGE),
            api.patch(PODS, "web", {"metadata": {"resourceVersion": first.version}}, PatchType.STRATEGIC),
        ),
        outdated('pods "web"'),
    ),
}


@rows(STRATEGIC_PATCHES)
def test_strategic_merge_patches(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want

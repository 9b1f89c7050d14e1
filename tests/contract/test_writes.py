"""Server-side apply, dry runs, unknown fields, and what status and generation have to do with writes."""

from typing import Any

from contract.api import Answer, Api, Refusal, told
from contract.objects import GPU, add, config_map, pod, remove
from contract.tables import Rows, invalid, last, not_found, rows

from tollbar.model.objects import Object
from tollbar.model.resources import CONFIG_MAPS, PODS
from tollbar.runtime.client import PatchType


def applied(api: Api, manager: str, data: Object, **query: str) -> Answer:
    return api.patch(CONFIG_MAPS, "map", config_map(data=data), PatchType.APPLY, fieldManager=manager, **query)


def owners(answer: Answer) -> dict[str, Any]:
    """Who owns what of the data, by manager and operation."""
    return {
        f"{each['manager']} {each['operation']}": sorted(each["fieldsV1"].get("f:data", {}))
        for each in answer["metadata.managedFields"]
    }


APPLY: Rows = {
    "creates what is not there": (lambda api: applied(api, "me", {"a": "1"}), 201),
    "changes what is there": (
        lambda api: last(applied(api, "me", {"a": "1"}), applied(api, "me", {"a": "2"})["data"]),
        {"a": "2"},
    ),
    "the same again: no new version": (
        lambda api: applied(api, "me", {"a": "1"}).version == applied(api, "me", {"a": "1"}).version,
        True,
    ),
    "what a manager no longer applies is removed": (
        lambda api: last(applied(api, "me", {"a": "1", "b": "2"}), applied(api, "me", {"a": "1"})["data"]),
        {"a": "1"},
    ),
    "what another applied stays": (
        lambda api: last(applied(api, "you", {"b": "2"}), applied(api, "me", {"a": "1"})["data"]),
        {"a": "1", "b": "2"},
    ),
    "fields belong to who applied them": (
        lambda api: last(applied(api, "you", {"b": "2"}), owners(applied(api, "me", {"a": "1"}))),
        {"me Apply": ["f:a"], "you Apply": ["f:b"]},
    ),
    "another's field with another value": (
        lambda api: last(applied(api, "you", {"a": "1"}), applied(api, "me", {"a": "2"})),
        Refusal(
            409,
            "Conflict",
            'Apply failed with 1 conflict: conflict with "you": .data.a',
            (("FieldManagerConflict", ".data.a", 'conflict with "you"'),),
        ),
    ),
    "another's field with the same value is shared": (
        lambda api: last(applied(api, "you", {"a": "1"}), owners(applied(api, "me", {"a": "1"}))),
        {"me Apply": ["f:a"], "you Apply": ["f:a"]},
    ),
    "another's field by force": (
        lambda api: last(applied(api, "you", {"a": "1"}), owners(applied(api, "me", {"a": "2"}, force="true"))),
        {"me Apply": ["f:a"]},
    ),
    "a field that an update wrote": (
        lambda api: last(
            api.create(config_map(), fieldManager="you"),
            (said := applied(api, "me", {"a": "2"}).refusal().message)
            and said.startswith('Apply failed with 1 conflict: conflict with "you" using v1'),
        ),
        True,
    ),
    "an update takes what was applied": (
        lambda api: last(
            applied(api, "me", {"a": "1"}),
            owners(api.patch(CONFIG_MAPS, "map", {"data": {"a": "2"}}, PatchType.MERGE, fieldManager="you")),
        ),
        {"you Update": ["f:a"]},
    ),
    "without a manager": (
        lambda api: api.patch(CONFIG_MAPS, "map", config_map(), PatchType.APPLY),
        invalid(
            'PatchOptions.meta.k8s.io ""',
            ("FieldValueRequired", "fieldManager", "Required value: is required for apply patch"),
        ),
    ),
    "with the object's managedFields in it": (
        lambda api: last(
            body := applied(api, "me", {"a": "1"}),
            api.patch(CONFIG_MAPS, "map", body.object, PatchType.APPLY, fieldManager="me"),
        ),
        Refusal(400, "BadRequest", "metadata.managedFields must be nil"),
    ),
    "an unknown field": (
        lambda api: api.patch(CONFIG_MAPS, "map", {**config_map(), "dat": {}}, PatchType.APPLY, fieldManager="me").code,
        500,
    ),
    "a list by key: containers of two managers": (
        lambda api: last(
            api.patch(PODS, "web", pod("e.com/a"), PatchType.APPLY, fieldManager="you"),
            [
                (each["name"], each["image"])
                for each in api.patch(
                    PODS,
                    "web",
                    {**pod(), "spec": {"containers": [{"name": "main", "image": "other"}]}},
                    PatchType.APPLY,
                    fieldManager="me",
                    force="true",
                )["spec.containers"]
            ],
        ),
        [("main", "other")],
    ),
}


@rows(APPLY)
def test_server_side_apply(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want


TIMES: Rows = {
    "for a minute": (lambda api: api.create(config_map(), timeout="1m0s"), 201),
    "for longer than the server works on any": (lambda api: api.create(config_map(), timeout="1h"), 201),
    "without a limit": (lambda api: api.create(config_map(), timeout="0s"), 201),
    "what is no duration": (
        lambda api: api.create(config_map(), timeout="soon"),
        Refusal(400, "BadRequest", 'invalid timeout specified in the request URL - time: invalid duration "soon"'),
    ),
}


@rows(TIMES)
def test_how_long_a_write_may_be_worked_on(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want


DRY_RUNS: Rows = {
    "a creation answers with what would be": (
        lambda api: (
            (answer := api.create(pod("e.com/a"), dryRun="All"))
            and (answer.code, answer["metadata.uid"] is not None, len(answer["spec.tolerations"]))
        ),
        (201, True, 2),
    ),
    "a creation stores nothing": (
        lambda api: last(api.create(config_map(), dryRun="All"), api.get(CONFIG_MAPS, "map")),
        not_found('configmaps "map"'),
    ),
    "what is taken is refused": (
        lambda api: last(api.create(config_map()), api.create(config_map(), dryRun="All")),
        Refusal(409, "AlreadyExists", 'configmaps "map" already exists'),
    ),
    "a patch changes nothing": (
        lambda api: last(
            api.create(config_map()),
            api.patch(CONFIG_MAPS, "map", [remove("/data/a")], dryRun="All"),
            api.get(CONFIG_MAPS, "map")["data"],
        ),
        {"a": "1"},
    ),
    "a patch answers with what would be": (
        lambda api: last(
            api.create(config_map()),
            api.patch(CONFIG_MAPS, "map", [add("/data/b", "2")], dryRun="All")["data"],
        ),
        {"a": "1", "b": "2"},
    ),
    "an application creates nothing": (
        lambda api: last(applied(api, "me", {"a": "1"}, dryRun="All"), api.get(CONFIG_MAPS, "map")),
        not_found('configmaps "map"'),
    ),
    "half a dry run": (
        lambda api: api.create(config_map(), dryRun="Some"),
        invalid(
            'CreateOptions.meta.k8s.io ""',
            ("FieldValueNotSupported", "dryRun", 'Unsupported value: ["Some"]: supported values: "All"'),
        ),
    ),
}


@rows(DRY_RUNS)
def test_dry_runs(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want


def misspelt(api: Api, **query: str) -> Any:
    """A ConfigMap with a field too many: the code, the warnings or the refusal, and whether the field was kept."""
    answer = api.create({**config_map(), "dat": {"a": "1"}}, **query)
    return (answer.code, answer.warnings, "dat" in answer.object) if answer.code < 300 else told(answer)


def misspelt_patch(api: Api, kind: PatchType, body: Any, **query: str) -> Any:
    api.create(pod("e.com/a")).accepted()
    answer = api.patch(PODS, "web", body, kind, **query)
    if answer.code < 300:
        return answer.code, answer.warnings, answer["spec.tolerations.2"]
    return answer.code, answer.refusal().reason, answer.refusal().message.split(":")[-1].strip()


TOO_MUCH = [add("/spec/tolerations/-", {**GPU, "foo": "bar"})]
UNKNOWN_FIELDS: Rows = {
    "by default: a warning, and the field is dropped": (
        lambda api: misspelt(api),
        (201, ('unknown field "dat"',), False),
    ),
    "Warn: the same": (
        lambda api: misspelt(api, fieldValidation="Warn"),
        (201, ('unknown field "dat"',), False),
    ),
    "Ignore: silence": (lambda api: misspelt(api, fieldValidation="Ignore"), (201, (), False)),
    "Strict: refused": (
        lambda api: misspelt(api, fieldValidation="Strict"),
        Refusal(
            400,
            "BadRequest",
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "dat"',
        ),
    ),
    "a JSON Patch: a warning with the whole path": (
        lambda api: misspelt_patch(api, PatchType.JSON, TOO_MUCH),
        (200, ('unknown field "spec.tolerations[2].foo"',), GPU),
    ),
    "a JSON Patch, Strict: refused": (
        lambda api: misspelt_patch(api, PatchType.JSON, TOO_MUCH, fieldValidation="Strict"),
        (422, "Invalid", 'unknown field "spec.tolerations[2].foo"'),
    ),
    "a key twice, Strict: refused": (
        lambda api: told(
            api.request(
                "POST",
                api.path(CONFIG_MAPS),
                b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"map"},"data":{"a":"1"},"data":{"a":"2"}}',
                fieldValidation="Strict",
            )
        ).message.split(": ")[-1],
        'duplicate field "data"',
    ),
    "an unknown level": (
        lambda api: misspelt(api, fieldValidation="Loud").code,
        422,
    ),
}


@rows(UNKNOWN_FIELDS)
def test_unknown_fields(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want


def generations(api: Api, *patches: tuple[Any, str]) -> list[int]:
    """A gated Pod's generation at first and after each merge patch of a subresource."""
    found = [api.create(pod("e.com/a", "e.com/b")).accepted()["metadata.generation"]]
    return found + [
        api.patch(PODS, "web", body, PatchType.MERGE, sub).accepted()["metadata.generation"] for body, sub in patches
    ]


STATUS: Rows = {
    "generation counts changes of the spec": (
        lambda api: generations(api, ({"spec": {"schedulingGates": [{"name": "e.com/a"}]}}, "")),
        [1, 2],
    ),
    "generation does not count labels": (
        lambda api: generations(api, ({"metadata": {"labels": {"a": "b"}}}, "")),
        [1, 1],
    ),
    "generation does not count the status": (
        lambda api: generations(api, ({"status": {"message": "x"}}, "status")),
        [1, 1],
    ),
    "a status at creation is dropped": (
        lambda api: api.create({**pod("e.com/a"), "status": {"message": "x"}})["status.message"],
        None,
    ),
    "a status through the object is dropped": (
        lambda api: last(
            api.create(pod("e.com/a")),
            api.patch(PODS, "web", {"status": {"message": "x"}}, PatchType.MERGE)["status.message"],
        ),
        None,
    ),
    "a spec through the status is dropped": (
        lambda api: last(
            api.create(pod("e.com/a")),
            api.patch(PODS, "web", [remove("/spec/schedulingGates")], sub="status")["spec.schedulingGates"],
        ),
        [{"name": "e.com/a"}],
    ),
    "labels and annotations through the status are taken": (
        lambda api: last(
            api.create(pod("e.com/a")),
            (
                found := api.patch(
                    PODS,
                    "web",
                    {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}},
                    PatchType.MERGE,
                    "status",
                )
            )
            and (found["metadata.labels"], found["metadata.annotations"]),
        ),
        ({"a": "b"}, {"c": "d"}),
    ),
    "conditions are merged by type, in a strategic merge patch": (
        lambda api: last(
            api.create(pod("e.com/a")),
            [
                each["type"]
                for each in api.patch(
                    PODS,
                    "web",
                    {"status": {"conditions": [{"type": "e.com/Seen", "status": "True"}]}},
                    PatchType.STRATEGIC,
                    "status",
                )["status.conditions"]
            ],
        ),
        ["e.com/Seen", "PodScheduled"],
    ),
    "a kind without a status has no such path": (
        lambda api: last(api.create(config_map()), api.get(CONFIG_MAPS, "map", "status").code),
        404,
    ),
}


@rows(STATUS)
def test_status_and_generation(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want

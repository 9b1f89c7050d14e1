"""Objects as such: creation, names, replacement under optimistic concurrency, deletion, finalizers."""

from typing import Any

from contract.api import Answer, Api, Refusal, told
from contract.objects import config_map, made, pod
from contract.tables import Rows, forbidden, invalid, last, not_found, outdated, rows, wrong

from tollbar.model.objects import Object
from tollbar.model.resources import CONFIG_MAPS, LEASES, PODS
from tollbar.runtime.client import PatchType

FINALIZER = "contract.example.com/wait"
HELD: Object = {"finalizers": [FINALIZER]}


def create_twice(api: Api) -> Any:
    api.create(config_map())
    return api.create(config_map())


def lengths(api: Api, **metadata: str) -> tuple[str, int]:
    """What a generated name starts with and how long it is."""
    made_up = {**config_map(), "metadata": metadata}
    name = api.create(made_up).accepted()["metadata.name"]
    return name[: len(metadata["generateName"])], len(name)


CREATE: Rows = {
    "the server gives a name's object a uid, a version and a time": (
        lambda api: sorted(api.create(config_map())["metadata"]),
        ["creationTimestamp", "managedFields", "name", "namespace", "resourceVersion", "uid"],
    ),
    "what was created is what is read": (
        lambda api: api.create(config_map()).object == api.get(CONFIG_MAPS, "map").object,
        True,
    ),
    "a client's uid and generation are not taken": (
        lambda api: (
            api.create(pod("example.com/a", metadata={"uid": "mine", "generation": 7}))["metadata.uid"] != "mine",
            api.get(PODS, "web")["metadata.generation"],
        ),
        (True, 1),
    ),
    "a ConfigMap has no generation": (lambda api: api.create(config_map())["metadata.generation"], None),
    "the name is taken": (create_twice, Refusal(409, "AlreadyExists", 'configmaps "map" already exists')),
    "the name is taken by what is being deleted": (
        lambda api: last(
            api.create(config_map(**HELD)),
            api.delete(CONFIG_MAPS, "map"),
            told(api.create(config_map())),
        ),
        Refusal(409, "AlreadyExists", 'object is being deleted: configmaps "map" already exists'),
    ),
    "a resourceVersion at creation": (
        lambda api: api.create(config_map(resourceVersion="1")),
        Refusal(500, "", "resourceVersion should not be set on objects to be created"),
    ),
    "another namespace in the body than in the path": (
        lambda api: api.create(config_map(namespace="other")),
        Refusal(
            400,
            "BadRequest",
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
    ),
    "a namespace that does not exist": (
        lambda api: api.request("POST", "/api/v1/namespaces/none/configmaps", config_map()),
        not_found('namespaces "none"'),
    ),
    "no name": (
        lambda api: api.create({**config_map(), "metadata": {}}),
        invalid(
            'ConfigMap ""', ("FieldValueRequired", "metadata.name", "Required value: name or generateName is required")
        ),
    ),
    "a name in capitals": (
        lambda api: api.create(config_map("Map")),
        invalid(
            'ConfigMap "Map"',
            wrong(
                "metadata.name",
                '"Map"',
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and"
                " must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is"
                " '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ),
        ),
    ),
    "a body that is no JSON": (
        lambda api: api.request("POST", api.path(CONFIG_MAPS), b"{").refusal().reason,
        "BadRequest",
    ),
    "a kind that is not served": (
        lambda api: api.request("GET", "/apis/contract.example.com/v9/gadgets"),
        Refusal(404, "", "404 page not found\n"),
    ),
    "generateName adds five characters": (lambda api: lengths(api, generateName="made-"), ("made-", 10)),
    "a generated name has at most 63 characters": (
        lambda api: lengths(api, generateName="x" * 70)[1],
        63,
    ),
    "a name wins over generateName": (
        lambda api: api.create(config_map(generateName="made-"))["metadata.name"],
        "map",
    ),
    "generateName stays in the object": (
        lambda api: api.create({**config_map(), "metadata": {"generateName": "made-"}})["metadata.generateName"],
        "made-",
    ),
    "the object's own Namespace label names it": (
        lambda api: (
            api.request("GET", f"/api/v1/namespaces/{api.namespace}")["metadata.labels"]
            == {"kubernetes.io/metadata.name": api.namespace}
        ),
        True,
    ),
}


@rows(CREATE)
def test_create(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want


def changed(api: Api, **changes: Any) -> Object:
    """A ConfigMap as stored with another value, and with other metadata."""
    found = api.create(config_map()).accepted().object
    meta = {key: value for key, value in {**found["metadata"], **changes}.items() if value is not None}
    return {**found, "metadata": meta, "data": {"a": "2"}}


def after_another_write(api: Api) -> Object:
    body = changed(api)
    api.replace({**body, "data": {"a": "3"}}).accepted()
    return body


def unchanged_version(api: Api) -> bool:
    before = api.create(config_map()).accepted()
    return api.replace(before.object).version == before.version


def growing(api: Api) -> bool:
    versions = [int(api.create(config_map()).version)]
    versions += [int(api.patch(CONFIG_MAPS, "map", {"data": {"a": text}}, PatchType.MERGE).version) for text in "xyz"]
    return versions == sorted(set(versions))


REPLACE: Rows = {
    "with the newest version": (lambda api: api.replace(changed(api)), 200),
    "with an older version": (lambda api: api.replace(after_another_write(api)), outdated('configmaps "map"')),
    "without a version": (
        lambda api: told(api.replace(changed(api, resourceVersion=None))),
        200,
    ),
    "with another uid": (
        lambda api: api.replace(changed(api, uid="00000000-0000-0000-0000-000000000000")).refusal().reason,
        "Conflict",
    ),
    "what is not there": (lambda api: api.replace(config_map()), not_found('configmaps "map"')),
    "a Lease that is not there is created": (lambda api: api.replace(made(LEASES, "turn", spec={})), 201),
    "under another name than the path's": (
        lambda api: api.replace(changed(api, name="other"), name="map"),
        Refusal(
            400,
            "BadRequest",
            "the name of the object (other) does not match the name on the URL (map)",
        ),
    ),
    "with what is already there: no new version": (unchanged_version, True),
    "every write has a greater version": (growing, True),
    "a creation time cannot be written": (
        lambda api: (
            api.replace(changed(api, creationTimestamp="2001-01-01T00:00:00Z"))["metadata.creationTimestamp"]
            > "2001-01-01T00:00:00Z"
        ),
        True,
    ),
}


@rows(REPLACE)
def test_replace(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want


def deleted(api: Api, **options: Any) -> Any:
    """The answer to the deletion of a ConfigMap, and to reading it afterwards."""
    return told(api.delete(CONFIG_MAPS, "map", **options)), told(api.get(CONFIG_MAPS, "map"))


def bound(api: Api) -> Answer:
    api.create(pod()).accepted()
    return api.bind()


def terminating(api: Api, res: Any, name: str) -> tuple[bool, Any]:
    """Whether an object waits for its end, and the grace that it was given."""
    found = api.get(res, name)
    return found["metadata.deletionTimestamp"] is not None, found["metadata.deletionGracePeriodSeconds"]


def held(api: Api) -> Answer:
    api.create(config_map(**HELD)).accepted()
    return api.delete(CONFIG_MAPS, "map")


GONE = not_found('configmaps "map"')
DELETE: Rows = {
    "it is gone at once": (lambda api: last(api.create(config_map()), deleted(api)), (200, GONE)),
    "the answer names what was deleted": (
        lambda api: (
            (uid := api.create(config_map())["metadata.uid"])
            and api.delete(CONFIG_MAPS, "map")["details"] == {"name": "map", "kind": "configmaps", "uid": uid}
        ),
        True,
    ),
    "it is not there": (lambda api: deleted(api), (GONE, GONE)),
    "with its uid": (
        lambda api: deleted(api, preconditions={"uid": api.create(config_map())["metadata.uid"]}),
        (200, GONE),
    ),
    "with another uid": (
        lambda api: last(
            api.create(config_map()),
            deleted(api, preconditions={"uid": "00000000-0000-0000-0000-000000000000"}),
        ),
        (
            Refusal(
                409,
                "Conflict",
                'Operation cannot be fulfilled on ConfigMap "map": the UID in the precondition (UID) does not match the'
                " UID in record (UID). The object might have been deleted and then recreated",
            ),
            200,
        ),
    ),
    "with an older version": (
        lambda api: last(
            after_another_write(api),
            (
                api.delete(CONFIG_MAPS, "map", preconditions={"resourceVersion": "1"}).refusal().reason,
                told(api.get(CONFIG_MAPS, "map")),
            ),
        ),
        ("Conflict", 200),
    ),
    "a dry run deletes nothing": (
        lambda api: last(api.create(config_map()), deleted(api, dryRun=["All"])),
        (200, 200),
    ),
    "a Pod without a Node is gone at once, whatever its grace": (
        lambda api: last(
            api.create(pod(terminationGracePeriodSeconds=30)),
            api.delete(PODS, "web").accepted(),
            api.get(PODS, "web"),
        ),
        not_found('pods "web"'),
    ),
    "a Pod with a Node waits for its grace": (
        lambda api: last(bound(api), api.delete(PODS, "web").accepted(), terminating(api, PODS, "web")),
        (True, 30),
    ),
    "a Pod with a Node and no grace is gone at once": (
        lambda api: last(bound(api), api.delete(PODS, "web", gracePeriodSeconds=0).accepted(), api.get(PODS, "web")),
        not_found('pods "web"'),
    ),
    "several by label": (
        lambda api: last(
            [api.create(config_map(name, labels={"kind": name[0]})) for name in ("a1", "a2", "b1")],
            api.request("DELETE", api.path(CONFIG_MAPS), labelSelector="kind=a").accepted(),
            api.names(CONFIG_MAPS, labelSelector="kind in (a,b)"),
        ),
        ["b1"],
    ),
}


@rows(DELETE)
def test_delete(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want


def finalizers(*names: str) -> Object:
    return {"metadata": {"finalizers": list(names)}}


FINALIZERS: Rows = {
    "a finalizer keeps the object, with a time of deletion": (
        lambda api: last(held(api), terminating(api, CONFIG_MAPS, "map")),
        (True, 0),
    ),
    "a deletion that waits answers with the object": (
        lambda api: last(api.create(config_map(**HELD)), api.delete(CONFIG_MAPS, "map")["kind"]),
        "ConfigMap",
    ),
    "the time of deletion stays at the second deletion": (
        lambda api: last(
            held(api),
            api.get(CONFIG_MAPS, "map").version == api.delete(CONFIG_MAPS, "map").version,
        ),
        True,
    ),
    "without its last finalizer it is gone": (
        lambda api: (
            held(api),
            told(api.patch(CONFIG_MAPS, "map", finalizers(), PatchType.MERGE)),
            told(api.get(CONFIG_MAPS, "map")),
        )[1:],
        (200, GONE),
    ),
    "it can be changed while it waits": (
        lambda api: last(held(api), api.patch(CONFIG_MAPS, "map", {"data": {"a": "2"}}, PatchType.MERGE)),
        200,
    ),
    "no finalizer can be added while it waits": (
        lambda api: last(held(api), api.patch(CONFIG_MAPS, "map", finalizers(FINALIZER, "b.c/d"), PatchType.MERGE)),
        invalid(
            'ConfigMap "map"',
            forbidden(
                "metadata.finalizers",
                'no new finalizers can be added if the object is being deleted, found new finalizers []string{"b.c/d"}',
            ),
        ),
    ),
    "a finalizer without a domain": (
        lambda api: api.create(config_map(finalizers=["wait"])).refusal().causes[0][:2],
        ("FieldValueInvalid", "metadata.finalizers[0]"),
    ),
    "a time of deletion cannot be written": (
        lambda api: api.create(config_map(deletionTimestamp="2001-01-01T00:00:00Z"))["metadata.deletionTimestamp"],
        None,
    ),
    "a gated Pod with a finalizer can still be released while it waits": (
        lambda api: last(
            api.create(pod("example.com/a", metadata=HELD)),
            api.delete(PODS, "web"),
            api.patch(PODS, "web", [{"op": "remove", "path": "/spec/schedulingGates/0"}])["spec.schedulingGates"],
        ),
        None,
    ),
}


@rows(FINALIZERS)
def test_finalizers(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want

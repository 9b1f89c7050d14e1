"""When Tollbar's own webhook configurations have it called, and what it is told then."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from contract.api import Answer, Api, Refusal, at, told, until
from contract.definitions import established
from contract.hooks import Hooks, denying
from contract.objects import DEFAULTS, SERVICE_ACCOUNTS, made, pod, resource_of

from tollbar.api import crds, webhooks
from tollbar.model.objects import Object
from tollbar.model.resources import (
    NAMESPACES,
    PODS,
    SCHEDULING_GATES,
    TOLERATION_RULES,
)
from tollbar.runtime.client import PatchType
from tollbar.wellknown import ANNOTATION_PROVENANCE, GATE, LABEL_SKIP

OURS = webhooks.PODS_PATH[1:]
WIDE = f"wide{webhooks.PODS_PATH}"
RULES = webhooks.RULES_PATH[1:]


@pytest.fixture(scope="module")
def hooks(home: Api, server: Hooks) -> Iterator[Hooks]:
    """A server in the place of Tollbar's webhook, by our configurations: the usual, that for Pod-only rules, rules."""
    with established(home, *crds.all_crds()):
        at_url = webhooks.at_url(server.url, server.authority)
        wide = webhooks.at_url(f"{server.url}/wide", server.authority)
        mark = home.namespace
        configurations = (
            webhooks.pods_configuration(at_url, name=f"zz-{mark}"),
            webhooks.pods_configuration(wide, name=f"zy-{mark}", pod_rules=True),
            webhooks.rules_configuration(at_url, name=f"zz-{mark}"),
        )
        try:
            for each in configurations:
                home.request("POST", home.path(resource_of(each)), patient(each)).accepted()
            until(lambda: called(home, server, claiming()) == BOTH, "Pods are asked about")
            until(lambda: created(home, server, gate()) == [RULES], "rules are asked about")
            yield server
        finally:
            for each in configurations:
                home.request("DELETE", home.path(resource_of(each), each["metadata"]["name"]))


def patient(configuration: Object) -> Object:
    """With time for a busy machine: what is not answered within our two seconds passes, and is heard of later."""
    return {**configuration, "webhooks": [{**each, "timeoutSeconds": 30} for each in configuration["webhooks"]]}


def called(api: Api, hooks: Hooks, obj: Object, namespace: str = "") -> list[str]:
    """The paths that are called for the creation of a Pod."""
    hooks.calls.clear()
    api.request("POST", PODS.path(namespace or api.namespace), obj, dryRun="All").accepted()
    return hooks.asked()


def created(api: Api, hooks: Hooks, obj: Object) -> list[str]:
    """The paths that are called for the creation of an object of any kind."""
    hooks.calls.clear()
    api.create(obj, dryRun="All").accepted()
    return hooks.asked()


CLAIM = {"name": "gpu", "resourceClaimName": "gpu"}
OWNER = {"name": "owner", "uid": "uid-of-owner", "controller": True}


def claiming(**metadata: Any) -> Object:
    return pod(metadata=metadata, resourceClaims=[CLAIM])


def gate(name: str = "contract") -> Object:
    return made(SCHEDULING_GATES, name, spec={"gateName": "example.com/contract"})


def rule(name: str = "contract") -> Object:
    tolerations = [{"key": "example.com/gpu", "operator": "Exists"}]
    match = {"type": "CEL", "cel": {"expression": "true"}}
    return made(TOLERATION_RULES, name, spec={"match": match, "tolerations": tolerations})


def asking(resource: str, quantity: str = "1", *, where: str = "containers", **more: Any) -> Object:
    """A Pod of whose two containers the second asks for a resource."""
    plain = {"name": "main", "image": "none"}
    asker = {"name": "asking", "image": "none", "resources": {"limits": {resource: quantity}}, **more}
    spec: Object = {"containers": [plain, asker]}
    return pod(**(spec if where == "containers" else {"containers": [plain], where: [asker]}))


BOTH = [WIDE, OURS]
NEITHER: list[str] = []
CALLED: dict[str, tuple[Object, list[str]]] = {
    "a claim by name": (claiming(), BOTH),
    "a claim by template": (pod(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpu"}]), BOTH),
    "an extended resource of the second container": (asking("example.com/gpu"), BOTH),
    "an extended resource of an init container": (asking("example.com/gpu", where="initContainers"), BOTH),
    "an extended resource, none of it": (asking("example.com/gpu", "0"), BOTH),
    "an extended resource with requests": (
        asking("example.com/gpu", resources={"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}),
        BOTH,
    ),
    "a class as a resource": (asking("deviceclass.resource.kubernetes.io/gpu"), BOTH),
    "a Pod of a ReplicaSet": (
        claiming(ownerReferences=[{**OWNER, "apiVersion": "apps/v1", "kind": "ReplicaSet"}]),
        BOTH,
    ),
    "a Pod of somebody else's DaemonSet": (
        claiming(ownerReferences=[{**OWNER, "apiVersion": "apps.example.com/v1", "kind": "DaemonSet"}]),
        BOTH,
    ),
    "our annotation, written by a client": (pod(metadata={"annotations": {ANNOTATION_PROVENANCE: "[]"}}), BOTH),
    "our gate, written by a client": (pod(GATE), BOTH),
    "somebody else's gate and annotation": (pod("example.com/a", metadata={"annotations": {"a": "b"}}), [WIDE]),
    "no device": (pod(), [WIDE]),
    "cpu and memory": (asking("cpu"), [WIDE]),
    "huge pages": (
        asking("hugepages-2Mi", resources={"limits": {"hugepages-2Mi": "2Mi", "memory": "1Gi"}}),
        [WIDE],
    ),
    "ephemeral storage": (asking("ephemeral-storage"), [WIDE]),
    "an empty list of claims": (pod(resourceClaims=[]), [WIDE]),
    "no resources, written as null": (
        pod(containers=[{"name": "main", "image": "none", "resources": None}]),
        [WIDE],
    ),
    "a Node": (pod(resourceClaims=[CLAIM], nodeName="nowhere"), NEITHER),
    "a Pod of a DaemonSet": (
        claiming(ownerReferences=[{**OWNER, "apiVersion": "apps/v1", "kind": "DaemonSet"}]),
        NEITHER,
    ),
    "the label that says never": (claiming(labels={LABEL_SKIP: "true"}), NEITHER),
    "the label that says never, with another value": (claiming(labels={LABEL_SKIP: "false"}), BOTH),
    "a mirror Pod, which always has a Node": (
        pod(
            metadata={"annotations": {"kubernetes.io/config.mirror": "x", ANNOTATION_PROVENANCE: "[]"}},
            nodeName="nowhere",
        ),
        NEITHER,
    ),
}


@pytest.mark.parametrize(("given", "want"), CALLED.values(), ids=CALLED)
def test_creation_of_a_pod(api: Api, hooks: Hooks, given: Object, want: list[str]) -> None:
    assert called(api, hooks, given) == want


def elsewhere(api: Api, hooks: Hooks, name: str, **labels: str) -> list[str]:
    """For a Pod with a claim in another namespace; one with labels is created for it."""
    if labels:
        api.create(made(NAMESPACES, name, metadata={"labels": labels})).accepted()
    account = api.request("POST", SERVICE_ACCOUNTS.path(name), made(SERVICE_ACCOUNTS, "default"))
    assert account.code in (201, 409), account
    return called(api, hooks, claiming(), name)


def writing(api: Api, hooks: Hooks, obj: Object, *steps: Callable[[Api], Answer]) -> list[list[str]]:
    """The paths that are called for each step of the life of an object that exists."""
    api.create(obj).accepted()
    found = []
    for step in steps:
        hooks.calls.clear()
        step(api).accepted()
        found.append(hooks.asked())
    return found


def denial(api: Api, hooks: Hooks) -> Any:
    hooks.replies[f"/{RULES}"] = denying(message="spec.match.cel.expression: 1:1: it is wrong", code=422)
    try:
        return told(api.create(rule()))
    finally:
        del hooks.replies[f"/{RULES}"]


LABELS = {"metadata": {"labels": {"a": "b"}}}
STATUS = {"status": {"pendingMatches": 1}}
Attempt = Callable[[Api, Hooks], Any]
SCOPE: dict[str, tuple[Attempt, Any]] = {
    "kube-system": (lambda api, hooks: elsewhere(api, hooks, "kube-system"), NEITHER),
    "a namespace that is not to be managed": (
        lambda api, hooks: elsewhere(api, hooks, f"skipped-{api.namespace}", **{LABEL_SKIP: "true"}),
        NEITHER,
    ),
    "any other namespace": (lambda api, hooks: elsewhere(api, hooks, f"other-{api.namespace}", a="b"), BOTH),
    "a Pod's changes and its deletion": (
        lambda api, hooks: writing(
            api,
            hooks,
            claiming(),
            lambda api: api.patch(PODS, "web", LABELS, PatchType.MERGE),
            lambda api: api.patch(PODS, "web", {"status": {"message": "x"}}, PatchType.MERGE, "status"),
            lambda api: api.delete(PODS, "web"),
        ),
        [NEITHER, NEITHER, NEITHER],
    ),
    "a rule": (lambda api, hooks: created(api, hooks, rule()), [RULES]),
    "a gate's declaration": (lambda api, hooks: created(api, hooks, gate()), [RULES]),
    "a rule's change, its status and its deletion": (
        lambda api, hooks: writing(
            api,
            hooks,
            rule(),
            lambda api: api.patch(TOLERATION_RULES, "contract", LABELS, PatchType.MERGE),
            lambda api: api.patch(TOLERATION_RULES, "contract", STATUS, PatchType.MERGE, "status"),
            lambda api: api.delete(TOLERATION_RULES, "contract"),
        ),
        [[RULES], NEITHER, NEITHER],
    ),
    "a refused rule": (
        denial,
        Refusal(
            422,
            "",
            'admission webhook "rules.tollbar.dev" denied the request: spec.match.cel.expression: 1:1: it is wrong',
        ),
    ),
}


@pytest.mark.parametrize(("attempt", "want"), SCOPE.values(), ids=SCOPE)
def test_scope(api: Api, hooks: Hooks, attempt: Attempt, want: Any) -> None:
    assert attempt(api, hooks) == want


def heard(path: str, obj: Object | None = None, **query: str) -> Attempt:
    """What the request of a Pod's creation has at a dotted path."""

    def attempt(api: Api, hooks: Hooks) -> Any:
        hooks.calls.clear()
        api.create(obj or claiming(), **query).accepted()
        found = at(dict(hooks.calls)[f"/{OURS}"], path)
        return "NAMESPACE" if found == api.namespace else found

    return attempt


def twice(api: Api, hooks: Hooks) -> int:
    hooks.calls.clear()
    api.create(claiming()).accepted()
    api.delete(PODS, "web").accepted()
    api.create(claiming()).accepted()
    return len({request["uid"] for path, request in hooks.calls if path == f"/{OURS}"})


def a_change(api: Api, hooks: Hooks) -> Any:
    """Old and new labels in the request of a rule's change."""
    writing(api, hooks, rule(), lambda api: api.patch(TOLERATION_RULES, "contract", LABELS, PatchType.MERGE))
    request = hooks.calls[0][1]
    return request["operation"], *(at(request, f"{each}.metadata.labels") for each in ("oldObject", "object"))


GENERATED: Object = {**claiming(), "metadata": {"generateName": "web-"}}
HEARD: dict[str, tuple[Attempt, Any]] = {
    "the operation": (heard("operation"), "CREATE"),
    "the namespace": (heard("namespace"), "NAMESPACE"),
    "the namespace, in the object": (heard("object.metadata.namespace"), "NAMESPACE"),
    "the kind": (heard("kind"), {"group": "", "version": "v1", "kind": "Pod"}),
    "the object's kind": (heard("object.kind"), "Pod"),
    "the resource": (heard("resource"), {"group": "", "version": "v1", "resource": "pods"}),
    "no old object": (heard("oldObject"), None),
    "that it is no dry run": (heard("dryRun"), False),
    "that it is a dry run": (heard("dryRun", dryRun="All"), True),
    "the name": (heard("name"), "web"),
    "no name where it is yet to be generated": (heard("object.metadata.name", GENERATED), None),
    "no name of the request either": (heard("name", GENERATED), None),
    "what it is generated from": (heard("object.metadata.generateName", GENERATED), "web-"),
    "no uid": (heard("object.metadata.uid"), None),
    "no time": (heard("object.metadata.creationTimestamp"), None),
    "the tolerations that every Pod gets": (heard("object.spec.tolerations"), DEFAULTS),
    "the ServiceAccount that every Pod gets": (heard("object.spec.serviceAccountName"), "default"),
    "the priority that every Pod gets": (heard("object.spec.priority"), 0),
    "requests that follow from limits": (
        heard("object.spec.containers.1.resources.requests", asking("example.com/gpu")),
        {"example.com/gpu": "1"},
    ),
    "who asks": (
        lambda api, hooks: "system:authenticated" in heard("userInfo.groups")(api, hooks),
        True,
    ),
    "another uid in every request": (twice, 2),
    "old and new at a change": (a_change, ("UPDATE", None, {"a": "b"})),
}


@pytest.mark.parametrize(("attempt", "want"), HEARD.values(), ids=HEARD)
def test_what_it_hears(api: Api, hooks: Hooks, attempt: Attempt, want: Any) -> None:
    assert attempt(api, hooks) == want

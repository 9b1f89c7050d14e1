"""Who may do what: RBAC as Tollbar's own ServiceAccounts meet it.

The rows act as a ServiceAccount that may patch Pods and write two kinds more, and nothing else; `admin` prepares.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from contract.api import Api, Refusal, settings, told, until
from contract.objects import ACCESS_REVIEWS, GPU, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS, add, lease, made, pod, remove
from contract.tables import Rows, last, rows

from tollbar.model.resources import (
    CONFIG_MAPS,
    LEASES,
    NODES,
    PODS,
    SELF_SUBJECT_REVIEWS,
)
from tollbar.runtime.client import PatchType

NAME = "releaser"
USER = f"system:serviceaccount:NAMESPACE:{NAME}"
RULES = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "resourceNames": ["turn"],
        "verbs": ["get", "list", "update"],
    },
]


@pytest.fixture(scope="module")
def account(home: Api, contracted: Any) -> Iterator[Api]:
    """A ServiceAccount that has the rights above."""
    group = ROLES.group
    role = made(ROLES, NAME, rules=RULES)
    binding = made(
        ROLE_BINDINGS,
        NAME,
        roleRef={"apiGroup": group, "kind": "Role", "name": NAME},
        subjects=[{"kind": "ServiceAccount", "name": NAME, "namespace": home.namespace}],
    )
    for obj in (made(SERVICE_ACCOUNTS, NAME), role, binding):
        home.request("POST", home.path(KINDS[obj["kind"]]), obj).accepted()
    config = contracted.service_account_kubeconfig(home.namespace, NAME)
    acting = home.acting_as(settings(contracted, config))
    until(lambda: allowed(acting, "patch", "pods"), "the binding is in force")
    yield acting
    acting.close()


KINDS = {each.kind: each for each in (SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS)}


def allowed(api: Api, verb: str, resource: str, **attributes: str) -> Any:
    review = {
        "apiVersion": ACCESS_REVIEWS.api_version,
        "kind": ACCESS_REVIEWS.kind,
        "spec": {"resourceAttributes": {"verb": verb, "resource": resource, "namespace": api.namespace, **attributes}},
    }
    return api.request("POST", ACCESS_REVIEWS.path(), review)["status.allowed"]


def denied(
    verb: str, resource: str, *, name: str = "web", group: str = "", where: str = ' in the namespace "NAMESPACE"'
) -> Refusal:
    what = f"{resource.split('/')[0]}{'.' if group else ''}{group}"
    named = f'{what} "{name}"' if name else what
    return Refusal(
        403,
        "Forbidden",
        f'{named} is forbidden: User "{USER}" cannot {verb} resource "{resource}" in API group "{group}"{where}',
    )


def nobody(api: Api) -> Any:
    with closing(Api(replace(api.access, token="nonsense"), api.namespace)) as other:
        return other.page(PODS)


GATES = "/spec/schedulingGates"
ACCESS: Rows = {
    "patching is enough to release a Pod": (lambda api: api.patch(PODS, "web", [remove(GATES)]), 200),
    "and shows the Pod": (
        lambda api: api.patch(PODS, "web", [add("/spec/tolerations/-", GPU)])["spec.containers.0.name"],
        "main",
    ),
    "patching does not read": (lambda api: api.get(PODS, "web"), denied("get", "pods")),
    "nor list": (lambda api: api.page(PODS), denied("list", "pods", name="")),
    "nor watch": (lambda api: api.page(PODS, watch="1"), denied("watch", "pods", name="")),
    "nor update": (lambda api: api.replace(pod()), denied("update", "pods")),
    "nor delete": (lambda api: api.delete(PODS, "web"), denied("delete", "pods")),
    "nor create": (lambda api: api.create(pod()), denied("create", "pods", name="")),
    "nor patch the status": (
        lambda api: api.patch(PODS, "web", {"status": {"message": "x"}}, PatchType.MERGE, "status"),
        denied("patch", "pods/status"),
    ),
    "nor bind": (
        lambda api: api.request("POST", api.path(PODS, "web", "binding"), {}).code,
        403,
    ),
    "nor patch other kinds": (
        lambda api: api.patch(CONFIG_MAPS, "map", [remove("/data")]),
        denied("patch", "configmaps", name="map"),
    ),
    "an application that creates needs more": (
        lambda api: api.patch(PODS, "new", pod(name="new"), PatchType.APPLY, fieldManager="me"),
        denied("create", "pods", name="new"),
    ),
    "a refusal comes before anything is looked at": (
        lambda api: api.get(PODS, "none"),
        denied("get", "pods", name="none"),
    ),
    "a kind without a namespace": (
        lambda api: api.page(NODES),
        denied("list", "nodes", name="", where=" at the cluster scope"),
    ),
    "another namespace": (
        lambda api: api.request("GET", PODS.path("kube-system")),
        denied("list", "pods", name="", where=' in the namespace "kube-system"'),
    ),
    "a right to one name": (
        lambda api: last(api.create(lease()), told(api.get(LEASES, "turn"))),
        200,
    ),
    "is not one to another": (
        lambda api: api.get(LEASES, "other"),
        denied("get", "leases", name="other", group="coordination.k8s.io"),
    ),
    "it permits a list of objects of this name": (
        lambda api: last(api.create(lease()), told(api.page(LEASES, fieldSelector="metadata.name=turn"))),
        200,
    ),
    "but none of others": (
        lambda api: api.page(LEASES, fieldSelector="metadata.name=other"),
        denied("list", "leases", name="other", group="coordination.k8s.io"),
    ),
    "nor one of all": (
        lambda api: api.page(LEASES),
        denied("list", "leases", name="", group="coordination.k8s.io"),
    ),
    "an update that creates needs the right to create": (lambda api: api.replace(lease()), 201),
    "one may ask what one may": (
        lambda api: (
            allowed(api, "patch", "pods"),
            allowed(api, "patch", "pods", subresource="status"),
            allowed(api, "get", "leases", group="coordination.k8s.io", name="turn"),
            allowed(api, "get", "leases", group="coordination.k8s.io", name="other"),
        ),
        (True, False, True, False),
    ),
    "one may ask who one is": (
        lambda api: (
            (
                user := api.request(
                    "POST",
                    SELF_SUBJECT_REVIEWS.path(),
                    {"apiVersion": SELF_SUBJECT_REVIEWS.api_version, "kind": SELF_SUBJECT_REVIEWS.kind},
                )["status.userInfo"]
            )
            and (user["username"].replace(api.namespace, "NAMESPACE"), len(user["groups"]))
        ),
        (USER, 3),
    ),
    "one may see what is served": (lambda api: api.request("GET", "/apis/resource.k8s.io/v1"), 200),
    "a token that is none": (
        nobody,
        Refusal(401, "Unauthorized", "Unauthorized"),
    ),
}


@rows(ACCESS)
def test_access(api: Api, account: Api, attempt: Any, want: Any) -> None:
    api.create(pod("example.com/a")).accepted()
    assert told(attempt(account)) == want

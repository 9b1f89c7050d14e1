"""Admission policies on a real API server: who may do what, as kubectl is answered."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from processes.stack import eventually

from tollbar.cli import gates
from tollbar.devplane.kubectl import Kubectl, KubectlError
from tollbar.gates import Gate
from tollbar.wellknown import SYSTEM_NAMESPACE


def said(kubectl: Kubectl, *arguments: str, stdin: str | None = None) -> str:
    """The last line of kubectl's refusal, empty when it is none."""
    try:
        kubectl(*arguments, stdin=stdin)
    except KubectlError as error:
        return error.stderr.strip().splitlines()[-1]
    return ""


def until_said(kubectl: Kubectl, text: str, *arguments: str, stdin: str | None = None) -> None:
    """A policy or its parameters are in force some time after they were written."""

    def is_said() -> bool:
        answer = said(kubectl, *arguments, stdin=stdin)
        return text in answer and bool(answer) == bool(text)

    eventually(is_said, what=f"kubectl {' '.join(arguments)}: {text or 'no refusal'}")


def spared(kubectl: Kubectl, binding: str, namespace: str) -> None:
    """The policy of this binding is in force everywhere but in this namespace."""
    elsewhere = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [namespace]}
    resources = {"namespaceSelector": {"matchExpressions": [elsewhere]}}
    kubectl("patch", binding, "--type=merge", "-p", json.dumps({"spec": {"matchResources": resources}}))


def role(name: str, *rules: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": list(rules),
    }


def binding(name: str, *users: str) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user} for user in users],
    }


@contextmanager
def gate_rights(kubectl: Kubectl, classes: Sequence[Gate]) -> Iterator[None]:
    """What `tollbar gates` writes about these classes, but for their webhooks.

    The rights of the controllers end with it: other tests show what they may not do without them.
    """
    kubectl.apply(*(each for each in gates.objects(classes, SYSTEM_NAMESPACE) if "webhooks" not in each))
    try:
        yield
    finally:
        kubectl("delete", "clusterrole,clusterrolebinding", "-l", "app.kubernetes.io/component=gates")

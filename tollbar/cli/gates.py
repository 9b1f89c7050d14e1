"""`tollbar gates`: the gate classes that are installed, and the manifests with which a cluster runs them.

The manifests go beside an installation: the webhook configuration, by which the API server asks about each class, and
the rights to read what the classes read.  The controllers declare the SchedulingGates themselves.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import click
import yaml

from tollbar import wellknown
from tollbar.api import webhooks
from tollbar.cli import console
from tollbar.gates import Gate, registry
from tollbar.gates.sight import class_name, told_of
from tollbar.model.objects import Object
from tollbar.runtime.config import ConfigError

_NAME: Final = "tollbar-gates"
_LABELS: Final = {"app.kubernetes.io/name": "tollbar", "app.kubernetes.io/component": "gates"}
_RBAC: Final = "rbac.authorization.k8s.io"


class _Dumper(yaml.SafeDumper):
    """No anchors."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def classes(names: str) -> Mapping[str, Gate]:
    """The gate classes of these names, which commas separate.  Raises UsageError."""
    wanted = [each.strip() for each in names.split(",") if each.strip()]
    try:
        return dict(zip(wanted, registry.enabled(wanted), strict=True))
    except ConfigError as error:
        raise click.UsageError(str(error)) from None


@click.command("gates")
@click.argument("names", required=False, default="")
@click.option("--namespace", default=wellknown.SYSTEM_NAMESPACE, show_default=True, help="Of the installation.")
@click.option("--manifests", is_flag=True, help="Write the manifests for kubectl instead of the list.")
def command(names: str, namespace: str, manifests: bool) -> None:
    """List the gate classes NAMES, which commas separate; all that are installed unless given.

    With --manifests: what kubectl applies beside an installation whose webhook and controllers run with --gates NAMES.
    The names in it are those of the manifests and the chart as they come: kustomize's namePrefix is not in them.
    """
    found = classes(names or ",".join(registry.available()))
    if manifests:
        click.echo(yaml.dump_all(objects([*found.values()], namespace), Dumper=_Dumper, sort_keys=False), nl=False)
        return
    rows = [
        {
            "name": name,
            "gate": each.name,
            "class": class_name(each),
            "reads": ", ".join(reads.cached.resource.plural for reads in each.reads),
        }
        for name, each in found.items()
    ]
    console.emit(rows, rows, "table")


def objects(gates: Sequence[Gate], namespace: str) -> Iterable[Object]:
    """The webhook configuration, and the rights of both processes."""
    told = [told_of(each) for each in gates]
    yield webhooks.gates_configuration(webhooks.at_service(namespace), told, namespace=namespace)
    yield from _granted(_NAME, list(_reading(gates)), namespace, ("tollbar-controllers", "tollbar-webhook"))
    certificates = {
        "apiGroups": ["admissionregistration.k8s.io"],
        "resources": ["mutatingwebhookconfigurations"],
        "resourceNames": [webhooks.GATES_NAME],
        "verbs": ["patch"],
    }
    yield from _granted(f"{_NAME}-certificates", [certificates], namespace, ("tollbar-controllers",))


def _granted(name: str, rules: Sequence[Object], namespace: str, accounts: Sequence[str]) -> Iterable[Object]:
    meta = {"name": name, "labels": dict(_LABELS)}
    yield {**_rbac("ClusterRole"), "metadata": meta, "rules": rules}
    yield {
        **_rbac("ClusterRoleBinding"),
        "metadata": meta,
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": each, "namespace": namespace} for each in accounts],
    }


def _rbac(kind: str) -> Object:
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind}


def _reading(gates: Sequence[Gate]) -> Iterable[Any]:
    plurals: dict[str, set[str]] = {}
    for gate in gates:
        for each in gate.reads:
            plurals.setdefault(each.cached.resource.group, set()).add(each.cached.resource.plural)
    for group, names in sorted(plurals.items()):
        yield {"apiGroups": [group], "resources": sorted(names), "verbs": ["list", "watch"]}

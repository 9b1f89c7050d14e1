"""`tollbar gates`: the gate classes that are installed, and the manifests with which a cluster runs them.

The manifests go beside an installation: the webhook configuration, by which the API server asks about each class, and
the rights to read what the classes read.  The controllers declare the SchedulingGates themselves.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import click
import yaml

from tollbar import wellknown
from tollbar.api import webhooks
from tollbar.cli import console
from tollbar.gates import Gate, registry
from tollbar.gates.evaluation import class_name, declaration_name, webhook_of
from tollbar.model.objects import Object
from tollbar.model.resources import LEASES, SECRETS, Resource
from tollbar.runtime.caches import Cached
from tollbar.runtime.config import ConfigError

_NAME: Final = "tollbar-gates"
_LABELS: Final = {"app.kubernetes.io/name": "tollbar", "app.kubernetes.io/component": "gates"}
_RBAC: Final = "rbac.authorization.k8s.io"
_KEPT_ANYWAY: Final = frozenset({LEASES, SECRETS})
"""Kinds of which Tollbar's processes keep one object of their own namespace, and may read no others."""


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
@console.installation_option
@click.option("--manifests", is_flag=True, help="Write the manifests for kubectl instead of the list.")
def command(names: str, namespace: str, manifests: bool) -> None:
    """List the gate classes NAMES, separated by commas; without NAMES, all that are installed.

    With --manifests, print instead what a cluster needs beside an installation whose webhook and controllers run with
    --gates NAMES, to be piped to kubectl: rights, and the webhook configuration by which the API server calls the
    webhook.  The names in it are those of the manifests and of the chart.  If you use a namePrefix, change them.
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
    told = [webhook_of(each) for each in gates]
    yield webhooks.gates_configuration(webhooks.at_service(namespace), told, namespace=namespace)
    for within, rules in sorted(_reading(gates).items()):
        yield from _granted(_NAME, rules, namespace, ("tollbar-controllers", "tollbar-webhook"), within=within)
    rights = [dict(rule) for gate in gates for rule in (*gate.rights, _release(gate))]
    yield from _granted(f"{_NAME}-controllers", rights, namespace, ("tollbar-controllers",))
    certificates = {
        "apiGroups": ["admissionregistration.k8s.io"],
        "resources": ["mutatingwebhookconfigurations"],
        "resourceNames": [webhooks.GATES_NAME],
        "verbs": ["patch"],
    }
    yield from _granted(f"{_NAME}-certificates", [certificates], namespace, ("tollbar-controllers",))


def _release(gate: Gate) -> Object:
    """What the components `ceiling`, by the name of the gate, and `protective-gates`, by that of its SchedulingGate,
    ask for: no request of its own."""
    verbs = ["release", "narrow"] if gate.narrows else ["release"]
    names = [gate.name, declaration_name(gate)]
    return {"apiGroups": [wellknown.GROUP], "resources": ["schedulinggates"], "resourceNames": names, "verbs": verbs}


def _granted(
    name: str, rules: Sequence[Object], namespace: str, accounts: Sequence[str], *, within: str = ""
) -> Iterable[Object]:
    """These rules for these accounts of `namespace`: in the namespace `within`, or in the whole cluster."""
    kind = "Role" if within else "ClusterRole"
    meta = {"name": name, **({"namespace": within} if within else {}), "labels": dict(_LABELS)}
    yield {**_rbac(kind), "metadata": meta, "rules": rules}
    yield {
        **_rbac(f"{kind}Binding"),
        "metadata": meta,
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": each, "namespace": namespace} for each in accounts],
    }


def _rbac(kind: str) -> Object:
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind}


def _reading(gates: Sequence[Gate]) -> Mapping[str, Sequence[Object]]:
    """The rules by namespace, "" for the whole cluster: the caches heed a store's namespace while its kind has no other
    store."""
    stores = defaultdict[Resource, dict[str, Cached]](dict)
    for each in (each.cached for gate in gates for each in gate.reads):
        stores[each.resource][each.name] = each
    plurals = defaultdict[tuple[str, str], set[str]](set)
    for resource, declared in stores.items():
        first, *others = declared.values()
        is_alone = not others and resource not in _KEPT_ANYWAY
        within = first.namespace if resource.namespaced and is_alone else ""
        plurals[within, resource.group].add(resource.plural)
    rules = defaultdict[str, list[Object]](list)
    for (within, group), names in sorted(plurals.items()):
        rules[within].append({"apiGroups": [group], "resources": sorted(names), "verbs": ["list", "watch"]})
    return rules

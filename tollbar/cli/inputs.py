"""Objects in files, for commands that simulate their creation: read, checked and defaulted as by an API server.

Kinds that no decision reads are skipped if manifests commonly have them, as are custom resources whose definition
is in the files.  Everything else that cannot be read is `Unreadable`, with file and line.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import click
import orjson

from tollbar import cel, wellknown
from tollbar.cli import clusterdump, lint, manifests
from tollbar.cli.expansion import expand
from tollbar.cli.manifests import STDIN, Located, Unreadable
from tollbar.cli.reduction import KINDS
from tollbar.devplane.embedded import decoding
from tollbar.devplane.embedded.kinds import Kinds
from tollbar.model import resources
from tollbar.model.fields import quoted
from tollbar.model.objects import Object, key_of, spec
from tollbar.model.resources import NAMESPACES, Resource
from tollbar.scheduler.cache.podinfo import Shapes

DEFAULT_NAMESPACE: Final = "default"
namespace_option: Final = click.option(
    "-n",
    "--namespace",
    default=DEFAULT_NAMESPACE,
    show_default=True,
    metavar="NAME",
    help="Namespace of objects in files that name none.",
)

_SUFFIXES: Final = (".yaml", ".yml", ".json")
_JOBS: Final = Resource("batch", "v1", "jobs", "Job", namespaced=True)
_CRON_JOBS: Final = Resource("batch", "v1", "cronjobs", "CronJob", namespaced=True)
_DAEMON_SETS: Final = Resource("apps", "v1", "daemonsets", "DaemonSet", namespaced=True)
WORKLOADS: Final = {
    each.kind: each
    for each in (
        resources.DEPLOYMENTS,
        resources.REPLICA_SETS,
        resources.STATEFUL_SETS,
        resources.REPLICATION_CONTROLLERS,
        _JOBS,
        _CRON_JOBS,
        _DAEMON_SETS,
    )
}
"""Kinds whose controllers make Pods, by name."""
OF_GATE_CLASSES: Final = frozenset({resources.PLACEMENT_RULES.kind, resources.POD_QUOTAS.kind})
"""Kinds by which gate classes decide."""
_READ: Final = {**{name: kind.resource for name, kind in KINDS.items()}, **WORKLOADS}
_PASSED_OVER: Final = frozenset(
    {
        *(
            "ConfigMap",
            "Secret",
            "ServiceAccount",
            "Endpoints",
            "EndpointSlice",
            "LimitRange",
            "ResourceQuota",
            "Event",
        ),
        *("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "APIService"),
        *("Ingress", "IngressClass", "NetworkPolicy", "HorizontalPodAutoscaler", "RuntimeClass", "Lease"),
        *("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "FlowSchema"),
        *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
        *("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "PriorityLevelConfiguration"),
        *("Kustomization", "Component", "KubeSchedulerConfiguration"),
    }
)
_SEVERAL_VERSIONS: Final = frozenset({resources.DEVICE_TAINT_RULES.kind, resources.POD_GROUPS.kind})
"""Kinds of which no version differs in the fields that are read."""
_COUNTS: Final = ("replicas", "parallelism", "completions")
_MOST_PODS: Final = 100_000
"""Of one workload: a manifest of a few lines must not fill the memory."""
_FIELD: Final = re.compile(r"field \"?([\w.\[\]-]+)\"?")


def read(names: Sequence[str], stdin: Any, namespace: str = DEFAULT_NAMESPACE, *, needed: bool = True) -> list[Located]:
    """The objects in these files and directories, and of standard input for `-`, in their order.

    `namespace` is that of namespaced objects that name none.  Raises Unreadable, also where something is `needed` and
    none of the objects is read.
    """
    found = [located for name in names for file in _files(name) for located in manifests.read(file, stdin)]
    defined = {_defined(located.obj) for located in found if isinstance(located.obj, dict)}
    checker = _Checker(namespace)
    wanted = [located for located in found if _is_wanted(located, defined)]
    if needed and found and not wanted:
        raise _unreadable(found[0], "", "nothing here is a Pod, or decides about one")
    return [Located(each.file, checker.checked(each), each.node) for each in wanted]


def new_namespace(name: str) -> Object:
    """A Namespace as it is just after its creation, with the label that the API server gives it."""
    return {**NAMESPACES.type_meta, "metadata": {"name": name, "labels": {wellknown.NAMESPACE_NAME_LABEL: name}}}


def _files(name: str) -> list[str]:
    """The manifests of a directory, by name; the file itself of any other name."""
    path = Path(name)
    try:
        if name == STDIN or not path.is_dir():
            return [name]
        files = sorted(str(each) for each in path.iterdir() if each.suffix in _SUFFIXES and each.is_file())
    except OSError as error:
        raise Unreadable(f"{name}: {error.strerror}") from error
    if not files:
        raise Unreadable(f"{name}: no manifest ({', '.join(_SUFFIXES)}) is in this directory")
    return files


def _defined(obj: Object) -> tuple[str, str]:
    """Group and kind that a CustomResourceDefinition defines."""
    if obj.get("kind") != "CustomResourceDefinition" or not isinstance(obj.get("spec"), dict):
        return "", ""
    names = spec(obj).get("names")
    return str(spec(obj).get("group")), str(names.get("kind")) if isinstance(names, dict) else ""


def _is_wanted(located: Located, defined: Iterable[tuple[str, str]]) -> bool:
    """Whether it is of a kind that is read.  Raises Unreadable for one that nobody knows."""
    obj, place = located.obj, f"{located.file}:{located.line('')}"
    if not isinstance(obj, dict):
        raise Unreadable(f"{place}: not an object of the API, but {quoted(obj)}")
    kind, version = obj.get("kind"), obj.get("apiVersion")
    if not isinstance(kind, str) or not isinstance(version, str) or not kind or not version:
        raise Unreadable(f"{place}: an object of the API has apiVersion and kind")
    if kind == clusterdump.KIND:
        raise Unreadable(f"{place}: a dump of a cluster, which goes to --cluster")
    group, _, _ = version.rpartition("/")
    if (known := _READ.get(kind)) is not None and (group == known.group or group == wellknown.GROUP):
        if version != known.api_version and kind not in _SEVERAL_VERSIONS:
            raise Unreadable(f"{place}: {kind} of {version}: only {known.api_version} is read")
        return True
    if kind in _PASSED_OVER or (group, kind) in defined:
        return False
    raise Unreadable(f"{place}: no kind {quoted(kind)} of {version} is known")


class _Checker:
    """Checks objects, and gives them the defaults of the API server."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._kinds = Kinds()
        self._shapes = Shapes()
        self._engine = cel.engine()

    def checked(self, located: Located) -> Object:
        """The object with its defaults.  Raises Unreadable."""
        try:
            obj: Object = orjson.loads(orjson.dumps(located.obj))
        except TypeError as error:
            raise _unreadable(located, "", str(error)) from None
        resource = _READ[obj["kind"]]
        meta = obj.get("metadata")
        if not isinstance(meta, dict):
            raise _unreadable(located, "metadata", f"a {resource.kind} has metadata")
        name = meta.get("name") or (meta.get("generateName") if resource == resources.PODS else None)
        if not isinstance(name, str):
            raise _unreadable(located, "metadata", f"a {resource.kind} has metadata.name")
        if resource.namespaced:
            meta["namespace"] = meta.get("namespace") or self._namespace
        if resource.group == wellknown.GROUP:
            for finding in lint.check([located], self._engine):
                said = f"{finding.field}: {finding.message}" if finding.field else finding.message
                raise Unreadable(f"{finding.file}:{finding.line}: {finding.object}: {said}")
        elif not isinstance(obj.get("spec"), dict | None):
            raise _unreadable(located, "spec", f"the spec of a {resource.kind} is an object")
        self._check(located, obj)
        if resource.kind in WORKLOADS:
            for pod in self._tried(located, obj)[:1]:
                self._check(
                    located, pod, "spec.jobTemplate.spec.template." if resource == _CRON_JOBS else "spec.template."
                )
        return obj

    def _tried(self, located: Located, workload: Object) -> Sequence[Object]:
        """One Pod as the workload would make it."""
        for name in _COUNTS:
            count = spec(workload).get(name)
            if count is not None and (type(count) is not int or not 0 <= count <= _MOST_PODS):
                raise _unreadable(located, f"spec.{name}", f"spec.{name} is a number from 0 to {_MOST_PODS:,}")
        try:
            return expand(workload, 1).pods
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _unreadable(located, "spec", f"not a valid {workload['kind']}: {error}") from None

    def _check(self, located: Located, obj: Object, below: str = "") -> None:
        """As the API server does for the kinds whose schema is known; `below` is where a Pod's template is written."""
        kind = self._kinds.of(obj["apiVersion"], obj["kind"])
        if kind is None:
            return
        try:
            decoding.check_types(kind, obj)
        except decoding.Undecodable as error:
            path = _FIELD.search(error.why)
            raise _unreadable(located, below + path[1] if path else "", error.why.removeprefix("json: ")) from None
        status = obj.pop("status", None)  # of a cluster, and perhaps of a newer one
        for unknown in decoding.drop_unknown(kind, obj):
            raise _unreadable(located, below + unknown, f'unknown field "{below}{unknown}"')
        kind.strategy.default(obj)
        for problem in kind.strategy.validate(obj) if obj["metadata"].get("name") else ():
            raise _unreadable(located, below + problem.field, f"{below}{problem.field}: {problem.message}")
        if status is not None:
            obj["status"] = status
        if kind.resource == resources.PODS:
            try:
                self._shapes.pod_info(obj)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise _unreadable(located, f"{below}spec", f"not a valid Pod: {error!r}") from None


def _unreadable(located: Located, path: str, said: str) -> Unreadable:
    obj = located.obj
    title = (
        f"{obj.get('kind')} {key_of(obj).name}".rstrip() if isinstance(obj.get("metadata"), dict) else obj.get("kind")
    )
    return Unreadable(f"{located.file}:{located.line(path)}: {title}: {said}")

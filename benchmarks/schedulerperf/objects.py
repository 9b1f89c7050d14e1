"""What operations create: templates rendered to API objects, with what scheduler_perf's Go code adds to them.

Pure, apart from reading the templates.

Source: node_util.go and runners.go of scheduler_perf, and the templates for Pods and Nodes in executor.go and util.go.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from uuid import NAMESPACE_DNS, uuid5

import yaml

from benchmarks.schedulerperf.gotemplate import TemplateError, render
from benchmarks.schedulerperf.operations import (
    Churn,
    CreateAny,
    CreateNamespaces,
    CreateNodes,
    CreatePods,
    CreateResourceClaims,
    Operation,
    UpdateAny,
)
from tollbar.model import resources
from tollbar.model.objects import Object
from tollbar.model.resources import CSI_NODES, Resource

_KINDS: Final[Mapping[tuple[str, str], Resource]] = {
    (each.group, each.kind): each for each in vars(resources).values() if isinstance(each, Resource)
}
_MIGRATED: Final = "storage.alpha.kubernetes.io/migrated-plugins"
_HOSTNAME: Final = "kubernetes.io/hostname"
_SIGNATURE: Final = "signature"
_CAPACITY: Final = {"pods": "110", "cpu": "4", "memory": "32Gi"}
_REQUESTS: Final = {"cpu": "100m", "memory": "500Mi"}
_POD: Final[Object] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"generateName": "pod-"},
    "spec": {
        "containers": [
            {
                "name": "pause",
                "image": "registry.k8s.io/pause:3.10.2",
                "ports": [{"containerPort": 80}],
                "resources": {"limits": _REQUESTS, "requests": _REQUESTS},
            }
        ]
    },
}


def resource_of(obj: Object) -> Resource:
    """Where objects of this kind are, in the version that this one has.  Raises TemplateError for an unknown kind."""
    group, _, version = obj["apiVersion"].rpartition("/")
    known = _KINDS.get((group, obj["kind"]))
    if known is None:
        raise TemplateError(f"the kind {obj['apiVersion']} {obj['kind']} is not known")
    return replace(known, version=version)


def rendered(path: Path, values: Mapping[str, Any]) -> Object:
    """The object of a template; do not change it.  Raises TemplateError."""
    return _decoded(render(path.read_text(), values))


def plain(path: Path) -> Object:
    """The object of a file that is no template; do not change it."""
    return _decoded(path.read_text())


def any_objects(path: Path, operation: CreateAny | UpdateAny) -> Iterator[Object]:
    params = operation.template_params if isinstance(operation, CreateAny) else {}
    for index in range(operation.count):
        yield rendered(path, {**params, "Index": index, "Count": operation.count})


def nodes(directory: Path, operation: CreateNodes, index: int) -> Iterator[tuple[Object, Object | None]]:
    """The Nodes of the operation with this index, with the labels of its strategy, and the CSINode of each, if any.

    Upstream labels Nodes after their creation.  Generated names are numbered here, which upstream draws: so the Nodes
    are the same in every repetition.
    """
    template: Object = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"generateName": f"node-{index}-"},
        "status": {
            "capacity": _CAPACITY,
            "allocatable": _CAPACITY,
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    for number in range(operation.count):
        if operation.node_template_path:
            values = {**operation.template_params, "Index": number, "Count": operation.count}
            template = rendered(directory / operation.node_template_path, values)
        meta = template["metadata"]
        name = meta.get("name") or f"{meta['generateName']}{index}-{number:05}"
        labels = {**(meta.get("labels") or {}), _HOSTNAME: name, **_labels(operation, name, number)}
        node = {**template, "metadata": {**meta, "name": name, "labels": labels}}
        yield node, _csi_node(operation, name)


def _labels(operation: CreateNodes, name: str, number: int) -> dict[str, str]:
    if (turns := operation.label_node_prepare_strategy) is not None:
        return {turns.label_key: turns.label_values[number % len(turns.label_values)]}
    if (unique := operation.unique_node_label_strategy) is not None:
        return {unique.label_key: str(uuid5(NAMESPACE_DNS, name))}
    return {}


def _csi_node(operation: CreateNodes, name: str) -> Object | None:
    strategy = operation.node_allocatable_strategy
    if strategy is None:
        return None
    drivers = [
        {"name": driver, "nodeID": name, "allocatable": allocatable}
        for driver, allocatable in strategy.csi_node_allocatable.items()
    ]
    annotations = {_MIGRATED: ",".join(strategy.migrated_plugins)}
    return {**CSI_NODES.type_meta, "metadata": {"name": name, "annotations": annotations}, "spec": {"drivers": drivers}}


def namespaces(directory: Path, operation: CreateNamespaces) -> Iterator[Object]:
    template: Object = {"apiVersion": "v1", "kind": "Namespace"}
    if operation.namespace_template_path:
        template = plain(directory / operation.namespace_template_path)
    for number in range(operation.count):
        yield {**template, "metadata": {**(template.get("metadata") or {}), "name": f"{operation.prefix}-{number}"}}


def pods(directory: Path, operation: CreatePods, default_template: str) -> Iterator[Object]:
    """The Pods of the operation, and then, for a steady state, without end those that follow."""
    path = operation.pod_template_path or default_template
    for index in range(operation.count):
        yield _pod(directory / path if path else None, operation, index, operation.count)
    while operation.steady_state:
        yield _pod(directory / path if path else None, operation, 0, 1)


def _pod(path: Path | None, operation: CreatePods, index: int, count: int) -> Object:
    pod = _POD
    if path is not None:
        pod = rendered(path, {**operation.template_params, "Index": index, "Count": count})
        meta = pod.get("metadata") or {}
        signature = f"signature-label-{index // operation.signature_batch_size}"
        pod = {**pod, "metadata": {**meta, "labels": {**(meta.get("labels") or {}), _SIGNATURE: signature}}}
    if operation.persistent_volume_claim_template_path:
        volume = {"name": "vol", "persistentVolumeClaim": {"claimName": f"pvc-{index}"}}
        pod = {**pod, "spec": {**pod["spec"], "volumes": [volume]}}
    return pod


def volumes(directory: Path, operation: CreatePods, namespace: str) -> Iterator[tuple[Object, Object]]:
    """A PersistentVolumeClaim for each Pod and the PersistentVolume that is bound to it, both with their status."""
    if not operation.persistent_volume_claim_template_path:
        return
    for number in range(operation.count):
        claim_name, volume_name = f"pvc-{number}", f"{namespace}-vol-{number}"
        claim = plain(directory / operation.persistent_volume_claim_template_path)
        volume = plain(directory / operation.persistent_volume_template_path)
        spec = dict(volume["spec"])
        if "csi" in spec:
            spec["csi"] = {**spec["csi"], "volumeHandle": volume_name}
        elif "awsElasticBlockStore" in spec:
            spec["awsElasticBlockStore"] = {**spec["awsElasticBlockStore"], "volumeID": f"vol-{number}"}
        spec["claimRef"] = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": namespace,
            "name": claim_name,
        }
        yield (
            {
                **claim,
                "metadata": {**(claim.get("metadata") or {}), "name": claim_name, "namespace": namespace},
                "spec": {**claim["spec"], "volumeName": volume_name},
                "status": {"phase": "Bound"},
            },
            {
                **volume,
                "metadata": {**(volume.get("metadata") or {}), "name": volume_name},
                "spec": spec,
                "status": {"phase": "Bound"},
            },
        )


def check_templates(directory: Path, operations: tuple[Operation, ...], default_pod_template: str) -> None:
    """Render one object of each operation.  Raises TemplateError."""
    for index, operation in enumerate(operations):
        match operation:
            case CreateNodes():
                next(nodes(directory, operation, index), None)
            case CreateNamespaces():
                next(namespaces(directory, operation), None)
            case CreatePods():
                next(pods(directory, operation, default_pod_template), None)
                next(volumes(directory, operation, "any"), None)
            case CreateAny() | UpdateAny():
                for obj in any_objects(directory / operation.template_path, replace(operation, count=1)):
                    resource_of(obj)
            case CreateResourceClaims():
                plain(directory / operation.template_path)
            case Churn():
                for path in operation.template_paths:
                    resource_of(plain(directory / path))
            case _:
                pass


@lru_cache(maxsize=1024)
def _decoded(text: str) -> Object:
    found: Object = yaml.load(text, Loader=yaml.CSafeLoader)
    return found

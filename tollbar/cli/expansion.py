"""The Pods of workloads, as the controllers of kube-controller-manager make them from their templates.

All Pods of a workload are made at once, even where a StatefulSet or a Job would make one after the other.  Random parts
of names are derived from the name of the workload, and are the same each time.

Source: pkg/controller/{deployment,replicaset,statefulset,job} of k8s.io/kubernetes.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tollbar.cli.simulation.api import suffix
from tollbar.model import resources
from tollbar.model.objects import Key, Object, key_of, labels_of, metadata, spec

_HASH_LENGTH: Final = 10
"""Of the label pod-template-hash."""
_CONTROLLED: Final = {"controller": True, "blockOwnerDeletion": True}


@dataclass(frozen=True, slots=True)
class Expansion:
    """`pods` of a workload, and the `objects` that its controllers make besides: a ReplicaSet, volume claims."""

    pods: tuple[Object, ...]
    objects: tuple[Object, ...] = ()


def expand(workload: Object, replicas: int | None = None) -> Expansion:
    """The Pods of a workload, or of a Pod itself; `replicas` in the place of as many as it says."""
    match workload["kind"]:
        case "Deployment":
            return _deployment(workload, replicas)
        case "ReplicaSet" | "ReplicationController":
            return Expansion(tuple(_copies(workload, _count(workload, replicas))), (_with_uid(workload),))
        case "StatefulSet":
            return _stateful_set(workload, replicas)
        case "Job":
            return _job(workload, replicas)
        case "CronJob":
            return _job(_of_cron_job(workload), replicas)
        case "DaemonSet":
            return Expansion(())
        case _:
            return Expansion(tuple(_replicas(workload, replicas)))


def _replicas(pod: Object, replicas: int | None) -> Iterator[Object]:
    meta = metadata(pod)
    name = meta.get("name") or f"{meta.get('generateName')}{suffix(str(meta.get('generateName')))}"
    for number in range(1, (replicas or 1) + 1):
        yield {**pod, "metadata": {**meta, "name": name if replicas is None else f"{name}-{number}"}}


def _count(workload: Object, replicas: int | None) -> int:
    wanted = spec(workload).get("replicas")
    return replicas if replicas is not None else 1 if wanted is None else int(wanted)


def _deployment(workload: Object, replicas: int | None) -> Expansion:
    key = key_of(workload)
    digest = suffix(f"{key} of {spec(workload).get('template')}", _HASH_LENGTH)
    template, selector = spec(workload).get("template") or {}, spec(workload).get("selector") or {}
    label = {"pod-template-hash": digest}
    replica_set: Object = {
        **resources.REPLICA_SETS.type_meta,
        "metadata": {
            "name": f"{key.name}-{digest}",
            "namespace": key.namespace,
            "labels": {**labels_of(template), **label},
            "ownerReferences": [_reference(workload)],
        },
        "spec": {
            "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), **label}},
            "template": {
                **template,
                "metadata": {**metadata(template), "labels": {**labels_of(template), **label}},
            },
        },
    }
    replica_set = _with_uid(replica_set)
    return Expansion(tuple(_copies(replica_set, _count(workload, replicas))), (_with_uid(workload), replica_set))


def _copies(owner: Object, count: int) -> Iterator[Object]:
    for drawn in _suffixes(key_of(owner), count):
        yield _pod(owner, f"{key_of(owner).name}-{drawn}")


def _suffixes(owner: Key, count: int) -> Iterator[str]:
    """So many different ones, always the same for the same owner.  Of ten thousand, two are likely to be alike."""
    drawn: set[str] = set()
    numbers = itertools.count()
    while len(drawn) < count:
        one = suffix(f"{owner} {next(numbers)}")
        if one not in drawn:
            drawn.add(one)
            yield one


def _stateful_set(workload: Object, replicas: int | None) -> Expansion:
    key, body = key_of(workload), spec(workload)
    first = int((body.get("ordinals") or {}).get("start") or 0)
    pods: list[Object] = []
    volume_claims: list[Object] = []
    for ordinal in range(first, first + _count(workload, replicas)):
        name = f"{key.name}-{ordinal}"
        labels = {"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": str(ordinal)}
        pod = _pod(workload, name, labels)
        volumes = list(spec(pod).get("volumes") or ())
        for template in body.get("volumeClaimTemplates") or ():
            claim = f"{key_of(template).name}-{name}"
            volumes.append({"name": key_of(template).name, "persistentVolumeClaim": {"claimName": claim}})
            meta = {**metadata(template), "name": claim, "namespace": key.namespace}
            volume_claims.append({**resources.PERSISTENT_VOLUME_CLAIMS.type_meta, **template, "metadata": meta})
        extra = {"hostname": name, **({"volumes": volumes} if volumes else {})}
        pods.append({**pod, "spec": {**spec(pod), **extra}})
    return Expansion(tuple(pods), (_with_uid(workload), *volume_claims))


def _job(workload: Object, replicas: int | None) -> Expansion:
    key, body = key_of(workload), spec(workload)
    if body.get("suspend"):
        return Expansion(())
    parallelism, completions = body.get("parallelism"), body.get("completions")
    count = 1 if parallelism is None else int(parallelism)
    if completions is not None:
        count = min(count, int(completions))
    count = replicas if replicas is not None else count
    labels = {"batch.kubernetes.io/job-name": key.name, "job-name": key.name}
    pods = []
    for number, drawn in enumerate(_suffixes(key, count)):
        name = f"{key.name}-{drawn}"
        index: dict[str, str] = {}
        if body.get("completionMode") == "Indexed":
            name = f"{key.name}-{number}-{drawn}"
            index = {"batch.kubernetes.io/job-completion-index": str(number)}
        pod = _pod(workload, name, {**labels, **index})
        meta = {**metadata(pod), "annotations": {**(metadata(pod).get("annotations") or {}), **index}}
        pods.append({**pod, "metadata": meta} if index else pod)
    return Expansion(tuple(pods))


def _of_cron_job(workload: Object) -> Object:
    """One run of it."""
    key, template = key_of(workload), spec(workload).get("jobTemplate") or {}
    meta = {**metadata(template), "name": f"{key.name}-{suffix(str(key))}", "namespace": key.namespace}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec(template)}


def _pod(owner: Object, name: str, labels: Object | None = None) -> Object:
    template = spec(owner).get("template") or {}
    meta = {
        **{member: value for member, value in metadata(template).items() if member in ("annotations", "finalizers")},
        "name": name,
        "namespace": key_of(owner).namespace,
        "labels": {**labels_of(template), **(labels or {})},
        "ownerReferences": [_reference(owner)],
    }
    return {**resources.PODS.type_meta, "metadata": meta, "spec": dict(spec(template))}


def _reference(owner: Object) -> Object:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": key_of(owner).name,
        "uid": _uid(owner),
        **_CONTROLLED,
    }


def _uid(owner: Object) -> str:
    return str(metadata(owner).get("uid") or "/".join((owner["kind"].lower(), *key_of(owner))))


def _with_uid(workload: Object) -> Object:
    """The workload itself, as a scheduler reads it to spread its Pods."""
    return {**workload, "metadata": {**metadata(workload), "uid": _uid(workload)}}

"""pods/binding: a Pod gets its Node, by a scheduler or by our own binder.

Source: BindingREST in k8s.io/kubernetes/pkg/registry/core/pod/storage.
"""

from tollbar.devplane.embedded import versions
from tollbar.devplane.embedded.errors import Cause, Refused, conflict, invalid
from tollbar.devplane.embedded.kinds import Kind
from tollbar.devplane.embedded.registry import Registry
from tollbar.devplane.embedded.storage import Clash
from tollbar.model import conditions, pods
from tollbar.model.objects import Key, Object, metadata, uid_of


def bind(registry: Registry, kind: Kind, key: Key, binding: Object, *, dry_run: bool = False) -> Object:
    """The answer to a Binding.  Raises Refused."""
    node = (binding.get("target") or {}).get("name")
    if not node:
        raise invalid("", "Binding", key.name, [Cause("FieldValueRequired", "target.name", "Required value")])
    while True:
        entry = registry.entry(kind, key)
        pod = versions.decoded(kind, entry)
        _check(pod, key.name, metadata(binding).get("uid"))
        new = _bound(pod, binding, node, registry.now())
        try:
            if not dry_run:
                registry.commit(kind, entry, new)
        except Clash:
            continue
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


def _check(pod: Object, name: str, uid: str | None) -> None:
    if uid and uid != uid_of(pod):
        raise _refused(name, f"Precondition failed: UID in precondition: {uid}, UID in object meta: {uid_of(pod)}")
    if pods.is_deleting(pod):
        raise _refused(name, f"pod {name} is being deleted, cannot be assigned to a host")
    if pods.is_bound(pod):
        raise _refused(name, f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"')
    if pods.gate_names(pod):
        raise _refused(name, f"pod {name} has non-empty .spec.schedulingGates")


def _refused(name: str, why: str) -> Refused:
    return conflict("", "pods/binding", name, why)


def _bound(pod: Object, binding: Object, node: str, now: str) -> Object:
    """With the Node, the binding's labels and annotations, and the condition that says so."""
    status = dict(pod.get("status") or {})
    old = conditions.find(status.get("conditions"), "PodScheduled")
    told = {"type": "PodScheduled", "status": "True", "lastTransitionTime": now}
    kept = [each for each in status.get("conditions") or () if each is not old]
    meta = dict(metadata(pod))
    for member in ("labels", "annotations"):
        if more := metadata(binding).get(member):
            meta[member] = {**(meta.get(member) or {}), **more}
    return {
        **pod,
        "metadata": meta,
        "spec": {**pod["spec"], "nodeName": node},
        "status": {**status, "conditions": [*kept, told]},
    }

"""The PersistentVolumeClaims of a Pod, and what the volume plugins have in common."""

from typing import Final, NamedTuple

from tollbar.model.objects import Key, Object, annotations_of, controller_of, key_of, spec
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.framework.events import QueueingHint, queue_if
from tollbar.scheduler.framework.status import Status, unresolvable

WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"


class ClaimRef(NamedTuple):
    """A claim that a volume of the Pod names, or that is made for an ephemeral volume of it."""

    key: Key
    is_ephemeral: bool = False


def claims(pod: PodInfo) -> list[ClaimRef]:
    """In the order of the Pod's volumes; those that are not ephemeral are `shape.claims` as well."""
    found = []
    for volume in pod.spec.get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            name = volume["persistentVolumeClaim"].get("claimName") or ""
            found.append(ClaimRef(Key(pod.key.namespace, name)))
        elif "ephemeral" in volume:
            found.append(ClaimRef(Key(pod.key.namespace, f"{pod.key.name}-{volume['name']}"), is_ephemeral=True))
    return found


def is_for(claim: Object, pod: PodInfo) -> bool:
    """Whether the claim of an ephemeral volume was made for this Pod."""
    owner = controller_of(claim)
    return owner is not None and owner.get("uid") == pod.uid


def not_made_for(claim: Object, pod: PodInfo) -> str:
    """What is said of a claim that only has the name of one for an ephemeral volume."""
    return f"PVC {key_of(claim)} was not created for pod {pod.key} (pod is not owner)"


def storage_class_of(claim: Object) -> str:
    """The name of its StorageClass; empty without one.  The annotation is older than the field."""
    annotation = annotations_of(claim).get("volume.beta.kubernetes.io/storage-class")
    return spec(claim).get("storageClassName") or "" if annotation is None else annotation


def after_named_claim(pod: PodInfo, _old: Object | None, new: Object) -> QueueingHint:
    """A claim that a volume of the Pod names was created or changed."""
    return queue_if(key_of(new) in pod.shape.claims)


def after_claim(pod: PodInfo, _old: Object | None, new: Object) -> QueueingHint:
    """The same, also of a claim that is made for an ephemeral volume."""
    return queue_if(key_of(new) in (each.key for each in claims(pod)))


def no_claim(name: str) -> Status:
    return unresolvable(f'persistentvolumeclaim "{name}" not found')


def no_volume(name: str) -> Status:
    return unresolvable(f'persistentvolume "{name}" not found')


def no_storage_class(name: str) -> Status:
    return unresolvable(f'storageclass.storage.k8s.io "{name}" not found')

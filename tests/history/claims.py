"""Whether the claims of a cluster were treated well, judged by nothing but what was stored: every state, in its order.

Independent of the controllers' code.  Pure: fed with what a `Recorder` saw, through a server that does not misbehave.

What must always hold: a Pod has at most one claim for each of its own names for claims; a consumer is not removed, and
a claim not deallocated, while the consuming Pod lives and has not finished.  What must hold in the end: no claim is
left whose Pod is gone or done, no entry of such a Pod, no finalizer without an allocation, no claim still deleting, and
every living Pod's status names claims that are there and its own.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from history.recording import Change, in_order
from tollbar.model.objects import Object, metadata, uid_of

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
POD_CLAIM: Final = "resource.kubernetes.io/pod-claim-name"
_FINISHED: Final = ("Succeeded", "Failed")


def wrongs(changes: Iterable[Change]) -> list[str]:
    """Sentences about what should never have happened, in the order of the stored states."""
    world = _World()
    return [wrong for change in in_order(changes) for wrong in world.step(change)]


def leftovers(changes: Iterable[Change]) -> list[str]:
    """Sentences about what is there in the end and should not be, or the other way round."""
    world = _World()
    for change in in_order(changes):
        list(world.step(change))
    return [*world.left_claims(), *world.missing_claims()]


class _World:
    """What is stored at one moment, by uid."""

    def __init__(self) -> None:
        self.pods: dict[str, Object] = {}
        self.claims: dict[str, Object] = {}

    def step(self, change: Change) -> Iterator[str]:
        now = self.pods if change.kind == "Pod" else self.claims
        before = now.get(uid_of(change.object))
        if change.deleted:
            now.pop(uid_of(change.object), None)
        else:
            now[uid_of(change.object)] = change.object
        if change.kind == "ResourceClaim":
            yield from self._twins(change.object) if before is None else ()
            yield from self._taken(before, change) if before is not None else ()

    def _twins(self, claim: Object) -> Iterator[str]:
        key = _whose(claim)
        twins = [each for each in self.claims.values() if key is not None and _whose(each) == key]
        if len(twins) > 1:
            yield f"{_called(claim)}: a Pod has {len(twins)} claims called {key[1] if key else ''}"

    def _taken(self, before: Object, change: Change) -> Iterator[str]:
        """Consumers that lost their claim while they could still use it."""
        kept = {} if change.deleted else _entries(change.object)
        deallocated = _is_allocated(before) and (change.deleted or not _is_allocated(change.object))
        for uid, entry in _entries(before).items():
            if (pod := self.pods.get(uid)) is None or _is_done(pod):
                continue
            if uid not in kept:
                yield f"{_called(before)}: the entry of the living Pod {entry['name']} was removed"
            if deallocated:
                yield f"{_called(before)}: deallocated under the living Pod {entry['name']}"

    def left_claims(self) -> Iterator[str]:
        for claim in self.claims.values():
            name, owner = _called(claim), _owner(claim)
            if metadata(claim).get("deletionTimestamp"):
                yield f"{name}: still being deleted"
            if owner is not None and (owner not in self.pods or _is_done(self.pods[owner])):
                yield f"{name}: its Pod is gone or done"
            for uid, entry in _entries(claim).items():
                if uid not in self.pods or _is_done(self.pods[uid]):
                    yield f"{name}: reserved for the Pod {entry['name']}, which is gone or done"
            if _is_allocated(claim) and not _entries(claim):
                yield f"{name}: allocated for nobody"
            if not _is_allocated(claim) and FINALIZER in metadata(claim).get("finalizers", ()):
                yield f"{name}: a finalizer without an allocation"

    def missing_claims(self) -> Iterator[str]:
        own = {(uid, metadata(claim)["name"]) for claim in self.claims.values() if (uid := _owner(claim)) is not None}
        for pod in self.pods.values():
            if _is_done(pod):
                continue
            named = {
                each["name"]: each.get("resourceClaimName")
                for each in (pod.get("status") or {}).get("resourceClaimStatuses") or ()
            }
            for reference in pod["spec"].get("resourceClaims") or ():
                if "resourceClaimTemplateName" in reference and (uid_of(pod), named.get(reference["name"])) not in own:
                    yield f"{_called(pod)}: its claim {reference['name']} is not there"


def _is_done(pod: Object) -> bool:
    """A Pod that can use its claims no more: finished, or deleted before it had a node."""
    finished = (pod.get("status") or {}).get("phase") in _FINISHED
    return finished or bool(metadata(pod).get("deletionTimestamp") and not pod["spec"].get("nodeName"))


def _entries(claim: Object) -> dict[str, Object]:
    """Pods that the claim is reserved for, by uid."""
    entries = (claim.get("status") or {}).get("reservedFor") or ()
    return {entry["uid"]: entry for entry in entries if entry["resource"] == "pods" and not entry.get("apiGroup")}


def _is_allocated(claim: Object) -> bool:
    return "allocation" in (claim.get("status") or {})


def _owner(claim: Object) -> str | None:
    """uid of the Pod that the claim was generated for."""
    owners = metadata(claim).get("ownerReferences") or ()
    return next((each["uid"] for each in owners if each["kind"] == "Pod" and each.get("controller")), None)


def _whose(claim: Object) -> tuple[str, str] | None:
    owner, name = _owner(claim), (metadata(claim).get("annotations") or {}).get(POD_CLAIM)
    return (owner, name) if owner is not None and name is not None else None


def _called(obj: Object) -> str:
    return str(metadata(obj)["name"])

"""Whether Pods and their claims were scheduled well, judged by nothing but what was stored: every state, in its order.

Independent of the scheduler's code.  Pure: fed with what a `Recorder` saw, through a server that does not misbehave.

What must always hold: a Pod keeps its Node; when it gets it, its claims are allocated and reserved for it; they stay so
while it lives; no device is in two allocations.  What must hold in the end: every Pod has a Node, and no claim is
reserved for a Pod that does not exist.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from history.recording import Change, in_order
from tollbar.model.objects import Object, metadata, spec, uid_of

_FINISHED: Final = ("Succeeded", "Failed")
_Device: TypeAlias = tuple[str, str, str]


def wrongs(changes: Iterable[Change]) -> list[str]:
    """Sentences about what should never have happened, in the order of the stored states."""
    world = _World()
    return [wrong for change in in_order(changes) for wrong in world.step(change)]


def leftovers(objects: Mapping[tuple[str, str], Object]) -> Iterator[str]:
    """Sentences about what is there in the end and should not be; by kind and name, as a `Recorder` has them."""
    pods = {uid_of(each): each for (kind, _), each in objects.items() if kind == "Pod"}
    for pod in pods.values():
        if metadata(pod).get("deletionTimestamp"):
            yield f"{_called(pod)}: still being deleted"
        elif not spec(pod).get("nodeName"):
            yield f"{_called(pod)}: not bound"
    for (kind, _), claim in objects.items():
        if kind == "ResourceClaim":
            for uid, name in _reserved(claim).items():
                if uid not in pods:
                    yield f"{_called(claim)}: reserved for the Pod {name}, which does not exist"


class _World:
    """What is stored at one moment."""

    def __init__(self) -> None:
        self.pods: dict[str, Object] = {}
        """By uid."""
        self.claims: dict[str, Object] = {}
        """By name."""
        self.devices: dict[_Device, str] = {}
        """Which claim has it."""

    def step(self, change: Change) -> Iterator[str]:
        yield from self._pod(change) if change.kind == "Pod" else self._claim(change)

    def _pod(self, change: Change) -> Iterator[str]:
        pod, uid = change.object, uid_of(change.object)
        before = self.pods.pop(uid, {})
        if change.deleted:
            return
        self.pods[uid] = pod
        was, now = spec(before).get("nodeName"), spec(pod).get("nodeName")
        if was and was != now:
            yield f"{_called(pod)}: moved from {was} to {now}"
        if now and not was:
            yield from self._bound(pod)

    def _bound(self, pod: Object) -> Iterator[str]:
        for name in _claim_names(pod):
            claim = self.claims.get(name, {})
            if uid_of(pod) not in _reserved(claim):
                yield f"{_called(pod)}: bound without a reservation of {name}"
            pools = {pool for _, pool, _ in _devices(claim)}
            if pools != {spec(pod)["nodeName"]}:
                yield f"{_called(pod)}: bound to {spec(pod)['nodeName']}, the devices of {name} are on {sorted(pools)}"

    def _claim(self, change: Change) -> Iterator[str]:
        claim = change.object
        name = metadata(claim)["name"]
        before = self.claims.pop(name, {})
        for device in _devices(before):
            if self.devices.get(device) == name:
                del self.devices[device]
        if not change.deleted:
            self.claims[name] = claim
            for device in _devices(claim):
                if device in self.devices:
                    yield f"{_called(claim)}: allocated {device}, which {self.devices[device]} has"
                self.devices[device] = name
        kept = {} if change.deleted else _reserved(claim)
        for uid, user in _reserved(before).items():
            if uid not in kept and (pod := self.pods.get(uid)) is not None and _runs(pod):
                yield f"{_called(claim)}: taken from the living Pod {user}"


def _runs(pod: Object) -> bool:
    return bool(spec(pod).get("nodeName")) and (pod.get("status") or {}).get("phase") not in _FINISHED


def _claim_names(pod: Object) -> Iterator[str]:
    statuses = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    generated = {each["name"]: each["resourceClaimName"] for each in statuses}
    for each in spec(pod).get("resourceClaims") or ():
        yield each.get("resourceClaimName") or generated[each["name"]]


def _devices(claim: Object) -> list[_Device]:
    results = ((claim.get("status") or {}).get("allocation") or {}).get("devices", {}).get("results") or ()
    return [(each["driver"], each["pool"], each["device"]) for each in results]


def _reserved(claim: Object) -> dict[str, str]:
    """The names of the Pods that a claim is reserved for, by uid."""
    return {each["uid"]: each["name"] for each in (claim.get("status") or {}).get("reservedFor") or ()}


def _called(obj: Object) -> str:
    return str(metadata(obj)["name"])

"""Notices when Pods are evicted from a tainted device, and which allocations of their claims that is about (KEP-5055).

kube-controller-manager says it in a condition of the Pod just before it deletes it, and the Pod may be gone a moment
later: so it is looked at when the change comes.

Invariant: of a claim nothing is remembered but its present allocation.

Hazard: lost on restart, and missed where the Pod's use of the claim is not known yet; a claim that brings further Pods
to that device is noticed with the next of them.
"""

from tollbar.model import pods
from tollbar.model.claims import allocation_of, is_reserved_for, names_of
from tollbar.model.objects import Key, key_of
from tollbar.model.workloads import is_kept
from tollbar.runtime.source import Channel, Delta
from tollbar.runtime.store import Store


class Evictions:
    """`changes` sends the key of every claim that is kept for a workload and from whose devices a Pod is evicted."""

    def __init__(self, claims: Store, consumers: Store) -> None:
        self.changes: Channel[Key] = Channel("evictions")
        self._claims = claims
        self._from: dict[Key, str] = {}
        claims.subscribe(self._on_claim)
        consumers.subscribe(self._on_pod)

    def evicted_from(self, claim: Key) -> str:
        """The claim's allocation, as `allocation_of` has it, if Pods were evicted from its devices; else empty."""
        return self._from.get(claim, "")

    def _on_claim(self, delta: Delta) -> None:
        for claim in delta.objects:
            key = key_of(claim)
            if key in self._from and self._from[key] != allocation_of(delta.new or {}):
                del self._from[key]

    def _on_pod(self, delta: Delta) -> None:
        """A Pod that is done says nothing: its claim may have other devices by now, and still or again be reserved for
        its PodGroup or for itself (kubernetes/kubernetes#141274)."""
        pod = delta.new
        if pod is None or not pods.is_evicted_from_device(pod) or pods.is_done(pod):
            return
        for name in names_of(pod):
            key = Key(key_of(pod).namespace, name)
            claim = self._claims.get(key)
            if claim is None or not is_kept(claim) or not is_reserved_for(claim, pod):
                continue
            held = allocation_of(claim)
            if held and held != self._from.get(key):
                self._from[key] = held
                self.changes.send(key)

"""Notices when Pods are evicted from a tainted device, and which allocations of their claims that is about (KEP-5055).

kube-controller-manager says it in a condition of the Pod just before it deletes it, and the Pod may be gone a moment
later: so it is looked at when the change comes.

Hazard: lost on restart; a claim that brings further Pods to that device is noticed with the next of them.
"""

from tollbar.model import pods
from tollbar.model.claims import allocation_of, names_of
from tollbar.model.objects import Key, key_of
from tollbar.runtime.source import Channel, Delta
from tollbar.runtime.store import Store


class Evictions:
    """`changes` sends the key of every claim from whose devices a Pod is evicted."""

    def __init__(self, claims: Store, consumers: Store) -> None:
        self.changes: Channel[Key] = Channel("evictions")
        self._claims = claims
        self._from: dict[Key, str] = {}
        consumers.subscribe(self._on_delta)

    def evicted_from(self, claim: Key) -> str:
        """The last allocation of the claim that it is about, as `allocation_of` has it; empty without one."""
        return self._from.get(claim, "")

    def forget(self, claim: Key) -> None:
        """The claim is gone."""
        self._from.pop(claim, None)

    def _on_delta(self, delta: Delta) -> None:
        pod = delta.new
        if pod is None or not pods.is_evicted_from_device(pod):
            return
        for name in names_of(pod):
            key = Key(key_of(pod).namespace, name)
            held = allocation_of(self._claims.get(key) or {})
            if held and held != self._from.get(key):
                self._from[key] = held
                self.changes.send(key)

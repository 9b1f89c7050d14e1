"""Whether Pods behind the gate were treated well, judged by nothing but what was stored: every state, in its order.

Independent of the controllers' code.  Pure: fed with what a `Recorder` saw, through a server that does not misbehave.

What must always hold: a Pod comes into being in the gate, or decided.  In the gate nothing is added to it.  It is
decided when its claims are there, and then has the toleration if and only if one of them asks for the reserved class,
once and with a record; what its author and other gates brought stays.  After that its spec is not written again.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from planes.objects import RESERVED, provenance

from history.recording import Change, in_order
from tollbar import wellknown
from tollbar.model.objects import Object, labels_of, metadata, spec, uid_of

AUTHORS: Final = {"key": "example.com/author", "operator": "Exists", "effect": "NoSchedule"}
"""A toleration that authors add to Pods that are there."""
_DEFAULTS: Final = "node.kubernetes.io/"


@dataclass
class Judge:
    """What is stored at one moment; `reserved` is the DeviceClass whose claims get the toleration."""

    reserved: str
    releases: Counter[str] = field(default_factory=Counter)
    """How often a Pod of this name was released, since `patched`."""
    ended: set[str] = field(default_factory=set)
    """Names of Pods that went in the gate, since then."""
    _pods: dict[str, Object] = field(default_factory=dict)
    """By uid."""
    _claims: dict[str, Object] = field(default_factory=dict)
    """By name."""

    def wrongs(self, changes: Iterable[Change]) -> list[str]:
        """Sentences about what should not have happened, in the order of the stored states."""
        return [wrong for change in in_order(changes) for wrong in self._step(change)]

    def patched(self, accepted: Counter[str]) -> list[str]:
        """Sentences about Pods, by name, that were released by more or fewer patches than the API server accepted.

        All Pods have to be gone; those that come are counted anew.  The API server first marks a Pod without a Node as
        deleted, then deletes it.  A patch in between is answered with 200 and has deleted the Pod: it is accepted, and
        no release was stored.
        """
        wrongs = [
            f"{name}: {accepted[name]} patches were accepted, and it was released {self.releases[name]} times"
            for name in sorted(accepted | self.releases)
            if accepted[name] not in (self.releases[name], self.releases[name] + (name in self.ended))
        ]
        self.releases.clear()
        self.ended.clear()
        return wrongs

    def _step(self, change: Change) -> Iterator[str]:
        obj = change.object
        if change.kind == "ResourceClaim":
            if change.deleted:
                self._claims.pop(metadata(obj)["name"], None)
            else:
                self._claims[metadata(obj)["name"]] = obj
            return
        before = self._pods.pop(uid_of(obj), None)
        if change.deleted and before is not None and is_held(before):
            self.ended.add(metadata(obj)["name"])
        if not change.deleted:
            self._pods[uid_of(obj)] = obj
            yield from (f"{metadata(obj)['name']}: {wrong}" for wrong in self._stored(before, obj))

    def _stored(self, before: Object | None, pod: Object) -> Iterator[str]:
        if before is None:
            if not is_held(pod):
                yield from self._decided(pod)
        elif is_held(before) and is_held(pod):
            if _given(pod) != _given(before):
                yield "tolerations were added in the gate"
        elif is_held(before):
            self.releases[metadata(pod)["name"]] += 1
            yield from self._decided(pod)
            if _rest(before) != _rest(pod):
                yield "something else was changed by the release"
        elif is_held(pod):
            yield "in the gate again"
        elif (_given(before), _rest(before)) != (_given(pod), _rest(pod)):
            yield "written after it was decided"
        if before is not None and AUTHORS in _tolerations(before) and AUTHORS not in _tolerations(pod):
            yield "its author's toleration is gone"

    def _decided(self, pod: Object) -> Iterator[str]:
        names = [each["resourceClaimName"] for each in spec(pod).get("resourceClaims") or ()]
        wanted: list[Object] = []
        if labels_of(pod).get(wellknown.LABEL_SKIP) != "true":
            missing = [name for name in names if name not in self._claims]
            if missing:
                yield f"decided without {', '.join(missing)}"
            wanted = [RESERVED] if any(self._asks(name) for name in names) else []
        if _given(pod) != wanted:
            yield f"tolerates {_given(pod)}, should tolerate {wanted}"
        if len(provenance(pod)) != len(wanted):
            yield f"{len(provenance(pod))} tolerations are recorded, should be {len(wanted)}"

    def _asks(self, name: str) -> bool:
        requests = spec(self._claims.get(name) or {}).get("devices", {}).get("requests") or ()
        return any(each["exactly"]["deviceClassName"] == self.reserved for each in requests)


def is_held(pod: Object) -> bool:
    return {"name": wellknown.GATE} in (spec(pod).get("schedulingGates") or ())


def _tolerations(pod: Object) -> list[Object]:
    """Without those that the API server adds."""
    return [each for each in spec(pod).get("tolerations") or () if not each.get("key", "").startswith(_DEFAULTS)]


def _given(pod: Object) -> list[Object]:
    """By Tollbar."""
    return [each for each in _tolerations(pod) if each != AUTHORS]


def _rest(pod: Object) -> Object:
    """The spec without what a release changes: the tolerations and our gate."""
    gates = [each for each in spec(pod).get("schedulingGates") or () if each != {"name": wellknown.GATE}]
    return {**spec(pod), "tolerations": None, "schedulingGates": gates}

"""The gate class `ordinal`: of two StatefulSets with the same ordinals, it releases one Pod of an ordinal at a time.

Every Pod with the label gets the gate when it is created; the leader's ledger releases those whose turn it is
(`tollbar.decide.gates.ordinals`).

Invariant: no release makes two Pods of an ordinal, even if a process ends, two run, or the cache is behind.  A release
counts before it is sent, and a new leader lists the Pods and releases none before its cache is as new as that list.

Hazards.  While it is down, Pods wait; without a webhook they cannot be created.  A Pod that is created without the
label is not held, and counts when the watch shows it.  If the API server carries out a patch after its sender's Lease
has expired and the next leader has listed the Pods, the next leader does not know of it.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Final

from tollbar import wellknown
from tollbar.api.reasons import OrdinalReason
from tollbar.decide.gates import ordinals
from tollbar.decide.gates.answers import Answer, Hold, NotMine
from tollbar.decide.gates.ordinals import Place, Turn
from tollbar.gates import ordinaltexts
from tollbar.gates.explanation import ClusterCopy, GateExplanation
from tollbar.gates.freshness import caught_up
from tollbar.gates.gate import Facts, Gate, Ledger
from tollbar.model import conditions, pods, resources
from tollbar.model.objects import Key, Object, annotations_of, key_of, metadata, picked, spec, uid_of
from tollbar.model.plan import DONE, Outcome
from tollbar.runtime.builder import Builder
from tollbar.runtime.caches import Cached, listed
from tollbar.runtime.errors import ApiError, Conflict, Invalid, NotFound
from tollbar.runtime.manager import Manager
from tollbar.runtime.source import Channel, Delta, key_itself
from tollbar.views import kinds

NAME: Final = "ordinal"
"""By which the configuration enables the gate."""

_STARTING: Final = Hold(OrdinalReason.STARTING, "the controllers to know all Pods")
_TOO_LONG: Final = 318
"""Characters that are no namespace, slash and name any more: 63, 1 and 253."""


def _has_ordinal(pod: Object) -> bool:
    """By its name alone: a Pod whose StatefulSet was deleted with orphaning has no owner."""
    return key_of(pod).name.rpartition("-")[2].isdecimal()


def _seen(pod: Object) -> Object:
    """The part of a Pod that decisions about the order read."""
    meta, ready = metadata(pod), conditions.of(pod, "Ready")
    kept = ("name", "namespace", "uid", "resourceVersion", "deletionTimestamp")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": picked(meta, kept),
        "spec": {"schedulingGates": spec(pod).get("schedulingGates") or []},
        "status": {"conditions": [{"type": "Ready", "status": ready.get("status")}] if ready else []},
    }


def _read_of_a_set(obj: Object) -> Object:
    """The part of a StatefulSet that is read, which is small whatever its author writes: where its ordinals begin, and
    whom it names, as far as that can be a name."""
    meta, body, peer = metadata(obj), spec(obj), annotations_of(obj).get(wellknown.ANNOTATION_ORDINAL_PEER, "")
    kept = ("name", "namespace", "uid", "resourceVersion")
    named = {"annotations": {wellknown.ANNOTATION_ORDINAL_PEER: peer[:_TOO_LONG]}} if peer else {}
    return {
        "metadata": {**picked(meta, kept), **named},
        "spec": {"ordinals": body["ordinals"]} if "ordinals" in body else {},
    }


PODS: Final = Cached("pods by ordinal", resources.PODS, project=_seen, accepts=_has_ordinal, optional=True)
SETS: Final = Cached(
    "statefulsets by ordinal",
    resources.STATEFUL_SETS,
    project=_read_of_a_set,
    optional=True,
)


def _has_gate(pod: Object) -> bool:
    return wellknown.ORDINAL_GATE in pods.gate_names(pod)


def _dependencies(pod: Object) -> Iterable[tuple[str, Key]]:
    place = ordinals.place_of(pod)
    if place is None or not _has_gate(pod):
        return ()
    return ordinals.waits_for(place)


_HELD: Final = replace(kinds.PENDING_PODS, indexers={**kinds.PENDING_PODS.indexers, "turn": _dependencies})


class OrdinalGate(Gate):
    """The gate of Pods with the label tollbar.dev/ordinal, and the ledger that releases them."""

    name = wellknown.ORDINAL_GATE
    applies_to = f"has(object.metadata.labels) && '{wellknown.LABEL_ORDINAL}' in object.metadata.labels"
    narrows = False
    fails_open = False
    explain_reads = (PODS, SETS)
    rights = ({"apiGroups": ["apps"], "resources": ["statefulsets"], "verbs": ["list", "watch"]},)

    def decide(self, facts: Facts) -> Answer:
        """Hold every Pod at its creation: two replicas of the webhook would not know what the other one releases."""
        return NotMine() if ordinals.place_of(facts.pod) is None else _STARTING

    def explain(self, facts: Facts, copy: ClusterCopy) -> GateExplanation:
        place = ordinals.place_of(facts.pod)
        if place is None:
            return GateExplanation(NotMine())
        turn = Turn(place, copy.store(SETS).get, copy.store(PODS).get, _has_gate)
        return GateExplanation(ordinals.decide(place, lambda _: turn), (ordinaltexts.section(turn),))

    def ledger(self, manager: Manager) -> "OrdinalLedger":
        return OrdinalLedger(manager)


class OrdinalLedger(Ledger):
    """Decides, in the leader, which Pods may be released."""

    def __init__(self, manager: Manager) -> None:
        super().__init__()
        self._manager = manager
        store = manager.caches.store
        self._held, self._pods, self._sets = store(_HELD), store(PODS), store(SETS)
        self._granted: dict[Key, str] = {}
        """uids of Pods that may go and that the cache shows with the gate."""
        self._doubtful: set[str] = set()
        """uids of those whose release is under way, has come to pass, or had no answer and may come to pass yet."""
        self._not_applied = Channel[Key]("ordinal releases that did not apply")
        self.controller = (
            Builder[Key](manager, "ordinal ledger").watches(self._not_applied, key_itself).build(self.settle, workers=1)
        )
        self._leads = False
        self._pods.subscribe(self._on_pod)
        self._sets.subscribe(partial(self._wake, "StatefulSet"))
        manager.leads("ordinal ledger", self._lead)

    def decide(self, facts: Facts) -> Answer:
        place = ordinals.place_of(facts.pod)
        if place is not None and not self._leads:
            return _STARTING
        key = key_of(facts.pod)
        answer = ordinals.decide(place, self._turn)
        if place is not None and not isinstance(answer, Hold):
            self._granted[key] = uid_of(facts.pod)
        return answer

    @contextmanager
    def sending(self, pod: Object) -> Iterator[None]:
        """A release that other admission refuses is taken back.

        After other errors it still counts, because another client may have removed the gate.  For a Pod that is gone
        (NotFound) the watch shows it; for others (Conflict, Invalid) `settle` asks the API server.
        """
        uid, was_doubtful = uid_of(pod), uid_of(pod) in self._doubtful
        self._doubtful.add(uid)
        try:
            yield
        except ApiError as error:
            if not was_doubtful and (error.refused or isinstance(error, Conflict | Invalid | NotFound)):
                self._doubtful.discard(uid)
            if error.refused:
                self._take_back(pod)
            elif isinstance(error, Conflict | Invalid):
                self._not_applied.send(key_of(pod))
            raise

    async def settle(self, key: Key) -> Outcome:
        """Take back the release of a Pod that still has its gate at the API server.

        Otherwise it would count for ever.  If it is still the Pod's turn, the Pod is released again.
        """
        if key not in self._granted:
            return DONE
        # by a list, for which the rights that every gate controller has are enough
        by_name = f"metadata.name={key.name}"
        found = await self._manager.client.list(resources.PODS, key.namespace, field_selector=by_name)
        for pod in found["items"]:
            if _has_gate(pod):
                self._take_back(pod)
        return DONE

    def _take_back(self, pod: Object) -> None:
        uid, key = uid_of(pod), key_of(pod)
        if uid not in self._doubtful and self._granted.get(key) == uid:
            del self._granted[key]
            self._wake("Pod", Delta(None, pod, initial=False))

    def _turn(self, place: Place) -> Turn:
        return Turn(place, self._sets.get, self._pods.get, self._is_held)

    def _is_held(self, pod: Object) -> bool:
        is_granted = self._granted.get(key_of(pod)) == uid_of(pod)
        return _has_gate(pod) and not is_granted

    def _on_pod(self, delta: Delta) -> None:
        before, now = delta.old, delta.new
        if before is not None and (now is None or not _has_gate(now)):
            if self._granted.get(key_of(before)) == uid_of(before):
                del self._granted[key_of(before)]
            self._doubtful.discard(uid_of(before))
        self._wake("Pod", delta)

    def _wake(self, kind: str, delta: Delta) -> None:
        """Decide again the Pods that wait for this object."""
        for key in {key_of(obj) for obj in delta.objects}:
            for waiting in list(self._held.keys_by_index("turn", (kind, key))):
                self.changed.send(waiting)

    async def _lead(self) -> None:
        self._granted.clear()
        self._doubtful.clear()
        try:
            await listed((self._held, self._pods, self._sets))
            await caught_up(self._manager, self._pods, label_selector=wellknown.LABEL_ORDINAL)
            self._leads = True
            for key in list(self._held.keys_by_index("gate", wellknown.ORDINAL_GATE)):
                self.changed.send(key)
            await self.controller.run()
        finally:
            self._leads = False

"""The gate class `ordinal`: Pods of two StatefulSets that hand over are let go in order, one of an ordinal at a time.

At its creation every Pod with the label gets the gate; the leader's ledger lets those go whose turn it is
(`tollbar.decide.gates.ordinals`).

Invariant: no release makes two Pods of an ordinal, also where a process ends, two run, or the cache is behind: what is
granted counts before it is sent, and a process that begins to lead lists the Pods and grants nothing before its cache
is as new as that list.

Hazards.  Down: Pods wait; without a webhook they are not created.  A Pod that is created without the label is not held,
and counts only from when the watch shows it.  A patch that the API server carries out after its sender's Lease has
expired and the next leader has listed the Pods is not known to that one.
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
from tollbar.gates.freshness import caught_up
from tollbar.gates.gate import Facts, Gate, Ledger
from tollbar.gates.telling import Copy, Told
from tollbar.model import conditions, pods, resources
from tollbar.model.objects import Key, Object, annotations_of, key_of, metadata, spec, uid_of
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
    """By its name alone: a Pod that its StatefulSet has left behind has no owner any more."""
    return key_of(pod).name.rpartition("-")[2].isdecimal()


def _seen(pod: Object) -> Object:
    """The part of a Pod by which it is decided whose turn it is."""
    meta, ready = metadata(pod), conditions.of(pod, "Ready")
    kept = ("name", "namespace", "uid", "resourceVersion", "deletionTimestamp")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {name: meta[name] for name in kept if name in meta},
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
        "metadata": {**{name: meta[name] for name in kept if name in meta}, **named},
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
    name = wellknown.ORDINAL_GATE
    applies_to = f"has(object.metadata.labels) && '{wellknown.LABEL_ORDINAL}' in object.metadata.labels"
    narrows = False
    fails_open = False
    tells_by = (PODS, SETS)
    rights = ({"apiGroups": ["apps"], "resources": ["statefulsets"], "verbs": ["list", "watch"]},)

    def decide(self, facts: Facts) -> Answer:
        """At creation: two replicas of the webhook do not know what the other lets go, so every Pod is held."""
        return NotMine() if ordinals.place_of(facts.pod) is None else _STARTING

    def tell(self, facts: Facts, copy: Copy) -> Told:
        place = ordinals.place_of(facts.pod)
        if place is None:
            return Told(NotMine())
        turn = Turn(place, copy.store(SETS).get, copy.store(PODS).get, _has_gate)
        return Told(ordinals.decide(place, lambda _: turn), (ordinaltexts.section(turn),))

    def ledger(self, manager: Manager) -> "OrdinalLedger":
        return OrdinalLedger(manager)


class OrdinalLedger(Ledger):
    """Which Pods may go, as the leader has decided it."""

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

        One that does not apply counts on until it is known why: somebody else may have taken the gate off.  Of a Pod
        that is gone (NotFound) the watch tells; of another one (Conflict, Invalid) `settle` asks.
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
        """Take back what was granted to a Pod that has its gate, as the API server has it now.

        If it is still its turn it is granted anew, and otherwise it would count for ever.
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
        """Those that wait for this object."""
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

"""Which PodQuotas cover which Pods, and what each Pod uses of them, computed from the stores."""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

from tollbar import wellknown
from tollbar.api.quotas import PodQuota, PodQuotaSpec, parse_quota
from tollbar.decide.quotas.admission import PODS, Quota
from tollbar.decide.quotas.lines import Charge, Lines
from tollbar.gates import devicecounting
from tollbar.gates.devicecounting import Asked, Devices
from tollbar.model import podresources, pods, resources, selectors, timestamps
from tollbar.model.objects import Key, Object, key_of, labels_of, metadata, picked, spec, uid_of
from tollbar.runtime.caches import Cached
from tollbar.runtime.sharing import sharing
from tollbar.runtime.source import Delta, spec_changed
from tollbar.runtime.store import Store
from tollbar.views import kinds

_IDENTITY: Final = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "labels",
)
_SHARED: Final = frozenset({("metadata", "labels"), ("requests",)})


def _counted(pod: Object) -> Object:
    """What a quota reads of a Pod; `requests` are those of the whole Pod, as texts, `claims` its references."""
    meta, body = metadata(pod), spec(pod)
    references = devicecounting.references(pod)
    requests = podresources.requests(pod, status=podresources.counts_by_status(pod))
    kept: Object = sharing(
        {
            "metadata": picked(meta, _IDENTITY),
            "spec": picked(body, ("priority", "schedulingGates")),
            "requests": {name: str(amount) for name, amount in requests.items() if amount > 0},
            **({"claims": references} if references != [] else {}),
        },
        _SHARED,
    )
    return kept


def _lasts(pod: Object) -> bool:
    return not pods.is_terminal(pod)


COUNTED: Final = Cached(
    "counted pods",
    resources.PODS,
    project=_counted,
    indexers={
        "namespace": kinds.namespace_of,
        "claim": devicecounting.claims_of,
        "template": devicecounting.templates_of,
    },
    accepts=_lasts,
)
"""Pods that have not ended, with and without a Node; little of each."""
QUOTAS: Final = Cached("quotas", resources.POD_QUOTAS, optional=True)
COUNTED_BY: Final = (QUOTAS, COUNTED, *devicecounting.COUNTED_BY)
"""What is read beside Namespaces."""
MOST_CHANGED: Final = 10_000
"""Where more Pods change between two looks, or while another process leads, all are counted anew."""


def is_enrolled(namespace: Object) -> bool:
    """Whether Pods of this Namespace are held and counted by PodQuotas."""
    return wellknown.LABEL_QUOTA in labels_of(namespace)


def labels_changed(delta: Delta) -> bool:
    """The predicate that drops changes of Namespaces after which quotas cover the Pods that they covered before."""
    if delta.old is None or delta.new is None:
        return any(map(is_enrolled, delta.objects))
    return labels_of(delta.old) != labels_of(delta.new)


@dataclass(frozen=True, slots=True)
class _Cover:
    """A quota that covers a namespace, as far as the charges of its Pods depend on it: not on how much it allows."""

    name: str
    pods: Object
    """The selector."""
    limits: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Counted:
    """A Pod as it was counted: what it asks for, its charge, and the lines in which that is, if in any."""

    uid: str
    asked: Asked
    charge: Charge
    side: Lines | None


class Counts:
    """What the Pods of namespaces with the label use, released and waiting ones, as of the last `look`.

    After `follow`, a look counts what has changed since the one before it.
    """

    def __init__(self, store: Callable[[Cached], Store]) -> None:
        """`store` is `Caches.store`."""
        self.quotas, self.pods, self.namespaces = store(QUOTAS), store(COUNTED), store(kinds.NAMESPACES)
        self.devices = Devices(store)
        self.released, self.waiting = Lines(), Lines()
        self.in_force: Sequence[Quota] = ()
        """The quotas that are valid and cover a namespace."""
        self.changes = 0
        """How many changes there were of what a decision depends on: `released`, `waiting` and `in_force`."""
        self.granted: dict[str, Key] = {}
        """Pods by uid that may go, and that the cache shows with the gate: they count as released."""
        self.doubtful: dict[str, Key] = {}
        """Those whose release from before `begin` may yet be carried out: they count as released, and may not go."""
        self._refused: set[str] = set()
        """uids of Pods that are on neither side, since their release was refused."""
        self._counted: dict[Key, _Counted] = {}
        self._covering: Mapping[str, tuple[_Cover, ...]] = {}
        """The quotas of each namespace that takes part."""
        self._of_devices: frozenset[str] = frozenset()
        """The quotas in force that limit devices."""
        self._is_covering = False
        """Whether `_covering` and `in_force` are those of the quotas, namespaces and classes as they are now."""
        self._parsed: dict[Key, tuple[Object, PodQuota | None]] = {}
        self._changed: set[Key] | None = None
        """Pods that are to be counted anew; None for all."""
        self._left: set[Key] = set()
        """Those that a look has begun with and not come to yet."""

    def follow(self) -> None:
        """Note from now on what changes."""
        self.pods.subscribe(self._on_pod)
        self.quotas.subscribe(self._on_quota)
        self.namespaces.subscribe(self._on_namespace)
        self.devices.claims.subscribe(self._on_claim)
        self.devices.templates.subscribe(self._on_template)
        self.devices.classes.subscribe(self._on_class)

    def begin(self, doubtful: Container[str] = ()) -> None:
        """Forget what was granted and refused, and count all Pods again.

        Pods of these uids that had been granted are doubtful from now on.
        """
        self.doubtful = {uid: key for uid, key in {**self.doubtful, **self.granted}.items() if uid in doubtful}
        self.granted.clear()
        self._refused.clear()
        self._changed = None
        self.changes += 1

    def enrolled(self) -> Sequence[str]:
        """The names of the namespaces that take part."""
        return [key_of(each).name for each in self.namespaces.values() if is_enrolled(each)]

    def users(self, of: Delta, index: str) -> Iterator[Key]:
        """The Pods in namespaces that take part which refer to the claim (index `claim`) or template that changed."""
        for obj in of.objects:
            if key_of(obj).namespace in self._covering:
                yield from self.pods.keys_by_index(index, key_of(obj))

    @property
    def charges(self) -> Mapping[Key, Charge]:
        """Of all Pods, on which side they may be."""
        return {key: counted.charge for key, counted in self._counted.items()}

    def charge(self, key: Key) -> Charge:
        """Of a Pod that is counted."""
        return self._counted[key].charge

    def look(self, most: int | None = None) -> bool:
        """Count what has changed since the last look; everything at the first one and after `begin`.

        Of at most so many Pods; whether these were all.  Until they are, `released` and `waiting` are not to be used.
        """
        if not self._is_covering:
            self._cover()
        if self._changed is None:
            there = (key for namespace in self._covering for key in self.pods.keys_by_index("namespace", namespace))
            self._changed = {*self._counted, *there}
        self._left |= self._changed
        self._changed = set()
        for _ in range(len(self._left) if most is None else min(most, len(self._left))):
            key = self._left.pop()
            self._count(key, self._covering.get(key.namespace))
        return not self._left

    def grant(self, key: Key) -> None:
        """Count a Pod that waits or is doubtful as released, until the cache shows it without the gate."""
        counted = self._counted[key]
        self.granted[counted.uid] = key
        self.doubtful.pop(counted.uid, None)
        self._put(key, replace(counted, side=self.released))

    def settle(self, uid: str) -> None:
        """A Pod that was doubtful waits again."""
        key = self.doubtful.pop(uid, None)
        if key is not None:
            self._note(key)

    def refuse(self, pod: Object) -> None:
        """A Pod whose release was refused neither counts nor waits, until `forgive` is called."""
        self.granted.pop(uid_of(pod), None)
        self._refused.add(uid_of(pod))
        self._note(key_of(pod))

    def forgive(self, uid: str, key: Key) -> None:
        """A Pod whose release was refused waits again."""
        self._refused.discard(uid)
        self._note(key)

    def _on_pod(self, delta: Delta) -> None:
        for obj in delta.objects:
            self._note(key_of(obj))

    def _on_quota(self, delta: Delta) -> None:
        if spec_changed(delta):
            self._is_covering = False

    def _on_namespace(self, delta: Delta) -> None:
        if labels_changed(delta):
            self._is_covering = False

    def _on_claim(self, delta: Delta) -> None:
        for key in self.users(delta, "claim"):
            self._note(key)

    def _on_template(self, delta: Delta) -> None:
        for key in self.users(delta, "template"):
            self._note(key)

    def _on_class(self, _: Delta) -> None:
        """The extended resource that the class provides may have changed, and with it what any Pod uses."""
        self._is_covering, self._changed = False, None

    def _note(self, key: Key) -> None:
        if self._changed is not None and key.namespace in self._covering:
            self._changed.add(key)
            if len(self._changed) > MOST_CHANGED:
                self._changed = None

    def _cover(self) -> None:
        """Find the quotas of each namespace; where charges depend on what has changed, Pods are to be counted anew."""
        before, coverage, self._is_covering = self._covering, self._coverage(), True
        found = {each.metadata.name: each for covering in coverage.values() for each in covering}
        covers = {
            name: _Cover(name, each.spec.pod_selector.as_object(), frozenset(each.spec.limits))
            for name, each in found.items()
        }
        self._covering = {
            name: tuple(covers[each.metadata.name] for each in covering) for name, covering in coverage.items()
        }
        for namespace in before.keys() | self._covering.keys():
            if self._changed is not None and before.get(namespace) != self._covering.get(namespace):
                self._changed.update(self.pods.keys_by_index("namespace", namespace))
        self.devices.limit(name for each in found.values() for name in each.spec.limits)
        self.in_force = [self._quota(each.metadata.name, each.spec) for each in found.values()]
        self._of_devices = frozenset(each.name for each in self.in_force if each.counts_devices)
        self.changes += 1

    def _coverage(self) -> Mapping[str, tuple[PodQuota, ...]]:
        parsed: dict[Key, tuple[Object, PodQuota | None]] = {}
        for obj in self.quotas.values():
            known = self._parsed.get(key_of(obj))
            if known is None or spec(known[0]) != spec(obj) or uid_of(known[0]) != uid_of(obj):
                found = parse_quota(obj)
                known = obj, found if isinstance(found, PodQuota) else None
            parsed[key_of(obj)] = known
        self._parsed = parsed
        quotas = [quota for _, quota in parsed.values() if quota is not None]
        return {
            key_of(each).name: tuple(
                quota
                for quota in quotas
                if selectors.matches(quota.spec.namespace_selector.as_object(), labels_of(each))
            )
            for each in self.namespaces.values()
            if is_enrolled(each)
        }

    def _count(self, key: Key, covering: Sequence[_Cover] | None) -> None:
        """`covering` is None where the namespace takes no part."""
        pod, before = self.pods.get(key) if covering is not None else None, self._counted.get(key)
        if before is not None and (pod is None or uid_of(pod) != before.uid or not _is_held(pod)):
            self.granted.pop(before.uid, None)
            self.doubtful.pop(before.uid, None)
        if pod is None or covering is None:
            self._put(key, None)
        else:
            known = (before.asked,) if before is not None and before.uid == uid_of(pod) else ()
            asked = self.devices.asked(pod, *known)
            charge = _charge(key, pod, asked, covering, self._of_devices)
            self._put(key, _Counted(uid_of(pod), asked, charge, self._side(pod)))

    def _quota(self, name: str, wanted: PodQuotaSpec) -> Quota:
        return Quota(
            name,
            wanted.amounts,
            wanted.sharing == "Fair",
            wanted.patience_seconds,
            any(map(self.devices.limited_by, wanted.limits)),
        )

    def _side(self, pod: Object) -> Lines | None:
        if not _is_held(pod) or uid_of(pod) in self.granted or uid_of(pod) in self.doubtful:
            return self.released
        return None if pods.is_deleting(pod) or uid_of(pod) in self._refused else self.waiting

    def _put(self, key: Key, counted: _Counted | None) -> None:
        before = self._counted.get(key)
        if before == counted:
            return
        self.changes += 1
        self._counted.pop(key, None)
        if before is not None and before.side is not None:
            before.side.remove(before.charge)
        if counted is not None:
            self._counted[key] = counted
            if counted.side is not None:
                counted.side.add(counted.charge)


def _is_held(pod: Object) -> bool:
    return wellknown.QUOTA_GATE in pods.gate_names(pod)


def _charge(key: Key, pod: Object, asked: Asked, covering: Iterable[_Cover], of_devices: Collection[str]) -> Charge:
    """`pod` is as the store keeps it, and `of_devices` has the names of quotas that limit devices.

    Of what the Pod alone takes, the charge has what these quotas limit: each decision walks it, and a Pod may name as
    many resources as its author likes.
    """
    labels = labels_of(pod)
    selecting = [each for each in covering if selectors.matches(each.pods, labels)]
    names = tuple(each.name for each in selecting)
    limited = {name for each in selecting for name in each.limits}
    requests: Mapping[str, str] = pod["requests"]
    amounts = {PODS: Decimal(1), **{name: Decimal(requests[name]) for name in limited if name in requests}}
    for name, amount in asked.own():
        if name in limited:
            amounts[name] = amounts.get(name, Decimal(0)) + amount
    created = metadata(pod).get("creationTimestamp")
    return Charge(
        key,
        names,
        amounts,
        priority=spec(pod).get("priority") or 0,
        created=timestamps.parse(created) if created else 0.0,
        claims=asked.shared(),
        unknown=asked.unknown if any(name in of_devices for name in names) else "",
    )

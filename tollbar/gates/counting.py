"""Which PodQuotas cover which Pods, and what each Pod takes of them, from the stores."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Final

from tollbar import wellknown
from tollbar.api.quotas import PodQuota, parse_quota
from tollbar.decide.quotas.admission import PODS, Charge, Quota
from tollbar.model import podresources, pods, resources, selectors, timestamps
from tollbar.model.objects import Key, Object, key_of, labels_of, metadata, spec, uid_of
from tollbar.runtime.caches import Cached
from tollbar.runtime.sharing import sharing
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
    """What a quota reads of a Pod; `requests` are those of the whole Pod, as texts."""
    meta, body = metadata(pod), spec(pod)
    requests = podresources.requests(pod, status=podresources.counts_by_status(pod))
    kept: Object = sharing(
        {
            "metadata": {name: meta[name] for name in _IDENTITY if name in meta},
            "spec": {name: body[name] for name in ("priority", "schedulingGates") if name in body},
            "requests": {name: str(amount) for name, amount in requests.items() if amount > 0},
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
    indexers={"namespace": kinds.namespace_of},
    accepts=_lasts,
)
"""Pods that have not ended, with and without a Node; little of each."""
QUOTAS: Final = Cached("quotas", resources.POD_QUOTAS, optional=True)
COUNTED_BY: Final = (QUOTAS, COUNTED)
"""What is read beside Namespaces."""


def is_enrolled(namespace: Object) -> bool:
    return wellknown.LABEL_QUOTA in labels_of(namespace)


class Counts:
    """`charges` by Pod, of namespaces with the label, as of the last `look`."""

    def __init__(self, store: Callable[[Cached], Store]) -> None:
        """`store` is `Caches.store`."""
        self.quotas, self.pods, self.namespaces = store(QUOTAS), store(COUNTED), store(kinds.NAMESPACES)
        self.charges: Mapping[Key, tuple[Object, Charge]] = {}
        self._covering: Mapping[str, tuple[PodQuota, ...]] = {}
        self._parsed: dict[Key, tuple[Object, PodQuota | None]] = {}

    def enrolled(self) -> Sequence[str]:
        """The names of the namespaces that take part."""
        return [key_of(each).name for each in self.namespaces.values() if is_enrolled(each)]

    def in_force(self) -> Sequence[Quota]:
        """The quotas that are valid and cover a namespace."""
        found = {each.metadata.name: each for covering in self._covering.values() for each in covering}
        return [_quota(each) for each in found.values()]

    def look(self) -> None:
        """Charges of Pods that have not changed are kept, as long as the quotas of each namespace are the same."""
        self._cover()
        self.charges = {
            key: (pod, self._charge(key, pod, covering))
            for namespace, covering in self._covering.items()
            for key in self.pods.keys_by_index("namespace", namespace)
            if (pod := self.pods.get(key)) is not None
        }

    def sides(self) -> tuple[list[Charge], list[Charge]]:
        """Those that are out already, and those that wait."""
        found = list(self.charges.values())
        out = [charge for pod, charge in found if wellknown.QUOTA_GATE not in pods.gate_names(pod)]
        waiting = [
            charge
            for pod, charge in found
            if wellknown.QUOTA_GATE in pods.gate_names(pod) and not pods.is_deleting(pod)
        ]
        return out, waiting

    def _cover(self) -> None:
        """Find the quotas of each namespace; what was known of Pods is of no use any more where they have changed."""
        parsed: dict[Key, tuple[Object, PodQuota | None]] = {}
        for obj in self.quotas.values():
            known = self._parsed.get(key_of(obj))
            if known is None or spec(known[0]) != spec(obj) or uid_of(known[0]) != uid_of(obj):
                found = parse_quota(obj)
                known = obj, found if isinstance(found, PodQuota) else None
            parsed[key_of(obj)] = known
        self._parsed = parsed
        quotas = [quota for _, quota in parsed.values() if quota is not None]
        covering = {
            key_of(each).name: tuple(
                quota
                for quota in quotas
                if selectors.matches(quota.spec.namespace_selector.as_object(), labels_of(each))
            )
            for each in self.namespaces.values()
            if is_enrolled(each)
        }
        if covering != self._covering:
            self._covering, self.charges = covering, {}

    def _charge(self, key: Key, pod: Object, covering: Iterable[PodQuota]) -> Charge:
        known = self.charges.get(key)
        if known is not None and known[0] is pod:
            return known[1]
        labels = labels_of(pod)
        names = tuple(
            each.metadata.name for each in covering if selectors.matches(each.spec.pod_selector.as_object(), labels)
        )
        amounts = {PODS: Decimal(1), **{name: Decimal(text) for name, text in pod["requests"].items()}}
        created = metadata(pod).get("creationTimestamp")
        return Charge(
            key,
            names,
            amounts,
            priority=spec(pod).get("priority") or 0,
            created=timestamps.parse(created) if created else 0.0,
        )


def _quota(found: PodQuota) -> Quota:
    wanted = found.spec
    return Quota(found.metadata.name, wanted.amounts, wanted.sharing == "Fair", wanted.patience_seconds)

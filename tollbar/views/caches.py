"""The caches of a process, and the questions that decisions ask them.

The webhook has every kind but Pods; the controllers have the Pods that are not bound yet, too, and those of claims
every Pod that uses claims.  Implements `tollbar.decide.pods.package.Lookup`.  Nothing here awaits; an answer is as old
as the watches are (`synced` says whether there is one at all).
"""

from functools import partial

from tollbar import wellknown
from tollbar.api.gates import parse_gate
from tollbar.api.types import SchedulingGate
from tollbar.api.webhooks import DEVICES
from tollbar.cel import CelEngine
from tollbar.decide.pods.scope import SHIPPED_GATE_POLICY, GatePolicy
from tollbar.model import claims, conditions, pods, resources, selectors
from tollbar.model.objects import Key, Object, key_of, labels_of, metadata
from tollbar.model.resources import Resource
from tollbar.runtime.store import Store
from tollbar.views import indexers
from tollbar.views.claimusers import ClaimUsers
from tollbar.views.deleted import DeletedUids
from tollbar.views.ruleset import RuleSet

_NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"


class Caches:
    def __init__(self, *, engine: CelEngine, managed_namespaces: Object, system_namespace: str) -> None:
        """`managed_namespaces` is a metav1.LabelSelector; the system namespace is never managed."""
        projected = partial(Store, project=indexers.metadata_and_spec)
        self.claims = projected(resources.RESOURCE_CLAIMS, indexers=indexers.CLAIMS)
        self.templates = projected(resources.RESOURCE_CLAIM_TEMPLATES, indexers=indexers.TEMPLATES)
        self.classes = projected(resources.DEVICE_CLASSES, indexers=indexers.CLASSES)
        self.namespaces = Store(resources.NAMESPACES, project=indexers.metadata_only)
        self.rules = Store(resources.TOLERATION_RULES)
        self.gates = Store(resources.SCHEDULING_GATES, indexers=indexers.GATES)
        self.ruleset = RuleSet(self.rules, engine)
        self._managed_namespaces = managed_namespaces
        self._system_namespace = system_namespace
        self._our_gate: tuple[Object | None, GatePolicy] = (None, SHIPPED_GATE_POLICY)
        self._synced = False

    @property
    def decisive(self) -> tuple[Store, ...]:
        """What decisions about Pods read.  Nothing else may keep them waiting."""
        return (self.claims, self.templates, self.classes, self.namespaces, self.rules, self.gates)

    @property
    def stores(self) -> tuple[Store, ...]:
        return self.decisive

    @property
    def synced(self) -> bool:
        """Whether what is decisive has been listed, which then stays so.  Asked for every Pod."""
        self._synced = self._synced or all(store.synced.is_set() for store in self.decisive)
        return self._synced

    def claim(self, key: Key) -> Object | None:
        return self.claims.get(key)

    def template(self, key: Key) -> Object | None:
        return self.templates.get(key)

    def device_class(self, name: str) -> Object | None:
        return self.classes.get(Key("", name))

    def namespace(self, name: str) -> Object | None:
        return self.namespaces.get(Key("", name))

    def class_for_extended_resource(self, resource: str) -> Object | None:
        """The class that backs this resource, by name or by `spec.extendedResourceName`.

        Of several, the one created last, then the first by name (API reference of DeviceClassSpec).
        """
        if (implicit := claims.implicit_class(resource)) is not None:
            return self.device_class(implicit)
        by_name = sorted(self.classes.by_index("extended-resource", resource), key=lambda found: key_of(found).name)
        return max(by_name, key=lambda found: metadata(found).get("creationTimestamp") or "", default=None)

    def is_managed(self, name: str) -> bool:
        """Whether Pods of this namespace are Tollbar's business.

        A namespace that the cache does not know yet is judged by its name alone, which is one of its labels.
        """
        namespace = self.namespace(name) or {}
        labels = {**labels_of(namespace), _NAMESPACE_NAME_LABEL: name}
        return (
            name != self._system_namespace
            and not pods.is_skipped(namespace)
            and selectors.matches(self._managed_namespaces, labels)
        )

    def gate_policy(self) -> GatePolicy:
        """What the SchedulingGate of our gate says; what we ship while there is none.

        Asked for every Pod, so the object is parsed once: what a store holds is never mutated.
        """
        declaring = self.gates.by_index("gate-name", wellknown.GATE)
        ours = min(declaring, key=lambda gate: key_of(gate).name, default=None)
        if ours is not self._our_gate[0]:
            self._our_gate = ours, self.policy_of(ours) if ours is not None else SHIPPED_GATE_POLICY
        return self._our_gate[1]

    def policy_of(self, gate: Object) -> GatePolicy:
        parsed = parse_gate(gate)
        if not isinstance(parsed, SchedulingGate):
            return SHIPPED_GATE_POLICY
        return GatePolicy(
            max_hold=parsed.spec.max_hold_seconds,
            release_on_expiry=parsed.spec.on_expiry == "Release",
            usable=not conditions.is_false(gate, wellknown.CONDITION_READY),
        )


class PodCaches(Caches):
    """With the Pods that have no node yet: the controllers' caches."""

    def __init__(self, *, engine: CelEngine, managed_namespaces: Object, system_namespace: str) -> None:
        super().__init__(engine=engine, managed_namespaces=managed_namespaces, system_namespace=system_namespace)
        self.pods = Store(resources.PODS, indexers=indexers.PODS)
        self.webhooks = Store(resources.MUTATING_WEBHOOK_CONFIGURATIONS)
        self.foreseen: dict[Key, Object] = {}
        """What patches of ours that are under way make of Pods (`gates.expected`): a Pod that becomes exactly
        that wakes nobody.  An entry lives as long as its call; the watch may be quicker than the answer."""

    @property
    def decisive(self) -> tuple[Store, ...]:
        return (*super().decisive, self.pods)

    @property
    def stores(self) -> tuple[Store, ...]:
        return (*self.decisive, self.webhooks)

    @property
    def is_prefiltered(self) -> bool:
        """Whether the API server sends our webhook only the Pods that want devices (its matchConditions)."""
        return any(
            condition.get("name") == DEVICES[0]
            for configuration in self.webhooks.values()
            for webhook in configuration.get("webhooks") or ()
            for condition in webhook.get("matchConditions") or ()
        )


class ClaimCaches(PodCaches):
    """With what the controllers of claims read: claims with their status, Pods that use claims, deleted uids."""

    def __init__(
        self,
        *,
        engine: CelEngine,
        managed_namespaces: Object,
        system_namespace: str,
        pod_groups: Resource | None = None,
    ) -> None:
        """`pod_groups` says in which version they are read; without it they are not, and their cache is empty."""
        super().__init__(engine=engine, managed_namespaces=managed_namespaces, system_namespace=system_namespace)
        self.claims = Store(
            resources.RESOURCE_CLAIMS, project=indexers.metadata_spec_and_status, indexers=indexers.OWNED_CLAIMS
        )
        self.claim_users = ClaimUsers(self.pods)
        self.workload_claims = Store(resources.WORKLOAD_CLAIMS, indexers=indexers.WORKLOAD_CLAIMS)
        self.pod_groups = Store(pod_groups or resources.POD_GROUPS, indexers=indexers.POD_GROUPS)
        self._reads_pod_groups = pod_groups is not None
        self.deleted = DeletedUids()
        """Of Pods that used claims and of PodGroups; who watches more kinds adds theirs."""
        self.deleted.watch(self.claim_users)
        self.deleted.watch(self.pod_groups)

    @property
    def stores(self) -> tuple[Store, ...]:
        fed = (store for store in super().stores if store is not self.pods)
        return (*fed, self.claim_users, self.workload_claims, *((self.pod_groups,) if self._reads_pod_groups else ()))

"""Facts for decisions about Pods: packages, the rules in force, managed namespaces, and the gate's policy."""

from collections.abc import Callable
from dataclasses import replace

from tollbar import cel, wellknown
from tollbar.api.gates import SchedulingGate, parse_gate
from tollbar.api.reasons import GateReason
from tollbar.cel import CelEngine
from tollbar.decide.claims.devicetolerations import DeviceTolerationFacts
from tollbar.decide.gates.release import Refusal
from tollbar.decide.pods.admission import AdmissionFacts
from tollbar.decide.pods.package import Package, assemble
from tollbar.decide.pods.scope import SHIPPED_GATE_POLICY, AdmissionMode, GatePolicy
from tollbar.decide.pods.tolerationgate import GateFacts
from tollbar.model import claims, conditions, pods, selectors
from tollbar.model.objects import Object, key_of, labels_of
from tollbar.runtime.caches import Cached
from tollbar.runtime.config import Configuration
from tollbar.runtime.store import Store
from tollbar.views import kinds
from tollbar.views.lookup import PackageLookup
from tollbar.views.ruleset import RuleSet


class Gatherer:
    """Gathers facts about Pods from the stores that it declares."""

    def __init__(
        self, store: Callable[[Cached], Store], configuration: Configuration, engine: CelEngine | None = None
    ) -> None:
        """`store` is `Caches.store`; `engine` is the one that this process uses unless given."""
        self.lookup = PackageLookup(store)
        self.rules = store(kinds.RULES)
        self.gates = store(kinds.GATES)
        self.ruleset = RuleSet(self.rules, engine or cel.engine())
        self._managed_namespaces = configuration.managed_namespace_selector
        self._system_namespace = configuration.system_namespace
        self._policies: dict[str, tuple[Object, GatePolicy]] = {}
        self._synced = False

    @property
    def stores(self) -> tuple[Store, ...]:
        """The stores that must have synced before a decision."""
        lookup = self.lookup
        return (lookup.claims, lookup.templates, lookup.classes, lookup.namespaces, self.rules, self.gates)

    @property
    def synced(self) -> bool:
        """Whether all stores have synced; remembered, since it is read for every Pod."""
        self._synced = self._synced or all(store.synced.is_set() for store in self.stores)
        return self._synced

    def admission_facts(self, pod: Object, mode: AdmissionMode, *, releasing: bool) -> AdmissionFacts:
        """About a Pod that is being created; `releasing` is whether a controller is there to release what is gated."""
        return AdmissionFacts(
            package=self.package(pod, at_admission=True),
            rules=self.ruleset.rules,
            engine=self.ruleset.engine,
            selector=self.ruleset.selector,
            mode=mode,
            managed=self.is_managed(key_of(pod).namespace),
            ready=self.synced,
            gating=self.gate_policy().usable and releasing,
        )

    def gate_facts(self, pod: Object, refusal: Refusal | None = None) -> GateFacts:
        """About a Pod that exists; `refusal` is the last one of its release, if there was one."""
        return GateFacts(
            package=self.package(pod),
            rules=self.ruleset.rules,
            engine=self.ruleset.engine,
            selector=self.ruleset.selector,
            managed=self.is_managed(key_of(pod).namespace),
            policy=self.gate_policy(),
            ready=self.synced,
            refusal=refusal,
        )

    def device_toleration_facts(self, obj: Object) -> DeviceTolerationFacts:
        """About a ResourceClaim or a ResourceClaimTemplate that is about to be created."""
        claim = {"spec": claims.template_claim_spec(obj)} if obj["kind"] == "ResourceClaimTemplate" else obj
        names = set(claims.device_classes(claim))
        namespace = key_of(obj).namespace
        return DeviceTolerationFacts(
            obj=obj,
            namespace=self.lookup.namespace(namespace),
            classes={name: found for name in names if (found := self.lookup.device_class(name)) is not None},
            rules=self.ruleset.claim_rules,
            engine=self.ruleset.engine,
            selector=self.ruleset.selector,
            managed=self.is_managed(namespace),
            ready=self.synced,
        )

    def package(self, pod: Object, *, at_admission: bool = False) -> Package:
        return assemble(pod, self.lookup, at_admission=at_admission)

    def is_managed(self, name: str) -> bool:
        """Whether Tollbar handles Pods of this namespace.

        For a namespace that is not in the cache yet, only the label `kubernetes.io/metadata.name` is known.
        """
        namespace = self.lookup.namespace(name) or {}
        labels = {**labels_of(namespace), wellknown.NAMESPACE_NAME_LABEL: name}
        return (
            name != self._system_namespace
            and not pods.is_skipped(namespace)
            and selectors.matches(self._managed_namespaces, labels)
        )

    def gate_policy(self, name: str = wellknown.GATE, default: GatePolicy = SHIPPED_GATE_POLICY) -> GatePolicy:
        """The policy in the SchedulingGate of this gate; the default while there is none that is valid.

        It is read for every Pod, so the object is parsed only when it is replaced.
        """
        declaring = self.gates.by_index("gate-name", name)
        found = min(declaring, key=lambda gate: key_of(gate).name, default=None)
        if found is None:
            return default
        known, policy = self._policies.get(name, (None, default))
        if found is not known:
            policy = policy_of(found, default)
            self._policies[name] = found, policy
        return policy


def policy_of(gate: Object, default: GatePolicy) -> GatePolicy:
    """The policy in this SchedulingGate; with the limits of the default when it is not valid."""
    usable = conditions.of(gate, wellknown.CONDITION_READY).get("reason") != GateReason.NOT_AN_OWNER
    parsed = parse_gate(gate)
    if not isinstance(parsed, SchedulingGate):
        return replace(default, usable=usable)
    return GatePolicy(
        max_hold=parsed.spec.max_hold_seconds,
        release_on_expiry=parsed.spec.on_expiry == "Release",
        usable=usable,
    )

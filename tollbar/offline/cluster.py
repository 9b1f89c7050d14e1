"""The copy: objects in stores, and the decisions about Pods on them."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Final, TypeAlias

from tollbar.cel import CelEngine
from tollbar.decide.pods import matching, tolerationgate
from tollbar.decide.pods.matching import Evaluator, Verdict
from tollbar.decide.pods.package import Package
from tollbar.decide.pods.scope import GatePolicy
from tollbar.decide.pods.tolerationgate import GatePlan
from tollbar.decide.rules.rule import Rule
from tollbar.gates import ClusterCopy, Gate, Section
from tollbar.gates.evaluation import Evaluation, GateEvaluator, default_policies, policy_in_force
from tollbar.model import resources
from tollbar.model.gates import gate_name
from tollbar.model.objects import Key, Object, key_of, metadata
from tollbar.model.resources import Resource
from tollbar.offline.scheduling import OfflineScheduler
from tollbar.runtime import config
from tollbar.runtime.caches import Cached, Caches
from tollbar.runtime.clock import SystemClock
from tollbar.runtime.config import Configuration
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.store import Store
from tollbar.scheduler.config.types import SchedulerConfiguration
from tollbar.views import kinds
from tollbar.views.gatherer import Gatherer

PODS: Final = Cached("whole pods", resources.PODS)
"""Every Pod, whole, whatever its phase."""
_OTHERS: Final = (
    PODS,
    kinds.CLAIMS_WITH_STATUS,
    kinds.TEMPLATES,
    kinds.POD_GROUPS,
    kinds.WORKLOAD_CLAIMS,
    Cached("deployments", resources.DEPLOYMENTS),
    Cached("priority classes", resources.PRIORITY_CLASSES),
    Cached("mutating webhooks", resources.MUTATING_WEBHOOK_CONFIGURATIONS),
)
"""Kept besides what the decisions and the scheduler read: what says who is in charge of a Pod."""
_DEFAULT_NAMESPACE: Final = "default"
_GroupKind: TypeAlias = tuple[str, str]


class Cluster:
    """A copy of a cluster.

    `unknown` says of each kind that could not be read, by its name such as ResourceSlice, why: such a kind is empty
    here, and what follows from that is not known.  `unserved` are the names of kinds that the API server serves in no
    version that is read: nothing waits for an object of those.  `left_out` has the objects of kinds that nobody here
    reads, or of versions that they are not read in.

    `now` is the time of the copy, in epoch seconds: ages count from it.  `gates` are the gate classes that are asked
    about Pods: what they read is kept, too.  `configuration` is that of Tollbar's processes, `scheduler_configuration`
    that of the scheduler: kube-scheduler's defaults unless given.
    """

    def __init__(
        self,
        objects: Iterable[Object] = (),
        *,
        unknown: Mapping[str, str] | None = None,
        unserved: Collection[str] = (),
        now: float | None = None,
        configuration: Configuration | None = None,
        scheduler_configuration: SchedulerConfiguration | None = None,
        engine: CelEngine | None = None,
        gates: Iterable[Gate] = (),
    ) -> None:
        self.unknown = dict(unknown or {})
        self.read_in: dict[str, str] = {}
        """Of kinds that are `unknown`, the only namespace in which they were read."""
        self.now = SystemClock().now() if now is None else now
        self.configuration = configuration or config.load(None, {})
        self.left_out: list[Object] = []
        self._objects: dict[tuple[_GroupKind, Key], Object] = {}
        self._caches = Caches()
        self._declared: dict[Resource, list[Cached]] = {}
        self.gatherer = Gatherer(self.store, self.configuration, engine)
        self.scheduler = OfflineScheduler(self.store, lambda: self.now, scheduler_configuration)
        election = self.configuration.leader_election
        self.lease = kinds.lease(election.lease_name, self.configuration.system_namespace)
        """The declaration of the controllers' Lease."""
        metrics = Metrics()
        classes = tuple(gates)
        self._default_policies = default_policies(classes)
        self._evaluators = {each.name: GateEvaluator(each, self.store, self.gatherer, metrics) for each in classes}
        by_gates = (cached for each in classes for cached in each.explain_reads)
        for cached in (*_OTHERS, self.lease, *by_gates):
            self.store(cached)
        self._stores: defaultdict[_GroupKind, list[Store]] = defaultdict(list)
        for store in self._caches.stores.values():
            self._stores[store.resource.group, store.resource.kind].append(store)
            store.served = store.resource.kind not in unserved
            store.synced.set()
        for obj in objects:
            self.put(obj)

    # What is in it.

    def store(self, cached: Cached) -> Store:
        """The store of this declaration; all are declared while the Cluster is made."""
        known = self._declared.setdefault(cached.resource, [])
        if cached not in known:
            known.append(cached)
        return self._caches.store(cached)

    @property
    def declared(self) -> Mapping[Resource, Sequence[Cached]]:
        """The kinds that are kept, each with the declarations of its stores."""
        return self._declared

    def objects(self, resource: Resource | None = None) -> list[Object]:
        """The objects as they were given, all of them or those of one resource, in the order of kind and key."""
        wanted = None if resource is None else (resource.group, resource.kind)
        return [obj for (kind, _), obj in sorted(self._objects.items(), key=_place) if wanted in (None, kind)]

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        """The object as it was given."""
        return self._objects.get(((resource.group, resource.kind), Key(namespace, name)))

    def knows(self, *resources: Resource, namespace: str = "") -> bool:
        """Whether all of these kinds could be read; in this namespace at least, if one is given."""
        return all(
            each.kind not in self.unknown or self.read_in.get(each.kind, "") == namespace != "" for each in resources
        )

    @property
    def not_read(self) -> tuple[str, ...]:
        """The kinds that could not be read, each with why: `Node: forbidden`."""
        return tuple(f"{kind}: {why}" for kind, why in sorted(self.unknown.items()))

    def serves(self, resource: Resource) -> bool:
        """Whether the API server serves this kind in a version that is read, as far as is known."""
        return all(store.served for store in self._stores[resource.group, resource.kind])

    def put(self, obj: Object) -> Object:
        """Add or replace an object; the answer is the object as it is kept: with namespace and uid, which files lack.

        One of a kind that is not kept goes to `left_out`.
        """
        kind, version = _kind_of(obj)
        stores = self._stores.get(kind)
        if not stores or not _is_read(stores[0].resource, version):
            self.left_out.append(obj)
            return obj
        obj = _identified(obj, stores[0].resource)
        for store in stores:
            store.apply(obj)
        self._objects[kind, key_of(obj)] = obj
        return obj

    def remove(self, obj: Object) -> None:
        """Forget the object of this kind, namespace and name; nothing to do if there is none."""
        kind, _ = _kind_of(obj)
        known = self._objects.pop((kind, _key_of(obj, self._stores[kind])), None)
        if known is not None:
            for store in self._stores[kind]:
                store.remove(known)

    @contextmanager
    def changed(self, *, put: Iterable[Object] = (), without: Iterable[Object] = ()) -> Iterator[None]:
        """The copy with these objects put in and those removed, as long as the block lasts."""
        put, without = tuple(put), tuple(without)
        before = [(obj, self._known(obj)) for obj in (*without, *put)]
        for obj in without:
            self.remove(obj)
        for obj in put:
            self.put(obj)
        try:
            yield
        finally:
            for obj, known in reversed(before):
                if known is None:
                    self.remove(obj)
                else:
                    self.put(known)

    def _known(self, obj: Object) -> Object | None:
        kind, _ = _kind_of(obj)
        return self._objects.get((kind, _key_of(obj, self._stores[kind])))

    # What Tollbar decides.

    @property
    def rules(self) -> Mapping[str, Rule]:
        """The rules that compile and are not disabled, by name."""
        return {rule.name: rule for rule in self.gatherer.ruleset.rules}

    def package(self, pod: Object) -> Package:
        """The Pod with its claims and classes, and what of them is missing."""
        return self.gatherer.package(pod)

    def gate_plan(self, pod: Object) -> GatePlan:
        """What the controllers decide about this Pod at the time of the copy.

        Refusals by other admission are not known here: see the Pod's Events.
        """
        return tolerationgate.decide(self.gatherer.gate_facts(pod), self.now)

    def declared_gate(self, name: str) -> Object | None:
        """The SchedulingGate that declares the gate of this name; of several the first by name."""
        return next((each for each in self.objects(resources.SCHEDULING_GATES) if gate_name(each) == name), None)

    def gate_policy(self, name: str) -> GatePolicy:
        """How long the gate of this name may hold a Pod, and what happens then (`policy_in_force`)."""
        return policy_in_force(name, self.declared_gate(name) or {}, self._default_policies)

    def told_of(self, name: str, pod: Object) -> tuple[Evaluation, Sequence[Section]] | None:
        """What the class of this gate says of the Pod; None without the class, or where what it reads is not known."""
        evaluator = self._evaluators.get(name)
        if evaluator is None:
            return None
        read = [*(each.cached for each in evaluator.gate.reads), *evaluator.gate.explain_reads]
        if not self.knows(resources.NAMESPACES, *(each.resource for each in read)):
            return None
        return evaluator.explain(pod, ClusterCopy(self._caches.store, self.now))

    def verdicts(self, pod: Object) -> Mapping[str, Verdict]:
        """What every rule in scope says of this Pod, by the rule's name: in force or in Audit.

        A rule that is not here does not compile, is disabled, or its `namespaceSelector` leaves the Pod out.
        """
        return {name: verdict for name, (verdict, _) in self.judged(pod).items()}

    def judged(self, pod: Object) -> Mapping[str, tuple[Verdict, int]]:
        """The verdicts, each with the steps that it took: what costs are limited by (`matching.CostLimits`)."""
        ruleset, package = self.gatherer.ruleset, self.package(pod)
        evaluator = Evaluator(package, ruleset.engine, ruleset.selector, matching.IN_THE_CONTROLLER)
        found = {}
        for rule in sorted(ruleset.rules, key=lambda rule: (rule.mode != "Enforce", rule.name)):
            if rule.in_scope(package.namespace):
                before = evaluator.spent
                found[rule.name] = evaluator.verdict(rule), evaluator.spent - before
        return found


def _kind_of(obj: Object) -> tuple[_GroupKind, str]:
    """Group and kind, and the version."""
    group, _, version = str(obj.get("apiVersion") or "").rpartition("/")
    return (group, str(obj.get("kind"))), version


def _is_read(resource: Resource, version: str) -> bool:
    """Whether objects of this version have the fields that are read; of two kinds, no version differs in those."""
    return version == resource.version or resource in (resources.DEVICE_TAINT_RULES, resources.POD_GROUPS)


def _key_of(obj: Object, stores: Iterable[Store]) -> Key:
    namespace, name = key_of(obj)
    return Key((namespace or _DEFAULT_NAMESPACE) if any(each.resource.namespaced for each in stores) else "", name)


def _identified(obj: Object, resource: Resource) -> Object:
    """The object with what the API server would give it, and what caches and claims know it by."""
    meta = metadata(obj)
    given: Object = {}
    if resource.namespaced and not meta.get("namespace"):
        given["namespace"] = _DEFAULT_NAMESPACE
    if not meta.get("uid"):
        given["uid"] = "/".join(filter(None, (resource.plural, meta.get("namespace") or "", str(meta.get("name")))))
    return {**obj, "metadata": {**meta, **given}} if given else obj


def _place(item: tuple[tuple[_GroupKind, Key], Object]) -> tuple[str, ...]:
    (group_kind, key), _ = item
    return tuple(chain(group_kind, key))

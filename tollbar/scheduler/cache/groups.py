"""How many Pods of a kind each Node of a snapshot has, kept as Pods come and go, so that no cycle counts Pods.

Two questions are answered.  Which Pods does an incoming Pod's selector mean (topology spread, its own affinity terms),
or have a lower priority than it (preemption): a Group counts them by Node, from the first time that it is asked for.
And which terms of Pods on Nodes are about the incoming Pod (their affinity and anti-affinity): each different term is
kept with the Nodes of its Pods.

Counts are indexed by the rows of the snapshot's Table.  Hard topology spread, for one constraint:

    group = nodes.groups.group(PodSelector(frozenset({pod.key.namespace}), selector), terminating=False)
    domains = nodes.table.label(constraint.topology_key)
    eligible = (domains.ids >= 0) & allowed                            # allowed: by the inclusion policies, by row
    in_domain = by_domain(domains, group.counts, eligible)             # matching Pods by number of the domain
    exists = by_domain(domains, eligible, eligible) > 0
    least = in_domain[exists].min(initial=sys.maxsize)
    fits = (domains.ids >= 0) & (in_domain[domains.ids] + itself - least <= constraint.max_skew)
    return fits[nodes.table.order]

Required anti-affinity of Pods on Nodes against an incoming Pod:

    for each in nodes.groups.terms(TermKind.REQUIRED_ANTI_AFFINITY, pod, namespace_labels):
        domains = nodes.table.label(each.term.topology_key)
        fits &= nodes.groups.in_domains(each, domains)[domains.ids] == 0

What is returned holds until the snapshot is updated: do not keep it for longer than a scheduling cycle, and do not
change it.
"""

from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from tollbar.scheduler.cache.domains import DomainSums, NodeSet
from tollbar.scheduler.cache.podinfo import AffinityTerm, PodInfo, Shape
from tollbar.scheduler.cache.selector import PodSelector, Selector
from tollbar.scheduler.cache.table import IdColumn, Ints

MAX_GROUPS: Final = 256
"""How many groups are kept; those that were asked for longest ago go first."""
MAX_SUMS: Final = 512
"""How many sums by domain are kept; where each Node is a domain, 5,000 of them take 40 KB."""
MAX_LABELS: Final = 1024
"""By how many labels of one namespace each the shapes of Pods are indexed, for groups that are new."""


class TermKind(Enum):
    """The fields of a Shape that hold affinity terms."""

    REQUIRED_AFFINITY = "affinity"
    REQUIRED_ANTI_AFFINITY = "anti_affinity"
    PREFERRED_AFFINITY = "preferred_affinity"
    PREFERRED_ANTI_AFFINITY = "preferred_anti_affinity"

    __hash__ = object.__hash__
    """There is one object for each kind; the hash of an Enum is a call of Python code."""

    def of(self, shape: Shape) -> tuple[AffinityTerm, ...]:
        terms: tuple[AffinityTerm, ...] = getattr(shape, self.value)
        return terms


_Bucket: TypeAlias = tuple[str | None, tuple[str, str] | None]
"""Terms that name this namespace, or with None select namespaces by labels, and are about Pods with this label alone;
None for terms that demand no label with one value.
"""


class Group:
    """The Pods that match all of `selectors`: `counts` by row, `sums` by the domains that were asked for lately.

    Without `terminating`, Pods that are being deleted do not count.  `namespaces` are those that the Pods can be in,
    None for any.
    """

    __slots__ = ("counts", "namespaces", "selectors", "sums", "terminating")

    def __init__(self, capacity: int, chosen: tuple[PodSelector, ...], terminating: bool) -> None:
        self.counts: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self.sums: list[DomainSums] = []
        self.selectors = chosen
        self.terminating = terminating
        named = [each.namespaces for each in chosen if each.namespaces is not None]
        self.namespaces = frozenset.intersection(*named) if named else None

    def matches(self, shape: Shape) -> bool:
        """Whether it counts Pods of this shape."""
        return all(each.matches(shape) for each in self.selectors)


@dataclass(eq=False, slots=True, weakref_slot=True)
class TermPods:
    """The Pods on Nodes that have this term: `rows` has how many of them by row, without zeros.

    A Pod that has the same term twice counts twice.  `sums` are by the domains that were asked for lately.
    """

    kind: TermKind
    term: AffinityTerm
    selector: Selector
    namespace_selector: Selector
    rows: dict[int, int] = field(default_factory=dict)
    sums: list[DomainSums] = field(default_factory=list)

    def is_about(self, shape: Shape, namespace_labels: Mapping[str, str]) -> bool:
        """Whether the term is about Pods of this shape; the labels are those of their namespace."""
        if shape.namespace not in self.term.namespaces and not self.namespace_selector.matches(namespace_labels):
            return False
        return self.selector.matches(shape.labels)


@dataclass(eq=False, slots=True)
class _ShapePods:
    """The Pods of one shape, with the groups and terms that count them."""

    groups: list[Group]
    terms: tuple[TermPods, ...]
    rows: dict[int, int] = field(default_factory=dict)
    terminating: dict[int, int] = field(default_factory=dict)
    """The same for Pods that are being deleted."""


_Counted: TypeAlias = tuple[Group | TermPods, IdColumn[str], NodeSet | None]
"""Which Pods are counted, in which domains, and on which Nodes; None for all of them."""
_ByValue: TypeAlias = dict[str, dict[Shape, _ShapePods]]
"""Shapes that have a label, by its value."""


class Groups:
    """The groups and terms of one snapshot, whose table has `capacity` rows."""

    def __init__(self) -> None:
        self.capacity = 0
        self._groups: OrderedDict[tuple[tuple[PodSelector, ...], bool], Group] = OrderedDict()
        self._groups_in: dict[str | None, dict[Group, None]] = {}
        """By the namespaces that they name; None for those that name none."""
        self._pods: dict[str, dict[Shape, _ShapePods]] = {}
        """By namespace."""
        self._labelled: OrderedDict[tuple[str, str], _ByValue] = OrderedDict()
        """By namespace and key of the label, of labels that a new group has demanded."""
        self._known: WeakValueDictionary[Hashable, TermPods] = WeakValueDictionary()
        self._about: dict[TermKind, dict[_Bucket, dict[TermPods, None]]] = {kind: {} for kind in TermKind}
        """Terms that have Pods."""
        self._sums: OrderedDict[_Counted, DomainSums] = OrderedDict()

    def group(self, *chosen: PodSelector, terminating: bool = True) -> Group:
        """The group of Pods that match all of these selectors."""
        key = (chosen, terminating)
        found = self._groups.get(key)
        if found is not None:
            self._groups.move_to_end(key)
            return found
        found = self._groups[key] = Group(self.capacity, chosen, terminating)
        for namespace in _names(found.namespaces):
            self._groups_in.setdefault(namespace, {})[found] = None
        for shape, pods in self._candidates(found):
            if found.matches(shape):
                pods.groups.append(found)
                for rows in (pods.rows, pods.terminating) if terminating else (pods.rows,):
                    for row, count in rows.items():
                        found.counts[row] += count
        if len(self._groups) > MAX_GROUPS:
            self._drop(self._groups.popitem(last=False)[1])
        return found

    def terms(self, kind: TermKind, pod: PodInfo, namespace_labels: Mapping[str, str]) -> list[TermPods]:
        """The terms of this kind that Pods on Nodes have and that are about this Pod."""
        about, shape = self._about[kind], pod.shape
        buckets = ((name, label) for name in (shape.namespace, None) for label in (None, *shape.labels.items()))
        return [each for key in buckets for each in about.get(key, ()) if each.is_about(shape, namespace_labels)]

    def has_terms(self, *kinds: TermKind) -> bool:
        """Whether Pods on Nodes have terms of one of these kinds, whomever they are about."""
        return any(self._about[kind] for kind in kinds)

    def in_domains(self, counted: Group | TermPods, domains: IdColumn[str], eligible: NodeSet | None = None) -> Ints:
        """How many Pods of a group, or that have a term, each domain has, on all Nodes or on the eligible ones.

        The array is as that of `by_domain`.
        """
        key = (counted, domains, eligible)
        kept = self._sums.get(key)
        if kept is None:
            kept = self._sums[key] = DomainSums(domains, eligible)
            counted.sums.append(kept)
            if len(self._sums) > MAX_SUMS:
                (other, *_), oldest = self._sums.popitem(last=False)
                other.sums.remove(oldest)
        else:
            self._sums.move_to_end(key)
        if not kept.is_current:
            kept.count_all(self.by_row(counted))
        return kept.sums

    def forget(self, eligible: Collection[NodeSet]) -> None:
        """Nobody asks for sums over these Nodes any more."""
        for key in [key for key in self._sums if key[-1] in eligible]:
            key[0].sums.remove(self._sums.pop(key))

    def by_row(self, counted: Group | TermPods) -> NDArray[np.int32]:
        """How many Pods of a group, or that have a term, each Node has, by its row."""
        if isinstance(counted, Group):
            return counted.counts
        counts = np.zeros(self.capacity, np.int32)
        counts[list(counted.rows)] = list(counted.rows.values())
        return counts

    def grow(self, capacity: int) -> None:
        """The table has more rows."""
        self.capacity = capacity
        for counted, *_ in list(self._sums):
            self._forget_sums(counted)
        for group in self._groups.values():
            grown = np.zeros(capacity, np.int32)
            grown[: len(group.counts)] = group.counts
            group.counts = grown

    def count(self, row: int, pod: PodInfo, sign: int) -> None:
        """A Pod came to the Node with this row, or with sign -1 has left it."""
        in_namespace = self._pods.setdefault(pod.shape.namespace, {})
        pods = in_namespace.get(pod.shape)
        if pods is None:
            groups = [group for group in self._groups_about(pod.shape.namespace) if group.matches(pod.shape)]
            pods = in_namespace[pod.shape] = _ShapePods(groups, tuple(self._terms_of(pod.shape)))
            self._index(pod.shape, pods)
        _add(pods.terminating if pod.is_terminating else pods.rows, row, sign)
        for group in pods.groups:
            if group.terminating or not pod.is_terminating:
                group.counts[row] += sign
                for kept in group.sums:
                    kept.count(row, sign)
        for term in pods.terms:
            self._count_term(term, row, sign)
        if not pods.rows and not pods.terminating:
            del in_namespace[pod.shape]
            self._unindex(pod.shape)
            if not in_namespace:
                del self._pods[pod.shape.namespace]

    def _count_term(self, term: TermPods, row: int, sign: int) -> None:
        about = self._about[term.kind]
        if not term.rows:
            for key in _buckets(term):
                about.setdefault(key, {})[term] = None
        _add(term.rows, row, sign)
        for kept in term.sums:
            kept.count(row, sign)
        if not term.rows:
            self._forget_sums(term)
            for key in _buckets(term):
                del about[key][term]
                if not about[key]:
                    del about[key]

    def _terms_of(self, shape: Shape) -> Iterator[TermPods]:
        for kind in TermKind:
            for term in kind.of(shape):
                selector, by_label = Selector.of(term.selector), Selector.of(term.namespace_selector)
                key = (kind, term.namespaces, by_label, selector, term.topology_key, term.weight)
                known = self._known.get(key)
                if known is None:
                    known = self._known[key] = TermPods(kind, term, selector, by_label)
                yield known

    def _groups_about(self, namespace: str) -> Iterator[Group]:
        for name in (namespace, None):
            yield from self._groups_in.get(name, ())

    def _candidates(self, group: Group) -> Iterator[tuple[Shape, _ShapePods]]:
        """The shapes in those namespaces that the group can count, few more than it does if it demands a label."""
        named = group.namespaces
        demanded = [label for each in group.selectors for label in each.selector.demanded]
        for namespace in self._pods if named is None else named & self._pods.keys():
            found: list[dict[Shape, _ShapePods]] = [self._pods[namespace]]
            for key, values in demanded:
                by_value = self._by_value(namespace, key)
                having = [by_value[value] for value in (by_value if values is None else values & by_value.keys())]
                found = min(found, having, key=lambda parts: sum(map(len, parts)))
            for part in found:
                yield from part.items()

    def _by_value(self, namespace: str, key: str) -> _ByValue:
        found = self._labelled.get((namespace, key))
        if found is not None:
            self._labelled.move_to_end((namespace, key))
            return found
        found = self._labelled[namespace, key] = {}
        for shape, pods in self._pods[namespace].items():
            if key in shape.labels:
                found.setdefault(shape.labels[key], {})[shape] = pods
        if len(self._labelled) > MAX_LABELS:
            self._labelled.popitem(last=False)
        return found

    def _index(self, shape: Shape, pods: _ShapePods) -> None:
        for key, value in shape.labels.items():
            if (by_value := self._labelled.get((shape.namespace, key))) is not None:
                by_value.setdefault(value, {})[shape] = pods

    def _unindex(self, shape: Shape) -> None:
        for key, value in shape.labels.items():
            if (by_value := self._labelled.get((shape.namespace, key))) is not None:
                del by_value[value][shape]
                if not by_value[value]:
                    del by_value[value]

    def _forget_sums(self, counted: Group | TermPods) -> None:
        for kept in counted.sums:
            del self._sums[counted, kept.column, kept.eligible]
        counted.sums.clear()

    def _drop(self, group: Group) -> None:
        self._forget_sums(group)
        for namespace in _names(group.namespaces):
            del self._groups_in[namespace][group]
            if not self._groups_in[namespace]:
                del self._groups_in[namespace]
        for _, pods in self._candidates(group):
            if group in pods.groups:
                pods.groups.remove(group)


def _add(counts: dict[int, int], row: int, sign: int) -> None:
    count = counts.get(row, 0) + sign
    if count:
        counts[row] = count
    else:
        del counts[row]


def _names(namespaces: frozenset[str] | None) -> Iterable[str | None]:
    return (None,) if namespaces is None else namespaces


def _buckets(term: TermPods) -> Iterator[_Bucket]:
    names = (None,) if term.term.namespace_selector is not None else term.term.namespaces
    demanded = ((key, next(iter(values))) for key, values in term.selector.demanded if values and len(values) == 1)
    label = min(demanded, default=None)
    yield from ((name, label) for name in names)

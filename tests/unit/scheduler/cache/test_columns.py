"""Columns and groups: what goes when too many are asked for, what stays when the table grows, amounts beyond int64."""

import gc
from typing import Any

import pytest
from plugins.topologies import counted_anew

from tollbar.model.objects import Object
from tollbar.scheduler.cache import groups, table
from tollbar.scheduler.cache.cache import Cache
from tollbar.scheduler.cache.domains import by_domain
from tollbar.scheduler.cache.groups import Group, TermKind, TermPods
from tollbar.scheduler.cache.podinfo import PodInfo, Shapes
from tollbar.scheduler.cache.selector import PodSelector, Selector
from tollbar.scheduler.cache.snapshot import Snapshot

SHAPES = Shapes()
HOSTNAME = "kubernetes.io/hostname"


def node(name: str, **allocatable: str) -> Object:
    return {"metadata": {"name": name, "labels": {HOSTNAME: name}}, "status": {"allocatable": allocatable}}


def pod(name: str, on: str = "", *, terms: tuple[Object, ...] = (), **requests: str) -> PodInfo:
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}
    return SHAPES.pod_info(
        {
            "metadata": {"namespace": "shop", "name": name, "uid": name, "labels": {"app": "a"}},
            "spec": {
                "nodeName": on,
                "containers": [{"name": "c", "resources": {"requests": requests}}],
                **({"affinity": anti} if terms else {}),
            },
        }
    )


def app(name: str) -> PodSelector:
    return PodSelector(frozenset({"shop"}), Selector.of({"matchLabels": {"app": name}}))


TERM = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "a"}}}


def test_groups_of_a_tenant_who_asks_for_ever_different_ones_do_not_pile_up() -> None:
    snapshot = Snapshot.of([node("n1")], [pod("p", "n1")])
    for number in range(groups.MAX_GROUPS + 100):
        differs = {"matchExpressions": [{"key": "greedy", "operator": "NotIn", "values": [str(number)]}]}
        group = snapshot.groups.group(PodSelector(None, Selector.of(differs)))
        snapshot.groups.in_domains(group, snapshot.table.label(HOSTNAME))
    gc.collect()
    alive = [each for each in gc.get_objects() if isinstance(each, Group) and "greedy" in str(each.selectors)]
    assert len(alive) == groups.MAX_GROUPS


def test_terms_of_pods_that_are_gone_are_forgotten() -> None:
    cache, snapshot, term = Cache(), Snapshot(), {**TERM, "namespaces": ["forgotten"]}
    cache.set_node(node("n1"))
    cache.assume(pod("p", "n1", terms=(term,)))
    snapshot.update(cache)
    cache.forget(pod("p", "n1", terms=(term,)))
    snapshot.update(cache)
    gc.collect()
    assert [
        each for each in gc.get_objects() if isinstance(each, TermPods) and "forgotten" in each.term.namespaces
    ] == []


def test_columns_of_labels_that_nobody_asks_for_any_more_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "MAX_COLUMNS", 2)
    columns = Snapshot.of([node("n1")]).table
    first, second = columns.label("one"), columns.label("two")
    kept = columns.label("one") is first
    columns.label("three")
    assert (kept, columns.label("one") is first, columns.label("two") is second) == (True, True, False)


def test_counts_of_groups_and_terms_stay_when_the_table_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "FIRST_ROWS", 1)
    cache, snapshot = Cache(), Snapshot()
    group = snapshot.groups.group(app("a"))
    seen = []
    for name in ("n1", "n2", "n3"):
        cache.set_node(node(name))
        cache.assume(pod(f"on-{name}", name, terms=(TERM,)))
        snapshot.update(cache)
        (term,) = snapshot.groups.terms(TermKind.REQUIRED_ANTI_AFFINITY, pod("new"), {})
        order = snapshot.table.order
        seen.append((group.counts[order].tolist(), snapshot.groups.by_row(term)[order].tolist()))
    assert seen == [([1] * count, [1] * count) for count in (1, 2, 3)]


def test_a_term_that_a_pod_has_twice_counts_twice_in_its_domain() -> None:
    names = ["n1", "n2", "n3"]
    snapshot = Snapshot.of(map(node, names), [pod(f"on-{name}", name, terms=(TERM, TERM)) for name in names[1:]])
    domains = snapshot.table.label(HOSTNAME)
    (term,) = snapshot.groups.terms(TermKind.REQUIRED_ANTI_AFFINITY, pod("new"), {})
    sums = snapshot.groups.in_domains(term, domains)
    assert sums[domains.ids[snapshot.table.order]].tolist() == [0, 2, 2]


class Kept:
    """What is kept of a group and of a term of its Pods, by host."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cache, self.snapshot = Cache(), Snapshot()
        self.anew = counted_anew(monkeypatch)
        for name in ("n1", "n2"):
            self.cache.set_node(node(name))
        self.cache.assume(pod("there", "n1", terms=(TERM,)))
        self.read()

    def read(self) -> list[Any]:
        """How often all Pods were counted, and the Pods by Node: of the group and of the term."""
        self.anew.clear()
        self.snapshot.update(self.cache)
        domains, order = self.snapshot.table.label(HOSTNAME), self.snapshot.table.order
        group = self.snapshot.groups.group(app("a"))
        terms = self.snapshot.groups.terms(TermKind.REQUIRED_ANTI_AFFINITY, pod("new"), {})
        sums = [self.snapshot.groups.in_domains(each, domains)[domains.ids[order]] for each in (group, *terms)]
        return [len(self.anew), *(each.tolist() for each in sums)]


def test_the_numbers_of_domains_are_in_the_order_of_the_nodes_as_they_are() -> None:
    cache, snapshot = Cache(), Snapshot()
    domains = []
    for name, host in (("n1", "a"), ("n2", "b"), ("n1", "b"), ("n0", "a")):
        cache.set_node({"metadata": {"name": name, "labels": {HOSTNAME: host}}})
        snapshot.update(cache)
        column = snapshot.table.label(HOSTNAME)
        domains.append([column.values[number] for number in column.ordered(snapshot.table.order)])
    assert domains == [["a"], ["a", "b"], ["b", "b"], [each.labels[HOSTNAME] for each in snapshot]]


def test_sums_of_domains_are_kept_as_pods_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept(monkeypatch)
    kept.cache.assume(pod("more", "n2", terms=(TERM,)))
    came = kept.read()
    kept.cache.remove_pod(pod("there", "n1", terms=(TERM,)))
    assert (came, kept.read()) == ([0, [1, 1], [1, 1]], [0, [0, 1], [0, 1]])


def test_sums_of_domains_are_counted_anew_if_a_node_has_another_label_and_not_for_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = Kept(monkeypatch)
    kept.cache.set_node(node("n1", cpu="4"))
    other_room = kept.read()
    kept.cache.set_node({"metadata": {"name": "n1", "labels": {HOSTNAME: "n2"}}})
    assert (other_room, kept.read()) == ([0, [1, 0], [1, 0]], [2, [1, 1], [1, 1]])


def test_sums_of_domains_follow_nodes_that_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept(monkeypatch)
    kept.cache.set_node(node("n3"))
    kept.cache.assume(pod("more", "n3", terms=(TERM,)))
    came = kept.read()
    kept.cache.remove_node("n1")
    assert (came, kept.read()) == ([2, [1, 0, 1], [1, 0, 1]], [2, [0, 1], [0, 1]])


def test_so_many_sums_of_domains_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "MAX_SUMS", 1)
    kept = Kept(monkeypatch)
    kept.cache.assume(pod("more", "n2", terms=(TERM,)))
    assert kept.read() == [2, [1, 1], [1, 1]]
    assert sum(len(each.sums) for each in kept.snapshot.groups._groups.values()) <= 1


def test_a_table_that_grows_leaves_nothing_of_columns_that_it_has_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "FIRST_ROWS", 2)
    monkeypatch.setattr(table, "MAX_COLUMNS", 1)
    kept = Kept(monkeypatch)
    kept.snapshot.table.label("another")
    kept.cache.set_node(node("n3"))
    kept.cache.assume(pod("more", "n3", terms=(TERM,)))
    assert kept.read() == [2, [1, 0, 1], [1, 0, 1]]


def test_sums_of_domains_go_with_the_pods_that_have_the_term(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept(monkeypatch)
    kept.cache.remove_pod(pod("there", "n1", terms=(TERM,)))
    gone = kept.read()
    kept.cache.assume(pod("again", "n2", terms=(TERM,)))
    assert (gone, kept.read()) == ([0, [0, 0]], [1, [0, 1], [0, 1]])


def test_sums_of_domains_leave_out_nodes_that_are_not_eligible_and_nodes_without_a_domain() -> None:
    nodes = [node("n1"), node("n2"), {"metadata": {"name": "n3"}}]
    snapshot = Snapshot.of(nodes, [pod(f"on-{name}", name) for name in ("n1", "n2", "n3")])
    domains, group = snapshot.table.label(HOSTNAME), snapshot.groups.group(app("a"))
    found = [
        by_domain(domains, group.counts, eligible)[domains.ids[snapshot.table.order]].tolist()
        for eligible in (None, ~domains.has("n2"))
    ]
    assert found == [[1, 1, 0], [1, 0, 0]]


def test_columns_select_nodes_by_the_value_of_a_label() -> None:
    snapshot = Snapshot.of([node("n1"), node("n2"), node("n10"), {"metadata": {"name": "n3"}}])
    column, order = snapshot.table.label(HOSTNAME), snapshot.table.order
    assert [
        mask[order].tolist()
        for mask in (
            column.has("n2"),
            column.has("none"),
            column.has_any(["n1", "n2", "none"]),
            column.where(lambda value: value.startswith("n1")),
            column.where(lambda value: value == "n1", absent=True),
        )
    ] == [
        [False, True, False, False],
        [False, False, False, False],
        [True, True, False, False],
        [True, False, True, False],
        [True, False, False, True],
    ]


def test_an_amount_beyond_64_bits_is_bounded() -> None:
    huge = [pod(f"p{number}", "n1", memory="7Ei") for number in range(9)]
    columns = Snapshot.of([node("n1", memory="1Gi")], huge).table
    free = columns.allocatable("memory") - columns.requested("memory")
    assert free[columns.order].tolist() == [2**30 - table.LIMIT]

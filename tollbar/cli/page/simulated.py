"""The page of a simulation.

Everything is about its end, on a copy of the simulated cluster: the Pods that wait are explained there as
`tollbar explain pod` does.  Pods with equal outcomes share a row, an explanation and a bar where there are many.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tollbar.cli.page import tiles
from tollbar.cli.page.matrix import Row, matrix
from tollbar.cli.page.values import Answer, Bar, Figure, Given, Page, PodRow, Pods, Segment, Timeline
from tollbar.cli.simulation import report
from tollbar.cli.simulation.report import Result
from tollbar.cli.simulation.verdicts import Seen
from tollbar.explain import pods as explanations
from tollbar.model.objects import Key, Object, key_of
from tollbar.model.resources import NODES, PODS
from tollbar.offline import Cluster

ROWS: Final = 300
"""Pods that are shown one by one; of more, those with equal outcomes share a row."""
ANSWERS: Final = 20
BARS: Final = 60
_NAMES: Final = 3


@dataclass(frozen=True, slots=True)
class Ended:
    """How a simulation ended.  `copy` is the simulated cluster then; `fit` says how many copies fit, if asked."""

    results: Sequence[Result]
    victims: Sequence[Object]
    how: str
    seconds: float
    fit: str
    copy: Cluster
    seen: Seen


def page(ended: Ended, notes: Sequence[str] = ()) -> Page:
    groups = _alike(ended.results)
    answers = {id(group): f"why-{number}" for number, group in enumerate(_explained(ended.copy, groups))}
    alike = Counter(map(report.outcome, ended.results))
    found = [
        Answer(answers[id(group)], alike[report.outcome(group[0])], explanations.explain(ended.copy, pod))
        for group in groups
        if id(group) in answers and (pod := _pod(ended.copy, group[0])) is not None
    ]
    waiting = [pod for group in groups if id(group) in answers and (pod := _pod(ended.copy, group[0])) is not None]
    devices = tiles.tiles(ended.copy, tiles.views(ended.copy, waiting), {each.node for each in ended.results})
    nodes = [key_of(each).name for each in ended.copy.objects(NODES)]
    placed = sum(not each.pending for each in ended.results)
    total = len(ended.results)
    return Page(
        title="What would become of these Pods",
        headline=_headline(placed, total, ended.fit),
        subtitle=f"A simulation by Tollbar, {ended.how} after {ended.seconds:.0f} s of its own time."
        " Nothing was written to any cluster.",
        figures=tuple(_figures(ended, placed, total, len(nodes))),
        timeline=_timeline(ended, groups),
        pods=_rows(groups, answers),
        matrix=matrix([_row(ended, group, answers.get(id(group), "")) for group in groups], nodes),
        devices=devices,
        tolerations=tuple(_given(ended.results)),
        answers=tuple(found),
        notes=(
            *notes,
            *(report.lost(each) for each in ended.victims[:ANSWERS]),
            *_many("Pods that were preempted", len(ended.victims) - ANSWERS),
            *_many("groups of waiting Pods, which are not explained", _waiting(ended.copy, groups) - len(answers)),
        ),
    )


def _headline(placed: int, total: int, fit: str) -> str:
    if fit:
        return f"{fit} fit"
    if placed == total:
        return f"{'The Pod gets' if total == 1 else f'All {total} Pods get'} a Node"
    return f"{placed} of {total} Pod{'' if total == 1 else 's'} get{'s' if total == 1 else ''} a Node"


def _figures(ended: Ended, placed: int, total: int, nodes: int) -> Iterator[Figure]:
    yield Figure(f"{total:,}", "Pods")
    yield Figure(f"{placed:,}", "with a Node")
    yield Figure(f"{total - placed:,}", "without")
    yield Figure(f"{nodes:,}", "Nodes")
    states = tiles.totals(ended.copy)
    if count := states.total():
        yield Figure(f"{count:,}", "devices")
        yield Figure(f"{states['free']:,}", "of them free")
    if ended.victims:
        yield Figure(f"{len(ended.victims):,}", "preempted")


def _alike(results: Sequence[Result]) -> list[list[Result]]:
    """Pods with equal outcomes together, if there are many; those without a Node first."""
    found = defaultdict[object, list[Result]](list)
    for each in results:
        found[each.pod if len(results) <= ROWS else report.outcome(each)].append(each)
    return sorted(found.values(), key=lambda group: not group[0].pending)


def _explained(copy: Cluster, groups: Sequence[list[Result]]) -> list[list[Result]]:
    """Those whose first Pod is explained: it waits, and it is there.  Of equal outcomes one is enough."""
    once: dict[object, list[Result]] = {}
    for group in groups:
        if group[0].pending and _pod(copy, group[0]) is not None:
            once.setdefault(report.outcome(group[0]), group)
    return list(once.values())[:ANSWERS]


def _waiting(copy: Cluster, groups: Sequence[list[Result]]) -> int:
    return len({report.outcome(group[0]) for group in groups if group[0].pending and _pod(copy, group[0]) is not None})


def _pod(copy: Cluster, one: Result) -> Object | None:
    found = copy.get(PODS, one.pod.name, one.pod.namespace)
    return None if one.decision == "refused" else found


def _rows(groups: Sequence[list[Result]], answers: dict[int, str]) -> Pods:
    by_outcome = {report.outcome(group[0]): answers[id(group)] for group in groups if id(group) in answers}
    shown = groups[:ROWS]
    rows = []
    for group in shown:
        one = group[0]
        name, node, devices = report.together(group)
        held = one.pending.startswith("held by ")
        rows.append(
            PodRow(
                label=name,
                count=len(group),
                origin=one.origin,
                state="refused"
                if one.decision == "refused"
                else "held"
                if held
                else "pending"
                if one.pending
                else "placed",
                admission=report.admission(one),
                rules=report.rules(one),
                node=node,
                devices=devices if len(group) > 1 else ", ".join(map(str, one.devices)),
                pending=report.cause(one),
                answer=by_outcome.get(report.outcome(one), ""),
            )
        )
    more = sum(map(len, groups[ROWS:]))
    return Pods(tuple(rows), f"Not shown: {more} more Pods." if more else "")


def _row(ended: Ended, group: Sequence[Result], answer: str) -> Row:
    one = group[0]
    found = ended.seen.missed(one.origin) if one.pending else ended.seen.found(one.origin)
    on = Counter(each.node for each in group if each.node and not each.pending)
    return Row(report.together(group)[0], answer, on, found)


def _timeline(ended: Ended, groups: Sequence[list[Result]]) -> Timeline:
    created = [group for group in groups if group[0].decision != "refused"]
    bars = tuple(_bar(group, ended.seconds) for group in created[:BARS])
    more = sum(map(len, created[BARS:]))
    return Timeline(ended.seconds, bars, (), f"Not shown: {more} more Pods." if more else "")


def _bar(group: Sequence[Result], end: float) -> Bar:
    """Until the last of the group was released, and until the last of it had a Node."""
    one = group[0]
    held = one.decision == "gated"
    released = max((each.released for each in group if each.released is not None), default=end if held else 0.0)
    bound = max((each.bound for each in group if each.bound is not None and not each.pending), default=None)
    ends = end if bound is None else max(bound, released)
    segments = [Segment("held", 0.0, released)] if released or (held and not end) else []
    segments += [Segment("waiting", released, ends)] if ends > released or not (segments or bound is not None) else []
    segments += [Segment("running", ends, end)] if bound is not None else []
    texts = [f"held for {released:.0f} s"] if released else []
    texts.append(f"has a Node after {bound:.0f} s" if bound is not None else "has no Node")
    return Bar(report.together(group)[0], ", ".join(texts), tuple(segments))


def _given(results: Sequence[Result]) -> Iterator[Given]:
    by_rule = defaultdict[tuple[str, str, str], list[Key]](list)
    for each in results:
        for toleration, rule, via in each.added:
            by_rule[rule, toleration, via].append(each.pod)
    for (rule, toleration, via), keys in sorted(by_rule.items()):
        yield Given(rule, toleration, via, len(keys), tuple(map(str, keys[:_NAMES])))


def _many(what: str, count: int) -> tuple[str, ...]:
    return (f"Not shown: {count} more {what}.",) if count > 0 else ()

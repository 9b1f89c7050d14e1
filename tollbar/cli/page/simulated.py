"""The page of a simulation.

It shows the end of the simulation: Pods that wait are explained on a copy of the simulated cluster, as by
`tollbar explain pod`.  Pods with equal outcomes share a row, an explanation and a bar where there are many.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tollbar.cli.page import tiles
from tollbar.cli.page.answers import answer
from tollbar.cli.page.matrix import Row, matrix
from tollbar.cli.page.values import (
    NAMED,
    Bar,
    Figure,
    Given,
    Page,
    PodRow,
    Pods,
    Segment,
    Timeline,
    Tolerations,
    left_out,
)
from tollbar.cli.simulation import report
from tollbar.cli.simulation.report import Result
from tollbar.cli.simulation.verdicts import Seen
from tollbar.explain import pods as explanations
from tollbar.model.objects import Key, Object, key_of
from tollbar.model.resources import NODES, PODS
from tollbar.model.texts import counted, some
from tollbar.offline import Cluster

ROWS: Final = 300
"""Pods that are shown one by one; of more, those with equal outcomes share a row."""
ANSWERS: Final = 20
BARS: Final = 60
NOTES: Final = 50
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
        answer(answers[id(group)], explanations.explain(ended.copy, pod), alike[report.outcome(group[0])])
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
        matrix=matrix(list(_matrix_rows(ended, groups, answers)), nodes),
        devices=devices,
        tolerations=Tolerations.of(list(_given(ended.results))),
        answers=tuple(found),
        notes=tuple(filter(None, _notes(ended, notes, _waiting(ended.copy, groups) - len(answers)))),
    )


def _notes(ended: Ended, notes: Sequence[str], unexplained: int) -> Iterator[str]:
    yield from notes[:NOTES]
    yield left_out(len(notes) - NOTES, "notes")
    yield from (report.lost(each) for each in ended.victims[:ANSWERS])
    yield left_out(len(ended.victims) - ANSWERS, "Pods that were preempted")
    yield left_out(unexplained, "groups of waiting Pods, which are not explained")


def _headline(placed: int, total: int, fit: str) -> str:
    if fit:
        return f"{fit} fit"
    if placed == total:
        return f"{'The Pod gets' if total == 1 else f'All {total} Pods get'} a Node"
    return f"{placed} of {counted(total, 'Pod')} get{'s' if total == 1 else ''} a Node"


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
    return None if one.state == "refused" else found


def _rows(groups: Sequence[list[Result]], answers: dict[int, str]) -> Pods:
    by_outcome = {report.outcome(group[0]): answers[id(group)] for group in groups if id(group) in answers}
    rows = []
    for number, group in enumerate(groups[:ROWS]):
        one = group[0]
        name, node, devices = report.together(group)
        rows.append(
            PodRow(
                id=str(number),
                label=name,
                count=len(group),
                origin="" if one.origin in name or one.origin == f"Pod {name}" else one.origin,
                state=one.state,
                admission=report.admission(one),
                rules=some(report.rules(one), NAMED),
                node=node,
                devices=devices if len(group) > 1 else some(list(map(str, one.devices)), NAMED),
                pending=report.cause(one),
                answer=by_outcome.get(report.outcome(one), ""),
            )
        )
    return Pods(tuple(rows), left_out(sum(map(len, groups[ROWS:])), "Pods"))


def _matrix_rows(ended: Ended, groups: Sequence[list[Result]], answers: dict[int, str]) -> Iterator[Row]:
    for number, group in enumerate(groups):
        one = group[0]
        found = ended.seen.missed(one.origin) if one.pending else ended.seen.found(one.origin)
        on = Counter(each.node for each in group if each.node and not each.pending)
        yield Row(str(number), report.together(group)[0], answers.get(id(group), ""), on, found)


def _timeline(ended: Ended, groups: Sequence[list[Result]]) -> Timeline | None:
    """Of the first groups that have a row and were created; None if nothing was."""
    created = [(str(number), group) for number, group in enumerate(groups) if group[0].state != "refused"]
    if not created:
        return None
    shown = [(id_, group) for id_, group in created[:BARS] if int(id_) < ROWS]
    more = sum(len(group) for _, group in created[len(shown) :])
    bars = tuple(_bar(id_, group, ended.seconds) for id_, group in shown)
    return Timeline(ended.seconds, bars, (), left_out(more, "Pods"))


def _bar(id_: str, group: Sequence[Result], end: float) -> Bar:
    """Until the last of the group was released, until the last of it had a Node, and until the first was preempted."""
    one = group[0]
    released = max((each.released for each in group if each.released is not None), default=end if _held(one) else 0.0)
    bound = max((each.bound for each in group if each.bound is not None), default=None)
    gone = min((each.gone for each in group if each.gone is not None), default=None)
    waited = end if bound is None else max(bound, released)
    left = end if gone is None else gone
    segments = [Segment("held", 0.0, released)] if released or (_held(one) and not end) else []
    segments += (
        [Segment("waiting", released, waited)] if waited > released or not (segments or bound is not None) else []
    )
    segments += [Segment("running", waited, left)] if bound is not None else []
    texts = [f"held for {released:.0f} s"] if released else []
    texts.append(f"has a Node after {bound:.0f} s" if bound is not None else "has no Node")
    texts += [f"preempted after {gone:.0f} s"] if gone is not None else []
    return Bar(id_, report.together(group)[0], ", ".join(texts), tuple(segments))


def _held(one: Result) -> bool:
    return one.decision == "gated"


def _given(results: Sequence[Result]) -> Iterator[Given]:
    by_rule = defaultdict[tuple[str, str, str], list[Key]](list)
    for each in results:
        for toleration, rule, via in each.added:
            by_rule[rule, toleration, via].append(each.pod)
    for (rule, toleration, via), keys in sorted(by_rule.items()):
        yield Given(rule, toleration, via, len(keys), tuple(map(str, keys[:_NAMES])))

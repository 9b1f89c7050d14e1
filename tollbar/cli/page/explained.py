"""The page of one Pod: why it waits, and what would change it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from tollbar.cli.page import tiles
from tollbar.cli.page.answers import answer
from tollbar.cli.page.matrix import Row, matrix
from tollbar.cli.page.values import NAMED, Figure, Given, Moment, Page, PodRow, Pods, Timeline, Tolerations, left_out
from tollbar.cli.simulation.report import State
from tollbar.cli.simulation.verdicts import Rejected
from tollbar.explain import text
from tollbar.explain.causes import Cause
from tollbar.explain.pods import ungated
from tollbar.explain.values import PodExplanation
from tollbar.model import pods
from tollbar.model.objects import Object, key_of, metadata
from tollbar.model.resources import NODES
from tollbar.model.texts import some
from tollbar.offline import Cluster

MOMENTS: Final = 60
_ANSWER: Final = "why-0"
_ROW: Final = "0"


def page(copy: Cluster, pod: Object, found: PodExplanation, events: Sequence[Object] = ()) -> Page:
    """`found` is the explanation of this Pod of the copy, `events` are those about it (events.k8s.io/v1)."""
    label = f"{found.namespace}/{found.name}"
    first = found.findings[0] if found.findings else None
    nodes = [key_of(each).name for each in copy.objects(NODES)]
    seen, waiting = None, []
    is_missing = first is not None and first.cause is Cause.NOT_CREATED
    if not found.node and not pods.is_terminal(pod) and not is_missing:
        waiting = [ungated(copy, pod)]
        seen = {name: Rejected.of(status) for name, status in copy.scheduler.survey(waiting[0]).items()}
    here = Counter([found.node] if found.node else [])
    given = [each for each in found.tolerations if each.rule]
    state: State = (
        "placed" if found.node else "held" if pods.gate_names(pod) else "refused" if is_missing else "pending"
    )
    rules = some(list(dict.fromkeys(each.rule for each in given)), NAMED)
    devices = some([device for claim in found.claims for each in claim.requests for device in each.devices], NAMED)
    why = f"{first.cause}: {first.what}" if first is not None else ""
    return Page(
        title=f"Pod {label}",
        headline="This Pod has a Node"
        if found.node
        else "Why this Pod was not created"
        if is_missing
        else "Why this Pod waits",
        subtitle=why,
        figures=() if is_missing else tuple(_figures(copy, found, nodes)),
        timeline=_timeline(pod, found, events),
        pods=Pods((PodRow(_ROW, label, 1, "", state, "", rules, found.node, devices, why, _ANSWER),)),
        matrix=matrix([Row(_ROW, label, _ANSWER, here, seen)], nodes),
        devices=tiles.tiles(copy, tiles.views(copy, waiting), [found.node]),
        tolerations=Tolerations.of([Given(each.rule, each.text, each.via, 1, (label,)) for each in given]),
        answers=(answer(_ANSWER, found),),
        notes=(*found.notes, *(f"Not read: {each}" for each in found.unknown)),
    )


def _figures(copy: Cluster, found: PodExplanation, nodes: Sequence[str]) -> Iterator[Figure]:
    yield Figure(text.age(found.age), "old")
    yield Figure(found.phase, "phase")
    yield Figure(f"{len(nodes):,}", "Nodes")
    if found.scheduling is not None:
        yield Figure(f"{found.scheduling.fits:,}", "of them fit")
    states = tiles.totals(copy)
    if count := states.total():
        yield Figure(f"{count:,}", "devices")
        yield Figure(f"{states['free']:,}", "of them free")


def _timeline(pod: Object, found: PodExplanation, events: Sequence[Object]) -> Timeline | None:
    """The creation of the Pod, its Events, and since when what holds it is so; of many moments the last ones."""
    moments = [Moment(str(metadata(pod).get("creationTimestamp") or ""), "created")]
    moments += [Moment(each.since, f"since then: {each.cause}") for each in found.findings if each.since]
    for each in events:
        when = str(metadata(each).get("creationTimestamp") or each.get("eventTime") or "")
        moments.append(Moment(when, f"{each.get('reason')}: {each.get('note')}"))
    known = sorted((each for each in dict.fromkeys(moments) if each.when), key=lambda each: each.when)
    more = left_out(len(known) - MOMENTS, "moments before these")
    return Timeline(moments=tuple(known[-MOMENTS:]), left_out=more) if known else None

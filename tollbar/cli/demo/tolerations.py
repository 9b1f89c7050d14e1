"""The first chapters of `tollbar demo`: Pods get their tolerations, with the files of the quickstart.

Every sentence with a mark was seen in the API or in the API server's audit log.
"""

import asyncio
import re
from functools import partial
from typing import Final

from tollbar import wellknown
from tollbar.cli.demo.stage import (
    NAMESPACE,
    PLAIN,
    RESERVED,
    SECONDS,
    TAINT,
    Stage,
    Untrue,
    admitting,
    apply,
    documents,
    expect,
    followed,
    is_bound,
    is_ready,
    is_released,
    is_running,
    node_of,
    refusal,
    show_pods,
)
from tollbar.cli.waiting import Selection, Wanted, until
from tollbar.decide.pods.events import PodEvent
from tollbar.decide.pods.tolerations import provenance_of
from tollbar.model import pods, resources
from tollbar.model.objects import Object, annotations_of, labels_of, metadata
from tollbar.runtime.errors import Invalid

_TAINTED: Final = "untolerated taint"
"""Part of kube-scheduler's text."""
_PLACE: Final = re.compile(r": (?P<line>\d+):(?P<column>\d+): (?P<what>.*)", re.DOTALL)


async def rule(stage: Stage) -> None:
    stage.tell.chapter("You write one rule, for all Pods")
    [wanted] = documents("rule.yaml")
    stage.tell.applied("rule.yaml", "device-class.yaml", "claim-templates.yaml")
    stage.tell.line("A Pod for which this is true ...")
    stage.tell.quote(*wanted["spec"]["match"]["cel"]["expression"].splitlines())
    stage.tell.line("... gets this toleration, and so may enter the nodes that are tainted for such Pods:")
    stage.tell.quote(*map(_text, wanted["spec"]["tolerations"]))

    async def applied() -> None:
        for file in ("device-class.yaml", "claim-templates.yaml", "rule.yaml"):
            await apply(stage, file)

    what = "TolerationRule gpu-nodes is Ready"
    name = metadata(wanted)["name"]
    _, _, seconds = await followed(stage, resources.TOLERATION_RULES, name, {what: is_ready}, applied)
    stage.tell.proof("checked, compiled and in force: condition Ready", seconds[what])


async def decided_at_admission(stage: Stage) -> None:
    stage.tell.chapter("Pod A needs a GPU; its author forgot the toleration")
    await admitting(stage, "pod-a.yaml", _added, "the webhook does not add the toleration")
    stage.tell.applied("pod-a.yaml")
    started = stage.clock.monotonic()
    [created] = await apply(stage, "pod-a.yaml")
    seconds = stage.clock.monotonic() - started
    expect(not pods.is_gated(created), "Pod A was held although everything was known")
    stage.tell.proof(f"created with the toleration in it, added at admission by {_rules(created)}", seconds)
    stage.tell.quote(*map(_text, _added(created)))
    writes = await asyncio.to_thread(stage.writes_of, "pod-a")
    expect(not writes, f"Tollbar wrote to Pod A after its creation: {writes}")
    stage.tell.proof("Tollbar's writes to it since: none, it was right from the start")


async def held_and_released(stage: Stage) -> None:
    stage.tell.chapter("Pod B asks for a class of device that does not exist yet")
    stage.tell.applied("pod-b.yaml")
    started = stage.clock.monotonic()
    [created] = await apply(stage, "pod-b.yaml")
    expect(pods.is_gated(created), "Pod B was not held")
    expect(labels_of(created).get(wellknown.LABEL_GATE) == wellknown.GATE_HELD, "Pod B has not the label of held Pods")
    stage.tell.proof(f"held: scheduling gate {wellknown.GATE}, label {wellknown.LABEL_GATE}={wellknown.GATE_HELD}")
    await show_pods(stage)
    event = Selection(resources.EVENTS, NAMESPACE, f"regarding.name=pod-b,reason={PodEvent.SCHEDULING_HELD}")
    with stage.tell.waiting("a Pod that waits is told why after two seconds, not before"):
        what = "the event that says what Pod B waits for"
        told = await until(stage.client, event, lambda found: found is not None, timeout=SECONDS, what=what)
    stage.tell.proof(f'it says why, in an event: "{(told or {})["note"]}"', stage.clock.monotonic() - started)
    stage.tell.applied("late-device-class.yaml")
    late = partial(apply, stage, "late-device-class.yaml")
    _, released, seconds = await followed(stage, resources.PODS, "pod-b", {"released": is_released}, late)
    stage.tell.proof(f"released with the toleration, added by {_rules(released)}", seconds["released"])
    writes = await asyncio.to_thread(stage.writes_of, "pod-b")
    expect(writes == ["patch"], f"Tollbar wrote to Pod B other than by one patch: {writes}")
    stage.tell.proof("Tollbar's writes to it: 1 patch with toleration, gate removal, label and record together")


async def untouched(stage: Stage) -> None:
    stage.tell.chapter("Pod C needs no device")
    stage.tell.applied("pod-c.yaml")
    steps, applied = {"bound": is_bound, "running": is_running}, partial(apply, stage, "pod-c.yaml")
    [created], bound, seconds = await followed(stage, resources.PODS, "pod-c", steps, applied)
    ours = [name for name in (*labels_of(created), *annotations_of(created)) if wellknown.GROUP in name]
    expect(not ours and not pods.is_gated(created) and not _added(created), f"Pod C was touched: {ours}")
    stage.tell.proof("created as it was written: no toleration, no gate, no label of ours", seconds["done"])
    stage.tell.proof(f"the scheduler bound it to node {node_of(bound, PLAIN)}", seconds["bound"])
    writes = await asyncio.to_thread(stage.writes_of, "pod-c")
    expect(not writes, f"Tollbar wrote to Pod C: {writes}")
    stage.tell.proof("Tollbar's writes to it: none")


async def added_late(stage: Stage) -> None:
    stage.tell.chapter("Pod D is rejected by the scheduler, and its rule comes after that")
    stage.tell.applied("pod-d.yaml")
    rejected: dict[str, Wanted] = {"rejected": lambda found: _TAINTED in refusal(found)}
    applied = partial(apply, stage, "pod-d.yaml")
    _, pod, seconds = await followed(stage, resources.PODS, "pod-d", rejected, applied)
    stage.tell.proof(f"rejected: {refusal(pod).partition('. ')[0]}", seconds["rejected"])
    stage.tell.line(
        "It waits aside until something happens that may help it: the scheduler's queueing hints tell what."
    )
    stage.tell.applied("late-rule.yaml")
    steps: dict[str, Wanted] = {"tolerates": lambda found: bool(found and _added(found)), "bound": is_bound}
    rule_ = partial(apply, stage, "late-rule.yaml")
    _, bound, seconds = await followed(stage, resources.PODS, "pod-d", steps, rule_)
    stage.tell.proof(f"it got the toleration after all, added by {_rules(bound)}", seconds["tolerates"])
    stage.tell.proof(
        f"which woke it: tried again at once, and bound to node {node_of(bound, RESERVED)}", seconds["bound"]
    )
    event = Selection(resources.EVENTS, NAMESPACE, "regarding.name=pod-d,reason=Scheduled")
    what = "the event that says where Pod D runs"
    told = await until(stage.client, event, lambda found: found is not None, timeout=SECONDS, what=what) or {}
    stage.tell.proof(f'the scheduler, {told["reportingController"]}, says so: "{told["note"]}"')
    writes = await asyncio.to_thread(stage.writes_of, "pod-d")
    expect(writes == ["patch"], f"Tollbar wrote to Pod D other than by one patch: {writes}")
    stage.tell.proof("Tollbar's writes to it: 1 patch with toleration and record together")


async def broken_rule(stage: Stage) -> None:
    stage.tell.chapter("A rule with a mistake does not get in")
    stage.tell.applied("broken-rule.yaml")
    [wanted] = documents("broken-rule.yaml")
    started = stage.clock.monotonic()
    try:
        await apply(stage, "broken-rule.yaml")
    except Invalid as error:
        seconds = stage.clock.monotonic() - started
        [cause] = error.causes
    else:
        raise Untrue("the broken rule was accepted")
    found = _PLACE.search(cause["message"])
    if found is None:
        raise Untrue(f"the refusal names no line and column: {cause['message']}")
    line, column = int(found["line"]), int(found["column"])
    stage.tell.proof(f"refused: {cause['field']}, line {line}, column {column}: {found['what']}", seconds)
    lines = wanted["spec"]["match"]["cel"]["expression"].splitlines()
    stage.tell.quote(*lines[:line], " " * (column - 1) + "^", *lines[line:])


CHAPTERS: Final = (rule, decided_at_admission, held_and_released, untouched, added_late, broken_rule)


def _added(pod: Object) -> list[Object]:
    """The Pod's tolerations for the demonstration's taint."""
    return [toleration for toleration in pods.tolerations(pod) if toleration.get("key") == TAINT["key"]]


def _rules(pod: Object) -> str:
    """The rules that the Pod's annotation names."""
    names = [str(entry["rule"]) for entry in provenance_of(pod)]
    expect(bool(names and _added(pod)), "the Pod has no toleration of ours, or no record of it")
    return f"rule {', '.join(names)}"


def _text(toleration: Object) -> str:
    return "  ".join(f"{key}: {value}" for key, value in toleration.items())

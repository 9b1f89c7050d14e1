"""The story that `tollbar demo` tells: each chapter applies files of the quickstart and proves what became of them.

Called by `demo` with a running control plane, two Nodes and Tollbar.  Every sentence with a mark was seen in the API or
in the API server's audit log; a sentence that does not come true ends the story with NotSeen or Untrue.
"""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import click
import orjson
import yaml

from tollbar import wellknown
from tollbar.cli import tables
from tollbar.cli.locations import QUICKSTART
from tollbar.cli.narrator import Narrator
from tollbar.cli.waiting import Selection, milestones, until
from tollbar.decide.tolerations import provenance_of
from tollbar.model import conditions, pods
from tollbar.model.objects import Key, Object, annotations_of, labels_of, metadata, spec
from tollbar.runtime import resources
from tollbar.runtime.client import Client, PatchType
from tollbar.runtime.clock import Clock
from tollbar.runtime.errors import Invalid

NAMESPACE: Final = "default"
PLAIN: Final = "plain"
RESERVED: Final = "gpu"
DRIVER: Final = "gpu.example.com"
TAINT: Final[Object] = {"key": "example.com/gpu", "value": "true", "effect": "NoSchedule"}

_KINDS: Final = {
    resource.kind: resource
    for resource in (
        resources.PODS,
        resources.DEVICE_CLASSES,
        resources.RESOURCE_CLAIM_TEMPLATES,
        resources.TOLERATION_RULES,
    )
}
_SECONDS: Final = 30.0
_AGAIN_SECONDS: Final = 0.02
_PLACE: Final = re.compile(r": (?P<line>\d+):(?P<column>\d+): (?P<what>.*)", re.DOTALL)


class Untrue(click.ClickException):
    """The cluster is not as the story says."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What a chapter needs.

    `writes_of` answers with the verbs of Tollbar's own writes to a Pod, as the API server logged them; it blocks.
    """

    client: Client
    tell: Narrator
    clock: Clock
    writes_of: Callable[[str], list[str]]


def documents(file: str) -> list[Object]:
    """The objects in a file of the quickstart."""
    return list(yaml.safe_load_all((QUICKSTART / file).read_text(encoding="utf-8")))


async def rule(stage: Stage) -> None:
    stage.tell.chapter("You write one rule, for all Pods")
    [wanted] = documents("rule.yaml")
    stage.tell.applied("rule.yaml", "device-class.yaml", "claim-templates.yaml")
    stage.tell.line("A Pod for which this is true ...")
    stage.tell.quote(*wanted["spec"]["match"]["cel"]["expression"].splitlines())
    stage.tell.line("... gets this toleration, and so may enter the nodes that are tainted for such Pods:")
    stage.tell.quote(*map(_text, wanted["spec"]["tolerations"]))
    started = stage.clock.monotonic()
    for file in ("device-class.yaml", "claim-templates.yaml", "rule.yaml"):
        await _apply(stage, file)
    selection = Selection.named(resources.TOLERATION_RULES, Key("", metadata(wanted)["name"]))
    what = "TolerationRule gpu-nodes is Ready"
    _, seen = await milestones(stage.client, selection, {what: _is_ready}, timeout=_SECONDS)
    stage.tell.proof("checked, compiled and in force: condition Ready", seen[what] - started)


async def decided_at_admission(stage: Stage) -> None:
    stage.tell.chapter("Pod A needs a GPU; its author forgot the toleration")
    await _webhook_knows(stage, "pod-a.yaml")
    stage.tell.applied("pod-a.yaml")
    created, bound, seconds = await _apply_and_follow(stage, "pod-a.yaml")
    _expect(not pods.is_gated(created), "Pod A was held although everything was known")
    stage.tell.proof(f"created with the toleration in it, added at admission by {_rules(created)}", seconds["applied"])
    stage.tell.quote(*map(_text, _added(created)))
    stage.tell.proof(
        f"the scheduler bound it to node {_node(bound, RESERVED)}, with device {await _device(stage, bound)}",
        seconds["bound"],
    )
    writes = await asyncio.to_thread(stage.writes_of, "pod-a")
    _expect(not writes, f"Tollbar wrote to Pod A after its creation: {writes}")
    stage.tell.proof("Tollbar's writes to it since: none, it was right from the start")


async def held_and_released(stage: Stage) -> None:
    stage.tell.chapter("Pod B asks for a class of device that does not exist yet")
    stage.tell.applied("pod-b.yaml")
    started = stage.clock.monotonic()
    [created] = await _apply(stage, "pod-b.yaml")
    _expect(pods.is_gated(created), "Pod B was not held")
    _expect(labels_of(created).get(wellknown.LABEL_GATE) == wellknown.GATE_HELD, "Pod B has not the label of held Pods")
    stage.tell.proof(f"held: scheduling gate {wellknown.GATE}, label {wellknown.LABEL_GATE}={wellknown.GATE_HELD}")
    await show_pods(stage)
    event = Selection(resources.EVENTS, NAMESPACE, f"regarding.name=pod-b,reason={wellknown.SCHEDULING_HELD}")
    with stage.tell.waiting("a Pod that waits is told why after two seconds, not before"):
        what = "the event that says what Pod B waits for"
        told = await until(stage.client, event, lambda found: found is not None, timeout=_SECONDS, what=what)
    stage.tell.proof(f'it says why, in an event: "{(told or {})["note"]}"', stage.clock.monotonic() - started)
    stage.tell.applied("late-device-class.yaml")
    _, bound, seconds = await _apply_and_follow(stage, "late-device-class.yaml", pod="pod-b")
    stage.tell.proof(f"released with the toleration, added by {_rules(bound)}", seconds["released"])
    stage.tell.proof(
        f"the scheduler bound it to node {_node(bound, RESERVED)}, with device {await _device(stage, bound)}",
        seconds["bound"],
    )
    writes = await asyncio.to_thread(stage.writes_of, "pod-b")
    _expect(writes == ["patch"], f"Tollbar wrote to Pod B other than by one patch: {writes}")
    stage.tell.proof("Tollbar's writes to it: 1 patch with toleration, gate removal, label and record together")


async def untouched(stage: Stage) -> None:
    stage.tell.chapter("Pod C needs no device")
    stage.tell.applied("pod-c.yaml")
    created, bound, seconds = await _apply_and_follow(stage, "pod-c.yaml")
    ours = [name for name in (*labels_of(created), *annotations_of(created)) if wellknown.GROUP in name]
    _expect(not ours and not pods.is_gated(created) and not _added(created), f"Pod C was touched: {ours}")
    stage.tell.proof("created as it was written: no toleration, no gate, no label of ours", seconds["applied"])
    stage.tell.proof(f"the scheduler bound it to node {_node(bound, PLAIN)}", seconds["bound"])
    writes = await asyncio.to_thread(stage.writes_of, "pod-c")
    _expect(not writes, f"Tollbar wrote to Pod C: {writes}")
    stage.tell.proof("Tollbar's writes to it: none")


async def broken_rule(stage: Stage) -> None:
    stage.tell.chapter("A rule with a mistake does not get in")
    stage.tell.applied("broken-rule.yaml")
    [wanted] = documents("broken-rule.yaml")
    started = stage.clock.monotonic()
    try:
        await _apply(stage, "broken-rule.yaml")
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


CHAPTERS: Final = (rule, decided_at_admission, held_and_released, untouched, broken_rule)


async def _apply(stage: Stage, file: str) -> list[Object]:
    """The file's objects as the API server stored them."""
    stored = []
    for obj in documents(file):
        resource = _KINDS[obj["kind"]]
        stored.append(
            await stage.client.patch(
                resource,
                metadata(obj)["name"],
                obj,
                namespace=NAMESPACE if resource.namespaced else "",
                patch_type=PatchType.APPLY,
                field_manager="tollbar-demo",
            )
        )
    return stored


async def _apply_and_follow(stage: Stage, file: str, *, pod: str = "") -> tuple[Object, Object, dict[str, float]]:
    """Apply a file and watch a Pod (the file's own unless named) until it runs.

    The stored object, the Pod at the end, and the seconds from before the request until the answer (`applied`), until
    the Pod had no gate (`released`) and until it had a Node (`bound`).
    """
    name = pod or metadata(documents(file)[0])["name"]
    steps = {
        "released": lambda found: found is not None and not pods.is_gated(found),
        "bound": lambda found: found is not None and pods.is_bound(found),
        "running": lambda found: found is not None and (found.get("status") or {}).get("phase") == "Running",
    }
    selection = Selection.named(resources.PODS, Key(NAMESPACE, name))
    begun = asyncio.Event()
    following = asyncio.create_task(
        milestones(stage.client, selection, steps, timeout=_SECONDS, clock=stage.clock, begun=begun)
    )
    try:
        await begun.wait()
        started = stage.clock.monotonic()
        [stored] = await _apply(stage, file)
        seconds = {"applied": stage.clock.monotonic() - started}
        found, reached = await following
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    return stored, found or {}, seconds | {step: moment - started for step, moment in reached.items()}


async def _webhook_knows(stage: Stage, file: str) -> None:
    """Wait until the webhook, which has a cache of its own, would add the toleration: asked by dry runs."""
    [wanted] = documents(file)
    body, path = orjson.dumps(wanted), resources.PODS.path(NAMESPACE)
    try:
        async with asyncio.timeout(_SECONDS):
            while True:
                answer = orjson.loads(await stage.client.raw("POST", path, body, query={"dryRun": "All"}))
                if _added(answer):
                    return
                await stage.clock.sleep(_AGAIN_SECONDS)
    except TimeoutError:
        raise Untrue("the webhook does not add the toleration") from None


async def show_pods(stage: Stage, *labels: str) -> None:
    """What kubectl would print."""
    stage.tell.command(" ".join(["kubectl get pods", *(f"-L {label}" for label in labels)]))
    stage.tell.quote(*await tables.get(stage.client, resources.PODS, NAMESPACE, labels=labels))


async def _device(stage: Stage, pod: Object) -> str:
    """The device that the scheduler allocated to the Pod's only claim."""
    [status] = pod["status"]["resourceClaimStatuses"]
    claim = await stage.client.get(resources.RESOURCE_CLAIMS, status["resourceClaimName"], NAMESPACE)
    [result] = claim["status"]["allocation"]["devices"]["results"]
    return str(result["device"])


def _is_ready(obj: Object | None) -> bool:
    found = conditions.find(((obj or {}).get("status") or {}).get("conditions"), wellknown.CONDITION_READY)
    return found is not None and found["status"] == "True"


def _added(pod: Object) -> list[Object]:
    """Tolerations of the taint of the story."""
    return [toleration for toleration in pods.tolerations(pod) if toleration.get("key") == TAINT["key"]]


def _rules(pod: Object) -> str:
    """The rules in the Pod's record."""
    names = [str(entry["rule"]) for entry in provenance_of(pod)]
    _expect(bool(names and _added(pod)), "the Pod has no toleration of ours, or no record of it")
    return f"rule {', '.join(names)}"


def _node(pod: Object, expected: str) -> str:
    node: str = spec(pod)["nodeName"]
    _expect(node == expected, f"the Pod is on node {node}, not on {expected}")
    return node


def _text(toleration: Object) -> str:
    return "  ".join(f"{key}: {value}" for key, value in toleration.items())


def _expect(truth: bool, otherwise: str) -> None:
    if not truth:
        raise Untrue(otherwise)

"""What every chapter of the demonstration works with: the cluster, the narrator, the files of the examples.

When a step does not have its effect, the demonstration ends with NotSeen or Untrue.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

import click
import orjson
import yaml

from tollbar import wellknown
from tollbar.cli import tables
from tollbar.cli.demo.narrator import Narrator
from tollbar.cli.locations import EXAMPLES, QUICKSTART
from tollbar.cli.waiting import Selection, Wanted, milestones
from tollbar.model import conditions, pods, resources
from tollbar.model.objects import Key, Object, metadata, spec
from tollbar.model.resources import Resource
from tollbar.runtime.client import Client, PatchType, decoded
from tollbar.runtime.clock import Clock
from tollbar.runtime.errors import ApiError

NAMESPACE: Final = "default"
PLAIN: Final = "plain"
RESERVED: Final = "gpu"
DRIVER: Final = "gpu.example.com"
LABEL: Final = "example.com/gpu"
"""Of the Node with devices."""
TAINT: Final[Object] = {"key": "example.com/gpu", "value": "true", "effect": "NoSchedule"}
SECONDS: Final = 60.0
"""How long a chapter waits for anything."""
_AGAIN_SECONDS: Final = 0.02

NOTEBOOKS: Final = Resource("example.com", "v1", "notebooks", "Notebook", namespaced=True)
_KINDS: Final = {
    resource.kind: resource
    for resource in (
        resources.PODS,
        resources.DEVICE_CLASSES,
        resources.RESOURCE_CLAIM_TEMPLATES,
        resources.TOLERATION_RULES,
        resources.RESOURCE_CLAIMS,
        resources.WORKLOAD_CLAIMS,
        resources.POD_QUOTAS,
        resources.PLACEMENT_RULES,
        resources.STATEFUL_SETS,
        resources.CUSTOM_RESOURCE_DEFINITIONS,
        NOTEBOOKS,
    )
}


T = TypeVar("T")


class Untrue(click.ClickException):
    """The cluster is not as the demonstration says."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What a chapter needs.

    `writes_of` answers with the verbs of Tollbar's own writes to a Pod, its status left out, as the API server logged
    them; it blocks.  `replacing`: Tollbar makes the claims here, not kube-controller-manager.
    """

    client: Client
    tell: Narrator
    clock: Clock
    writes_of: Callable[[str], list[str]]
    replacing: bool


def documents(file: str) -> list[Object]:
    """The objects in a file of the quickstart, or of another example when the file names its folder."""
    path = EXAMPLES / file if "/" in file else QUICKSTART / file
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def _namespace_of(resource: Resource) -> str:
    return NAMESPACE if resource.namespaced else ""


async def apply(stage: Stage, file: str) -> list[Object]:
    """The file's objects as the API server stored them."""
    stored = []
    for obj in documents(file):
        resource = _KINDS[obj["kind"]]
        stored.append(
            await stage.client.patch(
                resource,
                metadata(obj)["name"],
                obj,
                namespace=_namespace_of(resource),
                patch_type=PatchType.APPLY,
                field_manager="tollbar-demo",
            )
        )
    return stored


async def admitting(stage: Stage, file: str, holds: Callable[[Object], object], otherwise: str) -> None:
    """Wait until dry runs show that the Pod of this file would be admitted as it has to be.

    The API server reads webhook configurations, and the webhook its caches, by watches.  Raises Untrue.
    """
    [wanted] = documents(file)
    body, path = orjson.dumps(wanted), resources.PODS.path(NAMESPACE)
    refused = ""
    try:
        async with asyncio.timeout(SECONDS):
            while True:
                try:
                    answer = decoded("POST", await stage.client.raw("POST", path, body, query={"dryRun": "All"}))
                    refused = ""
                except ApiError as error:
                    answer, refused = {}, f": {error}"
                if holds(answer):
                    return
                await stage.clock.sleep(_AGAIN_SECONDS)
    except TimeoutError:
        raise Untrue(f"{otherwise}{refused}") from None


async def delete(stage: Stage, file: str) -> None:
    """Ask for the deletion of the file's objects."""
    for obj in documents(file):
        resource = _KINDS[obj["kind"]]
        await stage.client.delete(resource, metadata(obj)["name"], _namespace_of(resource))


async def followed(
    stage: Stage, resource: Resource, name: str, steps: Mapping[str, Wanted], act: Callable[[], Awaitable[T]]
) -> tuple[T, Object, dict[str, float]]:
    """Do something and watch one object until it has gone through these steps.

    What `act` returned, the object at the end (empty when it is gone), and the seconds from before `act` until its
    answer (`done`) and until each step.
    """
    selection = Selection.named(resource, Key(_namespace_of(resource), name))
    begun = asyncio.Event()
    following = asyncio.create_task(
        milestones(stage.client, selection, steps, timeout=SECONDS, clock=stage.clock, begun=begun)
    )
    try:
        await begun.wait()
        started = stage.clock.monotonic()
        answer = await act()
        seconds = {"done": stage.clock.monotonic() - started}
        found, reached = await following
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    return answer, found or {}, seconds | {step: moment - started for step, moment in reached.items()}


def is_ready(obj: Object | None) -> bool:
    return conditions.is_true(obj, wellknown.CONDITION_READY)


def is_released(pod: Object | None) -> bool:
    return pod is not None and not pods.is_gated(pod)


def is_bound(pod: Object | None) -> bool:
    return pod is not None and pods.is_bound(pod)


def is_running(pod: Object | None) -> bool:
    return pod is not None and (pod.get("status") or {}).get("phase") == "Running"


def node_of(pod: Object, expected: str) -> str:
    node: str = spec(pod)["nodeName"]
    expect(node == expected, f"the Pod is on node {node}, not on {expected}")
    return node


def refusal(pod: Object | None) -> str:
    """Why the scheduler finds no place for the Pod; empty when it did not say so."""
    found = conditions.of(pod, "PodScheduled")
    return str(found.get("message")) if found.get("reason") == "Unschedulable" else ""


async def show_pods(stage: Stage, *labels: str) -> None:
    """What kubectl would print."""
    stage.tell.command(" ".join(["kubectl get pods", *(f"-L {label}" for label in labels)]))
    stage.tell.quote(*await tables.get(stage.client, resources.PODS, NAMESPACE, labels=labels))


def expect(truth: object, otherwise: str) -> None:
    """Raises Untrue."""
    if not truth:
        raise Untrue(otherwise)

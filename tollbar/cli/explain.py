"""`tollbar explain`: why a Pod waits, and what would change it.

It lists what the decisions read, with read-only permissions (ClusterRole `tollbar-explain`), and writes nothing.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias

import click
import yaml

from tollbar.cli import console
from tollbar.cli.page import explained as page
from tollbar.cli.page import rendering
from tollbar.cli.reading import Reading
from tollbar.explain import events, objects, pods, text
from tollbar.explain.causes import Cause
from tollbar.explain.values import Finding, PodExplanation
from tollbar.gates import registry
from tollbar.model import names
from tollbar.model.fields import printable
from tollbar.model.objects import Object, metadata, uid_of
from tollbar.model.pods import gate_names
from tollbar.model.resources import EVENTS, PODS
from tollbar.offline import Cluster, loading
from tollbar.runtime.client import Client
from tollbar.runtime.errors import ApiError, NotFound, ServerError, TooManyRequests, Unreachable
from tollbar.runtime.retry import READ

Output: TypeAlias = Literal["table", "wide", "json", "yaml"]

_AGAIN: Final = 5.0
"""Seconds between two looks at the cluster with --watch."""
_LONGEST: Final = 60.0
"""The same at most, while the API server does not answer: each time twice as long."""


@click.group("explain")
def command() -> None:
    """Show why something waits, and what would change it."""


class _Name(click.ParamType[str]):
    """The name of an object."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if problems := names.dns_subdomain(str(value)):
            self.fail(f"{value!r} is not the name of an object: {problems[0]}", param, ctx)
        return str(value)


_output: Final = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json", "yaml"]),
    default="table",
    show_default=True,
    help="How to print the answer; wide leaves nothing out.",
)
_watch: Final = click.option(
    "--watch",
    "-w",
    is_flag=True,
    help="Print the answer again whenever it changes: for a Pod until it has a Node, otherwise until interrupted.",
)
_namespace: Final = click.option(
    "--namespace", "-n", type=_Name(), metavar="NAME", help="Where it is.  Default: the namespace of the context."
)


@command.command("pod", short_help="Show why a Pod waits, and what would change it.")
@click.argument("name", type=_Name())
@_namespace
@_output
@rendering.option
@_watch
@console.cluster_options
def pod(
    name: str, namespace: str | None, output: Output, html: Path | None, watch: bool, cluster: console.Cluster
) -> None:
    """Show why a Pod waits: what holds it, since when, who has to do what, and what would change it.

    The true cause comes first.  What would change it was tried on a copy of the cluster, with Tollbar's decisions and
    its scheduler, which decides as kube-scheduler does.  The answer names what you may not read; the ClusterRole
    tollbar-explain grants everything that the command reads.
    """
    console.run(_pod(cluster, namespace, name, output, html, watch=watch))


async def _pod(
    cluster: console.Cluster, namespace: str | None, name: str, output: Output, html: Path | None, *, watch: bool
) -> None:
    async def look(client: Client) -> _Look:
        answer = await explained(client, namespace or client.namespace, name)
        found = answer.found

        async def tell(*, again: bool) -> None:
            show(text.of_pod(found, wide=output == "wide"), text.data(found), output, again=again)
            if html is not None:
                shown = page.page(answer.copy, answer.pod, found, answer.events)
                await asyncio.to_thread(rendering.write, html, shown)

        told = [(each.cause, each.what) for each in found.findings], found.remedies
        return _Look(told, tell, is_last=bool(found.node))

    await _looking(cluster, look, watch=watch)


@command.command("claim")
@click.argument("name", type=_Name())
@_namespace
@_output
@_watch
@console.cluster_options
def claim(name: str, namespace: str | None, output: Output, watch: bool, cluster: console.Cluster) -> None:
    """Show the state of a ResourceClaim: its devices, who uses it, and why they wait."""
    console.run(_object(cluster, "claim", name, namespace, output, watch=watch))


@command.command("rule", short_help="Show what a TolerationRule does, and for which Pods.")
@click.argument("name", type=_Name())
@_output
@_watch
@console.cluster_options
def rule(name: str, output: Output, watch: bool, cluster: console.Cluster) -> None:
    """Show whether a TolerationRule is in force, for which waiting Pods, and which taints of Nodes it tolerates."""
    console.run(_object(cluster, "rule", name, None, output, watch=watch))


@command.command("node", short_help="Show what keeps Pods that wait off this Node.")
@click.argument("name", type=_Name())
@_output
@_watch
@console.cluster_options
def node(name: str, output: Output, watch: bool, cluster: console.Cluster) -> None:
    """Show why Pods that wait are not on this Node: what rejects each of them there, its taints, its devices."""
    console.run(_object(cluster, "node", name, None, output, watch=watch))


async def _object(
    cluster: console.Cluster, kind: str, name: str, namespace: str | None, output: Output, *, watch: bool
) -> None:
    resource, explain = objects.BY_COMMAND[kind]

    async def look(client: Client) -> _Look:
        where = (namespace or client.namespace) if resource.namespaced else ""
        with console.reading() as progress:
            gates = registry.enabled(registry.IN_TREE)
            copy = await loading.load(client, namespace=where, gates=gates, progress=progress)
        found = copy.get(resource, name, where)
        if found is None:
            if not copy.knows(resource):
                raise click.ClickException(f"{resource.plural} may not be read: {copy.unknown[resource.kind]}")
            raise click.ClickException(f'{resource.plural} "{name}" not found')
        answer = explain(copy, found)

        async def tell(*, again: bool) -> None:
            show(text.of_object(answer, wide=output == "wide"), text.data(answer), output, again=again)

        return _Look(answer, tell)

    await _looking(cluster, look, watch=watch)


class _Tell(Protocol):
    async def __call__(self, *, again: bool) -> None: ...


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at the cluster: what the answer is compared by, who prints it, and whether no other one can follow."""

    told: object
    tell: _Tell
    is_last: bool = False


async def _looking(cluster: console.Cluster, look: Callable[[Client], Awaitable[_Look]], *, watch: bool) -> None:
    """Answer once; with `watch` look again every `_AGAIN` seconds, and answer whenever the answer is another one.

    An API server that does not answer, or is too busy, ends it before the first answer alone.
    """
    said: object = None
    is_away, pause = False, _AGAIN
    async with console.connected(cluster, "explain") as client:
        while True:
            try:
                found = await look(client)
            except (Unreachable, ServerError, TooManyRequests) as error:
                if said is None:
                    raise
                if not is_away:
                    console.say(f"{console.explain(error)}; trying again until it answers")
                is_away = True
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST)
                continue
            if is_away:
                console.say("the API server answers again")
            is_away, pause = False, _AGAIN
            if found.told != said:
                await found.tell(again=said is not None)
            if not watch or found.is_last:
                return
            said = found.told
            await asyncio.sleep(_AGAIN)


@dataclass(frozen=True, slots=True)
class Explained:
    """An explanation, with what it was made from: the Pod as it is in the copy, and the Events about it."""

    found: PodExplanation
    copy: Cluster
    pod: Object
    events: Sequence[Object]


async def explained(client: Client, namespace: str, name: str) -> Explained:
    """Raises ApiError, and ClickException for a Pod that was not created."""
    try:
        found: Object = await READ(client.get, PODS, name, namespace)
    except NotFound as error:
        return await _not_created(client, namespace, name, error)
    reading = Reading(client)
    selector = f"regarding.kind={PODS.kind},regarding.name={name}"
    about = await reading.list(EVENTS, namespace, field_selector=selector, keep=partial(_regards, found))
    classes = await asyncio.to_thread(registry.installed, gate_names(found))
    with console.reading() as progress:
        copy = await loading.load(client, namespace=namespace, gates=classes, progress=progress)
    if about is None:
        copy.unknown["Event"] = reading.unread[0]
    kept = copy.put({**PODS.type_meta, **found})
    return Explained(pods.explain(copy, kept, about or ()), copy, kept, about or ())


def _regards(pod: Object, event: Object) -> bool:
    """Whether the Event is about this very Pod, and not about an earlier one of its name."""
    return (event.get("regarding") or {}).get("uid") == uid_of(pod)


async def _not_created(client: Client, namespace: str, name: str, error: ApiError) -> Explained:
    """A controller that could not make Pods of such a name says so in an Event: the nearest one, and what it said last.

    Raises ClickException without such an Event.
    """
    failed = await Reading(client).list(EVENTS, namespace, field_selector="reason=FailedCreate") or ()
    about = [each for each in failed if _shared(name, each)]
    if not about:
        raise click.ClickException(str(error.message)) from error
    known = max(about, key=lambda each: (_shared(name, each), events.happened(each)))
    regarding = known.get("regarding") or {}
    owner = f"{regarding.get('kind')} {regarding.get('name')}"
    why = Finding(
        Cause.NOT_CREATED,
        f"{owner} cannot make its Pods: {known.get('note')}",
        str(metadata(known).get("creationTimestamp") or ""),
        "the author of the Pods, or who set the quota or the policy",
        f"have that changed; the controller of {owner} tries again by itself",
    )
    pod = {**PODS.type_meta, "metadata": {"namespace": namespace, "name": name}}
    return Explained(PodExplanation(namespace, name, "not created", "", 0.0, (why,)), Cluster(), pod, ())


def _shared(name: str, event: Object) -> int:
    """How much of the name is that of the Event's object: names of Pods are their owner's, a hyphen, and more."""
    owner = str((event.get("regarding") or {}).get("name"))
    short, long = sorted((name, owner), key=len)
    return len(short) if short == long or long.startswith(f"{short}-") else 0


def show(lines: Sequence[str], data: object, output: Output, *, again: bool = False) -> None:
    """Print an answer, or another one after it: in YAML a document each."""
    if again and output != "json":
        click.echo("---" if output == "yaml" else "")
    if output == "json":
        click.echo(json.dumps(data, indent=2))
    elif output == "yaml":
        click.echo(yaml.safe_dump(data, sort_keys=False, width=120).rstrip())
    else:
        click.echo("\n".join(map(printable, lines)))

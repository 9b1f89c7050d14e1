"""`tollbar drain`: stops gating, releases every Pod that Tollbar's gate holds, and gives reserved claims back.

The first step of a removal, and what `tollbar dev` does when it ends.  First the webhook and policy configurations,
which set the gate, are deleted; then requests that the API server had already begun are waited for; then the gate is
removed from every Pod, and a last list shows whether any is left.

Claims that are reserved for a workload would stay allocated for ever once Tollbar is gone.  The command does nothing
while there are any, as `kubectl drain` does for Pods that it may not delete, until it is told what to do with them.

Only gates of Tollbar's are removed, its own and those of its gate classes, with a patch that fails when the Pod has
changed meanwhile.  It needs neither the controllers nor the webhook, and does no harm while they run or when it is run
again, as it must be after an interruption.  It cannot stop clients that write the gate themselves.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, TypeAlias

import click

from tollbar import wellknown
from tollbar.api import webhooks
from tollbar.cli import console, reservations
from tollbar.cli.reservations import GivenBack, Reserved
from tollbar.decide.gates import mutations
from tollbar.decide.gates.answers import NOTHING
from tollbar.decide.pods import tolerations
from tollbar.model import pods
from tollbar.model.jsonpatch import Patch
from tollbar.model.objects import Object, key_of, labels_of, metadata, spec, uid_of
from tollbar.model.resources import (
    MUTATING_ADMISSION_POLICIES,
    MUTATING_ADMISSION_POLICY_BINDINGS,
    PODS,
    SCHEDULING_GATES,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
    WEBHOOK_CONFIGURATIONS,
    Resource,
)
from tollbar.runtime import pager
from tollbar.runtime.client import Client
from tollbar.runtime.clock import Clock, SystemClock
from tollbar.runtime.errors import ApiError, Conflict, Forbidden, Invalid, NotFound
from tollbar.runtime.retry import READ, WRITE

_GATING: Final = (
    *WEBHOOK_CONFIGURATIONS,
    MUTATING_ADMISSION_POLICY_BINDINGS,
    MUTATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
    VALIDATING_ADMISSION_POLICIES,
)
"""Configurations that act at admission, in the order of their deletion: a binding before its policy."""

_NOTICED_SECONDS: Final = 1.0
"""After which every API server has noticed that a configuration is deleted."""
_CONTROLLERS: Final = re.compile(r"system:serviceaccount:[^:]+:[^:]*tollbar-controllers[^:]*")
"""The controllers' user name, in whatever namespace and however a kustomization renamed the ServiceAccount."""
_ROUNDS: Final = 3
_ATTEMPTS: Final = 5


Configurations: TypeAlias = Sequence[tuple[Resource, Object]]
"""Webhook and policy configurations of ours, in the order of their deletion."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A Pod that keeps its gate, and the API server's reason."""

    pod: str
    reason: str


Result: TypeAlias = Literal["released", "by others"] | Refusal
"""The result for one Pod; `by others` when these have released or deleted it first."""


@dataclass(frozen=True, slots=True)
class Drained:
    """What a drain did: names of deleted configurations, numbers of Pods.

    `by_others` were released or deleted by somebody else while it ran; `remaining` still have a gate.
    """

    configurations: tuple[str, ...]
    released: int
    by_others: int
    refused: tuple[Refusal, ...]
    remaining: int


async def drain(client: Client, *, clock: Clock, report: Callable[[str], None]) -> Drained:
    """Stop gating, release every Pod, verify.  Raises ApiError when even listing or deleting is refused."""
    found = await _configurations(client)
    configurations, settle = await _stop_gating(client, found)
    if configurations:
        report(f"deleted {', '.join(configurations)}; waiting {settle:g} s for requests that had begun")
        await clock.sleep(settle)
    ours = await _our_gates(client, found, report)
    counts: Counter[str] = Counter()
    refused: tuple[Refusal, ...] = ()
    for _ in range(_ROUNDS):
        results = await _sweep(client, ours)
        counts.update(result for result in results if not isinstance(result, Refusal))
        refused = tuple(result for result in results if isinstance(result, Refusal))
        if len(refused) == len(results):  # nothing was there to release, or nothing that we may
            break
    remaining = sum([len(page) async for page in _gated(client, ours)]) if results else 0
    return Drained(configurations, counts["released"], counts["by others"], refused, remaining)


async def _stop_gating(client: Client, configurations: Configurations) -> tuple[tuple[str, ...], float]:
    """Delete these configurations: their names, and for how many seconds an older request may still be under way."""
    names = []
    settle = 0.0
    for resource, found in configurations:
        with suppress(NotFound, Conflict):
            await WRITE(client.delete, resource, metadata(found)["name"], uid=uid_of(found))
        names.append(_named(resource, found))
        timeouts = [float(webhook.get("timeoutSeconds") or 0) for webhook in found.get("webhooks") or ()]
        settle = max(settle, _NOTICED_SECONDS + max(timeouts, default=0.0))
    return tuple(names), settle


async def _configurations(client: Client) -> Configurations:
    served: set[str] = await READ(client.served, MUTATING_ADMISSION_POLICIES.api_version)
    found = []
    for resource in _GATING:
        if resource.plural in served:
            page: Object = await READ(client.list, resource)
            found += [(resource, each) for each in page["items"] if is_ours(each)]
    return found


def _named(resource: Resource, obj: Object) -> str:
    return f"{resource.kind} {metadata(obj)['name']}"


def is_ours(configuration: Object) -> bool:
    """Whether a webhook or policy configuration belongs to Tollbar, however a kustomization renamed it."""
    name: str = metadata(configuration)["name"]
    return (
        name.startswith(wellknown.WEBHOOK_CONFIGURATION)
        or labels_of(configuration).get("app.kubernetes.io/name") == "tollbar"
    )


async def _our_gates(client: Client, configurations: Configurations, report: Callable[[str], None]) -> frozenset[str]:
    """Tollbar's own gate, and those of gate classes: the gates that the webhook is asked about by these configurations,
    and those that a SchedulingGate lets the controllers remove."""
    ours = {wellknown.GATE}.union(*(webhooks.gates_of(found) for _, found in configurations))
    try:
        found: Object = await READ(client.list, SCHEDULING_GATES)
    except (NotFound, Forbidden) as error:
        report(f"SchedulingGates cannot be read, so that gates of classes may be left on Pods: {error}")
        return frozenset(ours)
    gates = [spec(each) for each in found["items"]]
    ours |= {gate["gateName"] for gate in gates if any(map(_CONTROLLERS.fullmatch, gate.get("owners") or ()))}
    return frozenset(ours)


async def _sweep(client: Client, ours: frozenset[str]) -> list[Result]:
    """Try to release every Pod that has a gate of ours."""
    results: list[Result] = []
    async with aclosing(_gated(client, ours)) as pages:
        async for page in pages:
            results += await asyncio.gather(*(_release(client, pod, ours) for pod in page))
    return results


async def _gated(client: Client, ours: frozenset[str]) -> AsyncGenerator[list[Object], None]:
    """Pods with a gate of Tollbar's, page by page; not by the label, which users may have removed."""
    # A gated Pod cannot be bound, so those without a Node are all there are.
    async for page in pager.pages(client, PODS, field_selector="spec.nodeName="):
        yield [pod for pod in page if not ours.isdisjoint(pods.gate_names(pod))]


def _lifted(pod: Object, ours: frozenset[str]) -> Patch:
    """The patch that takes the first of our gates off."""
    name = next(each for each in pods.gate_names(pod) if each in ours)
    if name == wellknown.GATE:
        return tolerations.patch(pod, (), via="gate", gate="remove", fenced=True)
    return mutations.patch(pod, NOTHING, gate=name, action="remove", fenced=True)


async def _release(client: Client, pod: Object, ours: frozenset[str]) -> Result:
    key = key_of(pod)
    for _ in range(_ATTEMPTS):
        patch = _lifted(pod, ours)
        try:
            pod = await WRITE(client.patch, PODS, key.name, patch, namespace=key.namespace)
            if ours.isdisjoint(pods.gate_names(pod)):
                return "released"
            continue
        except ApiError as error:
            if error.refused:  # first: a webhook may deny with any code
                return Refusal(str(key), str(error))
            if not isinstance(error, NotFound | Conflict | Invalid):
                raise
        try:
            pod = await READ(client.get, PODS, key.name, key.namespace)
        except NotFound:
            return "by others"
        if ours.isdisjoint(pods.gate_names(pod)):
            return "by others"
    return Refusal(str(key), "it changed at every attempt")


@dataclass(frozen=True, slots=True)
class Step:
    """What a drain would do to one object; to `refuse` a claim is to do nothing at all while it is there."""

    action: Literal["delete", "release", "hand over", "free", "refuse"]
    object: str


async def plan(
    client: Client, reserved: Sequence[Reserved], give_back: bool | None, *, report: Callable[[str], None]
) -> list[Step]:
    """What a drain would do.  `give_back` is None as long as nobody has said what becomes of the `reserved` claims."""
    found = await _configurations(client)
    steps = [Step("delete", _named(*each)) for each in found]
    async for page in _gated(client, await _our_gates(client, found, report)):
        steps += [Step("release", f"Pod {key_of(pod)}") for pod in page]
    for each in reserved:
        steps.append(Step("refuse" if give_back is None else "free" if each.is_to_be_freed else "hand over", str(each)))
    return steps


def _undecided(reserved: Sequence[Reserved]) -> click.ClickException:
    """Names the claims for which nobody has said what becomes of them."""
    lines = "".join(f"\n{each}" for each in reserved)
    return click.ClickException(
        "nothing is done while claims are reserved that nobody will give back when Tollbar is gone. Give them back with"
        f" --reservations, or leave them with --keep-reservations:{lines}"
    )


@click.command("drain")
@console.cluster_options
@console.output_option
@click.option(
    "--reservations/--keep-reservations",
    "give_back",
    default=None,
    help="Hand ResourceClaims that are reserved for workloads over to the Pods that use them, and free those that"
    " nobody uses; or leave all reservations as they are.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
def command(cluster: console.Cluster, give_back: bool | None, dry_run: bool, output: console.Output) -> None:
    """Stop gating Pods and release every Pod that waits behind Tollbar's gate.

    Deletes Tollbar's webhook and admission policy configurations, waits for requests that had begun, removes the gate
    from every Pod and verifies that none is left.  Run it before removing Tollbar, or to recover when its controllers
    are gone.  Pods that are already running are not affected.

    A ResourceClaim that is reserved for a workload stays allocated for ever once Tollbar is gone.  If there are such
    claims, the command names them and does nothing, unless you choose one of two options.  With --reservations it
    replaces every entry that keeps a claim for a workload by entries of the Pods that use the claim, and frees a claim
    that no Pod uses: stop the controllers first, or they reserve it again.  With --keep-reservations the reservations
    stay, for an installation that will be back.
    """
    console.run((_show if dry_run else _drain)(cluster, give_back, output))


async def _show(cluster: console.Cluster, give_back: bool | None, output: console.Output) -> None:
    async with console.connected(cluster, "drain") as client:
        reserved = await _look(client, give_back)
        steps = await plan(client, reserved, give_back, report=console.say)
    console.emit([{"would": step.action, "object": step.object} for step in steps], list(map(asdict, steps)), output)
    if reserved and give_back is None:
        raise _undecided(reserved)


async def _drain(cluster: console.Cluster, give_back: bool | None, output: console.Output) -> None:
    async with console.connected(cluster, "drain") as client:
        reserved = await _look(client, give_back)
        if reserved and give_back is None:
            raise _undecided(reserved)
        drained = await drain(client, clock=SystemClock(), report=console.say)
        given_back = await reservations.give_back(client) if give_back else None
    _report(drained, given_back, output)


async def _look(client: Client, give_back: bool | None) -> list[Reserved]:
    """Say which cluster it is, which answers; and the claims that are reserved, none if they are to be kept."""
    reserved = [] if give_back is False else await reservations.find(client)
    console.say(f"cluster {client.cluster}")
    return reserved


def _report(drained: Drained, given_back: GivenBack | None, output: console.Output) -> None:
    """Print what was done.  Raises ClickException when something is left."""
    data: dict[str, Any] = {
        "configurations": list(drained.configurations),
        "released": drained.released,
        "byOthers": drained.by_others,
        "refused": [asdict(refusal) for refusal in drained.refused],
        "remaining": drained.remaining,
    }
    row = {
        "configurations": len(drained.configurations),
        "released": drained.released,
        "by others": drained.by_others,
        "refused": len(drained.refused),
        "remaining": drained.remaining,
    }
    if given_back is not None:
        row |= {
            "handed over": given_back.handed_over,
            "freed": given_back.freed,
            "reserved": given_back.remaining,
        }
        data["reservations"] = {
            "handedOver": given_back.handed_over,
            "freed": given_back.freed,
            "refused": [{"claim": claim, "reason": reason} for claim, reason in given_back.refused],
            "remaining": given_back.remaining,
        }
    console.emit([row], data, output)
    for refusal in drained.refused:
        console.say(f"{refusal.pod}: {refusal.reason}")
    for claim, reason in given_back.refused if given_back is not None else ():
        console.say(f"{claim}: {reason}")
    if drained.remaining:
        raise click.ClickException(f"Pods that still have a gate of Tollbar's: {drained.remaining}")
    if given_back is not None and given_back.remaining:
        raise click.ClickException(
            f"claims that are still reserved for a workload: {given_back.remaining}; do the controllers still run?"
        )

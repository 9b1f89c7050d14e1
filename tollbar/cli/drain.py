"""`tollbar drain`: stops gating and releases every Pod that Tollbar's gate holds.

The first step of a removal, and what `tollbar dev` does when it ends.  First the webhook and policy configurations,
which set the gate, are deleted; then requests that the API server had already begun are waited for; then the gate is
removed from every Pod, and a last list shows whether any is left.

Only Tollbar's own gate is removed, with a patch that fails when the Pod has changed meanwhile.  It needs neither the
controllers nor the webhook, and does no harm while they run or when it is run again, as it must be after an
interruption.  It cannot stop clients that write the gate themselves.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass
from typing import Final, Literal, TypeAlias

import click

from tollbar import wellknown
from tollbar.cli import console, reservations
from tollbar.cli.reservations import Swapped
from tollbar.decide.pods import tolerations
from tollbar.model import pods
from tollbar.model.objects import Object, key_of, labels_of, metadata, uid_of
from tollbar.model.resources import (
    MUTATING_ADMISSION_POLICIES,
    MUTATING_ADMISSION_POLICY_BINDINGS,
    PODS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
    WEBHOOK_CONFIGURATIONS,
)
from tollbar.runtime import pager
from tollbar.runtime.client import Client
from tollbar.runtime.clock import Clock, SystemClock
from tollbar.runtime.errors import ApiError, Conflict, Invalid, NotFound
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
_ROUNDS: Final = 3
_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True)
class Refusal:
    """A Pod that keeps its gate, and the API server's reason."""

    pod: str
    reason: str


Result: TypeAlias = Literal["released", "meanwhile"] | Refusal
"""The result for one Pod; `meanwhile` when it was released or deleted by others first."""


@dataclass(frozen=True, slots=True)
class Drained:
    """What a drain did: names of deleted configurations, numbers of Pods."""

    configurations: tuple[str, ...]
    released: int
    meanwhile: int
    refused: tuple[Refusal, ...]
    remaining: int


async def drain(client: Client, *, clock: Clock, report: Callable[[str], None]) -> Drained:
    """Stop gating, release every Pod, verify.  Raises ApiError when even listing or deleting is refused."""
    configurations, settle = await _stop_gating(client)
    if configurations:
        report(f"deleted {', '.join(configurations)}; waiting {settle:g} s for requests that had begun")
        await clock.sleep(settle)
    counts: Counter[str] = Counter()
    refused: tuple[Refusal, ...] = ()
    for _ in range(_ROUNDS):
        results = await _sweep(client)
        counts.update(result for result in results if not isinstance(result, Refusal))
        refused = tuple(result for result in results if isinstance(result, Refusal))
        if len(refused) == len(results):  # nothing was there to release, or nothing that we may
            break
    remaining = sum([len(page) async for page in _gated(client)]) if results else 0
    return Drained(configurations, counts["released"], counts["meanwhile"], refused, remaining)


async def _stop_gating(client: Client) -> tuple[tuple[str, ...], float]:
    """Delete our configurations: their names, and for how many seconds an older request may still be under way."""
    served: set[str] = await READ(client.served, MUTATING_ADMISSION_POLICIES.api_version)
    names = []
    settle = 0.0
    for resource in _GATING:
        if resource.plural not in served:
            continue
        page: Object = await READ(client.list, resource)
        for found in filter(is_ours, page["items"]):
            with suppress(NotFound, Conflict):
                await WRITE(client.delete, resource, metadata(found)["name"], uid=uid_of(found))
            names.append(f"{resource.kind} {metadata(found)['name']}")
            timeouts = [float(webhook.get("timeoutSeconds") or 0) for webhook in found.get("webhooks") or ()]
            settle = max(settle, _NOTICED_SECONDS + max(timeouts, default=0.0))
    return tuple(names), settle


def is_ours(configuration: Object) -> bool:
    """Whether a webhook or policy configuration belongs to Tollbar, however a kustomization renamed it."""
    name: str = metadata(configuration)["name"]
    return (
        name.startswith(wellknown.WEBHOOK_CONFIGURATION)
        or labels_of(configuration).get("app.kubernetes.io/name") == "tollbar"
    )


async def _sweep(client: Client) -> list[Result]:
    """Try to release every Pod that has our gate."""
    results: list[Result] = []
    async with aclosing(_gated(client)) as pages:
        async for page in pages:
            results += await asyncio.gather(*(_release(client, pod) for pod in page))
    return results


async def _gated(client: Client) -> AsyncGenerator[list[Object], None]:
    """Pods with Tollbar's gate, page by page; not by its label, which users may have removed."""
    # A gated Pod cannot be bound, so those without a Node are all there are.
    async for page in pager.pages(client, PODS, field_selector="spec.nodeName="):
        yield [pod for pod in page if pods.is_gated(pod)]


async def _release(client: Client, pod: Object) -> Result:
    key = key_of(pod)
    for _ in range(_ATTEMPTS):
        patch = tolerations.patch(pod, (), via="gate", gate="remove", fenced=True)
        try:
            await WRITE(client.patch, PODS, key.name, patch, namespace=key.namespace)
            return "released"
        except ApiError as error:
            if error.refused:  # first: a webhook may deny with any code
                return Refusal(str(key), str(error))
            if not isinstance(error, NotFound | Conflict | Invalid):
                raise
        try:
            pod = await READ(client.get, PODS, key.name, key.namespace)
        except NotFound:
            return "meanwhile"
        if not pods.is_gated(pod):
            return "meanwhile"
    return Refusal(str(key), "it changed at every attempt")


@click.command("drain")
@console.cluster_options
@console.output_option
@click.option(
    "--reservations",
    "with_reservations",
    is_flag=True,
    help="Also let Pods take the place of their workloads in the reservations of ResourceClaims.",
)
def command(
    kubeconfig: str | None, request_timeout: float | None, output: console.Output, with_reservations: bool
) -> None:
    """Stop gating Pods and release every Pod that waits behind Tollbar's gate.

    Deletes Tollbar's webhook and admission policy configurations, waits for requests that had begun, removes the gate
    from every Pod and verifies that none is left.  Run it before removing Tollbar, or to recover when its controllers
    are gone.  Pods that are already running are not affected.

    With --reservations, every entry that keeps a ResourceClaim for a workload is replaced by entries of the Pods that
    use the claim: nobody would remove it any more.  Stop the controllers first, or they put it back.
    """
    drained, swapped = console.run(_main(kubeconfig, request_timeout, with_reservations))
    data = {
        "configurations": list(drained.configurations),
        "released": drained.released,
        "meanwhile": drained.meanwhile,
        "refused": [asdict(refusal) for refusal in drained.refused],
        "remaining": drained.remaining,
    }
    row = {**data, "configurations": len(drained.configurations), "refused": len(drained.refused)}
    if swapped is not None:
        row |= {"swapped": swapped.swapped, "freed": swapped.freed, "reserved": swapped.remaining}
        data["reservations"] = {**asdict(swapped), "refused": [{"claim": c, "reason": r} for c, r in swapped.refused]}
    console.emit([row], data, output)
    for refusal in drained.refused:
        console.say(f"{refusal.pod}: {refusal.reason}")
    for claim, reason in swapped.refused if swapped is not None else ():
        console.say(f"{claim}: {reason}")
    if drained.remaining:
        raise click.ClickException(f"Pods that still have the gate {wellknown.GATE}: {drained.remaining}")
    if swapped is not None and swapped.remaining:
        raise click.ClickException(
            f"claims that are still reserved for a workload: {swapped.remaining}; do the controllers still run?"
        )


async def _main(
    kubeconfig: str | None, request_timeout: float | None, with_reservations: bool
) -> tuple[Drained, Swapped | None]:
    async with console.connected(kubeconfig, "drain", request_timeout) as client:
        drained = await drain(client, clock=SystemClock(), report=console.say)
        return drained, await reservations.swap_all(client) if with_reservations else None

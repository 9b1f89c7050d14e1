"""`tollbar status`: the state of Tollbar in a cluster, as far as the API server shows it.

It shows the mode in which the controllers handle claims, what they have detected in the cluster, and how many Pods,
rules and reservations have problems.  It needs the right to read; what it may not read is named and left out.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from tollbar import wellknown
from tollbar.api.reasons import ModeReason, ReservedReason
from tollbar.cli import console
from tollbar.cli.applying import is_of_dev
from tollbar.cli.drain import is_ours
from tollbar.decide.claims import draining, modes
from tollbar.decide.claims.events import ClaimEvent
from tollbar.model import claims, conditions, managers, pods, timestamps
from tollbar.model.objects import Object, annotations_of, key_of, metadata, spec
from tollbar.model.resources import (
    EVENTS,
    LEASES,
    MUTATING_WEBHOOK_CONFIGURATIONS,
    PODS,
    RESOURCE_CLAIMS,
    SCHEDULING_GATES,
    TOLERATION_RULES,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
    WORKLOAD_CLAIMS,
    Resource,
)
from tollbar.model.workloads import intent_of, workload_claim_of
from tollbar.runtime import pager
from tollbar.runtime.client import Client
from tollbar.runtime.clock import Clock, SystemClock
from tollbar.runtime.detection import look_around
from tollbar.runtime.errors import Forbidden, NotFound
from tollbar.runtime.retry import READ

_LEASE: Final = "tollbar-controllers"
_RECENT: Final = 300.0
"""Seconds for which an Event counts: the Event of a lasting problem is repeated every minute."""
_FINE: Final = frozenset(
    {ReservedReason.HELD, ReservedReason.NOT_ALLOCATED, ReservedReason.RELEASED, ReservedReason.WORKLOAD_MISSING}
)
_REPORTED_ANYWAY: Final = frozenset(
    {ModeReason.PERMISSION_DENIED, ModeReason.UPSTREAM_OSCILLATION, ModeReason.UPSTREAM_TOO_OLD}
)
"""Reasons of the leader's condition for which this command has more specific lines."""
_UNREAD: Final = "unknown: the Lease may not be read"
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"
_NAMED: Final = 10
"""The most reservations with a problem that are named."""


@dataclass(frozen=True, slots=True)
class Status:
    """`mode` is empty when no Lease names it, `leader` None without a Lease; `of_dev`: whether `tollbar dev` runs.

    `condition` is the leader's condition about the mode, None when there is none.  `generator` is the field manager
    that made the newest claim of a Pod, empty when there is none.  `untrusted` are the webhook configurations without a
    CA.  `reservations` counts by reason, `unreserved` names those with a problem; `loops` and `refusals` are from
    recent Events.
    """

    server: str
    mode: str
    condition: Object | None
    leader: str | None
    of_dev: bool
    untrusted: tuple[str, ...]
    generator: str
    pod_groups: str
    may_bind: bool | None
    held_pods: int
    rules_not_ready: tuple[str, ...]
    reservations: dict[str, int]
    unreserved: tuple[str, ...]
    loops: tuple[str, ...]
    refusals: tuple[str, ...]


def problems(found: Status) -> list[str]:
    """The problems, each in one line."""
    said = [f"rule {rule}" for rule in found.rules_not_ready]
    said += [f"reservation {each}" for each in found.unreserved[:_NAMED]]
    if len(found.unreserved) > _NAMED:
        said.append(f"{len(found.unreserved) - _NAMED} more reservations like these")
    said += [
        f"the entries of a finished Pod come and go on ResourceClaim {claim}: delete that Pod, or use claims: Replace"
        for claim in found.loops
    ]
    if found.condition is None:
        said += found.refusals
    elif found.condition.get("status") == "False" and found.condition.get("reason") not in _REPORTED_ANYWAY:
        said.append(f"claims: {found.mode}: {found.condition.get('message')}")
    if found.may_bind is False and found.mode != "Disabled":
        said.append("the controllers may not update and patch resourceclaims/binding: no claim can be reserved")
    if found.leader == "":
        said.append("nobody holds the controllers' Lease")
    if found.leader is None and not found.of_dev:
        said.append("no controller has ever led: look at the Pods of the Deployment tollbar-controllers")
    said += [
        f"{each} has no CA bundle, so that its webhook cannot be called: run `tollbar certs --apply`"
        for each in found.untrusted
    ]
    if found.mode == "Complement" and found.generator.startswith(wellknown.FIELD_MANAGER_PREFIX):
        said.append("claims: Complement, but the newest claim of a Pod was made by Tollbar")
    return said


async def gather(client: Client, namespace: str, clock: Clock) -> Status:
    """Raises ApiError when the API server does not answer or nothing may be read, ClickException without Tollbar."""
    if not await READ(client.served, wellknown.API_VERSION):
        raise click.ClickException("Tollbar is not installed in this cluster: tollbar.dev is not served")
    lease = await _lease(client, namespace)
    notes = annotations_of(lease or {})
    configurations = [
        configuration
        for resource in (MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS)
        for configuration in await _list(client, resource)
        if is_ours(configuration)
    ]
    of_dev = any(map(is_of_dev, configurations))
    controllers = _controllers(await _list(client, SCHEDULING_GATES))
    around = await look_around(client, controllers)
    found = await _list(client, RESOURCE_CLAIMS)
    reserved = reservations(await _list(client, WORKLOAD_CLAIMS), found)
    return Status(
        server=around.version,
        mode=notes.get(wellknown.ANNOTATION_CLAIMS, ""),
        condition=modes.read(notes.get(wellknown.ANNOTATION_CLAIMS_CONDITION, "")),
        leader=_UNREAD if lease is None else _leader(lease, clock.now()),
        of_dev=of_dev,
        untrusted=tuple(metadata(each)["name"] for each in configurations if _lacks_authority(each)),
        generator=_generator(found),
        pod_groups=around.pod_groups,
        may_bind=around.may_bind if controllers and not of_dev else None,
        held_pods=len([pod async for pod in _all(client, PODS, "spec.nodeName=") if pods.is_gated(pod)]),
        rules_not_ready=tuple(_not_ready(rule) for rule in await _list(client, TOLERATION_RULES) if _not_ready(rule)),
        reservations=dict(sorted(Counter(each.reason for each in reserved).items())),
        unreserved=tuple(str(each) for each in reserved if each.reason not in _FINE),
        loops=tuple(_regarding(await _recent(client, ClaimEvent.UPSTREAM_OSCILLATION, clock.now()))),
        refusals=tuple(_notes(await _recent(client, ClaimEvent.CLAIMS_NOT_REPLACED, clock.now())) if lease else ()),
    )


@dataclass(frozen=True, slots=True)
class Reservation:
    """One reservation: `name` is `namespace/name` of the WorkloadClaim, or of the annotated ResourceClaim."""

    name: str
    reason: str
    message: str = ""

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.name, self.reason, self.message)))


def reservations(asked: Sequence[Object], found: Sequence[Object]) -> list[Reservation]:
    """The reservations of WorkloadClaims, from their conditions, and of annotated claims, from their status."""
    stand = []
    for each in asked:
        said = conditions.find((each.get("status") or {}).get("conditions"), wellknown.CONDITION_RESERVED) or {}
        reason, message = str(said.get("reason") or "Unknown"), str(said.get("message") or "")
        stand.append(Reservation(str(key_of(each)), reason, message))
    stand += [
        Reservation(str(key_of(claim)), _seen(claim))
        for claim in found
        if intent_of(claim) is not None and not workload_claim_of(claim)
    ]
    return stand


def _seen(claim: Object) -> str:
    if draining.entries_of_ours(claim):
        return ReservedReason.HELD
    return "NotReserved" if claims.allocation(claim) else ReservedReason.NOT_ALLOCATED


def _controllers(gates: Sequence[Object]) -> str:
    """The user name of the controllers' ServiceAccount, an owner of Tollbar's gate; empty when there is none.

    Other users are left out: they may have their rights from groups, which are not known.
    """
    for gate in gates:
        owners = spec(gate).get("owners") or ()
        if spec(gate).get("gateName") == wellknown.GATE:
            return next((str(owner) for owner in owners if str(owner).startswith(_SERVICE_ACCOUNT)), "")
    return ""


def _lacks_authority(configuration: Object) -> bool:
    """Whether one of its webhooks has no CA bundle."""
    return any(not (each.get("clientConfig") or {}).get("caBundle") for each in configuration.get("webhooks") or ())


def _generator(found: Sequence[Object]) -> str:
    """The field manager that made the newest claim that was generated for a Pod."""
    generated = [claim for claim in found if claims.reference_of(claim)]
    newest = max(generated, key=lambda claim: metadata(claim).get("creationTimestamp") or "", default={})
    return managers.creator(newest)


def _not_ready(rule: Object) -> str:
    """The rule's name and why it is not Ready; empty when it is."""
    found = conditions.find((rule.get("status") or {}).get("conditions"), wellknown.CONDITION_READY) or {}
    if found.get("status") == "True":
        return ""
    return f"{key_of(rule).name}: {found.get('reason') or 'not looked at yet'}"


def _leader(lease: Object, now: float) -> str | None:
    """The holder of the Lease; empty when it has expired, None when there is no Lease."""
    if not lease:
        return None
    wanted = spec(lease)
    renewed, lasts = wanted.get("renewTime"), float(wanted.get("leaseDurationSeconds") or 0)
    expired = not renewed or timestamps.parse(str(renewed)) + lasts < now
    return "" if expired else str(wanted.get("holderIdentity") or "")


async def _recent(client: Client, reason: str, now: float) -> list[Object]:
    """The Events with this reason of the last minutes."""
    found = [event async for event in _all(client, EVENTS, f"reason={reason}")]
    return [event for event in found if _last_seen(event) > now - _RECENT]


def _last_seen(event: Object) -> float:
    told = (event.get("series") or {}).get("lastObservedTime") or event.get("eventTime")
    return timestamps.parse(str(told)) if told else 0.0


def _regarding(events: Sequence[Object]) -> list[str]:
    """`namespace/name` of the objects that the Events regard."""
    told = (event.get("regarding") or {} for event in events)
    return sorted({f"{each.get('namespace')}/{each.get('name')}" for each in told})


def _notes(events: Sequence[Object]) -> list[str]:
    return sorted({str(event.get("note")) for event in events})


async def _lease(client: Client, namespace: str) -> Object | None:
    """The controllers' Lease; {} when there is none, None when it may not be read."""
    try:
        found: Object = await READ(client.get, LEASES, _LEASE, namespace)
    except NotFound:
        return {}
    except Forbidden as error:
        console.say(f"left out: {console.explain(error)}")
        return None
    return found


async def _list(client: Client, resource: Resource) -> list[Object]:
    return [obj async for obj in _all(client, resource)]


async def _all(client: Client, resource: Resource, field_selector: str = "") -> AsyncGenerator[Object, None]:
    """Every object; none of a kind that is not served or may not be read."""
    try:
        async for obj in pager.every(client, resource, field_selector=field_selector):
            yield obj
    except NotFound:
        return
    except Forbidden as error:
        console.say(f"left out: {console.explain(error)}")


@click.command("status")
@console.kubeconfig_option
@click.option(
    "--namespace",
    "-n",
    default=wellknown.SYSTEM_NAMESPACE,
    show_default=True,
    metavar="NAME",
    help="Where Tollbar is installed.",
)
@console.output_option
def command(kubeconfig: str | None, namespace: str, output: console.Output) -> None:
    """Say how Tollbar stands in the cluster: mode, surroundings, held Pods, rules, reservations, problems.

    Ends with 1 when there is a problem.
    """
    found = console.run(_main(kubeconfig, namespace))
    said = problems(found)
    console.emit(_rows(found, said), {**_data(found), "problems": said}, output)
    if said:
        raise click.exceptions.Exit(1)


def _data(found: Status) -> dict[str, Any]:
    """The status as JSON has it."""
    return {
        "server": found.server,
        "claims": {
            "mode": found.mode,
            "condition": found.condition,
            "generator": found.generator,
            "podGroups": found.pod_groups,
            "mayBind": found.may_bind,
        },
        "leader": found.leader,
        "heldPods": found.held_pods,
        "rulesNotReady": list(found.rules_not_ready),
        "reservations": found.reservations,
        "loops": list(found.loops),
    }


def _rows(found: Status, said: Sequence[str]) -> list[dict[str, Any]]:
    by_reason = ", ".join(f"{count} {reason}" for reason, count in found.reservations.items())
    rows = {
        "server": found.server,
        "claims": found.mode or "unknown: not in the controllers' Lease",
        "claims fit": _fit(found.condition),
        "claims of Pods made by": found.generator or "nobody yet",
        "PodGroups": found.pod_groups or "not served",
        "resourceclaims/binding": {True: "permitted", False: "not permitted", None: "unknown"}[found.may_bind],
        "leader": _leading(found),
        "held Pods": found.held_pods,
        "rules not ready": len(found.rules_not_ready),
        "reservations": by_reason or "none",
        "loops": len(found.loops),
        **{f"problem {number}": problem for number, problem in enumerate(said, 1)},
    }
    return [{"what": name, "value": value} for name, value in rows.items()]


def _leading(found: Status) -> str:
    if found.leader is None:
        return "no Lease: run by `tollbar dev`" if found.of_dev else "no Lease"
    return found.leader or "none"


def _fit(condition: Object | None) -> str:
    if condition is None:
        return "unknown: not in the controllers' Lease"
    return f"{condition.get('status')}: {condition.get('reason')}"


async def _main(kubeconfig: str | None, namespace: str) -> Status:
    client = await console.connect(kubeconfig, "status")
    try:
        return await gather(client, namespace, SystemClock())
    finally:
        await client.close()

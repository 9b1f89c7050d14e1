"""`tollbar status`: the state of Tollbar in a cluster, as far as the API server and the webhook's address show it.

It shows whether the CRDs are as new as this version, whether the webhook can be called, the gates and the Pods that
they hold, who leads, the mode in which the controllers handle claims, what they have detected in the cluster, and which
rules and reservations have problems.  What the user may not read is shown as unknown, never as 0; the ClusterRole
`tollbar-status` grants all that is read.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import click

import tollbar
from tollbar import wellknown
from tollbar.api.reasons import ModeReason
from tollbar.cli import console
from tollbar.cli.applying import is_of_dev
from tollbar.cli.drain import is_ours
from tollbar.cli.reading import Reading
from tollbar.cli.status import claims, crds, webhook
from tollbar.cli.status.gates import GateStatus, gates_of, read_of
from tollbar.cli.status.quotas import QuotaStatus, status_of
from tollbar.cli.status.webhook import Admission, Configurations, Webhook
from tollbar.decide.claims import modes
from tollbar.gates import registry
from tollbar.model import conditions, pods, timestamps
from tollbar.model.gates import gate_name, released_gates
from tollbar.model.objects import Object, annotations_of, key_of, metadata, spec
from tollbar.model.resources import (
    DEPLOYMENTS,
    LEASES,
    PLACEMENT_RULES,
    POD_QUOTAS,
    PODS,
    RESOURCE_CLAIMS,
    SCHEDULING_GATES,
    TOLERATION_RULES,
    WORKLOAD_CLAIMS,
)
from tollbar.runtime.client import Client
from tollbar.runtime.clock import Clock, SystemClock
from tollbar.runtime.detection import capabilities
from tollbar.runtime.retry import READ

_LEASE: Final = "tollbar-controllers"
_REPORTED_ANYWAY: Final = frozenset(
    {ModeReason.PERMISSION_DENIED, ModeReason.UPSTREAM_OSCILLATION, ModeReason.UPSTREAM_TOO_OLD}
)
"""Reasons of the leader's condition for which this command has more specific lines."""
_UNKNOWN: Final = "unknown"
_UNREAD: Final = "unknown: the Lease may not be read"
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"
_NAMED: Final = 10
"""The most problems of one sort that are named."""
PROBLEMS: Final = 1
"""The exit code when something is wrong."""
UNREAD: Final = 3
"""The exit code when nothing is wrong in what may be read, but not everything may be."""


class NoStatus(click.ClickException):
    """The cluster cannot be asked, or Tollbar is not installed in it."""

    exit_code = 4


@dataclass(frozen=True, slots=True)
class Status:
    """What is None may not be read, but `leader` is None without a Lease, `condition` when the leader says none.

    `parts` are the Deployments, each as text by name; `crds` says what is wrong with the CRDs, a line each.  `mode` is
    empty when no Lease names it.  `of_dev`: whether `tollbar dev` runs.  `condition` is the leader's condition about
    the mode.  `generator` is the field manager that made the newest claim of a Pod, empty when there is none.
    `reservations` counts by reason, `unreserved` names those with a problem; `released` are the gates of classes that
    the leader says it releases, None when it does not say; `loops` and `refusals` are from recent Events.  `unread`
    says what may not be read, a line each.
    """

    now: float
    server: str
    parts: dict[str, str] | None
    crds: tuple[str, ...] | None
    admission: Admission
    gates: tuple[GateStatus, ...] | None
    mode: str
    condition: Object | None
    leader: str | None
    of_dev: bool
    generator: str | None
    pod_groups: str
    may_bind: bool | None
    held_pods: int | None
    rules_not_ready: tuple[str, ...] | None
    placements_not_ready: tuple[str, ...] | None
    quotas: tuple[QuotaStatus, ...] | None
    released: frozenset[str] | None
    reservations: dict[str, int] | None
    unreserved: tuple[str, ...]
    loops: tuple[str, ...] | None
    refusals: tuple[str, ...]
    unread: tuple[str, ...]


def problems(found: Status) -> list[str]:
    """The problems, each in one line."""
    said = [*found.admission.problems(found.now), *(found.crds or ())]
    for gate in found.gates or ():
        said += _bounded(list(gate.problems()), f"more Pods that {gate.gate} holds for too long")
        if found.leader and found.released is not None and gate.owned and gate.held and _is_left(gate, found.released):
            said.append(
                f"{gate.held} Pods are held by {gate.gate}, and the controllers that lead run without its gate class"
            )
    said += [f"rule {rule}" for rule in found.rules_not_ready or ()]
    said += [f"placement rule {rule}" for rule in found.placements_not_ready or ()]
    said += _bounded(
        [f"quota {each.name}: {each.problem}" for each in found.quotas or () if each.problem], "more quotas"
    )
    said += _bounded([f"reservation {each}" for each in found.unreserved], "more reservations like these")
    said += [
        f"the entries of a finished Pod come and go on ResourceClaim {claim}: delete that Pod, or use claims: Replace"
        for claim in found.loops or ()
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
    if found.mode == "Complement" and (found.generator or "").startswith(wellknown.FIELD_MANAGER_PREFIX):
        said.append("claims: Complement, but the newest claim of a Pod was made by Tollbar")
    return said


def _is_left(gate: GateStatus, released: frozenset[str]) -> bool:
    return gate.gate != wellknown.GATE and gate.gate not in released


def exit_code(found: Status) -> int:
    if problems(found):
        return PROBLEMS
    return UNREAD if found.unread else 0


def _bounded(lines: list[str], more: str) -> list[str]:
    return lines if len(lines) <= _NAMED else [*lines[:_NAMED], f"{len(lines) - _NAMED} {more}"]


async def gather(client: Client, namespace: str, clock: Clock) -> Status:
    """Raises ApiError when the API server does not answer or nothing may be read, ClickException without Tollbar."""
    if not await READ(client.served, wellknown.API_VERSION):
        raise click.ClickException("Tollbar is not installed in this cluster: tollbar.dev is not served")
    reading, now = Reading(client), clock.now()
    lease = await reading.get(LEASES, _LEASE, namespace)
    notes = annotations_of(lease or {})
    configurations = await Configurations.read(reading)
    of_dev = any(map(is_of_dev, configurations.all))
    gates = await reading.list(SCHEDULING_GATES)
    classes = await asyncio.to_thread(registry.installed, map(gate_name, gates or ()))
    held = await reading.list(
        PODS, field_selector="spec.nodeName=", keep=lambda pod: bool(pods.gate_names(pod)), project=read_of
    )
    controllers = _controllers(gates or ())
    server = await capabilities(client, controllers)
    rules = await reading.list(TOLERATION_RULES)
    placements = await reading.list(PLACEMENT_RULES)
    quotas = await reading.list(POD_QUOTAS)
    found = await reading.list(RESOURCE_CLAIMS, project=claims.read_of)
    asked = await reading.list(WORKLOAD_CLAIMS)
    reserved = None if found is None or asked is None else claims.reservations(asked, found)
    return Status(
        now=now,
        server=server.version,
        parts=_parts(await reading.list(DEPLOYMENTS, namespace, keep=is_ours)),
        crds=await crds.look(reading),
        admission=await webhook.look(reading, configurations),
        gates=None if gates is None else gates_of(gates, held, now, classes),
        mode=notes.get(wellknown.ANNOTATION_CLAIMS, ""),
        condition=modes.read(notes.get(wellknown.ANNOTATION_CLAIMS_CONDITION, "")),
        leader=_UNREAD if lease is None else _leader(lease, now),
        of_dev=of_dev,
        generator=None if found is None else claims.generator(found),
        pod_groups=server.pod_groups,
        may_bind=server.may_bind if controllers and not of_dev else None,
        held_pods=None if held is None else sum(map(pods.is_gated, held)),
        rules_not_ready=None if rules is None else tuple(filter(None, map(_not_ready, rules))),
        placements_not_ready=None if placements is None else tuple(filter(None, map(_not_ready, placements))),
        quotas=None if quotas is None else tuple(map(status_of, quotas)),
        released=released_gates(notes),
        reservations=None if reserved is None else dict(sorted(Counter(each.reason for each in reserved).items())),
        unreserved=tuple(str(each) for each in reserved or () if not each.is_fine),
        loops=await claims.loops(reading, now),
        refusals=await claims.refusals(reading, now) if lease else (),
        unread=tuple(dict.fromkeys(reading.unread)),
    )


def _controllers(gates: Sequence[Object]) -> str:
    """The user name of the controllers' ServiceAccount, an owner of Tollbar's gate; empty when there is none.

    Other users are left out: they may have their rights from groups, which are not known.
    """
    for gate in gates:
        owners = spec(gate).get("owners") or ()
        if spec(gate).get("gateName") == wellknown.GATE:
            return next((str(owner) for owner in owners if str(owner).startswith(_SERVICE_ACCOUNT)), "")
    return ""


def _parts(deployments: Sequence[Object] | None) -> dict[str, str] | None:
    """Of each Deployment by its name: how many of its Pods are ready, and its image."""
    return None if deployments is None else {metadata(each)["name"]: _part(each) for each in deployments}


def _part(deployment: Object) -> str:
    containers = ((spec(deployment).get("template") or {}).get("spec") or {}).get("containers") or ()
    images = ", ".join(str(container.get("image")) for container in containers)
    ready = (deployment.get("status") or {}).get("readyReplicas") or 0
    return f"{ready} of {spec(deployment).get('replicas', 1)} ready, {images}"


def _not_ready(rule: Object) -> str:
    """The rule's name and why it is not Ready; empty when it is."""
    if conditions.is_true(rule, wellknown.CONDITION_READY):
        return ""
    found = conditions.of(rule, wellknown.CONDITION_READY)
    return f"{key_of(rule).name}: {found.get('reason') or 'not looked at yet'}"


def _leader(lease: Object, now: float) -> str | None:
    """The holder of the Lease; empty when it has expired, None when there is no Lease."""
    if not lease:
        return None
    wanted = spec(lease)
    renewed, lasts = wanted.get("renewTime"), float(wanted.get("leaseDurationSeconds") or 0)
    expired = not renewed or timestamps.parse(str(renewed)) + lasts < now
    return "" if expired else str(wanted.get("holderIdentity") or "")


@click.command("status")
@console.cluster_options
@console.installation_option
@console.output_option
def command(cluster: console.Cluster, namespace: str, output: console.Output) -> None:
    """Show what is wrong with Tollbar in the cluster, if anything is.

    Shows CRDs, the webhook, gates and the Pods that they hold, quotas, the leader, rules, reservations and problems.

    It asks the API server, and makes a TLS handshake with the webhook if its address can be reached from here.  If you
    may create TolerationRules, a dry run also shows whether the API server gets the webhook's answers.

    Exit code 0: nothing is wrong, 1: there are problems, 3: there are no problems in what you may read, but you may not
    read everything, 4: the API server does not answer, or Tollbar is not installed.
    """
    try:
        found = console.run(_main(cluster, namespace))
    except click.ClickException as error:
        raise NoStatus(error.format_message()) from error
    said = problems(found)
    console.emit(_rows(found, said), {**_data(found), "problems": said}, output)
    for line in found.unread:
        console.say(f"may not be read: {line}")
    raise click.exceptions.Exit(exit_code(found))


def _data(found: Status) -> dict[str, Any]:
    """The status as JSON has it; null for what is unknown."""
    return {
        "version": tollbar.__version__,
        "server": found.server,
        "deployments": found.parts,
        "crds": None if found.crds is None else list(found.crds),
        "webhooks": None if found.admission.pods is None else [asdict(each) for each in found.admission.webhooks],
        "webhookCalled": found.admission.called,
        "claims": {
            "mode": found.mode,
            "condition": found.condition,
            "generator": found.generator,
            "podGroups": found.pod_groups,
            "mayBind": found.may_bind,
        },
        "leader": found.leader,
        "gates": None if found.gates is None else [asdict(each) for each in found.gates],
        "heldPods": found.held_pods,
        "rulesNotReady": None if found.rules_not_ready is None else list(found.rules_not_ready),
        "placementRulesNotReady": None if found.placements_not_ready is None else list(found.placements_not_ready),
        "quotas": None if found.quotas is None else [asdict(each) for each in found.quotas],
        "reservations": found.reservations,
        "loops": None if found.loops is None else list(found.loops),
        "unread": list(found.unread),
    }


def _rows(found: Status, said: Sequence[str]) -> list[dict[str, Any]]:
    rows: list[tuple[str, object]] = [
        ("server", found.server),
        ("this command", tollbar.__version__),
        *_several("Deployment", None if found.parts is None else list(found.parts.items())),
        ("CRDs older than this command", _number(found.crds)),
        *_several("webhook", _webhooks(found.admission.pods)),
        *_several("webhook", _webhooks(found.admission.rules)),
        ("answers reach the API server", {True: "yes", False: "no", None: _UNKNOWN}[found.admission.called]),
        ("leader", _leading(found)),
        *_several("gate", None if found.gates is None else [(each.gate, each) for each in found.gates]),
        ("held Pods", _known(found.held_pods)),
        *_several("quota", None if found.quotas is None else [(each.name, each) for each in found.quotas]),
        ("rules not ready", _number(found.rules_not_ready)),
        ("placement rules not ready", _number(found.placements_not_ready)),
        ("claims", found.mode or "unknown: not in the controllers' Lease"),
        ("claims fit", _fit(found.condition)),
        ("claims of Pods made by", "nobody yet" if found.generator == "" else _known(found.generator)),
        ("PodGroups", found.pod_groups or "not served"),
        ("resourceclaims/binding", {True: "permitted", False: "not permitted", None: _UNKNOWN}[found.may_bind]),
        ("reservations", _counted(found.reservations)),
        ("claims written to without end", _number(found.loops)),
        *((f"problem {number}", problem) for number, problem in enumerate(said, 1)),
    ]
    return [{"what": name, "value": value} for name, value in rows]


def _webhooks(found: Sequence[Webhook] | None) -> list[tuple[str, object]] | None:
    return None if found is None else [(each.configuration, each) for each in found]


def _several(what: str, found: list[tuple[str, object]] | None) -> list[tuple[str, object]]:
    """A row for each, one row when there is none."""
    if found is None:
        return [(what, _UNKNOWN)]
    return [(f"{what} {name}", each) for name, each in found] or [(what, "none")]


def _number(found: Sequence[str] | None) -> object:
    return _UNKNOWN if found is None else len(found)


def _known(value: object) -> object:
    return _UNKNOWN if value is None else value


def _counted(by_reason: dict[str, int] | None) -> str:
    if by_reason is None:
        return _UNKNOWN
    return ", ".join(f"{count} {reason}" for reason, count in by_reason.items()) or "none"


def _leading(found: Status) -> str:
    if found.leader is None:
        return "no Lease: run by `tollbar dev`" if found.of_dev else "no Lease"
    return found.leader or "none"


def _fit(condition: Object | None) -> str:
    if condition is None:
        return "unknown: not in the controllers' Lease"
    return f"{condition.get('status')}: {condition.get('reason')}"


async def _main(cluster: console.Cluster, namespace: str) -> Status:
    async with console.connected(cluster, "status") as client:
        return await gather(client, namespace, SystemClock())

"""Whether Replace may work: it has the rights that it needs, and nobody else generates claims.

Called by `controllers.claims.loop` before the controller starts, again and again until both hold, and when somebody
else seems to have begun meanwhile (`controllers.claims.rivals`).  Two generators on one cluster make two claims for a
Pod and overwrite one another's entry in its status; so it is tried out, with a template and a Pod that no scheduler
looks at, whether somebody makes a claim for a Pod while we do not.

Invariants: what the trial creates is deleted, by the next one if need be; a trial that cannot be made counts as a
problem; this process makes no claim for the Pod of its own trial (`is_trial`), but for those of others: they look for
it.

Hazard: a generator that takes longer than `PATIENCE` to serve one Pod is not found.
"""

from contextlib import suppress
from typing import Final, NamedTuple

from tollbar import wellknown
from tollbar.api.reasons import ModeReason
from tollbar.model import managers
from tollbar.model.objects import Object, annotations_of, uid_of
from tollbar.model.resources import POD_GROUPS, PODS, RESOURCE_CLAIM_TEMPLATES
from tollbar.runtime.client import Client
from tollbar.runtime.clock import Clock
from tollbar.runtime.detection import may
from tollbar.runtime.errors import AlreadyExists, ApiError, NotFound
from tollbar.runtime.retry import READ, WRITE

NAME: Final = "tollbar-claims-trial"
"""Of the trial's Pod and template; the Role of the manifests names it."""
_TRIAL: Final = f"{wellknown.GROUP}/claims-trial"
"""The gate that holds the trial's Pod, and the annotation that says whose it is."""
PATIENCE: Final = 5.0
_POLL: Final = 0.25
_DRA: Final = "resource.k8s.io"

RIGHTS: Final = (
    (_DRA, "resourceclaims", ("get", "list", "watch", "create", "delete", "patch")),
    (_DRA, "resourceclaims/status", ("update", "patch")),
    (_DRA, "resourceclaims/binding", ("update", "patch")),
    (_DRA, "resourceclaimtemplates", ("list", "watch")),
    ("", "pods", ("get", "list", "watch")),
    ("", "pods/status", ("patch",)),
    (POD_GROUPS.group, "podgroups", ("get", "list", "watch")),
    (POD_GROUPS.group, "podgroups/status", ("patch",)),
)
"""What Replace does on the whole cluster: (group, resource, verbs).  `resourceclaims/binding` is no resource but what
the API server asks about from 1.36 on, when allocation or reservedFor change."""


class Problem(NamedTuple):
    """What speaks against Replace: the reason of a condition, and a sentence for a person."""

    reason: str
    message: str


async def problem(client: Client, namespace: str, clock: Clock, instance: str, *, trial: bool = True) -> Problem | None:
    """What speaks against Replace; None when nothing does.  Without a trial the rights are asked for alone, and what
    one that was killed has left is deleted.

    `namespace` is Tollbar's own; where there is none (`tollbar dev`), the trial is made in `default`.  `instance` names
    this process.
    """
    missing = await _missing_rights(client)
    if missing:
        why = f"missing rights: {', '.join(missing)}; the component claims-replace of the manifests grants them"
        return Problem(ModeReason.MISSING_RIGHTS, why)
    if not trial:
        with suppress(ApiError):  # there is none; or it stays, and does no harm
            await READ(client.get, PODS, NAME, namespace)
            await _clean_up(client, namespace)
        return None
    try:
        manager = await _tried(client, namespace, clock, instance)
    except ApiError as error:
        return Problem(ModeReason.NOT_TRIED, f"cannot try out whether somebody else generates claims: {error}")
    if manager is None:
        return None
    why = (
        f"field manager {manager} generates ResourceClaims already: "
        "run kube-controller-manager with --controllers=*,-resourceclaim-controller"
    )
    return Problem(ModeReason.ANOTHER_GENERATOR, why)


def is_trial(pod: Object, instance: str) -> bool:
    """Whether that is the Pod of a trial of this process; caches may show it for a while after its end."""
    return annotations_of(pod).get(_TRIAL) == instance


async def _missing_rights(client: Client) -> list[str]:
    """Those of `RIGHTS` that the API server does not grant us: `verb resource.group`."""
    return [
        f"{verb} {path}.{group}" if group else f"{verb} {path}"
        for group, path, verbs in RIGHTS
        for verb in verbs
        if not await may(client, verb, group, *path.split("/"))
    ]


async def _tried(client: Client, namespace: str, clock: Clock, instance: str) -> str | None:
    try:
        return await _other_generator(client, namespace, clock, instance)
    except NotFound:
        return await _other_generator(client, "default", clock, instance)


async def _other_generator(client: Client, namespace: str, clock: Clock, instance: str) -> str | None:
    """The field manager that records a claim in the trial Pod's status; None when nobody does in time."""
    await _clean_up(client, namespace)
    try:
        await WRITE(client.create, RESOURCE_CLAIM_TEMPLATES, _template(namespace))
        with suppress(AlreadyExists):
            await WRITE(client.create, PODS, _pod(namespace, instance))
        deadline = clock.monotonic() + PATIENCE
        while clock.monotonic() < deadline:
            pod: Object = await READ(client.get, PODS, NAME, namespace)
            if (pod.get("status") or {}).get("resourceClaimStatuses"):
                return managers.status_writer(pod, "resourceClaimStatuses") or "unknown"
            await clock.sleep(_POLL)
        return None
    finally:
        await _clean_up(client, namespace)


async def _clean_up(client: Client, namespace: str) -> None:
    """The claim that somebody made goes with the Pod, by the garbage collector."""
    with suppress(NotFound):
        pod: Object = await READ(client.get, PODS, NAME, namespace)
        await WRITE(client.delete, PODS, NAME, namespace, uid=uid_of(pod), grace_period_seconds=0)
    with suppress(NotFound):
        await WRITE(client.delete, RESOURCE_CLAIM_TEMPLATES, NAME, namespace)


def _template(namespace: str) -> Object:
    return {
        "apiVersion": RESOURCE_CLAIM_TEMPLATES.api_version,
        "kind": RESOURCE_CLAIM_TEMPLATES.kind,
        "metadata": {"namespace": namespace, "name": NAME, "labels": _LABELS},
        "spec": {
            "spec": {
                "devices": {"requests": [{"name": "trial", "exactly": {"deviceClassName": "trial.tollbar.dev"}}]},
            }
        },
    }


def _pod(namespace: str, instance: str) -> Object:
    """Held for ever by a gate that nobody removes, and fit for a namespace of the restricted Pod Security level."""
    closed = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return {
        "apiVersion": PODS.api_version,
        "kind": PODS.kind,
        "metadata": {
            "namespace": namespace,
            "name": NAME,
            "labels": {**_LABELS, wellknown.LABEL_SKIP: "true"},
            "annotations": {_TRIAL: instance},
        },
        "spec": {
            "schedulingGates": [{"name": _TRIAL}],
            "resourceClaims": [{"name": "trial", "resourceClaimTemplateName": NAME}],
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "never-started", "image": "none.invalid/none", "securityContext": closed}],
        },
    }


_LABELS: Final = {"app.kubernetes.io/name": "tollbar", "app.kubernetes.io/component": "claims-trial"}

"""Checks whether Replace may work: it has the permissions that it needs, and nobody else generates claims.

Two generators on one cluster create two claims for a Pod and overwrite one another's entry in its status.  So a probe
creates a template and a gated Pod, and checks whether somebody generates a claim for it.

Invariants: what a probe creates is deleted, by the next probe if this one is killed, or is cancelled while the API
server does not answer; a probe that fails counts as a problem; this process generates no claim for the Pod of its own
probe (`is_probe`), but does for the probes of others, which have to find it.

Hazard: a generator that takes longer than `TIMEOUT` for one Pod is not found.
"""

import asyncio
from contextlib import suppress
from typing import Final

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
from tollbar.views.takeover import Problem

NAME: Final = "tollbar-claims-trial"
"""Name of the probe's Pod and template; the Role in the manifests has it too."""
_PROBE: Final = f"{wellknown.GROUP}/claims-trial"
"""The gate of the probe's Pod, and the annotation with the instance that created it."""
TIMEOUT: Final = 5.0
_POLL: Final = 0.25
_PARTING: Final = 1.0
"""Seconds in which a probe that is cancelled deletes what it has created: whoever loses the lease has to stop soon."""
_DRA: Final = "resource.k8s.io"

RIGHTS: Final = (
    (_DRA, "resourceclaims", ("get", "list", "watch", "create", "delete", "patch")),
    (_DRA, "resourceclaims/status", ("update", "patch")),
    (_DRA, "resourceclaims/binding", ("update", "patch")),
    (_DRA, "resourceclaimtemplates", ("get", "list", "watch")),
    ("", "pods", ("get", "list", "watch")),
    ("", "pods/status", ("patch",)),
    (POD_GROUPS.group, "podgroups", ("get", "list", "watch")),
    (POD_GROUPS.group, "podgroups/status", ("patch",)),
)
"""The cluster-wide permissions that Replace needs: (group, resource, verbs).  The API server checks
`resourceclaims/binding`, which is no real subresource, from 1.36 on when allocation or reservedFor change."""


async def problem(
    client: Client, namespace: str, clock: Clock, instance: str, *, with_pod: bool = True
) -> Problem | None:
    """Why Replace must not work; None when it may.  Without `with_pod` no probe is made: only the permissions are
    checked, and what a killed probe has left is deleted.

    `namespace` is Tollbar's own; where it does not exist (`tollbar dev`), the probe is made in `default`.  `instance`
    names this process.
    """
    missing = await _missing_rights(client)
    if missing:
        why = f"missing rights: {', '.join(missing)}; the component claims-replace of the manifests grants them"
        return Problem(ModeReason.MISSING_RIGHTS, why)
    if not with_pod:
        with suppress(ApiError):  # nothing was left, or it stays without doing harm
            await READ(client.get, PODS, NAME, namespace)
            await _clean_up(client, namespace)
        return None
    try:
        manager = await _probe(client, namespace, clock, instance)
    except ApiError as error:
        return Problem(ModeReason.NOT_TRIED, f"cannot try out whether somebody else generates claims: {error}")
    if manager is None:
        return None
    why = (
        f"field manager {manager} generates ResourceClaims already: "
        "run kube-controller-manager with --controllers=*,-resourceclaim-controller"
    )
    return Problem(ModeReason.ANOTHER_GENERATOR, why)


def is_probe(pod: Object, instance: str) -> bool:
    """Whether this is the Pod of a probe of this process; caches may still show it after its deletion."""
    return annotations_of(pod).get(_PROBE) == instance


async def _missing_rights(client: Client) -> list[str]:
    """Those of `RIGHTS` that this process does not have, as `verb resource.group`."""
    return [
        f"{verb} {path}.{group}" if group else f"{verb} {path}"
        for group, path, verbs in RIGHTS
        for verb in verbs
        if not await may(client, verb, group, *path.split("/"))
    ]


async def _probe(client: Client, namespace: str, clock: Clock, instance: str) -> str | None:
    try:
        return await _other_generator(client, namespace, clock, instance)
    except NotFound:
        return await _other_generator(client, "default", clock, instance)


async def _other_generator(client: Client, namespace: str, clock: Clock, instance: str) -> str | None:
    """The field manager that records a claim in the status of the probe's Pod; None when nobody does in time."""
    await _clean_up(client, namespace)
    try:
        found = await _generator_of_probe(client, namespace, clock, instance)
    except asyncio.CancelledError:
        with suppress(ApiError, TimeoutError):
            async with asyncio.timeout(_PARTING):
                await _clean_up(client, namespace)
        raise
    except ApiError:
        await _clean_up(client, namespace)
        raise
    await _clean_up(client, namespace)
    return found


async def _generator_of_probe(client: Client, namespace: str, clock: Clock, instance: str) -> str | None:
    await WRITE(client.create, RESOURCE_CLAIM_TEMPLATES, _template(namespace))
    with suppress(AlreadyExists):
        await WRITE(client.create, PODS, _pod(namespace, instance))
    deadline = clock.monotonic() + TIMEOUT
    while clock.monotonic() < deadline:
        pod: Object = await READ(client.get, PODS, NAME, namespace)
        if (pod.get("status") or {}).get("resourceClaimStatuses"):
            return managers.status_writer(pod, "resourceClaimStatuses") or "unknown"
        await clock.sleep(_POLL)
    return None


async def _clean_up(client: Client, namespace: str) -> None:
    """Delete the Pod and the template; the garbage collector deletes a claim that somebody generated."""
    with suppress(NotFound):
        pod: Object = await READ(client.get, PODS, NAME, namespace)
        await WRITE(client.delete, PODS, NAME, namespace, uid=uid_of(pod), grace_period_seconds=0)
    with suppress(NotFound):
        await WRITE(client.delete, RESOURCE_CLAIM_TEMPLATES, NAME, namespace)


def _template(namespace: str) -> Object:
    return {
        **RESOURCE_CLAIM_TEMPLATES.type_meta,
        "metadata": {"namespace": namespace, "name": NAME, "labels": _LABELS},
        "spec": {
            "spec": {
                "devices": {"requests": [{"name": "trial", "exactly": {"deviceClassName": "trial.tollbar.dev"}}]},
            }
        },
    }


def _pod(namespace: str, instance: str) -> Object:
    """Has a gate that nobody removes, and meets the restricted Pod Security standard."""
    closed = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return {
        **PODS.type_meta,
        "metadata": {
            "namespace": namespace,
            "name": NAME,
            "labels": {**_LABELS, wellknown.LABEL_SKIP: "true"},
            "annotations": {_PROBE: instance},
        },
        "spec": {
            "schedulingGates": [{"name": _PROBE}],
            "resourceClaims": [{"name": "trial", "resourceClaimTemplateName": NAME}],
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "never-started", "image": "none.invalid/none", "securityContext": closed}],
        },
    }


_LABELS: Final = {"app.kubernetes.io/name": "tollbar", "app.kubernetes.io/component": "claims-trial"}

"""The next chapters of `tollbar demo`: ResourceClaims, from the template to their end.

The same where Tollbar makes the claims itself (`claims: Replace`, on the embedded control plane) and where
kube-controller-manager does (`Complement`): who made a claim is read from its managedFields.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from tollbar.cli.demo.stage import (
    NAMESPACE,
    NOTEBOOKS,
    RESERVED,
    SECONDS,
    Stage,
    apply,
    delete,
    expect,
    followed,
    is_bound,
    is_running,
    node_of,
    refusal,
)
from tollbar.cli.waiting import Selection, Wanted, is_gone, milestones, served
from tollbar.model import claims, managers
from tollbar.model.objects import Key, Object, controller_of, key_of, spec, uid_of
from tollbar.model.resources import PODS, RESOURCE_CLAIMS

_KEPT: Final = "analysis-gpu"
_UPSTREAM: Final = "kube-controller-manager"
_NO_DEVICE: Final = "cannot allocate all claims"
"""Part of kube-scheduler's text."""


async def made_and_allocated(stage: Stage) -> None:
    stage.tell.chapter("Pods A and B each need a ResourceClaim")
    if stage.replacing:
        stage.tell.line(
            f"Here is no {_UPSTREAM} to make it: Tollbar takes its place (claims: Replace), when it has seen for five"
            " seconds that nobody else does."
        )
    else:
        stage.tell.line(f"Here {_UPSTREAM} makes it, and Tollbar leaves that to it (claims: Complement).")
    for name in ("pod-a", "pod-b"):
        with stage.tell.waiting(f"{name} waits for its claim"):
            pod = await _settled(stage, name, {"bound": is_bound, "running": is_running})
        claim = await _claim_of(stage, pod)
        owner = controller_of(claim) or {}
        expect(owner.get("uid") == uid_of(pod), f"claim {key_of(claim).name} does not belong to {name}")
        [reference] = spec(pod)["resourceClaims"]
        template = reference["resourceClaimTemplateName"]
        stage.tell.proof(f"{name}: claim {key_of(claim).name}, made from template {template} by {_maker(stage, claim)}")
        expect(claims.is_reserved_for(claim, pod), f"claim {key_of(claim).name} is not reserved for {name}")
        stage.tell.proof(
            f"the scheduler gave it device {_device(claim)}, reserved it for the Pod,"
            f" and bound the Pod to node {node_of(pod, RESERVED)}"
        )


async def freed_with_its_pod(stage: Stage) -> None:
    stage.tell.chapter("A generated claim ends with its Pod")
    claim = await _claim_of(stage, await _settled(stage, "pod-a", {"running": is_running}))
    stage.tell.deleted("pod-a.yaml")
    seconds = await _freed(stage, key_of(claim).name, "pod-a.yaml", _FREED | {"gone": is_gone})
    stage.tell.proof(f"device {_device(claim)} is free: reservation and allocation are gone", seconds["deallocated"])
    stage.tell.proof(f"and so is claim {key_of(claim).name}", seconds["gone"])
    await _settled(stage, "pod-a", {"gone": is_gone})


async def kept_by_its_workload(stage: Stage) -> None:
    stage.tell.chapter("Notebook analysis keeps its device while its Pod is away")
    stage.tell.line(
        "A WorkloadClaim asks for that.  Its workload is of any kind that the cluster serves: a Deployment, a Job, or"
        " one that is defined here and now."
    )
    stage.tell.applied("notebook/definition.yaml", "notebook/notebook.yaml", "notebook/pod.yaml")
    await apply(stage, "notebook/definition.yaml")
    await served(stage.client, NOTEBOOKS, timeout=SECONDS)

    async def applied() -> None:
        await apply(stage, "notebook/notebook.yaml")
        await apply(stage, "notebook/pod.yaml")

    claim = await _used_by(stage, applied, "notebooks", "pods")
    device = _device(claim)
    stage.tell.proof(f"claim {_KEPT} has device {device}, and is reserved for the Pod and for the Notebook:")
    stage.tell.quote(*_consumers(claim))
    await _settled(stage, "analysis", {"running": is_running})
    stage.tell.deleted("notebook/pod.yaml")
    claim = await _used_by(stage, partial(delete, stage, "notebook/pod.yaml"), "notebooks")
    expect(_device(claim) == device, "the claim has another device")
    stage.tell.proof(f"the Pod is gone; the Notebook keeps the claim, and device {device}:")
    stage.tell.quote(*_consumers(claim))


async def freed_with_its_workload(stage: Stage) -> None:
    stage.tell.chapter("Until the Notebook is deleted")
    stage.tell.applied("pod-a.yaml")
    refused: dict[str, Wanted] = {"refused": lambda found: _NO_DEVICE in refusal(found)}
    _, pod, _ = await followed(stage, PODS, "pod-a", refused, partial(apply, stage, "pod-a.yaml"))
    stage.tell.proof(f"Pod A comes back, and finds no device: {refusal(pod).partition('. ')[0]}")
    stage.tell.deleted("notebook/notebook.yaml")
    steps = {"bound": is_bound, "running": is_running}
    wanted = _FREED | {"gone": is_gone} if stage.replacing else _FREED
    end = partial(_freed, stage, _KEPT, "notebook/notebook.yaml", wanted)
    freed, pod, seconds = await followed(stage, PODS, "pod-a", steps, end)
    stage.tell.proof(f"claim {_KEPT} is deallocated with its last reservation", freed["deallocated"])
    if "gone" in freed:
        stage.tell.proof("and gone with the WorkloadClaim that it was made for", freed["gone"])
    else:
        stage.tell.line(f"(It goes, too, when {_UPSTREAM} looks for new kinds of owners: every 30 seconds.)")
    claim = await _claim_of(stage, pod)
    stage.tell.proof(
        f"Pod A runs on node {node_of(pod, RESERVED)}, with device {_device(claim)} and a new claim,"
        f" {key_of(claim).name}",
        seconds["bound"],
    )


CHAPTERS: Final = (made_and_allocated, freed_with_its_pod, kept_by_its_workload, freed_with_its_workload)


async def _settled(stage: Stage, pod: str, steps: dict[str, Wanted]) -> Object:
    """The Pod when it has come that far."""
    selection = Selection.named(PODS, Key(NAMESPACE, pod))
    found, _ = await milestones(stage.client, selection, steps, timeout=SECONDS)
    return found or {}


async def _claim_of(stage: Stage, pod: Object) -> Object:
    """The only claim of a Pod, by what its status records."""
    [status] = pod["status"]["resourceClaimStatuses"]
    return await stage.client.get(RESOURCE_CLAIMS, status["resourceClaimName"], NAMESPACE)


_FREED: Final[dict[str, Wanted]] = {
    "deallocated": lambda found: found is None or not (claims.allocation(found) or claims.reserved_for(found))
}


async def _freed(stage: Stage, claim: str, file: str, steps: Mapping[str, Wanted]) -> dict[str, float]:
    """Delete a file's objects; the seconds until the claim has gone through these steps."""
    _, _, seconds = await followed(stage, RESOURCE_CLAIMS, claim, steps, partial(delete, stage, file))
    return seconds


async def _used_by(stage: Stage, act: Callable[[], Awaitable[None]], *consumers: str) -> Object:
    """Do something, and wait until the Notebook's claim is allocated and reserved for exactly these."""

    def wanted(claim: Object | None) -> bool:
        entries = claims.reserved_for(claim or {})
        return bool(claims.allocation(claim or {})) and sorted(each["resource"] for each in entries) == [*consumers]

    what = f"claim {_KEPT} reserved for {' and '.join(consumers)}"
    _, claim, _ = await followed(stage, RESOURCE_CLAIMS, _KEPT, {what: wanted}, act)
    return claim


def _maker(stage: Stage, claim: Object) -> str:
    """The field manager that created the claim."""
    wanted, maker = "tollbar-controllers" if stage.replacing else _UPSTREAM, managers.creator(claim)
    expect(maker == wanted, f"claim {key_of(claim).name} was made by {maker}, not by {wanted}")
    return maker


def _device(claim: Object) -> str:
    [result] = claim["status"]["allocation"]["devices"]["results"]
    return str(result["device"])


def _consumers(claim: Object) -> list[str]:
    """The entries of `status.reservedFor` as one would name them to kubectl."""
    return sorted(
        f"{'.'.join(filter(None, (entry['resource'], entry.get('apiGroup'))))}/{entry['name']}"
        for entry in claims.reserved_for(claim)
    )

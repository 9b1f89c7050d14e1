"""What may happen to claims, each by a name and plain arguments: the vocabulary of random scenarios.

A claim is given by its name, or as `web.gpu`: the one that the status of the Pod (or PodGroup) web has for its entry
gpu.  A consumer is `pod:NAME` or `group:NAME`, `earlier:NAME` for a Pod of that name that was there before, `never` for
one that was not, `deployment` for one that is no Pod.  Where there is no such thing, nothing happens.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from parity.dsl import EXTENDED, NODE, POD_CLAIM, POD_GROUPS, World, a_deployment, asking, entry_of, owned_by
from parity.fences import FINALIZER
from tollbar.model import claims
from tollbar.model.objects import Object, metadata
from tollbar.model.pods import is_done, is_terminal
from tollbar.model.resources import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from tollbar.runtime.errors import ApiError

HOLD: Final = "example.com/hold"
"""A finalizer of somebody else's."""
_WANTS: Final = {"example.com/gpu": "1"}
_CONTAINER: Final = {"name": "main", "image": "example.com/app", "resources": {"limits": _WANTS, "requests": _WANTS}}
_GROUP: Final = "scheduling.k8s.io"
_KINDS: Final = {"pod": ("Pod", "pods", ""), "group": ("PodGroup", "podgroups", _GROUP)}


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that somebody does."""

    name: str
    arguments: Mapping[str, Any]

    def __str__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.name}({given})"

    async def play(self, world: World) -> None:
        """What the API server refuses is noted: it has to refuse it on both sides."""
        try:
            await ACTS[self.name](world, **self.arguments)
        except ApiError as error:
            world.in_vain.append(f"{self}: {type(error).__name__}")


def act(name: str, /, **arguments: Any) -> Act:
    return Act(name, arguments)


def _claim(w: World, reference: str) -> str:
    """Its name, "" without."""
    consumer, dot, own = reference.partition(".")
    if not dot:
        return reference
    return w.claim_of(consumer, own) or w.claim_of(consumer, own, kind="PodGroup")


def _entry(w: World, consumer: str) -> Object | None:
    kind, _, name = consumer.partition(":")
    match kind:
        case "deployment":
            return a_deployment()
        case "never":
            return {"resource": "pods", "name": "never", "uid": "5f1a7b62-0000-4000-8000-000000000002"}
        case "earlier":
            pods = [each.object for each in w.recorder.changes[w.namespace] if each.kind == "Pod" and each.deleted]
            found = next((pod for pod in pods if metadata(pod)["name"] == name), None)
            return found and entry_of(found)
        case _:
            of, resource, group = _KINDS[kind]
            there = w.get(of, name)
            return there and entry_of(there, resource, group)


async def _template(w: World, name: str, form: str) -> None:
    given: Mapping[str, Any] = {"labels": {"team": "a"}, "annotations": {"example.com/note": "x", POD_CLAIM: "no"}}
    spec = asking(admin=form == "admin", first_available=form == "list")
    meta = given if form == "labels" else {}
    body = {"metadata": {"name": name, "namespace": w.namespace}, "spec": {"metadata": meta, "spec": spec}}
    await w.client.create(RESOURCE_CLAIM_TEMPLATES, body)


async def _drop_template(w: World, name: str) -> None:
    await w.delete(RESOURCE_CLAIM_TEMPLATES, name)


async def _pod(
    w: World,
    name: str,
    templates: Mapping[str, str],
    by_name: Mapping[str, str],
    group: str = "",
    *,
    bound: bool = False,
    gated: bool = False,
    held: bool = False,
) -> None:
    await w.pod(
        name,
        templates=templates,
        claims=by_name,
        gates=("example.com/wait",) if gated else (),
        group=group,
        spec={"containers": [_CONTAINER], **({"nodeName": NODE} if bound else {})},
        **({"finalizers": [HOLD]} if held else {}),
    )


async def _phase(w: World, pod: str, phase: str) -> None:
    """A finished Pod never runs again."""
    if not is_terminal(w.get("Pod", pod) or {}):
        await w.phase(phase, pod)


async def _let_go(w: World, pod: str) -> None:
    await w.patch(PODS, pod, {"metadata": {"finalizers": None}})


async def _touch(w: World, pod: str) -> None:
    """A change that both controllers look at: ours does not at labels."""
    status = (w.get("Pod", pod) or {}).get("status") or {}
    await _phase(w, pod, "Pending" if status.get("phase") == "Unknown" else "Unknown")


async def _record(w: World, pod: str, own: str, claim: str) -> None:
    """In the status, in the place of what is there; "" is a claim that is not needed."""
    await w.record(pod, **{own: _claim(w, claim)})


async def _forget(w: World, pod: str) -> None:
    await w.patch(PODS, pod, {"status": {"resourceClaimStatuses": None}}, "status")


async def _by_hand(
    w: World, name: str, owner: str = "", annotation: str = "", *, controls: bool = True, held: bool = False
) -> None:
    """A claim of a name; `owner` is a Pod, `annotation` the entry that it says to be made for."""
    pod = w.get("Pod", owner)
    meta: dict[str, Any] = {"annotations": {POD_CLAIM: annotation}} if annotation else {}
    if pod is not None:
        meta["ownerReferences"] = [{**each, "controller": controls} for each in owned_by(pod)]
    if pod is None and owner:
        return
    await w.claim(name, **meta, **({"finalizers": [HOLD]} if held else {}))
    if pod is not None:  # or when it is found is by chance
        await w.known()
        await _touch(w, owner)


async def _protect(w: World, claim: str) -> None:
    """The controller knows, or it might do something about it before or after what comes next."""
    if name := _claim(w, claim):
        there = w.get("ResourceClaim", name) or {"metadata": {}}
        kept = [each for each in metadata(there).get("finalizers", ()) if each != FINALIZER]
        await w.patch(RESOURCE_CLAIMS, name, {"metadata": {"finalizers": [*kept, FINALIZER]}})
        await w.known()


async def _allocate(w: World, claim: str, consumers: list[str], *, protect: bool = False) -> None:
    if protect:
        await _protect(w, claim)
    entries = [found for each in consumers if (found := _entry(w, each))]
    if name := _claim(w, claim):
        await w.allocate(name, *entries)


async def _reserve(w: World, claim: str, consumer: str) -> None:
    entry = _entry(w, consumer)
    if entry is not None and (name := _claim(w, claim)):
        entries = [*((w.get("ResourceClaim", name) or {}).get("status") or {}).get("reservedFor", ()), entry]
        if len({each["uid"] for each in entries}) == len(entries):
            await w.patch(RESOURCE_CLAIMS, name, {"status": {"reservedFor": entries}}, "status")


async def _schedule(w: World, pod: str) -> None:
    """What kube-scheduler and the kubelet do, for the Pod's claims that exist."""
    there = w.get("Pod", pod)
    if there is None or there["spec"].get("nodeName") or is_terminal(there):
        return
    for name in sorted(claims.names_of(there)):
        if w.get("ResourceClaim", name) is None:
            continue
        if w.is_allocated(name):
            await _reserve(w, name, f"pod:{pod}")
        else:
            await _allocate(w, name, [f"pod:{pod}"], protect=True)
    await w.bind(pod)
    await w.phase("Running", pod)


async def _unreserve(w: World, claim: str) -> None:
    if name := _claim(w, claim):
        await w.patch(RESOURCE_CLAIMS, name, {"status": {"reservedFor": None}}, "status")


async def _delete_claim(w: World, claim: str) -> None:
    if name := _claim(w, claim):
        await w.delete_claim(name)


async def _let_go_claim(w: World, claim: str) -> None:
    if name := _claim(w, claim):
        there = w.get("ResourceClaim", name) or {"metadata": {}}
        kept = [each for each in metadata(there).get("finalizers", ()) if each != HOLD]
        await w.patch(RESOURCE_CLAIMS, name, {"metadata": {"finalizers": kept or None}})


async def _extended(w: World, pod: str) -> None:
    """kube-scheduler makes a claim for extended resources of this Pod, which is bound then."""
    there = w.get("Pod", pod)
    if there is None or is_done(there):
        return
    generated = {"generateName": f"{pod}-extended-resources-", "annotations": {EXTENDED: "true"}}
    claim = await w.claim(**generated, ownerReferences=owned_by(there))
    await w.protect(claim)
    await w.allocate(claim, entry_of(there))
    mapping = {"containerName": "main", "resourceName": "example.com/gpu", "requestName": "gpu"}
    status = {"resourceClaimName": claim, "requestMappings": [mapping]}
    await w.patch(PODS, pod, {"status": {"extendedResourceClaimStatus": status}}, "status")


async def _group(w: World, name: str, templates: Mapping[str, str], by_name: Mapping[str, str]) -> None:
    await w.pod_group(name, templates=templates, claims=by_name)


async def _touch_group(w: World, name: str, label: str) -> None:
    await w.patch(POD_GROUPS, name, {"metadata": {"labels": {"touched": label}}})


async def _record_group(w: World, name: str, own: str, claim: str) -> None:
    found = _claim(w, claim)
    entry = {"name": own, **({"resourceClaimName": found} if found else {})}
    await w.patch(POD_GROUPS, name, {"status": {"resourceClaimStatuses": [entry]}}, "status")


async def _delete_group(w: World, name: str) -> None:
    await w.delete(POD_GROUPS, name)


ACTS: Final[Mapping[str, Callable[..., Awaitable[None]]]] = {
    "template": _template,
    "drop template": _drop_template,
    "pod": _pod,
    "bind": lambda w, pod: w.bind(pod),
    "phase": _phase,
    "terminate": lambda w, pod: w.terminate(pod),
    "remove": lambda w, pod: w.remove(pod),
    "let go": _let_go,
    "touch": _touch,
    "record": _record,
    "forget": _forget,
    "claim": _by_hand,
    "protect": _protect,
    "allocate": _allocate,
    "reserve": _reserve,
    "schedule": _schedule,
    "unreserve": _unreserve,
    "delete claim": _delete_claim,
    "let go of claim": _let_go_claim,
    "extended": _extended,
    "group": _group,
    "touch group": _touch_group,
    "record group": _record_group,
    "delete group": _delete_group,
}

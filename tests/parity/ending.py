"""Scenarios of Pods that end: deleted, finished, failed, replaced; claims for extended resources among theirs."""

from parity.dsl import (
    EXTENDED,
    GPU,
    NODE,
    World,
    entry_of,
    owned_by,
    scenario,
)
from tollbar.model.resources import PODS, RESOURCE_CLAIMS

# The end of Pods.


@scenario("a Pod that was never scheduled is deleted")
async def pending_deleted(w: World) -> None:
    await w.template()
    await w.pod(templates=GPU)
    await w.named()
    claim = w.claim_of()
    await w.remove()
    await w.gone("ResourceClaim", claim)


@scenario("a running Pod is deleted: its claim is freed and goes")
async def running_deleted(w: World) -> None:
    await w.template()
    pod = await w.pod(templates=GPU)
    await w.named()
    claim = w.claim_of()
    await w.schedule(pod, claim)
    await w.terminate()
    await w.quiet()
    await w.remove()
    await w.gone("ResourceClaim", claim)


@scenario("a finished Pod that lingers gives up its generated claim")
async def finished(w: World) -> None:
    await w.template()
    pod = await w.pod(templates=GPU)
    await w.named()
    claim = w.claim_of()
    await w.schedule(pod, claim)
    await w.quiet()
    await w.finish()
    await w.gone("ResourceClaim", claim)


@scenario("a failed Pod that lingers gives up its generated claim")
async def failed(w: World) -> None:
    await w.template()
    pod = await w.pod(templates=GPU)
    await w.named()
    claim = w.claim_of()
    await w.schedule(pod, claim)
    await w.phase("Failed")
    await w.gone("ResourceClaim", claim)


@scenario("a Pod that finishes without ever having its claim allocated")
async def finished_unallocated(w: World) -> None:
    await w.template()
    await w.pod(templates=GPU, spec={"nodeName": NODE})
    await w.named()
    claim = w.claim_of()
    await w.finish()
    await w.gone("ResourceClaim", claim)


@scenario("a template comes when its Pod has finished")
async def finished_before_template(w: World) -> None:
    await w.pod(templates=GPU, spec={"nodeName": NODE})
    await w.quiet()
    await w.finish()
    await w.quiet()
    await w.template()
    await w.quiet()


@scenario("a finished Pod frees the claim that it names")
async def finished_by_name(w: World) -> None:
    await w.claim("shared")
    pod = await w.pod(claims={"gpu": "shared"})
    await w.schedule(pod, "shared")
    await w.quiet()
    await w.finish()
    await w.freed("shared")


@scenario("of two Pods that share a claim one is deleted, then the other")
async def shared_deleted(w: World) -> None:
    await w.claim("shared")
    for name in ("first", "second"):
        await w.schedule(await w.pod(name, claims={"gpu": "shared"}), "shared")
    await w.remove("first")
    await w.until("one is left", lambda: w.reserved("shared") == ["second"])
    await w.quiet()
    await w.remove("second")
    await w.freed("shared")


@scenario("a consumer is added while another one goes")
async def added_meanwhile(w: World) -> None:
    await w.claim("shared")
    await w.schedule(await w.pod("first", claims={"gpu": "shared"}), "shared")
    second = await w.pod("second", claims={"gpu": "shared"})
    await w.reserve("shared", entry_of(second))
    await w.remove("first")
    await w.bind("second")
    await w.until("one is left", lambda: w.reserved("shared") == ["second"])


@scenario("a bound Pod that is being deleted keeps its claim until it is gone")
async def terminating(w: World) -> None:
    await w.claim("shared")
    await w.schedule(await w.pod(claims={"gpu": "shared"}), "shared")
    await w.terminate()
    await w.quiet()
    assert w.reserved("shared") == ["web"]
    await w.remove()
    await w.freed("shared")


@scenario("a Pod that is being deleted without a node needs its claim no more")
async def terminating_unbound(w: World) -> None:
    await w.claim("shared")
    pod = await w.pod(claims={"gpu": "shared"}, finalizers=["example.com/hold"])
    await w.protect("shared")
    await w.allocate("shared", entry_of(pod))
    await w.remove()
    await w.freed("shared")
    await w.quiet()


@scenario("a Pod is replaced by another one of its name")
async def replaced(w: World) -> None:
    await w.template()
    pod = await w.pod(templates=GPU)
    await w.named()
    first = w.claim_of()
    await w.schedule(pod, first)
    await w.remove()
    await w.pod(templates=GPU)
    await w.gone("ResourceClaim", first)
    await w.until("another claim", lambda: w.claim_of() not in ("", first))


@scenario("a Pod is replaced: its entry in a shared claim goes")
async def replaced_by_name(w: World) -> None:
    await w.claim("shared")
    await w.schedule(await w.pod(claims={"gpu": "shared"}), "shared")
    await w.remove()
    await w.pod(claims={"gpu": "shared"})
    await w.freed("shared")
    await w.quiet()


# Claims for extended resources, which the scheduler makes.


async def extended_claim(w: World) -> str:
    wants = {"limits": {"example.com/gpu": "1"}, "requests": {"example.com/gpu": "1"}}
    pod = await w.pod(spec={"containers": [{"name": "main", "image": "example.com/app", "resources": wants}]})
    claim = await w.claim(
        generateName="web-extended-resources-", annotations={EXTENDED: "true"}, ownerReferences=owned_by(pod)
    )
    await w.protect(claim)
    await w.allocate(claim, entry_of(pod))
    mapping = {"containerName": "main", "resourceName": "example.com/gpu", "requestName": "gpu"}
    status = {"resourceClaimName": claim, "requestMappings": [mapping]}
    await w.patch(PODS, "web", {"status": {"extendedResourceClaimStatus": status}}, "status")
    await w.bind()
    await w.phase("Running")
    return claim


@scenario("the claim for extended resources of a finished Pod is freed and deleted")
async def extended_finished(w: World) -> None:
    claim = await extended_claim(w)
    await w.quiet()
    await w.finish()
    await w.gone("ResourceClaim", claim)
    await w.quiet()


@scenario("the claim for extended resources of a deleted Pod is freed and deleted")
async def extended_deleted(w: World) -> None:
    claim = await extended_claim(w)
    await w.quiet()
    await w.remove()
    await w.gone("ResourceClaim", claim)


@scenario("the claim for extended resources is not made again")
async def extended_gone(w: World) -> None:
    claim = await extended_claim(w)
    await w.patch(RESOURCE_CLAIMS, claim, {"status": {"reservedFor": None, "allocation": None}}, "status")
    await w.patch(RESOURCE_CLAIMS, claim, {"metadata": {"finalizers": None}})
    await w.delete_claim(claim)
    await w.quiet()


# Beside the real scheduler.


@scenario("kube-scheduler allocates and reserves; the finished Pod's claim is freed")
async def scheduled(w: World) -> None:
    await w.template()
    await w.pod(templates=GPU, spec={"schedulerName": "default-scheduler"})
    await w.until("runs", lambda: ((w.get("Pod", "web") or {}).get("status") or {}).get("phase") == "Running")
    claim = w.claim_of()
    await w.quiet()
    await w.finish()
    await w.gone("ResourceClaim", claim)

"""Scenarios of consumers: Pods bound by somebody else, entries of Pods and of others, claims that are unusual."""

from parity.dsl import (
    FINALIZER,
    GPU,
    NODE,
    World,
    a_deployment,
    entry_of,
    owned_by,
    scenario,
)
from tollbar.model.resources import RESOURCE_CLAIMS

# Pods that were bound by somebody else.


@scenario("a Pod bound at creation: its claim is generated, and reserved once somebody allocates it")
async def user_bound(w: World) -> None:
    await w.template()
    await w.pod(templates=GPU, spec={"nodeName": NODE})
    await w.named()
    await w.quiet()
    await w.protect(w.claim_of())
    await w.allocate(w.claim_of())
    await w.until("reserved", lambda: w.reserved(w.claim_of()) == ["web"])


@scenario("a bound Pod is added beside other consumers")
async def user_bound_shared(w: World) -> None:
    await w.claim("shared")
    first = await w.pod("first", claims={"gpu": "shared"})
    await w.schedule(first, "shared")
    await w.pod("second", claims={"gpu": "shared"}, spec={"nodeName": NODE})
    await w.until("reserved", lambda: set(w.reserved("shared")) == {"first", "second"})


@scenario("a bound Pod whose first claim is missing")
async def user_bound_missing(w: World) -> None:
    await w.claim("there")
    await w.protect("there")
    await w.allocate("there")
    await w.pod(claims={"a": "missing", "b": "there"}, spec={"nodeName": NODE})
    await w.quiet()
    await w.claim("missing")
    await w.quiet()


@scenario("a bound Pod with several claims")
async def user_bound_several(w: World) -> None:
    for name in ("a", "b"):
        await w.claim(name)
        await w.protect(name)
        await w.allocate(name)
    await w.pod(claims={"a": "a", "b": "b"}, spec={"nodeName": NODE})
    await w.until("reserved", lambda: w.reserved("a") == w.reserved("b") == ["web"])


@scenario("a deleting claim gets no new consumer")
async def user_bound_deleting(w: World) -> None:
    await w.claim("shared", finalizers=["example.com/hold"])
    await w.allocate("shared")
    await w.delete_claim("shared")
    await w.pod(claims={"gpu": "shared"}, spec={"nodeName": NODE})
    await w.quiet()


# Entries.


@scenario("an entry of a Pod that never was is removed")
async def unknown_entry(w: World) -> None:
    await w.claim("shared")
    await w.protect("shared")
    await w.allocate("shared", {"resource": "pods", "name": "never", "uid": "5f1a7b62-0000-4000-8000-000000000002"})
    await w.freed("shared")


@scenario("an entry of an earlier Pod of the same name is removed")
async def stale_entry(w: World) -> None:
    await w.claim("shared")
    await w.pod()
    await w.protect("shared")
    await w.allocate("shared", {"resource": "pods", "name": "web", "uid": "5f1a7b62-0000-4000-8000-000000000003"})
    await w.freed("shared")


@scenario("an entry that is no Pod's stays when the last Pod's goes")
async def foreign_entry(w: World) -> None:
    await w.claim("shared")
    pod = await w.pod(claims={"gpu": "shared"})
    await w.schedule(pod, "shared")
    await w.reserve("shared", a_deployment())
    await w.quiet()
    await w.remove()
    await w.until("the Pod's entry is gone", lambda: w.reserved("shared") == ["trainer"])
    await w.quiet()


@scenario("an entry that is no Pod's alone keeps a claim")
async def foreign_entry_alone(w: World) -> None:
    await w.claim("shared")
    await w.protect("shared")
    await w.allocate("shared", a_deployment())
    await w.quiet()


@scenario("an entry that is no Pod's keeps a deleting claim, until it is removed")
async def foreign_entry_deleting(w: World) -> None:
    await w.claim("shared")
    await w.protect("shared")
    await w.allocate("shared", a_deployment())
    await w.delete_claim("shared")
    await w.quiet()
    await w.patch(RESOURCE_CLAIMS, "shared", {"status": {"reservedFor": None}}, "status")
    await w.gone("ResourceClaim", "shared")


@scenario("the last entry that is no Pod's is removed by hand: the allocation stays")
async def foreign_entry_removed(w: World) -> None:
    await w.claim("shared")
    await w.protect("shared")
    await w.allocate("shared", a_deployment())
    await w.patch(RESOURCE_CLAIMS, "shared", {"status": {"reservedFor": None}}, "status")
    await w.quiet()


@scenario("a claim that is full has no room for a bound Pod, until there is some")
async def full(w: World) -> None:
    await w.claim("shared")
    await w.protect("shared")
    entries = [
        {**a_deployment(f"trainer-{number}"), "uid": f"5f1a7b62-0000-4000-8000-{number:012}"} for number in range(256)
    ]
    await w.allocate("shared", *entries)
    await w.pod(claims={"gpu": "shared"}, spec={"nodeName": NODE})
    await w.quiet()
    await w.patch(RESOURCE_CLAIMS, "shared", {"status": {"reservedFor": entries[:2]}}, "status")
    await w.until("reserved", lambda: "web" in w.reserved("shared"))


# Claims that are deleted, or unusual.


@scenario("a deleting claim waits for its Pod")
async def deleting_reserved(w: World) -> None:
    await w.claim("shared")
    await w.schedule(await w.pod(claims={"gpu": "shared"}), "shared")
    await w.delete_claim("shared")
    await w.quiet()
    await w.remove()
    await w.gone("ResourceClaim", "shared")


@scenario("a deleting claim that is allocated and unused goes")
async def deleting_allocated(w: World) -> None:
    await w.claim("shared")
    await w.protect("shared")
    await w.allocate("shared")
    await w.delete_claim("shared")
    await w.gone("ResourceClaim", "shared")


@scenario("a deleting claim that has only the finalizer goes")
async def deleting_protected(w: World) -> None:
    await w.claim("shared")
    await w.protect("shared")
    await w.delete_claim("shared")
    await w.gone("ResourceClaim", "shared")


@scenario("a deleting claim with somebody else's finalizer as well")
async def deleting_held(w: World) -> None:
    await w.claim("shared", finalizers=[FINALIZER, "example.com/hold"])
    await w.allocate("shared")
    await w.delete_claim("shared")
    await w.until("freed", lambda: not w.has_finalizer("shared"))
    await w.quiet()


@scenario("an allocated claim that nobody uses is left alone")
async def unused_allocation(w: World) -> None:
    await w.claim("shared")
    await w.protect("shared")
    await w.allocate("shared")
    await w.quiet()


@scenario("a finalizer without allocation is left alone")
async def unused_finalizer(w: World) -> None:
    await w.claim("shared")
    await w.protect("shared")
    await w.quiet()


@scenario("without the finalizer the allocation stays when the last entry goes")
async def without_finalizer(w: World) -> None:
    await w.claim("shared")
    pod = await w.pod(claims={"gpu": "shared"})
    await w.allocate("shared", entry_of(pod))
    await w.bind()
    await w.quiet()
    await w.remove()
    await w.until("unreserved", lambda: not w.reserved("shared"))
    await w.quiet()


@scenario("a claim that a Pod owns and that nobody generated goes with the finished Pod")
async def owned_by_hand(w: World) -> None:
    pod = await w.pod(claims={"gpu": "mine"})
    await w.claim("mine", ownerReferences=owned_by(pod))
    await w.schedule(pod, "mine")
    await w.quiet()
    await w.finish()
    await w.quiet()

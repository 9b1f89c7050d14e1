"""Scenarios in which something happens while the controller is down."""

from functools import partial

from parity.dsl import GPU, POD_CLAIM, World, entry_of, owned_by
from parity.dsl import scenario as any_scenario

scenario = partial(any_scenario, turn="restart")


@scenario("a Pod created while the controller was down")
async def created_while_down(w: World) -> None:
    await w.template()
    async with w.while_down():
        await w.pod(templates=GPU)
    await w.named()


@scenario("nothing happened while the controller was down")
async def idle_while_down(w: World) -> None:
    await w.template()
    pod = await w.pod(templates=GPU)
    await w.named()
    await w.schedule(pod, w.claim_of())
    async with w.while_down():
        pass
    await w.quiet()


@scenario("a Pod finished while the controller was down")
async def finished_while_down(w: World) -> None:
    await w.template()
    pod = await w.pod(templates=GPU)
    await w.named()
    claim = w.claim_of()
    await w.schedule(pod, claim)
    async with w.while_down():
        await w.finish()
    await w.gone("ResourceClaim", claim)


@scenario("a Pod was removed while the controller was down: its entry in a shared claim goes")
async def removed_while_down(w: World) -> None:
    await w.claim("shared")
    await w.schedule(await w.pod(claims={"gpu": "shared"}), "shared")
    async with w.while_down():
        await w.remove()
    await w.freed("shared")


@scenario("a Pod was replaced while the controller was down")
async def replaced_while_down(w: World) -> None:
    await w.claim("shared")
    await w.schedule(await w.pod(claims={"gpu": "shared"}), "shared")
    async with w.while_down():
        await w.remove()
        await w.pod(claims={"gpu": "shared"})
    await w.freed("shared")


@scenario("a claim was deleted while the controller was down")
async def claim_deleted_while_down(w: World) -> None:
    await w.claim("shared")
    await w.protect("shared")
    await w.allocate("shared")
    async with w.while_down():
        await w.delete_claim("shared")
    await w.gone("ResourceClaim", "shared")


@scenario("the claim was made and not recorded before the controller went down")
async def orphan_while_down(w: World) -> None:
    await w.template()
    async with w.while_down():
        pod = await w.pod(templates=GPU)
        await w.claim(generateName="web-gpu-", annotations={POD_CLAIM: "gpu"}, ownerReferences=owned_by(pod))
    await w.named()
    await w.quiet()


@scenario("of two claims that were made and not recorded the first by name is recorded")
async def two_orphans_while_down(w: World) -> None:
    await w.template()
    async with w.while_down():
        pod = await w.pod(templates=GPU)
        for name in ("second", "first"):
            await w.claim(name, annotations={POD_CLAIM: "gpu"}, ownerReferences=owned_by(pod))
    await w.named()
    await w.quiet()


@scenario("the claim was made, not recorded, and deleted while somebody holds it")
async def deleting_orphan_while_down(w: World) -> None:
    await w.template()
    async with w.while_down():
        pod = await w.pod(templates=GPU)
        held = {"annotations": {POD_CLAIM: "gpu"}, "finalizers": ["example.com/hold"]}
        await w.claim("going", **held, ownerReferences=owned_by(pod))
        await w.delete_claim("going")
    await w.named()
    await w.quiet()


@scenario("the allocation was cleared and the finalizer left when the controller went down")
async def finalizer_while_down(w: World) -> None:
    await w.claim("shared")
    async with w.while_down():
        await w.protect("shared")
    await w.quiet()
    await w.delete_claim("shared")
    await w.gone("ResourceClaim", "shared")


@scenario("a Pod was bound while the controller was down and its claim is allocated")
async def bound_while_down(w: World) -> None:
    await w.claim("shared")
    await w.protect("shared")
    await w.allocate("shared")
    await w.pod(claims={"gpu": "shared"})
    async with w.while_down():
        await w.bind()
    await w.until("reserved", lambda: w.reserved("shared") == ["web"])


@scenario("a template came while the controller was down")
async def template_while_down(w: World) -> None:
    await w.pod(templates=GPU)
    await w.quiet()
    async with w.while_down():
        await w.template()
    await w.named()


@scenario("the generated claim was deleted while the controller was down")
async def generated_deleted_while_down(w: World) -> None:
    await w.template()
    await w.pod(templates=GPU)
    await w.named()
    first = w.claim_of()
    async with w.while_down():
        await w.delete_claim(first)
    await w.until("another claim", lambda: w.claim_of() not in ("", first))


@scenario("of two consumers one went while the controller was down")
async def one_of_two_while_down(w: World) -> None:
    await w.claim("shared")
    await w.schedule(await w.pod("first", claims={"gpu": "shared"}), "shared")
    second = await w.pod("second", claims={"gpu": "shared"})
    async with w.while_down():
        await w.reserve("shared", entry_of(second))
        await w.bind("second")
        await w.remove("first")
    await w.until("one is left", lambda: w.reserved("shared") == ["second"])


@scenario("both Pods that share a claim were removed while the controller was down")
async def both_removed_while_down(w: World) -> None:
    """While it runs it may see them go one by one."""
    await w.claim("shared")
    for name in ("first", "second"):
        await w.schedule(await w.pod(name, claims={"gpu": "shared"}), "shared")
    await w.quiet()
    async with w.while_down():
        await w.remove("first")
        await w.remove("second")
    await w.freed("shared")


@scenario("a generated claim is deleted after a restart and made again")
async def deleted_after_restart(w: World) -> None:
    await w.template()
    await w.pod(templates={"a": "gpu", "b": "gpu"})
    await w.named("web", "a", "b")
    first, kept = w.claim_of("web", "a"), w.claim_of("web", "b")
    async with w.while_down():
        pass
    await w.quiet()
    await w.delete_claim(first)
    await w.until("another claim", lambda: w.claim_of("web", "a") not in ("", first))
    await w.quiet()
    assert w.claim_of("web", "b") == kept

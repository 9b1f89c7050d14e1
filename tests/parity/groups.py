"""Scenarios with PodGroups: the gates GenericWorkload and DRAWorkloadResourceClaims are on (KEP-5729)."""

from functools import partial

from parity.dsl import GPU, POD_GROUPS, SOON, World, entry_of
from parity.dsl import scenario as any_scenario
from tollbar.model.resources import RESOURCE_CLAIMS

scenario = partial(any_scenario, turn="groups")
GROUP = "scheduling.k8s.io"


@scenario("a PodGroup's template gives one claim, which its Pods share")
async def group_claim(w: World) -> None:
    await w.template()
    await w.pod_group(templates=GPU)
    await w.named("group", kind="PodGroup")
    for name in ("first", "second"):
        await w.pod(name, templates=GPU, group="group")
        await w.named(name)
    await w.quiet()


@scenario("the Pods come before their PodGroup")
async def group_late(w: World) -> None:
    await w.template()
    await w.pod("first", templates=GPU, group="group")
    await w.quiet()
    await w.pod_group(templates=GPU)
    await w.named("group", kind="PodGroup")
    await w.named("first")


@scenario("a PodGroup that never comes keeps even a Pod's own claims from being made")
async def group_never(w: World) -> None:
    await w.template()
    await w.pod("first", templates={"own": "gpu"}, group="group")
    await w.quiet()


@scenario("a claim of the group's and a claim of the Pod's own")
async def group_and_own(w: World) -> None:
    await w.template()
    await w.pod_group(templates=GPU)
    await w.named("group", kind="PodGroup")
    await w.pod("first", templates={"gpu": "gpu", "own": "gpu"}, group="group")
    await w.named("first", "gpu", "own")


@scenario("the same name for another template is the Pod's own claim")
async def group_not_matching(w: World) -> None:
    await w.template()
    await w.template("other")
    await w.pod_group(templates=GPU)
    await w.named("group", kind="PodGroup")
    await w.pod("first", templates={"gpu": "other"}, group="group")
    await w.named("first")


@scenario("a PodGroup with two templates")
async def group_two_claims(w: World) -> None:
    await w.template()
    await w.pod_group(templates={"a": "gpu", "b": "gpu"})
    await w.named("group", "a", "b", kind="PodGroup")


@scenario("the template of a PodGroup comes late")
async def group_template_late(w: World) -> None:
    await w.pod_group(templates=GPU)
    await w.pod("first", templates=GPU, group="group")
    await w.quiet()
    await w.template()
    await w.named("group", kind="PodGroup")
    await w.named("first")


@scenario("a bound member: the claim is reserved for its PodGroup")
async def group_bound(w: World) -> None:
    await w.template()
    await w.pod_group(templates=GPU)
    await w.named("group", kind="PodGroup")
    await w.pod("first", templates=GPU, group="group")
    await w.named("first")
    await w.protect(w.claim_of("first"))
    await w.allocate(w.claim_of("first"))
    await w.bind("first")
    await w.until("reserved", lambda: w.reserved(w.claim_of("first")) == ["group"])


@scenario("a bound member with a claim that its PodGroup names")
async def group_by_name(w: World) -> None:
    await w.claim("shared")
    await w.protect("shared")
    await w.allocate("shared")
    await w.pod_group(claims={"gpu": "shared"})
    await w.pod("first", claims={"gpu": "shared"}, group="group")
    await w.bind("first")
    await w.until("reserved", lambda: w.reserved("shared") == ["group"])
    await w.quiet()


@scenario("a PodGroup's entry stays while the group does, whatever its Pods do")
async def group_entry_stays(w: World) -> None:
    await w.claim("shared")
    group = await w.pod_group(claims={"gpu": "shared"})
    pod = await w.pod("first", claims={"gpu": "shared"}, group="group")
    await w.protect("shared")
    await w.allocate("shared", entry_of(group, "podgroups", GROUP))
    await w.bind("first")
    await w.phase("Running", "first")
    await w.quiet()
    await w.remove("first")
    await w.quiet()
    assert pod


@scenario("a deleted PodGroup frees the claim that it named")
async def group_deleted(w: World) -> None:
    await w.claim("shared")
    group = await w.pod_group(claims={"gpu": "shared"})
    await w.protect("shared")
    await w.allocate("shared", entry_of(group, "podgroups", GROUP))
    await w.quiet()
    await w.delete(POD_GROUPS, "group")
    await w.freed("shared")


@scenario("a deleted PodGroup takes its generated claim along")
async def group_deleted_generated(w: World) -> None:
    await w.template()
    group = await w.pod_group(templates=GPU)
    await w.named("group", kind="PodGroup")
    claim = w.claim_of("group", kind="PodGroup")
    await w.protect(claim)
    await w.allocate(claim, entry_of(group, "podgroups", GROUP))
    await w.delete(POD_GROUPS, "group")
    await w.gone("ResourceClaim", claim)


@scenario("an entry of a PodGroup that never was is removed")
async def group_unknown(w: World) -> None:
    await w.claim("shared")
    await w.protect("shared")
    never = {"apiGroup": GROUP, "resource": "podgroups", "name": "never", "uid": "5f1a7b62-0000-4000-8000-000000000004"}
    await w.allocate("shared", never)
    await w.freed("shared")


@scenario("entries of a Pod and of a PodGroup in one claim")
async def group_and_pod_entries(w: World) -> None:
    await w.claim("shared")
    group = await w.pod_group(claims={"gpu": "shared"})
    pod = await w.pod("alone", claims={"gpu": "shared"})
    await w.schedule(pod, "shared")
    await w.reserve("shared", entry_of(group, "podgroups", GROUP))
    await w.remove("alone")
    await w.until("the group's is left", lambda: w.reserved("shared") == ["group"])
    await w.delete(POD_GROUPS, "group")
    await w.freed("shared")


@scenario("the claim of a PodGroup outlives a finished Pod")
async def group_finished(w: World) -> None:
    await w.template()
    group = await w.pod_group(templates=GPU)
    await w.named("group", kind="PodGroup")
    claim = w.claim_of("group", kind="PodGroup")
    await w.pod("first", templates=GPU, group="group")
    await w.named("first")
    await w.protect(claim)
    await w.allocate(claim, entry_of(group, "podgroups", GROUP))
    await w.bind("first")
    await w.phase("Running", "first")
    await w.finish("first")
    await w.quiet()


@scenario("a PodGroup's claim without a name is not needed")
async def group_not_needed(w: World) -> None:
    await w.pod_group(templates=GPU)
    await w.quiet()
    await w.patch(POD_GROUPS, "group", {"status": {"resourceClaimStatuses": [{"name": "gpu"}]}}, "status")
    await w.quiet()
    await w.template()
    await w.quiet()


@scenario("a deleting claim of a PodGroup waits for the group")
async def group_deleting(w: World) -> None:
    await w.claim("shared")
    group = await w.pod_group(claims={"gpu": "shared"})
    await w.protect("shared")
    await w.allocate("shared", entry_of(group, "podgroups", GROUP))
    await w.delete(RESOURCE_CLAIMS, "shared")
    await w.quiet()
    await w.delete(POD_GROUPS, "group")
    await w.gone("ResourceClaim", "shared")


@scenario("the claim of a PodGroup is made again for a Pod that knows the old one")
async def group_claim_again(w: World) -> None:
    await w.template()
    await w.pod_group(templates=GPU)
    await w.named("group", kind="PodGroup")
    await w.pod("first", templates=GPU, group="group")
    await w.named("first")
    old = w.claim_of("first")
    await w.delete_claim(old)
    await w.quiet()
    await w.patch(POD_GROUPS, "group", {"metadata": {"labels": {"touched": "true"}}})
    await w.until("another claim", lambda: w.claim_of("group", kind="PodGroup") not in ("", old))
    await w.quiet()
    await w.until("the Pod is told", lambda: w.claim_of("first") not in ("", old), SOON)

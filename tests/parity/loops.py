"""Scenarios in which upstream writes for ever: each is looked at until that is sure."""

from functools import partial

from parity.dsl import POD_GROUPS, World
from parity.dsl import scenario as any_scenario

scenario = partial(any_scenario, turn="loops")


@scenario("a finished Pod lingers beside a running one that shares its claim")
async def lingering(w: World) -> None:
    await w.claim("shared")
    for name in ("job", "server"):
        await w.schedule(await w.pod(name, claims={"gpu": "shared"}), "shared")
    await w.quiet()
    await w.finish("job")
    await w.until("the finished one's entry is gone", lambda: w.reserved("shared") == ["server"])
    await w.silence()


@scenario("one of two claims of a PodGroup is deleted: the other one's name stays recorded")
async def group_one_deleted(w: World) -> None:
    await w.template()
    await w.pod_group(templates={"a": "gpu", "b": "gpu"})
    await w.named("group", "a", "b", kind="PodGroup")
    first = w.claim_of("group", "a", kind="PodGroup")
    await w.delete_claim(first)
    await w.quiet()
    await w.patch(POD_GROUPS, "group", {"metadata": {"labels": {"touched": "true"}}})
    await w.until("another claim", lambda: w.claim_of("group", "a", kind="PodGroup") not in ("", first))
    await w.silence()

"""Scenarios of claims that are made, adopted, or left to their users, by a controller that runs all the time."""

from collections.abc import Awaitable, Callable

from parity.dsl import (
    GPU,
    PATIENCE,
    POD_CLAIM,
    SOON,
    World,
    asking,
    owned_by,
    scenario,
)
from tollbar.model.resources import NAMESPACES, PODS

# Generation.


@scenario("a Pod with one template gets one claim")
async def one_template(w: World) -> None:
    await w.template()
    await w.pod(templates=GPU)
    await w.named()


@scenario("a gated Pod gets its claim while it waits")
async def gated(w: World) -> None:
    await w.template()
    await w.pod(templates=GPU, gates=("example.com/wait",))
    await w.named()


@scenario("a Pod without claims is left alone")
async def without_claims(w: World) -> None:
    await w.template()
    await w.pod()
    await w.quiet()


@scenario("several templates give a Pod several claims")
async def several_templates(w: World) -> None:
    await w.template("gpu")
    await w.template("nic")
    await w.pod(templates={"z": "gpu", "a": "nic", "m": "gpu"})
    await w.named("web", "z", "a", "m")


@scenario("a template and a claim by name in one Pod")
async def mixed(w: World) -> None:
    await w.template()
    await w.claim("shared")
    await w.pod(templates=GPU, claims={"mine": "shared"})
    await w.named()


@scenario("a template that comes late")
async def template_late(w: World) -> None:
    await w.pod(templates=GPU)
    await w.quiet()
    await w.template()
    await w.named()


@scenario("a template that never comes is complained about")
async def template_never(w: World) -> None:
    await w.pod(templates=GPU)
    await w.quiet()


@scenario("the second of two templates comes late: the first claim is made, nothing is recorded before")
async def second_template_late(w: World) -> None:
    await w.template("gpu")
    await w.pod(templates={"gpu": "gpu", "nic": "nic"})
    await w.until("the first claim", lambda: len(w.all("ResourceClaim")) == 1)
    await w.quiet()
    await w.template("nic")
    await w.named("web", "gpu", "nic")


@scenario("the first of two templates comes late: nothing is made before")
async def first_template_late(w: World) -> None:
    await w.template("nic")
    await w.pod(templates={"gpu": "gpu", "nic": "nic"})
    await w.quiet()
    await w.template("gpu")
    await w.named("web", "gpu", "nic")


@scenario("a template that is deleted once it has been used")
async def template_deleted(w: World) -> None:
    await w.template()
    await w.pod(templates=GPU)
    await w.named()
    await w.drop_template()
    await w.quiet()


@scenario("a template that is replaced by another one: old claims stay, new ones differ")
async def template_changed(w: World) -> None:
    await w.template(labels={"version": "1"})
    await w.pod("old", templates=GPU)
    await w.named("old")
    await w.drop_template()
    await w.template(labels={"version": "2"}, spec=asking(first_available=True))
    await w.quiet()
    await w.pod("new", templates=GPU)
    await w.named("new")


@scenario("labels and annotations of a template reach its claims")
async def labels_and_annotations(w: World) -> None:
    await w.template(labels={"team": "a"}, annotations={"example.com/note": "x", POD_CLAIM: "not this"})
    await w.pod(templates=GPU, labels={"app": "web"}, annotations={"example.com/pod": "y"})
    await w.named()


@scenario("admin access in a namespace that may have it")
async def admin_access(w: World) -> None:
    label = {"op": "add", "path": "/metadata/labels/resource.kubernetes.io~1admin-access", "value": "true"}
    await w.client.patch(NAMESPACES, w.namespace, [label])
    await w.template(spec=asking(admin=True))
    await w.pod(templates=GPU)
    await w.named()


@scenario("a prioritized list of requests")
async def first_available(w: World) -> None:
    await w.template(spec=asking(first_available=True))
    pod = await w.pod(templates=GPU)
    await w.named()
    claim = w.claim_of()
    await w.schedule(pod, claim, request="gpu/a100")
    await w.quiet()
    await w.finish()
    await w.gone("ResourceClaim", claim)


@scenario("thirty Pods of one template: thirty claims")
async def thirty_pods(w: World) -> None:
    await w.template()
    names = [f"web-{number:02}" for number in range(30)]
    for name in names:
        await w.pod(name, templates=GPU)
    for name in names:
        await w.named(name)


@scenario("the longest names of Pod and claim")
async def longest_names(w: World) -> None:
    await w.template()
    pod = "-".join(["p" * 62] * 4) + "p"
    await w.pod(pod, templates={"c" * 63: "gpu"})
    await w.named(pod, "c" * 63)


@scenario("names that are a little too long")
async def long_names(w: World) -> None:
    await w.template()
    await w.pod("p" * 30, templates={"c" * 26: "gpu"})
    await w.named("p" * 30, "c" * 26)
    await w.pod("q" * 28, templates={"d" * 27: "gpu"})
    await w.named("q" * 28, "d" * 27)


@scenario("a Pod of one character and a claim of 55: the name would begin with a hyphen")
async def hyphen_names(w: World) -> None:
    await w.template()
    await w.pod("a", templates={"c" * 55: "gpu"})
    await w.quiet()
    await w.named("a", "c" * 55, seconds=SOON)


@scenario("a Pod's name that is cut right after a dot")
async def dotted_names(w: World) -> None:
    await w.template()
    # 60 * 57 // 84 = 40: the cut keeps the dot.
    name = "p" * 39 + "." + "q" * 20
    await w.pod(name, templates={"c" * 22: "gpu"})
    await w.quiet()
    await w.named(name, "c" * 22, seconds=SOON)


# What is there already.


@scenario("a claim with owner and annotation is adopted")
async def adoption(w: World) -> None:
    pod = await w.pod(templates=GPU)
    await w.quiet()
    await w.claim(generateName="web-gpu-", annotations={POD_CLAIM: "gpu"}, ownerReferences=owned_by(pod))
    await w.quiet()
    await w.template()
    await w.named()


@scenario("a claim with owner and annotation is adopted whatever it is called, without its template")
async def adoption_without_template(w: World) -> None:
    pod = await w.pod(templates=GPU)
    await w.quiet()
    await w.claim("other", annotations={POD_CLAIM: "gpu"}, ownerReferences=owned_by(pod))
    await w.named()


@scenario("a claim of the Pod without annotation is no orphan")
async def no_annotation(w: World) -> None:
    pod = await w.pod(templates=GPU)
    await w.claim("web-gpu", ownerReferences=owned_by(pod))
    await w.quiet()
    await w.template()
    await w.named()


@scenario("a claim for another claim of the Pod is no orphan")
async def another_annotation(w: World) -> None:
    pod = await w.pod(templates=GPU)
    await w.claim(generateName="web-nic-", annotations={POD_CLAIM: "nic"}, ownerReferences=owned_by(pod))
    await w.quiet()
    await w.template()
    await w.named()


@scenario("a claim of another Pod is no orphan")
async def orphan_of_another(w: World) -> None:
    other = await w.pod("other")
    await w.pod(templates=GPU)
    await w.claim("theirs", annotations={POD_CLAIM: "gpu"}, ownerReferences=owned_by(other))
    await w.quiet()
    await w.template()
    await w.named()
    await w.quiet()


@scenario("the recorded claim is somebody else's: when it goes, the Pod's own is recorded again")
async def owner_mismatch(w: World) -> None:
    await w.claim("theirs")
    await w.template()
    await w.pod(templates=GPU)
    await w.named()
    own = w.claim_of()
    await w.record("web", gpu="theirs")
    await w.quiet()
    await w.delete_claim("theirs")
    await w.until("its own claim", lambda: w.claim_of() == own)


@scenario("a recorded claim without a name is not needed")
async def not_needed(w: World) -> None:
    await w.pod(templates=GPU)
    await w.quiet()
    await w.record("web", gpu="")
    await w.quiet()
    await w.template()
    await w.quiet()


MANY = tuple(f"web-{number}" for number in range(8))
"""Upstream's cache of its own writes hides a claim's deletion from the first look after it, unless it looked before:
whether it does at one Pod is by chance, at all of so many it never does."""


@scenario("a generated claim that is deleted at once is made again")
async def deleted_claim(w: World) -> None:
    await w.template()
    firsts = await deleted_at_once(w)
    await w.quiet()
    await others_than(w, firsts, "other claims", SOON)
    for pod in firsts:
        await w.patch(PODS, pod, {"metadata": {"labels": {"touched": "true"}}})
    await others_than(w, firsts, "other claims at last")


@scenario("a generated claim is deleted when its template is gone, which then comes back")
async def deleted_without_template(w: World) -> None:
    await w.template()
    firsts = await deleted_at_once(w, w.drop_template)
    await w.quiet()
    await w.template()
    await others_than(w, firsts, "other claims")


async def deleted_at_once(w: World, before: Callable[[], Awaitable[None]] | None = None) -> dict[str, str]:
    """What the Pods' claims were called."""
    for pod in MANY:
        await w.pod(pod, templates=GPU)
    for pod in MANY:
        await w.named(pod)
    firsts = {pod: w.claim_of(pod) for pod in MANY}
    if before is not None:
        await before()
        await w.known()  # or who hears of the claims first makes others
    for first in firsts.values():
        await w.delete_claim(first)
    return firsts


async def others_than(w: World, firsts: dict[str, str], what: str, seconds: float = PATIENCE) -> None:
    await w.until(what, lambda: all(w.claim_of(pod) not in ("", firsts[pod]) for pod in firsts), seconds)


@scenario("one of two generated claims is deleted: the other one's name stays recorded")
async def one_deleted_claim(w: World) -> None:
    await w.template()
    await w.pod(templates={"a": "gpu", "b": "gpu"})
    await w.named("web", "a", "b")
    first, kept = w.claim_of("web", "a"), w.claim_of("web", "b")
    await w.delete_claim(first)
    await w.quiet()
    await w.patch(PODS, "web", {"metadata": {"labels": {"touched": "true"}}})
    await w.until("another claim", lambda: w.claim_of("web", "a") not in ("", first))
    await w.quiet()
    assert w.claim_of("web", "b") == kept


# Claims by name.


@scenario("claims by name are left to their users")
async def by_name(w: World) -> None:
    await w.claim("shared")
    await w.pod(claims={"gpu": "shared"})
    await w.quiet()


@scenario("a claim by name that comes late")
async def by_name_late(w: World) -> None:
    await w.pod(claims={"gpu": "shared"})
    await w.quiet()
    await w.claim("shared")
    await w.quiet()


@scenario("a claim by name is deleted and made again for a bound Pod")
async def by_name_again(w: World) -> None:
    await w.claim("shared")
    pod = await w.pod(claims={"gpu": "shared"})
    await w.bind()
    await w.delete_claim("shared")
    await w.gone("ResourceClaim", "shared")
    await w.claim("shared")
    await w.allocate("shared")
    await w.until("reserved", lambda: w.reserved("shared") == [pod["metadata"]["name"]])

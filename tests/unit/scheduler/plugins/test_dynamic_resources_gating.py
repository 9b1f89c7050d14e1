"""DynamicResources: which claims hold a Pod back, in the queue and at the start of its attempt."""

import pytest
from objects.builders import Built, Pod, pod_group
from objects.builders import pod as a_pod
from objects.devices import allocation
from plugins.dynamicresources import (
    ALTERNATIVES,
    CLAIM,
    DELETING,
    GROUP,
    MEMBER,
    N1,
    UU,
    WEB,
    World,
    info,
    requesting,
    said,
)
from plugins.listing import Listing

from tollbar.model.objects import Object
from tollbar.model.resources import POD_GROUPS
from tollbar.runtime.store import Store

TEMPLATED = a_pod().templates("gpu")
NOT_READY: dict[str, tuple[list[Object], Pod, str]] = {
    "a Pod without claims": ([], a_pod(), "Success"),
    "the claim exists": ([CLAIM], WEB, "Success"),
    "the claim does not exist": ([], WEB, f'{UU}: could not find ResourceClaim "ml/gpu"'),
    "the claim is being deleted": ([DELETING], WEB, f'{UU}: resourceclaim "gpu" is being deleted'),
    "the claim of a template is not created yet": (
        [],
        TEMPLATED,
        f'{UU}: pod "ml/web": ResourceClaim not created yet',
    ),
    "the claim of a template exists": (
        [Built(CLAIM).owned_by("Pod", "web")],
        TEMPLATED.generated("gpu", "gpu"),
        "Success",
    ),
    "the claim of a template belongs to somebody else": (
        [CLAIM],
        TEMPLATED.generated("gpu", "gpu"),
        f"{UU}: ResourceClaim ml/gpu was not created for Pod ml/web (Pod is not owner)",
    ),
    "the template turned out to need no claim": ([], TEMPLATED.generated("gpu", None), "Success"),
    "a reference in the wrapper `source`, which Kubernetes 1.31 removed": (
        [CLAIM],
        a_pod().but("spec.resourceClaims", [{"name": "gpu", "source": {"resourceClaimName": "gpu"}}]),
        f'{UU}: pod "ml/web", spec.resourceClaim "gpu": none of the supported fields are set',
    ),
    "a reference of a form that is not known": (
        [],
        a_pod().but("spec.resourceClaims", [{"name": "gpu"}]),
        f'{UU}: pod "ml/web", spec.resourceClaim "gpu": none of the supported fields are set',
    ),
}


@pytest.mark.behaviour(46, case="a reference in the wrapper")
@pytest.mark.behaviour(56, case="the claim of a template is not created yet")
@pytest.mark.behaviour(57, case="the template turned out to need no claim")
@pytest.mark.parametrize("case", NOT_READY)
def test_a_pod_is_gated_until_its_claims_exist(case: str) -> None:
    objects, pod, expected = NOT_READY[case]
    world = World(*objects)
    answers = {said(world.plugin.pre_enqueue(info(pod))), world.pre_filter(pod).replace("Skip", "Success")}
    assert answers == {expected}


PRE_FILTER: dict[str, tuple[list[Object], str]] = {
    "a class that exists": ([CLAIM], "Success"),
    "a class that does not": (
        [requesting(exactly={"deviceClassName": "tpu"})],
        f"{UU}: request r0: device class tpu does not exist",
    ),
    "a class of an alternative that does not": (
        [requesting(**ALTERNATIVES)],
        f"{UU}: request r0/b: device class tpu does not exist",
    ),
    "no class": ([requesting(exactly={})], "Error: request r0: unsupported request type"),
    "a request of a form that is not known": (
        [requesting()],
        f"{UU}: resource claim ml/gpu, request r0: unknown request type",
    ),
    "a claim that is allocated needs no class": (
        [requesting(exactly={"deviceClassName": "tpu"}).but("status.allocation", allocation("g0"))],
        "Success",
    ),
}


@pytest.mark.behaviour(43, case="no class")
@pytest.mark.behaviour(55, case="a class that does not")
@pytest.mark.parametrize("case", PRE_FILTER)
def test_what_pre_filter_says(case: str) -> None:
    objects, expected = PRE_FILTER[case]
    assert World(*objects).pre_filter(WEB) == expected


def test_a_claim_that_another_pod_is_getting_has_to_be_waited_for() -> None:
    world = World(CLAIM, N1)
    world.reserve(WEB)
    assert world.pre_filter(a_pod("other").claims("gpu")) == (
        f"{UU}: resource claim ml/gpu is in the process of being allocated"
    )


def test_a_pod_waits_for_its_pod_group_which_may_share_its_claims() -> None:
    world = World(CLAIM, N1)
    world.handle.listers.pod_groups = Listing([])
    waits = f'{UU}: waiting for pod group "gang"'
    assert {said(world.plugin.pre_enqueue(info(MEMBER))), world.pre_filter(MEMBER)} == {waits}
    assert said(world.plugin.pre_enqueue(info(a_pod().in_group("gang")))) == "Success"
    assert said(world.plugin.pre_enqueue(info(WEB))) == "Success"
    hints = [world.plugin._after_pod_group_add(info(MEMBER), None, each).value for each in (GROUP, pod_group("other"))]
    assert hints == ["Queue", "QueueSkip"]
    world.handle.listers.pod_groups = Listing([GROUP])
    assert said(world.plugin.pre_enqueue(info(MEMBER))) == "Success"


def test_nobody_waits_for_pod_groups_that_are_not_served_in_a_version_that_is_read() -> None:
    world, groups = World(CLAIM, N1), Store(POD_GROUPS)
    groups.served = False
    world.handle.listers.pod_groups = groups
    assert said(world.plugin.pre_enqueue(info(MEMBER))) == "Success"
    groups.served = True
    assert said(world.plugin.pre_enqueue(info(MEMBER))) == f'{UU}: waiting for pod group "gang"'


def test_a_claim_that_was_made_for_the_pod_group_is_the_pods() -> None:
    made = Built(CLAIM).owned_by("PodGroup", "gang")
    (owner,) = made["metadata"]["ownerReferences"]
    made = made.but("metadata.ownerReferences", [{**owner, "apiVersion": "scheduling.k8s.io/v1"}])
    pods = [TEMPLATED.generated("gpu", "gpu").in_group(name) for name in ("gang", "other")]
    told = [said(World(made).plugin.pre_enqueue(info(pod))) for pod in pods]
    assert told == ["Success", f"{UU}: ResourceClaim ml/gpu was not created for Pod ml/web (Pod is not owner)"]

"""DynamicResources: which changes wake a Pod that waits for claims or devices."""

import pytest
from objects.builders import Pod
from objects.builders import pod as a_pod
from objects.devices import a_claim
from plugins.dynamicresources import ALLOCATED, CLAIM, WEB, World, info

from tollbar.model.objects import Key, Object
from tollbar.scheduler.framework.events import QueueingHint

QUEUE, SKIPS = QueueingHint.QUEUE, QueueingHint.SKIP
HINTS: dict[str, tuple[Pod, Object | None, Object | None, QueueingHint]] = {
    "its claim is created": (WEB, None, CLAIM, QUEUE),
    "its claim has another status": (WEB, CLAIM, ALLOCATED, QUEUE),
    "its claim has the same status": (WEB, CLAIM, CLAIM.labelled(a="b"), SKIPS),
    "another claim is allocated": (WEB, a_claim("other"), a_claim("other", "g0"), SKIPS),
    "another claim gives up its devices": (WEB, a_claim("other", "g0"), a_claim("other"), QUEUE),
    "another claim goes with its devices": (WEB, a_claim("other", "g0"), None, QUEUE),
    "another claim goes that had none": (WEB, a_claim("other"), None, SKIPS),
    "another claim gives up its devices, but a claim of the Pod does not exist": (
        a_pod().claims("gpu", "missing"),
        a_claim("other", "g0"),
        a_claim("other"),
        SKIPS,
    ),
}


@pytest.mark.parametrize("case", HINTS)
def test_which_changes_of_claims_wake_a_pod(case: str) -> None:
    pod, old, new, expected = HINTS[case]
    (registered,) = [each for each in World(CLAIM).plugin.events_to_register() if each.pre_hint is not None]
    assert registered.hint is not None
    assert registered.hint(info(pod), old, new) == expected


class Users:
    """A lister of Pods, with the index of the claims that they use."""

    def get(self, key: Key) -> Object | None:
        return None

    def values(self) -> list[Object]:
        return []

    def by_index(self, name: str, value: object) -> list[Object]:
        return []

    def keys_by_index(self, name: str, value: object) -> list[Key]:
        return [Key("ml", "web")] if (name, value) == ("claim", Key("ml", "gpu")) else []


CONCERNED: dict[str, tuple[Object | None, Object | None, list[Key] | None]] = {
    "a new claim concerns its users": (None, CLAIM, [Key("ml", "web")]),
    "a claim that nobody uses concerns nobody": (None, a_claim("other"), []),
    "devices that become free concern everybody": (a_claim("gpu", "g0"), CLAIM, None),
    "devices of a claim that goes concern everybody": (a_claim("gpu", "g0"), None, None),
    "a claim that goes without devices concerns its users": (CLAIM, None, [Key("ml", "web")]),
}


@pytest.mark.parametrize("case", CONCERNED)
def test_which_pods_a_change_of_a_claim_can_concern(case: str) -> None:
    old, new, expected = CONCERNED[case]
    world = World()
    world.handle.listers.pods = Users()
    (registered,) = [each for each in world.plugin.events_to_register() if each.pre_hint is not None]
    assert registered.pre_hint is not None
    found = registered.pre_hint(old, new)
    assert (found if found is None else list(found)) == expected


@pytest.mark.parametrize(("objects", "expected"), [([CLAIM], QUEUE), ([], SKIPS)])
def test_a_pod_is_woken_by_its_own_update_once_all_its_claims_exist(
    objects: list[Object], expected: QueueingHint
) -> None:
    world = World(*objects)
    hints = {each.event.label: each.hint for each in world.plugin.events_to_register()}
    hint = hints["TargetPodUpdatePodGeneratedResourceClaim"]
    assert hint is not None
    assert hint(info(WEB), info(WEB), info(WEB)) == expected


def test_the_events_that_are_registered() -> None:
    found = [(each.event.resource.value, int(each.event.action)) for each in World().plugin.events_to_register()]
    assert found == [
        ("Node", 1 | 4 | 8),
        ("resource.k8s.io/ResourceClaim", 1 | 2 | 32764),
        ("TargetPod", 16384),
        ("scheduling.k8s.io/PodGroup", 1),
        ("resource.k8s.io/DeviceClass", 1 | 32764),
        ("resource.k8s.io/ResourceSlice", 1 | 32764),
    ]

"""What Pods take of PodQuotas: whoever follows the stores counts what one counts who begins now."""

from collections.abc import Callable, Mapping

import pytest
from fakes.manager import Managed
from objects.builders import Built, Pod, claim, device_class, namespace, pod, template

from tollbar.decide.quotas.lines import Charge, Lines
from tollbar.gates import counting
from tollbar.gates.counting import Counts
from tollbar.gates.quota import PodQuotas
from tollbar.model.objects import Key, Object

ENROLLED = namespace().labelled({"tollbar.dev/quota": ""})
OTHER = namespace("other")


def quota(**spec: object) -> Object:
    meta = {"name": "q", "uid": "uid-of-q", "resourceVersion": "1"}
    body = {"limits": {"cpu": "2"}, **spec}
    return {"apiVersion": "tollbar.dev/v1alpha1", "kind": "PodQuota", "metadata": meta, "spec": body}


def asking(name: str, cpu: str = "1", *, of: str = "ml", gated: bool = True) -> Pod:
    made = pod(name, of).wants({"cpu": cpu}).labelled(team="red")
    return made.gated(PodQuotas.name) if gated else made


class World(Managed):
    def __init__(self, *objects: Object) -> None:
        super().__init__()
        self.counts = Counts(self.caches.store)
        self.counts.follow()
        self.fill(objects)
        self.counts.look()


def charges(lines: Lines) -> Mapping[Key, Charge]:
    return {charge.pod: charge for line in lines for charge in line}


def state(counts: Counts) -> tuple[object, ...]:
    return charges(counts.released), charges(counts.waiting), counts.charges, list(counts.in_force)


def counted_anew(before: Mapping[Key, Charge], world: World) -> set[str]:
    """The names of the Pods that had a charge, and do not have that very one any more."""
    return {key.name for key, charge in before.items() if world.counts.charges.get(key) is not charge}


HERE = (
    ENROLLED,
    OTHER,
    quota(),
    asking("waits"),
    asking("runs", gated=False),
    asking("far", of="other"),
    asking("claims").claims("gpu", "absent"),
    asking("templates").templates("gpu").wants({"example.com/gpu": "1"}),
    claim().request("gpu"),
    template().request("gpu"),
    device_class(),
)
CHANGES: dict[str, Callable[[World], object]] = {
    "nothing": lambda _: None,
    "a Pod comes": lambda world: world.fill([asking("new", "3")]),
    "a Pod comes in a namespace that takes no part": lambda world: world.fill([asking("new", of="other")]),
    "a Pod goes": lambda world: world.remove(asking("waits")),
    "a Pod ends": lambda world: world.fill([asking("runs", gated=False).phase("Succeeded")]),
    "a Pod is released": lambda world: world.fill([asking("waits", gated=False)]),
    "a Pod is deleted while it waits": lambda world: world.fill([asking("waits").deleting()]),
    "a Pod asks for more": lambda world: world.fill([asking("runs", "2", gated=False)]),
    "a Pod has other labels": lambda world: world.fill([asking("waits").labelled(team="blue")]),
    "a Pod of the same name": lambda world: world.fill([asking("waits", "2").but("metadata.uid", "another")]),
    "a quota has another limit": lambda world: world.fill([quota(limits={"cpu": "3"})]),
    "a quota selects Pods": lambda world: world.fill([quota(podSelector={"matchLabels": {"team": "blue"}})]),
    "a quota is not valid any more": lambda world: world.fill([quota(limits={})]),
    "a quota goes": lambda world: world.remove(quota()),
    "a namespace begins to take part": lambda world: world.fill([OTHER.labelled({"tollbar.dev/quota": ""})]),
    "a namespace takes part no more": lambda world: world.fill([namespace()]),
    "a namespace goes": lambda world: world.remove(ENROLLED),
    "a claim comes": lambda world: world.fill([claim("absent").request("gpu")]),
    "a claim takes the place of another one": lambda world: world.fill(
        [claim().request("gpu").request("gpu").but("metadata.uid", "another")]
    ),
    "a claim is made from a template": lambda world: world.fill(
        [
            claim("made").request("gpu").generated_for(asking("templates")),
            asking("templates").templates("gpu").generated("gpu", "made"),
        ]
    ),
    "a template is another one": lambda world: world.fill([template().request("nic").but("metadata.uid", "another")]),
    "a class stands for a resource": lambda world: world.fill([device_class().backing("example.com/gpu")]),
    "a class goes": lambda world: world.remove(device_class()),
    "a class stands for what a quota limits": lambda world: (
        world.fill([quota(limits={"example.com/gpu": 1})]),
        world.counts.look(),
        world.fill([device_class().backing("example.com/gpu")]),
    ),
    "a quota is about devices": lambda world: world.fill(
        [quota(limits={"gpu.deviceclass.resource.k8s.io/devices": 1})]
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_has_changed_is_counted(change: Callable[[World], object]) -> None:
    world = World(*HERE)
    change(world)
    world.counts.look()
    anew = Counts(world.caches.store)
    anew.look()
    assert state(world.counts) == state(anew)


def test_what_has_not_changed_is_not_counted_again() -> None:
    world = World(*HERE)
    before = world.counts.charges
    world.fill([asking("waits", "2")])
    world.counts.look()
    amount = world.counts.charges[Key("ml", "waits")].amounts["cpu"]
    assert (counted_anew(before, world), amount) == ({"waits"}, 2)


def test_a_status_of_a_claim_is_no_change() -> None:
    world = World(*HERE)
    before = world.counts.charges
    world.fill([claim().request("gpu").allocated()])
    world.counts.look()
    assert counted_anew(before, world) == set()


def test_how_much_a_quota_allows_is_in_no_charge() -> None:
    world = World(*HERE)
    before = world.counts.charges
    world.fill([quota(limits={"cpu": "3"}, sharing="Fair", patience="1h")])
    world.counts.look()
    assert counted_anew(before, world) == set()
    assert [(each.limits, each.fair, each.patience) for each in world.counts.in_force] == [({"cpu": 3}, True, 3600.0)]


def test_a_look_may_be_had_in_parts_and_what_changes_meanwhile_is_counted() -> None:
    world = World(*HERE)
    world.counts.begin()
    done = [world.counts.look(2)]
    world.fill([asking("new", "3"), asking("waits", gated=False)])
    world.remove(asking("runs"))
    while not done[-1]:
        done.append(world.counts.look(2))
    assert len(done) > 2
    anew = Counts(world.caches.store)
    anew.look()
    assert state(world.counts) == state(anew)


def test_more_changes_than_are_noted_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "MOST_CHANGED", 2)
    world = World(*HERE)
    world.fill(asking(f"p{number}") for number in range(5))
    world.counts.look()
    assert len(charges(world.counts.waiting)) == 8


def test_a_pod_that_may_go_counts_as_released_until_its_release_is_refused_and_forgiven() -> None:
    world = World(ENROLLED, quota(), asking("a"))
    key, sides = Key("ml", "a"), []

    def side() -> None:
        world.counts.look()
        counts = world.counts
        sides.append("released" if key in charges(counts.released) else str(key in charges(counts.waiting)))

    side()
    world.counts.grant(key)
    side()
    world.fill([asking("a").annotated({"seen": "again"})])
    side()
    world.counts.refuse(asking("a"))
    side()
    world.counts.forgive("uid-of-a", key)
    side()
    assert sides == ["True", "released", "released", "False", "True"]


@pytest.mark.parametrize(
    "then", [lambda world: world.fill([asking("a", gated=False)]), lambda world: world.remove(asking("a"))]
)
def test_what_was_granted_is_forgotten_when_the_cache_shows_what_became_of_it(then: Callable[[World], None]) -> None:
    world = World(ENROLLED, quota(), asking("a"))
    world.counts.grant(Key("ml", "a"))
    then(world)
    world.counts.look()
    assert world.counts.granted == {}


def test_a_pod_of_the_name_of_one_that_was_granted_waits() -> None:
    world = World(ENROLLED, quota(), asking("a"))
    world.counts.grant(Key("ml", "a"))
    world.fill([asking("a").but("metadata.uid", "another")])
    world.counts.look()
    assert (list(charges(world.counts.waiting)), world.counts.granted) == ([Key("ml", "a")], {})


DEVICES = "gpu.deviceclass.resource.k8s.io/devices"


def test_what_no_quota_limits_is_not_kept_however_much_a_tenant_names() -> None:
    many = template()
    for number in range(32):
        many = many.request(f"class-{number}")
    requests = {f"example.com/resource-{number}": "1" for number in range(1000)}
    hostile = asking("a").templates(*["gpu"] * 100).wants({"cpu": "1", **requests})
    elsewhere = quota(limits={"example.com/resource-1": 1}, podSelector={"matchLabels": {"team": "blue"}})
    world = World(ENROLLED, quota(), Built(elsewhere).but("metadata.name", "other"), many, device_class(), hostile)
    counted = world.counts._counted[Key("ml", "a")]
    charge = counted.charge
    assert (charge.amounts.keys(), charge.claims, charge.unknown) == ({"pods", "cpu"}, {}, "")
    assert counted.asked.parts == {}


def test_pods_that_differ_only_by_claims_stand_in_one_line_where_no_quota_limits_devices() -> None:
    pods = [asking(f"p{number}").claims(f"claim-{number}") for number in range(10)]
    claims = [claim(f"claim-{number}").request("gpu") for number in range(5)]
    lines = {
        name: len(list(World(ENROLLED, quota(limits={name: 1}), device_class(), *claims, *pods).counts.waiting))
        for name in ("cpu", DEVICES)
    }
    assert lines == {"cpu": 1, DEVICES: 10}


def test_claims_that_ask_for_the_same_have_it_in_common() -> None:
    names = [f"claim-{number}" for number in range(300)]
    alike = [claim(name).request("gpu") for name in names]
    different = [claim(name).request("gpu").request(f"class-of-{name}") for name in names]
    pods = [asking(f"p{number}").claims(*names[number : number + 100]) for number in range(0, 300, 100)]
    found = []
    for claims in (alike, different):
        world = World(ENROLLED, quota(limits={DEVICES: 1}), device_class(), *claims, *pods)
        taken = [each for charge in world.counts.charges.values() for each in charge.claims.values()]
        found.append((len(taken), {*map(tuple, map(dict.items, taken))}, len({*map(id, taken)}) == 1))
        assert len(world.counts.devices._alike) <= 256
    assert found == [(300, {((DEVICES, 1),)}, True), (300, {((DEVICES, 1),)}, False)]


def test_an_extended_resource_that_a_class_stands_for_counts_once_for_itself() -> None:
    asked = asking("a").wants({"cpu": "1", "example.com/gpu": "1"})
    backed = device_class().backing("example.com/gpu")
    world = World(ENROLLED, quota(limits={"example.com/gpu": 2}), backed, asked)
    assert world.counts.charges[Key("ml", "a")].amounts["example.com/gpu"] == 1


def test_a_pod_does_not_take_what_another_one_of_its_name_took_of_a_claim_that_is_gone() -> None:
    runs = asking("a", gated=False).claims("gpu")
    world = World(ENROLLED, quota(limits={DEVICES: 2}), device_class(), claim().request("gpu"), runs)
    world.remove(claim().request("gpu"))
    world.counts.look()
    before = charges(world.counts.released)[Key("ml", "a")].claims
    world.fill([runs.but("metadata.uid", "another")])
    world.counts.look()
    assert ([*before], charges(world.counts.released)[Key("ml", "a")].claims) == ([Key("ml", "gpu")], {})


def test_a_device_counts_for_all_that_its_class_stands_for() -> None:
    names = (DEVICES, "deviceclass.resource.kubernetes.io/gpu", "example.com/gpu")
    limits = dict.fromkeys((*names, "nic.deviceclass.resource.k8s.io/devices"), 1)
    backed, wanted = device_class().backing("example.com/gpu"), claim().request("gpu")
    world = World(ENROLLED, quota(limits=limits), backed, wanted, asking("a").claims("gpu"))
    assert world.counts.charges[Key("ml", "a")].claims == {Key("ml", "gpu"): dict.fromkeys(names, 1)}

"""Random scheduling cycles for the allocator of devices, the same for the same family and seed.

A family is about one part of Dynamic Resource Allocation and uses a little of the others.  Where it has objects that
the API server would refuse, because another version may have stored them, its docstring says so.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from dra.world import (
    DEFAULTS,
    EVERYWHERE,
    GPU,
    NIC,
    OURS,
    PER_DEVICE,
    SELECTORS,
    Problem,
    World,
    ask,
    consumes,
    counter_set,
    exactly,
    first_of,
    here,
    where,
)

from tollbar.model.objects import Object

COMBINATIONS: Final = 20_000
"""So many combinations of devices at most, by a rough estimate, of the problems that are not made to have many."""


def problem(family: str, seed: int) -> Problem:
    """The problem of this number of a family; repeats itself until it is not too large."""
    rng = random.Random(f"{family} {seed}")
    while True:
        world = World(rng)
        FAMILIES[family](world)
        made = world.problem
        if family in UNLIMITED or world.combinations() <= COMBINATIONS:
            made.family, made.seed = family, seed
            return made


def problems(seed: int, count: int, start: int = 0) -> Iterator[Problem]:
    """So many problems of all families in turn, from number `start`; number n of a seed is always the same."""
    names = list(FAMILIES)
    for number in range(start, start + count):
        yield problem(names[number % len(names)], seed * 1_000_003 + number // len(names))


def counts(world: World) -> None:
    """Requests for numbers of devices, with selectors."""
    world.fleet(2, 7)
    world.claim(world.requests(everything=0))
    world.hold(world.rng.choice((0, 0.1, 0.3)))


def everything(world: World) -> None:
    """Requests for all devices that match, beside requests for some; pools now and then incomplete or invalid."""
    rng = world.rng
    if world.maybe(0.06):
        (name,) = world.nodes(1, 1)
        world.pool(GPU, name, here(name), [world.device(number) for number in range(rng.randint(30, 35))])
        world.claim([exactly("r0", "gpu", None), *([exactly("r1")] if world.maybe(0.5) else [])])
        return
    world.fleet(rng.choice((0, 1, 2)), 5)
    if world.maybe(0.12):
        damaged = rng.choice(world.problem.slices)["spec"]
        damaged["pool"]["resourceSliceCount"] += 1
    if world.maybe(0.12):
        _, device = rng.choice([*world.devices()] or [({}, {})])
        device["name"] = "dev-0"
    if world.maybe(0.2):
        for _, device in world.devices():
            if world.maybe(0.3):
                device["taints"] = [taint(world)]
    requests = world.requests(1, 3, most=2, everything=0.6)
    if world.maybe(0.3):
        requests = [exactly(each["name"], "gpu", None, world.selectors(0.8)) for each in requests[:2]]
    for each in requests:
        body = each.get("exactly")
        if body and world.maybe(0.1):
            body["adminAccess"] = True
        if body and world.maybe(0.2):
            body["tolerations"] = [{"operator": "Exists"}]
    world.claim(requests, [world.constraint(requests)] if world.maybe(0.25) else [])
    world.hold(rng.choice((0, 0, 0.15)))


def alternatives(world: World) -> None:
    """Prioritized lists of up to eight alternatives in several claims, with constraints and configs by their names."""
    rng = world.rng
    world.fleet(3, 6, nodes=(1, 2))
    for _ in range(rng.choice((1, 1, 2, 3))):
        requests = []
        for number in range(rng.choice((1, 1, 2))):
            given = [
                ask(world.class_name(), world.count(rng.choice((1, 2, 3))), world.selectors(0.8))
                for _ in range(rng.choice((1, 2, 2, 3, 8)))
            ]
            requests.append(first_of(f"r{number}", *given) if world.maybe(0.85) else exactly(f"r{number}"))
        constraints = [world.constraint(requests) for _ in range(rng.choice((0, 0, 1, 2)))]
        config = [opaque(world, requests=world.some(world.names(requests), 1))] if world.maybe(0.3) else []
        world.claim(requests, constraints, config)
    world.hold(rng.choice((0, 0.2)))


def limits(world: World) -> None:
    """Counts around the 32 devices that a claim can get.

    Every alternative has devices of its own: enough, or none.  Upstream tries all subsets of them before it gives up,
    so that many of them must be followed by what only the limit forbids: then the claim goes back to its alternatives.
    """
    rng = world.rng
    (node,) = world.nodes(1, 1)
    devices: list[Object] = []
    last = rng.choice((0, 0, 1))
    few = 0
    only_limits = world.maybe(0.6)
    for claim in range(last + 1):
        requests = []
        is_many = only_limits
        for number in range(rng.choice((1, 2, 2, 3, 4))):
            many_before = is_many
            given = []
            length = rng.choice((1, 1, 2, 3, 3))
            for alternative in range(length):
                kind = f"k{claim}-{number}-{alternative}"
                count = rng.choice((1, 2, 3, 7, 8, 10, 15, 16, 17, 24, 30, 31, 32, 33))
                if 0 < alternative == length - 1 and world.maybe(0.7):
                    count = rng.choice((1, 2, 3))
                if many_before:
                    available = count + rng.choice((0, 1, 2))
                elif claim < last:
                    available = count + (count < 4)
                else:
                    available = rng.choice((count, count, count + (count < 9), 0))
                devices += [
                    {"name": f"dev-{len(devices) + each}", "attributes": {"kind": {"string": kind}}}
                    for each in range(available if count <= 32 else 1)
                ]
                is_all = world.maybe(0.2) or (few + available > 7 and claim < last)
                if not is_all:
                    few += available
                    is_many = is_many or few > 10
                given.append(ask("gpu", None if is_all else count, [f'{OURS}.kind == "{kind}"']))
            is_list = len(given) > 1 or world.maybe(0.5)
            requests.append(first_of(f"r{number}", *given) if is_list else {"name": f"r{number}", "exactly": given[0]})
        world.claim(requests)
    for start in range(0, len(devices), 128):
        world.slice(GPU, node, here(node), -(-len(devices) // 128), devices=devices[start : start + 128])


def constraints(world: World) -> None:
    """Matching and distinct attributes of all types, by bare and by qualified names; some are missing or of two types.

    A constraint's name without a domain would be refused.
    """
    rng = world.rng
    world.fleet(5, 8, nodes=(1, 2), missing=rng.choice((0, 0, 0.15, 0.4)))
    for _, device in world.devices():
        attributes = device.get("attributes") or {}
        if world.maybe(0.1) and "numa" in attributes:
            attributes["numa"] = {"string": "0"}
        if world.maybe(0.15) and "model" in attributes:
            attributes[f"{GPU}/model"] = attributes.pop("model")
    for _ in range(rng.choice((1, 1, 1, 2))):
        requests = world.requests(1, 3, most=3, everything=0.08)
        given = [world.constraint(requests) for _ in range(rng.choice((1, 1, 2, 3)))]
        if world.maybe(0.02):
            given[0] = {"matchAttribute": "numa"}
        world.claim(requests, given)
    world.hold(rng.choice((0, 0, 0.2)))


def lists(world: World) -> None:
    """Attributes with lists of values, with their feature on and now and then off, in constraints and selectors.

    An attribute without any known value would be refused.
    """
    rng = world.rng
    world.problem.features["ListTypeAttributes"] = not world.maybe(0.12)
    world.fleet(4, 8, nodes=(1, 2))
    empty = rng.choice((0, 0, 0, 0, 0, 0, 0, 0.1))
    domains: Mapping[str, tuple[str, Sequence[Any]]] = {
        "model": ("strings", "abc"),
        "numa": ("ints", (0, 1, 2)),
        "ecc": ("bools", (True, False)),
        "firmware": ("versions", ("1.0.0", "1.2.0")),
        "example.com/root": ("strings", ("r0", "r1", "r2", "r3")),
    }
    for _, device in world.devices():
        for name, (kind, values) in domains.items():
            if world.maybe(0.7):
                device["attributes"][name] = {kind: world.some(values, 1)} if not world.maybe(empty) else {}
    for _ in range(rng.choice((1, 1, 2))):
        requests = [
            exactly(
                f"r{number}", world.class_name(), world.count(3), rng.choice(((), (), (f"{OURS}.?numa.hasValue()",)))
            )
            for number in range(rng.choice((1, 2, 2)))
        ]
        world.claim(requests, [world.constraint(requests) for _ in range(rng.choice((1, 1, 2)))])
    world.hold(rng.choice((0, 0, 0.2)))


POOL_NAMES: Final = ("a", "a-b", "a.b", "a/b", "aa", "b", "z10", "z9", "node-0", "0")
"""In the order of bytes `a` comes before `a-b`, `a.b`, `a/b` and `aa`, and `z10` before `z9`."""


def pools(world: World) -> None:
    """Pools in all states: incomplete, invalid, obsolete, with counters that do not fit, for some Nodes.

    A slice that selects Nodes in no way would be refused.
    """
    rng = world.rng
    nodes = world.nodes(1, 3)
    chosen = set()
    for _ in range(rng.choice((1, 2, 2, 3, 4))):
        driver, name = rng.choice((GPU, GPU, NIC)), rng.choice(POOL_NAMES)
        if (driver, name) not in chosen:
            chosen.add((driver, name))
            _pool_in_some_state(world, driver, name, nodes)
    rng.shuffle(world.problem.slices)
    for _ in range(rng.choice((1, 1, 2))):
        requests = [exactly(f"r{number}", world.rng.choice(("any", "gpu")), world.count(3, 0.2))
                    for number in range(rng.choice((1, 1, 2)))]  # fmt: skip
        world.claim(requests)
    world.hold(rng.choice((0, 0.1)))


def _place(world: World, nodes: Sequence[str]) -> Object:
    rng = world.rng
    return dict(
        rng.choice(
            (
                *([here(rng.choice(nodes))] * 5),
                here("elsewhere"),
                *([EVERYWHERE] * 3),
                {"nodeSelector": where("zone", "In", rng.choice("ab"))},
                {"nodeSelector": where("rank", rng.choice(("Gt", "Lt")), "0")},
                {"nodeSelector": where("zone", rng.choice(("Exists", "DoesNotExist")))},
                {"nodeSelector": {"nodeSelectorTerms": [{"matchFields": [
                    {"key": "metadata.name", "operator": rng.choice(("In", "NotIn")), "values": [nodes[0]]}]}]}},
                PER_DEVICE,
                PER_DEVICE,
                {} if world.maybe(0.3) else EVERYWHERE,
            )
        )
    )  # fmt: skip


def _pool_in_some_state(world: World, driver: str, name: str, nodes: Sequence[str]) -> None:
    rng = world.rng
    generation = rng.choice((1, 1, 2, 7))
    number = 0
    made = []
    is_alike = world.maybe(0.5)
    place = _place(world, nodes)
    for _ in range(rng.choice((1, 1, 2, 3, 4))):
        place = place if is_alike else _place(world, nodes)
        devices = []
        for _ in range(rng.choice((0, 1, 1, 2, 3))):
            device = world.device(number)
            number += 1
            if place == PER_DEVICE:
                device |= _device_place(world, nodes)
            if world.maybe(0.04):
                device["bindingConditions"] = ["ready"]
            devices.append(device)
        made.append(world.slice(driver, name, place, 0, generation, devices=devices))
    if world.maybe(0.03) and number:
        device = rng.choice([device for each in made for device in each["spec"].get("devices") or ()])
        device["consumesCounters"] = [consumes("c0", memory=1) | {"compatibilityGroups": ["a"]}]
    if world.maybe(0.3):
        _counters(world, driver, name, place if is_alike and place != PER_DEVICE else EVERYWHERE, generation, made)
    for each in made:
        each["spec"]["pool"]["resourceSliceCount"] = len(made)
    defect = rng.random()
    if defect < 0.12:
        world.problem.slices.remove(made[rng.randrange(len(made))])
    elif defect < 0.2:
        made[rng.randrange(len(made))]["spec"]["pool"]["resourceSliceCount"] += rng.choice((-1, 1, 1))
    elif defect < 0.32:
        old = [world.device(rng.randrange(number + 2)) for _ in range(2)]
        world.slice(driver, name, _place(world, nodes), rng.choice((1, 2)), generation - 1, devices=old[:1])
    elif defect < 0.44:
        count = rng.choice((1, 1, 2))
        world.slice(driver, name, _place(world, nodes), count, generation + 1, devices=[world.device(number)])
    elif defect < 0.54:
        found = [device for each in made for device in each["spec"].get("devices") or ()]
        if len(found) > 1:
            found[-1]["name"] = found[0]["name"]


def _device_place(world: World, nodes: Sequence[str]) -> Object:
    place = world.rng.choice((here(world.rng.choice(nodes)), here("elsewhere"), EVERYWHERE,
                              {"nodeSelector": where("zone", "In", "a")}))  # fmt: skip
    return dict(place)


def _counters(world: World, driver: str, name: str, place: Object, generation: int, made: list[Object]) -> None:
    """Counters for a pool, in slices of their own, which may not fit together."""
    rng = world.rng
    sets = [counter_set("c0", memory=4), counter_set("c1" if not world.maybe(0.1) else "c0", memory=4)]
    for each in made:
        for device in each["spec"].get("devices") or ():
            counter = "memory" if not world.maybe(0.04) else "unknown"
            used = f"c{rng.choice((0, 1))}" if not world.maybe(0.04) else "c9"
            if world.maybe(0.6):
                device["consumesCounters"] = [consumes(used, **{counter: rng.choice((1, 2, 3))})]
    parts = [sets] if world.maybe(0.7) else [[each] for each in sets]
    made += [world.slice(driver, name, place, 0, generation, sharedCounters=part) for part in parts]


def taint(world: World) -> Object:
    effect = world.rng.choice(("NoSchedule", "NoSchedule", "NoExecute", "None"))
    made = {"key": f"example.com/{world.rng.choice('ab')}", "effect": effect, "timeAdded": "2026-01-01T00:00:00Z"}
    return made | ({"value": world.rng.choice("xy")} if world.maybe(0.6) else {})


def taints(world: World) -> None:
    """Tainted devices and requests that tolerate taints.  An effect that is not known would be refused."""
    rng = world.rng
    world.fleet(3, 6)
    for _, device in world.devices():
        if world.maybe(0.6):
            device["taints"] = [taint(world) for _ in range(rng.choice((1, 1, 2)))]
            if world.maybe(0.04):
                device["taints"][0]["effect"] = "NoIdea"
    requests = world.requests(1, 2, most=3, everything=0.2)
    for each in requests:
        for body in each.get("firstAvailable") or [each["exactly"]]:
            if world.maybe(0.7):
                body["tolerations"] = [_toleration(world) for _ in range(rng.choice((1, 1, 2, 3)))]
            if "exactly" in each and world.maybe(0.08):
                body["adminAccess"] = True
    world.claim(requests)
    world.hold(rng.choice((0, 0.1)))


def _toleration(world: World) -> Object:
    rng = world.rng
    made: Object = rng.choice(
        (
            {"operator": "Exists"},
            {"operator": "Exists"},
            {"operator": "Exists", "key": f"example.com/{rng.choice('ab')}"},
            {"operator": "Equal", "key": f"example.com/{rng.choice('ab')}", "value": rng.choice("xy")},
            {"key": f"example.com/{rng.choice('ab')}", "value": rng.choice("xy")},
            {"operator": "Equal", "key": f"example.com/{rng.choice('ab')}"},
        )
    )
    made |= {"effect": rng.choice(("NoSchedule", "NoExecute"))} if world.maybe(0.4) else {}
    return made | ({"tolerationSeconds": 30} if world.maybe(0.15) else {})


def admin(world: World) -> None:
    """Admin access beside ordinary access, to devices that are in use, in this claim, in another one, or allocated."""
    rng = world.rng
    world.fleet(3, 6)
    for _ in range(rng.choice((1, 1, 2))):
        requests = []
        for number in range(rng.choice((1, 2, 2, 3))):
            made = world.request(f"r{number}", most=2, everything=0.25)
            if "exactly" in made and world.maybe(0.6):
                made["exactly"]["adminAccess"] = not world.maybe(0.1)
            requests.append(made)
        world.claim(requests, [world.constraint(requests)] if world.maybe(0.15) else [])
    world.hold(rng.choice((0.1, 0.3, 0.5)), admin=0.3)


PROFILES: Final[Mapping[str, tuple[int, int]]] = {"whole": (8, 4), "half": (4, 2), "quarter": (2, 1), "memory": (3, 0)}


def partitions(world: World) -> None:
    """Devices that consume shared counters, also for other Nodes and in use; counters may be overdrawn."""
    rng = world.rng
    nodes = world.nodes(1, 2)
    for driver, name, owner in ((GPU, "board", None), *((GPU, f"local-{each}", each) for each in nodes[:1])):
        if owner and world.maybe(0.5):
            continue
        size = rng.choice((1, 1, 2))
        sets = [counter_set(f"c{number}", memory=8 * size, cores=4 * size) for number in range(rng.choice((1, 1, 2)))]
        devices = []
        for number in range(rng.randint(4, 8)):
            profile = rng.choice(list(PROFILES))
            memory, cores = PROFILES[profile]
            given = [
                consumes(each["name"], **({"memory": memory, "cores": cores} if cores else {"memory": memory}))
                for each in (world.some(sets, 1) if world.maybe(0.2) else [rng.choice(sets)])
            ]
            attributes = {"profile": {"string": profile}, "numa": {"int": rng.choice((0, 1))}}
            made: Object = {"name": f"dev-{number}", "attributes": attributes}
            if not world.maybe(0.08):
                made["consumesCounters"] = given
            devices.append(made)
        if owner:
            world.pool(driver, name, here(owner), devices, sets)
        elif world.maybe(0.4):
            world.pool(driver, name, EVERYWHERE, devices, sets)
        elif world.maybe(0.5):
            world.pool(driver, name, PER_DEVICE, [each | _device_place(world, nodes) for each in devices], sets)
        else:
            halves = [devices[::2], devices[1::2]]
            world.slice(driver, name, EVERYWHERE, 3, sharedCounters=sets)
            for half, place in zip(halves, (nodes[0], nodes[-1]), strict=True):
                world.slice(driver, name, here(place), 3, devices=half)
    if world.maybe(0.05):
        device = {"name": "dev-0", "consumesCounters": [consumes("c0", memory=3)]}
        for generation, node in enumerate(nodes, 1):
            sizes = [counter_set("c0", memory=rng.choice((2, 3)))]
            world.slice(NIC, "replaced", here(node), 2, generation, sharedCounters=sizes)
            world.slice(NIC, "replaced", here(node), 2, generation, devices=[device])
        world.claim([exactly("r0", "nic")])
    for _ in range(rng.choice((1, 1, 1, 2))):
        requests = []
        for number in range(rng.choice((1, 1, 2, 3))):
            profile = rng.choice(("half", "quarter", "quarter", "memory", "whole"))
            selectors = [f'{OURS}.profile == "{profile}"'] if world.maybe(0.4) else []
            everything = rng.choice((0, 0, 0.2))
            requests.append(exactly(f"r{number}", "gpu", world.count(2, everything), selectors))
        world.claim(requests, [world.constraint(requests)] if world.maybe(0.1) else [])
    world.hold(rng.choice((0, 0, 0.1, 0.3)))
    if world.maybe(0.12):
        overdrawn = rng.choice(("c0", "c1"))
        for spec, device in world.devices():
            if any(each["counterSet"] == overdrawn for each in device.get("consumesCounters") or ()):
                world.hold_device(spec, device)


Unit = Callable[[int], str]
UNITS: Final[Sequence[Unit]] = (
    str,
    lambda value: f"{value}Gi",
    lambda value: f"{value}Mi",
    lambda value: f"{value * 100}m",
    lambda value: f"{value}m",
    lambda value: f"{value / 2}",
    lambda value: f"{value}e3",
    lambda value: f"{value}u",
    lambda value: str(value * 10**18),
    lambda value: f"{value}E",
)


def _capacity(world: World, unit: Unit) -> Object:
    """A capacity of 8 to 40 units with some policy; the default is among the valid values."""
    rng = world.rng
    made: Object = {"value": unit(rng.randint(8, 40))}
    least, step = rng.choice((0, 1, 2, 4)), rng.choice((1, 2, 3))
    default = least + step * rng.choice((0, 1, 2))
    policy: Object | None = None
    match rng.choice(("none", "default", "range", "range", "range", "step", "step", "step", "values", "values")):
        case "default":
            policy = {"default": unit(default)}
        case "range":
            policy = {"default": unit(default), "validRange": {"min": unit(least)}}
            if world.maybe(0.6):
                policy["validRange"]["max"] = unit(default + rng.choice((0, 3, 10)))
        case "step":
            policy = {"default": unit(default), "validRange": {"min": unit(least), "step": unit(step)}}
            if world.maybe(0.6):
                policy["validRange"]["max"] = unit(default + step * rng.choice((0, 1, 3)))
        case "values":
            values = sorted(rng.sample(range(1, 12), rng.choice((1, 2, 3))))
            policy = {"default": unit(rng.choice(values)), "validValues": [unit(each) for each in values]}
    return made | ({"requestPolicy": policy} if policy else {})


def _amount(world: World, unit: Unit, odd_share: float) -> str:
    """A request for some of it, in the same units or in quite others."""
    rng = world.rng
    odd = ("0", "1", "1n", "1500u", "2500m", "1.5", "1e3", "1Ki", "1.5Gi", "9223372036854775807", "9223372036854775808",
           "10E", "8Ei", "1e30", "9223372036854775.807", "9223372036854775808m")  # fmt: skip
    return rng.choice(odd) if world.maybe(odd_share) else unit(rng.randint(1, 12))


def _shared_fleet(world: World, unit: Unit, shared: float, sets: Sequence[Object] = (), least: int = 1) -> None:
    """GPUs with capacities, of which some can be shared; all have the same kind of policy, but not the same one."""
    rng = world.rng
    for name in world.nodes(1, 2):
        devices = []
        for number in range(rng.randint(least, 3)):
            made = world.device(number)
            if world.maybe(shared):
                made |= {"allowMultipleAllocations": True, "capacity": {"memory": _capacity(world, unit)}}
                if world.maybe(0.3):
                    made["capacity"]["channels"] = {
                        "value": "4",
                        "requestPolicy": {"default": rng.choice(("0", "1", "2"))},
                    }
                if world.maybe(0.05):
                    del made["capacity"]
            else:
                made["capacity"] = {"memory": {"value": unit(rng.randint(2, 20))}}
            if sets and world.maybe(0.8):
                made["consumesCounters"] = [consumes(rng.choice(sets)["name"], memory=rng.choice((2, 4)))]
            devices.append(made)
        world.pool(GPU, name, here(name), devices, sets)


def _with_capacity(world: World, unit: Unit, body: Object, odd_share: float = 0.2) -> Object:
    if world.maybe(0.75):
        body["capacity"] = {"requests": {"memory": _amount(world, unit, odd_share)}}
        if world.maybe(0.15):
            body["capacity"]["requests"]["channels"] = world.rng.choice(("1", "2", "5"))
        if world.maybe(0.06):
            body["capacity"]["requests"][world.rng.choice(("missing", f"{GPU}/memory"))] = "1"
    return body


def _sharing_selectors(world: World) -> list[str]:
    memory = f'device.capacity["{GPU}"].?memory.orValue(quantity("0"))'
    return world.rng.choice(
        (
            *([[]] * 10),
            [world.rng.choice(SELECTORS)],
            ["device.allowMultipleAllocations"],
            ["!device.allowMultipleAllocations"],
            [f'{memory}.compareTo(quantity("5")) > 0'],
        )
    )


def capacity(world: World) -> None:
    """Requests for capacity of devices of which some can be shared: policies, rounding, units, values beyond 64 bits.

    A negative request would be refused.
    """
    rng = world.rng
    unit = rng.choice(UNITS)
    _shared_fleet(world, unit, 0.8)
    requests = []
    for number in range(rng.choice((1, 2, 3))):
        body = _with_capacity(world, unit, ask("gpu", world.count(2, 0.15), _sharing_selectors(world)))
        if world.maybe(0.15):
            requests.append(first_of(f"r{number}", body, _with_capacity(world, unit, ask("gpu", 1))))
        else:
            requests.append({"name": f"r{number}", "exactly": body})
    if world.maybe(0.02):
        requests[0] = exactly("r0", "gpu", 1, capacity={"requests": {"memory": "-1"}})
    for _, device in world.devices():
        if world.maybe(0.08):
            device["taints"] = [taint(world)]
    world.claim(requests)
    world.hold(rng.choice((0, 0.2, 0.4)))


def sharing(world: World) -> None:
    """Several claims with several shares of the same devices, which may consume counters too."""
    rng = world.rng
    sets = [counter_set(f"c{number}", memory=rng.choice((4, 6, 8))) for number in range(rng.choice((1, 2)))]
    unit = rng.choice(UNITS[:4])
    _shared_fleet(world, unit, 0.85, sets if world.maybe(0.6) else (), least=2)
    for _ in range(rng.choice((1, 2, 2, 3))):
        requests = []
        for number in range(rng.choice((1, 1, 2))):
            requests.append(exactly(f"r{number}", "gpu", world.count(2, 0.08), _sharing_selectors(world)))
            _with_capacity(world, lambda value: unit(-(-value // 3)), requests[-1]["exactly"], 0.08)
            if world.maybe(0.08):
                requests[-1]["exactly"]["adminAccess"] = True
        world.claim(requests, [world.constraint(requests, 0.6)] if world.maybe(0.15) else [])
    for spec, device in world.devices():
        for _ in range(rng.choice((0, 0, 0, 0, 1, 2))):
            world.hold_device(spec, device)


def claims(world: World) -> None:
    """Two to four claims of one Pod, which compete for devices."""
    rng = world.rng
    world.fleet(3, 7)
    for _ in range(rng.choice((2, 2, 3, 4))):
        requests = world.requests(1, 2, most=2, everything=0.06)
        world.claim(requests, [world.constraint(requests)] if world.maybe(0.2) else [])
    world.hold(rng.choice((0, 0.1)))


def held(world: World) -> None:
    """Most devices are in use."""
    world.fleet(4, 9)
    requests = world.requests(1, 2, most=2, everything=0.1)
    world.claim(requests)
    world.hold(world.rng.choice((0.3, 0.5, 0.7)))


def opaque(world: World, **more: Any) -> Object:
    driver = world.rng.choice((GPU, NIC))
    return {
        "opaque": {"driver": driver, "parameters": {"mode": world.rng.choice("xyz"), "n": world.rng.randint(0, 9)}}
    } | more


def configs(world: World) -> None:
    """Configs of classes and claims, for all requests, some of them, or alternatives of one."""
    rng = world.rng
    world.fleet(3, 6)
    for name in ("c0", "c1", "c2"):
        world.device_class(name, config=[opaque(world) for _ in range(rng.choice((0, 1, 2)))])
    for _ in range(rng.choice((1, 1, 2))):
        requests = []
        for number in range(rng.choice((1, 2, 3))):
            given = [
                ask(rng.choice(("c0", "c1", "c2", "gpu")), 1, world.selectors(0.6))
                for _ in range(rng.choice((1, 1, 2, 3)))
            ]
            requests.append(first_of(f"r{number}", *given) if len(given) > 1 or world.maybe(0.1)
                            else {"name": f"r{number}", "exactly": given[0]})  # fmt: skip
        config = [
            opaque(world, **({"requests": world.some(world.names(requests), 1)} if world.maybe(0.8) else {}))
            for _ in range(rng.choice((0, 1, 2, 3)))
        ]
        world.claim(requests, config=config)


FAILING: Final = (
    f'{OURS}.missing == "a"',
    f'{OURS}.model == "a"',
    f"{OURS}.numa == 0",
    f"{OURS}.ecc && {OURS}.slot == 1",
    'device.attributes["elsewhere.example.com"].model == "a"',
    f'device.capacity["{GPU}"].memory.compareTo(quantity("1Gi")) >= 0',
    f"{OURS}.model < 1",
)
BROKEN: Final = ("device.unknown", "1 + ", '"text"', "device.driver == 1", "unknown")
"""They do not compile, so that the API server would refuse them."""


def selectors(world: World) -> None:
    """Selectors of requests and classes that are true, false or fail; some do not compile, which would be refused."""
    rng = world.rng
    world.fleet(2, 5, missing=rng.choice((0, 0.03, 0.1)))
    given = [*SELECTORS, *FAILING]

    for _, device in world.devices():
        if world.maybe(0.08):
            device["taints"] = [taint(world)]

    def some() -> list[str]:
        found = [rng.choice(given if world.maybe(0.4) else SELECTORS) for _ in range(rng.choice((0, 1, 1, 2)))]
        return [rng.choice(BROKEN)] if world.maybe(0.04) else found

    for name in ("c0", "c1"):
        world.device_class(name, *some())
    for _ in range(rng.choice((1, 1, 2))):
        requests = []
        for number in range(rng.choice((1, 2))):
            bodies = [
                ask(rng.choice(("c0", "c1", "gpu")), world.count(rng.choice((2, 4)), 0.15), some())
                for _ in range(rng.choice((1, 1, 2)))
            ]
            requests.append(first_of(f"r{number}", *bodies) if len(bodies) > 1
                            else {"name": f"r{number}", "exactly": bodies[0]})  # fmt: skip
        world.claim(requests, [world.constraint(requests)] if world.maybe(0.15) else [])
    world.hold(rng.choice((0, 0.1, 0.3)))


def binding(world: World) -> None:
    """Binding conditions, which make a pool come last, and devices that bind to the Node; their feature may be off."""
    rng = world.rng
    nodes = world.nodes(1, 3)
    for name in rng.sample(POOL_NAMES, rng.choice((1, 2, 3))):
        devices = []
        share = rng.choice((0, 0, 0.3, 0.9))
        for number in range(rng.randint(1, 3)):
            made = world.device(number)
            if world.maybe(share):
                made["bindingConditions"] = [f"ready-{name.replace('/', '-')}", "attached"][: rng.choice((1, 2))]
                made["bindingFailureConditions"] = ["failed"]
                if world.maybe(0.5):
                    made["bindsToNode"] = True
            elif world.maybe(0.1):
                made["bindsToNode"] = True
            devices.append(made)
        place = rng.choice(
            (EVERYWHERE, EVERYWHERE, here(rng.choice(nodes)), {"nodeSelector": where("zone", "In", "a")})
        )
        world.pool(GPU, name, place, devices)
    if world.maybe(0.2):
        world.problem.features["DeviceBindingAndStatus"] = False
    world.claim(world.requests(1, 2, most=2))
    world.hold(rng.choice((0, 0.2)))


def features(world: World) -> None:
    """A problem of another family with one feature off, or switched on."""
    rng = world.rng
    family, feature = rng.choice(
        (
            *((each, "") for each in ("everything", "limits", "lists", "sharing", "odd", "backtracking")),
            ("sharing", "PartitionableDevices"),
            ("admin", "AdminAccess"),
            ("alternatives", "PrioritizedList"),
            ("capacity", "ConsumableCapacity"),
            ("capacity", "FractionalCapacityRange"),
            ("sharing", "ConsumableCapacity"),
            ("binding", "DeviceBindingAndStatus"),
            ("taints", "DeviceTaints"),
            *([("partitions", "PartitionableDevices")] * 3),
            ("pools", "PartitionableDevices"),
            *([("mixed", "")] * 4),
        )
    )
    FAMILIES[family](world)
    if family == "odd" and not world.problem.claims:
        return
    chosen = feature or rng.choice(list(DEFAULTS))
    world.problem.features[chosen] = not DEFAULTS[chosen]
    if chosen == "ConsumableCapacity" and world.maybe(0.6):
        world.problem.features["FractionalCapacityRange"] = False
        for claim in world.problem.claims:
            for each in claim["spec"]["devices"].get("requests") or ():
                for body in each.get("firstAvailable") or [each["exactly"]]:
                    body.pop("capacity", None)


BASIC: Final = (
    *("counts", "everything", "alternatives", "constraints", "pools", "taints"),
    *("admin", "partitions", "claims", "held", "configs", "selectors"),
)


def basic(world: World) -> None:
    """Problems of other families with only the oldest features on."""
    family = world.rng.choice(BASIC)
    FAMILIES[family](world)
    for name in ("ConsumableCapacity", "FractionalCapacityRange", "DeviceBindingAndStatus"):
        world.problem.features[name] = False


def backtracking(world: World) -> None:
    """What the first choice spoils: searches of hundreds of steps, with and without a solution."""
    (node,) = world.nodes(1, 1)
    world.rng.choice((_chain, _groups, _late_root, _knapsack, _second_choice, _distinct, _packing, _packing))(
        world, node
    )


def _indexed(count: int, **attributes: Callable[[int], Object]) -> list[Object]:
    return [
        {
            "name": f"dev-{each}",
            "attributes": {"index": {"int": each}} | {key: of(each) for key, of in attributes.items()},
        }
        for each in range(count)
    ]


def _chain(world: World, node: str) -> None:
    """Each request accepts two or three neighbours, and the last one what the first one took."""
    rng = world.rng
    size = rng.randint(5, 8)
    world.pool(GPU, node, here(node), _indexed(size))
    accepted = [
        [each, (each + 1) % size, *([(each + 3) % size] if world.maybe(0.3) else [])] for each in range(size - 1)
    ]
    accepted.append(rng.choice(([0], [0, 1], [size - 1])))
    requests = [exactly(f"r{number}", "gpu", 1, [f"{OURS}.index in {each}"]) for number, each in enumerate(accepted)]
    world.claim(requests[: size // 2])
    world.claim(requests[size // 2 :])


def _groups(world: World, node: str) -> None:
    """Enough devices with one value, but in the last group only, or nowhere."""
    rng = world.rng
    want = rng.choice((3, 4))
    sizes = [want - 1] * rng.choice((2, 3)) + [want - (1 if world.maybe(0.4) else 0)]
    roots = [number for number, size in enumerate(sizes) for _ in range(size)]
    if world.maybe(0.5):
        rng.shuffle(roots)
    world.pool(GPU, node, here(node), _indexed(len(roots), root=lambda each: {"int": roots[each]}))
    first = [exactly("r0", "gpu", 1)] if world.maybe(0.5) else []
    match = {"matchAttribute": f"{GPU}/root", "requests": ["r1"]}
    world.claim([*first, exactly("r1", "gpu", want)], [match])


def _late_root(world: World, node: str) -> None:
    """A GPU and a NIC of one root; the roots of the first GPUs have no NIC left."""
    rng = world.rng
    gpus, nics = rng.randint(6, 14), rng.randint(2, 4)
    roots = rng.randint(4, 8)
    name = "example.com/root"
    world.pool(
        GPU,
        node,
        here(node),
        [{"name": f"gpu-{each}", "attributes": {name: {"int": each % roots}}} for each in range(gpus)],
    )
    world.pool(NIC, node, here(node), [
        {"name": f"nic-{each}", "attributes": {name: {"int": roots - 1 - each // 2 + (9 if world.maybe(0.2) else 0)}}}
        for each in range(nics)])  # fmt: skip
    for _ in range(rng.choice((1, 2))):
        given = [exactly("r0", "gpu", rng.choice((1, 1, 2))), exactly("r1", "nic", rng.choice((1, 1, 2)))]
        world.claim(given, [{"matchAttribute": name}])


def _knapsack(world: World, node: str) -> None:
    """Partitions of different sizes that fit into the counters in few ways."""
    rng = world.rng
    sizes = [rng.choice((2, 3, 4, 5)) for _ in range(rng.randint(6, 9))]
    total = rng.choice((sum(sizes[-3:]), sum(sizes[:4]) - 1, 9))
    devices = [
        {
            "name": f"dev-{each}",
            "attributes": {"size": {"int": size}},
            "consumesCounters": [consumes("c0", memory=size)],
        }
        for each, size in enumerate(sizes)
    ]
    world.pool(GPU, node, here(node), devices, [counter_set("c0", memory=total)])
    least = rng.choice((3, 4, 5))
    world.claim([exactly("r0", "gpu", rng.choice((2, 3))), exactly("r1", "gpu", 1, [f"{OURS}.size >= {least}"])])


def _second_choice(world: World, node: str) -> None:
    """The first alternatives take what a later request needs."""
    rng = world.rng
    size = rng.randint(5, 7)
    world.pool(GPU, node, here(node), _indexed(size, numa=lambda each: {"int": each % 2}))
    requests = [
        first_of(f"r{number}", *(ask("gpu", count, [f"{OURS}.index >= {rng.randrange(2)}"]) for count in (3, 2, 1)))
        for number in range(rng.choice((1, 2)))
    ]
    world.claim(requests, [{"matchAttribute": f"{GPU}/numa"}] if world.maybe(0.4) else [])
    world.claim([exactly("r0", "gpu", rng.choice((2, 3, 4)), [f"{OURS}.index < {rng.choice((3, 4, size))}"])])


def _packing(world: World, node: str) -> None:
    """Shares of different sizes that fit into the devices in few ways; the devices may need counters, once each."""
    rng = world.rng
    has_counters = world.maybe(0.4)
    size = rng.randint(2, 3)
    devices: list[Object] = [
        {
            "name": f"dev-{each}",
            "allowMultipleAllocations": True,
            "attributes": {"numa": {"int": each % 2}, "index": {"int": each}},
            "capacity": {"memory": {"value": str(rng.randint(8, 12))}},
            **({"consumesCounters": [consumes("c0", memory=rng.choice((2, 3)))]} if has_counters else {}),
        }
        for each in range(size)
    ]
    counters = [counter_set("c0", memory=rng.choice((4, 5, 6, 7)))] if has_counters else ()
    world.pool(GPU, node, here(node), devices, counters)
    for _ in range(rng.choice((1, 2))):
        requests = []
        for number in range(rng.choice((2, 2, 3))):
            wanted = {"requests": {"memory": str(rng.choice((2, 3, 4, 5, 6)))}}
            selectors_ = rng.choice(([], [], [], [f"{OURS}.index != {rng.randrange(size)}"]))
            requests.append(exactly(f"r{number}", "gpu", rng.choice((1, 1, 1, 2)), selectors_, capacity=wanted))
            if world.maybe(0.06):
                requests[-1]["exactly"]["adminAccess"] = True
        kind = rng.choice(("matchAttribute", "distinctAttribute"))
        among: Object = {kind: f"{GPU}/numa", "requests": world.some(world.names(requests), 1)}
        world.claim(requests, [among] if world.maybe(0.4) else [])
    world.hold(rng.choice((0, 0.2)))


def _distinct(world: World, node: str) -> None:
    """More devices than distinct values, or just as many."""
    rng = world.rng
    values = rng.randint(3, 5)
    world.pool(
        GPU,
        node,
        here(node),
        _indexed(rng.randint(values + 2, values + 5), root=lambda _: {"int": rng.randrange(values)}),
    )
    requests = [exactly("r0", "gpu", rng.choice((2, 3))), exactly("r1", "gpu", rng.choice((1, 2)))]
    world.claim(requests, [{"distinctAttribute": f"{GPU}/root"}])


def odd(world: World) -> None:
    """Odd values.  Some of them would be refused: unknown modes, selectors and constraints, names that do not exist."""
    rng = world.rng
    world.fleet(2, 5)
    requests = world.requests(1, 2, most=2)
    constraints_: list[Object] = []
    body = requests[0].get("exactly") or requests[0]["firstAvailable"][0]
    spec, device = rng.choice([*world.devices()])
    if world.maybe(0.1):
        world.problem.features["ListTypeAttributes"] = True
    match rng.randrange(28):
        case 0:
            requests = []
        case 1:
            body["deviceClassName"] = rng.choice(("missing", ""))
        case 2:
            body |= ask("gpu", rng.choice((0, 31, 32, 33, 2**31, 2**62)))
        case 3:
            body["allocationMode"] = rng.choice(("", "Some"))
        case 4:
            body["selectors"] = [{}]
        case 5:
            constraints_ = [{"requests": [requests[0]["name"]]}]
        case 6:
            constraints_ = [{"matchAttribute": f"{GPU}/numa", "requests": ["missing"]}]
        case 7:
            device["attributes"]["numa"] = {}
            constraints_ = [
                world.constraint(requests) | {rng.choice(("matchAttribute", "distinctAttribute")): f"{GPU}/numa"}
            ]
        case 8:
            body["derivedAttributes"] = [{"name": "example.com/a", "expression": "device.driver"}]
        case 9:
            spec["skipNodeOperations"] = ["*"]
        case 10:
            device["consumesCounters"] = [consumes("c0", memory=1) | {"compatibilityGroups": ["a"]}]
        case 11:
            selector = {
                "nodeSelectorTerms": [
                    *where("zone", "In", "a")["nodeSelectorTerms"],
                    *where("zone", "Exists")["nodeSelectorTerms"],
                ]
            }
            _per_device(spec, [selector])
        case 12:
            spec["sharedCounters"] = [counter_set("c0", memory=1)]
        case 13:
            device["consumesCounters"] = [consumes("c0", memory=1)]
        case 14:
            device["bindingConditions"] = []
        case 15:
            device["taints"] = [{"key": "a", "effect": ""}]
        case 16:
            del world.problem.slices[:]
        case 17:
            world.problem.claims.clear()
            return
        case 18:
            device["name"] = "Dev_Ä/1"
        case 19:
            world.device_class("unqualified", 'device.attributes["gpu"].model == "a"')
            body["deviceClassName"] = "unqualified"
        case 20:
            selectors_ = [where("zone", "In", "a", "b"), where("rank", "NotIn", "7"), where("zone", "In", "b", "a")]
            _per_device(spec, selectors_)
        case 21:
            _per_device(spec, [{"nodeSelectorTerms": []}])
        case 22:
            spec["pool"]["generation"] = 2**60
        case 23:
            device["capacity"] = {"memory": {"value": rng.choice(("0", "-1", "1n"))}}
        case 24:
            spec.pop("nodeName", None)
            spec["nodeName"] = ""
        case 25:
            if "exactly" in requests[0]:
                body["adminAccess"] = rng.choice((True, False))
        case 26:
            requests.append(dict(requests[0]))
        case 27:
            device["consumesCounters"] = [consumes("c0", memory=1)] * 2
            world.slice(
                GPU, spec["pool"]["name"], EVERYWHERE, 1, sharedCounters=[counter_set("c0", memory=rng.choice((1, 2)))]
            )
            for each in world.problem.slices:
                each["spec"]["pool"]["resourceSliceCount"] += each["spec"]["pool"]["name"] == spec["pool"]["name"]
            world.problem.slices[-1]["spec"]["pool"]["resourceSliceCount"] = spec["pool"]["resourceSliceCount"]
    world.claim(requests, constraints_)
    world.hold(rng.choice((0, 0.1)))


def _per_device(spec: Object, selectors_: Sequence[Object]) -> None:
    for key in ("nodeName", "allNodes", "nodeSelector"):
        spec.pop(key, None)
    spec["perDeviceNodeSelection"] = True
    for number, each in enumerate(spec["devices"]):
        each["nodeSelector"] = selectors_[number % len(selectors_)]


def mixed(world: World) -> None:
    """A little of everything at once."""
    rng = world.rng
    nodes = world.nodes(1, 3)
    places = [
        *map(here, nodes),
        *([EVERYWHERE] if world.maybe(0.4) else []),
        *([PER_DEVICE] if world.maybe(0.3) else []),
    ]
    sets = [counter_set("c0", memory=rng.choice((4, 8)))]
    for number, place in enumerate(places):
        with_counters = world.maybe(0.3)
        devices = []
        for each in range(rng.randint(2, 5)):
            made = world.device(each, rng.choice((0, 0, 0.05)))
            if world.maybe(0.12):
                made["taints"] = [taint(world)]
            if world.maybe(0.25):
                made |= {"allowMultipleAllocations": True, "capacity": {"memory": _capacity(world, UNITS[1])}}
            if with_counters and world.maybe(0.7):
                made["consumesCounters"] = [consumes("c0", memory=rng.choice((1, 2, 4)))]
            if world.maybe(0.06):
                made |= {"bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}
            if place == PER_DEVICE:
                made |= _device_place(world, nodes)
            devices.append(made)
        world.pool(rng.choice((GPU, GPU, NIC)), f"pool-{number}", place, devices, sets if with_counters else ())
    for _ in range(rng.choice((1, 1, 2))):
        requests = world.requests(1, 2, most=2, everything=0.05)
        for each in requests:
            for body in each.get("firstAvailable") or [each["exactly"]]:
                if world.maybe(0.2):
                    body["tolerations"] = [_toleration(world)]
                if world.maybe(0.12):
                    body["capacity"] = {"requests": {"memory": UNITS[1](rng.randint(1, 6))}}
                if "exactly" in each and world.maybe(0.06):
                    body["adminAccess"] = True
        config = [opaque(world)] if world.maybe(0.2) else []
        world.claim(requests, [world.constraint(requests)] if world.maybe(0.3) else [], config)
    world.hold(rng.choice((0, 0.1, 0.25)))


FAMILIES: Final[Mapping[str, Callable[[World], None]]] = {
    each.__name__: each
    for each in (
        *(counts, everything, alternatives, limits, constraints, lists, pools, taints, admin, partitions, capacity),
        *(sharing, claims, held, configs, selectors, binding, features, basic, backtracking, odd, mixed),
    )
}
UNLIMITED: Final = frozenset({"limits", "backtracking", "odd"})

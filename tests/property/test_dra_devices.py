"""ResourceSlices and DeviceTaintRules in any order: the inventory is that of the objects that are there."""

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tollbar.dra.inventory import Inventory, Pool
from tollbar.model.objects import Key, Object, key_of, spec
from tollbar.views import devices as declared
from tollbar.views.devices import dra_manager
from tollbar.views.lookup import filled

NODES: tuple[Object, ...] = tuple({"kind": "Node", "metadata": {"name": name}} for name in ("n1", "n2"))
OWN_TAINT: Object = {"key": "own", "effect": "NoSchedule"}
MALFORMED_SLICES: tuple[Object, ...] = (
    {"driver": "d1", "nodeName": "n1"},
    {"driver": "d1", "pool": {"name": "p1"}, "devices": [{}]},
    {"driver": "d1", "pool": {"name": "p1"}, "devices": [{"name": "x0", "capacity": {"m": {"value": "much"}}}]},
    {"driver": ["d1"], "pool": {"name": "p1"}},
)
MALFORMED_RULES: tuple[Object, ...] = (
    {"deviceSelector": {}},
    {"deviceSelector": {"driver": {}}, "taint": {"key": "bad"}},
    {"deviceSelector": {"pool": "p1"}, "taint": None},
)


def resource_slice(name: str, uid: int, body: Object) -> Object:
    return {"kind": "ResourceSlice", "metadata": {"name": name, "uid": f"{name}-{uid}"}, "spec": body}


def taint_rule(name: str, body: Object) -> Object:
    return {"kind": "DeviceTaintRule", "metadata": {"name": name, "uid": name}, "spec": body}


@st.composite
def bodies(draw: st.DrawFn) -> Object:
    if draw(st.integers(0, 7)) == 0:
        return draw(st.sampled_from(MALFORMED_SLICES))
    reach: Object = draw(st.sampled_from([{"nodeName": "n1"}, {"nodeName": "n2"}, {"allNodes": True}]))
    return {
        "driver": draw(st.sampled_from(["d1", "d2"])),
        **reach,
        "pool": {
            "name": draw(st.sampled_from(["p1", "p2"])),
            "generation": draw(st.sampled_from([1, 1, 2])),
            "resourceSliceCount": draw(st.sampled_from([1, 1, 2])),
        },
        "devices": [
            {"name": name, "taints": [OWN_TAINT]} if draw(st.booleans()) else {"name": name}
            for name in draw(st.lists(st.sampled_from(["x0", "x1", "x2"]), unique=True, max_size=3))
        ],
    }


@st.composite
def rules(draw: st.DrawFn) -> Object:
    if draw(st.integers(0, 7)) == 0:
        return draw(st.sampled_from(MALFORMED_RULES))
    selector = {
        field: draw(st.sampled_from(values))
        for field, values in (("driver", ["d1", "d2"]), ("pool", ["p1", "p2"]), ("device", ["x0", "x1"]))
        if draw(st.booleans())
    }
    taint = {"key": draw(st.sampled_from(["k1", "k2"])), "effect": "NoSchedule"}
    return {"taint": taint} if draw(st.integers(0, 5)) == 0 else {"deviceSelector": selector, "taint": taint}


slice_names, rule_names = st.sampled_from(["s1", "s2", "s3", "s4"]), st.sampled_from(["r1", "r2", "r3"])
steps = st.one_of(
    *[st.tuples(st.just("slice"), slice_names, st.integers(0, 1), bodies())] * 3,
    *[st.tuples(st.just("rule"), rule_names, rules())] * 2,
    st.tuples(st.just("remove"), st.one_of(slice_names, rule_names)),
    st.just(("relist",)),
)


def tainted(obj: Object, taint_rules: list[Object]) -> Object:
    """The slice with the taints of these rules, worked out one by one."""
    body = spec(obj)
    devices = []
    for device in body.get("devices") or ():
        added = []
        for rule in sorted(taint_rules, key=lambda rule: key_of(rule).name):
            selector = spec(rule).get("deviceSelector")
            place = {"driver": body["driver"], "pool": body["pool"]["name"], "device": device["name"]}
            if selector is not None and all(place[field] == value for field, value in selector.items()):
                added.append(spec(rule)["taint"])
        devices.append({**device, "taints": [*(device.get("taints") or ()), *added]})
    return {**obj, "spec": {**body, "devices": devices}}


def told(pool: Pool) -> Any:
    return pool.id, pool.state, [(device.id, device.taints, device.reach) for device in pool.devices], pool.order


def seen(inventory: Inventory, node: Object) -> list[Any]:
    return [told(pool) for pool in sorted(inventory.pools(node), key=lambda pool: pool.order)]


@settings(max_examples=settings.default.max_examples * 3)
@given(history=st.lists(steps, max_size=25), asked=st.sets(st.integers(0, 24)))
def test_the_inventory_is_that_of_the_objects_that_are_there(history: list[tuple[Any, ...]], asked: set[int]) -> None:
    caches = filled([], declared.KINDS)
    manager = dra_manager(caches)
    _, slices, _, taint_rules = manager.stores
    for number, step in enumerate(history):
        match step:
            case ("slice", name, uid, body):
                slices.apply(resource_slice(name, uid, body))
            case ("rule", name, body):
                taint_rules.apply(taint_rule(name, body))
            case ("remove", name):
                for store in (slices, taint_rules):
                    if (held := store.get(Key("", name))) is not None:
                        store.remove(held)
            case _:
                for store in (slices, taint_rules):
                    store.replace([{**obj, "spec": dict(spec(obj))} for obj in store.values()])
        if number not in asked:
            continue  # nothing is worked out for this state
        readable = [rule for rule in taint_rules.values() if spec(rule) not in MALFORMED_RULES]
        want = [tainted(obj, readable) for obj in slices.values() if spec(obj) not in MALFORMED_SLICES]
        fresh = Inventory(want)
        for node in NODES:
            assert seen(manager.inventory, node) == seen(fresh, node)
        malformed = Counter(
            spec(obj) in (*MALFORMED_SLICES, *MALFORMED_RULES) for obj in (*slices.values(), *taint_rules.values())
        )
        assert len(manager.malformed) == malformed[True]
        devices = {device.id for obj in want for device in fresh_devices(obj)}
        for device in devices:
            found, same = manager.inventory.device(device), fresh.device(device)
            assert (found and (found.id, found.reach)) == (same and (same.id, same.reach))


def fresh_devices(obj: Object) -> Any:
    return [device for node in NODES for pool in Inventory([obj]).pools(node) for device in pool.devices]

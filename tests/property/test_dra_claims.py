"""The manager's claims against a server with a history: whatever happens on the way, each allocation counts once.

The server keeps claims, which this process and another scheduler allocate, and which are deallocated, deleted and made
anew.  Watch events and answers to writes are delivered late; lists are taken and arrive later.  This process signals
what it is about to write, shares that, writes it, assumes the answer, and gives up.
"""

from collections import Counter
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tollbar.dra.claims import Refused
from tollbar.dra.manager import DraManager
from tollbar.dra.state import AllocatedState
from tollbar.model import claims
from tollbar.model.devices import DeviceId
from tollbar.model.objects import Key, Object, key_of, metadata, uid_of
from tollbar.views import devices as declared
from tollbar.views.devices import dra_manager
from tollbar.views.lookup import filled
from tollbar.wellknown import EXTENDED_RESOURCES_CLAIM

NAMES = ("a", "b", "c")
WHOLE, SHARED = ("w0", "w1"), ("s0",)
OFFERED = 10
CONSUMED = (4, 7)
"""Two small shares fit on a device, or one large one."""
SLICE: Object = {
    "kind": "ResourceSlice",
    "metadata": {"name": "slice", "uid": "slice"},
    "spec": {
        "driver": "d",
        "nodeName": "n",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "devices": [
            *({"name": name} for name in WHOLE),
            *(
                {"name": name, "allowMultipleAllocations": True, "capacity": {"m": {"value": str(OFFERED)}}}
                for name in SHARED
            ),
        ],
    },
}


def allocation(wanted: tuple[str, ...], consumed: int, author: str) -> Object:
    """Devices that begin with s are shared; `author` has no meaning for the manager."""
    results = []
    for name in wanted:
        result: Object = {"request": "r", "driver": "d", "pool": "p", "device": name}
        if name in SHARED:
            result |= {"shareID": f"share-{consumed}", "consumedCapacity": {"m": str(consumed)}}
        results.append(result)
    return {"devices": {"results": results}, "author": author}


def version_of(obj: Object) -> int:
    return int(metadata(obj)["resourceVersion"])


class Server:
    def __init__(self) -> None:
        self.version = 0
        self.claims: dict[str, Object] = {}
        self.events: list[tuple[str, Object]] = []

    def put(self, name: str, status: Object, *, uid: str = "") -> Object:
        self.version += 1
        before = self.claims.get(name)
        meta = {
            "namespace": "n",
            "name": name,
            "uid": uid or (uid_of(before) if before else f"{name}-{self.version}"),
            "resourceVersion": str(self.version),
        }
        now = {"kind": "ResourceClaim", "metadata": meta, "spec": {}, "status": status}
        self.claims[name] = now
        self.events.append(("MODIFIED" if before else "ADDED", now))
        return now

    def delete(self, name: str) -> None:
        before = self.claims.pop(name, None)
        if before:
            self.version += 1
            meta = {**metadata(before), "resourceVersion": str(self.version)}
            self.events.append(("DELETED", {**before, "metadata": meta}))


class World:
    """A manager, the server that it follows, and a model of what is pending."""

    def __init__(self) -> None:
        self.server = Server()
        stores = filled([SLICE], declared.KINDS)
        self.manager: DraManager = dra_manager(stores)
        self.claims = self.manager.claims
        self.store = self.manager.stores[0]
        self.seen = 0
        self.listed: tuple[list[Object], int] | None = None
        self.pending: dict[str, tuple[Key, Object]] = {}
        self.sharers: Counter[str] = Counter()
        self.answers: list[Object] = []
        """To writes of allocations that succeeded, which this process has not taken note of."""
        self.revision = self.claims.revision
        self.before = AllocatedState()
        self.number = 0

    # The server and other clients.

    def create(self, name: str) -> None:
        if name not in self.server.claims:
            self.server.put(name, {})

    def delete(self, name: str) -> None:
        self.server.delete(name)

    def recreate(self, name: str) -> None:
        self.server.delete(name)
        self.server.put(name, {})

    def touch(self, name: str) -> None:
        if claim := self.server.claims.get(name):
            self.server.put(name, {**claim["status"], "devices": [self.server.version]})

    def allocate_elsewhere(self, name: str, wanted: tuple[str, ...], consumed: int) -> None:
        if (claim := self.server.claims.get(name)) and claims.allocation(claim) is None:
            self.server.put(name, {**claim["status"], "allocation": allocation(wanted, consumed, "another")})

    def deallocate(self, name: str) -> None:
        if (claim := self.server.claims.get(name)) and claims.allocation(claim) is not None:
            self.server.put(name, {})

    # List and watch.

    def deliver(self) -> None:
        if self.listed is None:
            for kind, obj in self.server.events:
                if version_of(obj) > self.seen:
                    self.seen = version_of(obj)
                    (self.store.remove if kind == "DELETED" else self.store.apply)(obj)
                    self.store.resource_version = str(self.seen)
                    return

    def take_list(self) -> None:
        if self.listed is None:
            self.listed = (list(self.server.claims.values()), self.server.version)

    def receive_list(self) -> None:
        if self.listed is not None:
            objects, version = self.listed
            # As from the network: equal objects are not the same.
            self.store.replace([{**obj, "status": dict(obj["status"])} for obj in objects], str(version))
            self.seen, self.listed = version, None

    # This process.

    def signal(self, name: str, wanted: tuple[str, ...], consumed: int, stale: bool) -> None:
        """For the claim of the cache; `stale` is one that is gone from there."""
        cached = self.claims.get(Key("n", name))
        if cached is None:
            return
        if stale:
            cached = {**cached, "metadata": {**metadata(cached), "uid": "gone"}}
        self._signal({**cached, "status": {"allocation": allocation(wanted, consumed, "us")}})

    def signal_virtual(self, wanted: tuple[str, ...], consumed: int) -> None:
        self.number += 1
        meta = {"namespace": "n", "name": EXTENDED_RESOURCES_CLAIM, "uid": f"virtual-{self.number}"}
        self._signal({"metadata": meta, "status": {"allocation": allocation(wanted, consumed, "us")}})

    def _signal(self, claim: Object) -> None:
        uid, wanted = uid_of(claim), claim["status"]["allocation"]
        cached = {uid_of(each): claims.allocation(each) for each in self.store.values()}
        found = self.claims.signal_pending_allocation(claim)
        if uid in self.pending:
            assert found == (cached.get(uid) or self.pending[uid][1])
            self.sharers[uid] += 1
        elif uid not in cached and key_of(claim).name != EXTENDED_RESOURCES_CLAIM:
            assert isinstance(found, Refused)
            assert not found.collisions
        elif cached.get(uid) is not None:
            assert found == cached[uid]
        elif clashing := self.clashing(uid, wanted):
            assert isinstance(found, Refused)
            assert {each.device.device for each in found.collisions} == clashing
        else:
            assert found == wanted
            self.pending[uid] = key_of(claim), wanted
            self.sharers[uid] = 1

    def clashing(self, uid: str, wanted: Object) -> set[str]:
        """Devices that it cannot have: because of what counts, or would count if others took theirs back."""
        counting = self.counting()
        others = [(other, each) for other, each in counting.items() if other != uid]
        others += [
            (other, each) for other, (_, each) in self.pending.items() if each["devices"] != counting[other]["devices"]
        ]
        return {
            name
            for name in names(wanted)
            if any(name in names(each) for _, each in others)
            and (name in WHOLE or load(name, [wanted, *(each for _, each in others)]) > OFFERED)
        }

    def write(self, which: int) -> None:
        """Write what is pending for one of the claims, which works unless it is allocated or gone; once at a time."""
        uid = self._one_pending(which)
        if uid is None or self._awaits_answer(uid):
            return
        key, wanted = self.pending[uid]
        now = self.server.claims.get(key.name)
        if now is not None and uid_of(now) == uid and claims.allocation(now) is None:
            self.answers.append(self.server.put(key.name, {**now["status"], "allocation": wanted}))

    def create_virtual(self, which: int) -> None:
        uid = self._one_pending(which)
        if uid is not None and self.pending[uid][0].name == EXTENDED_RESOURCES_CLAIM:
            name = f"made-for-{uid}"
            answer = self.server.put(name, {})
            if which % 2:
                self.deliver()
            self.claims.created(uid, answer)
            self.pending[uid_of(answer)] = key_of(answer), self.pending.pop(uid)[1]
            self.sharers[uid_of(answer)] = self.sharers.pop(uid)

    def assume(self, which: int) -> None:
        """Take note of an answer: first assume it, then it is not pending any more."""
        if self.answers:
            answer = self.answers.pop(which % len(self.answers))
            self.claims.assume(answer)
            self.check()
            assert self.claims.remove_pending_allocation(uid_of(answer), force=True) == (uid_of(answer) in self.pending)
            self.pending.pop(uid_of(answer), None)

    def give_up(self, which: int) -> None:
        """One sharer gives up; none does while the outcome of a write is not known."""
        uid = self._one_pending(which)
        if uid is None or self._awaits_answer(uid):
            return
        self.sharers[uid] -= 1
        gone = not self.sharers[uid]
        key, _ = self.pending[uid]
        assert self.claims.remove_pending_allocation(uid) == gone
        if gone:
            del self.pending[uid]
            self.check()
            self.claims.restore(key)

    def _awaits_answer(self, uid: str) -> bool:
        return any(uid_of(answer) == uid for answer in self.answers)

    def _one_pending(self, which: int) -> str | None:
        return sorted(self.pending)[which % len(self.pending)] if self.pending else None

    # What has to hold.

    def counting(self) -> dict[str, Object]:
        shown = {uid_of(each): found for each in self.store.values() if (found := claims.allocation(each))}
        return {**{uid: each for uid, (_, each) in self.pending.items()}, **shown}

    def check(self) -> None:
        counting = self.counting()
        state = self.claims.state
        assert state == AllocatedState(counting.values())
        assert {uid: self.claims.allocation(uid) for uid in counting} == counting
        assert all(self.claims.pending_allocation(uid) == each for uid, (_, each) in self.pending.items())
        fresh = AllocatedState(counting.values())
        assert (self.claims.revision != self.revision) or fresh == self.before
        self.revision, self.before = self.claims.revision, fresh
        self.check_collisions(counting)

    def check_collisions(self, counting: dict[str, Object]) -> None:
        expected = colliding(counting)
        for uid, each in counting.items():
            collisions = self.claims.collisions_of(uid, each)
            found = {of.device.device: {holder.uid for holder in of.holders} for of in collisions}
            assert found == {name: uids - {uid} for name, uids in expected.items() if uid in uids}
        ours = {uid: each for uid, each in counting.items() if each["author"] == "us"}
        assert not colliding(ours)


def names(found: Object) -> set[str]:
    return {result["device"] for result in found["devices"]["results"]}


def load(name: str, allocations: list[Object]) -> int:
    return sum(
        int(result["consumedCapacity"]["m"])
        for each in allocations
        for result in each["devices"]["results"]
        if result["device"] == name
    )


def colliding(counting: dict[str, Object]) -> dict[str, set[str]]:
    """The claims on each device of which more is taken than there is."""
    holders = {name: {uid for uid, each in counting.items() if name in names(each)} for name in (*WHOLE, *SHARED)}
    return {
        name: uids
        for name, uids in holders.items()
        if len(uids) > 1 and (name in WHOLE or load(name, [counting[uid] for uid in uids]) > OFFERED)
    }


which = st.integers(0, 3)
name = st.sampled_from(NAMES)
wanted = st.sampled_from([("w0",), ("w1",), ("w0", "w1"), ("s0",), ("s0", "w1")])
consumed = st.sampled_from(CONSUMED)
mostly_not = st.sampled_from([False, False, False, True])
steps = st.one_of(
    st.tuples(st.just("create"), name),
    st.tuples(st.sampled_from(["delete", "recreate", "touch", "deallocate", "deallocate"]), name),
    st.tuples(st.just("allocate_elsewhere"), name, wanted, consumed),
    *[st.just(("deliver",))] * 3,
    st.just(("take_list",)),
    st.just(("receive_list",)),
    *[st.tuples(st.just("signal"), name, wanted, consumed, mostly_not)] * 3,
    st.tuples(st.just("signal_virtual"), wanted, consumed),
    *[st.tuples(st.sampled_from(["write", "assume"]), which)] * 2,
    st.tuples(st.sampled_from(["create_virtual", "give_up"]), which),
)
histories = st.lists(steps, min_size=10, max_size=60)

OVERRIDDEN: list[tuple[Any, ...]] = [
    ("create", "a"),
    ("create", "b"),
    ("deliver",),
    ("deliver",),
    ("signal", "a", ("w0",), 4, False),
    ("allocate_elsewhere", "a", ("w1",), 4),
    ("deliver",),
    ("signal", "b", ("w0",), 4, False),
    ("deallocate", "a"),
    ("deliver",),
]
"""What somebody else gives to a claim hides what is pending for it, for a while."""


@settings(max_examples=settings.default.max_examples * 4)
@example(history=OVERRIDDEN)
@given(history=histories)
def test_every_allocation_counts_once_from_its_decision_on(history: list[tuple[Any, ...]]) -> None:
    world = World()
    for action, *arguments in [("create", each) for each in NAMES[:2]] + [("deliver",)] * 2 + history:
        getattr(world, action)(*arguments)
        world.check()
    world.receive_list()
    while any(version_of(obj) > world.seen for _, obj in world.server.events):
        world.deliver()
        world.check()
    shown = [found for each in world.server.claims.values() if (found := claims.allocation(each))]
    known = {uid_of(each) for each in world.server.claims.values() if claims.allocation(each)}
    pending = [each for uid, (_, each) in world.pending.items() if uid not in known]
    assert world.claims.state == AllocatedState([*shown, *pending])
    assert all(isinstance(device, DeviceId) for device in world.claims.state.devices)

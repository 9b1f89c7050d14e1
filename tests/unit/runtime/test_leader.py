"""One elector against one Lease: what it writes, when it takes over, and how it lets go.

That there are never two leaders is `tests/property/test_elector.py`.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest
from fakes.clocks import EPOCH

from tollbar.model import timestamps
from tollbar.model.objects import Object
from tollbar.model.resources import LEASES, Resource
from tollbar.runtime.clock import Clock
from tollbar.runtime.errors import AlreadyExists, Conflict, NotFound, ServerError
from tollbar.runtime.leader import Elector
from tollbar.runtime.metrics import Metrics

pytestmark = pytest.mark.looptime


class Leases:
    """A Lease at an API server that answers at once, until it is `down`."""

    def __init__(self, spec: Object | None = None) -> None:
        self.lease: Object | None = None
        self.version = 0
        self.down = False
        self.delay = 0.0
        """Seconds until an answer comes."""
        if spec is not None:
            self._store({"metadata": {"name": "l", "namespace": "ns"}, "spec": spec})

    @property
    def spec(self) -> Object:
        assert self.lease is not None
        spec: Object = self.lease["spec"]
        return spec

    async def get(self, res: Resource, name: str, namespace: str = "") -> Object:
        await self._answer()
        assert (res, name, namespace) == (LEASES, "l", "ns")
        if self.lease is None:
            raise NotFound(404, "NotFound", "")
        return self.lease

    async def create(self, res: Resource, obj: Object, namespace: str = "") -> Object:
        await self._answer()
        assert (res, namespace) == (LEASES, "")
        if self.lease is not None:
            raise AlreadyExists(409, "AlreadyExists", "")
        return self._store(obj)

    async def replace(self, res: Resource, obj: Object) -> Object:
        await self._answer()
        assert res == LEASES
        if self.lease is None:
            raise NotFound(404, "NotFound", "")
        if obj["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", "")
        return self._store(obj)

    def take(self, holder: str) -> None:
        """Somebody else writes the Lease."""
        assert self.lease is not None
        self._store(self.lease | {"spec": self.spec | {"holderIdentity": holder}})

    async def _answer(self) -> None:
        await asyncio.sleep(self.delay)
        if self.down:
            raise ServerError(500, "InternalError", "down")

    def _store(self, obj: Object) -> Object:
        self.version += 1
        self.lease = obj | {"metadata": obj["metadata"] | {"resourceVersion": str(self.version)}}
        return self.lease


class Candidate:
    """An elector without jitter, and the work it would lead."""

    def __init__(
        self,
        leases: Leases,
        clock: Clock,
        work: Callable[[], Awaitable[None]] | None = None,
        identity: str = "me",
        annotations: dict[str, str] | None = None,
    ) -> None:
        self.metrics = Metrics()
        self.taken_over: list[Object] = []
        self.leading = asyncio.Event()
        self.log: list[tuple[str, float]] = []
        self._work = work
        self.elector = Elector(
            leases,
            name="l",
            namespace="ns",
            identity=identity,
            clock=clock,
            rng=NoJitter(),
            metrics=self.metrics,
            annotations=annotations,
            takes_over=self.taken_over.append,
            die=lambda: self._note("died"),
        )
        self.task = asyncio.create_task(self.elector.run(self.lead))

    @property
    def status(self) -> float | None:
        return self.metrics.registry.get_sample_value("leader_election_master_status", {"name": "l"})

    async def lead(self) -> None:
        self._note("leads")
        self.leading.set()
        try:
            await (self._work() if self._work else asyncio.Event().wait())
        finally:
            self._note("stopped")

    async def ended(self) -> BaseException | None:
        await asyncio.wait({self.task})
        return asyncio.CancelledError() if self.task.cancelled() else self.task.exception()

    def _note(self, what: str) -> None:
        self.log.append((what, round(asyncio.get_running_loop().time(), 1)))


class NoJitter(random.Random):
    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2


def at(seconds: float) -> str:
    return timestamps.micro_time(EPOCH + seconds)


def held_by(holder: str, seconds: int = 15) -> Object:
    return {
        "holderIdentity": holder,
        "leaseDurationSeconds": seconds,
        "acquireTime": at(-900),
        "renewTime": at(-600),
        "leaseTransitions": 7,
    }


async def test_the_first_leader_creates_the_lease(clock: Clock) -> None:
    leases = Leases()
    candidate = Candidate(leases, clock)
    await candidate.leading.wait()
    assert (leases.lease, candidate.status) == (
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "l", "namespace": "ns", "resourceVersion": "1"},
            "spec": {
                "holderIdentity": "me",
                "leaseDurationSeconds": 15,
                "acquireTime": at(0),
                "renewTime": at(0),
                "leaseTransitions": 0,
            },
        },
        1,
    )
    candidate.task.cancel()
    await candidate.ended()


async def test_the_lease_says_what_its_holder_does_and_keeps_what_others_say(clock: Clock) -> None:
    leases = Leases(held_by(""))
    assert leases.lease is not None
    leases.lease["metadata"]["annotations"] = {"theirs": "kept", "ours": "old"}
    before, says = leases.lease, {"ours": "new"}
    candidate = Candidate(leases, clock, annotations=says)
    await candidate.leading.wait()
    assert leases.lease["metadata"]["annotations"] == {"theirs": "kept", "ours": "new"}
    says["ours"] = "newer"
    await clock.sleep(3)
    assert leases.lease["metadata"]["annotations"] == {"theirs": "kept", "ours": "newer"}
    assert candidate.taken_over == [before]
    candidate.task.cancel()
    await candidate.ended()


async def test_a_renewal_moves_only_the_renew_time(clock: Clock) -> None:
    leases = Leases()
    candidate = Candidate(leases, clock)
    await asyncio.sleep(4.5)
    assert leases.spec == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": at(0),
        "renewTime": at(4),
        "leaseTransitions": 0,
    }
    candidate.task.cancel()
    await candidate.ended()


TAKEOVERS = {
    "a lease given back is taken at the next look": (held_by("", 1), 0, 8),
    "a lease of another is taken when it was not renewed for its duration": (held_by("other"), 15, 8),
    "the holder's own duration counts, not ours": (held_by("other", 5), 5, 8),
    "a lease of ours from before is taken at once": (held_by("me"), 0, 7),
}


@pytest.mark.parametrize(("spec", "when", "transitions"), TAKEOVERS.values(), ids=TAKEOVERS)
async def test_when_a_lease_is_taken_over(clock: Clock, spec: Object, when: float, transitions: int) -> None:
    leases = Leases(spec)
    candidate = Candidate(leases, clock)
    await candidate.leading.wait()
    assert (candidate.log, leases.spec["holderIdentity"], leases.spec["leaseTransitions"]) == (
        [("leads", when)],
        "me",
        transitions,
    )
    candidate.task.cancel()
    await candidate.ended()


async def test_a_renewed_lease_of_another_is_left_alone(clock: Clock) -> None:
    leases = Leases(held_by("other"))
    candidate = Candidate(leases, clock)
    for _ in range(20):
        await asyncio.sleep(10)
        leases.take("other")
    assert (candidate.log, candidate.status) == ([], 0)
    candidate.task.cancel()
    await candidate.ended()


async def test_cancellation_while_the_lease_is_being_taken_gives_it_back(clock: Clock) -> None:
    class Slow(Leases):
        async def create(self, res: Resource, obj: Object, namespace: str = "") -> Object:
            created = await super().create(res, obj, namespace)
            await asyncio.sleep(5)
            return created

    leases = Slow()
    candidate = Candidate(leases, clock)
    await asyncio.sleep(1)
    held = leases.spec["holderIdentity"]
    candidate.task.cancel()
    ended = await candidate.ended()
    assert (held, type(ended), candidate.log, leases.spec["holderIdentity"]) == ("me", asyncio.CancelledError, [], "")


async def test_cancellation_keeps_the_lease_until_the_work_has_ended_and_gives_it_back(clock: Clock) -> None:
    async def slow_to_stop() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(40)

    leases = Leases()
    candidate = Candidate(leases, clock, slow_to_stop)
    await candidate.leading.wait()
    candidate.task.cancel()
    await asyncio.sleep(39.9)
    assert (leases.spec["holderIdentity"], leases.spec["renewTime"]) == ("me", at(38))
    ended = await candidate.ended()
    assert (type(ended), candidate.log, candidate.status, leases.spec) == (
        asyncio.CancelledError,
        [("leads", 0.0), ("stopped", 40.0)],
        0,
        {
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
            "acquireTime": at(40),
            "renewTime": at(40),
            "leaseTransitions": 0,
        },
    )


async def test_work_that_fails_gives_the_lease_back_and_is_heard_of(clock: Clock) -> None:
    async def work() -> None:
        raise KeyError("x")

    leases = Leases()
    candidate = Candidate(leases, clock, work)
    ended = await candidate.ended()
    assert (type(ended), leases.spec["holderIdentity"]) == (KeyError, "")


async def test_work_that_ends_gives_the_lease_back(clock: Clock) -> None:
    async def work() -> None:
        await asyncio.sleep(1)

    leases = Leases()
    candidate = Candidate(leases, clock, work)
    assert (await candidate.ended(), leases.spec["holderIdentity"]) == (None, "")


async def test_without_an_answer_the_work_stops_ten_seconds_after_the_last_renewal(clock: Clock) -> None:
    leases = Leases()
    candidate = Candidate(leases, clock)
    await asyncio.sleep(5)
    leases.down = True  # the last renewal was sent at 4 s
    await asyncio.sleep(60)
    assert (candidate.task.done(), candidate.log, candidate.status, leases.spec["holderIdentity"]) == (
        False,
        [("leads", 0.0), ("stopped", 14.0)],
        0,
        "me",
    )
    candidate.task.cancel()
    await candidate.ended()


async def test_a_leader_may_write_until_its_work_is_to_stop_whatever_still_runs(clock: Clock) -> None:
    """A process that was suspended finds out by the time alone, before anything else runs."""
    leases = Leases()
    candidate = Candidate(leases, clock)
    before = candidate.elector.may_write
    await asyncio.sleep(5)
    leases.down = True  # the last renewal was sent at 4 s
    found = []
    for seconds in (0, 8.9, 0.1):
        await asyncio.sleep(seconds)
        found.append(candidate.elector.may_write)
    assert (before, found) == (False, [True, True, False])
    candidate.task.cancel()
    await candidate.ended()


async def test_after_an_outage_the_same_process_leads_again(clock: Clock) -> None:
    leases = Leases()
    candidate = Candidate(leases, clock)
    await asyncio.sleep(5)
    leases.down = True
    await asyncio.sleep(20.5)
    leases.down = False
    await asyncio.sleep(5)
    assert (candidate.log, candidate.status, leases.spec["holderIdentity"], leases.spec["leaseTransitions"]) == (
        [("leads", 0.0), ("stopped", 14.0), ("leads", 26.0)],
        1,
        "me",
        0,
    )
    candidate.task.cancel()
    await candidate.ended()
    assert candidate.log[3:] == [("stopped", 30.5)]


async def test_after_an_outage_another_leader_is_left_alone(clock: Clock) -> None:
    leases = Leases()
    candidate = Candidate(leases, clock)
    await asyncio.sleep(5)
    leases.down = True
    await asyncio.sleep(20.5)
    leases.take("other")
    leases.down = False
    await asyncio.sleep(14)
    assert (candidate.log, candidate.status, leases.spec["holderIdentity"]) == (
        [("leads", 0.0), ("stopped", 14.0)],
        0,
        "other",
    )
    candidate.task.cancel()
    await candidate.ended()


async def test_an_outage_is_a_line_when_it_begins_and_one_with_its_length_when_it_ends(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    leases = Leases()
    candidate = Candidate(leases, clock)
    with caplog.at_level("INFO"):
        await asyncio.sleep(5)
        leases.down = True
        await asyncio.sleep(20.5)
        leases.down = False
        await asyncio.sleep(5)
    said = [(record.message, getattr(record, "failures", 0)) for record in caplog.records]
    assert said == [
        ("became leader", 0),
        ("cannot renew the lease", 0),
        ("lost the lease, stopping the work", 0),
        ("calls about the lease succeed again", 11),
        ("became leader", 0),
    ]
    assert caplog.records[3].__dict__["seconds"] == 20.0
    candidate.task.cancel()
    await candidate.ended()


async def test_work_that_fails_while_it_is_stopped_is_heard_of(clock: Clock) -> None:
    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise KeyError("x")

    leases = Leases()
    candidate = Candidate(leases, clock, work)
    await asyncio.sleep(5)
    leases.down = True
    assert (type(await candidate.ended()), candidate.status) == (KeyError, 0)


async def test_cancellation_while_the_work_is_stopped_ends_the_process(clock: Clock) -> None:
    async def slow_to_stop() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(3)

    leases = Leases()
    candidate = Candidate(leases, clock, slow_to_stop)
    await asyncio.sleep(5)
    leases.down = True
    await asyncio.sleep(10)  # the work has been told to stop at 14 s
    candidate.task.cancel()
    assert (type(await candidate.ended()), candidate.log) == (
        asyncio.CancelledError,
        [("leads", 0.0), ("stopped", 15.0)],
    )


async def test_an_outage_shorter_than_that_is_survived(clock: Clock) -> None:
    leases = Leases()
    candidate = Candidate(leases, clock)
    await asyncio.sleep(5)
    leases.down = True
    await asyncio.sleep(7)
    leases.down = False
    await asyncio.sleep(30)
    assert candidate.log == [("leads", 0.0)]
    candidate.task.cancel()
    await candidate.ended()


@pytest.mark.parametrize(
    ("delay", "log"),
    [(4.9, [("leads", 0.0)]), (5.1, [("leads", 0.0), ("stopped", 14.0)])],
    ids=["each answer within half of the renew deadline", "none"],
)
async def test_the_lease_is_held_while_answers_come_within_half_of_the_renew_deadline(
    clock: Clock, delay: float, log: list[tuple[str, float]]
) -> None:
    leases = Leases()
    candidate = Candidate(leases, clock)
    await asyncio.sleep(5)
    leases.delay = delay
    await asyncio.sleep(100)
    assert candidate.log == log
    candidate.task.cancel()
    await candidate.ended()


async def test_work_that_does_not_stop_in_time_takes_the_process_with_it(clock: Clock) -> None:
    async def stubborn() -> None:
        end = clock.monotonic() + 100
        while clock.monotonic() < end:
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                continue

    leases = Leases()
    candidate = Candidate(leases, clock, stubborn)
    await asyncio.sleep(5)
    leases.down = True
    await candidate.ended()
    assert candidate.log[:2] == [("leads", 0.0), ("died", 18.5)]


async def test_what_is_under_way_may_finish_for_less_the_later_the_loss_is_noticed(clock: Clock) -> None:
    leases = Leases()
    candidate = Candidate(leases, clock)
    await asyncio.sleep(5)
    leases.down = True  # the last renewal was sent at 4 s
    found = []
    for seconds in (9, 1, 1.5, 4):
        await asyncio.sleep(seconds)
        found.append(round(candidate.elector.grace, 1))
    assert found == [2.5, 1.5, 0.0, 0.0]
    candidate.task.cancel()
    await candidate.ended()


async def test_work_that_stops_at_once_keeps_the_process_although_the_loss_is_noticed_late(clock: Clock) -> None:
    """As on a machine that is too busy to run this process for a while."""

    class Late:
        now, sleep, behind = clock.now, clock.sleep, 0.0

        def monotonic(self) -> float:
            return clock.monotonic() + self.behind

    leases, late = Leases(), Late()
    candidate = Candidate(leases, late)
    await asyncio.sleep(5)
    leases.down = True  # the last renewal was sent at 4 s
    await asyncio.sleep(8)
    late.behind = 4.6  # so that the loss is noticed at 18.6 s, when the work should have ended
    await asyncio.sleep(10)
    assert candidate.log == [("leads", 0.0), ("stopped", 14.0)]
    candidate.task.cancel()
    await candidate.ended()


async def test_a_lease_that_another_took_ends_the_work_at_the_next_renewal(clock: Clock) -> None:
    leases = Leases()
    candidate = Candidate(leases, clock)
    await asyncio.sleep(5)
    leases.take("usurper")
    await asyncio.sleep(10)
    assert (candidate.log, leases.spec["holderIdentity"]) == ([("leads", 0.0), ("stopped", 6.0)], "usurper")
    candidate.task.cancel()
    await candidate.ended()


EDITS: dict[str, Callable[[Leases], None]] = {
    "somebody annotates it": lambda leases: leases.take("me"),
    "somebody clears it": lambda leases: leases.take(""),
    "somebody deletes it": lambda leases: setattr(leases, "lease", None),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
async def test_an_edited_lease_is_held_on_to(clock: Clock, edit: Callable[[Leases], None]) -> None:
    leases = Leases()
    candidate = Candidate(leases, clock)
    await asyncio.sleep(5)
    edit(leases)
    await asyncio.sleep(30)
    assert (candidate.log, leases.spec["holderIdentity"], leases.spec["renewTime"]) == (
        [("leads", 0.0)],
        "me",
        at(34),
    )
    candidate.task.cancel()
    await candidate.ended()


async def test_a_standby_takes_over_within_a_retry_of_the_release(clock: Clock) -> None:
    leases = Leases()
    leader = Candidate(leases, clock)
    await leader.leading.wait()
    await asyncio.sleep(1)  # so that the standby looks at odd seconds
    standby = Candidate(leases, clock, identity="you")
    await asyncio.sleep(30.5)
    leader.task.cancel()
    await leader.ended()
    await standby.leading.wait()
    assert (leader.log, standby.log, leases.spec["leaseTransitions"]) == (
        [("leads", 0.0), ("stopped", 31.5)],
        [("leads", 33.0)],
        1,
    )
    standby.task.cancel()
    await standby.ended()

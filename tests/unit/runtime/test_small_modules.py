"""The small modules: resources, errors, limits, retry policies, clock and metrics."""

import asyncio
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from tollbar.model import resources
from tollbar.runtime import retry
from tollbar.runtime.clock import LoopClock, SystemClock
from tollbar.runtime.errors import (
    ApiError,
    Conflict,
    NotFound,
    ServerError,
    TooManyRequests,
    Unreachable,
)
from tollbar.runtime.limits import FEW, Pause, Slots, TokenBucket
from tollbar.runtime.metrics import TABLE, Metrics

PATHS = {
    "a core collection": (resources.PODS.path(), "/api/v1/pods"),
    "a namespace's collection": (resources.PODS.path("shop"), "/api/v1/namespaces/shop/pods"),
    "an object": (resources.PODS.path("shop", "web"), "/api/v1/namespaces/shop/pods/web"),
    "a subresource": (resources.PODS.path("shop", "web", "status"), "/api/v1/namespaces/shop/pods/web/status"),
    "a group": (resources.DEVICE_CLASSES.path("", "gpu"), "/apis/resource.k8s.io/v1/deviceclasses/gpu"),
    "a cluster-scoped kind ignores a namespace": (resources.NODES.path("shop", "n"), "/api/v1/nodes/n"),
    "a name that would leave its path": (
        resources.NODES.path("", "../secrets?x"),
        "/api/v1/nodes/..%2Fsecrets%3Fx",
    ),
}


@pytest.mark.parametrize(("got", "want"), PATHS.values(), ids=PATHS.keys())
def test_path(got: str, want: str) -> None:
    assert got == want


def test_an_object_of_a_namespaced_kind_needs_its_namespace() -> None:
    with pytest.raises(ValueError, match="Pod 'web' needs a namespace"):
        resources.PODS.path("", "web")


def test_api_versions() -> None:
    assert (resources.PODS.api_version, resources.LEASES.api_version) == ("v1", "coordination.k8s.io/v1")


def test_an_error_prints_a_part_of_a_long_message_and_keeps_all_of_it() -> None:
    error = ApiError(422, "Invalid", "x" * 10_000)
    assert (str(error), len(error.message)) == ("422 Invalid: " + "x" * 300 + "...", 10_000)


RETRIES: dict[str, tuple[retry.Policy, list[ApiError], int, list[float]]] = {
    "a read is repeated after no answer": (retry.READ, [Unreachable("x", method="GET")], 2, [0.0]),
    "a read by POST is repeated too": (retry.READ, [ServerError(500, "", "", method="POST")], 2, [0.0]),
    "a read that is refused is not": (retry.READ, [NotFound(404, "", "")], 1, []),
    "a 429 is repeated after the time asked for": (
        retry.WRITE,
        [TooManyRequests(429, "", "", method="POST", retry_after=7.0)],
        2,
        [7.0],
    ),
    "a patch is repeated after a 500": (retry.WRITE, [ServerError(500, "", "", method="PATCH")], 2, [0.0]),
    "a call for which the user's time is over is not repeated": (
        retry.READ,
        [Unreachable("x", method="GET", final=True)],
        1,
        [],
    ),
    "a POST is not repeated after a 500": (retry.WRITE, [ServerError(500, "", "", method="POST")], 1, []),
    "a POST is not repeated after no answer": (retry.WRITE, [Unreachable("x", method="POST")], 1, []),
    "a POST that never left is repeated": (retry.WRITE, [Unreachable("x", method="POST", sent=False)], 2, [0.0]),
    "a conflict is for the caller": (retry.WRITE, [Conflict(409, "", "", method="PUT")], 1, []),
    "five times and no more": (retry.WRITE, [ServerError(500, "", "", method="PUT")] * 9, 5, [0.0] * 4),
}


@pytest.mark.looptime
@pytest.mark.parametrize(("policy", "errors", "calls", "waits"), RETRIES.values(), ids=RETRIES.keys())
async def test_retry(policy: retry.Policy, errors: list[ApiError], calls: int, waits: list[float]) -> None:
    times: list[float] = []

    async def call() -> str:
        times.append(asyncio.get_running_loop().time())
        if len(times) <= len(errors):
            raise errors[len(times) - 1]
        return "done"

    outcome: object
    try:
        outcome = await policy(call)
    except ApiError as error:
        outcome = error
    made, slept = len(times), [later - earlier for earlier, later in pairwise(times)]
    want = "done" if calls > len(errors) else errors[calls - 1]
    # The jitter is at most five seconds on top of what the server asked for.
    asked = [round(second, 6) >= least and second <= least + 5 for second, least in zip(slept, waits, strict=True)]
    assert (outcome, made, asked) == (want, calls, [True] * len(waits))


async def test_a_token_bucket_fills_up_again(clock: Any) -> None:
    bucket = TokenBucket(2.0, 3, clock)
    for _ in range(5):
        await bucket.take()
    clock.time += 60
    for _ in range(4):
        await bucket.take()
    assert clock.slept == [0.5, 0.5, 0.5]


async def test_after_a_pause_tokens_are_free_at_once_at_the_same_rate(clock: Any) -> None:
    bucket = TokenBucket(2.0, 3, clock)
    for _ in range(3 + 8):
        await bucket.take(pause=2.0)
    assert clock.slept == [2.0, 2.0]


async def test_a_token_that_is_free_is_taken_and_none_is_waited_for(clock: Any) -> None:
    bucket = TokenBucket(2.0, 3, clock)
    burst = [bucket.take_free() for _ in range(5)]
    clock.time += 0.5
    later = [bucket.take_free() for _ in range(2)]
    assert (burst, later, clock.slept) == ([True, True, True, False, False], [True, False], [])
    clock.time += 0.5
    await bucket.take()
    assert (bucket.take_free(), clock.slept) == (False, [])


BUCKETS = {"no rate": (0.0, 1), "a negative rate": (-1.0, 1), "no burst": (1.0, 0)}


@pytest.mark.parametrize(("rate", "burst"), BUCKETS.values(), ids=BUCKETS.keys())
def test_a_token_bucket_refuses(rate: float, burst: int, clock: Any) -> None:
    with pytest.raises(ValueError, match="positive rate"):
        TokenBucket(rate, burst, clock)


async def test_a_pause_holds_until_the_last_extension(clock: Any) -> None:
    pause = Pause(clock)
    await pause.wait()
    pause.extend(2.0)
    pause.extend(5.0)
    pause.extend(1.0)
    await pause.wait()
    await pause.wait()
    assert clock.slept == [5.0]


SLOTS = {
    "calls that are answered at once share the first ones": (1000, 1024, 0.01, FEW, 1),
    "a burst that is over soon needs no more": (2 * FEW, 1024, 0.2, FEW, 1),
    "a slow server does not get more": (1000, 1024, 0.5, FEW, 9),
    "calls that hang hold up no others": (1000, 1024, 60.0, 16 * FEW, 65),
    "the limit holds": (300, 100, 10.0, 100, 32),
    "a limit below the first ones": (20, 10, 0.1, 10, 1),
}


@pytest.mark.looptime
@pytest.mark.parametrize("case", SLOTS)
async def test_as_many_calls_are_under_way_as_it_takes(case: str) -> None:
    calls, limit, seconds, most, within = SLOTS[case]
    slots, under_way, seen = Slots(limit, Pause(SystemClock())), 0, 0

    async def call() -> None:
        nonlocal under_way, seen
        async with slots:
            under_way += 1
            seen = max(seen, under_way)
            await asyncio.sleep(seconds)
            under_way -= 1

    async with asyncio.timeout(within), asyncio.TaskGroup() as tasks:
        for _ in range(calls):
            tasks.create_task(call())
    assert (seen <= most, slots.open) == (True, most)


@pytest.mark.looptime
async def test_after_a_refusal_calls_begin_with_few_again() -> None:
    """Those that are under way go on, and none begins before fewer than FEW are."""
    slots, under_way, begun = Slots(1024, Pause(SystemClock())), 0, list[int]()
    hanging, is_busy = asyncio.Event(), asyncio.Event()

    async def call(waits_for: asyncio.Event) -> None:
        nonlocal under_way
        async with slots:
            under_way += 1
            begun.append(under_way)
            await waits_for.wait()
            under_way -= 1

    async with asyncio.TaskGroup() as tasks:
        for _ in range(4 * FEW):
            tasks.create_task(call(hanging))
        await asyncio.sleep(10)
        before, slots_before = under_way, slots.open
        slots.refused()
        slots.refused()
        begun.clear()
        for _ in range(2 * FEW):
            tasks.create_task(call(is_busy))
        hanging.set()
        await asyncio.sleep(1)
        is_busy.set()
    assert (before, slots_before, slots.open, max(begun)) == (4 * FEW, 4 * FEW, FEW, FEW)


@pytest.mark.looptime
async def test_calls_that_wait_for_the_end_of_a_pause_do_not_hang() -> None:
    pause = Pause(SystemClock())
    slots = Slots(1024, pause)

    async def call() -> None:
        async with slots:
            await pause.wait()

    pause.extend(30)
    slots.refused()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(4 * FEW):
            tasks.create_task(call())
        await asyncio.sleep(29)
        open_then = slots.open
    assert open_then == FEW


@pytest.mark.looptime
async def test_callers_that_wait_when_the_server_refuses_are_let_in_although_the_others_hang() -> None:
    slots, hanging = Slots(2 * FEW, Pause(SystemClock())), asyncio.Event()
    entered: list[int] = []

    async def call(number: int) -> None:
        async with slots:
            entered.append(number)
            await hanging.wait()

    async with asyncio.TaskGroup() as tasks:
        for number in range(3 * FEW):
            tasks.create_task(call(number))
        await asyncio.sleep(10)
        slots.refused()
        await asyncio.sleep(10)
        assert (len(entered), slots.open) == (2 * FEW, 2 * FEW)
        hanging.set()
    assert entered == list(range(3 * FEW))


@pytest.mark.looptime
async def test_a_call_that_is_given_up_at_the_moment_when_it_is_let_in_leaves_its_slot() -> None:
    slots = Slots(1, Pause(SystemClock()))

    async def call() -> None:
        async with slots:
            await asyncio.sleep(1)

    first, second, third = (asyncio.create_task(call()) for _ in range(3))
    await first
    second.cancel()
    async with asyncio.timeout(5):
        await third
    assert second.cancelled()


@pytest.mark.looptime
async def test_a_call_that_is_given_up_just_before_its_turn_leaves_it_to_the_next() -> None:
    slots = Slots(1, Pause(SystemClock()))

    async def call() -> None:
        async with slots:
            pass

    async with slots:
        given_up, following = asyncio.create_task(call()), asyncio.create_task(call())
        await asyncio.sleep(1)
        given_up.cancel()
    async with asyncio.timeout(5):
        await following
    assert given_up.cancelled()


@pytest.mark.looptime
async def test_a_call_that_is_given_up_while_it_waits_takes_no_slot() -> None:
    slots = Slots(1, Pause(SystemClock()))
    async with slots:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1), slots:
                pass
    async with asyncio.timeout(1), slots:
        assert slots.open == 1


async def test_the_system_clock_runs_with_the_event_loop() -> None:
    clock = SystemClock()
    loop = asyncio.get_running_loop()
    before, there, after = loop.time(), clock.monotonic(), loop.time()
    await clock.sleep(-1)
    assert before <= there <= after
    assert abs(clock.now() - time.time()) < 60


def test_the_system_clock_runs_without_an_event_loop() -> None:
    before, there, after = time.monotonic(), SystemClock().monotonic(), time.monotonic()
    assert before <= there <= after


def test_metric_names_are_declared_once_and_well_formed() -> None:
    names = [row.name for row in TABLE]
    odd = [row.name for row in TABLE if (row.type == "counter") != row.name.endswith("_total")]
    bare = [row.name for row in TABLE if (row.type == "histogram") != bool(row.buckets)]
    assert (len(names), odd, bare) == (len(set(names)), [], [])


@pytest.mark.parametrize("row", TABLE, ids=[row.name for row in TABLE])
def test_every_declared_metric_is_exposed_under_its_name(row: Any, metrics: Metrics) -> None:
    metric = getattr(metrics, row.type)(row.name)
    child = metric.labels(*row.labels) if row.labels else metric
    {"counter": lambda: child.inc(), "gauge": lambda: child.set(1), "histogram": lambda: child.observe(1)}[row.type]()
    exposed = metrics.render().decode()
    assert f"# TYPE {row.name} {row.type}\n" in exposed
    assert all(f'{label}="{label}"' in exposed for label in row.labels)


MISUSES: dict[str, tuple[Callable[[Metrics], object], type[Exception]]] = {
    "an undeclared name": (lambda metrics: metrics.counter("tollbar_surprise_total"), KeyError),
    "a gauge as a counter": (lambda metrics: metrics.counter("tollbar_gated_pods"), TypeError),
    "a counter as a gauge": (lambda metrics: metrics.gauge("tollbar_relists_total"), TypeError),
}


@pytest.mark.parametrize(("call", "error"), MISUSES.values(), ids=MISUSES.keys())
def test_metrics_refuse(call: Callable[[Metrics], object], error: type[Exception], metrics: Metrics) -> None:
    with pytest.raises(error):
        call(metrics)


def test_a_gauge_is_computed_when_it_is_read(metrics: Metrics) -> None:
    cache = ["a"]
    metrics.gauge("tollbar_gated_pods").set_function(lambda: len(cache))
    cache.append("b")
    assert b"tollbar_gated_pods 2.0\n" in metrics.render()


def test_a_rule_takes_its_series_along(metrics: Metrics) -> None:
    metrics.counter("tollbar_rule_errors_total").labels("gone", "Budget").inc()
    metrics.counter("tollbar_rule_errors_total").labels("kept", "Budget").inc()
    metrics.counter("tollbar_tolerations_added_total").labels("gone", "late").inc()
    metrics.counter("tollbar_rule_matches_total").labels("gone").inc()
    metrics.gauge("tollbar_gated_pods").set(4)
    metrics.forget("rule", "gone")
    metrics.forget("rule", "never there")
    exposed = metrics.render()
    assert (b"gone" in exposed, b"kept" in exposed, b"tollbar_gated_pods 4.0" in exposed) == (False, True, True)


def test_a_process_exposes_only_what_it_measures(metrics: Metrics) -> None:
    assert metrics.render() == b""


@pytest.mark.looptime
async def test_monotonic_time_is_that_of_the_event_loop() -> None:
    loop = asyncio.get_running_loop()
    clocks = SystemClock(), LoopClock(loop)
    began = [each.monotonic() for each in clocks]
    await clocks[1].sleep(1000)
    assert [each.monotonic() for each in clocks] == [loop.time()] * 2
    assert [loop.time() - each for each in began] == [1000] * 2

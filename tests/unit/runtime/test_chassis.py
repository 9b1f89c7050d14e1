"""How processes start and stop, tested with real child processes: signals, failing services, hanging services."""

import os
import re
import signal
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import pytest
from unit.runtime.children import Children

PRELUDE = """
import asyncio, logging, os, signal, sys, threading, time
import kopf
from tollbar.runtime import chassis, log
from tollbar.runtime.service import Background, LeaderServices, ServiceError

log.configure("text", 0)

def say(*words):
    print(*words, flush=True)

async def turns():
    for _ in range(20):
        await asyncio.sleep(0)

TIMEOUT = 60.0

def leap(seconds):
    \"\"\"The clock of the event loop moves on.\"\"\"
    loop = asyncio.get_running_loop()
    now = loop.time
    loop.time = lambda: now() + seconds

class Deadline(threading.Thread):
    \"\"\"A timer that is over when somebody says so: a machine may be slow.\"\"\"
    over = threading.Event()
    def __init__(self, seconds, function, args):
        super().__init__(daemon=True)
        assert seconds in (TIMEOUT, 30.0)  # which is the default
        self.function, self.args = function, args
    def run(self):
        self.over.wait()
        self.function(*self.args)
    def cancel(self):
        pass

threading.Timer = Deadline

class Plain:
    def __init__(self, name, after=0.0):
        self.name, self.after = name, after
    async def run(self, stop):
        say("start", self.name)
        await stop.wait()
        await asyncio.sleep(self.after)
        say("stop", self.name)

class Failing(Plain):
    async def run(self, stop):
        say("start", self.name)
        await asyncio.sleep(0)
        raise ValueError("no such thing")

class Explaining(Plain):
    async def run(self, stop):
        await asyncio.sleep(0)
        raise ServiceError("cannot listen")

class Ending(Plain):
    async def run(self, stop):
        say("start", self.name)

class FailingToStop(Plain):
    async def run(self, stop):
        await stop.wait()
        raise ValueError("cannot stop")

class Hanging(Plain):
    \"\"\"Moves the clock past the time until which a hanging phase is waited for.\"\"\"
    async def run(self, stop):
        await stop.wait()
        leap(48)
        await asyncio.Event().wait()

class Stubborn(Plain):
    async def run(self, stop):
        await stop.wait()
        leap(48)
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                say("ignored", self.name)
                leap(6)

class Blocking(Plain):
    async def run(self, stop):
        await stop.wait()
        say("blocking", self.name)
        Deadline.over.set()
        time.sleep(1000)

class Latest(Plain):
    \"\"\"With it the time is over that the process has.\"\"\"
    async def run(self, stop):
        await super().run(stop)
        Deadline.over.set()

class Announcing(Plain):
    \"\"\"Says `up` once everything that was started before it has run.\"\"\"
    async def run(self, stop):
        await turns()
        say("up")
        await stop.wait()

def main(*phases):
    sys.exit(asyncio.run(chassis.run(phases, shutdown_timeout=TIMEOUT)))
"""


@dataclass(frozen=True)
class Ended:
    """How a child ended: its exit code, what it said, and the messages of its log from warnings on."""

    code: int
    said: list[str]
    logged: list[str] = field(default_factory=list)


class RunChild(Protocol):
    """Run a process until it is `ready`, send it the signals, each after the one before was noticed."""

    def __call__(self, body: str, *signals: signal.Signals, ready: str = "up") -> Ended: ...


@pytest.fixture(scope="module")
def run_child() -> Iterator[RunChild]:
    with Children(PRELUDE) as children:
        yield partial(_run, children)


def _run(children: Children, body: str, *signals: signal.Signals, ready: str = "up") -> Ended:
    said = []
    try:
        with children.start(textwrap.dedent(body)) as child:
            for number in signals:
                while (line := child.output.readline().strip()) != ready:
                    assert line, child.errors.read()
                    said.append(line)
                os.kill(child.pid, number)
                ready = "again"
            rest, errors = child.output.read(), child.errors.read()
    finally:
        code = children.exit_code()  # or the next test would get it
    logged = re.findall(r'^[WEF]\d.*?\] "(.*?)"', errors, re.MULTILINE)
    unexpected = [line for line in errors.splitlines() if not re.match(r"[IWEF]\d{4} ", line)]
    assert unexpected == []
    return Ended(code, said + rest.splitlines(), logged)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_phases_in_reverse_and_the_code_is_0(run_child: RunChild, number: signal.Signals) -> None:
    body = """
        main([Plain("lease")], [Plain("a", after=0.2), Plain("b")], [Announcing("last")])
    """
    assert run_child(body, number) == Ended(0, ["start lease", "start a", "start b", "stop b", "stop a", "stop lease"])


FAILURES = {
    "a service that raises": ("Failing", ["start bad", "stop first"]),
    "a service that returns before it is told to": ("Ending", ["start bad", "stop first"]),
}


@pytest.mark.parametrize(("kind", "said"), FAILURES.values(), ids=FAILURES)
def test_a_failing_service_ends_the_process_in_order_with_code_1(
    run_child: RunChild, kind: str, said: list[str]
) -> None:
    body = f"""main([Plain("first")], [{kind}("bad")])"""
    assert run_child(body) == Ended(1, ["start first", *said], ["service failed"])


@pytest.mark.parametrize(("kind", "stacks"), [("Explaining", 0), ("Failing", 1)])
def test_a_reason_that_tells_all_is_logged_without_a_stack_trace(run_child: RunChild, kind: str, stacks: int) -> None:
    body = f"""
    logging.getLogger().handlers[0].addFilter(lambda record: say("stack") if record.exc_info else True)
    main([{kind}("bad")])
    """
    assert run_child(body).said.count("stack") == stacks


def test_a_service_that_fails_to_stop_does_not_keep_the_others_from_stopping(run_child: RunChild) -> None:
    body = """main([Plain("first")], [FailingToStop("bad")], [Announcing("last")])"""
    assert run_child(body, signal.SIGTERM) == Ended(1, ["start first", "stop first"], ["service failed"])


def test_a_hanging_service_is_cancelled_and_leaves_the_first_phase_its_time(run_child: RunChild) -> None:
    body = """main([Plain("lease", after=0.1)], [Hanging("bad")], [Announcing("last")])"""
    assert run_child(body, signal.SIGTERM) == Ended(
        1, ["start lease", "stop lease"], ["service does not stop, cancelling it"]
    )


def test_a_service_that_ignores_cancellation_is_ended_with_the_process(run_child: RunChild) -> None:
    body = """main([Latest("lease")], [Stubborn("bad")], [Announcing("last")])"""
    assert run_child(body, signal.SIGTERM) == Ended(
        1,
        ["start lease", "ignored bad", "stop lease"],
        ["service does not stop, cancelling it", "not stopped in time, ending at once"],
    )


def test_a_service_that_blocks_the_event_loop_is_ended_with_the_process(run_child: RunChild) -> None:
    body = """main([Plain("lease")], [Blocking("bad")], [Announcing("last")])"""
    assert run_child(body, signal.SIGTERM) == Ended(
        1, ["start lease", "blocking bad"], ["not stopped in time, ending at once"]
    )


def test_a_second_signal_ends_the_process_at_once(run_child: RunChild) -> None:
    body = """
        class Slow(Plain):
            async def run(self, stop):
                await stop.wait()
                say("again")
                await asyncio.Event().wait()
        main([Plain("lease")], [Slow("slow")], [Announcing("last")])
    """
    assert run_child(body, signal.SIGTERM, signal.SIGTERM) == Ended(
        1, ["start lease"], ["second signal, ending at once"]
    )


def test_a_signal_during_the_start_stops_what_was_started(run_child: RunChild) -> None:
    body = """
        class Early(Plain):
            async def run(self, stop):
                os.kill(os.getpid(), signal.SIGTERM)
                await super().run(stop)
        main([Early("early")], [Plain("late")])
    """
    assert run_child(body) == Ended(0, ["start early", "start late", "stop late", "stop early"])


def test_what_was_made_before_still_runs_while_services_stop_and_afterwards(run_child: RunChild) -> None:
    body = """
        async def outer():
            async def client():
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    say("client cancelled")
                    raise
            own = asyncio.create_task(client())
            await asyncio.sleep(0)
            code = await chassis.run([[Plain("first", after=0.2)], [Announcing("last")]])
            say("client cancelled early" if own.cancelled() else "client alive")
            return code
        sys.exit(asyncio.run(outer()))
    """
    assert run_child(body, signal.SIGTERM) == Ended(
        0, ["start first", "stop first", "client alive", "client cancelled"]
    )


ELECTED = """
    async def elect(lead):
        try:
            work = asyncio.ensure_future(lead())
            await asyncio.wait({{work}})
            work.result()
        finally:
            work.cancel()
            await asyncio.wait({{work}})
            say("lease released")

    async def work():
        await turns()
        say("working")
        try:
            {work}
        finally:
            say("work ended")

    services = LeaderServices(elect, work)
    main([services.lease], [Plain("servers")], [services.work])
"""


def test_elected_work_stops_before_the_servers_and_the_lease_goes_last(run_child: RunChild) -> None:
    body = ELECTED.format(work="await asyncio.Event().wait()")
    assert run_child(body, signal.SIGTERM, ready="working") == Ended(
        0, ["start servers", "work ended", "stop servers", "lease released"]
    )


def test_elected_work_that_fails_ends_the_process(run_child: RunChild) -> None:
    body = ELECTED.format(work='raise ValueError("no")')
    assert run_child(body) == Ended(
        1, ["start servers", "working", "work ended", "lease released", "stop servers"], ["service failed"]
    )


def test_a_lost_lease_ends_the_work_which_begins_again_in_the_same_process(run_child: RunChild) -> None:
    body = """
        async def elect(lead):
            for _ in range(2):
                work = asyncio.ensure_future(lead())
                await turns()
                work.cancel()
                await asyncio.wait({work})
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
        async def work():
            say("work begins")
            try:
                await asyncio.Event().wait()
            finally:
                say("work ended")
        services = LeaderServices(elect, work)
        main([services.lease], [Plain("servers")], [services.work])
    """
    worked = ["work begins", "work ended"]
    assert run_child(body) == Ended(0, ["start servers", *worked, *worked, "stop servers"], [])


def test_a_standby_told_to_stop_never_starts_the_work(run_child: RunChild) -> None:
    body = """
        async def elect(lead):
            try:
                await stopping.wait()  # the lease becomes free while the later phases stop
                await lead()
            finally:
                say("lease released")
        async def work():
            say("working")
        class Freeing(Plain):
            async def run(self, stop):
                await stop.wait()
                stopping.set()
                await turns()
        async def outer():
            global stopping
            stopping = asyncio.Event()
            services = LeaderServices(elect, work)
            phases = [[services.lease], [Freeing("caches")], [services.work], [Announcing("last")]]
            return await chassis.run(phases)
        sys.exit(asyncio.run(outer()))
    """
    assert run_child(body, signal.SIGTERM) == Ended(0, ["lease released"])

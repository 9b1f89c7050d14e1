"""An outage of the API server in the log, and which failures are part of it."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from fakes.clocks import InstantClock

from tollbar.model import resources
from tollbar.runtime import outage as outage_module
from tollbar.runtime.errors import ServerError, Unreachable
from tollbar.runtime.outage import Outage

BEGINS = "the API server does not answer"
ENDS = "the API server answers again"
Script = Callable[[Outage, InstantClock], list[bool]]


def later(clock: InstantClock, seconds: float) -> None:
    clock.time += seconds


def hang(outage: Outage, clock: InstantClock) -> list[bool]:
    """64 calls under way when the server hangs; they time out after 15 s."""
    outage.answered()
    sent = clock.time - 0.2
    later(clock, 15)
    found = [outage.failed("no answer in time", sent) for _ in range(64)]
    later(clock, 5)
    outage.answered()
    outage.answered()
    found.append(outage.failed("reset", clock.time - 0.5))  # one that was sent before the end
    return sorted(set(found))


def refused(outage: Outage, clock: InstantClock) -> list[bool]:
    outage.answered()
    found = []
    for _ in range(3):
        found.append(outage.failed("refused", clock.time))
        later(clock, 1)
    found.append(outage.failed("503", None))
    outage.answered()
    return found


def one_of_many(outage: Outage, clock: InstantClock) -> list[bool]:
    sent = clock.time
    later(clock, 15)
    outage.answered()
    return [outage.failed("no answer in time", sent)]


SCRIPTS: dict[str, tuple[Script, list[bool], list[tuple[str, float, int]]]] = {
    "a server that hangs": (hang, [True], [(BEGINS, 0, 0), (ENDS, 20.2, 64)]),
    "a server that is down and answers with errors at first": (
        refused,
        [True] * 4,
        [(BEGINS, 0, 0), (ENDS, 3.0, 4)],
    ),
    "one call fails while others are answered": (one_of_many, [False], []),
    "a server error alone": (lambda outage, _: [outage.failed("500", None)], [False], []),
}


@pytest.mark.parametrize(("script", "parts", "lines"), SCRIPTS.values(), ids=SCRIPTS)
def test_an_outage_is_two_lines(
    script: Script, parts: list[bool], lines: list[Any], clock: InstantClock, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        found = script(Outage(clock), clock)
    said = [(r.message, getattr(r, "seconds", 0), getattr(r, "failures", 0)) for r in caplog.records]
    assert (found, said) == (parts, lines)


async def test_the_client_tells_which_of_its_failures_are_part_of_an_outage(
    server: Any, connect: Any, clock: InstantClock, caplog: pytest.LogCaptureFixture
) -> None:
    outage = Outage(clock)
    clients = [await connect(outage=outage) for _ in range(2)]
    server.others += [
        {"status": 500, "body": b""},
        {"chunks": (), "then": "cut", "headers": {}},
        {"status": 500, "body": b""},
        {"body": {}},
    ]
    errors: list[Any] = []
    with caplog.at_level(logging.INFO):
        for client in (*clients, clients[0]):
            with pytest.raises((ServerError, Unreachable)) as raised:
                await client.get(resources.PODS, "web", "shop")
            errors.append((type(raised.value), raised.value.in_outage, raised.value.level(logging.ERROR)))
        await clients[1].get(resources.PODS, "web", "shop")
    assert errors == [
        (ServerError, False, logging.ERROR),
        (Unreachable, True, logging.DEBUG),
        (ServerError, True, logging.DEBUG),
    ]
    assert [record.message for record in caplog.records if record.name == outage_module.__name__] == [BEGINS, ENDS]

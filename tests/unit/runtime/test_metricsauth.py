"""Who may read the metrics, with an API server that answers from a table."""

import asyncio
import ssl
from typing import Any

import aiohttp
import pytest
from unit.runtime.test_health import METRICS, PROBES, running

from tollbar.model.objects import Object
from tollbar.model.resources import Resource
from tollbar.runtime import metricsauth
from tollbar.runtime.clock import SystemClock
from tollbar.runtime.errors import Forbidden, Unreachable
from tollbar.runtime.health import Health
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.metricsauth import MetricsAuth

USERS = {"prometheus": True, "somebody": False}
"""Users, who are their own tokens, and whether each may get /metrics."""


class Answers:
    """The API server."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.error: Exception | None = None

    async def create(self, res: Resource, obj: Object, namespace: str = "") -> Object:
        self.asked.append(res.kind)
        if self.error is not None:
            raise self.error
        spec = obj["spec"]
        if res.kind == "TokenReview":
            known = spec["token"] in USERS
            user: Any = {"username": spec["token"], "groups": ["readers"]} if known else {}
            return {**obj, "status": {"authenticated": known, "user": user}}
        asks = spec["nonResourceAttributes"] == {"path": "/metrics", "verb": "get"} and spec["groups"] == ["readers"]
        return {**obj, "status": {"allowed": asks and USERS[spec["user"]]}}


@pytest.fixture
def server() -> Answers:
    return Answers()


ROWS = {
    "nothing is shown": ("", 401),
    "a password": ("Basic cHJvbTpw", 401),
    "an empty token": ("Bearer ", 401),
    "a token that nobody has": ("Bearer stranger", 401),
    "bytes that are no text, as the HTTP server decodes them": ("Bearer \udcff", 401),
    "a user without the right": ("Bearer somebody", 403),
    "a user with the right": ("Bearer prometheus", 200),
    "the scheme in other letters": ("bearer prometheus", 200),
}


@pytest.mark.parametrize(("authorization", "status"), ROWS.values(), ids=ROWS)
async def test_who_gets_in(server: Answers, clock: Any, authorization: str, status: int) -> None:
    assert (await MetricsAuth(server, clock).verdict(authorization, "/metrics")).status == status


@pytest.mark.parametrize(
    "error", [Unreachable("no route"), Forbidden(403, "Forbidden", "no right")], ids=["outage", "no right"]
)
async def test_nobody_gets_in_without_an_answer_and_the_next_one_is_asked_for(
    server: Answers, clock: Any, error: Exception
) -> None:
    tried = MetricsAuth(server, clock)
    server.error = error
    statuses = [(await tried.verdict("Bearer prometheus", "/metrics")).status]
    server.error = None
    statuses.append((await tried.verdict("Bearer prometheus", "/metrics")).status)
    assert statuses == [503, 200]


@pytest.mark.looptime
async def test_an_answer_is_kept_for_a_while(server: Answers, clock: Any) -> None:
    tried = MetricsAuth(server, clock)
    asked = []
    for user, passed in (("prometheus", 0), ("prometheus", 59), ("somebody", 0), ("somebody", 29), ("prometheus", 1)):
        await asyncio.sleep(passed)
        await tried.verdict(f"Bearer {user}", "/metrics")
        asked.append(len(server.asked))
    await asyncio.sleep(metricsauth.REFUSED_SECONDS)
    await tried.verdict("Bearer somebody", "/metrics")
    assert (asked, len(server.asked)) == ([2, 2, 4, 4, 6], 8)


@pytest.mark.looptime
async def test_who_waits_behind_reviews_that_hang_is_answered_in_time(clock: Any) -> None:
    class Hangs(Answers):
        async def create(self, res: Resource, obj: Object, namespace: str = "") -> Object:
            return await asyncio.Future()

    tried = MetricsAuth(Hangs(), clock)
    async with asyncio.timeout(30):
        found = await asyncio.gather(*(tried.verdict(f"Bearer {number}", "/metrics") for number in range(100)))
    assert {each.status for each in found} == {503}


async def test_an_answer_that_is_in_use_is_not_pushed_out_by_strangers(server: Answers, clock: Any) -> None:
    tried = MetricsAuth(server, clock)
    await tried.verdict("Bearer prometheus", "/metrics")
    for number in range(1100):
        await tried.verdict(f"Bearer stranger-{number}", "/metrics")
        await tried.verdict("Bearer prometheus", "/metrics")
    assert server.asked.count("SubjectAccessReview") == 1


async def test_what_strangers_send_is_bounded(server: Answers, clock: Any) -> None:
    tried = MetricsAuth(server, clock)
    for number in range(1100):
        await tried.verdict(f"Bearer stranger-{number}", "/metrics")
    await tried.verdict("Bearer stranger-1099", "/metrics")
    await tried.verdict("Bearer stranger-0", "/metrics")
    assert len(server.asked) == 1101


async def test_reviews_at_one_time_are_bounded(server: Answers, clock: Any) -> None:
    under_way, most = 0, 0
    answer = server.create

    async def slowly(res: Resource, obj: Object, namespace: str = "") -> Object:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return await answer(res, obj, namespace)

    server.create = slowly  # type: ignore[method-assign]
    tried = MetricsAuth(server, clock)
    await asyncio.gather(*(tried.verdict(f"Bearer stranger-{number}", "/metrics") for number in range(50)))
    assert (most, len(server.asked)) == (8, 50)


async def test_metrics_are_served_over_tls_to_those_who_may(server: Answers) -> None:
    health = Health(Metrics())
    probes, metrics = health.servers(PROBES, METRICS, MetricsAuth(server, SystemClock()))
    blind = ssl.create_default_context()
    blind.check_hostname, blind.verify_mode = False, ssl.CERT_NONE
    seen = []
    async with running(probes, metrics), aiohttp.ClientSession() as session:
        for token in ("stranger", "somebody", "prometheus"):
            url, shown = f"https://localhost:{metrics.port}/metrics", {"Authorization": f"Bearer {token}"}
            async with session.get(url, ssl=blind, headers=shown) as answer:
                seen.append((answer.status, await answer.text()))
        with pytest.raises(aiohttp.ClientError):
            await session.get(f"http://localhost:{metrics.port}/metrics")
    assert seen == [
        (401, "the API server does not know this token\n"),
        (403, "somebody may not get /metrics\n"),
        (200, ""),
    ]

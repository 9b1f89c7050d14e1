"""Decisions that ask the API server: what they get, and how much of it is in memory at one time."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, cast

import pytest

from tollbar.model.ask import Absence, Answers, Ask, Get
from tollbar.model.objects import Key, Object, key_of
from tollbar.model.resources import PODS, RESOURCE_CLAIMS, Resource
from tollbar.runtime import asking, pager
from tollbar.runtime.asking import AT_ONCE, Asker, TooMuch
from tollbar.runtime.errors import ApiError, Gone, NotFound, TooLong, TooManyRequests, error_from_status


def claim(name: str, length: int = 10) -> Object:
    return {"metadata": {"name": name, "note": "x" * length}, "spec": {"a": 1}}


class Whole(dict[str, Any]):
    """An object that counts how many like it are in memory."""

    there = 0
    most = 0

    def __init__(self, obj: Object) -> None:
        super().__init__(obj)
        Whole.there += 1
        Whole.most = max(Whole.most, Whole.there)

    def __del__(self) -> None:
        Whole.there -= 1


class Api:
    """Has claims of any name, and this list in pages."""

    def __init__(self, *pages: list[str] | Exception, length: int = 10) -> None:
        self.pages = list(pages)
        self.length = length
        self.calls: list[str] = []
        Whole.there = Whole.most = 0

    async def get(self, _resource: Resource, name: str, _namespace: str) -> Object:
        self.calls.append(f"get {name}")
        for _ in range(3):
            await asyncio.sleep(0)
        if name in ("gone", "unserved"):
            raise NotFound(404, "NotFound", "", {"name": name} if name == "gone" else {})
        found = Whole(claim(name, self.length))
        await asyncio.sleep(0)
        return found

    async def list(self, _resource: Resource, _namespace: str, *, limit: int, continue_: str, **_: Any) -> Object:
        self.calls.append(f"list {limit} {continue_}".strip())
        await asyncio.sleep(0)
        page = self.pages.pop(0)
        if isinstance(page, Exception):
            raise page
        more = "next" if self.pages else ""
        return {"metadata": {"continue": more}, "items": [Whole(claim(name)) for name in page]}


def asker(api: Any, reading: asyncio.Semaphore | None = None) -> Asker:
    return Asker(api, reading or asyncio.Semaphore(AT_ONCE))


def question(name: str, *keep: str) -> Get:
    return Get(RESOURCE_CLAIMS, Key("ml", name), frozenset(keep) or None)


def asking_for(*questions: Get) -> Callable[[Answers], Answers | Ask]:
    """A decision that asks for all of these, and answers what it got."""
    return lambda answers: answers or Ask(questions)


async def test_a_decision_has_what_it_keeps_and_whoever_learns_has_everything() -> None:
    learned: dict[str, Object] = {}

    def learn(asked: Get, answer: Any) -> None:
        learned[asked.key.name] = answer if isinstance(answer, Absence) else dict(answer)

    kept, all_of_it = question("a", "spec.a", "metadata.name"), question("b")
    gone, unserved = question("gone"), question("unserved")
    answers = await asker(Api()).decide(asking_for(kept, all_of_it, gone, unserved), learn)
    assert answers == {
        kept: {"metadata": {"name": "a"}, "spec": {"a": 1}},
        all_of_it: claim("b"),
        gone: Absence.OBJECT,
        unserved: Absence.KIND,
    }
    assert learned == {"a": claim("a"), "b": claim("b"), "gone": Absence.OBJECT, "unserved": Absence.KIND}


async def test_of_all_who_ask_in_a_process_few_have_an_object_whole_at_one_time() -> None:
    api, reading = Api(), asyncio.Semaphore(AT_ONCE)

    async def reads_whole(name: str) -> None:
        assert await asker(api, reading).read(question(name), lambda found: found == claim(name))

    decisions = [asking_for(*(question(f"{who}{number}", "spec") for number in range(9))) for who in "ab"]
    await asyncio.gather(
        *(asker(api, reading).decide(decision) for decision in decisions for _ in range(3)),
        *(reads_whole(name) for name in "xyz"),
    )
    assert (len(api.calls), Whole.most, Whole.there) == (2 * 3 * 9 + 3, AT_ONCE, 0)


async def test_another_reads_while_a_call_waits_to_be_repeated() -> None:
    """The server asks to wait longer than the test takes."""
    busy = TooManyRequests(429, "TooManyRequests", "", retry_after=60.0)

    class Busy(Api):
        async def get(self, resource: Resource, name: str, namespace: str) -> Object:
            found = await super().get(resource, name, namespace)
            if name == "busy":
                raise busy
            return found

        async def list(self, _resource: Resource, _namespace: str, **_: Any) -> Object:
            raise busy

    api, reading = Busy(), asyncio.Semaphore(AT_ONCE)
    waiting = [
        asyncio.create_task(asker(api, reading).read(question("busy"), lambda _: None)),
        asyncio.create_task(asking.each_list_item(lambda _: None, cast("Any", api), reading, PODS, "ml")),
    ]
    async with asyncio.timeout(60.0):
        assert await asker(api, reading).read(question("a"), lambda found: found) == claim("a")
    for task in waiting:
        assert not task.done()
        task.cancel()
    await asyncio.wait(waiting)


async def test_a_decision_whose_answers_take_too_much_memory_is_given_up_and_nothing_more_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asking, "MOST_BYTES", 50_000)
    api = Api(length=20_000)
    with pytest.raises(TooMuch):
        await asker(api).decide(asking_for(*(question(name) for name in "abcdef")))
    assert api.calls == ["get a", "get b", "get c"]
    few = await asker(api).decide(asking_for(*(question(name, "spec") for name in "abcdef")))
    assert len(few) == 6


async def test_what_others_answer_counts_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "MOST_BYTES", 50_000)

    async def many(_: str) -> tuple[Object, ...]:
        return tuple(claim(str(number)) for number in range(1000))

    client: Any = Api()
    with pytest.raises(TooMuch):
        await Asker(client, asyncio.Semaphore(AT_ONCE), {str: many}).decide(lambda _: Ask(("claims",)))


async def test_a_decision_that_asks_again_is_a_mistake() -> None:
    with pytest.raises(RuntimeError, match="asked again"):
        await asker(Api()).decide(lambda _: Ask((question("a"),)))


async def listed(api: Any) -> list[str]:
    taken: list[str] = []
    await asking.each_list_item(lambda obj: taken.append(key_of(obj).name), api, asyncio.Semaphore(1), PODS, "ml")
    return taken


async def test_of_a_list_one_page_is_in_memory() -> None:
    api = Api(["a", "b"], ["c", "d"], ["e"])
    assert (await listed(api), Whole.most, Whole.there) == (["a", "b", "c", "d", "e"], 2, 0)
    assert api.calls == ["list 10", "list 20 next", "list 40 next"]


class Stored:
    """Lists these objects as the client does, and writes down how many were asked for."""

    def __init__(self, *objects: Object) -> None:
        self.objects = objects
        self.limits: list[int] = []

    async def list(self, _: Resource, _namespace: str, *, limit: int, continue_: str, most: float, **__: Any) -> Object:
        self.limits.append(limit)
        begin = int(continue_ or 0)
        end = begin + limit
        more = str(end) if end < len(self.objects) else ""
        page: Object = {"metadata": {"continue": more}, "items": list(self.objects[begin:end])}
        if limit > 1 and len(json.dumps(page)) > most:
            raise TooLong
        return page


async def test_pages_grow_while_they_are_short_and_one_that_is_too_long_is_asked_for_with_fewer_objects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pager, "PAGE_TEXT", 5_000)
    small, large = claim("small"), claim("large", 4_000)
    api = Stored(*[small] * 70, *[large] * 4, *[small] * 30)
    assert await listed(api) == ["small"] * 70 + ["large"] * 4 + ["small"] * 30
    assert api.limits == [10, 20, 40, 40, 10, 2, *[1] * 5, 2, 4, 8, 16]


async def test_objects_that_are_nested_too_deeply_to_be_written_are_no_reason_for_larger_pages() -> None:
    nested: Object = {}
    for _ in range(300):
        nested = {"a": nested}
    api = Stored(*[{**claim("a"), "spec": nested}] * 30)
    await listed(api)
    assert api.limits == [10, 10, 10]


def expired(rest: str) -> ApiError:
    return error_from_status({"code": 410, "reason": "Expired", "metadata": {"continue": rest}})


async def test_a_list_whose_tokens_expire_goes_on_with_the_rest_as_it_is_by_then() -> None:
    api = Api(["a"], expired("rest"), ["b"], expired("end"), ["c"])
    assert await listed(api) == ["a", "b", "c"]
    assert api.calls == ["list 10", "list 20 next", "list 20 rest", "list 40 next", "list 40 end"]


@pytest.mark.parametrize(
    "api",
    [Api(expired("")), Api(["a"], expired("")), Api(["a"], expired("next"))],
    ids=["it never begins", "there is no other token", "it is the same token"],
)
async def test_a_list_that_cannot_go_on_is_an_error(api: Api) -> None:
    with pytest.raises(Gone):
        await listed(api)

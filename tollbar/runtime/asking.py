"""Reads from the API server what a decision needs beyond the caches, and repeats the decision until there is a plan.

Tenants say how much there is to read: a Pod may refer to a thousand claims or templates of which the caches have only
stubs, each as large as the API server stores them.  So what is read is in memory whole only within `Manager.reading`,
which lets in a few of all who read in a process, and of each answer a decision keeps what it needs (`Get.keep`).

Invariant: of all that a process reads here, it holds no more than `AT_ONCE` objects or pages whole, and for each
decision that waits `MOST_BYTES` of answers.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from tollbar.model.ask import Absence, Answers, Ask, Get, kept
from tollbar.model.objects import Key, Object, metadata
from tollbar.model.resources import Resource
from tollbar.runtime.client import Client
from tollbar.runtime.errors import ApiError, Gone, NotFound
from tollbar.runtime.retry import READ
from tollbar.runtime.store import footprint

P = TypeVar("P")
AT_ONCE: Final = 2
"""Objects or pages.  One of 1.5 MB of text, all short values, takes some 30 MB, most take kilobytes."""
MOST_BYTES: Final = 32 * 1024 * 1024
"""Of memory, for what a decision keeps of its answers: as much as one object can take."""
PAGES: Final = (10, 100)
"""Objects that are listed at once, and once more after the token of a list has expired."""
_NOTHING: Final[Mapping[type, Callable[[Any], Awaitable[Any]]]] = {}


class TooMuch(Exception):
    """What a decision asked for takes more memory than there is for one."""


def is_about(error: ApiError, key: Key) -> bool:
    """Whether a 404 means that this object does not exist; for a kind that is not served it names no object."""
    return bool(error.details.get("name") == key.name)


class Asker:
    """Answers `Get` questions; `others` are the functions for further types of questions.

    `reading` is what all who read in a process share (`Manager.reading`).
    """

    def __init__(
        self,
        client: Client,
        reading: asyncio.Semaphore,
        others: Mapping[type, Callable[[Any], Awaitable[Any]]] = _NOTHING,
    ) -> None:
        self._client = client
        self._reading = reading
        self._others = others

    async def decide(
        self,
        decision: Callable[[Answers], P | Ask],
        learn: Callable[[Any, Any], None] = lambda _question, _answer: None,
    ) -> P:
        """The plan.  `learn` is called with each question and its whole answer before the decision is made again.

        Raises ApiError when a call fails, TooMuch, and RuntimeError for a decision that only asks what was answered
        already.
        """
        answers: dict[Hashable, Any] = {}
        held = 0
        while isinstance(plan := decision(answers), Ask):
            questions = [question for question in plan.questions if question not in answers]
            if not questions:
                raise RuntimeError(f"asked again: {plan.questions}")
            for question in questions:
                answer = await self._answer(question, learn)
                held += footprint(answer) if isinstance(question, Get) and isinstance(answer, dict) else 0
                if held > MOST_BYTES:
                    raise TooMuch
                answers[question] = answer
        return plan

    @asynccontextmanager
    async def whole(self, question: Get) -> AsyncGenerator[Object | Absence, None]:
        """All of the object, for as long as the block runs: it should not keep it.  Raises ApiError."""
        async with self._reading:
            yield await self._get(question)

    async def _answer(self, question: Hashable, learn: Callable[[Any, Any], None]) -> Any:
        if not isinstance(question, Get):
            answer = await self._others[type(question)](question)
            learn(question, answer)
            return answer
        async with self.whole(question) as found:
            learn(question, found)
            return found if isinstance(found, Absence) or question.keep is None else kept(found, question.keep)

    async def _get(self, question: Get) -> Object | Absence:
        key = question.key
        try:
            found: Object = await READ(self._client.get, question.resource, key.name, key.namespace)
        except NotFound as error:
            return Absence.OBJECT if is_about(error, key) else Absence.KIND
        return found


async def each(
    take: Callable[[Object], None], client: Client, reading: asyncio.Semaphore, resource: Resource, namespace: str
) -> None:
    """Call `take` with every object of a list, of which one page is in memory at a time.  Raises ApiError.

    A list whose `continue` token expires starts over with larger pages, so some objects may come twice; Gone is raised
    where theirs expires too.
    """
    more: str | None = ""
    sizes = iter(PAGES)
    size = next(sizes)
    while more is not None:
        async with reading:
            try:
                more = await _take_page(take, client, resource, namespace, size, more)
            except Gone:
                larger = next(sizes, None)
                if not more or larger is None:
                    raise
                more, size = "", larger


async def _take_page(
    take: Callable[[Object], None], client: Client, resource: Resource, namespace: str, size: int, token: str
) -> str | None:
    """The token of the next page, None after the last one."""
    page: Object = await READ(client.list, resource, namespace, limit=size, continue_=token)
    for obj in page.get("items") or ():
        take(obj)
    return metadata(page).get("continue") or None

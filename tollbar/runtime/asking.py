"""Reads from the API server what a decision needs beyond the caches, and repeats the decision until there is a plan.

Tenants say how much there is to read: a Pod may refer to a thousand claims or templates of which the caches have only
stubs, each as large as the API server stores them.  So what is read is in memory whole only within a semaphore, and of
each answer a decision keeps what it needs (`Get.keep`).  It is `Manager.reading`, which lets in a few of all who read
in a process, or one beside it, which lets in one, for what must not wait for these or might keep them waiting.  Nobody
is within it between two attempts of a call, or while something is written.

Invariant: of all that a process reads within `Manager.reading`, it holds no more than `AT_ONCE` objects or pages whole,
where a page of more than one object has `PAGE_TEXT` bytes of text at most, and for each decision that waits
`MOST_BYTES` of answers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar

from tollbar.model.ask import Absence, Answers, Ask, Get, kept
from tollbar.model.objects import Key, Object
from tollbar.model.resources import Resource
from tollbar.runtime.client import Client
from tollbar.runtime.errors import ApiError, NotFound
from tollbar.runtime.footprint import footprint
from tollbar.runtime.pager import Paging
from tollbar.runtime.retry import READ

A = ParamSpec("A")
P = TypeVar("P")
T = TypeVar("T")
AT_ONCE: Final = 2
"""Objects or pages.  One of 1.5 MB of text, all short values, takes some 30 MB, most take kilobytes."""
MOST_BYTES: Final = 32 * 1024 * 1024
"""Of memory, for what a decision keeps of its answers: as much as one object can take."""
FIRST_PAGE: Final = 10
"""Objects that are listed at first."""
_NOTHING: Final[Mapping[type, Callable[[Any], Awaitable[Any]]]] = {}


class TooMuch(Exception):
    """What a decision asked for takes more memory than there is for one, with the answer to this question."""

    def __init__(self, question: Hashable) -> None:
        super().__init__(f"the answers to a decision take more than {MOST_BYTES} bytes of memory")
        self.question = question


async def read(
    reading: asyncio.Semaphore,
    take: Callable[[Any], T],
    call: Callable[A, Awaitable[Any]],
    *args: A.args,
    **kw: A.kwargs,
) -> T:
    """What `take` makes of the answer to this call, which is repeated as READ does; only then is the answer in memory.

    Another may read before the call is repeated.  Raises ApiError.
    """

    async def attempt() -> T:
        async with reading:
            return take(await call(*args, **kw))

    return await READ(attempt)


def is_about(error: ApiError, key: Key) -> bool:
    """Whether a 404 means that this object does not exist; for a kind that is not served it names no object."""
    return bool(error.details.get("name") == key.name)


class Asker:
    """Answers `Get` questions; `others` are the functions for further types of questions.

    `reading` is the semaphore within which objects are in memory whole.
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
                held += footprint(answer)
                if held > MOST_BYTES:
                    raise TooMuch(question)
                answers[question] = answer
        return plan

    async def read(self, question: Get, take: Callable[[Object | Absence], T]) -> T:
        """What `take` makes of all of the object, of which it should keep little.  Raises ApiError."""
        key = question.key
        try:
            return await read(self._reading, take, self._client.get, question.resource, key.name, key.namespace)
        except NotFound as error:
            return take(Absence.OBJECT if is_about(error, key) else Absence.KIND)

    async def _answer(self, question: Hashable, learn: Callable[[Any, Any], None]) -> Any:
        if not isinstance(question, Get):
            answer = await self._others[type(question)](question)
            learn(question, answer)
            return answer

        def take(found: Object | Absence) -> Object | Absence:
            learn(question, found)
            return found if isinstance(found, Absence) or question.keep is None else kept(found, question.keep)

        return await self.read(question, take)


async def each_list_item(
    take: Callable[[Object], None],
    client: Client,
    reading: asyncio.Semaphore,
    resource: Resource,
    namespace: str,
    *,
    label_selector: str = "",
) -> None:
    """Call `take` with every object of a list, of which one page is in memory at a time, as client-go's EachListItem.

    Pages become larger while their text is short, and one that is too long is asked for with fewer objects: large ones
    may come after any number of small ones.  However long it takes, no object comes twice (`tollbar.runtime.pager`).
    Raises ApiError.
    """

    def take_page(page: Object) -> None:
        for obj in page.get("items") or ():
            take(obj)
        paging.came(page)

    call = partial(read, reading, take_page, client.list, resource, namespace, label_selector=label_selector)
    paging = Paging(FIRST_PAGE)
    while not paging.ended:
        await paging.ask(call)

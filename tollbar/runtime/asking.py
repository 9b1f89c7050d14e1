"""Reads from the API server what a decision needs beyond the caches, and repeats the decision until there is a plan."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Any, Final, TypeVar

from tollbar.model.ask import Absence, Answers, Ask, Get, List
from tollbar.model.objects import Key, Object, controller_of
from tollbar.runtime import pager
from tollbar.runtime.client import Client
from tollbar.runtime.errors import ApiError, NotFound
from tollbar.runtime.retry import READ

P = TypeVar("P")
_NOTHING: Final[Mapping[type, Callable[[Any], Awaitable[Any]]]] = {}


def is_about(error: ApiError, key: Key) -> bool:
    """Whether a 404 means that this object does not exist; for a kind that is not served it names no object."""
    return bool(error.details.get("name") == key.name)


class Asker:
    """Answers `Get` and `List` questions; `others` are the functions for further types of questions."""

    def __init__(self, client: Client, others: Mapping[type, Callable[[Any], Awaitable[Any]]] = _NOTHING) -> None:
        self._client = client
        self._answering: dict[type, Callable[[Any], Awaitable[Any]]] = {Get: self._get, List: self._list, **others}
        self._running: dict[Hashable, asyncio.Task[Any]] = {}

    async def decide(
        self,
        decision: Callable[[Answers], P | Ask],
        learn: Callable[[Any, Any], None] = lambda _question, _answer: None,
    ) -> P:
        """The plan.  `learn` is called with each question and its answer before the decision is made again.

        Raises ApiError when a call fails, and RuntimeError for a decision that only asks what was answered already.
        """
        answers: dict[Hashable, Any] = {}
        while isinstance(plan := decision(answers), Ask):
            questions = [question for question in plan.questions if question not in answers]
            if not questions:
                raise RuntimeError(f"asked again: {plan.questions}")
            for question, answer in zip(questions, await asyncio.gather(*map(self._answer, questions)), strict=True):
                answers[question] = answer
                learn(question, answer)
        return plan

    async def _answer(self, question: Hashable) -> Any:
        answering = self._answering[type(question)]
        if not (isinstance(question, List) and question.shared):
            return await answering(question)
        running = self._running.get(question)
        if running is None:
            running = self._running[question] = asyncio.ensure_future(answering(question))
            running.add_done_callback(lambda _: self._running.pop(question))
        return await asyncio.shield(running)

    async def _get(self, question: Get) -> Object | Absence:
        key = question.key
        try:
            found: Object = await READ(self._client.get, question.resource, key.name, key.namespace)
        except NotFound as error:
            return Absence.OBJECT if is_about(error, key) else Absence.KIND
        return found

    async def _list(self, question: List) -> tuple[Object, ...]:
        every = pager.every(self._client, question.resource, question.namespace)
        return tuple([obj async for obj in every if question.owner in ("", (controller_of(obj) or {}).get("uid"))])

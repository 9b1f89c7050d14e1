"""What a decision answers when the caches cannot tell: questions that the API server has to answer first.

A decision gets the answers with its facts and is made again, until it is a plan.  A question is any frozen value; the
ones here are answered by `tollbar.runtime.asking.Asker` itself.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from tollbar.model.objects import Key, Object, is_stub, key_of
from tollbar.model.resources import Resource


class Absence(Enum):
    """Why there is no object."""

    OBJECT = "the API server has no such object"
    KIND = "the API server does not serve its kind"


@dataclass(frozen=True, slots=True)
class Get:
    """One object; the answer is the object, or an `Absence`."""

    resource: Resource
    key: Key


@dataclass(frozen=True, slots=True)
class List:
    """All objects of a kind in a namespace; the answer is a tuple.

    `owner` is the uid of their controlling owner, empty for all.  `shared`: the answer to the same question, which
    somebody else asked a moment ago and which is on its way, will do.
    """

    resource: Resource
    namespace: str
    owner: str = ""
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Ask:
    """Decide again with the answers to these."""

    questions: tuple[Hashable, ...]

    @property
    def is_needed(self) -> bool:
        """As of a plan: there is something to do."""
        return True


Answers: TypeAlias = Mapping[Hashable, Any]


def whole(known: Object | None, resource: Resource, answers: Answers) -> Object | Ask | None:
    """An object of this kind as the caches know it; where they have a stub of it, as the API server answers."""
    if known is None or not is_stub(known):
        return known
    question = Get(resource, key_of(known))
    if question not in answers:
        return Ask((question,))
    answer = answers[question]
    return answer if isinstance(answer, dict) else None

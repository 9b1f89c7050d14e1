"""What a decision answers when the caches cannot tell: questions that the API server has to answer first.

A decision gets the answers with its facts and is made again, until it is a plan.  A question is any frozen value; the
one here is answered by `tollbar.runtime.asking.Asker` itself.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

from tollbar.model.objects import Key, Object
from tollbar.model.resources import Resource


class Absence(Enum):
    """Why there is no object."""

    OBJECT = "the API server has no such object"
    KIND = "the API server does not serve its kind"


@dataclass(frozen=True, slots=True)
class Get:
    """One object; the answer is the object, or an `Absence`.

    Of the object the answer has what is at and below the paths `keep` (see `kept`), None for all of it.  That makes no
    other question.
    """

    resource: Resource
    key: Key
    keep: frozenset[str] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Ask:
    """Decide again with the answers to these."""

    questions: tuple[Hashable, ...]

    @property
    def is_needed(self) -> bool:
        """True, as for a plan by which there is something to do."""
        return True


Answers: TypeAlias = Mapping[Hashable, Any]


def kept(obj: Object, paths: Iterable[str]) -> Object:
    """What the object has at and below these dotted paths, which go through lists: `spec.containers.name`."""
    wanted: dict[str, Any] = {}
    for path in sorted(paths, reverse=True):  # what lies below another one first: the other has all of it
        branch = wanted
        *steps, last = path.split(".")
        for step in steps:
            branch = branch.setdefault(step, {})
        branch[last] = {}
    found: Object = _kept(obj, wanted)
    return found


def _kept(value: Any, wanted: Mapping[str, Any]) -> Any:
    if wanted and isinstance(value, list):
        return [_kept(each, wanted) for each in value]
    if wanted and isinstance(value, dict):
        return {name: _kept(value[name], below) for name, below in wanted.items() if name in value}
    return value

"""Wraps the functions that a gate class declares for a store, so that an exception in them does not stop the store.

Stores of one resource share a list and a watch, which call these functions for every object: an exception would stop
all of these stores, Tollbar's own included.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeAlias, TypeVar

from tollbar.model.objects import Object, key_of, uid_of
from tollbar.runtime.caches import Cached
from tollbar.runtime.projection import Keep

Failed: TypeAlias = Callable[[Object, Exception], None]
"""Called with the object and what was raised for it."""

T = TypeVar("T")

_identity: Final = Keep().stub
"""Of an object, as of one that is too large."""


def guarded(cached: Cached, failed: Failed) -> Cached:
    """The same store, without which the process is ready.

    If an index raises for an object, the object has no values in it; if `accepts` raises, it is not stored; if
    `project` raises, only its identity is kept, as for an object that is too large.
    """
    project, accepts, alike = cached.project, cached.accepts, cached.alike
    return replace(
        cached,
        project=project if isinstance(project, Keep) else _Guarded(project, _projected, _identity, failed),
        indexers={name: _Guarded(each, _values, lambda _: [], failed) for name, each in cached.indexers.items()},
        accepts=accepts and _Guarded(accepts, lambda _, answer: bool(answer), lambda _: False, failed),
        alike=alike and _Guarded(alike, _kind, lambda _: None, failed),
        optional=True,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Guarded(Generic[T]):
    """`theirs` is what the class declares, `taken` checks what it returned for an object; equal to `theirs`."""

    theirs: Callable[[Object], Any]
    taken: Callable[[Object, Any], T]
    otherwise: Callable[[Object], T]
    failed: Failed

    def __call__(self, obj: Object) -> T:
        try:
            return self.taken(obj, self.theirs(obj))
        except Exception as error:  # whatever code of others raises
            self.failed(obj, error)
            return self.otherwise(obj)

    def __eq__(self, other: object) -> bool:
        return self.theirs == (other.theirs if isinstance(other, _Guarded) else other)

    def __hash__(self) -> int:
        return hash(self.theirs)


def _projected(obj: Object, projected: Object) -> Object:
    if (key_of(projected), uid_of(projected)) != (key_of(obj), uid_of(obj)):
        raise ValueError("the projection drops the object's name, namespace or uid")
    return projected


def _values(_: Object, values: Iterable[Hashable]) -> list[Hashable]:
    return list(dict.fromkeys(values))


def _kind(_: Object, kind: Hashable) -> Hashable:
    hash(kind)
    return kind

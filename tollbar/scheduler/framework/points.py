"""The extension points by name, and the plugins of one profile at each of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, Final

from tollbar.scheduler.framework import interface


class Point(Enum):
    """An extension point, or a part of one; the values are upstream's names, which metrics show."""

    PRE_ENQUEUE = "PreEnqueue"
    QUEUE_SORT = "QueueSort"
    PRE_FILTER = "PreFilter"
    PRE_FILTER_ADD_POD = "PreFilterExtensionAddPod"
    PRE_FILTER_REMOVE_POD = "PreFilterExtensionRemovePod"
    FILTER = "Filter"
    POST_FILTER = "PostFilter"
    PRE_SCORE = "PreScore"
    SCORE = "Score"
    NORMALIZE_SCORE = "ScoreExtensionNormalize"
    RESERVE = "Reserve"
    UNRESERVE = "Unreserve"
    PERMIT = "Permit"
    PRE_BIND_PRE_FLIGHT = "PreBindPreFlight"
    PRE_BIND = "PreBind"
    BIND = "Bind"
    POST_BIND = "PostBind"

    __hash__ = object.__hash__
    """There is one object for each point; the hash of an Enum is a call of Python code."""


INTERFACES: Final[Mapping[str, type]] = {
    "pre_enqueue": interface.PreEnqueue,
    "queue_sort": interface.QueueSort,
    "pre_filter": interface.PreFilter,
    "filter": interface.Filter,
    "post_filter": interface.PostFilter,
    "pre_score": interface.PreScore,
    "score": interface.Score,
    "reserve": interface.Reserve,
    "permit": interface.Permit,
    "pre_bind": interface.PreBind,
    "bind": interface.Bind,
    "post_bind": interface.PostBind,
}
"""The points that a profile configures, by the field of `Plugins`."""


@dataclass(frozen=True, slots=True)
class Plugins:
    """The plugins at each point in their order; `weights` are those of Score plugins by name."""

    pre_enqueue: tuple[interface.PreEnqueue, ...] = ()
    queue_sort: tuple[interface.QueueSort, ...] = ()
    pre_filter: tuple[interface.PreFilter, ...] = ()
    filter: tuple[interface.Filter, ...] = ()
    post_filter: tuple[interface.PostFilter, ...] = ()
    pre_score: tuple[interface.PreScore, ...] = ()
    score: tuple[interface.Score, ...] = ()
    reserve: tuple[interface.Reserve, ...] = ()
    permit: tuple[interface.Permit, ...] = ()
    pre_bind: tuple[interface.PreBind, ...] = ()
    bind: tuple[interface.Bind, ...] = ()
    post_bind: tuple[interface.PostBind, ...] = ()
    weights: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, *plugins: object, weights: Mapping[str, int] | None = None) -> "Plugins":
        """Each plugin at every point that it implements, with weight 1 unless given."""
        at: dict[str, Any] = {
            point: tuple(each for each in plugins if isinstance(each, kind)) for point, kind in INTERFACES.items()
        }
        return cls(**at, weights={each.name: 1 for each in at["score"]} | dict(weights or {}))

    def all(self) -> dict[str, interface.Plugin]:
        """Every plugin once, by name."""
        points: Iterable[tuple[interface.Plugin, ...]] = (
            getattr(self, each.name) for each in fields(self) if each.name in INTERFACES
        )
        return {plugin.name: plugin for plugins in points for plugin in plugins}

"""NodeMetadata: Nodes score by a number or a time in one of their labels or annotations.

Arguments:

    metadataKey: example.com/rank     # the name of the label or annotation; required
    metadataSource: Label             # or Annotation
    metadataType: Number              # or Timestamp, in RFC 3339
    scoringStrategy: Highest          # or Lowest; of timestamps Newest, which is the default, or Oldest

The best Node gets 100 and the worst 1, with the others in between in proportion.  A Node without a value, or with one
that cannot be read, gets 0.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from tollbar.model import timestamps
from tollbar.model.objects import Object, annotations_of, labels_of
from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.handle import Handle
from tollbar.scheduler.framework.interface import MAX_SCORE, Arguments, Scores

T = TypeVar("T")

_FIELDS: Final = {"metadataKey", "metadataSource", "metadataType", "scoringStrategy"}
_SOURCES: Final[Mapping[str, Callable[[Object], dict[str, str]]]] = {"Label": labels_of, "Annotation": annotations_of}
_TYPES: Final[Mapping[str, tuple[Callable[[str], float], Mapping[str, int]]]] = {
    "Number": (float, {"Highest": 1, "Lowest": -1}),
    "Timestamp": (timestamps.parse, {"Newest": 1, "Oldest": -1}),
}
_SCALE: Final = 1000
"""Scores are whole numbers: they count thousandths."""
_LARGEST: Final = 10**15
_NONE: Final = -(2**63)
"""The score of a Node without a value, before normalisation: the least that there is."""


class NodeMetadata:
    name = "NodeMetadata"

    def __init__(self, args: Arguments, handle: Handle) -> None:
        if unknown := sorted(args.keys() - _FIELDS):
            raise ValueError(f"unknown fields: {', '.join(unknown)}")
        key = args.get("metadataKey")
        if not isinstance(key, str) or not key:
            raise ValueError("metadataKey: must be the name of a label or annotation")
        self._key = key
        self._values = _choice("metadataSource", args.get("metadataSource", "Label"), _SOURCES)
        self._number, strategies = _choice("metadataType", args.get("metadataType", "Number"), _TYPES)
        self._direction = _choice("scoringStrategy", args.get("scoringStrategy", next(iter(strategies))), strategies)

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """The value itself; `normalize_score` compares those of all Nodes."""
        try:
            value = round(self._number(self._values(node.node or {})[self._key]) * _SCALE)
        except (KeyError, ValueError, OverflowError):
            return _NONE
        return self._direction * value if abs(value) <= _LARGEST else _NONE

    def normalize_score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo], scores: Scores) -> None:
        is_known = scores != _NONE
        known = scores[is_known]
        scores[:] = 0
        if len(known):
            worst = known.min()
            scores[is_known] = 1 + (known - worst) * (MAX_SCORE - 1) // (known.max() - worst or 1)


def _choice(field: str, given: object, choices: Mapping[str, T]) -> T:
    """What a field's value stands for.  ValueError if it is none of the choices."""
    if not isinstance(given, str) or given not in choices:
        raise ValueError(f"{field}: must be {' or '.join(choices)}, not {given!r}")
    return choices[given]

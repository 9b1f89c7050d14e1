"""The matrix of Pods and Nodes: which plugin of the scheduler rejects which Node first, for whom.

Nodes that are alike for all Pods of the matrix share a column, so that thousands of Nodes need few.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tollbar.cli.page.values import Cell, Column, Mark, Matrix, MatrixRow
from tollbar.cli.simulation.verdicts import Rejected
from tollbar.model.texts import counted

ROWS: Final = 60
COLUMNS: Final = 48
_LETTERS: Final = {
    "TaintToleration": "T",
    "DynamicResources": "D",
    "NodeResourcesFit": "R",
    "NodeAffinity": "A",
    "NodeUnschedulable": "U",
    "NodePorts": "P",
    "PodTopologySpread": "S",
    "InterPodAffinity": "I",
    "NodeName": "N",
    "VolumeBinding": "V",
    "VolumeRestrictions": "V",
    "VolumeZone": "V",
    "NodeVolumeLimits": "V",
}
_OTHER: Final = "X"
_PLACED: Final = Mark("●", "placed", "Pods got this Node")
_FITS: Final = Mark("○", "fits", "fits")
_UNSEEN: Final = Mark("–", "unseen", "not looked at")


@dataclass(frozen=True, slots=True)
class Row:
    """Pods with equal outcomes: on which Nodes how many are, and what else is known of Nodes.

    `id` is that of their row of the page.
    """

    id: str
    label: str
    answer: str = ""
    on: Mapping[str, int] = field(default_factory=dict)
    verdicts: Mapping[str, Rejected | None] | None = None
    """By Node: why it was rejected, None for one that fits.  Without any, no Node was looked at."""


def matrix(rows: Sequence[Row], nodes: Sequence[str]) -> Matrix | None:
    """Of the first rows, None without any; the Nodes are those of the cluster, in the order in which they are shown."""
    if not rows or not nodes:
        return None
    shown = rows[:ROWS]
    alike: dict[tuple[object, ...], list[str]] = {}
    for name in nodes:
        key = tuple((row.on.get(name, 0), _verdict(row, name)) for row in shown)
        alike.setdefault(key, []).append(name)
    groups = sorted(alike.items(), key=lambda item: not any(placed for placed, _ in item[0]))  # type: ignore[misc]
    kept = [names for _, names in groups[:COLUMNS]]
    marked = [[_marked(row, names[0]) for names in kept] for row in shown]
    cells = [tuple(Cell(mark.letter, mark.tone, text) for mark, text in found) for found in marked]
    used = Counter(mark for found in marked for mark, _ in found)
    return Matrix(
        columns=tuple(Column(names[0], len(names)) for names in kept),
        rows=tuple(MatrixRow(row.id, row.label, row.answer, found) for row, found in zip(shown, cells, strict=True)),
        legend=tuple(mark for mark, _ in used.most_common()),
        left_out=_left_out(len(rows) - len(shown), groups[COLUMNS:]),
    )


def _verdict(row: Row, node: str) -> object:
    return _UNSEEN if row.verdicts is None else row.verdicts.get(node, _UNSEEN)


def _marked(row: Row, node: str) -> tuple[Mark, str]:
    """The mark of a cell, and the whole text; a mark names the plugin that rejects the Node."""
    if count := row.on.get(node):
        return _PLACED, f"{counted(count, 'Pod')} got this Node"
    found = _verdict(row, node)
    if found is None:
        return _FITS, _FITS.text
    if not isinstance(found, Rejected):
        return _UNSEEN, _UNSEEN.text
    letter = _LETTERS.get(found.plugin, _OTHER)
    return Mark(letter, f"by-{letter}", found.plugin), f"{found.plugin}: {found.reason}"


def _left_out(rows: int, groups: Sequence[tuple[object, Sequence[str]]]) -> str:
    nodes = sum(len(names) for _, names in groups)
    texts = [
        *([f"{rows} more rows of Pods"] if rows > 0 else []),
        *([f"{nodes} more Nodes, which are in {len(groups)} groups"] if nodes else []),
    ]
    return f"Not shown: {' and '.join(texts)}." if texts else ""

"""Tables of cases, parted by kind."""

from collections.abc import Mapping
from typing import TypeVar

Case = TypeVar("Case")


def table(kinds: Mapping[str, Mapping[str, Case]]) -> dict[str, Case]:
    """The rows of all kinds, named `kind: row`."""
    return {f"{kind}: {row}": case for kind, rows in kinds.items() for row, case in rows.items()}

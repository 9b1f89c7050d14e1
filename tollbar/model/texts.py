"""Numbers and names in sentences for people, and tables."""

from collections.abc import Sequence


def counted(number: int, thing: str) -> str:
    """`1 Pod`, `2 Pods`."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def some(names: Sequence[str], most: int = 3) -> str:
    """The first of them, and how many more there are: `a, b, c and 2 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """One line for each row, its cells below each other as `kubectl get` prints them; all rows are of one length."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["   ".join(map(str.ljust, row, widths)).rstrip() for row in rows]

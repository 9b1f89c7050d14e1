"""Numbers and names in sentences for people."""

from collections.abc import Sequence


def counted(number: int, thing: str) -> str:
    """`1 Pod`, `2 Pods`."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def some(names: Sequence[str], most: int = 3) -> str:
    """The first of them, and how many more there are: `a, b, c and 2 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")

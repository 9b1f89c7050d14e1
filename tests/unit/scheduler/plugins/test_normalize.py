"""Scores in the range that the framework asks for."""

import numpy as np
import pytest

from tollbar.scheduler.plugins.normalize import normalize

TABLE: dict[str, tuple[list[int], bool, list[int]]] = {
    "no Nodes": ([], False, []),
    "the highest gets all": ([1, 2, 4], False, [25, 50, 100]),
    "rounded down": ([1, 3], False, [33, 100]),
    "reversed": ([1, 2, 4], True, [75, 50, 0]),
    "reversed, rounded up": ([1, 3], True, [67, 0]),
    "nothing but zeros": ([0, 0], False, [0, 0]),
    "nothing but zeros, reversed": ([0, 0], True, [100, 100]),
}


@pytest.mark.parametrize(("scores", "reverse", "want"), TABLE.values(), ids=TABLE)
def test_normalize(scores: list[int], want: list[int], *, reverse: bool) -> None:
    given = np.array(scores, np.int64)
    normalize(given, reverse=reverse)
    assert given.tolist() == want

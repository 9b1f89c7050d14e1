"""When the garbage collector looks at which objects."""

import gc
import time
from collections.abc import Iterator

import pytest

from tollbar.runtime import collector


@pytest.fixture(autouse=True)
def looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The generations that were looked at by request."""
    found: list[int] = []
    before = gc.get_threshold()
    monkeypatch.setattr(gc, "collect", found.append)
    yield found
    gc.unfreeze()
    gc.set_threshold(*before)


def test_young_objects_are_looked_at_by_request_once_the_caches_are_filled(looks: list[int]) -> None:
    gc.set_threshold(*collector._FILLING)
    collector.look()
    assert looks == []
    collector.leave_alone()
    collector.look()
    assert looks == [1]


def test_all_objects_that_are_not_left_alone_are_looked_at_once_in_a_while(
    looks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    collector.leave_alone()
    for seconds in (collector._ALL_EVERY - 1, 1, 1, collector._ALL_EVERY):
        now += seconds
        collector.look()
    assert looks == [1, 2, 1, 2]

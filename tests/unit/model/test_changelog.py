"""What a log of changes tells to whoever asks for those since a version."""

import pytest

from tollbar.model import changelog
from tollbar.model.changelog import ChangeLog


def test_changes_since_a_version() -> None:
    log = ChangeLog()
    start = log.version
    log.note(3)
    middle = log.version
    for place in (1, 3):
        log.note(place)

    assert [log.since(each) for each in (start, middle, log.version)] == [{1, 3}, {1, 3}, set()]


def test_when_places_change_all_have_changed() -> None:
    log = ChangeLog()
    start = log.version
    log.note_all()

    assert (log.since(start), log.since(log.version)) == (None, set())


def test_the_latest_changes_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changelog, "MAX_LOG", 4)
    log = ChangeLog()
    versions = [log.version]
    for place in range(5):
        log.note(place)
        versions.append(log.version)

    assert [log.since(each) for each in versions] == [None, None, {2, 3, 4}, {3, 4}, {4}, set()]

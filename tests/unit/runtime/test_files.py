"""Replacing files: with another writer in between, and when it fails."""

from pathlib import Path

import pytest

from tollbar.runtime import files


def test_of_two_writers_at_the_same_time_the_last_one_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state"
    replace = Path.replace

    def after_another(self: Path, target: Path) -> Path:
        monkeypatch.undo()
        files.replace(path, b"another's", 0o600)
        assert path.read_bytes() == b"another's"
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", after_another)
    files.replace(path, b"ours", 0o644)

    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"ours", 0o644)
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "state"
    (path / "not empty").mkdir(parents=True)

    with pytest.raises(OSError, match="state"):
        files.replace(path, b"ours", 0o600)

    assert list(tmp_path.iterdir()) == [path]

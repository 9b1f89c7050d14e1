"""scripts/release.py: notes from a changelog, and the version wherever it stands."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tollbar

ROOT = Path(__file__).parents[2]
SCRIPT = (ROOT / "scripts/release.py").read_text()
STATED = re.findall(r'^    "(.+)",$', SCRIPT.split("STATED")[1].split("\n)")[0], re.MULTILINE)
CHANGELOG = """# Changelog

## Unreleased

### Added

#### Things

- A thing.
- Another,
  on two lines.

### Changed

- It asks first.

## 0.0.1 - 2026-01-02

### Fixed

- A hole.
"""
OWNERS = "approvers:\n- alice\n"
SECURITY = "# Security\n\n## Report a vulnerability\n\nTo security@example.com.\n\n## What counts\n"
UNRELEASED = """# Tollbar Unreleased

## Before you upgrade: what is different

- It asks first.

## New

### Things

- A thing.
- Another,
  on two lines.
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Copies of the files that state the version."""
    for name in ("scripts/generating.py", "scripts/release.py", *STATED):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name, text in {"CHANGELOG.md": CHANGELOG, "OWNERS": OWNERS, "SECURITY.md": SECURITY}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def release(directory: Path, *arguments: str) -> tuple[int, str]:
    command = [sys.executable, "scripts/release.py", *arguments]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_notes_begin_with_what_one_has_to_know_before(repository: Path) -> None:
    assert [release(repository, "notes", version) for version in ("Unreleased", "0.0.1")] == [
        (0, UNRELEASED),
        (0, "# Tollbar 0.0.1 - 2026-01-02\n\n## Fixed\n\n- A hole.\n"),
    ]


WRONG = {
    "a version that is not there": ("", ("notes", "9.9.9"), "CHANGELOG.md has no section 9.9.9"),
    "a kind that nobody knows": (
        "### Improved\n\n- All.\n",
        ("notes", "0.0.1"),
        "CHANGELOG.md, 0.0.1: not a kind of change: Improved",
    ),
    "a kind without changes": (
        "### Removed\n",
        ("notes", "0.0.1"),
        "CHANGELOG.md, 0.0.1: a change without a kind, or a kind without changes",
    ),
    "no version": ("", ("set", "next"), "not a version: next"),
    "a version that is there": ("", ("set", "0.0.1"), "0.0.1 has been released"),
}


@pytest.mark.parametrize(("more", "arguments", "said"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_one_line(repository: Path, more: str, arguments: tuple[str, ...], said: str) -> None:
    (repository / "CHANGELOG.md").write_text(CHANGELOG + more)
    assert release(repository, *arguments) == (1, f"release: {said}\n")


UNREACHABLE = {
    "a group instead of people": (OWNERS.replace("alice", "maintainers"), SECURITY, "OWNERS names no approver"),
    "nobody at all": ("reviewers:\n- alice\n", SECURITY, "OWNERS names no approver"),
    "no address": (OWNERS, SECURITY.replace("@", " at "), "SECURITY.md, Report a vulnerability: no address"),
    "an address of something else": (
        OWNERS,
        SECURITY.replace("security@example.com", "us") + "See https://example.com.\n",
        "SECURITY.md, Report a vulnerability: no address",
    ),
    "no section": (OWNERS, "# Security\n", "SECURITY.md, Report a vulnerability: no address"),
}


@pytest.mark.parametrize(("owners", "security", "said"), UNREACHABLE.values(), ids=UNREACHABLE)
def test_nothing_is_released_while_users_can_reach_nobody(
    repository: Path, owners: str, security: str, said: str
) -> None:
    (repository / "OWNERS").write_text(owners)
    (repository / "SECURITY.md").write_text(security)
    before = {path: path.read_bytes() for path in repository.rglob("*") if path.is_file()}
    ended = [release(repository, *arguments) for arguments in (("contacts",), ("set", "7.8.9"))]
    assert [(code, text.startswith(f"release: {said}"), text.count("\n")) for code, text in ended] == [(1, True, 1)] * 2
    assert {path: path.read_bytes() for path in before} == before


def test_who_can_be_reached_is_enough(repository: Path) -> None:
    assert release(repository, "contacts") == (0, "")


def test_the_version_is_set_wherever_it_stands(repository: Path) -> None:
    stated = [path for path in repository.rglob("*") if path.is_file() and tollbar.__version__ in path.read_text()]
    said = release(repository, "set", "7.8.9")
    left = [path for path in stated if tollbar.__version__ in path.read_text()]
    head = (repository / "CHANGELOG.md").read_text().splitlines()[2:5]
    assert len(stated) == len(STATED) > 10, "a file of the list does not state it"
    assert (said, left, head[0], re.sub(r"[\d-]{10}$", "DATE", head[2])) == (
        (0, ""),
        [],
        "## Unreleased",
        "## 7.8.9 - DATE",
    )


def test_the_changelog_makes_notes() -> None:
    assert release(ROOT, "notes", "Unreleased")[0] == 0


def test_the_version_stands_nowhere_else() -> None:
    """In the manifests and the pages: what is generated follows."""
    mentions = re.compile(
        rf"tollbar[:=\s].*\b{re.escape(tollbar.__version__)}\b|version: {re.escape(tollbar.__version__)}"
    )
    found = {
        str(path.relative_to(ROOT))
        for folder in ("docs", "manifests")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".md", ".yaml") and mentions.search(path.read_text())
    }
    generated = {name for name in found if name.startswith(("manifests/helm/", "manifests/install.yaml"))}
    assert found - generated - set(STATED) == set()

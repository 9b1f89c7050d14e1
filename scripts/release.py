"""Sets the version of the next release, and makes release notes of the changelog (RELEASE.md).

python scripts/release.py contacts       fail while users can reach nobody: no approver by name, no address for reports
python scripts/release.py set 0.2.0      the same, and write the version wherever it stands, and the changelog's heading
python scripts/release.py notes 0.2.0    print the notes of a release; `notes Unreleased` of what is not released
"""

import re
import sys
from datetime import UTC, datetime
from typing import Final

import yaml
from generating import ROOT

import tollbar

CHANGELOG: Final = "CHANGELOG.md"
UNRELEASED: Final = "Unreleased"
STATED: Final = (
    "Dockerfile",
    "README.md",
    "docs/operations/troubleshooting.md",
    "docs/tasks/install.md",
    "manifests/README.md",
    "manifests/base/controllers/deployment.yaml",
    "manifests/base/webhooks/deployment.yaml",
    "manifests/components/scheduler/deployment.yaml",
    "manifests/labels/labels.yaml",
    "manifests/overlays/default/kustomization.yaml",
    "manifests/overlays/dev/kustomization.yaml",
    "pyproject.toml",
    "scripts/render_install.py",
    "tests/e2e/test_status.py",
    "tests/integration/test_manifests.py",
    "tests/unit/cli/status/test_command.py",
    "tollbar/__init__.py",
)
"""Files that state the version, and no other version that reads the same."""
HEADINGS: Final = {
    "Changed": "Before you upgrade: what is different",
    "Deprecated": "Before you upgrade: what will go",
    "Removed": "Before you upgrade: what is gone",
    "Security": "Security",
    "Fixed": "Fixed",
    "Added": "New",
}
"""The kinds of change of Keep a Changelog in the order of the notes, with their headings there."""
PLACEHOLDER: Final = "maintainers"
"""What OWNERS says instead of names as long as it is not known where the repository is kept."""
_ADDRESS: Final = re.compile(r"[\w.+-]+@[\w-]+(\.[\w-]+)+|https://\S+")
_SUBJECT: Final = re.compile(r"^####(?= )", re.MULTILINE)
"""A subject within a kind of change, which is one level higher in the notes."""
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+(-(alpha|beta|rc)\.\d+)?")


class Wrong(Exception):
    """The changelog, the contacts or the arguments; the message says how."""


def main(arguments: list[str]) -> int:
    changelog = (ROOT / CHANGELOG).read_text(encoding="utf-8")
    try:
        match arguments:
            case ["notes", version]:
                sys.stdout.write(notes(changelog, version))
            case ["contacts"]:
                contacts(*_contacts())
            case ["set", version]:
                contacts(*_contacts())
                today = datetime.now(UTC).date().isoformat()
                (ROOT / CHANGELOG).write_text(headed(changelog, version, today), encoding="utf-8")
                for name in STATED:
                    text = (ROOT / name).read_text(encoding="utf-8")
                    (ROOT / name).write_text(text.replace(tollbar.__version__, version), encoding="utf-8")
            case _:
                sys.stderr.write(__doc__ or "")
                return 2
    except Wrong as error:
        sys.stderr.write(f"release: {error}\n")
        return 1
    return 0


def contacts(owners: str, security: str) -> None:
    """Raises Wrong while these texts of OWNERS and SECURITY.md name nobody to whom users can turn."""
    approvers = yaml.safe_load(owners).get("approvers") or []
    if not approvers or PLACEHOLDER in approvers:
        raise Wrong(f"OWNERS names no approver: put names in the place of {PLACEHOLDER}")
    report = re.search(r"^## Report a vulnerability\n(.*?)(?=^## |\Z)", security, re.DOTALL | re.MULTILINE)
    if report is None or not _ADDRESS.search(report[1]):
        raise Wrong("SECURITY.md, Report a vulnerability: no address (e-mail, or https) to which reports go")


def _contacts() -> tuple[str, str]:
    return (ROOT / "OWNERS").read_text(encoding="utf-8"), (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def notes(changelog: str, version: str) -> str:
    """The notes of one release, as Markdown.  Raises Wrong when it is not there, or has headings that are not known."""
    section = re.search(
        rf"^## {re.escape(version)}(?P<date> - \S+)?\n(?P<text>.*?)(?=^## |\Z)", changelog, re.DOTALL | re.MULTILINE
    )
    if section is None:
        raise Wrong(f"{CHANGELOG} has no section {version}")
    before, *parts = re.split(r"^### (.+)\n", section["text"], flags=re.MULTILINE)
    changes = dict(zip(parts[::2], (text.strip() for text in parts[1::2]), strict=True))
    if unknown := changes.keys() - HEADINGS.keys():
        raise Wrong(f"{CHANGELOG}, {version}: not a kind of change: {', '.join(sorted(unknown))}")
    if before.strip() or not all(changes.values()):
        raise Wrong(f"{CHANGELOG}, {version}: a change without a kind, or a kind without changes")
    title = f"# Tollbar {version}{section['date'] or ''}\n"
    known = ((heading, _SUBJECT.sub("###", changes[kind])) for kind, heading in HEADINGS.items() if kind in changes)
    return title + "".join(f"\n## {heading}\n\n{text}\n" for heading, text in known)


def headed(changelog: str, version: str, date: str) -> str:
    """The changelog with what is unreleased under the heading of this version.  Raises Wrong."""
    if not _VERSION.fullmatch(version):
        raise Wrong(f"not a version: {version}")
    if f"\n## {version}" in changelog:
        raise Wrong(f"{version} has been released")
    notes(changelog, UNRELEASED)
    return changelog.replace(f"## {UNRELEASED}\n", f"## {UNRELEASED}\n\n## {version} - {date}\n", 1)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

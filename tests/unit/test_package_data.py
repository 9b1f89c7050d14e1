"""What is installed besides Python: every other file of the packages is named in pyproject.toml."""

import os
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_data_file_is_installed() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    named = {
        path.relative_to(ROOT)
        for package, patterns in settings["package-data"].items()
        for pattern in patterns
        for path in (ROOT / package.replace(".", "/")).glob(pattern)
    }
    data = {
        Path(folder, name).relative_to(ROOT)
        for package in ("tollbar", "controllers", "webhooks")
        for folder, _, names in os.walk(ROOT / package, followlinks=True)
        for name in names
        if Path(name).suffix not in (".py", ".pyc")
    }
    assert data == named


def test_what_the_packages_link_to_is_in_the_build_of_the_image() -> None:
    """A link whose target is not copied would be left out of the wheel without an error."""
    copied = set(re.findall(r"^COPY (\S+) \1$", (ROOT / "Dockerfile").read_text(), re.MULTILINE))
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    links = [path for package in ("tollbar", "controllers", "webhooks") for path in (ROOT / package).rglob("*")]
    targets = [path.resolve().relative_to(ROOT) for path in links if path.is_symlink()]
    there = [any(target.is_relative_to(each) for each in copied & sent) for target in targets]
    assert (bool(targets), all(there)) == (True, True), targets

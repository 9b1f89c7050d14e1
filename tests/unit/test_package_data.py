"""What is installed besides Python: every other file of the packages is named in pyproject.toml."""

import os
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

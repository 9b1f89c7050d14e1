"""The examples of manifests/examples that are Python: their modules, and their packages as if installed."""

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

EXAMPLES: Final = Path(__file__).parents[2] / "manifests" / "examples"


def module(file: Path) -> Any:
    """What this file defines; a new one at each call."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def declare(project: Mapping[str, Any], folder: Path) -> None:
    """Write into the folder what pip writes about a package: its name, and its entry points of one group."""
    metadata = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    ((group, entry_points),) = project["entry-points"].items()
    lines = [f"[{group}]", *(f"{name} = {value}" for name, value in entry_points.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")

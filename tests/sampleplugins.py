"""The sample plugins of manifests/examples/scheduler-plugins: their classes, and their package as if installed."""

import importlib.util
import tomllib
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).parents[1] / "manifests" / "examples" / "scheduler-plugins"
_PROJECT = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
((GROUP, ENTRY_POINTS),) = _PROJECT["entry-points"].items()


def module(name: str) -> Any:
    """One module of the package, from its file."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLE / "sample_plugins" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def install(folder: Path) -> list[Path]:
    """Write into an empty folder what pip would write about the package; the paths on which it then is installed."""
    metadata = folder / f"{_PROJECT['name'].replace('-', '_')}-{_PROJECT['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {_PROJECT['name']}\nVersion: {_PROJECT['version']}\n"
    )
    lines = [f"[{GROUP}]", *(f"{name} = {value}" for name, value in ENTRY_POINTS.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return [folder, EXAMPLE]

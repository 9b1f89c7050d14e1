"""The plane's state file: which processes it has, so that another process can end them.

It is written after each start and stop of a component.
"""

import json
import shutil
from pathlib import Path
from typing import Final

from tollbar.devplane import process
from tollbar.devplane.layout import Layout
from tollbar.runtime import files

_FORMAT: Final = 1


def save(layout: Layout, pids: dict[str, int]) -> None:
    """Replace the state file, which another process may read or write at the same time."""
    content = json.dumps({"format": _FORMAT, "kubeconfig": str(layout.kubeconfig), "pids": pids}, indent=2)
    files.replace(layout.state, content.encode(), 0o644)


def load(layout: Layout) -> dict[str, int]:
    """Pids by component; empty when there is no plane.  Raises ValueError on a file that is not ours."""
    try:
        content = json.loads(layout.state.read_text())
        if content["format"] == _FORMAT:
            return {str(component): int(pid) for component, pid in content["pids"].items()}
    except FileNotFoundError:
        return {}
    except (ValueError, LookupError, TypeError, AttributeError):
        pass
    raise ValueError(f"{layout.state} is not a state file of this version")


def running(layout: Layout) -> dict[str, int]:
    """The components whose processes are alive."""
    return {name: pid for name, pid in load(layout).items() if process.alive(pid, layout.root)}


def claim(layout: Layout) -> None:
    """Take a directory for a new plane.

    Raises ValueError when it is in use or holds what is not a plane's, and OSError where it cannot be written.
    """
    if running(layout):
        raise ValueError(f"a plane is running in {layout.root}: end it first")
    if layout.root.exists() and any(layout.root.iterdir()) and not layout.state.exists():
        raise ValueError(f"{layout.root} is not empty and was not made by a plane: choose another directory")
    layout.root.mkdir(parents=True, exist_ok=True)
    clear(layout)
    shutil.rmtree(layout.audit_log.parent, ignore_errors=True)


def stop(directory: Path) -> list[str]:
    """End every process of the plane in a directory and remove its data; the logs stay.  Names what was running.

    Raises ValueError on a state file that is not ours, and OSError where it cannot be read or written.
    """
    layout = Layout(directory.resolve())
    if not layout.state.exists():
        return []
    pids = running(layout)
    process.end_all(pids, layout.root)
    clear(layout)
    return list(pids)


def clear(layout: Layout) -> None:
    """Remove all that only a running plane needs.  The state file stays: it marks the directory as a plane's."""
    for directory in (layout.etcd_data, layout.tokens.parent, layout.kubectl.parent, layout.kubectl_cache):
        shutil.rmtree(directory, ignore_errors=True)
    for file in (layout.kubeconfig, layout.audit_policy):
        file.unlink(missing_ok=True)
    save(layout, {})

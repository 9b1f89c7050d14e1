"""Files that others read while they are written."""

import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path


def replace(path: Path, content: bytes, mode: int) -> None:
    """As `replace_all`, of one file."""
    replace_all({path: (content,)}, mode)


def replace_all(contents: Mapping[Path, Iterable[bytes]], mode: int) -> None:
    """Replace files whole: readers see the old content or the new, and of several writers the last one wins.

    Contents come in parts, and no file is replaced before all of them are on the disk.  Whatever is raised until then,
    OSError or what making the contents raises, the old files stay.  Where a rename fails, those before it are replaced.
    """
    temporary: dict[Path, Path] = {}
    try:
        for path, content in contents.items():
            descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
            temporary[path] = Path(name)
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(file.fileno(), mode)
                file.writelines(content)
                file.flush()
                os.fsync(file.fileno())
        for path, written in temporary.items():
            written.replace(path)
    except BaseException:
        for written in temporary.values():
            written.unlink(missing_ok=True)
        raise

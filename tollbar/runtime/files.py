"""Files that others read while they are written."""

import os
import tempfile
from pathlib import Path


def replace(path: Path, content: bytes, mode: int) -> None:
    """Replace a file whole: readers see the old content or the new, and of several writers the last one wins.

    The content is on the disk before the file has its name.  Raises OSError; then the old file stays.
    """
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise

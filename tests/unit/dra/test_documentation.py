"""The allocator's page: its examples work as they stand there, and no known difference is missing."""

import re
import subprocess
import sys
from pathlib import Path

from dra.differences import KNOWN

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "allocator.md"


def test_every_known_difference_is_on_the_page() -> None:
    text = PAGE.read_text()
    assert [known.id for known in KNOWN if f"| `{known.id}` |" not in text] == []


def test_the_examples_of_the_page() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 2
    done = subprocess.run([sys.executable, "-c", "\n".join(blocks)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

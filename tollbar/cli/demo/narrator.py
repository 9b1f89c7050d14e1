"""The output of the demonstration: chapters, applied files, proofs.

Colours add nothing to the words and marks: without a terminal, or with NO_COLOR, the text is the same.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Final

from rich.console import Console
from rich.text import Text

from tollbar.cli import console

_INDENT: Final = 3
_WIDTH: Final = 100


class Narrator:
    """Writes to one console; `proofs` counts the lines with a mark."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._utf8 = out.encoding.lower().startswith("utf")
        self._chapters = 0
        self.proofs = 0

    def title(self, text: str, *lines: str) -> None:
        self._print(Text(text, "bold"))
        for line in lines:
            self._print(Text(line))

    def chapter(self, text: str) -> None:
        """A numbered heading."""
        self._chapters += 1
        self._out.print()
        self._print(Text.assemble((f"{self._chapters}  ", "bold cyan"), (text, "bold")))

    def heading(self, text: str) -> None:
        self._out.print()
        self._print(Text(text, "bold"))

    def line(self, text: str, style: str = "") -> None:
        self._print(Text(text, style), _INDENT)

    def applied(self, *files: str) -> None:
        """What a reader would do with kubectl."""
        self._did("apply", files)

    def deleted(self, *files: str) -> None:
        self._did("delete", files)

    def command(self, text: str) -> None:
        """A command that was run; what it printed is quoted after it."""
        self._out.print(Text.assemble(" " * _INDENT, ("$ ", "dim"), (text, "yellow")), soft_wrap=True)

    def proof(self, text: str, seconds: float | None = None) -> None:
        """Something that was seen in the API, and how long it took."""
        self.proofs += 1
        self._print(Text.assemble((self._mark("✓", "ok"), "green"), " ", text, (_took(seconds), "dim")), _INDENT, 2)

    def failure(self, text: str) -> None:
        self._print(Text.assemble((self._mark("✗", "FAILED"), "bold red"), " ", text), _INDENT, 2)

    def quote(self, *lines: str) -> None:
        """Lines as they are in a file or an answer, never folded."""
        for line in lines:
            self._out.print(Text(" " * (_INDENT + 4) + line, "dim"), soft_wrap=True)

    def table(self, rows: list[tuple[str, str]]) -> None:
        """Two columns: what to type or look at, and what for; never folded, so that it can be copied."""
        width = max(len(left) for left, _ in rows)
        for left, right in rows:
            line = Text.assemble(" " * _INDENT, (left.ljust(width), "yellow"), "   ", right)
            line.rstrip()
            self._out.print(line, soft_wrap=True)

    @contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """A spinner while something takes time; only on a terminal."""
        shown = self._out.status(text, spinner="dots" if self._utf8 else "line")
        with shown if console.is_terminal(self._out) else nullcontext():
            yield

    def _did(self, verb: str, files: tuple[str, ...]) -> None:
        self._print(Text.assemble((f"{verb} ", "dim"), ("  ".join(files), "yellow")), _INDENT)

    def _print(self, text: Text, indent: int = 0, hang: int = 0) -> None:
        """Folded at the console's width; lines after the first are indented by `hang` more."""
        width = min(_WIDTH, self._out.width) - indent - hang
        for number, line in enumerate(text.wrap(self._out, width)):
            line.rstrip()
            self._out.print(Text(" " * (indent + (hang if number else 0))) + line, soft_wrap=True)

    def _mark(self, sign: str, word: str) -> str:
        return sign if self._utf8 else word


def _took(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"  ({seconds * 1000:.0f}ms)" if seconds < 1 else f"  ({seconds:.1f}s)"

"""The demonstration's text, as a file or a terminal without colours gets it."""

import io

import pytest
from rich.console import Console

from tollbar.cli.demo.narrator import Narrator

STORY = """\
A title
What it is about.

1  The first chapter
   apply rule.yaml  pod.yaml
       a quoted line that is far longer than the console is wide, and stays as it is
   ✓ it took a while  (1.5s)
   ✓ it was quick  (12ms)
   ✓ it took no time that matters to
     anybody here

The end
   type-this-long-command --with this   for that
   and                                  this one
   ✗ something is wrong
"""


def tell(encoding: str) -> tuple[str, int]:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    narrator = Narrator(Console(file=file, width=40, highlight=False))
    narrator.title("A title", "What it is about.")
    narrator.chapter("The first chapter")
    narrator.applied("rule.yaml", "pod.yaml")
    narrator.quote("a quoted line that is far longer than the console is wide, and stays as it is")
    with narrator.waiting("for something"):
        narrator.proof("it took a while", 1.5)
    narrator.proof("it was quick", 0.012)
    narrator.proof("it took no time that matters to anybody here")
    narrator.heading("The end")
    narrator.table([("type-this-long-command --with this", "for that"), ("and", "this one")])
    narrator.failure("something is wrong")
    file.flush()
    return raw.getvalue().decode(encoding), narrator.proofs


def test_the_text_is_complete_without_colours() -> None:
    assert tell("utf-8") == (STORY, 3)


@pytest.mark.parametrize(("sign", "word"), [("✓", "ok"), ("✗", "FAILED")])
def test_signs_become_words_where_they_cannot_be_written(sign: str, word: str) -> None:
    text, _ = tell("ascii")

    assert (sign in text, word in text) == (False, True)


def test_nothing_moves_in_a_file_that_takes_colours() -> None:
    file = io.StringIO()
    with Narrator(Console(file=file, force_terminal=True, width=40)).waiting("for something"):
        pass
    assert file.getvalue() == ""

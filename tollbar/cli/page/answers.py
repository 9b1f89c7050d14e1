"""The explanation of a Pod as a part of a page."""

from collections.abc import Iterator
from itertools import chain
from typing import Final

from tollbar.cli.page.values import Answer, Table, left_out
from tollbar.explain import text
from tollbar.explain.values import PodExplanation
from tollbar.gates import Section

FINDINGS: Final = 20
REMEDIES: Final = 20
"""Of those that help, and of the others."""
ROWS: Final = 50
"""Of one table."""


def answer(id_: str, found: PodExplanation, count: int = 1) -> Answer:
    """`count` Pods wait like this one."""
    seen = found.scheduling
    sections = chain(text.tables(found), text.scheduling_tables(seen) if seen is not None else ())
    helpful = [each for each in found.remedies if each.helps]
    others = [each for each in found.remedies if not each.helps]
    return Answer(
        id=id_,
        label=f"{found.namespace}/{found.name}",
        count=count,
        findings=found.findings[:FINDINGS],
        helpful=tuple(helpful[:REMEDIES]),
        others=tuple(others[:REMEDIES]),
        tables=tuple(_tables(sections)),
        said=seen.message if seen is not None else "",
        left_out=left_out(len(found.findings) - FINDINGS, "causes"),
    )


def _tables(sections: Iterator[Section]) -> Iterator[Table]:
    for each in sections:
        if each.rows:
            heads = tuple(head.capitalize() for head in each.heads)
            more = left_out(len(each.rows) - ROWS, "rows")
            yield Table(each.title, heads, each.rows[:ROWS], len(each.rows), more)

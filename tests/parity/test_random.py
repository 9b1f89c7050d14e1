"""Random scenarios, played by kube-controller-manager's claim controller and by ours at one time.

TOLLBAR_CLAIM_SCENARIOS sets their number, TOLLBAR_CLAIM_SEED the number of the first one; a scenario's number makes it.
A hundred of them at a time are a test of their own, so that what was judged counts, also when the run is ended.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from parity.acts import ACTS
from parity.differences import DIFFERENCES
from parity.drawing import Drawn, drawn
from parity.explaining import explained
from parity.playing import Played, theatre
from parity.sides import Sides

COUNT = int(os.environ.get("TOLLBAR_CLAIM_SCENARIOS", "100"))
SEED = int(os.environ.get("TOLLBAR_CLAIM_SEED", "0"))
END = SEED + COUNT
BATCH = 100
"""So many are played at one time."""
MANY = 2000
"""In so many scenarios every difference is seen that no scenario written by hand shows."""
SHOWN = 3
KNOWN = {each.name: each.explains for each in DIFFERENCES if each.explains is not None}


AGAIN = 1_000_000
"""Added to the number of a scenario that is played a second time."""


async def _played(sides: Sides, batch: Sequence[Drawn]) -> list[Played]:
    """What differs without being known is played once more, and counts as it was then: kube-controller-manager and the
    garbage collector race one another, and what one of them does by chance says nothing about ours.
    """
    async with theatre(sides, f"drawn-{batch[0].number}") as both:
        played = await both.play(batch)
        found = [each for each in played if not _is_unknown(each)]
        if unknown := [each.drawn for each in played if _is_unknown(each)]:
            found += await both.play([replace(each, number=AGAIN + each.number) for each in unknown])
    return found


def _is_unknown(played: Played) -> bool:
    return "" in explained(played, KNOWN)


@pytest.fixture(scope="module")
def seen() -> Counter[str]:
    """How many of the scenarios so far have shown each known difference."""
    return Counter()


@pytest.fixture(scope="module")
def batches() -> set[int]:
    """Those that were played in this process, by their first scenario."""
    return set()


@pytest.mark.timeout(600 + 2 * BATCH)
@pytest.mark.parametrize("start", range(SEED, END, BATCH))
def test_what_differs_is_a_known_difference(
    start: int, with_groups: Sides, seen: Counter[str], batches: set[int], capsys: pytest.CaptureFixture[str]
) -> None:
    batches.add(start)
    batch = [drawn(number) for number in range(start, min(start + BATCH, END))]
    found = asyncio.run(_played(with_groups, batch))
    differences = [explained(played, KNOWN).keys() for played in found]
    seen.update(name for names in differences for name in names if name)
    unknown = [played for played, names in zip(found, differences, strict=True) if "" in names]
    again = sum(played.drawn.number >= AGAIN for played in found)
    with capsys.disabled():
        print(  # noqa: T201
            f"\nscenarios {start} to {start + len(batch) - 1} of {SEED} to {END - 1}: "
            f"{len(unknown)} with unknown differences, {again} played twice; known differences so far: {dict(seen)}",
            flush=True,
        )
    if unknown:
        shown = "\n".join(map(str, unknown[:SHOWN]))
        pytest.fail(f"{len(unknown)} scenarios with unknown differences, of which the first:\n{shown}", pytrace=False)
    if COUNT >= MANY and batches == {*range(SEED, END, BATCH)}:
        elsewhere = {each.name for each in DIFFERENCES if each.written}
        assert sorted(KNOWN.keys() - seen.keys() - elsewhere) == [], "nothing shows these differences any more"


def test_everything_that_may_happen_is_drawn() -> None:
    scenarios = [drawn(number) for number in range(300)]
    assert {act.name for each in scenarios for act in (*each.before, *each.down, *each.after)} == ACTS.keys()

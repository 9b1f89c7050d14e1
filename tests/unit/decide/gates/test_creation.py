"""What becomes of a Pod at its creation by what a gate says of it."""

from functools import cached_property

import pytest
from objects.builders import pod

from tollbar.decide.chain import first_answer
from tollbar.decide.gates.answers import Answer, Hold, NotMine, Release
from tollbar.decide.gates.creation import CHAIN, CreationCase, CreationPlan
from tollbar.decide.pods.reasons import PodReason
from tollbar.model.plan import Reason


class Saying(CreationCase[CreationPlan]):
    """A gate that says the same of every Pod, and plans that repeat what they are told."""

    gate = "example.com/zone"

    def __init__(self, says: Answer, *, gating: bool) -> None:
        super().__init__(pod(), managed=True, ready=True, gating=gating)
        self._says = says

    @cached_property
    def answer(self) -> Answer:
        return self._says

    def ignored(self, reason: PodReason) -> CreationPlan:
        return CreationPlan(because=(Reason(reason),))

    def gated(self, *because: Reason) -> CreationPlan:
        return CreationPlan("gated", because=because)

    def changed(self, release: Release, unmet: str) -> CreationPlan:
        return CreationPlan("changed", warnings=(release.gives, unmet))


KNOWN = Reason(PodReason.HELD_TOO_LONG)
HOLD = Hold("Early", "the evening", Release(gives="the morning"))
SAID: dict[str, tuple[Answer, bool, CreationPlan]] = {
    "hold it": (
        HOLD,
        True,
        CreationPlan("gated", because=(Reason(PodReason.WAITING_FOR, "Early", "the evening"),)),
    ),
    "hold it, for a reason of its own": (
        Hold("Early", "the evening", Release(because=(KNOWN,))),
        True,
        CreationPlan("gated", because=(KNOWN,)),
    ),
    "hold it, and nobody could release it": (
        HOLD,
        False,
        CreationPlan("changed", warnings=("the morning", "the evening")),
    ),
    "it is not mine": (NotMine(), True, CreationPlan(because=(Reason(PodReason.NOT_MINE),))),
    "release it": (Release(), True, CreationPlan("changed", warnings=("its changes", ""))),
}


@pytest.mark.parametrize(("says", "gating", "want"), SAID.values(), ids=SAID)
def test_what_becomes_of_it(says: Answer, gating: bool, want: CreationPlan) -> None:
    assert first_answer(CHAIN, Saying(says, gating=gating)) == want

"""What becomes of the authority of the webhook's certificates, and whom the API server shall trust meanwhile."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from tollbar.decide.authority import AuthorityFacts, Step, decide
from tollbar.model.certificates import BACKDATED, Certificate, KeyPair

DAY = 86_400.0
YEAR = 365 * DAY
NOW = 1_800_000_000.0
MINUTE = 60.0


def made(name: str, ago: float, lifetime: float = YEAR) -> KeyPair:
    """An authority that was made so many seconds ago."""
    return KeyPair(name, NOW - ago - BACKDATED, NOW - ago + lifetime, f"key of {name}")


YOUNG, OLD, EXPIRED, UNBORN = (
    made("young", 10 * DAY),
    made("old", 250 * DAY),
    made("expired", 400 * DAY),
    made("unborn", -DAY),
)
JUST, SETTLED = made("just", 10), made("settled", MINUTE)
ALMOST = made("almost", MINUTE - 0.5)
STALE = made("stale", 300 * DAY)
OTHERS = [Certificate(f"other {number}", NOW - 400 * DAY, NOW + (number - 2) * DAY) for number in range(5)]


@dataclass(frozen=True)
class Case:
    """`trusts` and `want` name what each webhook trusts, before and after."""

    current: KeyPair | None
    next: KeyPair | None
    trusts: Sequence[Sequence[Certificate]]
    want: tuple[Step, list[list[str]], float | None]


CASES = {
    "nothing is there: the first authority is made": Case(None, None, [[], []], (Step.PREPARE, [[], []], None)),
    "the first authority is written to the configurations": Case(
        None, JUST, [[], []], (Step.KEEP, [["just"]] * 2, MINUTE)
    ),
    "one configuration has it, one does not yet": Case(None, JUST, [[JUST], []], (Step.KEEP, [["just"]] * 2, MINUTE)),
    "the first authority signs at once where nothing else is trusted": Case(
        None, JUST, [[JUST], [JUST]], (Step.PROMOTE, [["just"]] * 2, None)
    ),
    "no webhook is ours to look after: nothing is made": Case(None, None, [], (Step.KEEP, [], None)),
    "no webhook is ours to look after: nothing is renewed": Case(OLD, None, [], (Step.KEEP, [], None)),
    "the configurations were deleted before the first authority signs: it signs at once": Case(
        None, JUST, [], (Step.PROMOTE, [], None)
    ),
    "or before it takes over from an expired one": Case(EXPIRED, JUST, [], (Step.PROMOTE, [], None)),
    "but not while another one signs": Case(OLD, SETTLED, [], (Step.KEEP, [], None)),
    "a young authority is kept until two thirds of its life are over": Case(
        YOUNG, None, [[YOUNG]], (Step.KEEP, [["young"]], YEAR * 2 / 3 - 10 * DAY)
    ),
    "a configuration that was applied anew trusts it again": Case(
        YOUNG, None, [[], [YOUNG]], (Step.KEEP, [["young"]] * 2, YEAR * 2 / 3 - 10 * DAY)
    ),
    "an old one gets a successor": Case(OLD, None, [[OLD]], (Step.PREPARE, [["old"]], None)),
    "the successor is trusted beside it": Case(OLD, JUST, [[OLD]], (Step.KEEP, [["old", "just"]], MINUTE)),
    "and does not sign before all API servers can have seen it": Case(
        OLD, JUST, [[OLD, JUST]], (Step.KEEP, [["old", "just"]], 50.0)
    ),
    "not half a second before either": Case(OLD, ALMOST, [[OLD, ALMOST]], (Step.KEEP, [["old", "almost"]], 0.5)),
    "then it takes over, and the old one stays trusted": Case(
        OLD, SETTLED, [[OLD, SETTLED]], (Step.PROMOTE, [["old", "settled"]], None)
    ),
    "not while one configuration lacks it, however long it takes": Case(
        OLD, SETTLED, [[OLD, SETTLED], [OLD]], (Step.KEEP, [["old", "settled"]] * 2, MINUTE)
    ),
    "after that, the one before stays": Case(
        SETTLED, None, [[OLD, SETTLED]], (Step.KEEP, [["settled", "old"]], YEAR * 2 / 3 - MINUTE)
    ),
    "an expired one is followed at once, since nobody trusts what it has signed": Case(
        EXPIRED, JUST, [[EXPIRED, JUST]], (Step.PROMOTE, [["just", "expired"]], None)
    ),
    "the Secret was deleted: replicas still serve what the lost authority has signed": Case(
        None, JUST, [[JUST, YOUNG]], (Step.KEEP, [["just", "young"]], 50.0)
    ),
    "the clock was set back to before it was made": Case(UNBORN, None, [[UNBORN]], (Step.PREPARE, [["unborn"]], None)),
    "a successor of the future is made anew": Case(
        OLD, UNBORN, [[OLD, UNBORN]], (Step.PREPARE, [["old", "unborn"]], None)
    ),
    "a successor that nobody promoted for most of a year is made anew": Case(
        OLD, STALE, [[OLD, STALE]], (Step.PREPARE, [["old", "stale"]], None)
    ),
    "of others, those that end last are kept": Case(
        YOUNG, None, [[*OTHERS, YOUNG]], (Step.KEEP, [["young", "other 4", "other 3"]], YEAR * 2 / 3 - 10 * DAY)
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_becomes_of_the_authority(case: Case) -> None:
    plan = decide(AuthorityFacts(case.current, case.next, case.trusts, MINUTE), NOW)
    assert (plan.step, [[each.pem for each in bundle] for bundle in plan.bundles], plan.wait) == case.want


def test_no_key_reaches_a_configuration_and_none_is_shown() -> None:
    plan = decide(AuthorityFacts(OLD, JUST, [[]], MINUTE), NOW)
    assert ({type(each) for each in plan.bundles[0]}, "key of" in repr((plan, OLD))) == ({Certificate}, False)
    assert plan.bundles[0] == tuple(Certificate(each.pem, each.begins, each.ends) for each in (OLD, JUST))

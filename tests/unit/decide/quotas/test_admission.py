"""Which Pods go, in which order, and why the others wait: one table, one row for each rule."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

import pytest

from tollbar.api.reasons import HoldReason
from tollbar.decide.quotas.admission import Account, Held, Quota, admit, exceeded
from tollbar.decide.quotas.lines import Charge, Lines
from tollbar.model.objects import Key

NOW = 1000.0


def pod(
    name: str, cpu: str = "1", *, at: float = 0.0, priority: int = 0, quotas: str = "q", memory: str = ""
) -> Charge:
    """`name` is namespace/name or a name in the namespace a; created `at` seconds."""
    namespace, _, local = name.rpartition("/")
    amounts = {"pods": Decimal(1), "cpu": Decimal(cpu), **({"memory": Decimal(memory)} if memory else {})}
    return Charge(Key(namespace or "a", local), tuple(quotas.split()), amounts, priority, NOW - 100 + at)


def quota(name: str = "q", *, fair: bool = False, patience: float = 1e9, devices: bool = False, **limits: int) -> Quota:
    return Quota(name, {resource: Decimal(limit) for resource, limit in limits.items()}, fair, patience, devices)


def using(
    name: str, gpu: int, *claims: str, at: float = 0.0, cpu: str = "1", quotas: str = "q", unknown: str = ""
) -> Charge:
    """A Pod that uses these claims, each of so many devices."""
    taken = {Key("a", each): {"gpu": Decimal(gpu)} for each in claims}
    return replace(pod(name, cpu, at=at, quotas=quotas), claims=taken, unknown=unknown)


def own(charge: Charge) -> Charge:
    """The same with a device of its own beside its claims."""
    return replace(charge, amounts={**charge.amounts, "gpu": Decimal(1)})


@dataclass
class Given:
    quotas: tuple[Quota, ...]
    waiting: tuple[Charge, ...]
    charged: tuple[Charge, ...] = ()
    served: Mapping[tuple[str, str], float] = field(default_factory=dict)


NO_DEVICE = Held(HoldReason.EXCEEDED, "gpu in PodQuota q")
MISSING = Held(HoldReason.CLAIM_MISSING, "ResourceClaim c")
FULL = Held(HoldReason.EXCEEDED, "cpu in PodQuota q")
SHARED = Held(HoldReason.SHARED, "namespaces with a smaller share of PodQuota q")


def kept(name: str) -> Held:
    return Held(HoldReason.KEPT, f"Pod a/{name}, which is before it in PodQuota q")


CASES: dict[str, tuple[Given, list[str], dict[str, Held]]] = {
    "all fit": (Given((quota(cpu=2),), (pod("x"), pod("y"))), ["a/x", "a/y"], {}),
    "the oldest first": (
        Given((quota(cpu=1),), (pod("x", at=1), pod("y", at=0))),
        ["a/y"],
        {"a/x": FULL},
    ),
    "of one age by name": (Given((quota(cpu=1),), (pod("y"), pod("x"))), ["a/x"], {"a/y": FULL}),
    "priority before age": (
        Given((quota(cpu=1),), (pod("old"), pod("high", at=1, priority=5))),
        ["a/high"],
        {"a/old": FULL},
    ),
    "what runs counts": (Given((quota(cpu=2),), (pod("x"),), (pod("r", "2"),)), [], {"a/x": FULL}),
    "several that run count each": (Given((quota(cpu=4),), (pod("x", "3"),), (pod("r"), pod("s"))), [], {"a/x": FULL}),
    "a smaller one overtakes": (
        Given((quota(cpu=3),), (pod("big", "3"), pod("small", at=1)), (pod("r"),)),
        ["a/small"],
        {"a/big": FULL},
    ),
    "a Pod that has lost its patience is not overtaken": (
        Given((quota(cpu=3, patience=50),), (pod("big", "3"), pod("small", at=90)), (pod("r"),)),
        [],
        {"a/big": FULL, "a/small": kept("big")},
    ),
    "beside one that has lost its patience there may be room": (
        Given((quota(cpu=3, memory=2, patience=50),), (pod("big", "3"), pod("s", "0", at=90, memory="1")), (pod("r"),)),
        ["a/s"],
        {"a/big": FULL},
    ),
    "patience lasts for so long and no longer": (
        Given((quota(cpu=3, patience=100),), (pod("big", "3"), pod("small", at=90)), (pod("r"),)),
        [],
        {"a/big": FULL, "a/small": kept("big")},
    ),
    "those behind it of one size have not lost theirs": (
        Given((quota(cpu=2, patience=50),), (pod("x"), pod("y", at=90), pod("high", at=91, priority=5))),
        ["a/x", "a/high"],
        {"a/y": FULL},
    ),
    "patience by the second quota that covers it": (
        Given(
            (quota(cpu=9), quota("p", cpu=3, patience=50)),
            (pod("big", "3", quotas="q p"), pod("small", at=90, quotas="q p")),
            (pod("r", quotas="p"),),
        ),
        [],
        {
            "a/big": Held(HoldReason.EXCEEDED, "cpu in PodQuota p"),
            "a/small": Held(HoldReason.KEPT, "Pod a/big, which is before it in PodQuota p"),
        },
    ),
    "patience before priority": (
        Given((quota(cpu=1, patience=50),), (pod("old"), pod("high", at=90, priority=5))),
        ["a/old"],
        {"a/high": FULL},
    ),
    "what can never fit keeps nobody": (
        Given((quota(cpu=2, patience=50),), (pod("huge", "3"), pod("x", at=90))),
        ["a/x"],
        {"a/huge": Held(HoldReason.TOO_SMALL, "a PodQuota q that allows it as much cpu")},
    ),
    "every quota that covers it": (
        Given(
            (quota(cpu=5), quota("p", pods=1)), (pod("x", quotas="q p"), pod("y", at=1, quotas="q p"), pod("z", at=2))
        ),
        ["a/x", "a/z"],
        {"a/y": Held(HoldReason.EXCEEDED, "pods in PodQuota p")},
    ),
    "that it can never fit into one is said before that another is full": (
        Given((quota(cpu=5), quota("p", cpu=1)), (pod("x", "2", quotas="q p"),), (pod("r", "5"),)),
        [],
        {"a/x": Held(HoldReason.TOO_SMALL, "a PodQuota p that allows it as much cpu")},
    ),
    "a resource without a limit": (Given((quota(cpu=1),), (pod("x", memory="9"),)), ["a/x"], {}),
    "a claim that two Pods use counts once": (
        Given((quota(gpu=2),), (using("x", 2, "c"), using("y", 2, "c", at=1), using("z", 1, "d", at=2))),
        ["a/x", "a/y"],
        {"a/z": NO_DEVICE},
    ),
    "a claim that is counted takes nothing more": (
        Given((quota(gpu=2, cpu=2),), (using("x", 2, "c"), using("y", 2, "c", at=1)), (using("r", 2, "c"),)),
        ["a/x"],
        {"a/y": FULL},
    ),
    "several Pods of a line with one claim that run count it once": (
        Given(
            (quota(gpu=3),), (using("x", 1, "d"), using("y", 1, "e", at=1)), (using("r", 2, "c"), using("s", 2, "c"))
        ),
        ["a/x"],
        {"a/y": NO_DEVICE},
    ),
    "one claim is not another one of its name": (
        Given(
            (quota(gpu=2),),
            (using("x", 2, "c"),),
            (replace(using("b/r", 1), claims={Key("b", "c"): {"gpu": Decimal(1)}}),),
        ),
        [],
        {"a/x": NO_DEVICE},
    ),
    "a claim that is counted in one quota alone": (
        Given(
            (quota(gpu=1), quota("p", gpu=1)),
            (using("x", 1, "c", quotas="q p"), using("y", 1, "c", at=1)),
            (using("r", 1, "c"), using("s", 1, "d", quotas="p")),
        ),
        ["a/y"],
        {"a/x": Held(HoldReason.EXCEEDED, "gpu in PodQuota p")},
    ),
    "devices are kept, too": (
        Given(
            (quota(cpu=4, gpu=4, patience=50),),
            (using("big", 2, "c", cpu="3"), using("s", 2, "c", at=90), using("t", 3, "d", at=91, cpu="0")),
            (pod("r", "2"),),
        ),
        [],
        {"a/big": FULL, "a/s": kept("big"), "a/t": kept("big")},
    ),
    "what is kept for one that has lost its patience is kept once": (
        Given(
            (quota(cpu=3, gpu=2, patience=50),),
            (using("big", 2, "c", cpu="3"), using("s", 2, "c", at=90, cpu="0")),
            (pod("r", "1"),),
        ),
        ["a/s"],
        {"a/big": FULL},
    ),
    "of a claim that is not there nobody knows how much it is": (
        Given((quota(gpu=2, devices=True),), (using("x", 1, unknown="ResourceClaim c"), using("y", 1, "d"))),
        ["a/y"],
        {"a/x": MISSING},
    ),
    "a claim that is not there, where devices are not limited": (
        Given((quota(cpu=2),), (using("x", 1, unknown="ResourceClaim c"),)),
        ["a/x"],
        {},
    ),
    "who waits for a claim keeps nobody, however long": (
        Given(
            (quota(cpu=1, gpu=1, patience=50, devices=True),),
            (using("x", 1, unknown="ResourceClaim c"), pod("y", at=1)),
        ),
        ["a/y"],
        {"a/x": MISSING},
    ),
    "no quota": (Given((), (pod("x"), pod("y", quotas=""))), ["a/x", "a/y"], {}),
    "a limit of nothing": (
        Given((quota(cpu=0),), (pod("x"), pod("n", "0", at=1))),
        ["a/n"],
        {"a/x": Held(HoldReason.TOO_SMALL, "a PodQuota q that allows it as much cpu")},
    ),
    "a quota that is exceeded takes nothing more": (
        Given((quota(cpu=2, memory=9),), (pod("x", "1"), pod("m", "0", memory="1")), (pod("r", "3"),)),
        ["a/m"],
        {"a/x": FULL},
    ),
    "fair: namespaces by their share": (
        Given((quota(cpu=4, fair=True),), (pod("x"), pod("y"), pod("z"), pod("b/u", at=9), pod("b/v", at=9))),
        ["a/x", "b/u", "a/y", "b/v"],
        {"a/z": FULL},
    ),
    "fair: the greatest part of any limit is the share": (
        Given(
            (quota(cpu=10, memory=4, fair=True),),
            (pod("a/x", "1", memory="1"), pod("b/u", at=1)),
            (pod("a/r", "1", memory="2"), pod("b/s", "4")),
        ),
        ["b/u", "a/x"],
        {},
    ),
    "fair: who has something of which nothing is allowed comes last": (
        Given(
            (quota(cpu=0, memory=10, fair=True),),
            (pod("b/u", "0", memory="1"), pod("a/x", "0", at=1, memory="1")),
            (pod("a/r", "0", memory="3"), pod("b/s", "1")),
        ),
        ["a/x", "b/u"],
        {},
    ),
    "fair: nobody gets further than the one that is overtaken would": (
        Given(
            (quota(cpu=10, fair=True),),
            (pod("a/big", "3"), pod("b/u", "1", at=1), pod("b/v", "1", at=2)),
            (pod("a/r", "1"), pod("b/s", "3"), pod("c/t", "4")),
        ),
        ["b/u"],
        {"a/big": FULL, "b/v": SHARED},
    ),
    "fair: nor than the least of those that are overtaken": (
        Given(
            (quota(cpu=10, fair=True),),
            (pod("a/big", "3"), pod("b/u", at=1), pod("c/w", "2", at=2), pod("b/v", at=3)),
            (pod("a/r", "1"), pod("b/s", "3"), pod("c/t", "4")),
        ),
        ["b/u"],
        {"a/big": FULL, "c/w": FULL, "b/v": SHARED},
    ),
    "fair: one that can never fit by itself does not speak for the line if its claim may be counted": (
        Given(
            (quota(gpu=2, fair=True),),
            (own(using("x", 2, "c")), using("m", 2, "c", at=1), own(using("y", 2, "c", at=2))),
        ),
        ["a/m"],
        {"a/x": Held(HoldReason.TOO_SMALL, "a PodQuota q that allows it as much gpu"), "a/y": NO_DEVICE},
    ),
    "fair: the first of a line does not speak for those behind it where they keep somebody back": (
        Given(
            (quota(pods=1), quota("f", cpu=10, fair=True)),
            (
                pod("a/x", "5", quotas="q f"),
                pod("a/y", "5", at=2, quotas="q f"),
                pod("b/u", "6", at=1, quotas="f"),
                pod("b/v", "1", at=3, quotas="f"),
            ),
            (pod("c/r", "0"),),
        ),
        ["b/u"],
        {
            "a/x": Held(HoldReason.EXCEEDED, "pods in PodQuota q"),
            "a/y": Held(HoldReason.EXCEEDED, "pods in PodQuota q"),
            "b/v": Held(HoldReason.SHARED, "namespaces with a smaller share of PodQuota f"),
        },
    ),
    "fair: a namespace from which nothing has gone for so long has its turn": (
        Given(
            (quota(cpu=4, fair=True, patience=50),),
            (pod("a/x"), pod("b/u", at=1)),
            (pod("a/r", "3"),),
        ),
        ["a/x"],
        {"b/u": FULL},
    ),
    "fair: one that has not waited for so long has not": (
        Given((quota(cpu=4, fair=True, patience=50),), (pod("a/x", at=90), pod("b/u", at=91)), (pod("a/r", "3"),)),
        ["b/u"],
        {"a/x": FULL},
    ),
    "fair: what can never fit does not take the turn of its namespace": (
        Given(
            (quota(cpu=4, fair=True, patience=50),),
            (pod("a/huge", "5"), pod("a/x", at=1), pod("b/u", at=2)),
            (pod("a/r", "3"),),
        ),
        ["a/x"],
        {"a/huge": Held(HoldReason.TOO_SMALL, "a PodQuota q that allows it as much cpu"), "b/u": FULL},
    ),
    "fair: whose turn it is goes beyond the share of others": (
        Given(
            (quota(cpu=10, memory=2, fair=True, patience=50),),
            (pod("a/big", "3"), pod("b/u", "0", at=1, memory="1")),
            (pod("a/r", "1"), pod("b/s", "3", memory="1"), pod("c/t", "4")),
        ),
        ["b/u"],
        {"a/big": FULL},
    ),
    "fair: so long and no longer": (
        Given(
            (quota(cpu=4, fair=True, patience=100),),
            (pod("a/x"), pod("b/u", at=1)),
            (pod("a/r", "3"),),
            {("q", "a"): NOW - 100},
        ),
        ["a/x"],
        {"b/u": FULL},
    ),
    "fair: it is the turn of the oldest of the namespace": (
        Given(
            (quota(cpu=10, fair=True, patience=50),),
            (pod("a/w", "0.5", at=1), pod("a/x", "1"), pod("a/y", "0.25", at=2), pod("b/u", at=3)),
            (pod("a/r", "9"),),
        ),
        ["a/x"],
        {"a/w": FULL, "a/y": FULL, "b/u": FULL},
    ),
    "fair: one from which something has gone has not": (
        Given(
            (quota(cpu=4, fair=True, patience=50),),
            (pod("a/x"), pod("a/y"), pod("b/u", at=99)),
            (pod("a/r", "3"),),
            {("q", "a"): NOW - 49},
        ),
        ["b/u"],
        {"a/x": FULL, "a/y": FULL},
    ),
}


@pytest.mark.parametrize("one_by_one", [False, True], ids=["", "one by one"])
@pytest.mark.parametrize(("given", "granted", "held"), CASES.values(), ids=CASES)
def test_admission(given: Given, granted: list[str], held: dict[str, Held], one_by_one: bool) -> None:
    charged, waiting = Lines(given.charged), Lines(given.waiting)
    found = admit(given.quotas, charged, waiting, NOW, given.served, one_by_one=one_by_one)
    assert [str(each.pod) for each in found.granted] == granted
    assert {str(key): why for key, why in found.held.items()} == held


def test_one_by_one_says_who_is_before_whom() -> None:
    waiting = [pod(f"{name}/p{at}", "2", at=at) for name in "ab" for at in range(3)]
    found = admit([quota(cpu=1)], Lines(), Lines(reversed(waiting)), NOW, one_by_one=True)
    assert [str(key) for key in found.held] == ["a/p0", "b/p0", "a/p1", "b/p1", "a/p2", "b/p2"]


def test_what_is_used_then() -> None:
    found = admit([quota(cpu=3)], Lines([pod("r"), pod("s")]), Lines([pod("x"), pod("y", "5")]), NOW)
    assert found.accounts["q"].used == {"cpu": Decimal(3)}


IN_DOUBT: dict[str, tuple[tuple[Quota, ...], Charge, tuple[Charge, ...], Held | None]] = {
    "all fit": ((quota(cpu=3),), pod("x"), (pod("r", "1"),), None),
    "a limit that is used up is not exceeded": ((quota(cpu=2),), pod("x"), (pod("r", "1"),), None),
    "too much is used": ((quota(cpu=1),), pod("x"), (pod("r", "1"),), FULL),
    "too much is used of something that it does not take": (
        (quota(cpu=4, memory=1),),
        pod("x"),
        (pod("r", "1", memory="2"),),
        None,
    ),
    "too much is used of what its claim takes": ((quota(gpu=1),), using("x", 1, "c"), (using("r", 1, "d"),), NO_DEVICE),
    "a claim that others use as well counts once": ((quota(gpu=1),), using("x", 1, "c"), (using("r", 1, "c"),), None),
    "by the second quota": (
        (quota(cpu=3), quota("p", pods=1)),
        pod("x", quotas="q p"),
        (pod("r", quotas="p"),),
        Held(HoldReason.EXCEEDED, "pods in PodQuota p"),
    ),
    "by a quota that does not cover it": ((quota(cpu=3), quota("p", pods=0)), pod("x"), (pod("r", quotas="p"),), None),
    "by one that is not in force": ((), pod("x"), (pod("r"),), None),
}


@pytest.mark.parametrize(("quotas", "charge", "others", "held"), IN_DOUBT.values(), ids=IN_DOUBT)
def test_a_charged_pod_goes_unless_what_it_takes_is_exceeded(
    quotas: tuple[Quota, ...], charge: Charge, others: tuple[Charge, ...], held: Held | None
) -> None:
    accounts = admit(quotas, Lines([*others, charge]), Lines(), NOW).accounts
    assert exceeded(charge, accounts) == held


LINE = tuple(pod(f"p{at}", "2", at=at) for at in range(20))
FULL_LINES: dict[str, tuple[Quota, tuple[Charge, ...]]] = {
    "it does not fit": (quota(cpu=4), (pod("r", "3"),)),
    "fair: it does not fit": (quota(cpu=4, fair=True), (pod("r", "3"),)),
    "fair: it can never fit": (quota(cpu=1, fair=True), ()),
}


@pytest.mark.parametrize(("given", "charged"), FULL_LINES.values(), ids=FULL_LINES)
def test_of_a_line_one_is_asked(given: Quota, charged: tuple[Charge, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    asked, obstacle = [], Account.obstacle

    def counting(account: Account, charge: Charge, *, impatient: bool) -> Held | None:
        asked.append(str(charge.pod))
        return obstacle(account, charge, impatient=impatient)

    monkeypatch.setattr(Account, "obstacle", counting)
    found = admit([given], Lines(charged), Lines(LINE), NOW)
    assert (asked, len(found.held)) == (["a/p0"], len(LINE))

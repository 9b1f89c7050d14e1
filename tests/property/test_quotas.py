"""Random Pods that come, run and end: no limit is exceeded, nobody starves, shares stay near one another."""

from collections import defaultdict
from collections.abc import Iterable
from decimal import Decimal
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tollbar.api.reasons import HoldReason
from tollbar.decide.quotas.admission import Account, Quota, admit
from tollbar.decide.quotas.lines import Charge, Lines
from tollbar.model.objects import Key

NAMESPACES = ("a", "b", "c", "d")
RESOURCES = ("pods", "cpu", "memory", "gpu")
CLAIMS = {"c": Decimal(2), "d": Decimal(3)}
"""In each namespace, with their devices."""


def accounts(quotas: Iterable[Quota], charged: Iterable[Charge]) -> dict[str, Account]:
    """What is used, counted anew."""
    found = {each.name: Account(each) for each in quotas}
    for charge in charged:
        for name in charge.quotas:
            found[name].add(charge)
    return found


def exceeded(quotas: Iterable[Quota], charged: Iterable[Charge]) -> set[tuple[str, str]]:
    return {
        (name, resource)
        for name, account in accounts(quotas, charged).items()
        for resource, limit in account.quota.limits.items()
        if account.used[resource] > limit
    }


def amounts(most: int) -> st.SearchStrategy[dict[str, Decimal]]:
    return st.fixed_dictionaries(
        {"pods": st.just(Decimal(1))},
        optional={name: st.integers(1, most).map(Decimal) for name in ("cpu", "memory")},
    )


claims = st.one_of(st.just([]), st.lists(st.sampled_from([*CLAIMS]), unique=True))
a_quota = st.builds(
    Quota,
    name=st.just(""),
    limits=st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 12).map(Decimal), min_size=1),
    fair=st.booleans(),
    patience=st.sampled_from([5.0, 50.0, 1e9]),
)


@st.composite
def clusters(
    draw: st.DrawFn, namespaces: tuple[str, ...] = NAMESPACES, most: int = 6
) -> tuple[list[Quota], list[Charge], list[Charge]]:
    """Quotas, Pods that are out, and Pods that wait."""
    quotas = [
        Quota(f"q{place}", each.limits, each.fair, each.patience)
        for place, each in enumerate(draw(st.lists(a_quota, min_size=1, max_size=3)))
    ]
    names = [each.name for each in quotas]
    charges = [
        Charge(
            Key(namespace := draw(st.sampled_from(namespaces)), f"p{place}"),
            tuple(draw(st.lists(st.sampled_from(names), unique=True))),
            draw(amounts(most)),
            draw(st.integers(0, 2)),
            float(draw(st.integers(0, 60))),
            {Key(namespace, each): {"gpu": CLAIMS[each]} for each in draw(claims)},
        )
        for place in range(draw(st.integers(0, 14)))
    ]
    out = draw(st.integers(0, len(charges)))
    return quotas, charges[:out], charges[out:]


@given(clusters())
def test_no_limit_is_exceeded_and_whoever_waits_for_room_does_not_fit(
    cluster: tuple[list[Quota], list[Charge], list[Charge]],
) -> None:
    quotas, charged, waiting = cluster
    found = admit(quotas, Lines(charged), Lines(waiting), 60.0)
    assert {each.pod for each in found.granted} | set(found.held) == {each.pod for each in waiting}
    after = accounts(quotas, [*charged, *found.granted])
    before = accounts(quotas, charged)
    for name, account in after.items():
        for resource, limit in account.quota.limits.items():
            assert account.used[resource] <= max(limit, before[name].used[resource])
    for charge in waiting:
        why = found.held.get(charge.pod)
        short = any(
            after[name].used[resource] + amount > limit
            for name in charge.quotas
            for resource, amount, limit in after[name].taken(charge)
        )
        if why is not None and why.reason in (HoldReason.EXCEEDED, HoldReason.TOO_SMALL):
            assert short or charge.claims  # it takes less when another one goes that uses its claim
        elif why is not None:
            assert why.reason is not HoldReason.SHARED or any(after[name].quota.fair for name in charge.quotas)


@given(clusters(), st.randoms(use_true_random=False))
def test_the_order_in_which_pods_are_listed_makes_no_difference(
    cluster: tuple[list[Quota], list[Charge], list[Charge]], rng: Random
) -> None:
    quotas, charged, waiting = cluster
    shuffled = rng.sample(waiting, len(waiting))
    one, other = (admit(quotas, Lines(charged), Lines(each), 60.0) for each in (waiting, shuffled))
    assert (one.granted, one.held) == (other.granted, other.held)


@given(
    clusters(namespaces=("a", "b"), most=2),
    st.dictionaries(st.tuples(st.sampled_from(["q0", "q1"]), st.sampled_from(NAMESPACES)), st.just(40.0)),
)
def test_the_first_of_a_line_speaks_for_those_behind_it(
    cluster: tuple[list[Quota], list[Charge], list[Charge]], served: dict[tuple[str, str], float]
) -> None:
    quotas, charged, waiting = cluster
    together, apart = (
        admit(quotas, Lines(charged), Lines(waiting), 60.0, served, one_by_one=each) for each in (False, True)
    )
    assert (together.granted, together.held.keys()) == (apart.granted, apart.held.keys())


class World:
    """One quota, and Pods that run for a while."""

    def __init__(self, quota: Quota, seed: int) -> None:
        self.quota, self.rng, self.now = quota, Random(seed), 0.0
        self.running: list[tuple[Charge, float]] = []
        self.waiting: list[Charge] = []
        self.served: dict[tuple[str, str], float] = {}
        self.went: dict[Key, float] = {}
        self.serial = 0

    def comes(self, namespace: str, cpu: int, priority: int = 0) -> Charge:
        self.serial += 1
        amounts = {"pods": Decimal(1), "cpu": Decimal(cpu)}
        made = Charge(Key(namespace, f"p{self.serial:06}"), (self.quota.name,), amounts, priority, self.now)
        self.waiting.append(made)
        return made

    def step(self) -> list[Charge]:
        """One second: Pods end, and those that fit go."""
        self.now += 1
        self.running = [(charge, until) for charge, until in self.running if until > self.now]
        running = Lines(charge for charge, _ in self.running)
        found = admit([self.quota], running, Lines(self.waiting), self.now, self.served)
        for charge in found.granted:
            self.running.append((charge, self.now + self.rng.randint(1, 8)))
            self.served[self.quota.name, charge.pod.namespace] = self.now
            self.went[charge.pod] = self.now
        self.waiting = [each for each in self.waiting if each.pod in found.held]
        assert not exceeded([self.quota], [charge for charge, _ in self.running])
        return [*found.granted]


@given(st.integers(0, 2**32), st.booleans())
def test_nobody_starves_under_a_flood_of_small_pods_of_a_higher_priority(seed: int, fair: bool) -> None:
    world = World(Quota("q", {"cpu": Decimal(10)}, fair, 20.0), seed)
    lowly = world.comes("z", 10)
    for _ in range(200):
        for namespace in NAMESPACES:
            world.comes(namespace, world.rng.randint(1, 3), 5)
        world.step()
        if lowly.pod in world.went:
            break
    assert world.went[lowly.pod] <= 20 + 8 * 2 + len(NAMESPACES) * 8


@given(st.integers(0, 2**32))
def test_no_namespace_gets_more_than_a_pod_ahead_of_one_that_waits(seed: int) -> None:
    world = World(Quota("q", {"cpu": Decimal(20)}, fair=True), seed)
    for _ in range(60):
        for namespace, load in zip(NAMESPACES, (1, 2, 4, 8), strict=True):
            for _ in range(world.rng.randint(0, load)):
                world.comes(namespace, world.rng.randint(1, 5))
        granted = world.step()
        cpu: dict[str, Decimal] = defaultdict(Decimal)
        for charge, _ in world.running:
            cpu[charge.pod.namespace] += charge.amounts["cpu"]
        behind = min((cpu[each.pod.namespace] for each in world.waiting), default=None)
        if behind is not None:
            assert all(cpu[each.pod.namespace] <= behind + 5 for each in granted)

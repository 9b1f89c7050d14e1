"""Whatever happens to the Secret, the configurations and the clock: what replicas serve, the API server trusts.

The model: a leader that acts now and then, replicas of the webhook that look at the Secret every second, API servers
that see a configuration up to `LAG` seconds late, and somebody who deletes the Secret.
"""

from dataclasses import dataclass, field, replace
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from tollbar.decide.authority import KEPT, AuthorityFacts, Step, decide
from tollbar.model.certificates import BACKDATED, Certificate, KeyPair

NOW = 1_800_000_000.0
LIFETIME, LEAF, PRE_PUBLICATION, LAG = 900.0, 120.0, 30.0, 20.0


@dataclass
class World:
    """`bundles` holds what each of two webhooks trusted, and from when on."""

    now: float = NOW
    current: KeyPair | None = None
    next: KeyPair | None = None
    bundles: list[list[tuple[float, tuple[Certificate, ...]]]] = field(
        default_factory=lambda: [[(NOW, ())], [(NOW, ())]]
    )
    signer: KeyPair | None = None
    expires: float = 0.0
    names: "count[int]" = field(default_factory=count)

    def lead(self) -> bool:
        """One reconcile; whether it wrote something."""
        shown = [bundle[-1][1] for bundle in self.bundles]
        plan = decide(AuthorityFacts(self.current, self.next, shown, PRE_PUBLICATION), self.now)
        for bundle, wanted in zip(self.bundles, plan.bundles, strict=True):
            assert len(wanted) <= 2 + KEPT
            if wanted and wanted != bundle[-1][1]:
                bundle.append((self.now, tuple(wanted)))
        if plan.step is Step.PREPARE:
            begins = self.now - BACKDATED
            self.next = KeyPair(f"authority {next(self.names)}", begins, self.now + LIFETIME, "key")
        elif plan.step is Step.PROMOTE:
            self.current, self.next = self.next, None
        return plan.step is not Step.KEEP or [bundle[-1][1] for bundle in self.bundles] != shown

    def settle(self) -> None:
        for _ in range(10):
            if not self.lead():
                return
        raise AssertionError("the leader never comes to rest")

    def sign(self) -> None:
        """A replica looks at the Secret."""
        signer = self.current
        if signer is not None and signer.is_valid(self.now) and signer != self.signer:
            self.signer, self.expires = signer, self.now + LEAF
        elif self.signer is not None and self.signer == signer and self.now > self.expires - LEAF / 3:
            self.expires = min(self.now + LEAF, signer.ends)

    def is_trusted(self) -> bool:
        """Whether an API server that is late trusts what the replica serves."""
        if self.signer is None or self.now >= self.expires:
            return False
        seen = [[known for since, known in bundle if since <= self.now - LAG][-1:] for bundle in self.bundles]
        return all(any(self.signer.pem == each.pem for each in known) for bundle in seen for known in bundle or [()])

    def run(self, seconds: int, *, led: bool = True) -> set[bool]:
        """Second by second; whether the replica was trusted."""
        found = set()
        for _ in range(seconds):
            self.now += 1
            if led:
                self.settle()
            self.sign()
            found.add(self.is_trusted())
        return found


def established() -> World:
    """An installation that works."""
    world = World()
    world.settle()
    world.sign()
    world.run(int(LAG) + 1)
    assert world.is_trusted()
    return world


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 200)), max_size=30))
def test_through_any_number_of_rotations_no_certificate_is_untrusted(periods: list[tuple[bool, int]]) -> None:
    """A leader that is away for less than the last third of an authority's life is not missed."""
    world = established()
    found = {True}
    for led, seconds in periods:
        found |= world.run(seconds, led=led)
        world.settle()
        found |= world.run(int(PRE_PUBLICATION) + 2)
    assert found == {True}


@given(st.lists(st.integers(0, 600), min_size=1, max_size=5))
def test_a_secret_that_is_deleted_again_and_again_is_not_missed(pauses: list[int]) -> None:
    world = established()
    found = {True}
    for seconds in pauses:
        world.current = world.next = None
        found |= world.run(seconds + int(PRE_PUBLICATION + LAG) + 2)
    assert found == {True}


@given(st.lists(st.one_of(st.integers(-(10**8), 10**8), st.sampled_from(["deleted", "lost"])), min_size=1, max_size=8))
def test_after_any_damage_and_any_clock_it_is_trusted_again(damages: list[int | str]) -> None:
    world = established()
    for damage in damages:
        match damage:
            case "deleted":
                world.current = world.next = None
            case "lost":
                world.bundles[0].append((world.now, ()))
            case int(seconds):
                world.now += seconds
                # What API servers have seen is not a matter of this clock.
                world.bundles = [[(world.now, bundle[-1][1])] for bundle in world.bundles]
                world.signer = replace(world.signer) if world.signer else None
        world.run(int(PRE_PUBLICATION + LAG) + 2)
    world.run(int(LAG) + 1)
    assert world.is_trusted()

"""Random scenarios: acts in any order, over few names, so that everything meets everything.  Pure.

What has happened so far is kept roughly in mind, so that most acts find what they are about.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from parity.acts import Act, act

PODS: Final = ("web", "job")
TEMPLATES: Final = ("gpu", "nic")
CLAIMS: Final = ("shared", "other")
GROUP: Final = "group"
_LENGTHS: Final = range(6, 12)
_WHILE_DOWN: Final = (0, 0, 1, 2, 3)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A random scenario: after each act of `before` and `after` the controller is waited for; in between it is down."""

    number: int
    before: tuple[Act, ...]
    down: tuple[Act, ...]
    after: tuple[Act, ...]

    @property
    def namespace(self) -> str:
        return f"drawn-{self.number}"

    def __str__(self) -> str:
        parts = (("", self.before), ("while it is down: ", self.down), ("", self.after))
        return "\n".join(f"  {prefix}{each}" for prefix, acts in parts for each in acts)


def drawn(number: int) -> Drawn:
    """The scenario of this number: always the same."""
    script = _Script(random.Random(f"claims {number}"))
    acts = [script.next() for _ in range(script.rng.choice(_LENGTHS))]
    down = script.rng.choice(_WHILE_DOWN)
    begin = script.rng.randrange(2, len(acts) - down + 1)
    return Drawn(number, tuple(acts[:begin]), tuple(acts[begin : begin + down]), tuple(acts[begin + down :]))


@dataclass
class _Pod:
    templates: dict[str, str]
    claims: dict[str, str]
    bound: bool
    held: bool
    ended: bool = False


@dataclass
class _Script:
    """What there is, by name, as far as the acts alone tell."""

    rng: random.Random
    pods: dict[str, _Pod] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    templates: set[str] = field(default_factory=set)
    claims: set[str] = field(default_factory=set)
    groups: dict[str, Mapping[str, str]] = field(default_factory=dict)
    acts: int = 0

    def next(self) -> Act:
        self.acts += 1
        weights: list[tuple[int, Callable[[], Act]]] = list(self._possible())
        (chosen,) = self.rng.choices([each for _, each in weights], [weight for weight, _ in weights])
        return chosen()

    def _possible(self) -> Iterator[tuple[int, Callable[[], Act]]]:
        if len(self.templates) < len(TEMPLATES):
            yield (60 if self.acts < 2 else 12), self._template
        if self.templates:
            yield 2, self._drop_template
        if len(self.pods) < len(PODS):
            yield 16, self._pod
        if len(self.claims) < len(CLAIMS):
            yield 7, self._claim
        yield (1, self._delete_group) if self.groups else (6, self._group)
        if self.pods:
            unbound = any(not each.bound for each in self.pods.values())
            running = any(each.bound and not each.ended for each in self.pods.values())
            yield (18 if unbound else 1), self._schedule
            yield (6 if unbound else 1), self._bind
            yield (12 if running else 1), self._end
            yield 6, self._remove
            yield 2, self._terminate
            yield 3, self._touch
            yield 3, self._record
            yield 1, self._forget
            yield 1, self._let_go
            yield 1, self._extended
            yield 4, self._made
        if self.pods or self.claims:
            yield 2, self._protect
            yield 7, self._allocate
            yield 5, self._reserve
            yield 2, self._unreserve
            yield 7, self._delete_claim
            yield 1, self._let_go_of_claim
        if self.groups:
            yield 5, self._touch_group
            yield 1, self._record_group

    # Templates and PodGroups.

    def _template(self) -> Act:
        name = self._of(each for each in TEMPLATES if each not in self.templates)
        self.templates.add(name)
        return act("template", name=name, form=self._weighted(plain=12, labels=2, list=1, admin=1))

    def _drop_template(self) -> Act:
        name = self._of(self.templates)
        self.templates.discard(name)
        return act("drop template", name=name)

    def _group(self) -> Act:
        templates, claims = self._references()
        self.groups[GROUP] = {**templates, **claims}
        return act("group", name=GROUP, templates=templates, by_name=claims)

    def _touch_group(self) -> Act:
        return act("touch group", name=GROUP, label=str(self.acts))

    def _record_group(self) -> Act:
        own = self._of(self.groups[GROUP] or ("gpu",))
        return act("record group", name=GROUP, own=own, claim=self._of(("", *CLAIMS)))

    def _delete_group(self) -> Act:
        del self.groups[GROUP]
        return act("delete group", name=GROUP)

    # Pods.

    def _pod(self) -> Act:
        name = self._of(each for each in PODS if each not in self.pods)
        templates, claims = self._references()
        options = {
            **({"group": GROUP} if self._chance(0.5 if self.groups else 0.05) else {}),
            **{
                option: True for option, odds in (("bound", 0.25), ("gated", 0.1), ("held", 0.15)) if self._chance(odds)
            },
        }
        if options.get("bound"):
            options.pop("gated", None)
        if options.get("group") and self.groups and self._chance(0.7):
            own = self.groups[GROUP]
            templates = {**templates, **{each: of for each, of in own.items() if of in TEMPLATES}}
            claims = {each: of for each, of in {**claims, **own}.items() if of in CLAIMS and each not in templates}
        self.pods[name] = _Pod(templates, claims, bool(options.get("bound")), bool(options.get("held")))
        return act("pod", name=name, templates=templates, by_name=claims, **options)

    def _references(self) -> tuple[dict[str, str], dict[str, str]]:
        """One to three entries, of templates or of claims."""
        names = ("gpu", "nic", "mine")[: self._weighted_of({1: 6, 2: 4, 3: 1})]
        by_name = {each for each in names if self._chance(0.4)}
        templates = {each: self._of(TEMPLATES) for each in names if each not in by_name}
        return templates, {each: self._weighted(shared=3, other=1) for each in names if each in by_name}

    def _schedule(self) -> Act:
        pod = self._of((name for name, each in self.pods.items() if not each.bound), self.pods)
        self.pods[pod].bound = True
        return act("schedule", pod=pod)

    def _bind(self) -> Act:
        pod = self._of((name for name, each in self.pods.items() if not each.bound), self.pods)
        self.pods[pod].bound = True
        return act("bind", pod=pod)

    def _end(self) -> Act:
        pod = self._of((name for name, each in self.pods.items() if each.bound and not each.ended), self.pods)
        phase = self._weighted(Succeeded=4, Failed=1, Running=2)
        self.pods[pod].ended |= phase != "Running"
        return act("phase", pod=pod, phase=phase)

    def _remove(self) -> Act:
        pod = self._of(self.pods)
        self._ends(pod)
        return act("remove", pod=pod)

    def _terminate(self) -> Act:
        pod = self._of(self.pods)
        if not self.pods[pod].bound:
            self._ends(pod)
        return act("terminate", pod=pod)

    def _ends(self, pod: str) -> None:
        self.gone.add(pod)
        if not self.pods[pod].held:
            del self.pods[pod]

    def _let_go(self) -> Act:
        pod = self._of((name for name, each in self.pods.items() if each.held), self.pods)
        if pod in self.gone:
            del self.pods[pod]
        else:
            self.pods[pod].held = False
        return act("let go", pod=pod)

    def _touch(self) -> Act:
        return act("touch", pod=self._of(self.pods))

    def _record(self) -> Act:
        pod = self._of(self.pods)
        claim = self._of(("", *CLAIMS, "made-1", "made-2", self._generated()))
        return act("record", pod=pod, own=self._of(self.pods[pod].templates or ("gpu",)), claim=claim)

    def _forget(self) -> Act:
        return act("forget", pod=self._of(self.pods))

    def _extended(self) -> Act:
        return act("extended", pod=self._of(self.pods))

    # Claims.

    def _claim(self) -> Act:
        name = next(each for each in CLAIMS if each not in self.claims)
        self.claims.add(name)
        return act("claim", name=name, **({"held": True} if self._chance(0.3) else {}))

    def _made(self) -> Act:
        """One that a Pod owns, as if it had been generated and not recorded."""
        pod = self._of(self.pods)
        name = self._of(("made-1", "made-2"))
        annotation = self._of(self.pods[pod].templates or ("gpu",)) if self._chance(0.8) else ""
        held = {"held": True} if self._chance(0.4) else {}
        options = {**held, **({"controls": False} if self._chance(0.1) else {})}
        self.claims.add(name)
        return act("claim", name=name, owner=pod, annotation=annotation, **options)

    def _protect(self) -> Act:
        return act("protect", claim=self._any_claim())

    def _allocate(self) -> Act:
        """As kube-scheduler does it, most of the time."""
        claim = self._any_claim()
        pod, dot, _ = claim.partition(".")
        consumers = [f"pod:{pod}"] if dot and self._chance(0.8) else self._consumers()
        return act("allocate", claim=claim, consumers=consumers, **({"protect": True} if self._chance(0.8) else {}))

    def _reserve(self) -> Act:
        return act("reserve", claim=self._any_claim(), consumer=self._consumer())

    def _unreserve(self) -> Act:
        return act("unreserve", claim=self._any_claim())

    def _delete_claim(self) -> Act:
        claim = self._any_claim()
        self.claims.discard(claim)
        return act("delete claim", claim=claim)

    def _let_go_of_claim(self) -> Act:
        return act("let go of claim", claim=self._any_claim())

    def _any_claim(self) -> str:
        return self._of((*self.claims, *[self._generated()] * 2))

    def _generated(self) -> str:
        """A claim as it is recorded, of a Pod or the PodGroup."""
        consumer = self._of((*self.pods, *self.groups), PODS)
        own = self.pods[consumer].templates if consumer in self.pods else self.groups.get(consumer, {})
        return f"{consumer}.{self._of(own, ('gpu',))}"

    def _consumers(self) -> list[str]:
        return sorted({self._consumer() for _ in range(self._weighted_of({0: 1, 1: 4, 2: 2}))})

    def _consumer(self) -> str:
        kinds: dict[str, int] = {"never": 1, "deployment": 2}
        kinds |= {f"pod:{each}": 8 for each in self.pods}
        kinds |= {f"earlier:{each}": 3 for each in self.gone}
        kinds |= {f"group:{each}": 4 for each in self.groups}
        return self._weighted_of(kinds)

    # Chance.

    def _chance(self, odds: float) -> bool:
        return self.rng.random() < odds

    def _of(self, names: Any, otherwise: Any = ()) -> str:
        """One of these names, or of others where there are none."""
        return str(self.rng.choice(sorted(names) or sorted(otherwise)))

    def _weighted(self, **weights: int) -> str:
        return self._weighted_of(weights)

    def _weighted_of(self, weights: Mapping[Any, int]) -> Any:
        return self.rng.choices(list(weights), list(weights.values()))[0]

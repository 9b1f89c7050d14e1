"""Which rules match which pending Pods, for the rules' `status.pendingMatches` and `status.lastMatch`.

Lost on restart and rebuilt as the Pods in the cache are decided about again: until then, counts are not `complete`.  A
Pod that leaves the cache (bound or deleted) is removed here as well.  One that leaves before it was decided about,
because kube-scheduler was quicker, is kept as it was, so that what matched it is found all the same.
"""

from collections import Counter
from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import Final

from tollbar.decide.rules.rule import Rule
from tollbar.decide.rules.rulestatus import LastMatch
from tollbar.model.objects import Key, Object, key_of
from tollbar.runtime.packed import Packed
from tollbar.runtime.source import Channel, Delta
from tollbar.runtime.store import Store
from tollbar.views import kinds

KEPT: Final = 1_000
"""Pods that are kept after they have left, at most, since a standby decides about none of them; and combinations of
rules."""


@dataclass(slots=True)
class _Pod:
    """The rules that match now, and all that have matched, each name once, as they were when they did."""

    matching: tuple[Rule, ...] = ()
    matched: tuple[Rule, ...] = ()


class Matches:
    """`changes` sends the key of every rule whose count changed, or that has matched another Pod."""

    def __init__(self, pods: Store) -> None:
        self.changes: Channel[Key] = Channel("matches")
        self._store = pods
        self._pods: dict[Key, _Pod] = {}
        self._departed = Packed(kinds.alike)
        self._complete = False
        self._counts: Counter[str] = Counter()
        self._combinations: dict[tuple[str, ...], tuple[Rule, ...]] = {}
        """Of rules, by their names: most Pods are matched by the same few."""
        self._last: dict[str, tuple[Rule, LastMatch]] = {}
        pods.subscribe(self._on_delta)

    @property
    def complete(self) -> bool:
        """Whether every Pod of the first list has been decided about since this process started."""
        self._note_completeness()
        return self._complete

    def count(self, rule: str) -> int:
        return self._counts[rule]

    def last(self, rule: Rule) -> LastMatch | None:
        """The last Pod that this rule was found to match, as the rule is now."""
        by, last = self._last.get(rule.name, (None, None))
        return last if by is rule else None

    def forget(self, rule: str) -> None:
        """This rule was deleted."""
        self._last.pop(rule, None)

    def departed(self, pod: Key) -> Object | None:
        """The Pod as it was when it left the cache, if it was not decided about before that; told once."""
        return self._departed.pop(pod, None)

    def record(self, pod: Key, rules: Iterable[Rule], now: float) -> list[Rule]:
        """Record which rules match this Pod; `now` in epoch seconds.  One that has left the cache is not counted.

        Returns those that had not been known to.  A rule whose spec has changed is another one.
        """
        restarted = not self.complete
        counted = pod in self._store
        found = self._pods.setdefault(pod, _Pod()) if counted else _Pod()
        matching, known = self._once(rules), {id(rule) for rule in found.matched}
        news = [rule for rule in matching if id(rule) not in known]
        for rule in news:
            self._last[rule.name] = rule, LastMatch(pod, now, restarted)
        if news:
            found.matched = self._once((*found.matched, *news))
        before, found.matching = found.matching, matching if counted else ()
        if news or found.matching is not before:
            self._count(_names(before), _names(found.matching), _names(news))
        self._note_completeness()
        return news

    def _once(self, rules: Iterable[Rule]) -> tuple[Rule, ...]:
        """These rules, of one name the last, as a tuple that equal combinations share."""
        by_name = {rule.name: rule for rule in rules}
        names = tuple(by_name)
        known = self._combinations.get(names, ())
        if len(known) == len(names) and all(rule is by_name[rule.name] for rule in known):
            return known
        if len(self._combinations) >= KEPT:
            self._combinations.clear()
        self._combinations[names] = combination = tuple(by_name.values())
        return combination

    def _note_completeness(self) -> None:
        self._complete = self._complete or len(self._pods) == len(self._store)

    def _count(self, before: Set[str], after: Set[str], news: Iterable[str] = ()) -> None:
        self._counts.update(after - before)
        self._counts.subtract(before - after)
        for rule in {*(before ^ after), *news}:
            self.changes.send(Key("", rule))

    def _on_delta(self, delta: Delta) -> None:
        if delta.new is None and delta.old is not None:
            key = key_of(delta.old)
            gone = self._pods.pop(key, None)
            if gone is not None:
                self._count(_names(gone.matching), frozenset())
                return
            self._departed[key] = delta.old
            if len(self._departed) > KEPT:
                del self._departed[next(iter(self._departed))]


def _names(rules: Iterable[Rule]) -> frozenset[str]:
    return frozenset(rule.name for rule in rules)

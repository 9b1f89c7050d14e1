"""The gate class `placement`: adds node affinity to Pods by PlacementRules before they are scheduled (KEP-3838).

A rule that is true for a Pod adds to the Pod's node affinity, which cannot be changed after the release.  So a Pod is
held while an object that a rule reads is missing, and also if a rule fails for it or exceeds its cost limit.  Only that
Pod is held.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Final

from tollbar import cel, wellknown
from tollbar.cel import ProgramCache
from tollbar.decide.gates.answers import Answer, Hold, NotMine, Release
from tollbar.decide.pods import matching
from tollbar.decide.pods.matching import Results, Truth
from tollbar.decide.pods.package import assemble
from tollbar.decide.pods.reasons import PodReason
from tollbar.decide.rules.placements import Placement, compile_placement, narrowing
from tollbar.decide.rules.rule import Problem, compile_selector
from tollbar.dra.classes import last_created
from tollbar.gates.explanation import ClusterCopy, GateExplanation, Section
from tollbar.gates.gate import Facts, Gate, Reads
from tollbar.model import claims
from tollbar.model.objects import Key, Object, key_of, spec
from tollbar.views import kinds

_EVERY: Final = ("",)
"""The one value of an index that finds all objects of a kind."""
_CLASSES: Final = replace(kinds.CLASSES, indexers={**kinds.CLASSES.indexers, "every": lambda _: _EVERY})
_RULES: Final = replace(kinds.PLACEMENT_RULES, indexers={"every": lambda _: _EVERY})


class PlacementGate(Gate):
    """Reads every rule and, since a claim names its classes, every DeviceClass."""

    name = wellknown.PLACEMENT_GATE
    reads = (
        Reads(_RULES, lambda _: _EVERY, by="every"),
        Reads(_CLASSES, lambda _: _EVERY, by="every"),
        Reads(kinds.CLAIMS, kinds.CLAIMS_OF_POD),
        Reads(kinds.TEMPLATES, kinds.TEMPLATES_OF_POD),
    )
    max_hold = "10m"
    rights = ({"apiGroups": [wellknown.GROUP], "resources": ["placementrules/status"], "verbs": ["patch"]},)

    def __init__(self) -> None:
        self._engine = cel.engine()
        self._selectors = ProgramCache(partial(compile_selector, engine=self._engine))
        self._compiled: dict[str, tuple[Object, Placement | Problem]] = {}

    def decide(self, facts: Facts) -> Answer:
        placements = self._in_force(facts.of(_RULES))
        return _answer(placements, self._results(placements, facts)) if placements else NotMine()

    def explain(self, facts: Facts, copy: ClusterCopy) -> GateExplanation:  # noqa: ARG002
        placements = self._in_force(facts.of(_RULES))
        if not placements:
            return GateExplanation(NotMine())
        results = self._results(placements, facts)
        rows = Section("PlacementRules", ("RULE", "VERDICT", "WHY"), tuple(_verdicts(placements, results)))
        return GateExplanation(_answer(placements, results), (rows,))

    def _results(self, placements: Mapping[str, Placement], facts: Facts) -> Results:
        package = assemble(facts.pod, _Lookup(facts), at_admission=facts.at_admission)
        limits = matching.AT_ADMISSION if facts.at_admission else matching.OR_UNKNOWN
        rules = [each.rule for each in placements.values()]
        return matching.evaluate(rules, package, self._engine, self._selectors.get, limits)

    def _in_force(self, objects: Iterable[Object]) -> Mapping[str, Placement]:
        """Rules that compile, by name; a rule is compiled again only when its spec has changed."""
        before, self._compiled = self._compiled, {}
        for obj in objects:
            name = key_of(obj).name
            known = before.get(name)
            if known is None or spec(known[0]) != spec(obj):
                known = obj, compile_placement(obj, self._engine)
            self._compiled[name] = known
        return {name: found for name, (_, found) in self._compiled.items() if isinstance(found, Placement)}


def _answer(placements: Mapping[str, Placement], results: Results) -> Answer:
    release = _release([placements[each.name] for each in results.true], results)
    doubts = "; ".join(_doubts(results))
    return Hold(PodReason.UNDECIDED, doubts, release) if doubts else release


def _verdicts(placements: Iterable[str], results: Results) -> Iterator[tuple[str, ...]]:
    """Rows by name of the rule: its answer for the Pod, and the reason where the answer alone does not show it."""
    said = {
        **{rule.name: (Truth.TRUE.value, "-") for rule in results.true},
        **{rule.name: (f"{Truth.TRUE.value} (Audit)", "-") for rule in results.audited},
        **{rule.name: (Truth.UNKNOWN.value, why) for rule, why in results.undecided},
        **{rule.name: (Truth.ERROR.value, why) for rule, why in results.failed},
    }
    for name in sorted(placements):
        yield name, *said.get(name, ("false, or out of scope", "-"))


def _release(placements: Iterable[Placement], results: Results) -> Release:
    found = sorted(placements, key=lambda each: each.rule.name)
    names = [each.rule.name for each in found]
    audited = tuple(f"PlacementRule {each.name} (Audit) would narrow the node affinity" for each in results.audited)
    if not found:
        return Release(because=results.because, warnings=audited)
    mutation = replace(narrowing(found), annotations={wellknown.ANNOTATION_PLACEMENT: ",".join(names)})
    gives = f"the node affinity of PlacementRule {', '.join(names)}"
    return Release(mutation, gives, because=results.because, warnings=audited)


def _doubts(results: Results) -> Iterator[str]:
    for rule, why in results.undecided:
        yield f"{why} (PlacementRule {rule.name})"
    for rule, why in results.failed:
        if rule.mode == "Enforce":
            yield f"a correction of PlacementRule {rule.name}, which fails for this Pod: {why}"


class _Lookup:
    """Implements `tollbar.decide.pods.package.Lookup` by what the gate is given."""

    def __init__(self, facts: Facts) -> None:
        self._namespace = facts.namespace
        self._classes = {key_of(each).name: each for each in facts.of(_CLASSES)}
        self._claims = {key_of(each): each for each in facts.of(kinds.CLAIMS)}
        self._templates = {key_of(each): each for each in facts.of(kinds.TEMPLATES)}

    def claim(self, key: Key) -> Object | None:
        return self._claims.get(key)

    def template(self, key: Key) -> Object | None:
        return self._templates.get(key)

    def device_class(self, name: str) -> Object | None:
        return self._classes.get(name)

    def class_for_extended_resource(self, resource: str) -> Object | None:
        if (implicit := claims.implicit_class(resource)) is not None:
            return self.device_class(implicit)
        return self._by_resource.get(resource)

    @cached_property
    def _by_resource(self) -> Mapping[str, Object | None]:
        """The class for each extended resource that has one: a Pod may name a thousand resources."""
        found: dict[str, list[Object]] = defaultdict(list)
        for each in self._classes.values():
            if name := claims.extended_resource_of(each):
                found[name].append(each)
        return {name: last_created(classes) for name, classes in found.items()}

    def namespace(self, name: str) -> Object | None:
        return self._namespace if key_of(self._namespace).name == name else None

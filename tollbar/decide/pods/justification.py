"""Whether the tolerations that Tollbar gave a Pod are still justified: a rule in force that gives them is true for it.

What a Pod was given is read from its provenance record.  Users who may change the Pod may change the record as well,
unless a policy protects it (component `protective-gates`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from tollbar.cel import CelEngine
from tollbar.decide.pods import matching
from tollbar.decide.pods.matching import Results, SelectorCompiler
from tollbar.decide.pods.package import Package
from tollbar.decide.pods.tolerations import provenance_of, without_recorded
from tollbar.decide.rules.rule import Rule
from tollbar.model.objects import Object, metadata
from tollbar.model.tolerations import Identity, identity


class Standing(Enum):
    """Whether a toleration that Tollbar gave is justified now, and if not, why."""

    JUSTIFIED = "a rule in force that gives it is true for the Pod"
    UNDECIDED = (
        "whether such a rule is true for the Pod cannot be told, or the evaluation of the one that gave it fails"
    )
    RULE_CHANGED = "the rule that gave it has changed or was made anew since, and no rule in force justifies it"
    UNTRUE = "the rule that gave it is as it was, and is not true for the Pod any more"


@dataclass(frozen=True, slots=True)
class Given:
    """A toleration that the record says this generation of this rule gave."""

    rule: str
    generation: int
    toleration: Object
    standing: Standing = Standing.UNDECIDED


_NOTHING: Final = Results()


def given(pod: Object) -> tuple[Given, ...]:
    """What the Pod's record says it was given; entries that are not Tollbar's are left out."""
    return tuple(
        Given(entry["rule"], entry["generation"], each) for entry in provenance_of(pod) for each in entry["added"]
    )


def those_that_give(recorded: Iterable[Given], rules: Iterable[Rule]) -> list[Rule]:
    """The rules in force that give one of these tolerations: only these can justify them."""
    wanted = {identity(each.toleration) for each in recorded}
    return [rule for rule in rules if rule.mode == "Enforce" and not wanted.isdisjoint(_gives(rule))]


def judge(package: Package, rules: Sequence[Rule], engine: CelEngine, selector: SelectorCompiler) -> tuple[Given, ...]:
    """What the Pod was given, and whether these rules still justify each toleration.  Total on any record.

    The generation of a rule that is deleted and created again begins at 1 again, so one that is younger than the Pod is
    not the one that is recorded, unless that gave its tolerations late.
    """
    recorded = given(package.pod)
    giving = those_that_give(recorded, rules)
    results = _NOTHING
    if giving:
        results = matching.evaluate(giving, package, engine, selector, matching.OR_UNKNOWN)
    true, undecided = list(results.true), [rule for rule, _ in results.undecided]
    failed = {rule.name for rule, _ in results.failed}
    names = {rule.name for rule in true}
    if doubtful := [rule for rule in giving if rule.reads_tolerations and rule.name not in names]:
        # It may have been true before these tolerations were there.
        before = replace(package, pod=without_recorded(package.pod, [each.toleration for each in recorded]))
        results = matching.evaluate(doubtful, before, engine, selector, matching.OR_UNKNOWN)
        true += results.true
        undecided += [rule for rule, _ in results.undecided]
        failed |= {rule.name for rule, _ in results.failed}
    justified = {each for rule in true for each in _gives(rule)}
    unknown = {each for rule in undecided for each in _gives(rule)}
    created = str(metadata(package.pod).get("creationTimestamp") or "")
    unchanged = {
        (rule.name, rule.generation, each) for rule in giving if rule.created <= created for each in _gives(rule)
    }

    def standing(one: Given) -> Standing:
        this = identity(one.toleration)
        if this in justified:
            return Standing.JUSTIFIED
        if this in unknown:
            return Standing.UNDECIDED
        if (one.rule, one.generation, this) not in unchanged:
            return Standing.RULE_CHANGED
        return Standing.UNDECIDED if one.rule in failed else Standing.UNTRUE

    return tuple(replace(one, standing=standing(one)) for one in recorded)


def _gives(rule: Rule) -> set[Identity]:
    return {identity(toleration) for toleration in rule.tolerations}

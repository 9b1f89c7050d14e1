"""The rules in force, compiled once per change."""

from fakes.engine import FakeEngine, FakeProgram
from objects.builders import TolerationRule, toleration, toleration_rule

from tollbar.cel import CelError
from tollbar.decide.rules.rule import Problem, Rule
from tollbar.model import resources
from tollbar.runtime.store import Store
from tollbar.views.ruleset import RuleSet

GPU = toleration("example.com/gpu")
PROGRAMS = {
    "about-pods": FakeProgram(lambda _: True, frozenset({"pod.metadata.labels"})),
    "about-claims": FakeProgram(lambda _: True, frozenset({"claims.spec"})),
}


def ruleset(*rules: TolerationRule) -> tuple[Store, RuleSet, FakeEngine]:
    store, engine = Store(resources.TOLERATION_RULES), FakeEngine(PROGRAMS)
    built = RuleSet(store, engine)
    for each in rules:
        store.apply(each)
    return store, built, engine


def names(given: RuleSet) -> list[str]:
    return [rule.name for rule in given.rules]


B = toleration_rule("b").cel("about-pods")
A = toleration_rule("a").cel("about-claims")
BROKEN = toleration_rule("c").cel("about-nothing")


def problems(given: RuleSet) -> dict[str, Problem]:
    return {name: found for name in "abcd" if isinstance(found := given.get(name), Problem)}


def test_rules_in_force_are_sorted_by_name() -> None:
    assert names(ruleset(B, A)[1]) == ["a", "b"]


def test_a_rule_with_a_problem_is_not_in_force() -> None:
    _, given, _ = ruleset(A, BROKEN)
    problem = Problem("InvalidExpression", "spec.match.cel.expression: 1:7: undeclared reference")
    assert (names(given), problems(given), given.get("c")) == (["a"], {"c": problem}, problem)


def test_a_disabled_rule_is_not_in_force_but_known() -> None:
    _, given, _ = ruleset(A.mode("Disabled"))
    found = given.get("a")
    assert (names(given), problems(given), isinstance(found, Rule) and found.mode) == ([], {}, "Disabled")


def test_reads_is_what_the_rules_in_force_read() -> None:
    _, given, _ = ruleset(A, B, BROKEN, toleration_rule("d").extended("example.com/gpu").mode("Disabled"))
    assert (given.reads, given.inputs) == ({"pod.metadata.labels", "claims.spec"}, {"pod", "claims"})


def test_rules_for_claims_are_others_than_rules_for_pods() -> None:
    both = A.but("spec.deviceTolerations", [toleration("example.com/a")])
    alone = toleration_rule("c").cel("about-claims").giving_devices(toleration("example.com/c"))
    _, given, _ = ruleset(B, both, alone, toleration_rule("d").cel("about-claims").giving_devices(GPU).mode("Disabled"))
    assert (names(given), [rule.name for rule in given.claim_rules]) == (["a", "b"], ["a", "c"])


def test_a_change_of_the_status_compiles_nothing() -> None:
    store, given, engine = ruleset(A)
    before = given.get("a")
    store.apply(A.but("status.pendingMatches", 3).but("metadata.resourceVersion", "7"))
    assert (given.get("a") is before, engine.compiled) == (True, {"about-claims": 1})


def test_a_change_of_the_spec_compiles_it_again() -> None:
    store, given, engine = ruleset(A)
    store.apply(A.cel("about-pods"))
    assert (given.reads, engine.compiled) == ({"pod.metadata.labels"}, {"about-claims": 1, "about-pods": 1})


def test_a_rule_that_is_deleted_is_gone() -> None:
    store, given, _ = ruleset(A, B, BROKEN)
    store.remove(A)
    store.remove(BROKEN)
    assert (names(given), problems(given), given.get("a"), given.reads) == (["b"], {}, None, {"pod.metadata.labels"})


def test_a_rule_of_the_same_name_is_another_rule() -> None:
    store, given, _ = ruleset(A)
    store.apply(A.but("metadata.uid", "another").cel("about-pods"))
    assert (names(given), given.reads) == (["a"], {"pod.metadata.labels"})


def test_whoever_subscribes_later_sees_the_compiled_rule() -> None:
    store, given, _ = ruleset()
    seen: list[list[str]] = []
    store.subscribe(lambda _: seen.append(names(given)))
    store.apply(A)
    store.remove(A)
    assert seen == [["a"], []]


def test_a_selector_is_compiled_once() -> None:
    _, given, engine = ruleset()
    answers = [
        given.selector("about-pods"),
        given.selector("about-pods"),
        given.selector("nope"),
        given.selector("nope"),
    ]
    error = CelError("undeclared reference", 1, 7, "COMPILE")
    assert (answers, engine.compiled) == (
        [PROGRAMS["about-pods"], PROGRAMS["about-pods"], error, error],
        {"about-pods": 1, "nope": 1},
    )

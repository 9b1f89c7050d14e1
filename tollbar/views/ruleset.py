"""The rules in force: every TolerationRule of the cache, compiled once per change.

It must subscribe to the rule store before other handlers, so that they see the compiled rule.  A rule that does not
compile is not in force and has a `Problem`; a rule that fails at run time stays in force.  Hazard: compiling takes
milliseconds on the event loop; rules are few and change rarely.
"""

from functools import partial
from typing import NamedTuple

from tollbar.cel import CelEngine, CelError, Program, ProgramCache
from tollbar.decide.rules.rule import Problem, Rule, compile_rule, compile_selector
from tollbar.model.objects import Object, key_of, spec
from tollbar.runtime.source import Delta
from tollbar.runtime.store import Store


class _InForce(NamedTuple):
    """As the properties of `RuleSet`."""

    rules: tuple[Rule, ...]
    claim_rules: tuple[Rule, ...]
    reads: frozenset[str]
    inputs: frozenset[str]


class RuleSet:
    """`rules`, those for Pods, and `claim_rules`, those for requests of claims, are sorted by name; `reads` are all
    input paths that some rule for Pods reads, and `inputs` the inputs that these are of."""

    def __init__(self, store: Store, engine: CelEngine) -> None:
        self.engine = engine
        self._compiled: dict[str, Rule | Problem] = {}
        self._in_force: _InForce | None = None
        self._selectors = ProgramCache(partial(compile_selector, engine=engine))
        store.subscribe(self._on_delta)

    @property
    def rules(self) -> tuple[Rule, ...]:
        return self._settled().rules

    @property
    def claim_rules(self) -> tuple[Rule, ...]:
        return self._settled().claim_rules

    @property
    def reads(self) -> frozenset[str]:
        return self._settled().reads

    @property
    def inputs(self) -> frozenset[str]:
        return self._settled().inputs

    def _settled(self) -> _InForce:
        """Made at the first question after a change: thousands of rules that are listed change one by one."""
        if self._in_force is None:
            compiled = (rule for _, rule in sorted(self._compiled.items()))
            in_force = [rule for rule in compiled if isinstance(rule, Rule) and rule.mode != "Disabled"]
            rules = tuple(rule for rule in in_force if rule.tolerations)
            of_claims = tuple(rule for rule in in_force if rule.device_tolerations)
            reads = frozenset(path for rule in rules for path in rule.reads)
            self._in_force = _InForce(rules, of_claims, reads, frozenset(path.split(".", 1)[0] for path in reads))
        return self._in_force

    def get(self, name: str) -> Rule | Problem | None:
        return self._compiled.get(name)

    def selector(self, source: str) -> Program | CelError:
        """A device selector, compiled at most once while it is in use."""
        return self._selectors.get(source)

    def _on_delta(self, delta: Delta) -> None:
        if delta.new is None:
            self._compiled.pop(_name(delta.old), None)
        elif delta.old is None or spec(delta.old) != spec(delta.new):
            self._compiled[_name(delta.new)] = compile_rule(delta.new, self.engine)
        self._in_force = None


def _name(obj: Object | None) -> str:
    return key_of(obj or {}).name

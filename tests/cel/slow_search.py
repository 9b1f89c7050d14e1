"""A search for expressions and inputs that take long, guided by time.

It begins with operations on elements of lists and mutates the slowest that it has found: their operations are put into
each other and into loops, their inputs replaced.  Operations are those of OPERATIONS, made to be slow, and small random
expressions, which have all functions.  What it finds depends on the machine, so it asserts nothing itself.
What takes too long is measured again before it counts, so that noise of the machine does not guide the search.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

from cel.adversaries import ENV
from cel.generator import RESULTS, Weights, Writer

from tollbar.cel import CelEngine, CelError, CostBudget

EVALUATING: Final = 0.01
COMPILING: Final = 0.1
"""Seconds of CPU that an evaluation may take, and that compiling may take."""
CONFIRMING: Final = 8
"""So many times more something is measured that took longer."""
OPERATIONS: Final = (
    *("{0} == {1}", "{0} != {1}", "{0} < {1}", "{0} in {1}", "{0} + {1}", "{0} * 3", "-{0}", "[{0}, {1}]"),
    *("{{'a': {0}}}", "{0}.a", "{0}.?a.?b", "{0}[?'a']", "{0}[0]", "x[0]", "type({0})", "string({0})", "int({0})"),
    *("size({0})", "{0}.startsWith('a')", "{0}.contains({1})", "{0}.replace('a', 'bb')", "{0}.split('')"),
    *("[{0}].join({1})", "{0}.lowerAscii()", "{0}.trim()", "strings.quote({0})", "{0}.indexOf({1})"),
    *("'%s'.format([{0}])", "'%.100f'.format([{0}])", "'%e'.format([{0}])", "'%x'.format([{0}])"),
    *("{0}.matches('[a-z]*1')", "{0}.matches('(a|b)*a[ab]{{30}}c')", "{0}.find('[0-9]+')", "{0}.findAll('.?')"),
    *("{0}.sum()", "{0}.min()", "{0}.isSorted()", "{0}.sort()", "{0}.distinct()", "{0}.flatten()", "{0}.reverse()"),
    *("{0}.includes({1})", "sets.contains({0}, {0})", "sets.intersects({0}, [{1}])", "lists.range(100)"),
    *("timestamp({0})", "duration({0})", "timestamp({0}).getDayOfYear()", "timestamp(1).getHours({0})"),
    *("quantity({0})", "quantity({0}).add(quantity('1m'))", "isQuantity({0})", "semver({0})", "isSemver({0}, true)"),
    *("ip({0})", "isIP({0})", "ip.isCanonical({0})", "cidr({0}).masked()", "cidr({0}).containsIP({1})"),
    *("url({0})", "url({0}).getQuery()", "isURL({0})", "format.uri().validate({0})", "format.uuid().validate({0})"),
    *("format.qualifiedName().validate({0})", "optional.of({0})", "cel.bind(b, {0}, b == b)", "({0} ? {1} : {0})"),
    *("({0} && {1})", "({0} || {1})", "({0} == 1 || {1} == 2)", "x.exists(i, {0})", "x.all(i, {0})", "x.map(i, {0})"),
    *("x.filter(i, {0})", "x.exists_one(i, {0})", "x.all(k, i, {0})", "x.transformMap(k, i, {0})", "x.sortBy(i, {0})"),
    *("[1, 2].all(j, {0})", "[1, 2].exists(j, {0})", "x.transformMapEntry(k, i, {{k: {0}}})", "{0}.nope"),
)
ELEMENTS: Final[tuple[Any, ...]] = (
    *(0, 2**62, -1.5, 1.1e300, 1.1e-300, True, None, "", "a", "ab" * 20, "a" * 5_000, "é\n" * 500, "1h1m1s", "80Gi"),
    *("2024-01-01T00:00:00.123456789Z", "1.2.3-a.b.c", "10.0.0.1", "2001:db8::1", "2001:db8::/64", "Europe/Paris"),
    *("http://u:p@a.b:1/%41%42?a=%41&b=c", "/?" + "a=%41&" * 200, [1, "a", 1.5], [[1.5] * 50], [["a"] * 50] * 50),
    *({"a": {"b": 1}}, {"a": [{"b": [1, 2.0]}] * 20}, ["a", 1] * 500, [1.1e300] * 500),
)

_TYPES: Final = {int: "int", float: "double", str: "string", bool: "bool"}


@dataclass(frozen=True, slots=True)
class Slow:
    """An expression over `i`, an element of x, and x; what it cost: seconds of CPU for both, and steps; its answer.

    The elements of x are those of ELEMENTS at the positions in `picks`, over and over up to `length`.  So an input is
    made again from what its text says.
    """

    body: str
    picks: tuple[int, ...]
    length: int
    seconds: float = field(default=0.0, repr=False)
    compiling: float = field(default=0.0, repr=False)
    steps: int = field(default=0, repr=False)
    answer: Any = field(default=None, repr=False)

    @property
    def share(self) -> float:
        """Of what it may take, the larger one of its two times."""
        return max(self.seconds / EVALUATING, self.compiling / COMPILING)

    @property
    def cost(self) -> str:
        return f"{self.seconds * 1000:.1f} ms, {self.steps} steps, compiled in {self.compiling * 1000:.1f} ms"

    @property
    def expression(self) -> str:
        return f"x.map(i, dyn({self.body})).size() == -1 || 1 / 0 == 1"

    @property
    def x(self) -> list[Any]:
        return [ELEMENTS[self.picks[position % len(self.picks)]] for position in range(self.length)]


def search(engine: CelEngine, seed: int, seconds: float, kept: int = 40) -> Iterator[Slow]:
    """All that was evaluated in so many seconds of CPU."""
    engine.compile("x", ENV)  # which makes the parser
    rng = Random(seed)
    slowest = [Slow("i", tuple(rng.choices(range(len(ELEMENTS)), k=2)), 2) for _ in range(kept)]
    tried: set[Slow] = set()
    end = time.process_time() + seconds
    while time.process_time() < end:
        mutated = _mutated(rng, rng.choice(slowest))
        if mutated in tried:
            continue
        tried.add(mutated)
        found = measured(engine, mutated)
        if found is not None:
            found = confirmed(engine, found)
            yield found
            slowest = sorted([*slowest, found], key=lambda each: -each.share)[:kept]


def _mutated(rng: Random, slow: Slow) -> Slow:
    body, picks, length = slow.body, slow.picks, slow.length
    if rng.random() < 0.5:
        operands = [body, "i", rng.choice(OPERATIONS).format("i", "i")]
        rng.shuffle(operands)
        body = rng.choice(OPERATIONS).format(*operands)
    if rng.random() < 0.2:
        body = rng.choice(OPERATIONS).format("i", "i")
    elif rng.random() < 0.3:
        return _written(rng)
    if rng.random() < 0.4:
        picks = tuple(rng.choices(range(len(ELEMENTS)), k=rng.choice((1, 1, 2, 3))))
    if rng.random() < 0.5:
        length = rng.choice((len(picks), 10, 100, 1_000, 9_000))
    return Slow(body, picks, length)


def _written(rng: Random) -> Slow:
    """A small one of the random expressions that are compared with Kubernetes', over an element of ELEMENTS."""
    pick = rng.randrange(len(ELEMENTS))
    variables = {"i": _TYPES.get(type(ELEMENTS[pick]), "dyn")}
    body = Writer(rng, variables=variables, weights=Weights(leaves=0.6)).write(rng.choice(RESULTS), 2)
    return Slow(body, (pick,), 9_000)


def confirmed(engine: CelEngine, found: Slow) -> Slow:
    """With the least of its times, if it took too long: what else the machine does can only add to them."""
    best = found
    for _ in range(CONFIRMING):
        if best.share > 1 and (again := measured(engine, found)) is not None:
            best = replace(
                best, seconds=min(best.seconds, again.seconds), compiling=min(best.compiling, again.compiling)
            )
    return best


def measured(engine: CelEngine, slow: Slow) -> Slow | None:
    """None for an expression that does not compile."""
    begun = time.process_time()
    try:
        program = engine.compile(slow.expression, ENV)
    except CelError:
        return None
    compiling = time.process_time() - begun
    inputs = {"x": slow.x}
    best = float("inf")
    for _ in range(2):
        budget = CostBudget(0)
        begun = time.process_time()
        answer = program.evaluate(inputs, budget)
        best = min(best, time.process_time() - begun)
    return replace(slow, seconds=best, compiling=compiling, steps=-budget.steps, answer=answer)

"""Properties of the engines on random texts, expressions and objects."""

from functools import cache
from typing import Any
from unittest.mock import patch

from cel.costs import measure
from clusters.drawing import pick
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tollbar.cel import BUDGET, COMPILE, RULE_ENV, RUNTIME, UNKNOWN, CelError, Env, Program, engine, project
from tollbar.cel.core.limits import MAX_ALLOCATION, MAX_STEPS, CostTracker
from tollbar.cel.engines.closures import ClosuresEngine
from tollbar.cel.engines.compiled import CompiledProgram, CompilingEngine

ENGINE = engine()
ANYTHING = Env(variables=(("x", "dyn"), ("y", "dyn")))

# Any text.

WORDS_OF_CEL = """x y true null 1 2.5 3u "a" 'b' r"\\d" b"c" . , : ? ( ) [ ] { } + - * / % ! == != < >= && || in has
size exists all map filter matches quantity semver duration timestamp cel.bind dyn type int string " ' \\ // \\n é 😀
x.a x.b[0] x["k"] x.exists(i, size(x) x.map(i, (1)"""
TOKENS = st.sampled_from(WORDS_OF_CEL.split())
SOURCES = (
    st.lists(TOKENS, max_size=30).map(" ".join) | st.lists(TOKENS, max_size=30).map("".join) | st.text(max_size=80)
)


def compiled(source: str) -> Program | CelError:
    try:
        return ENGINE.compile(source, ANYTHING)
    except CelError as error:
        return error


def short(error: CelError) -> bool:
    return len(str(error)) < 200 and "\n" not in str(error) and "internal error" not in str(error)


@given(SOURCES)
def test_any_text_is_a_program_or_one_short_error(source: str) -> None:
    found = compiled(source)
    if isinstance(found, CelError):
        assert (found.kind, found.line >= 1, found.column >= 1, short(found)) == (COMPILE, True, True, True)
    else:
        assert found.source == source


# Expressions over any JSON.

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abkn"), inner, max_size=3),
    max_leaves=12,
)
OPERANDS = """x y x y x.a y.b x[0] x["k"] x.a.n 1 -1 2.5 7u "a" "1Gi" true null [] {}"""
ATOMS = st.sampled_from(OPERANDS.split())
UNARY = st.sampled_from(
    [
        "!({0})",
        "-({0})",
        "size({0})",
        "type({0})",
        "int({0})",
        "string({0})",
        "double({0})",
        "has(({0}).a)",
        "({0}).a",
        "({0})[0]",
        "({0}).exists(i, i == x)",
        "({0}).all(i, i.a)",
        "({0}).map(i, [i, y])",
        "({0}).filter(i, i != null)",
        "({0}).exists_one(i, i == 1)",
        "({0}).join(',')",
        "({0}).sum()",
        "({0}).max()",
        "({0}).split('a')",
        "({0}).trim()",
        "({0}).isSorted()",
        "isQuantity({0})",
        "quantity({0}).sign()",
        "isSemver({0}, true)",
        "duration({0}).getHours()",
        "timestamp({0}).getDate()",
        "bytes({0})",
        "[{0}]",
        '{{"a": {0}}}',
        "({0}).?a",
        "({0})[?0]",
        "[?{0}]",
        '{{?"a": {0}}}',
        "({0}).optMap(v, [v, x])",
        "({0}).all(i, v, v == y || i == x)",
        "({0}).transformList(i, v, [i, v])",
        "({0}).transformMap(i, v, v != null, y)",
        "({0}).transformMapEntry(i, v, {{v: i}})",
        "({0}).sortBy(v, -v)",
    ]
)
BINARY = st.sampled_from(
    [
        "({0}) + ({1})",
        "({0}) - ({1})",
        "({0}) * ({1})",
        "({0}) / ({1})",
        "({0}) % ({1})",
        "({0}) == ({1})",
        "({0}) != ({1})",
        "({0}) < ({1})",
        "({0}) >= ({1})",
        "({0}) in ({1})",
        "({0}) && ({1})",
        "({0}) || ({1})",
        "({0}) ? ({1}) : ({0})",
        "({0})[{1}]",
        "({0}).matches({1})",
        "({0}).replace({1}, 'bb')",
        "({0}).indexOf({1})",
        "({0}).substring({1})",
        "{{{0}: {1}}}",
        "cel.bind(x, {0}, {1})",
        "cel.bind(v, {0}, x == y || v == {1})",
        "({0}).orValue({1})",
        "({0}).or({1})",
    ]
)
# dyn() hides the types from the static checks, so that nearly everything gets to run.
DYNAMIC = st.recursive(
    ATOMS.map("dyn({})".format),
    lambda inner: (st.builds(str.format, UNARY, inner) | st.builds(str.format, BINARY, inner, inner)).map(
        "dyn({})".format
    ),
    max_leaves=8,
)


@given(DYNAMIC, JSON, JSON)
def test_evaluation_is_total_bounded_and_repeatable(source: str, x: Any, y: Any) -> None:
    program = compiled(source)
    assume(isinstance(program, CompiledProgram))
    assert isinstance(program, CompiledProgram)
    first, second = measure(program, {"x": x, "y": y}), measure(program, {"x": x, "y": y})
    failed = isinstance(first.answer, CelError)
    assert (
        first == second,
        first.answer.kind in (RUNTIME, BUDGET) and short(first.answer) if isinstance(first.answer, CelError) else True,
        failed or (first.steps <= MAX_STEPS and first.allocated <= MAX_ALLOCATION),
    ) == (True, True, True)


# One language, two engines.


def both(source: str, env: Env, inputs: Any, spare: int) -> tuple[Any, Any]:
    """The answers of the engines and their costs, with so many steps left after the fixed cost."""
    compiled, closures = CompilingEngine().compile(source, env), ClosuresEngine().compile(source, env)
    with patch("tollbar.cel.core.limits.MAX_STEPS", closures.fixed_cost + spare):
        return measure(compiled, inputs), measure(closures, inputs)


SPARE = st.sampled_from([MAX_STEPS, 2_000, 400, 40, 10, 0])


@given(DYNAMIC, JSON, JSON, SPARE)
def test_the_engines_agree_on_anything(source: str, x: Any, y: Any, spare: int) -> None:
    assume(not isinstance(compiled(source), CelError))
    ours, other = both(source, ANYTHING, {"x": x, "y": y}, spare)
    assert ours == other


# Rules over packages: what a rule does not read cannot matter.

FIELDS = {
    "Pod": {"metadata": "ObjectMeta", "spec": "PodSpec"},
    "ObjectMeta": {"name": "string", "labels": "map<string>"},
    "PodSpec": {"nodeName": "string", "priority": "int", "containers": "list<Container>"},
    "Container": {"name": "string", "args": "list<string>"},
    "ResourceClaim": {"metadata": "ObjectMeta", "spec": "ResourceClaimSpec"},
    "ResourceClaimSpec": {"devices": "DeviceClaim"},
    "DeviceClaim": {"requests": "list<DeviceRequest>"},
    "DeviceRequest": {"name": "string", "exactly": "ExactDeviceRequest"},
    "ExactDeviceRequest": {"deviceClassName": "string", "count": "int"},
    "DeviceClass": {"metadata": "ObjectMeta"},
    "Namespace": {"metadata": "ObjectMeta"},
}
WORDS = st.sampled_from(["app", "gpu", "web"])
PRESENT = st.sampled_from([True, True, True, True, False])
EITHER = st.booleans()
SELDOM = st.sampled_from([True, *[False] * 7])
FEW = st.integers(0, 2)
STEPS = st.integers(0, 5)
SCOPE = dict(RULE_ENV.variables)


def inside(type_: str) -> str:
    return type_[type_.index("<") + 1 : -1]


@cache
@st.composite
def values(draw: st.DrawFn, type_: str) -> Any:
    """A value of the type, every field optional."""
    if type_ in FIELDS:
        return {name: draw(values(field)) for name, field in FIELDS[type_].items() if draw(PRESENT)}
    if type_.startswith("list<"):
        return [draw(values(inside(type_))) for _ in range(draw(FEW))]
    if type_.startswith("map<"):
        return {key: draw(values(inside(type_))) for key in ("app", "gpu", "web") if draw(EITHER)}
    return draw(WORDS if type_ == "string" else FEW)


@st.composite
def chains(draw: st.DrawFn, scope: dict[str, str]) -> tuple[str, str]:
    """An expression that selects something, and its type."""
    source = pick(draw, sorted(scope))
    type_ = scope[source]
    while draw(STEPS):
        if type_ in FIELDS:
            name = pick(draw, sorted(FIELDS[type_]))
            source, type_ = f"{source}.{name}", FIELDS[type_][name]
        elif type_.startswith("list<"):
            step = pick(draw, ["[0]", "[1]", ".filter(f, true)[0]", "[size(claims)]"])
            source, type_ = source + step, inside(type_)
        elif type_.startswith("map<"):
            step = pick(draw, [".app", '["gpu"]', "[pod.metadata.name]", "[deviceClasses.web.metadata.name]"])
            source, type_ = source + step, inside(type_)
        else:
            break
    return source, type_


@st.composite
def rules(draw: st.DrawFn, scope: dict[str, str], depth: int = 2) -> str:
    """An expression of type bool."""
    if depth and draw(EITHER):
        left, right = draw(rules(scope, depth - 1)), draw(rules(scope, depth - 1))
        form = pick(draw, ["({0}) && ({1})", "({0}) || ({1})", "!({0})", "({0}) ? ({1}) : ({0})"])
        return form.format(left, right)
    if draw(SELDOM):
        return pick(draw, ["true", "false"])
    source, type_ = draw(chains(scope))
    if type_ in FIELDS:
        field = pick(draw, sorted(FIELDS[type_]))
        forms = [
            f"has({source}.{field})",
            f"{source} == {source}",
            f"{source} != null",
            f"cel.bind(bound, {source}, has(bound.{field}) || has(bound.{field}))",
            f"cel.bind(bound, {source}, has(pod.metadata.labels) && bound != null)",
            f"{source}.?{field}.hasValue()",
            f"optional.of({source}).optMap(o, has(o.{field})).orValue(false)",
        ]
        return pick(draw, forms)
    if type_ in ("string", "int"):
        literal = f'"{draw(WORDS)}"' if type_ == "string" else "1"
        return pick(draw, [f"{source} == {literal}", f"{source} <= {literal}", f"{source} in [{literal}]"])
    if type_.startswith("map<"):
        key = f'"{draw(WORDS)}"'
        forms = [
            f"{source}[?{key}].hasValue()",
            f"{key} in {source}",
            f"{source}.exists(k, k == {key})",
            f"{source}.size() > 1",
            f"{source} == {{}}",
        ]
        return pick(draw, forms)
    name = f"v{len(scope)}"
    body = draw(rules({**scope, name: inside(type_)}, depth and depth - 1))
    forms = [
        f"{source}.exists({name}, {body})",
        f"{source}.all({name}, {body})",
        f"{source}.exists_one({name}, {body})",
        f"{source}.filter({name}, {body}).size() == 1",
        f"{source}.map({name}, {body}).exists(b, b)",
        f"{source}.map({name}, {body}, {name}) == []",
        f"cel.bind({name}, {source}, size({name}) > 1)",
        f"{source}.exists(i, {name}, i > 0 && ({body}))",
        f"{source}.transformList(i, {name}, {body}).exists(b, b)",
        f"{source}[?1].hasValue()",
        f"size({source}) > 1",
    ]
    return pick(draw, forms)


PACKAGES = st.fixed_dictionaries({name: values(type_) for name, type_ in SCOPE.items()})


def scrambled(value: Any, other: Any, reads: set[str]) -> Any:
    """The value with everything replaced by the other's that no path reaches; what the paths reach stays."""
    if "" in reads or not isinstance(value, dict | list):
        return value
    if isinstance(value, list):
        filler = other if isinstance(other, list) and other else [None]
        return [scrambled(item, filler[index % len(filler)], reads) for index, item in enumerate(value)]
    below = {
        path.partition(".")[0]: {p.partition(".")[2] for p in reads if p.partition(".")[0] == path.partition(".")[0]}
        for path in reads
    }
    rest = dict(other) if isinstance(other, dict) else {"other": other}
    return {key: item for key, item in rest.items() if key not in below} | {
        key: scrambled(value[key], rest.get(key), paths) for key, paths in below.items() if key in value
    }


def scrambled_package(package: Any, other: Any, reads: frozenset[str]) -> Any:
    result = {}
    for name in SCOPE:
        below = {path.partition(".")[2] for path in reads if path.partition(".")[0] == name}
        if not below:
            result[name] = other[name]
        elif name == "deviceClasses":
            result[name] = {key: scrambled(item, other["pod"], below) for key, item in package[name].items()}
        else:
            result[name] = scrambled(package[name], other[name], below)
    return result


@settings(max_examples=settings.default.max_examples * 3 // 2)
@given(rules(SCOPE), PACKAGES, PACKAGES)
def test_inputs_outside_of_the_read_set_do_not_change_the_answer(source: str, package: Any, other: Any) -> None:
    program = ENGINE.compile(source, RULE_ENV)
    changed = scrambled_package(package, other, program.reads)
    assert (
        project(changed, program.reads, RULE_ENV) == project(package, program.reads, RULE_ENV),
        program.evaluate(changed) == program.evaluate(package),
    ) == (True, True)


UNKNOWNS = st.sampled_from(
    [
        *(
            "pod",
            "pod.metadata",
            "pod.metadata.name",
            "pod.metadata.labels",
            "pod.spec.nodeName",
            "pod.spec.containers",
        ),
        *(
            "pod.spec.containers.name",
            "claims",
            "claims.metadata",
            "claims.spec.devices",
            "claims.spec.devices.requests.name",
        ),
        *("deviceClasses", "deviceClasses.metadata.name", "namespaceObject", "namespaceObject.metadata.labels"),
    ]
)


def replaced(value: Any, path: tuple[str, ...], other: Any) -> Any:
    """The value with what is at the path, in every element of lists, taken from the other one."""
    if not path:
        return other
    if isinstance(value, list):
        return [replaced(item, path, other) for item in value]
    if not isinstance(value, dict):
        return value
    below = other.get(path[0]) if isinstance(other, dict) else other
    found = {key: item for key, item in value.items() if key != path[0]}
    if len(path) > 1 and path[0] in value:
        found[path[0]] = replaced(value[path[0]], path[1:], below)
    elif len(path) == 1 and below is not None:
        found[path[0]] = below
    return found


def completed(package: Any, other: Any, unknown: set[str]) -> Any:
    """The package with other values for what is not known."""
    for path in sorted(unknown):
        name, *steps = path.split(".")
        if name == "deviceClasses" and steps:
            classes = {
                key: replaced(item, tuple(steps), other["namespaceObject"]) for key, item in package[name].items()
            }
            package = {**package, name: classes}
        else:
            sample = other[name][0] if steps and isinstance(other[name], list) and other[name] else other[name]
            package = {**package, name: replaced(package[name], tuple(steps), sample)}
    return package


@settings(max_examples=settings.default.max_examples * 3 // 2)
@given(rules(SCOPE), PACKAGES, PACKAGES, st.sets(UNKNOWNS, min_size=1, max_size=3))
def test_an_answer_holds_whatever_the_unknown_turns_out_to_be(
    source: str, package: Any, other: Any, unknown: set[str]
) -> None:
    program = ENGINE.compile(source, RULE_ENV)
    answer = program.evaluate_partial(package, frozenset(unknown))
    assert answer is UNKNOWN or answer == program.evaluate(completed(package, other, unknown))


@given(rules(SCOPE), PACKAGES, SPARE)
def test_the_engines_agree_on_rules(source: str, package: Any, spare: int) -> None:
    ours, other = both(source, RULE_ENV, package, spare)
    assert ours == other


@given(rules(SCOPE), PACKAGES)
def test_the_compiled_function_falls_back_for_errors_alone(source: str, package: Any) -> None:
    program = CompilingEngine().compile(source, RULE_ENV)
    assert isinstance(program, CompiledProgram)
    answer = ClosuresEngine().compile(source, RULE_ENV).evaluate(package)
    assert isinstance(answer, CelError) or program.run(package, CostTracker()) == answer

"""What compiling and evaluating expressions costs, compared with cel-go and cel-python.  It needs no API server."""

import json
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import celpy
from cel.adversaries import ADVERSARIES, ENV, Adversary
from celpy.adapter import json_to_cel
from objects.builders import claim, device_class, namespace
from planes.objects import a_pod

from benchmarks.rules import RULES, WIDE, in_a_process
from benchmarks.stage import Stage
from benchmarks.workload import Row, Sample, Workload
from tollbar.cel import DEVICE_ENV, RULE_ENV, CelEngine, CelError, devices, engine
from tollbar.devplane.real.build import locate
from tollbar.devplane.real.oracle import Oracle
from tollbar.model.objects import Object

CEL_PYTHON, CEL_GO, BARE, CLOSURES, TOLLBAR = COLUMNS = (
    "cel-python",
    "cel-go, as Kubernetes",
    "cel-go without costs",
    "Tollbar, closures",
    "Tollbar",
)
RULE = Row("one of ten rules on a package", "µs", digits=2)
RULE_RATIO = Row("Tollbar is faster, times", "", "5 (cel-go), 300 (cel-python)")
SELECTOR = Row("one of ten selectors on a device", "µs", digits=2)
SELECTOR_RATIO = Row("Tollbar is faster on devices, times", "", "5")
KINDS = {sentence: Row(f"a rule with {sentence}", "µs", digits=2) for sentence in WIDE}
KINDS_RATIO = Row("Tollbar is faster over these, geometric mean, times", "")
WORST_RATIO = Row("the worst of these, times", "", digits=2)
COMPILING = Row("compiling one of the ten rules, CPU", "ms", digits=2)
MANY = Row("compiling 10,000 rules, CPU", "s")
MANY_MEMORY = Row("memory of 10,000 rules", "MiB", digits=0)
PREPARED = Row("preparing a device, once", "µs", digits=2)
SLOWEST = Row("slowest of the adversaries", "ms", "10", digits=2)

_RULES: Final = 10_000
_SLOW_SHARE: Final = 100
"""cel-python does so many times fewer evaluations."""

DRIVER: Final = "gpu.example.com"
DEVICE: Final[Object] = {
    "driver": DRIVER,
    "attributes": {
        "model": {"string": "a100"},
        "index": {"int": 3},
        "shared": {"bool": True},
        "driverVersion": {"version": "12.4.0"},
        "uuid": {"string": "GPU-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c"},
        "numa": {"int": 1},
        "pcie.example.com/root": {"string": "pci0000:01"},
    },
    "capacity": {"memory": {"value": "80Gi"}, "slices": {"value": "7"}},
}
_ATTRIBUTES: Final = f'device.attributes["{DRIVER}"]'
_CAPACITY: Final = f'device.capacity["{DRIVER}"]'
SELECTORS: Final = (
    f'device.driver == "{DRIVER}"',
    f'{_ATTRIBUTES}.model == "a100"',
    f'{_ATTRIBUTES}.model in ["h100", "a100"]',
    f"{_ATTRIBUTES}.index > 2 && {_ATTRIBUTES}.shared",
    f'{_ATTRIBUTES}.driverVersion.compareTo(semver("12.0.0")) >= 0',
    f'{_CAPACITY}.memory.compareTo(quantity("40Gi")) >= 0',
    f"has({_ATTRIBUTES}.numa) && {_ATTRIBUTES}.numa == 1",
    '"pcie.example.com" in device.attributes && device.attributes["pcie.example.com"].root == "pci0000:01"',
    f'{_ATTRIBUTES}.model.startsWith("a") || {_ATTRIBUTES}.model.startsWith("h")',
    f'cel.bind(gpu, {_ATTRIBUTES}, gpu.shared && gpu.model == "a100" && gpu.index < 8)',
)


def package() -> Object:
    """A Pod of about 5 kB, two claims, four classes."""
    pod = a_pod("trainer-0", "ml").claims("gpu", "nic")
    env = [{"name": f"SETTING_{number}", "value": "x" * 60} for number in range(30)]
    containers = [
        {"name": name, "image": f"registry.example.com/ml/{name}:1", "env": env, "args": ["--verbose", "--rank=0"]}
        for name in ("trainer", "sidecar")
    ]
    classes = [f"{kind}.example.com" for kind in ("gpu", "nic", "fpga", "disk")]
    built = {
        "pod": pod.but("spec.containers", containers).but("metadata.labels", {"app": "trainer", "team": "ml"}),
        "claims": [claim("gpu", "ml").request(classes[0]), claim("nic", "ml").request(classes[1])],
        "deviceClasses": {name: device_class(name) for name in classes},
        "namespaceObject": namespace("ml"),
    }
    return plain(built)


def plain(built: Object) -> Object:
    """As it comes from the API server: the builders' objects are more than dicts."""
    found: Object = json.loads(json.dumps(built))
    return found


async def measure(_stage: Stage, size: int, turn: int) -> Sample:
    """So many evaluations of each expression."""
    inputs, oracle = package(), Oracle.of(locate())
    rules: dict[str, Callable[[], float]] = {
        CEL_PYTHON: lambda: _cel_python(RULES, inputs, max(1, size // _SLOW_SHARE)),
        CLOSURES: lambda: _ours(engine("closures"), inputs, size),
        TOLLBAR: lambda: _ours(engine("compiled"), inputs, size),
    }
    columns = list(rules)
    sample = {(RULE.name, column): rules[column]() for column in columns[turn % 3 :] + columns[: turn % 3]}
    sample |= _kubernetes(oracle, inputs, size)
    sample |= _devices(oracle, size)
    sample |= _kinds(oracle, inputs, size)
    sample |= _compiling(oracle, inputs, max(1, size // 100))
    for ratio, row in ((RULE_RATIO, RULE), (SELECTOR_RATIO, SELECTOR)):
        for column in COLUMNS:
            if column != TOLLBAR and (row.name, column) in sample:
                sample[ratio.name, column] = sample[row.name, column] / sample[row.name, TOLLBAR]
    for column, cel in ((CLOSURES, engine("closures")), (TOLLBAR, engine("compiled"))):
        sample[SLOWEST.name, column] = max(_milliseconds(cel, each) for each in ADVERSARIES.values())
    return sample


def microseconds(work: Callable[[], object], times: int) -> float:
    """Of one call, on the average of so many."""
    began = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - began) / times * 1e6


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _ours(cel: CelEngine, inputs: Object, size: int) -> float:
    prepared = cel.prepare(inputs)
    return _mean([microseconds(partial(cel.compile(rule, RULE_ENV).evaluate, prepared), size) for rule in RULES])


def _cel_python(sources: Sequence[str], inputs: Object, size: int) -> float:
    """Its own evaluator, on inputs that were converted before."""
    limit = sys.getrecursionlimit()
    environment = celpy.Environment()
    try:
        converted: dict[str, Any] = {name: json_to_cel(value) for name, value in inputs.items()}
        programs = [environment.program(environment.compile(source)) for source in sources]
        return _mean([microseconds(partial(_settled, program, converted), size) for program in programs])
    finally:
        sys.setrecursionlimit(limit)  # which its Environment raises


def _settled(program: Any, inputs: dict[str, Any]) -> object:
    try:
        return program.evaluate(inputs)
    except celpy.CELEvalError as error:
        return error


def _kubernetes(oracle: Oracle, inputs: Object, size: int) -> dict[tuple[str, str], float]:
    answers = oracle.evaluate({"expression": rule, "inputs": inputs, "repeat": size} for rule in RULES)
    return {
        (RULE.name, CEL_GO): _mean([answer["nanoseconds"] for answer in answers]) / 1e3,
        (RULE.name, BARE): _mean([answer["nanosecondsWithoutCost"] for answer in answers]) / 1e3,
    }


def _devices(oracle: Oracle, size: int) -> dict[tuple[str, str], float]:
    """Kubernetes makes its input of the device for every evaluation, Tollbar once for all of them."""
    answers = oracle.evaluate({"expression": each, "device": DEVICE, "repeat": size} for each in SELECTORS)
    prepare = partial(devices.prepare, DRIVER, DEVICE["attributes"], DEVICE["capacity"])
    prepared = prepare()
    sample = {
        (SELECTOR.name, CEL_GO): _mean([answer["nanoseconds"] for answer in answers]) / 1e3,
        (PREPARED.name, TOLLBAR): microseconds(prepare, max(1, size // 10)),
    }
    for column, cel in ((CLOSURES, engine("closures")), (TOLLBAR, engine("compiled"))):
        programs = [cel.compile(each, DEVICE_ENV) for each in SELECTORS]
        sample[SELECTOR.name, column] = _mean(
            [microseconds(partial(program.evaluate, prepared), size) for program in programs]
        )
    return sample


def _kinds(oracle: Oracle, inputs: Object, size: int) -> dict[tuple[str, str], float]:
    """One rule of each kind, and by how many times Tollbar is faster."""
    answers = oracle.evaluate({"expression": rule, "inputs": inputs, "repeat": size} for rule in WIDE.values())
    sample, ratios, cel = {}, [], engine("compiled")
    for (sentence, rule), answer in zip(WIDE.items(), answers, strict=True):
        theirs = answer["nanoseconds"] / 1e3
        ours = microseconds(partial(cel.compile(rule, RULE_ENV).evaluate, cel.prepare(inputs)), size)
        sample |= {(KINDS[sentence].name, CEL_GO): theirs, (KINDS[sentence].name, TOLLBAR): ours}
        ratios.append(theirs / ours)
    return sample | {
        (KINDS_RATIO.name, CEL_GO): statistics.geometric_mean(ratios),
        (WORST_RATIO.name, CEL_GO): min(ratios),
    }


def _compiling(oracle: Oracle, inputs: Object, times: int) -> dict[tuple[str, str], float]:
    """CPU time; that of cel-go is what the oracle takes for a rule, less what it takes for an answer without one."""
    rules, trivial = (_asking(oracle, sources, inputs, times) for sources in (RULES, ("true",) * len(RULES)))
    cel = engine("compiled")
    began = time.process_time()
    for rule in RULES * times:
        cel.compile(rule, RULE_ENV)
    ours = time.process_time() - began
    seconds, mebibytes = in_a_process(_RULES)
    return {
        (COMPILING.name, CEL_GO): (rules - trivial) / len(RULES) / times * 1e3,
        (COMPILING.name, TOLLBAR): ours / len(RULES) / times * 1e3,
        (MANY.name, TOLLBAR): seconds,
        (MANY_MEMORY.name, TOLLBAR): mebibytes,
    }


def _asking(oracle: Oracle, sources: Sequence[str], inputs: Object, times: int) -> float:
    """Seconds of CPU of the oracle for compiling and evaluating each of these so many times."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    oracle.evaluate({"expression": source, "inputs": inputs} for source in sources for _ in range(times))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _milliseconds(cel: CelEngine, adversary: Adversary) -> float:
    """Of one evaluation, the best of three; nothing for what is refused when it is compiled."""
    try:
        program = cel.compile(adversary.expression, ENV)
    except CelError:
        return 0.0
    inputs = {"x": adversary.x()}
    return min(microseconds(partial(program.evaluate, inputs), 1) for _ in range(3)) / 1e3


WORKLOAD: Final = Workload(
    name="cel",
    title="Evaluating expressions",
    about="""\
Ten ordinary rules on one package (a Pod of 5 kB, two claims, four classes), and ten device selectors on one device,
each evaluated many times; what is compiled is compiled before. The peers are cel-go in the CEL environments of
Kubernetes, with the counting of costs that Kubernetes has switched on and without it, and cel-python's own evaluator
on converted inputs. Kubernetes makes its input of a device anew for every evaluation, and that counts; Tollbar
prepares a device once. Then one rule of each kind on the same package, also of the kinds for which a library in Go is
the better one; *the worst* is the smallest of their ratios. *Compiling* is CPU time: Tollbar's of the whole way from
the text to a function, cel-go's of compiling in Kubernetes' environment, making the program and evaluating it once. The
10,000 rules are the ten over and over, each with another text, in a process of their own. *Adversaries* are the
expressions and inputs of the tests that are made to cost as much as they can: the figure is the slowest evaluation.
Rules and selectors run as compiled functions, and closures are charged the prices of these here; the closures that a
partial evaluation runs are charged prices of their own.""",
    columns=COLUMNS,
    rows=(
        *(RULE, RULE_RATIO, SELECTOR, SELECTOR_RATIO, PREPARED),
        *(*KINDS.values(), KINDS_RATIO, WORST_RATIO, COMPILING, MANY, MANY_MEMORY, SLOWEST),
    ),
    size=10_000,
    things="evaluations of each expression",
    measure=measure,
)

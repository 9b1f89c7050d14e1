"""What one evaluation of an expression costs, compared with cel-go and cel-python.  It needs no API server."""

import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import celpy
from builders import claim, device_class, namespace
from cel.adversaries import ADVERSARIES, ENV, Adversary
from celpy.adapter import json_to_cel
from cluster import a_pod

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
PREPARED = Row("preparing a device, once", "µs", digits=2)
SLOWEST = Row("slowest of the adversaries", "ms", "10", digits=2)

_SLOW_SHARE: Final = 100
"""cel-python does so many times fewer evaluations."""

RULES: Final = (
    'claims.exists(c, c.spec.devices.requests.exists(r, r.exactly.deviceClassName == "gpu.example.com"))',
    'claims.exists(c, c.spec.devices.requests.exists(r, r.exactly.deviceClassName == "fpga.example.com"))',
    'claims.exists(c, c.spec.devices.requests.exists(r, r.exactly.deviceClassName.startsWith("nic.")))',
    "claims.all(c, c.spec.devices.requests.all(r, has(r.exactly) && r.exactly.deviceClassName in deviceClasses))",
    "claims.exists(c, c.spec.devices.requests.exists(r, has(r.exactly.count) && r.exactly.count > 4))",
    'pod.metadata.labels["app"] == "trainer" && pod.metadata.namespace == "ml"',
    'has(pod.spec.priorityClassName) && pod.spec.priorityClassName == "high"',
    'pod.spec.containers.exists(c, c.image.startsWith("registry.example.com/ml/"))',
    'namespaceObject.metadata.labels["team"] == "ml" || claims.size() > 1',
    'deviceClasses.exists(n, n == "nic.example.com")',
)
"""All of them in the language that cel-python has, too."""

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
prepares a device once. *Adversaries* are the expressions and inputs of the tests that are made to cost as much as they
can: the figure is the slowest evaluation.""",
    columns=COLUMNS,
    rows=(RULE, RULE_RATIO, SELECTOR, SELECTOR_RATIO, PREPARED, SLOWEST),
    size=10_000,
    things="evaluations of each expression",
    measure=measure,
)

"""Expressions of rules that the benchmark `cel` measures, and what thousands of them take.

As a program, with a number as its argument, it compiles so many rules and prints what that took.
"""

import gc
import json
import subprocess
import sys
import time
from itertools import cycle, islice
from pathlib import Path
from typing import Final

from tollbar.cel import RULE_ENV, engine
from tollbar.runtime import collector

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
"""Ordinary ones, in the language that cel-python has, too."""

WIDE: Final = {
    "a label": 'pod.metadata.labels["app"] == "trainer"',
    "a label that is there or not": 'has(pod.metadata.labels.app) && pod.metadata.labels.app == "trainer"',
    "a missing label, an error": 'pod.metadata.labels["nope"] == "trainer"',
    "a missing label, and a term that decides": 'pod.metadata.labels["nope"] == "" || pod.metadata.namespace == "ml"',
    "a missing field of every claim, an error": "claims.exists(c, c.spec.devices.requests.exists(r, r.exactly.count > 4"
    "))",
    "division by zero, an error": "claims.size() / (claims.size() - 2) == 1",
    "labels as a map": 'pod.metadata.labels == {"app": "trainer", "team": "ml"}',
    "a list that is made": '[pod.metadata.namespace, pod.metadata.name] == ["ml", "trainer-0"]',
    "format": '"%s/%s".format([pod.metadata.namespace, pod.metadata.name]) == "ml/trainer-0"',
    "constant times": 'timestamp("2026-01-01T00:00:00Z") + duration("24h") == timestamp("2026-01-02T00:00:00Z")',
    "the hour of a constant time": 'timestamp("2026-01-01T12:00:00Z").getHours("Europe/Paris") == 13',
    "constant quantities": 'quantity("1Gi").add(quantity("1Mi")).isGreaterThan(quantity("1Gi"))',
    "a pattern": 'pod.metadata.name.matches("^trainer-[0-9]+$")',
    "a pattern for each container": 'pod.spec.containers.all(c, c.image.matches("^registry[.]example[.]com/"))',
    "split": 'pod.metadata.name.split("-")[0] == "trainer"',
    "concatenation": 'pod.metadata.namespace + "/" + pod.metadata.name == "ml/trainer-0"',
    "lower case": 'pod.metadata.name.lowerAscii().startsWith("train")',
    "one of several names": 'pod.metadata.namespace in ["default", "ml", "kube-system"]',
    "a conditional": 'has(pod.spec.priorityClassName) ? pod.spec.priorityClassName == "" : pod.metadata.name != ""',
    "an optional": 'pod.metadata.?labels[?"app"].orValue("") == "trainer"',
    "a bound variable": 'cel.bind(labels, pod.metadata.labels, labels.app == "trainer" && labels.team == "ml")',
    "the class of a claim": "claims.exists(c, c.spec.devices.requests.exists(r, r.exactly.deviceClassName == "
    '"nic.example.com"))',
    "all environment variables": 'pod.spec.containers.all(c, c.env.all(e, e.name != "SECRET"))',
    "map and filter": 'pod.spec.containers.filter(c, c.name != "sidecar").map(c, c.image).size() == 1',
    "exactly one": 'pod.spec.containers.exists_one(c, c.name == "trainer")',
    "two variables": 'pod.metadata.labels.all(key, value, key != "gpu" || value == "true")',
    "sets": 'sets.contains(pod.spec.containers.map(c, c.name), ["trainer"])',
    "a sum": "pod.spec.containers.map(c, c.args.size()).sum() == 4",
    "sorted": '["a", "b"].isSorted() && pod.spec.containers.map(c, c.args.size()).isSorted()',
    "a version": 'semver("1.2.3").isLessThan(semver("1.10.0")) && pod.metadata.namespace == "ml"',
    "an address": 'ip("10.0.0.1").family() == 4 && cidr("10.0.0.0/8").containsIP("10.1.2.3")',
    "a type": "type(pod.metadata.name) == string",
}
"""One of each kind, also those in which Tollbar is slower than cel-go; all have an answer, or the error they name."""


def in_a_process(count: int) -> tuple[float, float]:
    """Seconds of CPU for compiling so many rules, and MiB that they take, in a process that has done nothing else."""
    command = [sys.executable, "-m", "benchmarks.rules", str(count)]
    seconds, mebibytes = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return seconds, mebibytes


def many(count: int) -> list[str]:
    """So many rules: RULES over and over, each time with another text where they have one."""
    return [rule.replace('"', f'"n{number}-', 1) for number, rule in enumerate(islice(cycle(RULES), count))]


def _compiled(count: int) -> tuple[float, float]:
    collector.tune()
    cel, sources = engine(), many(count)
    for source in RULES:
        cel.compile(source, RULE_ENV)  # which makes the parser
    before, began = _memory(), time.process_time()
    programs = [cel.compile(source, RULE_ENV) for source in sources]
    seconds = time.process_time() - began
    taken = _memory() - before
    del programs
    return seconds, taken


def _memory() -> float:
    """Resident memory in MiB."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_compiled(int(sys.argv[1]))))

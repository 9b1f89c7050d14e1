"""Prometheus' own parser takes the rules of the component `monitoring`, as `promtool check rules` would.

promtool where it is on PATH; otherwise the package that it is made of (prometheus/check.go), which is built at once.
Part of `make test-long`: TOLLBAR_PROMETHEUS=1.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from planes.parameters import unavailable
from processes.stack import ROOT

from tollbar.devplane.binaries import cache_directory
from tollbar.devplane.real import go

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.environ.get("TOLLBAR_PROMETHEUS") != "1", reason="part of make test-long"),
]

RULES = ROOT / "manifests/components/monitoring/rules.yaml"
CHECK = Path(__file__).parent / "prometheus"


@pytest.fixture(scope="module")
def check(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """The command that checks a file of rules."""
    if promtool := shutil.which("promtool"):
        return promtool, "check", "rules"
    program = str(tmp_path_factory.mktemp("prometheus") / "check")
    try:
        compiler = go.find(go.required((CHECK / "go.mod").read_text()), cache_directory(), print)
    except go.GoError as error:
        unavailable(str(error))
    built = subprocess.run([str(compiler), "build", "-o", program, "."], cwd=CHECK, capture_output=True, text=True)
    if built.returncode:
        unavailable(built.stderr)
    return (program,)


def test_the_rules_are_taken_and_a_broken_one_is_not(check: tuple[str, ...], tmp_path: Path) -> None:
    groups = [group for rules in yaml.safe_load_all(RULES.read_text()) for group in rules["spec"]["groups"]]
    count = sum(len(group["rules"]) for group in groups)
    broken = {"alert": "Broken", "expr": "rate(up)"}
    ended = []
    for name, given in {"ours": groups, "broken": [*groups, {"name": "broken", "rules": [broken]}]}.items():
        file = tmp_path / f"{name}.yaml"
        file.write_text(yaml.safe_dump({"groups": given}))
        ended.append(subprocess.run([*check, str(file)], capture_output=True, text=True, check=False))
    ours, refused = ended
    assert (ours.returncode, f"SUCCESS: {count} rules found" in ours.stdout) == (0, True), ours.stdout + ours.stderr
    assert (refused.returncode, "rate" in refused.stderr + refused.stdout) == (1, True)

"""scripts/mutate.py judges the mutants that were tried, also when it is ended early."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "mutate.py"
MUTMUT = '''\
"""Has tried what OUTCOMES says, and goes on for ever with the next one; ends whoever asks for it to be so."""
import json, os, pathlib, signal, sys, time

half = pathlib.Path("mutants/tollbar/decide/b.py.meta")
if sys.argv[1] == "run":
    half.parent.mkdir(parents=True)
    half.write_text(os.environ["HALF"])
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    asker = pathlib.Path(f"/proc/{os.getppid()}/stat")
    while asker.read_text().rpartition(") ")[2][0] != "S":  # it waits for this process, and for nothing before
        time.sleep(0.01)
    os.kill(os.getppid(), signal.SIGTERM)
    time.sleep(600)
if sys.argv[1] == "results":
    json.loads(half.read_text() if half.exists() else "{}")
    outcomes = os.environ["OUTCOMES"].split()
    for number, outcome in enumerate(outcomes):
        print(f"    tollbar.decide.a.x_f__mutmut_{number}: {outcome.replace('-', ' ')}")
    if half.exists():
        print("    tollbar.decide.b.x_f__mutmut_1: not checked")
if sys.argv[1] == "show":
    print(f"# {sys.argv[2]}")
    print("-case _:")
    print("- case _:")
    print("- return None")
'''


def ended_early(directory: Path, *outcomes: str, half: str = "{}") -> tuple[int, list[str]]:
    """Exit code and lines of a run that was ended when these were the outcomes; `half` is in the file of a module."""
    (directory / "mutmut.py").write_text(MUTMUT)
    environment = {**os.environ, "PYTHONPATH": str(directory), "OUTCOMES": " ".join(outcomes), "HALF": half}
    ran = subprocess.run(
        [sys.executable, str(SCRIPT)], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.stderr == ""
    return ran.returncode, ran.stdout.splitlines()


@pytest.mark.parametrize(
    ("outcomes", "code", "said"),
    [
        (
            ["killed"] * 8 + ["timeout", "survived", "not-checked", "check-was-interrupted-by-user"],
            0,
            "10 of 12 mutants tried, 90.0% killed: {'killed': 8, 'timeout': 1, 'survived': 1}",
        ),
        (["killed"] * 8 + ["survived"], 1, "9 of 9 mutants tried, 88.9% killed: {'killed': 8, 'survived': 1}"),
    ],
    ids=["enough", "too few"],
)
def test_what_was_tried_is_judged(tmp_path: Path, outcomes: list[str], code: int, said: str) -> None:
    found, lines = ended_early(tmp_path, *outcomes)
    survivor = f"survived: tollbar.decide.a.x_f__mutmut_{outcomes.index('survived')}"
    assert (found, "ended early" in lines, survivor in lines) == (code, True, True)
    assert [each for each in lines if each.startswith("tollbar.decide.")] == [f"tollbar.decide.a: {said}"]


def test_a_module_whose_outcomes_were_being_written_is_named_and_the_others_are_judged(tmp_path: Path) -> None:
    found, lines = ended_early(tmp_path, "killed", half='{"exit_code_by_key": {"toll')
    assert (found, [each for each in lines if each.startswith("tollbar.decide.")]) == (
        0,
        [
            "tollbar.decide.b: not tried: its outcomes were being written",
            "tollbar.decide.a: 1 of 1 mutants tried, 100.0% killed: {'killed': 1}",
        ],
    )


def test_a_survivor_is_shown_with_the_reason(tmp_path: Path) -> None:
    _, lines = ended_early(tmp_path, "survived")
    reason = "1 survivors: what falls out of `match` without a value returns None as well"
    assert lines[lines.index(reason) + 2 :][:3] == [
        "survived: tollbar.decide.a.x_f__mutmut_0",
        "- case _:",
        "- return None",
    ]

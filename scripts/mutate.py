"""Mutation testing of the decisions: every small change of `tollbar/decide` has to make some test fail.

`python scripts/mutate.py [NAME]...` mutates all functions, or those whose names begin so (`tollbar.decide.pods.swaps`),
runs for each mutant the tests that reach it, and prints the change in every mutant that no test has noticed, by the
reason why none can (`SURVIVORS`), first those without one.  It works on a copy of the tree.  Exit code 1 when less than
`LEAST` of the mutants were killed.

It tells every two minutes how far it is.  Ended early, by SIGINT or SIGTERM, it judges what was tried until then, and
says which modules that was.  A module whose outcomes mutmut was just writing counts as not tried, and is named.

mutmut is configured in pyproject.toml; it is in the extra `mutation`.
"""

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final

from generating import ROOT

LEAST: Final = 0.9
KILLED: Final = ("killed", "timeout")
UNTRIED: Final = ("not checked", "check was interrupted by user")
COPIED: Final = ("tollbar", "controllers", "webhooks", "tests", "docs", "manifests", "pyproject.toml", "README.md")
TELLING: Final = 120.0
"""Seconds from one line about how far it is to the next."""
ENDING: Final = 60.0
"""Seconds that mutmut may take to end."""
UNEXPLAINED: Final = "no reason is known: a row is missing"
SURVIVORS: Final[dict[str, tuple[str, ...]]] = {
    "what falls out of `match` without a value returns None as well": (r"-case _:  -return None",),
    "a guard for mypy: it holds wherever the function is called": (
        r"-.* if workload is not None else .*",
        r"-.* if wanted\.spec\.pod_group is not None else .*",
        r"-.* if isinstance\(case\.intent, Intent\) else .*",
        r"-expression = parsed\.spec\.match\.cel\.expression if .*",
        r"\+return lookup\.pod_group\(.* or True else None",
        r"\+other = turn\.(set|pod)\(\w+\) if .* or True else None",
        r"\+if place\.peer is not None or place\.counterpart is not None:",
        r"\+self\.claim = _claim\(facts, self\.key\) if .* or True else None",
    ),
    "`or` and truth take None for what is empty": (
        r"\+.*\.get\(wellknown\.ANNOTATION_\w+, (None)?\)",
        r"\+return replace\(facts, consumer=None\)",
        r"\+unknown = error = \"\"",
    ),
    "None is as false as False": (
        r"\+.*\b(fenced|impatient)=None",
        r"\+yield from _set\(.*, None\)",
        r"\+(return|answer =) State\(None, ReservedReason\.",
    ),
    "a gate stays unless it is to be added or removed": (r"-.*gate=\"keep\".*\+.*gate=(None|\"XXkeepXX\"|\"KEEP\")",),
    "nothing is recorded where nothing is added": (r"-patch = tolerations\.patch\(self\.clean, \(\), via=",),
    "only whether there is a problem counts, not where": (r"\+.*any\(validate\(each, path=",),
    "no JSON, and no list, are no record": (
        r"\+entries = json\.loads\(.* or \"XX\[\]XX\"\)",
        r"\+condition = read\(.*, \"XXXX\"\)",
    ),
    "what was not asked has no answer: only to look for it costs": (
        r"\+match facts\.answers\.get\(facts\.itself\) if .* or True else None:",
    ),
    "no PodGroup has such a name": (r"\+return bool\(_references\(.*\"XXXX\"",),
    "the first part is the same however many there are": (r"\+.*(any\(|return )path\.split\(\"\.\", (2)?\)\[0\]",),
    "what a rule does not read makes no difference to it": (r"\+if doubtful := \[.* rule\.reads_tolerations or ",),
    "what no name can be is none": (
        r"\+namespace, slash, name = text\.rpartition\(",
        r"\+text = annotations_of\(obj\)\.get\(.*, \"XXXX\"\)",
    ),
    "of a refusal that there was not nothing is said": (r"\+without, why = .* else \(\"\", \"XXXX\"\)",),
    "the generation is left out of what is written": (r"\+generation=(None|1),",),
    "no two Pods are of one age, which their names are a part of": (
        r"\+return \(self\.share, .* <= \(other\.share, ",
        r"\+.* head\.age <= known\.line\[0\]\.age ",
    ),
    "a default of a parameter, of which the original one stands": (r"^$",),
    "values of a dict that is a set": (r"\+gathered\.(missing|pending)\[.*\] = \"\"",),
}
"""Why no test can notice a change: patterns of the change, by reason.  Lines are without indentation, with two spaces
between them."""
_MUTMUT: Final = (sys.executable, "-m", "mutmut")


def main(*names: str) -> int:
    if importlib.util.find_spec("mutmut") is None:
        sys.stderr.write("mutmut is not installed: .venv/bin/python -m pip install -e '.[mutation]'\n")
        return 2
    with tempfile.TemporaryDirectory(prefix="tollbar-mutants-") as directory:
        tree = Path(directory)
        _copy(tree)
        _mutate(tree, *names)
        _leave_out_broken(tree)
        outcomes = _outcomes(tree)
        tried = {name: outcome for name, outcome in outcomes.items() if outcome not in UNTRIED}
        survivors = [name for name, outcome in tried.items() if outcome not in KILLED]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            changes = dict(zip(survivors, pool.map(lambda name: _change(tree, name), survivors), strict=True))
        _show(changes, outcomes)
    for module, of_it in _modules(outcomes).items():
        if of_it.keys() & tried.keys():
            sys.stdout.write(f"{module}: {_summed_up(of_it)}\n")
    sys.stdout.write(f"\n{_summed_up(outcomes)}\n")
    return 0 if tried and _killed(tried) >= LEAST * len(tried) else 1


def _mutate(tree: Path, *names: str) -> None:
    """Until all is tried, or somebody ends it."""
    mutating = [*_MUTMUT, "run", "--max-children", str(os.cpu_count() or 1), *(f"{name}*" for name in names)]
    child = subprocess.Popen(mutating, cwd=tree, stdout=subprocess.DEVNULL, start_new_session=True)  # noqa: S603
    try:
        while _is_running(child):
            with suppress(subprocess.CalledProcessError):  # mutmut writes what is read here
                sys.stdout.write(f"{_summed_up(_outcomes(tree))}\n")
                sys.stdout.flush()
        if child.returncode:
            raise subprocess.CalledProcessError(child.returncode, mutating)
    except KeyboardInterrupt:
        sys.stdout.write("ended early\n")
        child.send_signal(signal.SIGINT)  # upon which it ends the tests that are running, and writes no more
        with suppress(subprocess.TimeoutExpired):
            child.wait(ENDING)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _leave_out_broken(tree: Path) -> None:
    """Delete files of outcomes that are half written, which mutmut cannot read, and say of which modules they are."""
    written = tree / "mutants"
    for file in sorted(written.rglob("*.py.meta")):
        try:
            json.loads(file.read_bytes())
        except ValueError:
            module = ".".join(file.relative_to(written).parts).removesuffix(".py.meta")
            sys.stdout.write(f"{module}: not tried: its outcomes were being written\n")
            file.unlink()


def _is_running(child: subprocess.Popen[bytes]) -> bool:
    """Whether the child still runs, after `TELLING` seconds or as soon as it has ended."""
    try:
        child.wait(TELLING)
    except subprocess.TimeoutExpired:
        return True
    return False


def _modules(outcomes: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """What became of the mutants of each module."""
    found: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for name, outcome in outcomes.items():
        found[name.rpartition(".")[0]][name] = outcome
    return found


def _summed_up(outcomes: Mapping[str, str]) -> str:
    counts = Counter(outcome for outcome in outcomes.values() if outcome not in UNTRIED)
    share = _killed(outcomes) / max(1, counts.total())
    return f"{counts.total()} of {len(outcomes)} mutants tried, {share:.1%} killed: {dict(counts)}"


def _killed(outcomes: Mapping[str, str]) -> int:
    return sum(outcome in KILLED for outcome in outcomes.values())


def _show(survivors: Mapping[str, str], outcomes: Mapping[str, str]) -> None:
    """The changes by reason."""
    for reason in (UNEXPLAINED, *SURVIVORS):
        names = [name for name, change in survivors.items() if why(change) == reason]
        if names:
            sys.stdout.write(f"\n{len(names)} survivors: {reason}\n")
        for name in names:
            sys.stdout.write(f"\n{outcomes[name]}: {name}\n{survivors[name]}\n")


def why(change: str) -> str:
    """Why no test can notice the change, or UNEXPLAINED."""
    line = "  ".join(f"{each[0]}{each[1:].strip()}" for each in change.splitlines())
    found = (reason for reason, patterns in SURVIVORS.items() if any(re.search(each, line) for each in patterns))
    return next(found, UNEXPLAINED)


def _copy(tree: Path) -> None:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tree / name)


def _outcomes(tree: Path) -> dict[str, str]:
    """What became of each mutant, by its name: one of UNTRIED where its turn has not come."""
    pairs = (line.strip().rsplit(": ", 1) for line in _said(tree, "results", "--all", "true") if ": " in line)
    return dict(pairs)


def _change(tree: Path, name: str) -> str:
    return "\n".join(line for line in _said(tree, "show", name) if line.startswith(("+ ", "- ")))


def _said(tree: Path, *command: str) -> list[str]:
    asking = [*_MUTMUT, *command]
    answer = subprocess.run(asking, cwd=tree, capture_output=True, text=True, check=True)  # noqa: S603
    return answer.stdout.splitlines()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main(*sys.argv[1:]))

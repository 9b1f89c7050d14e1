"""Mutation testing of the decisions: every small change of `tollbar/decide` has to make some test fail.

`python scripts/mutate.py [NAME]...` mutates all functions, or those whose names begin so (`tollbar.decide.pods.gates`),
runs for each mutant the tests that reach it, and prints the change in every mutant that no test has noticed, by the
reason why none can (`SURVIVORS`), first those without one.  It works on a copy of the tree.  Exit code 1 when less than
`LEAST` of the mutants were killed.

mutmut is configured in pyproject.toml; it is in the extra `mutation`.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
LEAST: Final = 0.9
KILLED: Final = ("killed", "timeout")
COPIED: Final = ("tollbar", "controllers", "webhooks", "tests", "docs", "manifests", "pyproject.toml", "README.md")
UNEXPLAINED: Final = "no reason is known: a row is missing"
SURVIVORS: Final[dict[str, tuple[str, ...]]] = {
    "what falls out of `match` without a value returns None as well": (r"-case _:  -return None",),
    "a guard for mypy: it holds wherever the function is called": (
        r"-.* if workload is not None else .*",
        r"-.* if isinstance\(case\.intent, Intent\) else .*",
    ),
    "`or` and truth take None for what is empty": (r"\+.*\.get\(wellknown\.ANNOTATION_\w+, (None)?\)",),
    "None is as false as False": (r"\+.*\bfenced=None", r"\+yield from _set\(.*, None\)"),
    "a gate stays unless it is to be added or removed": (r"-.*gate=\"keep\".*\+.*gate=(None|\"XXkeepXX\"|\"KEEP\")",),
    "nothing is recorded where nothing is added": (r"-patch = tolerations\.patch\(case\.pod, \(\), via=",),
    "only whether there is a problem counts, not where": (r"\+.*any\(validate\(each, path=",),
    "no JSON, and no list, are no record": (r"\+entries = json\.loads\(.* or \"XX\[\]XX\"\)",),
    "a default of a parameter, of which the original one stands": (r"^$",),
    "values of a dict that is a set": (r"\+gathered\.missing\[found\] = \"\"",),
}
"""Why no test can notice a change: patterns of the change, by reason.  Lines are without indentation, with two spaces
between them."""
_MUTMUT: Final = (sys.executable, "-m", "mutmut")


def main(*names: str) -> int:
    with tempfile.TemporaryDirectory(prefix="tollbar-mutants-") as directory:
        tree = Path(directory)
        _copy(tree)
        patterns = [f"{name}*" for name in names]
        mutating = [*_MUTMUT, "run", "--max-children", str(os.cpu_count() or 1), *patterns]
        subprocess.run(mutating, cwd=tree, stdout=subprocess.DEVNULL, check=True)  # noqa: S603
        outcomes = _outcomes(tree)
        survivors = {name: _change(tree, name) for name, outcome in outcomes.items() if outcome not in KILLED}
        _show(survivors, outcomes)
    counts = Counter(outcomes.values())
    share = sum(counts[each] for each in KILLED) / max(1, len(outcomes))
    sys.stdout.write(f"\n{len(outcomes)} mutants, {share:.1%} killed: {dict(counts)}\n")
    return 0 if share >= LEAST else 1


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
    """What became of each mutant that was tried, by its name."""
    pairs = (line.strip().rsplit(": ", 1) for line in _said(tree, "results", "--all", "true") if ": " in line)
    return {name: outcome for name, outcome in pairs if outcome != "not checked"}


def _change(tree: Path, name: str) -> str:
    return "\n".join(line for line in _said(tree, "show", name) if line.startswith(("+ ", "- ")))


def _said(tree: Path, *command: str) -> list[str]:
    asking = [*_MUTMUT, *command]
    answer = subprocess.run(asking, cwd=tree, capture_output=True, text=True, check=True)  # noqa: S603
    return answer.stdout.splitlines()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

"""The table of behaviours names the tests that say so, and every behaviour has one."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "reference" / "scheduler-behaviours.md"
ROW = re.compile(r"^\| (\d+) \| (.+) \| (.+) \|$", re.MULTILINE)


def marked() -> Iterator[tuple[int, str, bool]]:
    """Numbers of behaviours, tests that are marked with them, and whether they have the case that the mark names."""
    for path in sorted(TESTS.rglob("test_*.py")):
        if "mark.behaviour" in (text := path.read_text()):
            tree = ast.parse(text)
            keys = [key for each in ast.walk(tree) if isinstance(each, ast.Dict) for key in each.keys]
            texts = [str(key.value) for key in keys if isinstance(key, ast.Constant)]
            for test in ast.walk(tree):
                if isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield from _of(test, f"{path.relative_to(TESTS)}::{test.name}", texts)


def _of(test: ast.FunctionDef | ast.AsyncFunctionDef, name: str, texts: list[str]) -> Iterator[tuple[int, str, bool]]:
    for mark in test.decorator_list:
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.behaviour":
            cases = [ast.literal_eval(each.value) for each in mark.keywords]
            for number in map(ast.literal_eval, mark.args):
                for case in cases:
                    yield number, f"{name}[{case}]", any(each.startswith(case) for each in texts)
                if not cases:
                    yield number, name, True


def test_the_table_names_every_test_and_every_behaviour_has_one() -> None:
    tests: dict[int, list[str]] = {}
    for number, test, _ in marked():
        tests.setdefault(number, []).append(test)
    table = {int(number): re.findall(r"`([^`]+)`", named) for number, _, named in ROW.findall(PAGE.read_text())}
    assert {number: sorted(named) for number, named in table.items()} == {
        number: sorted(named) for number, named in tests.items()
    }
    assert all(table.values())


def test_the_cases_that_marks_name_are_there() -> None:
    assert [test for _, test, has_case in marked() if not has_case] == []

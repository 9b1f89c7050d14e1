"""Numbers and names in sentences, and tables."""

import pytest

from tollbar.model.texts import columns, counted, some


@pytest.mark.parametrize(("number", "want"), [(0, "0 Pods"), (1, "1 Pod"), (2, "2 Pods")])
def test_things_are_counted(number: int, want: str) -> None:
    assert counted(number, "Pod") == want


SOME = {
    "none": ("", ""),
    "one": ("a", "a"),
    "as many as are named": ("abc", "a, b, c"),
    "more": ("abcde", "a, b, c and 2 more"),
}


@pytest.mark.parametrize(("names", "want"), SOME.values(), ids=SOME)
def test_the_first_names_are_given_and_the_others_counted(names: str, want: str) -> None:
    assert some(names) == want


COLUMNS = {
    "no rows": ([], []),
    "as wide as the widest cell": ([("NAME", "AGE"), ("longer-name", "1d")], ["NAME          AGE", "longer-name   1d"]),
    "no spaces at the end": ([("NAME", "WHY"), ("a", "")], ["NAME   WHY", "a"]),
}


@pytest.mark.parametrize(("rows", "want"), COLUMNS.values(), ids=COLUMNS)
def test_rows_are_lines_in_columns(rows: list[tuple[str, str]], want: list[str]) -> None:
    assert columns(rows) == want

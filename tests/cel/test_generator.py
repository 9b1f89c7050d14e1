"""The generator of random expressions is repeatable and uses every form."""

from cel.forms import FORMS
from cel.generator import cases


def test_a_seed_gives_the_same_cases_whatever_is_asked_for() -> None:
    assert list(cases(5, 20)) == [*cases(5, 10), *cases(5, 10, 10)]


def test_another_seed_gives_others() -> None:
    assert list(cases(5, 10)) != list(cases(6, 10))


def test_every_form_is_used() -> None:
    text = "\n".join(case.expression for case in cases(1, 6000))
    marks = [max(form.pieces[::2], key=len) for form in FORMS]
    assert [mark for mark in marks if mark not in text] == []


def test_expressions_are_of_many_sizes() -> None:
    sizes = sorted(len(case.expression) for case in cases(1, 2000))
    assert (sizes[100] < 25, sizes[1000] > 40, sizes[-20] > 250) == (True, True, True)

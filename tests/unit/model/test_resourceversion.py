"""resourceVersions as numbers."""

import pytest

from tollbar.model.resourceversion import number

NUMBERS: dict[str, tuple[str, int | None]] = {
    "a version": ("4711", 4711),
    "more than 64 bits": ("18446744073709551616", 2**64),
    "more digits than any version has": ("1" * 257, None),
    "the special value of watches": ("0", None),
    "none": ("", None),
    "a leading zero": ("0815", None),
    "a sign": ("+1", None),
    "white space": ("1\n", None),
    "digits of another script": ("١٢", None),
    "a superscript": ("²", None),
    "a word": ("None", None),
}


@pytest.mark.parametrize(("given", "want"), NUMBERS.values(), ids=NUMBERS)
def test_number(given: str, want: int | None) -> None:
    assert number(given) == want

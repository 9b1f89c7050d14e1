"""Durations as Go writes them."""

import pytest

from tollbar.api import durations

TEXTS = {
    0: "0s",
    0.000_001: "1µs",
    0.25: "250ms",
    0.0015: "1.5ms",
    1: "1s",
    1.5: "1.5s",
    59.999_999: "59.999999s",
    90: "1m30s",
    600: "10m0s",
    3600: "1h0m0s",
    3661.25: "1h1m1.25s",
    -2: "-2s",
}


@pytest.mark.parametrize(("seconds", "expected"), TEXTS.items())
def test_text(seconds: float, expected: str) -> None:
    assert durations.text(seconds) == expected

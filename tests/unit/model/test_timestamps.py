"""Timestamps of the API, to and from epoch seconds."""

import pytest

from tollbar.model import timestamps

PARSED = {
    "metav1.Time": ("2026-01-02T03:04:05Z", 1767323045.0),
    "metav1.MicroTime": ("2026-01-02T03:04:05.000006Z", 1767323045.000006),
    "nanoseconds are cut off": ("2026-01-02T03:04:05.000006999Z", 1767323045.000006),
    "another zone": ("2026-01-02T04:04:05+01:00", 1767323045.0),
    "the epoch": ("1970-01-01T00:00:00Z", 0.0),
}


@pytest.mark.parametrize(("given", "want"), PARSED.values(), ids=PARSED)
def test_parse(given: str, want: float) -> None:
    assert timestamps.parse(given) == want


REFUSED = {
    "": "isoformat",
    "yesterday": "isoformat",
    "2026-01-02T03:04:05": "no time zone",
    "2026-13-02T03:04:05Z": "month must be",
    "2026-01-02T25:04:05Z": "hour must be",
}


@pytest.mark.parametrize(("given", "why"), REFUSED.items(), ids=REFUSED)
def test_parse_refuses(given: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        timestamps.parse(given)


def test_a_time_has_whole_seconds() -> None:
    assert timestamps.time(1767323045.9) == "2026-01-02T03:04:05Z"


def test_a_micro_time_has_six_decimals() -> None:
    assert timestamps.micro_time(1767323045.000006) == "2026-01-02T03:04:05.000006Z"

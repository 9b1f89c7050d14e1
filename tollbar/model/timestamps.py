"""RFC 3339 timestamps of the API as seconds since the epoch, and back.

metav1.Time has whole seconds, metav1.MicroTime six decimals; both are UTC on the wire.
"""

from datetime import UTC, datetime


def parse(text: str) -> float:
    """Seconds since the epoch, digits beyond microseconds cut off.  ValueError if it is none, or has no time zone."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("timestamp has no time zone")
    return moment.timestamp()


def time(seconds: float) -> str:
    """metav1.Time, whole seconds: `2026-01-02T03:04:05Z`."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_time(seconds: float) -> str:
    """metav1.MicroTime, six decimals: `2026-01-02T03:04:05.000006Z`."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

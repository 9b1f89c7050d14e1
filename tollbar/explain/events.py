"""Events as the API server has them (events.k8s.io/v1)."""

from collections.abc import Iterable

from tollbar.model import timestamps
from tollbar.model.objects import Object, metadata


def happened(event: Object) -> float:
    """When it happened last, in epoch seconds; 0 if it does not say.

    A series says it in `series.lastObservedTime`, an Event of the older v1 API in `deprecatedLastTimestamp`.
    """
    when = (
        (event.get("series") or {}).get("lastObservedTime")
        or event.get("deprecatedLastTimestamp")
        or event.get("eventTime")
        or metadata(event).get("creationTimestamp")
    )
    return timestamps.parse(str(when)) if when else 0.0


def last(events: Iterable[Object]) -> Object | None:
    """The one that happened last, None without any."""
    return max(events, key=happened, default=None)


def note_of(event: Object) -> str:
    """Its text for people."""
    return str(event.get("note") or "")

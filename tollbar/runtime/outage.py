"""An outage of the API server in the log: one line when it begins, one with its length when it ends.

The clients of a process share one `Outage`.  Errors of calls that failed in it are marked (`ApiError.in_outage`) and
are logged for debugging only: otherwise there would be a line for every Pod and every retry.
"""

import logging
from typing import Final

from tollbar.runtime.clock import Clock

_log: Final = logging.getLogger(__name__)

_TOLERANCE: Final = 1.0
"""Seconds: calls that were answered within this time after a call was sent do not show that the server works."""


class Outage:
    """The API server answers no call: from the first one that fails until one is answered."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._answered = float("-inf")
        self._began: float | None = None
        self._ended = float("-inf")
        self._failures = 0

    def failed(self, why: str, since: float | None) -> bool:
        """A call failed; returns whether that is part of an outage.

        `since` is the monotonic time when the call was sent.  If other calls have been answered after that, this one
        alone has failed.  None is for a server error and for a watch that is cut: neither begins or ends an outage.
        """
        if self._began is None:
            if since is not None and since < self._ended:
                return True  # it was sent in the last one
            if since is None or self._answered > since + _TOLERANCE:
                return False
            self._began, self._failures = since, 0
            _log.warning("the API server does not answer", extra={"error": why})
        self._failures += 1
        return True

    def answered(self) -> None:
        """A call was answered, even if only by a refusal."""
        self._answered = self._clock.monotonic()
        if self._began is not None:
            said = {"seconds": round(self._answered - self._began, 1), "failures": self._failures}
            _log.info("the API server answers again", extra=said)
            self._began, self._ended = None, self._answered

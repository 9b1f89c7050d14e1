"""Retry policies (tenacity) for single API calls: `await READ(client.get, PODS, name, namespace)`.

The work queue's back-off is separate and comes after these.

Invariants: the last error is raised unchanged; WRITE never repeats a POST that may have reached the server, since it
could create a second object.  PUT, PATCH and DELETE are repeated, so they must carry preconditions.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final, ParamSpec, TypeVar

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    stop_after_delay,
    stop_never,
    wait_random_exponential,
)
from tenacity.stop import StopBaseT

from tollbar.runtime.errors import ApiError, ServerError, TooManyRequests, Unreachable
from tollbar.runtime.limits import LONGEST_PAUSE

_log: Final = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")
_JITTER: Final = wait_random_exponential(multiplier=0.1, max=5.0)


def _transient(error: BaseException) -> bool:
    if isinstance(error, Unreachable):
        return not error.final
    return isinstance(error, TooManyRequests | ServerError)


def _transient_and_safe(error: BaseException) -> bool:
    if isinstance(error, ServerError | Unreachable) and error.method == "POST":
        return isinstance(error, Unreachable) and not error.sent
    return _transient(error)


def _refused(error: BaseException) -> bool:
    return isinstance(error, TooManyRequests) and not error.by_disruption_budget


def _wait(state: RetryCallState) -> float:
    """Seconds to wait: the server's Retry-After, a minute at most, plus exponential jitter."""
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after if isinstance(error, ApiError) else None
    return min(asked or 0.0, LONGEST_PAUSE) + _JITTER(state)


def _report(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    level = error.level(logging.INFO) if isinstance(error, ApiError) else logging.INFO
    _log.log(level, "repeating an API call", extra={"attempt": state.attempt_number, "error": str(error)})


class Policy:
    """Which failures of a call are followed by another attempt.  A call that does not fail costs nothing more."""

    def __init__(self, is_repeated: Callable[[BaseException], bool], stop: StopBaseT) -> None:
        self._is_repeated = is_repeated
        self._retrying = AsyncRetrying(
            retry=retry_if_exception(is_repeated), wait=_wait, stop=stop, before_sleep=_report, reraise=True
        )

    async def __call__(self, call: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """The answer of the call; the last error is raised unchanged."""
        try:
            return await call(*args, **kwargs)
        except Exception as error:
            if not self._is_repeated(error):
                raise
            first: list[Exception] = [error]

        async def attempt() -> T:
            if first:
                raise first.pop()  # it was made above
            return await call(*args, **kwargs)

        return await self._retrying(attempt)


_STOP: Final = stop_after_attempt(5) | stop_after_delay(30.0)

READ: Final = Policy(_transient, _STOP)
"""For calls that change nothing, of whatever method (a SelfSubjectReview is a POST)."""

UNTIL_KNOWN: Final = Policy(_transient, stop_never)
"""For reads without whose answer nothing can be decided: repeated for as long as the API server gives none."""

WRITE: Final = Policy(_transient_and_safe, _STOP)
"""For calls that change something."""

REFUSED: Final = Policy(_refused, stop_after_attempt(10))
"""For calls of which nothing is repeated but what the API server was too busy for (429), as often as client-go does."""

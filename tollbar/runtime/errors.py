"""The errors that calls of the API server raise.

Conflict and NotFound are ordinary outcomes, which reconcilers match.  `Unreachable` means that no answer came: whether
a write took effect is then unknown, unless `sent` is false.
"""

import logging
from typing import Any, Final

import orjson

_SHOWN: Final = 300
"""Characters of a message that `str` shows: it may quote the whole object.  `message` is complete."""


class KubeconfigError(Exception):
    """No usable credentials for the API server: no kubeconfig, a broken one, or no service account."""


class ApiError(Exception):
    """An answer of 300 or above, or no answer at all (status 0).

    `details` is the Status object's field of that name; `retry_after` is in seconds, None when the server named none;
    `method` is the HTTP method of the call; `in_outage` tells that it failed in an outage, which the client has logged.
    """

    in_outage = False

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        *,
        method: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(status, reason, message)
        self.status = status
        self.reason = reason
        self.message = message
        self.details = details or {}
        self.method = method
        self.retry_after = retry_after

    @property
    def excerpt(self) -> str:
        """As much of the message as an Event shows: a strict field validation answers with the whole object."""
        return self.message[:400]

    @property
    def refused(self) -> bool:
        """Whether validation or admission refused the call: repeating it fails until somebody changes something.

        A webhook chooses the code of its denial (400 when it names none), so the message decides.
        """
        return self.message.startswith("admission webhook ") and " denied the request" in self.message

    def level(self, usual: int) -> int:
        """The level at which to log this error, by default the usual one."""
        return logging.DEBUG if self.in_outage else usual

    def __str__(self) -> str:
        shown = self.message if len(self.message) <= _SHOWN else self.message[:_SHOWN] + "..."
        return f"{self.status} {self.reason}: {shown}"


class NotFound(ApiError):
    """404: no such object, or no such API."""


class Conflict(ApiError):
    """409: the resourceVersion or another precondition was out of date."""


class AlreadyExists(ApiError):
    """409 on create: the name is taken."""


class Invalid(ApiError):
    """422: refused, or a `test` or path of a JSON Patch failed, which names no cause and is not `refused`.

    In the second case, read the object and patch it again.
    """

    @property
    def causes(self) -> list[dict[str, Any]]:
        """What validation found wrong, as `{field, message, reason}`."""
        return list(self.details.get("causes") or ())

    @property
    def refused(self) -> bool:
        return bool(self.causes) or super().refused


class Forbidden(ApiError):
    """403: RBAC, or an admission plugin's refusal."""

    @property
    def refused(self) -> bool:
        return True


class Unauthorized(ApiError):
    """401: the credentials were not accepted."""


class Gone(ApiError):
    """410, as an answer or inside a watch: the resourceVersion is too old, list again.

    For a list whose `continue` token is too old, `rest` is another one: for the rest of the list, with the objects as
    they are by then (metav1.ListMeta.continue of the Status).  Empty where the API server gives none.
    """

    rest = ""


class TooManyRequests(ApiError):
    """429: refused before the call had any effect; `retry_after` is always set."""

    @property
    def by_disruption_budget(self) -> bool:
        """Whether a PodDisruptionBudget refused an eviction (policy/v1, DisruptionBudgetCause): the API server is not
        busy, and other calls need not wait."""
        return any(cause.get("reason") == "DisruptionBudget" for cause in self.details.get("causes") or ())


class Unwritable(ApiError):
    """A write that was not sent: the object is nested more deeply than is written."""

    def __init__(self, why: str, *, method: str = "") -> None:
        super().__init__(0, "Unwritable", f"not sent: {why}", method=method)

    @property
    def refused(self) -> bool:
        return True


class ServerError(ApiError):
    """5xx."""


class Unreachable(ApiError):
    """No answer: a connection error, a timeout, no JSON.  `sent` is false when the request never left this process.

    `final` tells that the user has limited the time of a request, and it is over: it is not repeated.
    """

    def __init__(self, message: str, *, method: str = "", sent: bool = True, final: bool = False) -> None:
        super().__init__(0, "Unreachable", message, method=method)
        self.sent = sent
        self.final = final


class TooLong(ApiError):
    """An answer to a read that was given up because it is longer than the caller takes."""

    def __init__(self, *, method: str = "") -> None:
        super().__init__(0, "TooLong", "the answer is longer than is taken", method=method)


class NotLeading(ApiError):
    """A write of the leader's that was not sent, because another process may hold the lease by now."""

    def __init__(self, *, method: str = "") -> None:
        super().__init__(0, "NotLeading", "not sent: this process may have lost the lease", method=method)


_BY_STATUS: Final[dict[int, type[ApiError]]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


def error_from_status(status: dict[str, Any], *, method: str = "", retry_after: float | None = None) -> ApiError:
    """The error that a `Status` object describes; also for the ERROR event of a watch."""
    code = int(status.get("code") or 500)
    reason = str(status.get("reason") or "")
    kind = _BY_STATUS.get(code) or (ServerError if code >= 500 else ApiError)
    if kind is Conflict and reason == "AlreadyExists":
        kind = AlreadyExists
    if kind is TooManyRequests and retry_after is None:
        retry_after = 1.0
    message = str(status.get("message") or "")
    error = kind(code, reason, message, status.get("details"), method=method, retry_after=retry_after)
    if isinstance(error, Gone):
        error.rest = str((status.get("metadata") or {}).get("continue") or "")
    return error


def error_from_answer(code: int, body: bytes, *, method: str = "", retry_after: float | None = None) -> ApiError:
    """The error for an HTTP answer, whether or not its body is a `Status` object."""
    try:
        decoded = orjson.loads(body)
    except orjson.JSONDecodeError:
        decoded = None
    status = decoded if isinstance(decoded, dict) and decoded.get("kind") == "Status" else {"message": _text(body)}
    return error_from_status({**status, "code": code}, method=method, retry_after=retry_after)


def _text(body: bytes) -> str:
    return body[:_SHOWN].decode("utf-8", "replace").strip()

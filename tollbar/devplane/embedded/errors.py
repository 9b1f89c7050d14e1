"""Refusals as the API server words them: raised anywhere below the server, written as a `Status` by it.

Constructors are named as in k8s.io/apimachinery/pkg/api/errors and take what the message is made of.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from tollbar.model.fields import FieldError
from tollbar.model.objects import Object


class Cause(NamedTuple):
    """One thing wrong, as in `status.details.causes`; the message starts with the kind of error (`Forbidden: ...`)."""

    reason: str
    field: str
    message: str

    @classmethod
    def of(cls, error: FieldError) -> "Cause":
        return cls(error.cause, error.field, error.message)


class Refused(Exception):
    """An answer of 400 or above.  `details` is merged with the causes; `retry_after` is in seconds."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        causes: Sequence[Cause] = (),
        details: Object | None = None,
        retry_after: int = 0,
    ) -> None:
        super().__init__(code, reason, message)
        self.code = code
        self.reason = reason
        self.message = message
        self.causes = tuple(causes)
        self.details = details
        self.retry_after = retry_after

    def status(self) -> Object:
        """The `Status` object; empty causes, reason and details are left out."""
        answer: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            answer["reason"] = self.reason
        details: dict[str, Any] = dict(self.details or {})
        if self.causes:
            details["causes"] = [
                {key: value for key, value in cause._asdict().items() if value} for cause in self.causes
            ]
        if self.retry_after:
            details["retryAfterSeconds"] = self.retry_after
        if details or self.details is not None:
            answer["details"] = details
        return {**answer, "code": self.code}


def qualified(group: str, name: str) -> str:
    """A plural or kind with its group, as messages name it: `pods`, `leases.coordination.k8s.io`."""
    return f"{name}.{group}" if group else name


def _details(group: str, kind: str, name: str) -> Object:
    found = {"name": name, "group": group, "kind": kind}
    return {key: value for key, value in found.items() if value}


def bad_request(message: str) -> Refused:
    return Refused(400, "BadRequest", message)


def unauthorized() -> Refused:
    return Refused(401, "Unauthorized", "Unauthorized")


def forbidden(group: str, plural: str, name: str, why: str, causes: Sequence[Cause] = ()) -> Refused:
    what = f'{qualified(group, plural)} "{name}"' if name else qualified(group, plural)
    return Refused(
        403, "Forbidden", f"{what} is forbidden: {why}", causes=causes, details=_details(group, plural, name)
    )


def not_found(group: str, plural: str, name: str) -> Refused:
    what = f'{qualified(group, plural)} "{name}" not found'
    return Refused(404, "NotFound", what, details=_details(group, plural, name))


def method_not_allowed() -> Refused:
    return Refused(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def already_exists(group: str, plural: str, name: str, *, deleting: bool = False) -> Refused:
    what = f'{"object is being deleted: " if deleting else ""}{qualified(group, plural)} "{name}" already exists'
    return Refused(409, "AlreadyExists", what, details=_details(group, plural, name))


def conflict(group: str, plural: str, name: str, why: str) -> Refused:
    what = f'Operation cannot be fulfilled on {qualified(group, plural)} "{name}": {why}'
    return Refused(409, "Conflict", what, details=_details(group, plural, name))


STALE_VERSION = "the object has been modified; please apply your changes to the latest version and try again"


def expired(message: str) -> Refused:
    return Refused(410, "Expired", message)


def unsupported_media_type(*accepted: str) -> Refused:
    listed = ", ".join(accepted)
    return Refused(
        415,
        "UnsupportedMediaType",
        f"the body of the request was in an unknown format - accepted media types include: {listed}",
    )


def invalid(group: str, kind: str, name: str, causes: Sequence[Cause]) -> Refused:
    """422 with the message that lists every cause once."""
    lines = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    said = lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"
    what = f'{qualified(group, kind)} "{name}" is invalid: {said}'
    return Refused(422, "Invalid", what, causes=causes, details=_details(group, kind, name))


def stale() -> Refused:
    """422 for a JSON Patch that does not fit the object: it names nothing."""
    return Refused(422, "Invalid", "the server rejected our request due to an error in our request", details={})


def internal(message: str) -> Refused:
    return Refused(500, "InternalError", f"Internal error occurred: {message}")


def not_implemented(what: str) -> Refused:
    """501 for what Kubernetes has and this API server has not; `what` names it."""
    return Refused(501, "NotImplemented", f"the embedded control plane does not have {what}")

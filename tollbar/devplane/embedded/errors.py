"""Errors of the API, with the API server's texts: `Refused` is raised, and the server answers with its `Status`.

Constructors are named as in k8s.io/apimachinery/pkg/api/errors and take the parts of the message.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tollbar.model.fields import FieldError
from tollbar.model.objects import Object


@dataclass(eq=False)
class Refused(Exception):
    """An answer of 400 or above.  `details` is merged with the causes; `retry_after` is in seconds.

    `rest` is the `continue` token for the rest of a list that has expired.
    """

    code: int
    reason: str
    message: str
    causes: Sequence[FieldError] = ()
    details: Object | None = None
    retry_after: int = 0
    rest: str = ""

    def status(self) -> Object:
        """The `Status` object; empty causes, reason and details are left out."""
        details = dict(self.details or {})
        if self.causes:
            details["causes"] = [
                _filled(reason=each.reason or each.cause, field=each.field, message=each.message)
                for each in self.causes
            ]
        if self.retry_after:
            details["retryAfterSeconds"] = self.retry_after
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": _filled(**{"continue": self.rest}),
            "status": "Failure",
            "message": self.message,
            **_filled(reason=self.reason),
            **({"details": details} if details or self.details is not None else {}),
            "code": self.code,
        }


_LACKS: Final = "the embedded control plane does not have"
SUCCESS: Final[Object] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
"""The answer where there is no object to return."""


def qualified(group: str, name: str) -> str:
    """A plural or kind with its group, as messages name it: `pods`, `leases.coordination.k8s.io`."""
    return f"{name}.{group}" if group else name


def _filled(**members: str) -> Object:
    return {name: value for name, value in members.items() if value}


def _details(group: str, kind: str, name: str) -> Object:
    return _filled(name=name, group=group, kind=kind)


def bad_request(message: str) -> Refused:
    return Refused(400, "BadRequest", message)


def unauthorized() -> Refused:
    return Refused(401, "Unauthorized", "Unauthorized")


def forbidden(group: str, plural: str, name: str, why: str, causes: Sequence[FieldError] = ()) -> Refused:
    what = f'{qualified(group, plural)} "{name}"' if name else qualified(group, plural)
    return Refused(403, "Forbidden", f"{what} is forbidden: {why}", causes, _details(group, plural, name))


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


def expired(message: str, rest: str = "") -> Refused:
    return Refused(410, "Expired", message, rest=rest)


def unsupported_media_type(*accepted: str) -> Refused:
    why = "the body of the request was in an unknown format - accepted media types include"
    return Refused(415, "UnsupportedMediaType", f"{why}: {', '.join(accepted)}")


def invalid(group: str, kind: str, name: str, causes: Sequence[FieldError]) -> Refused:
    """422 with the message that lists every cause once."""
    lines = list(dict.fromkeys(map(str, causes)))
    said = lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"
    what = f'{qualified(group, kind)} "{name}" is invalid: {said}'
    return Refused(422, "Invalid", what, causes=causes, details=_details(group, kind, name))


def stale() -> Refused:
    """422 for a JSON Patch that does not apply; the API server gives no details."""
    return Refused(422, "Invalid", "the server rejected our request due to an error in our request", details={})


def internal(message: str) -> Refused:
    return Refused(500, "InternalError", f"Internal error occurred: {message}")


def timeout(message: str) -> Refused:
    return Refused(504, "Timeout", f"Timeout: {message}", details={})


def not_implemented(what: str) -> Refused:
    """501 for a feature of Kubernetes that this API server lacks; `what` names it."""
    return Refused(501, "NotImplemented", f"{_LACKS} {what}")


def not_served(what: str) -> Refused:
    """404 for a read of a kind that this API server lacks: clients take that as of a cluster that does not serve it."""
    return Refused(404, "NotFound", f"{_LACKS} {what}", details={})

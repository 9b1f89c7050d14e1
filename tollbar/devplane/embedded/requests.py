"""A request as registry and admission see it: the user, the options and the object that is written."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tollbar.devplane.embedded.kinds import Kind
from tollbar.model.objects import Key, Object

MASTERS: Final = "system:masters"
AUTHENTICATED: Final = "system:authenticated"


@dataclass(frozen=True, slots=True)
class User:
    """An authenticated user, as in `userInfo` of admission reviews."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""

    def info(self) -> Object:
        """As `authentication.k8s.io/v1 UserInfo`."""
        found = {"username": self.name, "uid": self.uid, "groups": list(self.groups)}
        return {key: value for key, value in found.items() if value}


SYSTEM: Final = User("system:apiserver", (MASTERS, AUTHENTICATED))
"""The user that the plane's own controllers are."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of a write, from its query or body."""

    manager: str = "unknown"
    dry_run: bool = False
    validation: str = "Warn"
    force: bool = False
    raw: Object = field(default_factory=dict)
    """The CreateOptions, UpdateOptions, PatchOptions or DeleteOptions object that admission webhooks are shown."""


def _always() -> None:
    """No authorization is needed."""


@dataclass(frozen=True, slots=True)
class Write:
    """A write of one object, with the attributes that admission sees (k8s.io/apiserver/pkg/admission.Attributes).

    The name is empty until it has been generated.
    """

    kind: Kind
    key: Key
    user: User = SYSTEM
    options: WriteOptions = WriteOptions()
    subresource: str = ""
    operation: str = ""
    """CREATE, UPDATE or DELETE; set by the registry."""
    may_create: Callable[[], None] = _always
    """Raises Refused (403) when a PUT or server-side apply would create the object and the user may not."""
    duplicates: Sequence[str] = ()
    """Warnings about keys that the body has twice."""

"""Who asks for what: the values that the server makes of a request and that registry and admission read."""

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
"""The plane itself: its controllers."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the query or body of a write asks for, beside the object."""

    manager: str = "unknown"
    dry_run: bool = False
    validation: str = "Warn"
    force: bool = False
    raw: Object = field(default_factory=dict)
    """The CreateOptions, UpdateOptions, PatchOptions or DeleteOptions object that admission webhooks are shown."""


def _anybody() -> None:
    """Nobody is asked whether they may create what they replace or apply."""


@dataclass(frozen=True, slots=True)
class Write:
    """A write of one object; what admission is told of it (k8s.io/apiserver/pkg/admission.Attributes).

    The name is empty while a name is still to be generated.
    """

    kind: Kind
    key: Key
    user: User = SYSTEM
    options: Options = Options()
    subresource: str = ""
    operation: str = ""
    """CREATE, UPDATE or DELETE, as soon as the registry knows."""
    may_create: Callable[[], None] = _anybody
    """Raises Refused (403) when the user may not create what a PUT or an application would."""
    doubled: Sequence[str] = ()
    """What decoding said of keys that came twice."""

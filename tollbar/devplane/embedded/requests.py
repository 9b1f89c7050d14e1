"""Who asks for what: the values that the server makes of a request and that registry and admission read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tollbar.devplane.embedded.kinds import Kind

MASTERS: Final = "system:masters"
AUTHENTICATED: Final = "system:authenticated"


@dataclass(frozen=True, slots=True)
class User:
    """An authenticated user, as in `userInfo` of admission reviews."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def info(self) -> dict[str, Any]:
        """As `authentication.k8s.io/v1 UserInfo`."""
        found: dict[str, Any] = {"username": self.name, "uid": self.uid, "groups": list(self.groups)}
        if self.extra:
            found["extra"] = {key: list(values) for key, values in self.extra.items()}
        return {key: value for key, value in found.items() if value}


SYSTEM: Final = User("system:apiserver", (MASTERS, AUTHENTICATED))
"""The plane itself: its controllers."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """What admission is told about a write (k8s.io/apiserver/pkg/admission.Attributes).

    `operation` is CREATE, UPDATE, DELETE or CONNECT; the name is empty while a name is still to be generated.
    """

    operation: str
    kind: Kind
    namespace: str
    name: str
    user: User
    subresource: str = ""
    dry_run: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    """The CreateOptions, UpdateOptions, PatchOptions or DeleteOptions object of the request."""

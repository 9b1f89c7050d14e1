"""Semantic versions 2.0.0: parsing and precedence.

As the `version` attribute of devices (resource.k8s.io/v1 DeviceAttribute) and CEL's semver() have them.  Build metadata
takes no part in precedence, so versions that differ only there are equal.
"""

import re
from dataclasses import dataclass, field
from functools import total_ordering
from typing import Final, TypeAlias

MAX_LENGTH: Final = 256
_MAX_NUMBER: Final = 2**64 - 1

_NUMBER: Final = r"(?:0|[1-9][0-9]{0,19})"
_PRERELEASE: Final = r"(?:0|[1-9][0-9]{0,19}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_FORM: Final = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})"
    rf"(?:-({_PRERELEASE}(?:\.{_PRERELEASE})*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
)

_DIGITS: Final = tuple("0123456789")

Rank: TypeAlias = tuple[int, int, int, bool, tuple[tuple[bool, int, str], ...]]


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """A semantic version; ordered and hashed by precedence."""

    major: int
    minor: int
    patch: int
    prerelease: tuple[str, ...] = ()
    build: str = ""
    rank: Rank = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rank", self._rank())

    def _rank(self) -> Rank:
        # Numeric identifiers sort below words; a pre-release sorts below the release itself.
        words = tuple((not word.isdigit(), int(word) if word.isdigit() else 0, word) for word in self.prerelease)
        return self.major, self.minor, self.patch, not words, words

    def __eq__(self, other: object) -> bool:
        return self.rank == other.rank if isinstance(other, Version) else NotImplemented

    def __lt__(self, other: "Version") -> bool:
        return self.rank < other.rank if isinstance(other, Version) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.rank)


def parse(text: str, *, normalize: bool = False) -> Version:
    """The version; ValueError if the text is none.  The message does not repeat the text.

    `normalize` is that of Kubernetes' CEL semver(text, true): a leading `v` and leading zeros are removed, missing
    minor and patch numbers become 0.
    """
    form = _FORM.fullmatch(_normalized(text) if normalize else text) if len(text) <= MAX_LENGTH else None
    if form is None:
        raise ValueError("not a semantic version")
    major, minor, patch = (int(part) for part in form.group(1, 2, 3))
    prerelease = tuple(form[4].split(".")) if form[4] else ()
    if max(major, minor, patch, *(int(word) for word in prerelease if word.isdigit())) > _MAX_NUMBER:
        raise ValueError("not a semantic version: number out of range")
    return Version(major, minor, patch, prerelease, form[5] or "")


def _normalized(text: str) -> str:
    parts = [_unpadded(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3 and re.search(r"[+-]", parts[-1]):
        raise ValueError("not a semantic version: a short version has no pre-release or build part")
    return ".".join([*parts, "0", "0"][: max(3, len(parts))])


def _unpadded(part: str) -> str:
    """Without leading zeros; a longer part that starts with no digit gets one."""
    digits = part.lstrip("0")
    return part if len(part) < 2 else digits if digits[:1] in _DIGITS else f"0{digits}"

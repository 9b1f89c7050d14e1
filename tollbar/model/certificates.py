"""Certificates as values: their PEM text and when they are valid, in seconds since the epoch."""

from dataclasses import dataclass, field
from typing import Final

AUTHORITY_LIFETIME: Final = 365 * 86400.0
"""Seconds that an authority (a CA) is valid, if nothing else is configured."""
LEAF_LIFETIME: Final = 30 * 86400.0
"""Seconds that a serving certificate is valid, if nothing else is configured."""
BACKDATED: Final = 300.0
"""Seconds that the validity of our certificates begins before they are made, for clients whose clock is behind."""
_RENEWED_AFTER: Final = 2 / 3
"""The share of its life after which a certificate is replaced."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """Valid from `begins` on and before `ends`."""

    pem: str
    begins: float
    ends: float

    @property
    def made(self) -> float:
        """When it was made, if it is one of ours."""
        return self.begins + BACKDATED

    @property
    def due(self) -> float:
        """When it should be replaced."""
        return self.made + (self.ends - self.made) * _RENEWED_AFTER

    def is_valid(self, now: float) -> bool:
        return self.begins <= now < self.ends

    def is_fresh(self, now: float) -> bool:
        """Valid, and not yet to be replaced.  False, too, when the clock has been set back to before it was made."""
        return self.begins <= now < self.due


@dataclass(frozen=True, slots=True)
class KeyPair(Certificate):
    """A certificate with its private key, PEM, which stays out of logs and stack traces."""

    key: str = field(repr=False)

"""The Secret with the authority of the webhook's certificates: the controllers write it, the webhook signs with it.

Keys as in a Secret of the type kubernetes.io/tls: `tls.crt` and `tls.key` are the current authority, `next.crt` and
`next.key` the one that will take its place.
"""

import base64
import binascii
from typing import NamedTuple

from tollbar.model.certificates import KeyPair
from tollbar.model.objects import Object
from tollbar.runtime import certs

SECRET = "tollbar-webhook-ca"  # noqa: S105 - a name


class Authorities(NamedTuple):
    """Each None where the Secret has none that can be used."""

    current: KeyPair | None = None
    next: KeyPair | None = None


def read(secret: Object | None) -> Authorities:
    """What the Secret holds, whatever somebody has written to it."""
    data = (secret or {}).get("data") or {}
    return Authorities(*(_authority(data, name) for name in ("tls", "next")))


def data_of(authorities: Authorities) -> Object:
    """The `data` of the Secret with these."""
    return {
        f"{name}.{suffix}": base64.b64encode(pem.encode()).decode()
        for name, each in zip(("tls", "next"), authorities, strict=True)
        if each is not None
        for suffix, pem in (("crt", each.pem), ("key", each.key))
    }


def _authority(data: Object, name: str) -> KeyPair | None:
    return certs.read_authority(_decoded(data, f"{name}.crt"), _decoded(data, f"{name}.key"))


def _decoded(data: Object, name: str) -> bytes:
    try:
        return base64.b64decode(data.get(name) or "", validate=True)
    except binascii.Error:
        return b""

"""A TLS handshake as the API server makes one with a webhook: trusting the `caBundle` alone, expecting one name."""

import asyncio
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from cryptography import x509

from tollbar.model import timestamps

TIMEOUT: Final = 5.0
"""Seconds for the connection and the handshake."""
_OTHER_NAME: Final = frozenset({62, 64})
"""OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""


@dataclass(frozen=True, slots=True)
class Handshake:
    """`problem` is empty when it succeeded; `expires` is the end of the certificate's validity in epoch seconds, None
    when there was no certificate."""

    problem: str
    expires: float | None = None


async def shake_hands(host: str, port: int, *, server_name: str, bundle: bytes, timeout: float = TIMEOUT) -> Handshake:
    """Connect to `host` and expect a certificate for `server_name` that a certificate of `bundle` (PEM) has signed.

    Raises socket.gaierror when `host` has no address.
    """
    try:
        trust = _trusting(bundle)
    except (ValueError, ssl.SSLError):
        return Handshake("the CA bundle cannot be read")
    try:
        async with asyncio.timeout(timeout):
            return await _attempt(host, port, server_name, trust)
    except TimeoutError:
        return Handshake(f"no answer at {host}:{port} within {timeout:g} s")
    except ssl.SSLError as error:
        return Handshake(f"no TLS at {host}:{port}: {error.reason or error}")
    except ConnectionRefusedError:
        return Handshake(f"nothing listens at {host}:{port}")
    except socket.gaierror:
        raise
    except OSError as error:
        return Handshake(f"no connection to {host}:{port}: {error.strerror or error}")


async def _attempt(host: str, port: int, server_name: str, trust: ssl.SSLContext) -> Handshake:
    try:
        certificate = await _certificate(host, port, server_name, trust)
    except ssl.SSLCertVerificationError as error:
        certificate = await _certificate(host, port, server_name, _trusting_anybody())
        expires = _expires(certificate)
        return Handshake(_untrusted(error, certificate, server_name), expires)
    return Handshake("", _expires(certificate))


def _untrusted(error: ssl.SSLCertVerificationError, certificate: x509.Certificate, server_name: str) -> str:
    if error.verify_code in _OTHER_NAME:
        return f"the certificate is not for {server_name}"
    if "expired" in error.verify_message:
        return f"the certificate, or its CA, has expired: the certificate at {timestamps.time(_expires(certificate))}"
    return f"the CA bundle does not fit the certificate: {error.verify_message}"


async def _certificate(host: str, port: int, server_name: str, trust: ssl.SSLContext) -> x509.Certificate:
    _, writer = await asyncio.open_connection(host, port, ssl=trust, server_hostname=server_name)
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return x509.load_der_x509_certificate(der)


def _expires(certificate: x509.Certificate) -> float:
    return certificate.not_valid_after_utc.timestamp()


def _trusting(bundle: bytes) -> ssl.SSLContext:
    """As Go does, it takes any certificate of the bundle for an anchor, not self-signed ones alone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=bundle.decode("ascii", "replace"))
    return context


def _trusting_anybody() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context

"""The serving certificate: loaded from two files, and loaded again when they change, without a new listener.

All connections share one SSLContext: open ones keep their certificate, new ones get the current one.

Hazards: a pair that cannot be used (half written, key of another certificate) is logged once and the old one stays in
use; until a usable pair was loaded, handshakes fail and the process is not ready.
"""

import asyncio
import logging
import ssl
from pathlib import Path
from typing import Final

from tollbar.runtime import certs
from tollbar.runtime.clock import Clock
from tollbar.runtime.metrics import Metrics

_log: Final = logging.getLogger(__name__)

POLL_SECONDS: Final = 5.0


class Certificate:
    """`context` is the one to listen with; it has no certificate until a pair of files could be loaded."""

    def __init__(self, cert_file: str, key_file: str, *, clock: Clock, metrics: Metrics) -> None:
        self.context = new_context()
        self._cert_file = Path(cert_file)
        self._key_file = Path(key_file)
        self._clock = clock
        self._expiry = metrics.gauge("tollbar_certificate_expiry_timestamp_seconds")
        self._reads = metrics.counter("certwatcher_read_certificate_total")
        self._read_errors = metrics.counter("certwatcher_read_certificate_errors_total")
        self._tried: tuple[object, ...] | None = None
        self._expires: float | None = None

    def problem(self) -> str | None:
        """A readiness check: why clients cannot connect."""
        if self._expires is None:
            return "no usable certificate has been found"
        return None if self._clock.now() < self._expires else "the certificate has expired"

    async def run(self) -> None:
        """Look at the files every few seconds, until cancelled."""
        while True:
            await self.refresh()
            await self._clock.sleep(POLL_SECONDS)

    async def refresh(self) -> None:
        """Load the files if they changed since the last attempt.  Never raises for their contents."""
        stamp = await asyncio.to_thread(self._stamp)
        if stamp == self._tried:
            return
        self._reads.inc()
        try:
            # Loading into the context in use would leave it with a certificate and no key when the key is wrong.
            expires = await asyncio.to_thread(self._try)
            self._load(self.context)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            self._read_errors.inc()
            reason = getattr(error, "strerror", None) or str(error)
            _log.error(
                "cannot use the certificate",
                extra={"cert": str(self._cert_file), "key": str(self._key_file), "error": reason},
            )
        else:
            self._expires = expires
            self._expiry.set(expires)
            _log.info("loaded the certificate", extra={"cert": str(self._cert_file), "expires": int(expires)})
        self._tried = stamp

    def _stamp(self) -> tuple[object, ...]:
        """Changes whenever a file does; a Secret volume swaps a link, which shows in the inodes."""
        return tuple(_identity(path) for path in (self._cert_file, self._key_file))

    def _try(self) -> float:
        """The expiry of the certificate, if it can be loaded with the key.  Raises OSError or ValueError."""
        self._load(new_context())
        return certs.expiry(self._cert_file)

    def _load(self, context: ssl.SSLContext) -> None:
        # Without a password, OpenSSL would prompt for one at the terminal.
        context.load_cert_chain(self._cert_file, self._key_file, password="")


def _identity(path: Path) -> object:
    try:
        status = path.stat()
    except OSError as error:
        return error.errno
    return (status.st_mtime_ns, status.st_ino, status.st_size)


def new_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # For a loopback URL the API server uses h2 when it is offered, and then every call would fail silently.
    context.set_alpn_protocols(["http/1.1"])
    return context

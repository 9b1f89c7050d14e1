"""The serving certificate and the CAs of clients: loaded from files, and again when they change.

Open connections keep the certificate and the clients that they were made with, new ones get the current files.

Hazards: files that cannot be used (half written, key of another certificate) are logged once and the old ones stay in
use; until usable ones were loaded, handshakes fail and the process is not ready.
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
    """`context()` is what to serve the next connection with; it has no certificate until files could be loaded.

    With a `client_ca_file`, only clients are served that show a certificate which one of its CAs has signed.
    """

    def __init__(
        self, cert_file: str, key_file: str, client_ca_file: str = "", *, clock: Clock, metrics: Metrics
    ) -> None:
        self._context = new_context()
        self._cert_file = Path(cert_file)
        self._key_file = Path(key_file)
        self._client_ca_file = Path(client_ca_file) if client_ca_file else None
        self._clock = clock
        self._expiry = metrics.gauge("tollbar_certificate_expiry_timestamp_seconds")
        self._reads = metrics.counter("certwatcher_read_certificate_total")
        self._read_errors = metrics.counter("certwatcher_read_certificate_errors_total")
        self._tried: tuple[object, ...] | None = None
        self._expires: float | None = None

    def context(self) -> ssl.SSLContext:
        return self._context

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
            self._context, expires = await asyncio.to_thread(self._load)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            self._read_errors.inc()
            reason = getattr(error, "strerror", None) or str(error)
            _log.error("cannot use the certificate", extra={**self._files(), "error": reason})
        else:
            self._expires = expires
            self._expiry.set(expires)
            _log.info("loaded the certificate", extra={**self._files(), "expires": int(expires)})
        self._tried = stamp

    def _files(self) -> dict[str, str]:
        files = {"cert": self._cert_file, "key": self._key_file, "clientCA": self._client_ca_file}
        return {name: str(path) for name, path in files.items() if path}

    def _stamp(self) -> tuple[object, ...]:
        """Changes whenever a file does; a Secret volume swaps a link, which shows in the inodes."""
        return tuple(_identity(path) for path in (self._cert_file, self._key_file, self._client_ca_file) if path)

    def _load(self) -> tuple[ssl.SSLContext, float]:
        """A context with what the files hold, and the expiry of the certificate.  Raises OSError or ValueError."""
        context = new_context()
        # Without a password, OpenSSL would prompt for one at the terminal.
        context.load_cert_chain(self._cert_file, self._key_file, password="")
        if self._client_ca_file is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self._client_ca_file)
        return context, certs.expiry(self._cert_file)


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

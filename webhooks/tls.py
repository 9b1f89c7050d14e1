"""The serving certificate, loaded from two files or signed by the authority in a Secret, and the CAs of clients.

Open connections keep the certificate and the client CAs that they were made with, new ones use the current ones.

Each replica that has no files signs a certificate of its own, for any Service of its namespace, and keeps it and its
key in memory.  It signs another one after two thirds of its lifetime, and as soon as the Secret has another authority.

Hazards: if a pair of files does not match yet or the Secret has no authority, this is logged once and the old
certificate stays in use; until there is a usable one, handshakes fail and the process is not ready.
"""

import asyncio
import logging
import ssl
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Final

from tollbar.model import timestamps
from tollbar.model.certificates import KeyPair
from tollbar.model.objects import Key
from tollbar.runtime import certs
from tollbar.runtime.clock import Clock
from tollbar.runtime.manager import Manager
from tollbar.runtime.metrics import Metrics
from tollbar.views import authority, kinds

_log: Final = logging.getLogger(__name__)

POLL_SECONDS: Final = 5.0
SIGN_SECONDS: Final = 1.0
"""How often the Secret is looked at, in the cache."""


class Certificate(ABC):
    """`context()` is what to serve the next connection with; it has no certificate until one could be loaded.

    With a `client_ca_file`, only clients are served that show a certificate which one of its CAs has signed.
    """

    def __init__(self, client_ca_file: str, *, clock: Clock, metrics: Metrics, period: float) -> None:
        self._context = new_context()
        self._client_ca_file = Path(client_ca_file) if client_ca_file else None
        self._clock = clock
        self._period = period
        self._expiry = metrics.gauge("tollbar_certificate_expiry_timestamp_seconds")
        self._expires: float | None = None

    def context(self) -> ssl.SSLContext:
        return self._context

    def problem(self) -> str | None:
        """A readiness check: why clients cannot connect."""
        if self._expires is None:
            return "no usable certificate has been found"
        return None if self._clock.now() < self._expires else "the certificate has expired"

    async def run(self) -> None:
        """Look for another certificate every few seconds, until cancelled."""
        while True:
            await self.refresh()
            await self._clock.sleep(self._period)

    @abstractmethod
    async def refresh(self) -> None:
        """Have the context serve the certificate that is due.  Never raises for what somebody else wrote."""

    def _loaded(self, cert_file: Path, key_file: Path | None = None) -> ssl.SSLContext:
        """A context with a certificate, its key and the CAs of clients.  Raises OSError or ValueError."""
        context = new_context()
        # Without a password, OpenSSL would prompt for one at the terminal.
        context.load_cert_chain(cert_file, key_file, password="")
        if self._client_ca_file is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self._client_ca_file)
        return context

    def _serve(self, context: ssl.SSLContext, expires: float) -> None:
        self._context = context
        self._expires = expires
        self._expiry.set(expires)


class FileCertificate(Certificate):
    """A certificate in two files, which are renewed by others."""

    def __init__(
        self, cert_file: str, key_file: str, client_ca_file: str = "", *, clock: Clock, metrics: Metrics
    ) -> None:
        super().__init__(client_ca_file, clock=clock, metrics=metrics, period=POLL_SECONDS)
        self._cert_file = Path(cert_file)
        self._key_file = Path(key_file)
        self._reads = metrics.counter("certwatcher_read_certificate_total")
        self._read_errors = metrics.counter("certwatcher_read_certificate_errors_total")
        self._tried: tuple[object, ...] | None = None

    async def refresh(self) -> None:
        """Load the files if they changed since the last attempt."""
        stamp = await asyncio.to_thread(self._stamp)
        if stamp == self._tried:
            return
        self._reads.inc()
        try:
            context = await asyncio.to_thread(self._loaded, self._cert_file, self._key_file)
            expires = await asyncio.to_thread(certs.expiry, self._cert_file)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            self._read_errors.inc()
            _log.error("cannot use the certificate", extra={**self._files(), "error": _reason(error)})
        else:
            self._serve(context, expires)
            _log.info("loaded the certificate", extra={**self._files(), "expires": int(expires)})
        self._tried = stamp

    def _files(self) -> dict[str, str]:
        files = {"cert": self._cert_file, "key": self._key_file, "clientCA": self._client_ca_file}
        return {name: str(path) for name, path in files.items() if path}

    def _stamp(self) -> tuple[object, ...]:
        """Changes whenever a file does; a Secret volume swaps a link, which shows in the inodes."""
        return tuple(_identity(path) for path in (self._cert_file, self._key_file, self._client_ca_file) if path)


class SignedCertificate(Certificate):
    """A certificate that this process signs with the authority in the Secret."""

    def __init__(self, manager: Manager) -> None:
        super().__init__(
            manager.configuration.webhook.client_ca_file,
            clock=manager.clock,
            metrics=manager.metrics,
            period=SIGN_SECONDS,
        )
        namespace = manager.configuration.system_namespace
        self._key = Key(namespace, authority.SECRET)
        self._secrets = manager.caches.store(kinds.secret(authority.SECRET, namespace))
        # Whatever a kustomization calls the Service, and only our webhook configurations trust the authority.
        self._hosts = [f"*.{namespace}.svc"]
        self._lifetime = manager.configuration.certificates.certificate_lifetime
        self._signed: KeyPair | None = None
        self._signer: KeyPair | None = None
        self._clients: object = None
        """The state in which the CAs of clients were when they were read last."""
        self._missed = False

    async def refresh(self) -> None:
        """Sign a certificate if there is none, the present one is due, or there is another authority; and read the CAs
        of clients again when they have changed.
        """
        now = self._clock.now()
        if (signer := self._found(now)) is None:
            return
        clients = await asyncio.to_thread(_identity, self._client_ca_file) if self._client_ca_file else None
        signed, done = self._signed, "read the CAs of clients again"
        if signed is None or signer != self._signer or not signed.is_fresh(now):
            signed = await asyncio.to_thread(certs.issue, signer, self._hosts, now, self._lifetime)
            done = "signed a certificate"
        elif clients == self._clients:
            return
        self._signer, self._signed, self._clients = signer, signed, clients
        try:
            context = await asyncio.to_thread(self._load, signed)
        except (OSError, ValueError) as error:
            extra = {"clientCA": str(self._client_ca_file), "error": _reason(error)}
            _log.error("cannot use the CAs of clients", extra=extra)
            return
        self._serve(context, signed.ends)
        _log.info(done, extra={"hosts": self._hosts, "expires": timestamps.time(signed.ends)})

    def _load(self, signed: KeyPair) -> ssl.SSLContext:
        with certs.file_of(signed) as path:
            return self._loaded(Path(path))

    def _found(self, now: float) -> KeyPair | None:
        """The authority, if there is one that is valid."""
        if not self._secrets.synced.is_set():
            return None
        found = authority.read(self._secrets.get(self._key)).current
        usable = found if found is not None and found.is_valid(now) else None
        if (usable is None) != self._missed:
            self._missed = usable is None
            said = "has no authority that can be used" if self._missed else "has an authority"
            _log.warning(f"the Secret {said}", extra={"object": str(self._key)})
        return usable


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _identity(path: Path) -> object:
    try:
        status = path.stat()
    except OSError as error:
        return error.errno
    return (status.st_mtime_ns, status.st_ino, status.st_size)


def new_context() -> ssl.SSLContext:
    """A context for a server, without a certificate: TLS 1.2 or newer, and HTTP/1.1 alone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # For a loopback URL the API server uses h2 when it is offered, and then every call would fail silently.
    context.set_alpn_protocols(["http/1.1"])
    return context

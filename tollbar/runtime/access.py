"""The address of the API server, the credentials and the connections, as `kubernetes.aio` finds and sets them up.

The library reads kubeconfigs, exec plugins and service accounts, and sets TLS up.  Its HTTP session is used where there
is a proxy, and `tollbar.runtime.exchange` where there is none.

Invariants: credentials and CA certificates are read again every minute, by one task and one thread at a time; an exec
plugin that hangs is killed, and no call waits for it longer than a few seconds; keys and certificates that a kubeconfig
or an exec plugin contains are never written to a disk (on Linux).
Hazards: credentials that cannot be read again stay in use; a CA that was trusted once stays trusted until the process
ends.
"""

import asyncio
import logging
import os
import ssl
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config import ConfigException, kube_config, load_incluster_config, load_kube_config
from kubernetes.aio.config.kube_config import KubeConfigLoader

from tollbar.runtime import ownthread
from tollbar.runtime.clock import Clock
from tollbar.runtime.connector import Connector
from tollbar.runtime.errors import KubeconfigError
from tollbar.runtime.exchange import CONNECT_SECONDS, IDLE_SECONDS, Connections

_log: Final = logging.getLogger(__name__)

_RELOAD_SECONDS: Final = 60.0
_REFUSED_SECONDS: Final = 5.0
"""After how many seconds credentials that the server has refused are read again."""
_WAIT_SECONDS: Final = 5.0
"""For how long calls wait for credentials that are being read again."""
_READ_SECONDS: Final = 30.0
"""How long it may take to read them, exec plugin included."""
_LOGIN_SECONDS: Final = 300.0
"""The same at a terminal, where an exec plugin may ask a person to log in."""
_POOL: Final = 0
"""No limit of connections: `Client` bounds its calls itself."""
_KEPT: Final = 32
"""How many keys and certificates are in memory at once: those that a kubeconfig has, and some that were renewed."""


class _MemoryFiles:
    """Files without a place on any disk (memfd_create(2)), for what OpenSSL reads from files only.

    The library writes keys and certificates to temporary files and deletes them when the process ends, which a process
    that is killed does not do, and which needs a directory that can be written to.
    """

    def __init__(self) -> None:
        self._descriptors: OrderedDict[bytes, int] = OrderedDict()
        self._lock = threading.Lock()

    def path(self, content: str | bytes, _directory: str | None = None, *_: object) -> str:
        """A path by which this process reads the content, while it is among those that were asked for last."""
        data = content.encode() if isinstance(content, str) else content
        with self._lock:
            if data not in self._descriptors:
                self._descriptors[data] = self._write(data)
            self._descriptors.move_to_end(data)
            while len(self._descriptors) > _KEPT:
                os.close(self._descriptors.popitem(last=False)[1])
            return f"/proc/self/fd/{self._descriptors[data]}"

    @staticmethod
    def _write(data: bytes) -> int:
        descriptor = os.memfd_create("tollbar")
        os.pwrite(descriptor, data, 0)
        return descriptor


if hasattr(os, "memfd_create"):
    kube_config._create_temp_file_with_content = _MemoryFiles().path


class Access:
    """The library's configuration and session; reads the credentials again every minute.

    This covers everything that may change on disk or expire: the projected service account token, token files, exec
    plugins and identity providers (whose own expiry the library's loader honours), client certificates, and the CA
    certificates of the cluster.  An exec plugin whose credentials the server has refused is run again before they
    expire, once for all calls that were sent with them, as by client-go.
    """

    def __init__(self, rest: "_Rest", loader: KubeConfigLoader | None, modified: dict[str, int], clock: Clock) -> None:
        self.context, self.cluster, self.namespace = _names(loader)
        self._rest = rest
        self._configuration: Configuration = rest.configuration
        self._loader = loader
        self._modified = modified
        self._clock = clock
        self._read_at = clock.monotonic()
        self._reload_at = self._read_at + _RELOAD_SECONDS
        self._reading: asyncio.Task[None] | None = None
        self._wait_until = 0.0
        self._is_slow = False
        """Whether to read them took longer last time than calls wait for it."""
        self._is_refused = False
        """Whether the server has refused those in use."""
        self.problem = ""
        """Why the credentials could not be read again; empty while they can."""
        self.host: str = rest.configuration.host.rstrip("/")
        self.connections = _connections(rest)
        """For calls and watches; None where there is a proxy, which only the session knows how to use."""
        self.options: dict[str, Any] = {}
        if rest.configuration.tls_server_name:
            self.options["server_hostname"] = rest.configuration.tls_server_name
        if rest.configuration.proxy:
            self.options["proxy"] = rest.configuration.proxy

    @classmethod
    async def load(cls, kubeconfig: str | None, context: str | None, clock: Clock) -> "Access":
        """Raises KubeconfigError for every error of the library."""
        configuration = Configuration(
            connection_pool_maxsize=_POOL,
            client_session_kwargs={
                "trust_env": False,  # looking for a proxy at every request costs more than the request
                "read_bufsize": 2**21,
                "timeout": aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
            },
        )
        try:
            paths = await asyncio.to_thread(_kubeconfig_paths, kubeconfig)
            loader = await ownthread.run(partial(_load, configuration, paths, context), _deadline())
            _check_address(configuration.host)
            rest = await asyncio.to_thread(_Rest, configuration)
            return cls(rest, loader, await asyncio.to_thread(_modified, configuration), clock)
        except KubeconfigError:
            raise
        except (TypeError, AttributeError) as error:  # of the loader, which expects maps and lists
            raise KubeconfigError(f"cannot use the credentials: {kubeconfig or 'the file'} is no kubeconfig") from error
        except Exception as error:  # the loader's errors have no common base
            raise KubeconfigError(f"cannot use the credentials: {' '.join(str(error).split())}") from error

    def session(self) -> aiohttp.ClientSession:
        return self._rest.session()

    def headers(self) -> dict[str, str]:
        token = self._configuration.api_key.get("BearerToken")
        return {"Authorization": token} if token else {}

    def refused(self, sent: float) -> None:
        """The server has refused the credentials of a call that was sent at this time on the clock.

        They are read again soon, unless that was done since, or is being done.  When that fails, calls wait for the
        next attempt.
        """
        if sent < self._read_at:
            return
        self._is_refused = True
        if self._reading is None:
            self._reload_at = min(self._reload_at, self._clock.monotonic() + _REFUSED_SECONDS)

    async def refresh(self) -> None:
        """Begin to read the credentials again when that is due, and wait for it, but not for long.

        Calls go on with the credentials in use when they have waited, and do not wait at all when it took longer last
        time, unless the server refuses those in use.
        """
        now = self._clock.monotonic()
        if self._reading is None:
            if now < self._reload_at:
                return
            self._wait_until = now if self._is_slow and not self._is_refused else now + _WAIT_SECONDS
            self._reading = asyncio.create_task(self._read_again())
        if now < self._wait_until:
            await asyncio.wait([self._reading], timeout=self._wait_until - now)

    async def _read_again(self) -> None:
        began, deadline = self._clock.monotonic(), _deadline()
        stuck = asyncio.get_running_loop().call_later(deadline + _WAIT_SECONDS, self._failed, "a file does not answer")
        try:
            self._use(await ownthread.run(self._read, deadline))
            self._read_at, self._is_refused, self.problem = self._clock.monotonic(), False, ""
        except Exception as error:  # the credentials in use may still be valid
            self._failed(str(error))
        finally:
            stuck.cancel()
            now = self._clock.monotonic()
            self._is_slow = now - began > _WAIT_SECONDS
            self._reload_at = now + _RELOAD_SECONDS
            self._reading = None

    def _failed(self, why: str) -> None:
        self.problem = why
        _log.warning("cannot read the credentials again", extra={"error": why})

    async def _read(self) -> dict[str, int]:
        """Fill the configuration anew; when its certificates were modified."""
        if self._loader is None:
            load_incluster_config(self._configuration, try_refresh_token=False)  # type: ignore[no-untyped-call]
        else:
            if self._is_refused:
                vars(self._loader).pop("exec_plugin_expiry", None)  # the loader would not run the plugin before that
            with _plugin_errors():
                await self._loader.load_and_set(self._configuration)  # type: ignore[no-untyped-call]
        return _modified(self._configuration)

    def _use(self, modified: dict[str, int]) -> None:
        """Load the certificates that were modified.  Raises OSError for one that is half written."""
        certificate, authority = self._configuration.cert_file, self._configuration.ssl_ca_cert
        if certificate and modified[certificate] != self._modified.get(certificate):
            self._rest.ssl_context.load_cert_chain(certificate, self._configuration.key_file)
            if self.connections is not None:
                self.connections.renew()
        if authority and modified[authority] != self._modified.get(authority):
            self._rest.ssl_context.load_verify_locations(authority)
        self._modified = modified

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
        if self.connections is not None:
            await self.connections.close()
        await self._rest.close()


class _Rest(RESTClientObject):
    """The library's TLS and pool set-up, with access to the aiohttp session."""

    ssl_context: ssl.SSLContext

    def _create_connector(self) -> aiohttp.TCPConnector:
        """The library drops idle connections after 15 seconds, and a handshake costs the CPU of ten calls."""
        return Connector(limit=self.maxsize, ssl=self.ssl_context, keepalive_timeout=IDLE_SECONDS)

    def session(self) -> aiohttp.ClientSession:
        if self.pool_manager is None:
            self.pool_manager = self._create_pool_manager()
        return self.pool_manager


def _connections(rest: _Rest) -> Connections | None:
    configuration: Configuration = rest.configuration
    if configuration.proxy:
        return None
    server = urlsplit(configuration.host)
    context = rest.ssl_context if server.scheme == "https" else None
    port = server.port or (80 if context is None else 443)
    return Connections(server.hostname or "", port, context, configuration.tls_server_name)


def _modified(configuration: Configuration) -> dict[str, int]:
    """When the client certificate and the CA certificates of the server were modified, in nanoseconds, by path."""
    paths = (configuration.cert_file, configuration.ssl_ca_cert)
    return {path: Path(path).stat().st_mtime_ns for path in paths if path}


def _check_address(server: str) -> None:
    """Raises KubeconfigError for an address that the HTTP library cannot parse."""
    try:
        urlsplit(server).port  # noqa: B018
    except ValueError as error:
        raise KubeconfigError(f"not the URL of a server: {server}: {error}") from error


def _kubeconfig_paths(given: str | None) -> str | None:
    """Which kubeconfig files to read; None for the service account of the Pod we run in."""
    chosen = given or os.environ.get("KUBECONFIG")
    if not chosen and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return None
    paths = chosen or "~/.kube/config"
    found = [path for path in paths.split(os.pathsep) if path and Path(path).expanduser().is_file()]
    if not found:
        raise KubeconfigError(f"no kubeconfig at {paths}")
    with_content = [path for path in found if Path(path).expanduser().read_bytes().strip()]
    if not with_content:
        raise KubeconfigError(f"the kubeconfig at {paths} is empty")
    return os.pathsep.join(with_content)


def _deadline() -> float:
    """Seconds in which the credentials must have been read."""
    return _LOGIN_SECONDS if ownthread.has_terminal() else _READ_SECONDS


async def _load(configuration: Configuration, paths: str | None, context: str | None) -> KubeConfigLoader | None:
    """Fill the configuration, in a thread: the library reads files on its event loop, and waits for exec plugins."""
    if paths is None:
        if context is not None:
            raise KubeconfigError(f'context "{context}" does not exist: there is no kubeconfig')
        load_incluster_config(configuration, try_refresh_token=False)  # type: ignore[no-untyped-call]
        return None
    try:
        with _plugin_errors():
            loader: KubeConfigLoader = await load_kube_config(  # type: ignore[no-untyped-call]
                config_file=paths, context=context, client_configuration=configuration, persist_config=False
            )
            return loader
    except ConfigException as error:
        if context is not None and f"name {context} in" in str(error):
            raise KubeconfigError(f'context "{context}" does not exist in {paths}') from error
        raise


def _names(loader: KubeConfigLoader | None) -> tuple[str, str, str]:
    """The names of the context, of its cluster and namespace; empty for the service account of the Pod we run in."""
    if loader is None:
        return "", "", ""
    used = loader.current_context
    return str(used["name"]), str(used["context"]["cluster"]), str(used["context"].get("namespace") or "")


@contextmanager
def _plugin_errors() -> Iterator[None]:
    """Raises KubeconfigError when an exec plugin fails: the library logs that, and goes on without credentials.

    For a block that one thread runs alone.
    """
    said: list[str] = []
    thread = threading.get_ident()

    def is_other(record: logging.LogRecord) -> bool:
        if record.levelno < logging.ERROR or record.thread != thread:
            return True
        said.append(" ".join(record.getMessage().split()))
        return False

    logger = logging.getLogger(KubeConfigLoader.__module__)
    logger.addFilter(is_other)
    try:
        yield
    finally:
        logger.removeFilter(is_other)
    if said:
        raise KubeconfigError(f"the exec plugin of the kubeconfig gives no credentials: {said[0]}")

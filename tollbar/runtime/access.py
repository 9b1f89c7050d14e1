"""The address of the API server, the credentials and the connections, as `kubernetes.aio` finds and sets them up.

The library reads kubeconfigs, exec plugins and service accounts, and sets TLS up.  Its HTTP session is used where there
is a proxy, and `tollbar.runtime.exchange` where there is none.

Invariants: credentials and CA certificates are read again every minute; keys and certificates that a kubeconfig or an
exec plugin contains are never written to a disk (on Linux).
Hazards: credentials that cannot be read again stay in use; a CA that was trusted once stays trusted until the process
ends.  An exec plugin that hangs holds up the call that has begun to read the credentials again, others go on with what
there is.
"""

import asyncio
import logging
import os
import ssl
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config import ConfigException, kube_config, load_incluster_config, load_kube_config
from kubernetes.aio.config.kube_config import KubeConfigLoader

from tollbar.runtime.clock import Clock
from tollbar.runtime.connector import Connector
from tollbar.runtime.errors import KubeconfigError
from tollbar.runtime.exchange import CONNECT_SECONDS, IDLE_SECONDS, Connections

_log: Final = logging.getLogger(__name__)

_RELOAD_SECONDS: Final = 60.0
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
    """The library's configuration and session; reads the credentials again every minute, in a thread.

    This covers everything that may change on disk or expire: the projected service account token, token files, exec
    plugins and identity providers (whose own expiry the library's loader honours), client certificates, and the CA
    certificates of the cluster.
    """

    def __init__(self, rest: "_Rest", loader: KubeConfigLoader | None, modified: dict[str, int], clock: Clock) -> None:
        self.context, self.cluster, self.namespace = _names(loader)
        self._rest = rest
        self._configuration: Configuration = rest.configuration
        self._loader = loader
        self._modified = modified
        self._clock = clock
        self._reload_at = clock.monotonic() + _RELOAD_SECONDS
        self._is_reloading = False
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
            loader = await _read(configuration, await asyncio.to_thread(_kubeconfig_paths, kubeconfig), context)
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

    def reload_soon(self) -> None:
        """Read the credentials again in five seconds, after the server has refused them."""
        self._reload_at = min(self._reload_at, self._clock.monotonic() + 5.0)

    async def refresh(self) -> None:
        if self._is_reloading or self._clock.monotonic() < self._reload_at:
            return
        self._is_reloading, self._reload_at = True, self._clock.monotonic() + _RELOAD_SECONDS
        try:
            if self._loader is None:
                await _read(self._configuration, None, None)
            else:
                with _plugin_errors():
                    await asyncio.to_thread(asyncio.run, self._loader.load_and_set(self._configuration))  # type: ignore[no-untyped-call]
            self._use(await asyncio.to_thread(_modified, self._configuration))
        except Exception as error:  # the credentials in use may still be valid
            _log.warning("cannot read the credentials again", extra={"error": str(error)})
        finally:
            self._is_reloading = False

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


async def _read(configuration: Configuration, paths: str | None, context: str | None) -> KubeConfigLoader | None:
    """Fill the configuration.  The library reads files on its event loop, so it gets one in a thread."""
    if paths is None:
        if context is not None:
            raise KubeconfigError(f'context "{context}" does not exist: there is no kubeconfig')
        await asyncio.to_thread(load_incluster_config, configuration, try_refresh_token=False)
        return None
    reading = load_kube_config(  # type: ignore[no-untyped-call]
        config_file=paths, context=context, client_configuration=configuration, persist_config=False
    )
    try:
        with _plugin_errors():
            return await asyncio.to_thread(asyncio.run, reading)
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
    """Raises KubeconfigError when an exec plugin fails: the library logs that, and goes on without credentials."""
    said: list[str] = []

    def is_other(record: logging.LogRecord) -> bool:
        if record.levelno < logging.ERROR:
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

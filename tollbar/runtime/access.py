"""The address of the API server, the credentials and the HTTP session, as `kubernetes.aio` finds and builds them.

The library reads kubeconfigs, exec plugins and service accounts, and sets TLS up.

Invariants: credentials and CA certificates are read again every minute; there is one session, with keep-alive.
Hazards: credentials that cannot be read again stay in use; a CA that was trusted once stays trusted until the process
ends.
"""

import asyncio
import logging
import os
import ssl
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import aiohttp
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config import load_incluster_config, load_kube_config
from kubernetes.aio.config.kube_config import KubeConfigLoader

from tollbar.runtime.clock import Clock
from tollbar.runtime.errors import KubeconfigError

_log: Final = logging.getLogger(__name__)

_RELOAD_SECONDS: Final = 60.0
_IDLE_SECONDS: Final = 75.0
"""How long an idle connection is kept: the API server closes it after 90."""
_POOL: Final = 256


class Access:
    """The library's configuration and session; reads the credentials again every minute, in a thread.

    This covers everything that may change on disk or expire: the projected service account token, token files, exec
    plugins and identity providers (whose own expiry the library's loader honours), client certificates, and the CA
    certificates of the cluster.
    """

    def __init__(self, rest: "_Rest", loader: KubeConfigLoader | None, files: "_Files", clock: Clock) -> None:
        self._rest = rest
        self._configuration: Configuration = rest.configuration
        self._loader = loader
        self._files = files
        self._clock = clock
        self._reload_at = clock.monotonic() + _RELOAD_SECONDS
        self._lock = asyncio.Lock()
        self.host: str = rest.configuration.host.rstrip("/")
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
                "timeout": aiohttp.ClientTimeout(total=None, sock_connect=10.0),
            },
        )
        try:
            loader = await _read(configuration, await asyncio.to_thread(_kubeconfig_paths, kubeconfig), context)
            _check_address(configuration.host)
            rest = await asyncio.to_thread(_Rest, configuration)
            return cls(rest, loader, await asyncio.to_thread(_files, configuration), clock)
        except KubeconfigError:
            raise
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
        if self._clock.monotonic() < self._reload_at:
            return
        async with self._lock:
            if self._clock.monotonic() < self._reload_at:
                return
            self._reload_at = self._clock.monotonic() + _RELOAD_SECONDS
            try:
                if self._loader is None:
                    await _read(self._configuration, None, None)
                else:
                    await asyncio.to_thread(asyncio.run, self._loader.load_and_set(self._configuration))  # type: ignore[no-untyped-call]
                files = await asyncio.to_thread(_files, self._configuration)
            except Exception as error:  # the credentials in use may still be valid
                _log.warning("cannot read the credentials again", extra={"error": str(error)})
                return
            if files.certificate is not None and files.certificate != self._files.certificate:
                self._rest.ssl_context.load_cert_chain(files.certificate.path, self._configuration.key_file)
            if files.authority is not None and files.authority != self._files.authority:
                self._rest.ssl_context.load_verify_locations(files.authority.path)
            self._files = files

    async def close(self) -> None:
        await self._rest.close()


class _Rest(RESTClientObject):
    """The library's TLS and pool set-up, with access to the aiohttp session."""

    ssl_context: ssl.SSLContext

    def _create_connector(self) -> aiohttp.TCPConnector:
        """The library drops idle connections after 15 seconds, and a handshake costs the CPU of ten calls."""
        return aiohttp.TCPConnector(limit=self.maxsize, ssl=self.ssl_context, keepalive_timeout=_IDLE_SECONDS)

    def session(self) -> aiohttp.ClientSession:
        if self.pool_manager is None:
            self.pool_manager = self._create_pool_manager()
        return self.pool_manager


class _File(NamedTuple):
    """`changed` is the time of modification in nanoseconds."""

    path: str
    changed: int


class _Files(NamedTuple):
    """The files that the TLS session was made from: the client certificate, and the CA certificates of the server."""

    certificate: _File | None
    authority: _File | None


def _files(configuration: Configuration) -> _Files:
    return _Files(_file(configuration.cert_file), _file(configuration.ssl_ca_cert))


def _file(path: str | None) -> _File | None:
    return _File(path, Path(path).stat().st_mtime_ns) if path else None


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
    if not any(Path(path).expanduser().is_file() for path in paths.split(os.pathsep) if path):
        raise KubeconfigError(f"no kubeconfig at {paths}")
    return paths


async def _read(configuration: Configuration, paths: str | None, context: str | None) -> KubeConfigLoader | None:
    """Fill the configuration.  The library reads files on its event loop, so it gets one in a thread."""
    if paths is None:
        await asyncio.to_thread(load_incluster_config, configuration, try_refresh_token=False)
        return None
    reading = load_kube_config(  # type: ignore[no-untyped-call]
        config_file=paths, context=context, client_configuration=configuration, persist_config=False
    )
    return await asyncio.to_thread(asyncio.run, reading)

"""A fake kubelet on an event loop and thread of its own, for callers that are synchronous.

Every method waits for its effect.
"""

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from tollbar.devplane.kubelet import FakeKubelet
from tollbar.devplane.nodes import NodeSpec
from tollbar.model.objects import Key, Object
from tollbar.runtime.client import Client
from tollbar.runtime.metrics import Metrics

_T = TypeVar("_T")
_CALL_SECONDS: Final = 60.0


class BackgroundKubelet:
    """A context manager with the methods of FakeKubelet, made synchronous."""

    def __init__(self, kubeconfig: Path, *, heartbeat: float = 10.0) -> None:
        self._kubeconfig = kubeconfig
        self._heartbeat = heartbeat
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fake-kubelet", daemon=True)
        self._client: Client | None = None
        self._kubelet: FakeKubelet | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._client = self._wait(
                Client.connect(kubeconfig=str(self._kubeconfig), metrics=Metrics(), user_agent="tollbar-fake-kubelet")
            )
            self._kubelet = FakeKubelet(self._client, heartbeat=self._heartbeat)
            self._wait(self._kubelet.__aenter__())
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def add_node(self, wanted: NodeSpec) -> None:
        """See FakeKubelet.add_node."""
        self._wait(self._running.add_node(wanted))

    def remove_node(self, name: str) -> None:
        """See FakeKubelet.remove_node."""
        self._wait(self._running.remove_node(name))

    def publish_devices(self, node: str, driver: str, devices: Sequence[Object]) -> None:
        """See FakeKubelet.publish_devices."""
        self._wait(self._running.publish_devices(node, driver, devices))

    def finish(self, pod: Key) -> None:
        """See FakeKubelet.finish."""
        self._wait(self._running.finish(pod))

    @property
    def _running(self) -> FakeKubelet:
        if self._kubelet is None:
            raise RuntimeError("the kubelet is not running: use it as a context manager")
        return self._kubelet

    def _wait(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_CALL_SECONDS)

    def _close(self) -> None:
        try:
            if self._kubelet is not None:
                self._wait(self._kubelet.stop())
            if self._client is not None:
                self._wait(self._client.close())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

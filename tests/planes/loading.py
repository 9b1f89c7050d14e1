"""Load on a real plane: Pods that are created at a steady rate, and a Service that spreads connections over replicas.

Each runs beside a test that blocks.
"""

import asyncio
import itertools
import os
import random
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from processes.beside import Beside
from processes.stack import eventually

from planes.objects import provenance
from tollbar import wellknown
from tollbar.model.objects import Object, labels_of
from tollbar.model.resources import PODS
from tollbar.runtime.client import Client
from tollbar.runtime.errors import ApiError, ServerError, Unreachable
from tollbar.runtime.metrics import Metrics

RATE: Final = 50
VOLUME: Final = int(os.environ.get("TOLLBAR_DRILLS", "1"))
AT_ONCE: Final = 200
"""Creations under way at one time.  kube-apiserver keeps users to about as many, but no administrator, which this is:
what it has not answered in an outage would come to the webhook at once, in more connections than that accepts."""
_PIECE: Final = 64 * 1024


class Creations(Beside):
    """Creates what `make` returns for 0, 1, 2 and so on, `RATE` a second, while fewer than `AT_ONCE` are under way."""

    def __init__(self, kubeconfig: Path, make: Callable[[int], Object]) -> None:
        super().__init__()
        self._kubeconfig = kubeconfig
        self._make = make
        self._under_way: set[asyncio.Task[None]] = set()
        self.created = self.undecided = self.unanswered = 0
        """`undecided` are those of the created that came back with neither a toleration nor the gate, `unanswered`
        those for which the API server was away or had no etcd."""
        self.refused: list[str] = []

    def go_on(self, seconds: int = 1) -> None:
        """Wait until as many more have been created as are in so many seconds, or in `VOLUME` times as many."""
        more = RATE * seconds * VOLUME
        enough = self.created + more
        eventually(lambda: self.created >= enough, seconds=60 + more / RATE, what=f"{more} more are created")

    def until_all_are_decided(self) -> None:
        """Wait until one second's creations are decided, all of them."""

        def missed() -> int:
            before = self.undecided
            self.go_on()
            return self.undecided - before

        eventually(lambda: missed() == 0, what="all are decided")

    def __str__(self) -> str:
        return f"{self.created} created, {self.undecided} of them undecided, {self.unanswered} unanswered"

    async def _begin(self) -> None:
        self._client = await Client.connect(
            kubeconfig=str(self._kubeconfig), in_flight=1000, metrics=Metrics(), user_agent="tollbar-load"
        )
        self._pacing = asyncio.create_task(self._pace())

    async def _end(self) -> None:
        self._pacing.cancel()
        await asyncio.gather(self._pacing, *self._under_way, return_exceptions=True)
        await self._client.close()

    async def _pace(self) -> None:
        began = self._loop.time()
        for number in itertools.count():
            await asyncio.sleep(began + number / RATE - self._loop.time())
            if len(self._under_way) >= AT_ONCE:
                continue
            task = asyncio.create_task(self._create(self._make(number)))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def _create(self, pod: Object) -> None:
        try:
            stored = await self._client.create(PODS, pod)
        except (Unreachable, ServerError):
            self.unanswered += 1
        except ApiError as error:
            self.refused.append(str(error))
        else:
            self.undecided += not (wellknown.LABEL_GATE in labels_of(stored) or provenance(stored))
            self.created += 1


class Service(Beside):
    """Passes connections to replicas here as kube-proxy does: a new one to any endpoint, and it stays there."""

    def __init__(self) -> None:
        super().__init__()
        self.port = 0
        self._endpoints: dict[str, int] = {}
        self._gone: set[int] = set()
        self._used: dict[int, float] = {}
        """By the port of a replica, when something was passed to it or from it last, by the loop's clock."""
        self._open: set[asyncio.Task[Any]] = set()

    def add(self, name: str, port: int) -> None:
        self._endpoints[name] = port

    def remove(self, name: str) -> None:
        """New connections go to the others."""
        del self._endpoints[name]

    def lose_one(self) -> str:
        """The Node of the replica that was used last is gone: nothing arrives there, and nothing comes back.

        Others may have as many connections, but none that the API server uses.
        """
        name = max(self._endpoints, key=lambda each: self._used.get(self._endpoints[each], 0.0))
        self._gone.add(self._endpoints[name])
        return name

    async def _begin(self) -> None:
        self._server = await asyncio.start_server(self._pass, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _end(self) -> None:
        self._server.close()
        for task in tuple(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._endpoints:
            writer.close()  # kube-proxy refuses connections to such a Service
            return
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        port = random.choice(list(self._endpoints.values()))
        try:
            if port in self._gone:
                await reader.read(-1)  # until the client gives up
                return
            from_replica, to_replica = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(
                self._pump(port, reader, to_replica), self._pump(port, from_replica, writer), return_exceptions=True
            )
        except (OSError, asyncio.CancelledError):
            pass  # the replica listens no more, or all is over
        finally:
            self._open.remove(task)
            writer.close()

    async def _pump(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            while piece := await reader.read(_PIECE):
                if port not in self._gone:
                    self._used[port] = self._loop.time()
                    writer.write(piece)
                    await writer.drain()

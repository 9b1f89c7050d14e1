"""An answer of the API server that is read while it comes, as that of a watch is.

The connection is made for one request, and ends with its answer.

Invariants: what has come is returned before the error that ended the connection; while much of it is unread, no more is
taken from the server.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, Self

from tollbar.runtime.exchange import CONNECT_SECONDS, INTERIM, Answer, Connection, Connections, DisconnectedError

_MOST_UNREAD: Final = 512 * 1024
"""Bytes."""
_MORE: Final = Answer(0, None, b"")


class Stream(Connection):
    """`answer` has the status, but no body; `next` returns the body in parts, each of which comes within `seconds`."""

    answer: Answer

    def __init__(
        self, connections: Connections, seconds: float, forget: Callable[[Connection], None], buffer: memoryview
    ) -> None:
        super().__init__(forget, buffer)
        self._connections = connections
        self._seconds = seconds
        self._unread = 0
        self._is_complete = False
        self._failure = ""

    @classmethod
    async def open(cls, connections: Connections, request: bytes, seconds: float) -> Self:
        """Send the request, and wait for the head of its answer.  Close the stream.

        Raises NotConnectedError, DisconnectedError, and TimeoutError if the head does not come within so many seconds.
        """
        made = partial(cls, connections, seconds)
        stream = await connections.connect(asyncio.get_running_loop().time() + CONNECT_SECONDS, made)
        try:
            stream.answer = await stream.exchange(request, stream._deadline())
        except BaseException:
            stream.end()
            raise
        return stream

    async def next(self) -> bytes:
        """What has come since the last time, or comes next; empty at the end.  Errors are those of `open`."""
        while not self._body and not self._is_complete:
            if self._failure:
                raise DisconnectedError(self._failure)
            await self.answered(self._deadline())
        parts, self._body = self._body, []
        if self._unread > _MOST_UNREAD and self._transport is not None:
            self._transport.resume_reading()
        self._unread = 0
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        self.end()

    @property
    def is_asked(self) -> bool:
        return not self._is_complete

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        if self._status not in INTERIM:
            self._tell(self._answer(b""))

    def on_body(self, part: bytes) -> None:
        super().on_body(part)
        self._tell()
        was_unread = self._unread
        self._unread += len(part)
        if was_unread <= _MOST_UNREAD < self._unread and self._transport is not None:
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        if self._status not in INTERIM:
            self._is_complete = True
            self._tell()

    def _tell(self, answer: Answer = _MORE) -> None:
        """Wake who waits for the server."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(answer)

    def _deadline(self) -> float:
        deadline = asyncio.get_running_loop().time() + self._seconds
        self._connections.look_by(deadline)
        return deadline

    def _fail(self, why: str) -> None:
        self._failure = why
        super()._fail(why)

"""Connections of an aiohttp session that are all gone once the session is closed."""

import asyncio
from typing import Any
from weakref import WeakSet

import aiohttp
from aiohttp.connector import Connection


class Connector(aiohttp.TCPConnector):
    """When a call or a stream over TLS is given up, aiohttp's own one forgets the connection, which stays open until
    the server has ended TLS, or for 30 seconds.
    """

    def __init__(self, **options: Any) -> None:
        """With the options of aiohttp.TCPConnector."""
        super().__init__(**options)
        self._connected: WeakSet[asyncio.Transport] = WeakSet()

    async def connect(self, *args: Any, **options: Any) -> Connection:
        """A connection for a request: one that is idle, or a new one."""
        connection = await super().connect(*args, **options)
        if connection.transport is not None:
            self._connected.add(connection.transport)
        return connection

    async def close(self, *, abort_ssl: bool = False) -> None:
        """Close all connections, those that were given up too."""
        for transport in self._connected:
            transport.abort()
        await super().close(abort_ssl=abort_ssl)

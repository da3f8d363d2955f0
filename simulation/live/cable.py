"""A port in front of a door, which can be shut, cut or blocked while its host goes on."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Cable:
    """A port that leads to another."""

    def __init__(self, far: str) -> None:
        self.door = ""
        self.connections = 0
        """All connections that were ever made."""
        self._far_host, _, port = far.rpartition(":")
        self._far_port = int(port)
        self._through = asyncio.Event()
        self._through.set()
        self._is_shut = False
        self._open: set[asyncio.StreamWriter] = set()

    def hold(self) -> None:
        """Let nothing through to the client, which reads nothing further as it seems."""
        self._through.clear()

    def let(self) -> None:
        self._through.set()

    def cut(self) -> None:
        """Break all connections; new ones can be made."""
        for one in self._open:
            one.transport.abort()
        self._open.clear()

    def shut(self) -> None:
        """Break all connections, and let none be made until `open`."""
        self._is_shut = True
        self.cut()

    def open(self) -> None:
        self._is_shut = False

    async def connected(self, reader: asyncio.StreamReader, near: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self._is_shut:
            near.transport.abort()
            return
        plug = socket.socket()
        plug.setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14
        )  # Else it holds megabytes.
        plug.setblocking(False)
        loop = asyncio.get_running_loop()
        try:
            await loop.sock_connect(plug, (self._far_host, self._far_port))
        except OSError:  # Nobody is there at the moment.
            plug.close()
            near.transport.abort()
            return
        back, far = await asyncio.open_connection(sock=plug)
        self._open |= {near, far}
        with suppress(OSError):
            await asyncio.gather(self._carry(reader, far), self._carry(back, near, held=True))
        for one in (near, far):
            one.transport.abort()

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, held: bool = False
    ) -> None:
        while data := await reader.read(1 << 16):
            if held:
                await self._through.wait()
            writer.write(data)
            await writer.drain()
        writer.transport.abort()


@asynccontextmanager
async def cable(far: str, port: int = 0) -> AsyncIterator[Cable]:
    """A cable to the door `far`, which begins at `port`; 0: at any that is free."""
    made = Cable(far)
    server = await asyncio.start_server(made.connected, "127.0.0.1", port)
    made.door = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        server.close()
        made.let()
        made.cut()

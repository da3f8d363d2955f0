"""A proxy, in a process of its own, that keeps each HTTP request to a server waiting."""

import asyncio
import multiprocessing
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import Synchronized
from types import TracebackType
from typing import Self

METHODS = (b"GET ", b"PUT ", b"POST ", b"HEAD ", b"DELETE ")


class SlowRequests:
    """A context manager; the proxy ends with it."""

    def __init__(self, port: int, delay_s: float) -> None:
        """Before the server at `port` on loopback; each request is sent on after `delay_s`."""
        context = multiprocessing.get_context("spawn")
        self._count: Synchronized[int] = context.Value("q", 0)
        self._told, there = context.Pipe(duplex=False)
        arguments = (port, delay_s, self._count, there)
        self._process = context.Process(target=_serve, args=arguments, daemon=True)

    def __enter__(self) -> Self:
        self._process.start()
        self.port: int = self._told.recv()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.join()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def count(self) -> int:
        """The requests so far."""
        return self._count.value


def _serve(port: int, delay_s: float, count: "Synchronized[int]", told: Connection) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to = await asyncio.open_connection("127.0.0.1", port)

        async def send() -> None:
            while data := await reader.read(1 << 16):
                # A client sends a request at a time on a connection, and its first line whole.
                if data.startswith(METHODS):
                    with count.get_lock():
                        count.value += 1
                    await asyncio.sleep(delay_s)
                to.write(data)

        async def answer() -> None:
            while data := await there.read(1 << 16):
                writer.write(data)

        try:
            both = [asyncio.ensure_future(send()), asyncio.ensure_future(answer())]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            writer.close()
            to.close()

    async def serve() -> None:
        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        told.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())

"""How tasks write: each directly into the store, or all through its one writing process.

A SQLite file has one writing process: here the one that started the job. It locks the file
before Spark starts, so an import beside a running service is refused at once. Tasks send it
their batches through a socket, in a folder that only this user can enter.
"""

from __future__ import annotations

import asyncio
import socket
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from struct import Struct
from typing import Any

import msgpack
from typing_extensions import override

from tierledger.events import errors
from tierledger.events.errors import OutcomeUnknown, RemoteStorageError, StorageUnavailable
from tierledger.storage.backend import (
    AtomicConflict,
    ConflictReason,
    Create,
    MetadataStorageBackend,
)
from tierledger.storage.connector import load_connector

_LENGTH = Struct(">I")

GET, CREATE = 0, 1
"""Kinds of a task's requests to the writing process."""

OK, CONFLICT, FAILED = 0, 1, 2
"""Kinds of its answers."""


class Slots(ABC):
    """The slots of logs, as far as an import needs them."""

    @abstractmethod
    async def get_each(self, keys: Sequence[str]) -> list[bytes | None]:
        """The values under `keys`, in their order; none for a key that does not exist."""

    @abstractmethod
    async def create_all(self, items: Sequence[tuple[str, bytes]]) -> None:
        """Create all of `items`, durably, or none.

        Raises:
            AtomicConflict: A key exists already; nothing was created.
            OutcomeUnknown: In doubt: all were created, or none.
            StorageUnavailable: Nothing was created.
        """


class StoreSlots(Slots):
    """Slots in a store that this process may write."""

    def __init__(self, backend: MetadataStorageBackend) -> None:
        self._backend = backend

    @override
    async def get_each(self, keys: Sequence[str]) -> list[bytes | None]:
        return await self._backend.get_each(keys)

    @override
    async def create_all(self, items: Sequence[tuple[str, bytes]]) -> None:
        await self._backend.execute_atomically([Create(*item) for item in items])


class SocketSlots(Slots):
    """Slots in a store that another process of this machine writes."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    @override
    async def get_each(self, keys: Sequence[str]) -> list[bytes | None]:
        values: list[bytes | None] = self._ask([GET, list(keys)])
        return values

    @override
    async def create_all(self, items: Sequence[tuple[str, bytes]]) -> None:
        self._ask([CREATE, [list(item) for item in items]])

    def _ask(self, question: list[object]) -> Any:  # noqa: ANN401 - What the writer packed.
        # Nothing else runs on this thread's loop, so the call may block it.
        try:
            packed = msgpack.packb(question)
            self._connection.sendall(_LENGTH.pack(len(packed)) + packed)
            (length,) = _LENGTH.unpack(self._receive(_LENGTH.size))
            kind, *answer = msgpack.unpackb(self._receive(length))
        except OSError as error:
            raise OutcomeUnknown(f"the writing process is gone: {error}") from error
        if kind == CONFLICT:
            raise AtomicConflict(answer[0], ConflictReason(answer[1]))
        if kind == FAILED:
            raise getattr(errors, answer[0], RemoteStorageError)(answer[1])
        return answer[0]

    def _receive(self, size: int) -> bytes:
        parts, left = list[bytes](), size
        while left:
            part = self._connection.recv(left)
            if not part:
                raise ConnectionError("it closed the connection")
            parts.append(part)
            left -= len(part)
        return b"".join(parts)


class WriterServer:
    """Executes the requests of tasks in the writing process."""

    def __init__(self, backend: MetadataStorageBackend) -> None:
        self._slots = StoreSlots(backend)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one task's requests until it closes the connection."""
        try:
            while True:
                (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
                question = msgpack.unpackb(await reader.readexactly(length))
                packed = msgpack.packb(await self._answer(*question))
                writer.write(_LENGTH.pack(len(packed)) + packed)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # The task is done, or was killed.
        finally:
            writer.close()

    async def _answer(self, asked: int, given: list[Any]) -> list[object]:
        try:
            if asked == GET:
                return [OK, await self._slots.get_each(given)]
            await self._slots.create_all([(key, value) for key, value in given])
        except AtomicConflict as conflict:
            return [CONFLICT, conflict.key, str(conflict.why)]
        except RemoteStorageError as error:
            return [FAILED, type(error).__name__, str(error)]
        return [OK, None]


@contextmanager
def writing(config: Mapping[str, object]) -> Iterator[str | None]:
    """Lock the store for writing while the block lasts; a missing store is created.

    Yields the path of the socket through which tasks write; none if tasks write directly.

    Raises:
        StoreRefused: Another process writes the store, it is not a store of tierledger, or it
            cannot be written.
        StorageUnavailable: The medium failed.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="import-writer", daemon=True)
    thread.start()

    def run(coming: Any) -> Any:  # noqa: ANN401 - Whatever `coming` returns.
        return asyncio.run_coroutine_threadsafe(coming, loop).result()

    try:
        connector = load_connector(config)
        backend = run(connector.backend(read_only=False))
        try:
            if not connector.has_one_writer:
                yield None
                return
            # The folder is made by mkdtemp, so no other user may enter it.
            with tempfile.TemporaryDirectory(prefix="tierledger-import-") as folder:
                path = str(Path(folder, "writer"))
                server = run(asyncio.start_unix_server(WriterServer(backend).serve, path))
                try:
                    yield path
                finally:
                    loop.call_soon_threadsafe(server.close)
        finally:
            run(backend.close())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@asynccontextmanager
async def slots(config: Mapping[str, object], path: str | None) -> AsyncIterator[Slots]:
    """The slots that a task writes: through the socket at `path`, or directly if it is none.

    Raises:
        StorageUnavailable: The writing process is not on this machine.
    """
    if path is None:
        backend = await load_connector(config).backend(read_only=False)
        try:
            yield StoreSlots(backend)
        finally:
            await backend.close()
        return
    connection = socket.socket(socket.AF_UNIX)
    with connection:
        try:
            connection.connect(path)
        except OSError as error:
            raise StorageUnavailable(
                f"a store with one writer is written on its own machine, and the process that "
                f"does is not here: {error}"
            ) from error
        yield SocketSlots(connection)

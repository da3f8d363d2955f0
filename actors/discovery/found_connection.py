"""A client's connection to the service that runs on a store, by the doors in its record.

The record is a hint. It is read again whenever no host that it named answers. A door is used
only once the process behind it has given the name in the record: by then the port may belong to
another service, of the same cluster on another store.
"""

from __future__ import annotations

import asyncio
import contextlib
import json

from typing_extensions import override

from tierledger.actors.discovery.service_record import (
    HostDoor,
    ServiceRecord,
    read_record,
    why_none_runs,
)
from tierledger.actors.door.client.connection import DoorConnection, broker_in, greeting_of
from tierledger.actors.door.client.streams import NO_SECURITY, Stream, Streams, ping_of
from tierledger.actors.door.security.settings import CA_KEY, CERTIFICATE_KEY, ClientSecurity
from tierledger.actors.door.wire.failures import error_of
from tierledger.actors.host_settings import ServiceSettings
from tierledger.events.errors import (
    InvalidArgument,
    NotReady,
    OutcomeUnknown,
    RemoteStorageError,
)

LOOK_PAUSE_S = 0.1
"""Pause after a read of the record before it is read again."""

PROOF_S = 3.0
"""How long a host may take to give the name of its process."""


async def connect(settings: ServiceSettings) -> FoundConnection:
    """A connection to the service that runs on the store that `settings` name.

    Raises:
        NotReady: None runs, or one of a release that does not record where its hosts listen.
        NotAuthorized: A host refuses this client, or the client does not trust the host.
        InvalidArgument: The settings do not fit the service's doors.
        NoSuchStore: There is no such store.
    """
    connection = FoundConnection(settings)
    try:
        await connection.any()
    except NotReady:
        # While the only host of a live service is replaced, no door answers. Calls can wait.
        record = connection.record
        if (
            record is None
            or not record.doors
            or not await asyncio.to_thread(lambda: record.is_live)
        ):
            await connection.close()
            raise
    except BaseException:
        await connection.close()
        raise
    return connection


class FoundConnection(DoorConnection):
    """Streams to the hosts of the service that the store's record names."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._greeting = greeting_of(settings.cluster_id, broker_in(settings))
        super().__init__((), self._greeting)
        self.record: ServiceRecord | None = None
        """The record as it was read last."""
        self._why_none = ""
        """If there was none: why."""
        self._settings = settings
        self._security = NO_SECURITY
        self._recorded: dict[str, HostDoor] = {}
        """The record's doors, by host address."""
        self._proven: dict[str, Stream] = {}
        """By door: streams to a process that gave its name; calls go only over these."""
        self._proving: dict[str, asyncio.Lock] = {}
        self._looking: asyncio.Task[None] | None = None
        self._looked = float("-inf")

    @override
    def at_hand(self, name: str) -> Stream | None:
        """See `DoorConnection.at_hand`."""
        recorded = self._recorded.get(name)
        return None if recorded is None else self._proven_stream(recorded)

    @override
    async def to(self, name: str) -> Stream:
        """See `DoorConnection.to`."""
        recorded = self._recorded.get(name)
        if recorded is None:
            with contextlib.suppress(RemoteStorageError):  # Another host passes the call on.
                await self._look()
            recorded = self._recorded.get(name)
        if recorded is not None:
            try:
                return await self._stream(recorded)
            except NotReady:
                self._recorded.pop(name, None)
        return await self.any()

    @override
    async def any(self) -> Stream:
        """A stream to any host.

        Raises:
            NotReady: No service runs on the store, or none of its doors can be opened.
            RemoteStorageError: A host refused this client, or is not trusted, or the store
                failed.
        """
        for stream in self._proven.values():
            if stream.ended is None:
                return stream
        await self._look()
        error: RemoteStorageError = self._missing()
        for recorded in list(self._recorded.values()):
            try:
                return await self._stream(recorded)
            except RemoteStorageError as closed:
                if isinstance(error, NotReady):  # A refusal tells the caller more.
                    error = self._missing(closed) if isinstance(closed, NotReady) else closed
        raise error

    def _missing(self, why: RemoteStorageError | None = None) -> NotReady:
        cluster, record = self._settings.cluster_id, self.record
        if record is None:
            return NotReady(self._why_none)
        if record.doors is None:
            return NotReady(
                "the service on this store is of a release that does not say where its hosts "
                "listen; start it again with: tierledger serve"
            )
        return NotReady(
            f"no service runs for cluster {cluster!r} on this store, or its hosts are being "
            f"replaced: {why or 'none of them listens'}; start one with: tierledger serve"
        )

    # The record.

    async def _look(self) -> None:
        """Read the record unless that was done just now; concurrent callers share a read."""
        loop = asyncio.get_running_loop()
        if self._looking is None:
            if loop.time() - self._looked < LOOK_PAUSE_S:
                return
            self._looking = loop.create_task(self._read())
            self._looking.add_done_callback(self._was_read)
        await asyncio.shield(self._looking)

    async def _read(self) -> None:
        record = await read_record(self._settings)
        if record is None:
            self._why_none = await why_none_runs(self._settings)
        doors = [] if record is None else record.host_doors
        if record is not None:
            await self._prepare(record)
        self.record = record
        self._recorded = {one.address: one for one in doors}
        known = {one.door for one in doors}
        self._proven = {
            door: stream
            for door, stream in self._proven.items()
            if door in known or stream.ended is None
        }

    def _was_read(self, task: asyncio.Task[None]) -> None:
        self._looking = None
        self._looked = asyncio.get_running_loop().time()
        if not task.cancelled():
            task.exception()  # Marked as seen: no caller may be waiting for it any more.

    async def _prepare(self, record: ServiceRecord) -> None:
        """Use TLS or not as the record says; streams of the other kind are closed."""
        config = self._settings.storage
        if not record.speaks_tls and (given := {CA_KEY, CERTIFICATE_KEY} & set(config)):
            raise InvalidArgument(
                f"expected no {min(given)}: the service on this store speaks no TLS"
            )
        security = ClientSecurity.of(config, tls=record.speaks_tls)
        if security != self._security:
            former, self._streams = self._streams, Streams(self._greeting, security)
            self._security = security
            self._proven.clear()
            await former.close()

    # Streams to proven processes.

    async def _stream(self, recorded: HostDoor) -> Stream:
        """A stream to the recorded process.

        Raises:
            NotReady: The process is not there.
            RemoteStorageError: It refuses this client, or is not trusted.
        """
        proven = self._proven_stream(recorded)
        if proven is not None:
            return proven
        async with self._proving.setdefault(recorded.door, asyncio.Lock()):
            stream = await self._streams.to(recorded.door, recorded.address)
            if self._proven.get(recorded.door) is not stream:
                await _prove(stream, recorded)
                self._proven[recorded.door] = stream
        return stream

    def _proven_stream(self, recorded: HostDoor) -> Stream | None:
        """The stream to the recorded process, if it is open."""
        proven = self._proven.get(recorded.door)
        if proven is None or proven.ended is not None or proven.host != recorded.address:
            return None
        return proven

    @override
    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        await super().close()


async def _prove(stream: Stream, recorded: HostDoor) -> None:
    """Make sure that the process at the other end is the recorded one.

    Raises:
        NotReady: It is another one, or gives no name in time.
        RemoteStorageError: It refused to give its name.
    """
    try:
        async with asyncio.timeout(PROOF_S):
            answer = await stream.ask(ping_of(recorded.address))
    except (TimeoutError, OutcomeUnknown) as error:
        reason = str(error) or f"does not say within {PROOF_S:g} s which process it is"
        raise NotReady(f"{recorded.door}: {reason}") from error
    if answer.WhichOneof("result") == "failure":
        raise error_of(answer.failure)
    if json.loads(answer.status.json).get("process") != recorded.process:
        raise NotReady(f"{recorded.door} is the door of another service by now")

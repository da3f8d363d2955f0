"""A client's connection to a service through its doors: no Ray, no store."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from tierledger.actors.calls import AskedHost, Call, CountsCall, PartitionsCall, Request
from tierledger.actors.coordinator.requests import AskedCoordinator, HostsCall
from tierledger.actors.deadline import Attempt
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.addresses import TLS_SCHEME, doors_in
from tierledger.actors.door.client.streams import NO_SECURITY, Opened, Stream, Streams
from tierledger.actors.door.limits import SOFTWARE, VERSION_MAX, VERSION_MIN
from tierledger.actors.door.security.settings import ClientSecurity
from tierledger.actors.door.trace_context import current_traceparent
from tierledger.actors.door.wire import coordination
from tierledger.actors.door.wire.answers import result_of
from tierledger.actors.door.wire.calls import put_call
from tierledger.actors.door.wire.failures import error_of
from tierledger.events.errors import NotReady, OutcomeUnknown, RemoteStorageError

T = TypeVar("T")

COORDINATOR_MS = 10_000
"""Timeout of a request to the coordinator; a frozen one has a successor by then."""

DOORS_KEPT = 1000
"""Doors learnt from hosts that are kept; the oldest are dropped for new ones."""

STATUS_MS = 10_000
"""Timeout of a request for a host's own counts or partitions."""

_ABOUT_A_HOST: dict[type[Any], pb.StatusQuestion.Of] = {
    CountsCall: pb.StatusQuestion.HOST,
    PartitionsCall: pb.StatusQuestion.PARTITIONS,
}


class ClientSettings(Protocol):
    """A client's settings."""

    @property
    def cluster_id(self) -> str: ...
    @property
    def storage(self) -> Mapping[str, str]: ...


def greeting_of(cluster_id: str, broker_id: int | None = None) -> pb.ClientGreeting:
    """The greeting of a client of this release."""
    return pb.ClientGreeting(
        version_min=VERSION_MIN,
        version_max=VERSION_MAX,
        cluster_id=cluster_id,
        broker_id=broker_id,
        software=SOFTWARE,
    )


def connect_at(
    url: str, opened: Opened | None = None
) -> Callable[[ClientSettings], Awaitable[DoorConnection]]:
    """A manager's `connect`, for the service of the doors in `url`; `opened`: see `Streams`.

    Raises:
        InvalidArgument: `url` is no `tierledger://HOST:PORT,…`, nor one with `tierledgers`.
    """
    doors = doors_in(url)
    learnt: dict[str, str] = {}

    async def connect(settings: ClientSettings) -> DoorConnection:
        security = ClientSecurity.of(settings.storage, tls=url.startswith(TLS_SCHEME))
        greeting = greeting_of(settings.cluster_id, broker_in(settings))
        # Shared with the next connection, as the doors of the URL may be gone by then.
        connection = DoorConnection(doors, greeting, security, opened, learnt)
        try:
            await connection.any()
        except BaseException:
            await connection.close()
            raise
        return connection

    return connect


async def cluster_at(url: str, storage: Mapping[str, str]) -> str:
    """The cluster that the service of the doors in `url` serves.

    Raises:
        InvalidArgument: `url` has no doors, or `storage` does not fit them.
        NotReady: No door can be opened.
        RemoteStorageError: A host refused this client, or is not trusted.
    """
    security = ClientSecurity.of(storage, tls=url.startswith(TLS_SCHEME))
    connection = DoorConnection(doors_in(url), greeting_of(""), security)
    try:
        return (await connection.any()).greeting.cluster_id
    finally:
        await connection.close()


def broker_in(settings: ClientSettings) -> int | None:
    """The broker that a manager was configured for; None for commands."""
    broker_id = settings.storage.get("broker.id")
    return None if broker_id is None else int(broker_id)


class DoorConnection:
    """Streams to the hosts of one service, opened when they are needed."""

    def __init__(
        self,
        doors: Sequence[str],
        greeting: pb.ClientGreeting,
        security: ClientSecurity = NO_SECURITY,
        opened: Opened | None = None,
        learnt: dict[str, str] | None = None,
    ) -> None:
        """`doors`: the doors of one or more hosts of the service.

        `learnt`: doors by host address, as learnt last; this connection adds to it.
        """
        self.coordinator = DoorCoordinator(self)
        self._bootstraps = list(doors)
        self._streams = Streams(greeting, security, opened)
        self._doors = {} if learnt is None else learnt

    def host(self, name: str) -> DoorHost:
        """A handle on the process at an address; a call finds out whether it is gone."""
        return DoorHost(self, name)

    def learn(self, hosts: Sequence[pb.Host]) -> None:
        """Note where hosts listen."""
        for one in hosts:
            if one.door:
                self._doors.pop(one.address, None)  # The newest entry comes last.
                self._doors[one.address] = one.door
        for address in list(self._doors)[:-DOORS_KEPT]:
            del self._doors[address]

    def at_hand(self, name: str) -> Stream | None:
        """The stream to the host at an address, if it is open."""
        door = self._doors.get(name)
        return None if door is None else self._streams.at_hand(door, name)

    async def to(self, name: str) -> Stream:
        """The stream to the host at an address, or to another host, which passes calls on.

        Raises:
            NotReady: No door can be opened; nothing was sent.
        """
        door = self._doors.get(name)
        if door is not None:
            try:
                return await self._streams.to(door, name)
            except NotReady:
                self._doors.pop(name, None)
        return await self.any()

    async def any(self) -> Stream:
        """A stream to any host.

        Raises:
            NotReady: No door can be opened; nothing was sent.
            RemoteStorageError: A host refused this client, or is not trusted.
        """
        error: RemoteStorageError = NotReady("no door is known")
        known = dict.fromkeys((*self._streams.doors, *self._bootstraps, *self._doors.values()))
        for door in known:
            try:
                return await self._streams.to(door)
            except RemoteStorageError as closed:
                # A refusal tells the caller more than that another host is unreachable.
                error = closed if isinstance(error, NotReady) else error
        raise error

    async def close(self) -> None:
        await self._streams.close()


class DoorHost:
    """A host, through its own door or another host's."""

    def __init__(self, connection: DoorConnection, name: str) -> None:
        self._connection = connection
        self._name = name

    async def call(self, call: Call, attempt: Attempt) -> Any:  # noqa: ANN401
        """The result of `call`, or the error as a value; `attempt` notes when it is sent.

        Raises:
            NotReady: Nothing was sent.
            OutcomeUnknown: The stream ended before the answer came.
        """
        message = pb.Call(deadline_ms=attempt.left_ms, host=self._name)
        put_call(call, message)
        if attempt.request_id and not message.write.request_id:
            message.request_id = attempt.request_id
        if traceparent := current_traceparent():
            message.traceparent = traceparent
        stream = self._connection.at_hand(self._name)
        if stream is None:
            stream, message.host = await self._stream()
        return result_of(await stream.ask(message, attempt))

    async def _stream(self) -> tuple[Stream, str]:
        name = self._name
        if "/" not in name:
            addresses = await self._connection.coordinator.ask(HostsCall())
            if name not in addresses:
                raise NotReady(f"{name} is not running")
            name = addresses[name]
        return await self._connection.to(name), name

    async def ask(self, request: Request[AskedHost, T]) -> T:
        stream, name = await self._stream()
        asked = pb.StatusQuestion(of=_ABOUT_A_HOST[type(request)])
        answer = await stream.ask(pb.Call(deadline_ms=STATUS_MS, host=name, status=asked))
        told: T = json.loads(_expected(answer, "status").status.json)
        return told


class DoorCoordinator:
    """The coordinator, through any host."""

    def __init__(self, connection: DoorConnection) -> None:
        self._connection = connection

    async def ask(self, request: Request[AskedCoordinator, T]) -> T:
        form = coordination.FORMS[type(request)]
        stream = await self._connection.any()
        asked: dict[str, Any] = {form.ask: form.message(request)}
        answer = await stream.ask(pb.Call(deadline_ms=COORDINATOR_MS, **asked))
        told: T = form.answer_of(getattr(_expected(answer, form.result), form.result))
        self._connection.learn(coordination.hosts_in(answer))
        return told


def _expected(answer: pb.Answer, what: str) -> pb.Answer:
    """`answer`, if it is of kind `what`.

    Raises:
        RemoteStorageError: The answer is a failure.
        OutcomeUnknown: The answer is of another kind.
    """
    got = answer.WhichOneof("result")
    if got == "failure":
        raise error_of(answer.failure)
    if got != what:
        raise OutcomeUnknown(f"expected an answer of kind {what}, got {got}")
    return answer

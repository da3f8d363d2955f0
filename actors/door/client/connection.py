"""A client's connection to a service through its doors: no Ray, no store."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from tierledger.actors.calls import Call, PartitionKey
from tierledger.actors.coordinator.attendance import Attend, Attended
from tierledger.actors.coordinator.events import Announcement, Registered, Route
from tierledger.actors.coordinator.ownership import Handover, Owned, PluginMode
from tierledger.actors.deadline import Attempt
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.addresses import TLS_SCHEME, doors_in
from tierledger.actors.door.client.streams import NO_SECURITY, Opened, Stream, Streams
from tierledger.actors.door.limits import SOFTWARE, VERSION_MAX, VERSION_MIN
from tierledger.actors.door.security.settings import ClientSecurity
from tierledger.actors.door.wire import coordination
from tierledger.actors.door.wire.answers import result_of
from tierledger.actors.door.wire.calls import put_call
from tierledger.actors.door.wire.failures import error_of
from tierledger.actors.door.wire.segments import claim_of
from tierledger.events.commands import Claim
from tierledger.events.errors import NotReady, OutcomeUnknown, RemoteStorageError

COORDINATOR_MS = 10_000
"""Timeout of a request to the coordinator; a frozen one has a successor by then."""

DOORS_KEPT = 1000
"""Doors learnt from hosts that are kept; the oldest are dropped for new ones."""

STATUS_MS = 10_000
"""Timeout of a request for a host's own counts or partitions."""


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
        stream = self._connection.at_hand(self._name)
        if stream is None:
            stream, message.host = await self._stream()
        return result_of(await stream.ask(message, attempt))

    async def _stream(self) -> tuple[Stream, str]:
        name = self._name
        if "/" not in name:
            addresses = await self._connection.coordinator.hosts()
            if name not in addresses:
                raise NotReady(f"{name} is not running")
            name = addresses[name]
        return await self._connection.to(name), name

    async def counts(self) -> dict[str, Any]:
        counts: dict[str, Any] = await self._status(pb.StatusQuestion.HOST)
        return counts

    async def partitions(self) -> list[dict[str, Any]]:
        partitions: list[dict[str, Any]] = await self._status(pb.StatusQuestion.PARTITIONS)
        return partitions

    async def _status(self, of: pb.StatusQuestion.Of) -> Any:  # noqa: ANN401 - JSON.
        stream, name = await self._stream()
        asked = pb.Call(deadline_ms=STATUS_MS, host=name, status=pb.StatusQuestion(of=of))
        answer = await stream.ask(asked)
        return json.loads(_expected(answer, "status").status.json)


class DoorCoordinator:
    """The coordinator, through any host."""

    def __init__(self, connection: DoorConnection) -> None:
        self._connection = connection

    async def _ask(self, what: str, **asked: Any) -> pb.Answer:  # noqa: ANN401 - As pb.Call has it.
        stream = await self._connection.any()
        answer = await stream.ask(pb.Call(deadline_ms=COORDINATOR_MS, **asked))
        return _expected(answer, what)

    async def register(
        self, broker_id: int, request: bytes, after: int, mode: PluginMode | None = None
    ) -> Registered:
        question = coordination.RegisterCall(broker_id, request, after, mode)
        message = coordination.register_message(question)
        answer = await self._ask("registered", register=message)
        return coordination.registered_of(answer.registered)

    async def hand_over(self, wish: Handover) -> Owned:
        message = coordination.handover_message(wish)
        answer = await self._ask("owned", hand_over=message)
        return Owned(answer.owned.owner, answer.owned.owner_epoch)

    async def attend(self, attend: Attend) -> Attended:
        answer = await self._ask("ownership", attend=coordination.attend_message(attend))
        return coordination.attended_of(answer.ownership)

    async def announce(self, announcement: Announcement) -> list[Claim]:
        message = coordination.announce_message(announcement)
        answer = await self._ask("announced", announce=message)
        return list(map(claim_of, answer.announced.claims))

    async def route(self, keys: Sequence[PartitionKey]) -> list[Route]:
        answer = await self._ask("routes", route=coordination.routes_asked(keys))
        for route in answer.routes.routes:
            self._connection.learn((route.leader, route.follower))
        return list(map(coordination.route_of, answer.routes.routes))

    async def hosts(self) -> dict[str, str]:
        hosts = await self._hosts()
        return {one.address.rpartition("/")[0]: one.address for one in hosts}

    async def doors(self) -> dict[str, str]:
        return {one.address: one.door for one in await self._hosts() if one.door}

    async def _hosts(self) -> Sequence[pb.Host]:
        answer = await self._ask("hosts", hosts=pb.HostsQuestion())
        self._connection.learn(answer.hosts.hosts)
        return answer.hosts.hosts

    async def status(self) -> dict[str, Any]:
        asked = pb.StatusQuestion(of=pb.StatusQuestion.SERVICE)
        answer = await self._ask("status", status=asked)
        status: dict[str, Any] = json.loads(answer.status.json)
        # In JSON all keys are text.
        return {**status, "brokers": {int(key): one for key, one in status["brokers"].items()}}


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

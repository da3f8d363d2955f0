"""Streams between simulated processes, as TCP and gRPC carry them between real ones.

Each frame arrives whole, once and in order. If one does not arrive, no later one does either.
The two ends of a broken connection may learn of it at different times. An end may also learn
nothing until the peer does not answer its keepalive.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeAlias
from zlib import crc32

import grpc
import grpc.aio

from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.client.feed_stream import FeedStream
from tierledger.actors.door.client.knocking import KNOCK_S
from tierledger.actors.door.client.streams import Stream
from tierledger.actors.door.security.settings import ClientSecurity
from tierledger.actors.door.server.gateway import Gateway
from tierledger.simulation.machines.environment.clockwork import ProcessLife, S
from tierledger.simulation.machines.scenario.doors import DoorPlan
from tierledger.simulation.service.frame_arrows import FrameArrows
from tierledger.simulation.service.network import WORLD_CONTEXT, Network
from tierledger.simulation.service.virtual_loop import VirtualProcess, current_process

Method: TypeAlias = "Callable[[Gateway, object, Any], Coroutine[Any, Any, None]]"

SIGNS_MISSED = 2
"""Unanswered keepalives in a row after which an end closes its connection."""

KNOCK_TAKES_S = 0.001
"""How long a knock takes; it has no random delay, so that knocking changes nothing else."""

PORT = 4711
"""The port of each host's first process; a process takes the next if the former still lives."""

PORTS = 4
"""Ports of each host that clients know: former processes that live on keep theirs."""


def doors_of(hosts: int) -> list[str]:
    """All doors that clients know."""
    return [f"host-{at}:{PORT + more}" for at in range(hosts) for more in range(PORTS)]


class Watch(Protocol):
    """Observes the frames of all streams."""

    def start(self, connections: dict[int, Connection]) -> None: ...
    def read(self, end: End, frame: bytes) -> None: ...
    def written(self, end: End, frame: bytes) -> None: ...


class StreamNetwork:
    """The processes that listen for streams, and the open connections to them."""

    def __init__(self, network: Network, plan: DoorPlan, watch: Watch) -> None:
        """`network` decides how long messages travel, and which paths are cut."""
        self.network = network
        self.loop = network.loop
        self.recording = network.recording
        self.plan = plan
        self.watch = watch
        self.connections: dict[int, Connection] = {}
        """Connections with at least one open end, by number."""
        watch.start(self.connections)
        self.slow_until: dict[str, int] = {}
        """By the site of a client: until when (us) it pauses before each frame it reads."""
        self._listening: dict[str, tuple[VirtualProcess, Gateway]] = {}
        self._closed: set[str] = set()
        """Hosts whose doors nobody reaches; their processes live, and connect to others."""
        self._shut_out: dict[str, float] = {}
        """By client's name: until when the client reaches no door (virtual s)."""
        self._when_written: dict[str, Callable[[], None]] = {}
        """By client's name: what to call just before the answer to its next write is sent."""
        self.arrows = FrameArrows(network.recording)
        self._count = 0

    def heal(self) -> None:
        """From now on no connection ends silently, no reader is slow, no client is shut out."""
        self.plan = self.plan.healed()
        self._shut_out.clear()
        self._when_written.clear()

    def before_written(self, client: str, then: Callable[[], None]) -> None:
        """Call `then` when a client's next write is done, just before its answer is sent."""
        self._when_written[client] = then

    def sent(self, end: End, frame: bytes) -> None:
        """`end` is about to send a frame."""
        client = end.connection.client
        if end is client or client.owner is None or not self._when_written:
            return
        if any(answer.HasField("written") for answer in pb.HostFrame.FromString(frame).answers):
            then = self._when_written.pop(client.owner.name, None)
            if then is not None:
                then()

    def shut_out(self, client: str, until: float) -> None:
        """Break all connections of a client, and let it open none until `until`."""
        self._shut_out[client] = until
        for connection in list(self.connections.values()):
            owner = connection.client.owner
            if owner is not None and owner.name == client:
                connection.break_(silently=False)

    def close_door(self, host: str) -> None:
        """Break all connections to a host, and let none be made to any process of it again."""
        self._closed.add(host)
        for connection in self.to_host(host):
            connection.break_(silently=False)

    @property
    def closed(self) -> frozenset[str]:
        """The hosts whose doors nobody reaches."""
        return frozenset(self._closed)

    async def opens(self, door: str) -> bool:
        """Whether a door opens to the current process, as `knocking.opens` tells."""
        process = current_process()
        assert process is not None, "the world itself knocks nowhere"
        await asyncio.sleep(KNOCK_TAKES_S)
        found = self.listener(door, process.name)
        if found is None:
            return False
        wires, host = self.network.wires, found[0]
        if host.is_paused or wires.is_cut(process, host) or wires.is_cut(host, process):
            await asyncio.sleep(KNOCK_S)
            return False
        return True

    def listen(self, name: str, process: VirtualProcess, gateway: Gateway) -> str:
        """Let `gateway` have the first port of the host `name` that no living process has."""
        port = PORT
        while (found := self._listening.get(f"{name}:{port}")) and not found[0].is_dead:
            port += 1
        self._listening[f"{name}:{port}"] = process, gateway
        return f"{name}:{port}"

    def listener(self, door: str, client: str) -> tuple[VirtualProcess, Gateway] | None:
        """The process that listens at `door`; none if `client` cannot reach a living one."""
        found = self._listening.get(door)
        if found is None or found[0].is_dead or self._is_walled_off(door, client):
            return None
        return found

    def _is_walled_off(self, door: str, client: str) -> bool:
        if self.loop.time() < self._shut_out.get(client, 0.0):
            return True
        if door.partition(":")[0] in self._closed:
            return True
        if not self.plan.behind_walls or client.startswith(("host", "coordinator")):
            return False
        reached = crc32(client.partition("/")[0].encode()) % self.plan.behind_walls
        return not door.startswith(f"host-{reached}:")

    async def opened(
        self, door: str, greeting: pb.ClientGreeting, _security: ClientSecurity
    ) -> Stream:
        """A stream of calls from the current process to a door; see `Stream.opened`."""
        connection = self.connected(door)
        stream = await Stream.greeted(door, greeting, connection, connection.client)
        if self.recording.keeps:
            connection.drawn.watch(stream)
        return stream

    async def fed(
        self, door: str, greeting: pb.ClientGreeting, _security: ClientSecurity
    ) -> Stream:
        """A stream of feeds from the current process to a door."""
        connection = self.connected(door, Gateway.feed)
        return await FeedStream.greeted(door, greeting, connection, connection.client)

    def connected(self, door: str, method: Method = Gateway.converse) -> Connection:
        """A connection from the current process to a door; frames may be sent at once."""
        process = current_process()
        assert process is not None, "the world itself opens none"
        self._count += 1
        return Connection(self, self._count, process, door, method)

    def break_client(self, site: str, *, silently: bool, server_first: bool) -> None:
        """Break the connections of the client at `site`; see `Connection.break_`."""
        for one in list(self.connections.values()):
            if one.client.life.site == site and None in (one.client.error, one.server.error):
                one.break_(silently=silently, server_first=server_first)

    def break_feeds(self, process: VirtualProcess) -> None:
        """Break the feeds of a client, as a proxy may that closes what is idle."""
        for one in list(self.connections.values()):
            if one.client.owner is process and one.is_feed and one.client.error is None:
                one.break_(silently=False)

    def to_host(self, host: str) -> list[Connection]:
        """The open connections to a host's door."""
        return [one for one in self.connections.values() if one.door.startswith(f"{host}:")]

    def arrival(self, source: ProcessLife, target: ProcessLife) -> float:
        """When data that is sent now arrives (virtual s), retransmissions included."""
        return self.loop.time() + self.network.wires.carries(source, target) / S


class Connection:
    """One stream with its two ends. It also stands for gRPC's channel in the client."""

    def __init__(
        self,
        streams: StreamNetwork,
        number: int,
        process: VirtualProcess,
        door: str,
        method: Method,
    ) -> None:
        """`method` of the gateway serves the stream."""
        self.streams = streams
        self.number = number
        self.door = door
        self._method = method
        self.drawn = streams.arrows.of_connection()
        """The arrows of its frames in the picture."""
        self.client = End(self, process, process.name)
        self.server = End(self, None, door)
        self.client.other, self.server.other = self.server, self.client
        self._serving: asyncio.Task[None] | None = None
        streams.connections[number] = self
        self._when_killed(self.client)
        self.client.send(self._accept)
        self._look_later()

    @property
    def is_feed(self) -> bool:
        """Whether it carries feeds, and not calls."""
        return self._method is Gateway.feed

    @property
    def is_between_hosts(self) -> bool:
        """Whether the client is a host, which forwards calls."""
        return self.client.name.startswith("host")

    async def close(self) -> None:
        """Does nothing: the channel ends with its stream."""

    def _accept(self) -> None:
        """Connect to the door's process; the kernel accepts for a frozen process, too."""
        found = self.streams.listener(self.door, self.client.name)
        if found is None:
            self.server.error = "nobody listens"
            self.server.send(self.client.broken, f"{self.door}: Connection refused")
            return
        process, gateway = found
        self.streams.recording.event("connected", self.client.name, process.name)
        self.server.owner = self.server.life = process
        self.server.name = process.name
        self._when_killed(self.server)
        self._serving = self.streams.loop.spawn(process, self._serve(gateway))

    async def _serve(self, gateway: Gateway) -> None:
        await self._method(gateway, None, self.server)
        if self.server.error is None:
            self.server.error = "ended by the host"
            self.server.send(self.client.ended_by_peer)

    def stop_serving(self) -> None:
        """Cancel the method that serves the stream, as gRPC does when a connection ends."""
        if self._serving is not None:
            self._serving.cancel()

    # Its end.

    def break_(self, *, silently: bool, server_first: bool = False) -> None:
        """Break the connection. Both ends learn of it, or only one if `silently`."""
        self.streams.recording.mark(
            "connection ended silently" if silently else "connection broken"
        )
        ends = [self.client, self.server]
        if server_first:
            ends.reverse()
        ends[0].broken("connection reset")
        ends[1].is_deaf = silently
        if not silently:
            ends[1].broken("connection reset")

    def _when_killed(self, end: End) -> None:
        """Close `end` when its process dies. The peer learns of it unless the machine died."""
        owner, number = end.owner, -2 * self.number - (end is self.client)
        assert owner is not None, "asked for once it has one"

        def ended() -> None:
            if not owner.is_dead:
                owner.when_killed[number] = ended  # Only believed dead: still open.
            elif end.error is None:
                end.error = "killed"
                if self.number * 61 % 100 < self.streams.plan.silent_ends:
                    self.streams.recording.mark("connection ended silently")
                else:
                    end.send(end.other.broken, f"{end.name} died")

        owner.when_killed[number] = ended

    def _look_later(self) -> None:
        pause = self.streams.plan.keepalive_s
        self.streams.loop.call_later(pause, self._look, context=WORLD_CONTEXT)

    def _look(self) -> None:
        """Send keepalives from both ends; forget the connection when both are closed."""
        for end in (self.client, self.server):
            end.look()
        if self.client.error is not None and self.server.error is not None:
            self.streams.connections.pop(self.number, None)
        else:
            self._look_later()


class End:
    """One end of a stream: for the client gRPC's call, for the host the servicer's context."""

    def __init__(self, connection: Connection, owner: VirtualProcess | None, name: str) -> None:
        self.other: End
        self.connection = connection
        self.owner = owner
        self.life: ProcessLife = owner or ProcessLife(name.partition(":")[0], 0)
        """The owner; for a host's end that has none yet, a stand-in with the host's name."""
        self.name = name
        self.error: str | None = None
        """Why this end is closed; none while it is open."""
        self.unread: deque[bytes] = deque()
        self.is_deaf = False
        """The connection is broken, but this end has not learned of it: nothing reaches it."""
        self._streams = connection.streams
        self._sent_bytes = 0
        """Bytes that this end has sent and the peer has not read."""
        self._has_ended = False
        self._last_arrival = 0.0
        self._missed = 0
        self._reading: asyncio.Future[None] | None = None
        self._writing: asyncio.Future[None] | None = None

    # gRPC's methods.

    async def read(self) -> object:
        """The next frame; `EOF` where the peer has ended the stream."""
        plan = self._streams.plan
        if self._is_slow and plan.slow_reader_s:
            self._streams.recording.mark("frames wait for a slow reader")
            await asyncio.sleep(plan.slow_reader_s)
        while not self.unread:
            if self._has_ended:
                return grpc.aio.EOF
            self._raise_if_over()
            self._reading = self._streams.loop.create_future()
            await self._reading
        frame = self.unread.popleft()
        self.other.was_read(len(frame))
        self._streams.watch.read(self, frame)
        return frame

    async def write(self, frame: bytes) -> None:
        """Send a frame; returns when no more than a window of sent bytes is unread."""
        self._streams.sent(self, frame)
        self._raise_if_over()
        self._sent_bytes += len(frame)
        self._streams.watch.written(self, frame)
        arrives = self._next_arrival()
        drawn, is_client = self.connection.drawn, self is self.connection.client
        draw = drawn.asks if is_client else drawn.answers
        arrows = draw(self.name, self._receiver(), frame, arrives)
        self._send(arrives, self.other.arrived, frame, arrows)
        while self._sent_bytes > self._streams.plan.window:
            self._streams.recording.mark("writer waits for a reader")
            self._writing = self._streams.loop.create_future()
            await self._writing
            self._raise_if_over()

    def _receiver(self) -> str:
        """The process at the other end; where none listens, the host's name."""
        door, other = self.connection.door, self.other
        if other.owner is None:  # The connection is not accepted yet.
            found = self._streams.listener(door, self.name)
            return other.life.site if found is None else found[0].name
        return other.name

    def cancel(self) -> None:
        """End the stream from the client's side."""
        if self.error is None:
            self.error = "cancelled"
            self.send(self.other.broken, "cancelled by the client")
            _wake(self._reading)
            _wake(self._writing)

    def peer(self) -> str:
        """The name of the process at the other end."""
        return self.other.name

    def invocation_metadata(self) -> tuple[()]:
        return ()

    # Between the two ends.

    @property
    def _is_slow(self) -> bool:
        until = self._streams.slow_until.get(self.life.site, 0)
        return self._streams.loop.clock.now < until and self is self.connection.client

    @property
    def is_blocked(self) -> bool:
        """Whether its owner waits for the peer to read."""
        return self._writing is not None and not self._writing.done()

    def send(self, then: Callable[..., None], *given: object) -> None:
        """Call `then` at the peer, after everything that was sent earlier."""
        self._send(self._next_arrival(), then, *given)

    def _next_arrival(self) -> float:
        arrival = self._streams.arrival(self.life, self.other.life)
        self._last_arrival = max(arrival, self._last_arrival)
        return self._last_arrival

    def _send(self, arrives: float, then: Callable[..., None], *given: object) -> None:
        self._streams.loop.call_at(arrives, then, *given, context=WORLD_CONTEXT)

    def arrived(self, frame: bytes, drawn: Sequence[int]) -> None:
        """A frame arrives; `drawn`: its arrows in the picture."""
        if self.error is not None or self.is_deaf:
            for arrow in drawn:
                self._streams.recording.never_arrives(arrow)
        else:
            self._streams.recording.event("frame", self.other.name, self.name, len(frame))
            self.unread.append(frame)
            _wake(self._reading)

    def was_read(self, size: int) -> None:
        self._sent_bytes -= size
        _wake(self._writing)

    def ended_by_peer(self) -> None:
        """The host has ended the stream; frames that have arrived can still be read."""
        if self.error is None and not self.is_deaf:
            self.error = "ended by the host"
            self._has_ended = True
            _wake(self._reading)
            _wake(self._writing)

    def broken(self, why: str) -> None:
        """Close this end: unread frames are lost, and waiting reads and writes fail."""
        if self.error is None and not self.is_deaf:
            self.error = why
            self.unread.clear()
            _wake(self._reading)
            _wake(self._writing)
            if self is self.connection.server:
                self.connection.stop_serving()

    def look(self) -> None:
        """Close this end if the peer has left `SIGNS_MISSED` keepalives unanswered."""
        owner = self.owner
        if self.error is not None or owner is None or owner.is_paused or owner.is_dead:
            return
        self._missed = 0 if self._hears() else self._missed + 1
        if self._missed >= SIGNS_MISSED:
            self._streams.recording.mark("connection frozen out")
            self.is_deaf = False
            self.broken("no sign of life")

    def _hears(self) -> bool:
        peer = self.other
        if self.is_deaf or peer.error is not None or (peer.owner and peer.owner.is_dead):
            return False
        if self._streams.plan.is_proxied:
            return True
        wires = self._streams.network.wires
        is_cut = wires.is_cut(self.life, peer.life) or wires.is_cut(peer.life, self.life)
        return not is_cut and peer.owner is not None and not peer.owner.is_paused

    def _raise_if_over(self) -> None:
        if self.error is None:
            return
        if self is self.connection.server:
            raise asyncio.InvalidStateError(self.error)
        nothing = grpc.aio.Metadata()
        raise grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, nothing, nothing, self.error)


def _wake(waiting: asyncio.Future[None] | None) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)

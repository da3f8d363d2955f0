"""What processes must no longer hold when nobody asks them anything: waiters, timers, counts.

Everything that waits does so for a reason, and goes with it. So once no call is under way, each
of these collections is empty and each of these counts is 0. The table says so by type; what a
process is made of is found through it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.client.roles import Roles
from tierledger.actors.client.router import Router
from tierledger.actors.client.service_link import ServiceLink
from tierledger.actors.client.window import Window
from tierledger.actors.coordinator import hosts as coordinator_hosts
from tierledger.actors.coordinator.machine import Coordinator
from tierledger.actors.coordinator.service import CoordinatorService
from tierledger.actors.deadline import AlarmClock, Bounds
from tierledger.actors.door.client.connection import DoorConnection
from tierledger.actors.door.client.feed_stream import FeedStream, FeedStreams
from tierledger.actors.door.client.streams import Stream, Streams
from tierledger.actors.door.server.conversation import Conversation, Unread
from tierledger.actors.door.server.desk import Desk
from tierledger.actors.door.server.feeding import FeedConversation
from tierledger.actors.door.server.gateway import Gateway
from tierledger.actors.door.server.hinting import Hinting
from tierledger.actors.follower import Follower, FollowerPhase
from tierledger.actors.host import feeds
from tierledger.actors.host.heads import Heads, Hints
from tierledger.actors.host.host import Host
from tierledger.actors.host.machine import HostMachine, Life, LifePhase
from tierledger.actors.host.machine_guard import MachineGuard
from tierledger.actors.host.partition_shell import PartitionShell
from tierledger.actors.host.store_queues import Committer, SlotReader
from tierledger.actors.leader.checkpoints import Checkpoints
from tierledger.actors.leader.machine import Leader, LeaderPhase
from tierledger.actors.turns import InProcess, Turns


class LeftOver(NamedTuple):
    """One thing that is left over; equal to what is found of it later."""

    holder: str
    """The process, and the type of the part of it that holds the thing."""
    what: str
    """The attribute, and what is in it."""
    one: Hashable
    """Tells it from others in that place."""


class _Rest(NamedTuple):
    empty: tuple[str, ...] = ()
    """Attributes that hold nothing."""
    parts: tuple[str, ...] = ()
    """Attributes that hold parts, each of a type in the table."""
    strays: Callable[[Any], Iterable[Any]] = lambda _: ()
    """Finds what the object holds of things that are gone, or not where they end."""


def _off_duty(machine: HostMachine) -> list[Life]:
    return [life for life in machine.lives.values() if life.phase is not LifePhase.RUNNING]


def _of_none(hints: Hints) -> set[Any]:
    return (hints._hints.keys() | hints._read.keys()) - {key for key, _ in hints._shells}


def _owed(stream: Stream) -> list[float]:
    owed = stream._owed_since
    return [] if owed is None or stream.ended is not None else [owed]


RESTS: Mapping[type[Any], _Rest] = {
    # A host and its partitions.
    Host: _Rest(
        ("_replies", "_readers", "_questions"),
        (
            "committer",
            "feeds",
            "heads",
            "hints",
            "_slots",
            "_machine",
            "_lives",
            "_turns",
            "_in_process",
            "_patience",
        ),
    ),
    HostMachine: _Rest(("loading", "readers"), strays=_off_duty),
    PartitionShell: _Rest(("_held", "loading", "_ahead"), ("machine", "_guard")),
    MachineGuard: _Rest(("_waiting",)),
    Leader: _Rest(
        ("_inbox", "_queries", "_in_flight", "_probe", "undecided", "_is_held", "_stop"),
        ("_checkpoints",),
        lambda leader: [leader.phase] * (leader.phase is LeaderPhase.LOADING),
    ),
    Checkpoints: _Rest(("is_writing",)),
    Follower: _Rest(
        ("_waiting", "_reading", "_read_again", "_looking", "_awaiting_end"),
        strays=lambda one: [one.phase] * (one.phase is FollowerPhase.LOADING),
    ),
    Committer: _Rest(("_pending", "_holding", "_held")),
    SlotReader: _Rest(("_pending",)),
    Turns: _Rest(("_waiting", "_is_taken")),
    InProcess: _Rest(("making",)),
    AlarmClock: _Rest(("_ends",)),
    Bounds: _Rest(("_ends",)),
    Heads: _Rest(strays=lambda one: one._watched.keys() - {*one._shells.values()}),
    Hints: _Rest(strays=_of_none),
    feeds.Feeds: _Rest((), ("_turns",), lambda one: one._open.keys() - {*one._shells.values()}),
    feeds.SnapshotTurns: _Rest(("under_way",)),
    # Its door.
    Gateway: _Rest(
        (),
        ("_desk", "_conversations", "_unread"),
        lambda one: range(len(one._conversations), one._connections),
    ),
    Conversation: _Rest(
        ("_open", "_frames", "_unread_bytes", "_unwritten", "making"), ("_patience",)
    ),
    FeedConversation: _Rest(("_due", "_ended", "_searches", "_frames", "_unread_bytes")),
    Unread: _Rest(("_bytes",)),
    Desk: _Rest((), ("_peers", "_bounds")),
    Hinting: _Rest(
        (),
        ("_streams",),
        lambda one: [key for key in one._subscribed if not one._host.serves(key, "follower")],
    ),
    # Clients, also of other hosts.
    Streams: _Rest(("_closing",), ("_open",)),
    FeedStreams: _Rest(("_closing",), ("_open",)),
    Stream: _Rest(("_answers", "_waiting", "_cancelled"), strays=_owed),
    FeedStream: _Rest(("_answers", "_waiting", "_cancelled"), strays=_owed),
    AsyncRemoteLogMetadataManager: _Rest((), ("_router", "_roles")),
    Router: _Rest(("_windows",), ("link", "_bounds")),
    ServiceLink: _Rest(("_connecting",), ("_connection", "_closing")),
    DoorConnection: _Rest((), ("_streams",)),
    Roles: _Rest(("_turn",)),
    Window: _Rest(("_open", "_waiting")),
    # The coordinator.
    CoordinatorService: _Rest(("_callers",), ("_machine",)),
    Coordinator: _Rest(("waiting", "taken", "batch", "doubt_until_s"), ("hosts",)),
    coordinator_hosts.Hosts: _Rest(("starting", "looking", "facts"), ("running",)),
    coordinator_hosts.HostRecord: _Rest(("unsent", "sending", "is_sending")),
}
"""By type, what an object of it holds at rest. Each subclass has an entry of its own."""


def left_over(name: str, root: object) -> Iterator[LeftOver]:
    """What `root`, and all that it is made of, holds and should not, at this moment.

    `name`: that of its process. While calls come and go, look several times: only what is found
    each time waits for something that nobody will do.
    """
    seen: set[int] = set()
    todo: list[tuple[str, object]] = [(name, root)]
    while todo:
        holder, one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, asyncio.Future):
            if not one.done():
                yield LeftOver(holder, f"a task under way: {one!r:.80}", id(one))
            elif not one.cancelled() and one.exception() is None:
                todo.append((holder, one.result()))
            continue
        rest = RESTS.get(type(one))
        if rest is None:
            continue
        holder = f"{name}: {type(one).__name__}{_named(one)}"
        for attribute in rest.empty:
            yield from _entries(holder, attribute, getattr(one, attribute))
        yield from _entries(holder, "what is gone", list(rest.strays(one)))
        for attribute in rest.parts:
            todo += [(holder, part) for part in _parts(getattr(one, attribute))]


def _named(one: object) -> str:
    if isinstance(one, PartitionShell):
        return f" of {one.topic_id_partition}, {one.role}"
    return ""


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    return value if isinstance(value, list | tuple) else [value]


def _entries(holder: str, attribute: str, value: object) -> Iterator[LeftOver]:
    if isinstance(value, asyncio.Lock):
        value = value.locked()
    if value is None or value is False or value == 0:
        return
    if isinstance(value, Collection) and not isinstance(value, bytes | str):
        for one in value:
            is_plain = isinstance(one, Hashable) and isinstance(value, Mapping)
            yield LeftOver(holder, f"{attribute} has {one!r:.80}", one if is_plain else id(one))
    elif not hasattr(value, "__len__") or len(value) > 0:
        yield LeftOver(holder, f"{attribute} is {value!r:.80}", attribute)

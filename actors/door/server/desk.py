"""Finds where a call is answered: here, by another host, or by the coordinator.

A call about a partition that this host serves is passed to the host in the step that reads it.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tierledger.actors.calls import (
    LEADER,
    STORAGE,
    Call,
    CommandCall,
    PageCall,
    PartitionKey,
    QueryCall,
    ReadyCall,
)
from tierledger.actors.connection import CoordinatorHandle
from tierledger.actors.coordinator.requests import DoorsCall, HostsCall, RouteCall, StatusCall
from tierledger.actors.deadline import Attempt, Bounds, Deadline
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.wire import coordination
from tierledger.actors.door.wire.calls import DEADLINE_MS, call_of, id_of
from tierledger.actors.door.wire.segments import claim_message, key_of
from tierledger.actors.feed.frames import Subscription
from tierledger.actors.host.feeds import Feeds
from tierledger.actors.host.heads import Heads
from tierledger.actors.host.store_queues import Committer, DurableStep
from tierledger.actors.routes import Routes
from tierledger.actors.turns import AnswerReader
from tierledger.events.errors import (
    InvalidArgument,
    NotReady,
    OutcomeUnknown,
    RejectedError,
    RemoteStorageError,
)

if TYPE_CHECKING:
    from tierledger.actors.door.client.streams import Stream, Streams

PASSED_ON = (pb.RETRYABLE, pb.UNKNOWN)
"""Fates of failures after which a host may serve the partition no longer."""


class ServingHost(Protocol):
    """What a door needs of the host behind it; see `Host`."""

    feeds: Feeds
    heads: Heads
    committer: Committer

    @property
    def is_asked(self) -> bool: ...

    def serves(self, key: PartitionKey, role: str) -> bool: ...

    def call(self, call: Call) -> asyncio.Future[Any]: ...

    def answer(
        self, call: Call, then: Callable[[object], None], reader: AnswerReader | None = None
    ) -> int: ...

    def drop_call(self, reply_to: int) -> None: ...

    async def counts(self) -> dict[str, Any]: ...

    async def partitions(self) -> list[dict[str, Any]]: ...


class Desk:
    """Passes each call to this host, another host, or the coordinator."""

    def __init__(
        self, address: str, host: ServingHost, coordinator: CoordinatorHandle, peers: Streams
    ) -> None:
        """`address`: that of `host`; `peers`: streams to the doors of other hosts."""
        self.address = address
        self._host = host
        self._coordinator = coordinator
        self._peers = peers
        self._routes = Routes(coordinator)
        self._doors: dict[str, str] = {}
        self._bounds = Bounds()
        self._unnamed = itertools.count(1)

    def named(self, message: pb.Call) -> bytes:
        """The id by which logs and errors name a call; one that has none gets it here."""
        if not id_of(message):
            message.request_id = f"{self.address}#{next(self._unnamed)}".encode()
        return id_of(message)

    def answer(
        self, message: pb.Call, then: Callable[[object], None], reader: AnswerReader
    ) -> int | asyncio.Task[object]:
        """Have `message` answered to `reader`; returns what to pass to `give_up`.

        `then` is called with the result, perhaps before this returns: a `pb.Answer`, a value
        for `put_result`, or an error.

        Raises:
            RemoteStorageError: `message` is no valid call; nothing was done.
        """
        call = call_of(message)
        if call is None:
            return _spawned(self._coordinate(message), then)
        if message.host == self.address or (not message.host and self._serves(call)):
            return self._host.answer(call, then, reader)
        return _spawned(self._pass_on(message, call), then)

    def give_up(self, answering: int | asyncio.Task[object]) -> None:
        """Drop a call whose answer is not wanted any more."""
        if isinstance(answering, int):
            self._host.drop_call(answering)
        else:
            answering.cancel()

    def _serves(self, call: CommandCall | QueryCall | ReadyCall | PageCall) -> bool:
        if isinstance(call, PageCall):
            return _opened_by(call.cursor) == self.address
        role = LEADER if isinstance(call, CommandCall) else call.role
        return role == STORAGE or self._host.serves(call.key, role)

    # By other hosts.

    async def _pass_on(
        self, message: pb.Call, call: CommandCall | QueryCall | ReadyCall | PageCall
    ) -> object:
        deadline = Deadline((message.deadline_ms or DEADLINE_MS) / 1000, self._bounds)
        attempt = Attempt(deadline)
        try:
            with deadline.bound():
                return await self._passed_on(message, call, attempt)
        except TimeoutError:
            is_in_doubt = attempt.is_sent and isinstance(call, CommandCall)
            kind = OutcomeUnknown if is_in_doubt else NotReady
            raise kind("no answer within the call's time") from None

    async def _passed_on(
        self,
        message: pb.Call,
        call: CommandCall | QueryCall | ReadyCall | PageCall,
        attempt: Attempt,
    ) -> object:
        self.named(message)
        passed = pb.Call()
        passed.CopyFrom(message)
        key: PartitionKey | None = None
        address = message.host
        if not address and isinstance(call, PageCall):
            address = _opened_by(call.cursor)
        elif not address and not isinstance(call, PageCall):
            key = call.key
            role = LEADER if isinstance(call, CommandCall) else call.role
            address, serving = await self._routes.where(key, role)
            if serving != role and isinstance(call, ReadyCall):
                return False
            if serving != role and isinstance(call, QueryCall):
                passed.question.role = pb.LEADER if serving == LEADER else pb.STORAGE
                call = call._replace(role=serving)
        if address == self.address:
            return await self._host.call(call)
        passed.host = address
        passed.deadline_ms = attempt.left_ms
        try:
            door = await self._door(address)
            answer = await (await self._peer(door, address)).ask(passed, attempt)
        except RemoteStorageError:
            self._forget(address, key)
            raise
        if answer.failure.fate in PASSED_ON:
            self._forget(address, key)
        answer.better_door = door
        return answer

    async def _peer(self, door: str, address: str) -> Stream:
        """The stream to another host."""
        try:
            return await self._peers.to(door, address)
        except RejectedError as error:
            # A refusal between hosts is a fault of the service, and no answer to the client.
            raise NotReady(
                f"{self.address} cannot pass calls on to {address}: {error}"
            ) from error

    def _forget(self, address: str, key: PartitionKey | None) -> None:
        self._doors.pop(address, None)
        if key is not None:
            self._routes.forget(key)

    async def _door(self, address: str) -> str:
        doors = await self._doors_of({address})
        if address not in doors:
            raise NotReady(f"{address} is gone, or does not listen")
        return doors[address]

    async def _doors_of(self, addresses: set[str]) -> dict[str, str]:
        """Doors by host address; fetched again if one of `addresses` is not known."""
        if not addresses <= self._doors.keys():
            self._doors = await self._coordinator.ask(DoorsCall())
        return self._doors

    @property
    def answering(self) -> DurableStep | None:
        """The commit of this host that is answered in the present step, if any is."""
        return self._host.committer.answering

    # Feeds.

    @property
    def is_asked(self) -> bool:
        """Whether any caller waits for an answer of this host."""
        return self._host.is_asked

    @property
    def feeds(self) -> Feeds:
        """The feeds of the partitions that run here."""
        return self._host.feeds

    @property
    def heads(self) -> Heads:
        """The subscriptions to heads of the logs that are led here."""
        return self._host.heads

    async def fed_elsewhere(self, subscription: Subscription) -> str:
        """The door of the host that feeds such a replica; empty if it is this host's own.

        Raises:
            RemoteStorageError: No host feeds it at the moment.
        """
        self._routes.forget(subscription.key)  # The kept route may lead here, wrongly.
        address, serving = await self._routes.where(subscription.key, subscription.role)
        if serving != subscription.role and (serving == STORAGE or subscription.claim):
            raise NotReady(f"{subscription.key.named('?')} has no {subscription.role} now")
        return "" if address == self.address else await self._door(address)

    # By the coordinator.

    async def _operate(self, message: pb.Call) -> pb.Answer:
        if message.HasField("purge"):
            found = await self._coordinator.ask(coordination.purge_of(message.purge))
            return pb.Answer(to_purge=coordination.to_purge_message(found))
        if message.HasField("release_kept"):
            await self._coordinator.ask(coordination.release_kept_of(message.release_kept))
            return pb.Answer(kept_released=pb.KeptReleased())
        if message.HasField("replace_process"):
            wish = coordination.replace_process_of(message.replace_process)
            told = await self._coordinator.ask(wish)
            return pb.Answer(replacement=coordination.replacement_message(told))
        rows = await self._coordinator.ask(coordination.clean_up_of(message.clean_up))
        return pb.Answer(cleaned_up=pb.CleanedUp(rows=rows))

    async def _coordinate(self, message: pb.Call) -> pb.Answer:
        match message.WhichOneof("ask"):
            case "register":
                call = coordination.register_of(message.register)
                registered = await self._coordinator.ask(call)
                return pb.Answer(registered=coordination.registered_message(registered))
            case "hand_over":
                wish = coordination.handover_of(message.hand_over)
                owner, owner_epoch = await self._coordinator.ask(wish)
                return pb.Answer(owned=pb.Owned(owner=owner, owner_epoch=owner_epoch))
            case "tell_move":
                await self._coordinator.ask(coordination.tell_move_of(message.tell_move))
                return pb.Answer(move_told=pb.MoveTold())
            case "place_hold" | "release_hold":
                late = await self._coordinator.ask(coordination.hold_wish_of(message))
                return pb.Answer(hold_told=coordination.hold_told_message(late))
            case "purge" | "release_kept" | "clean_up" | "replace_process":
                return await self._operate(message)
            case "attend":
                attend = coordination.attend_of(message.attend)
                attended = await self._coordinator.ask(attend)
                return pb.Answer(ownership=coordination.attended_message(attended, attend.mode))
            case "announce":
                announcement = coordination.announcement_of(message.announce)
                claims = await self._coordinator.ask(announcement)
                return pb.Answer(announced=pb.Announced(claims=map(claim_message, claims)))
            case "route":
                return await self._routes_answered(message.route)
            case "hosts":
                hosts = (await self._coordinator.ask(HostsCall())).values()
                doors = await self._coordinator.ask(DoorsCall())
                known = [coordination.host_message(one, doors) for one in hosts]
                return pb.Answer(hosts=pb.Hosts(hosts=known))
            case "status":
                return await self._status(message)
            case _:
                raise InvalidArgument("expected a call that this host knows for ask, got none")

    async def _routes_answered(self, question: pb.RouteQuestion) -> pb.Answer:
        keys = [key_of(one) for one in question.partitions]
        routes = await self._coordinator.ask(RouteCall(keys))
        named = {one for route in routes for one in (route.leader_host, route.follower_host)}
        doors = await self._doors_of({one for one in named if one is not None})
        messages = [coordination.route_message(route, doors) for route in routes]
        return pb.Answer(routes=pb.Routes(routes=messages))

    async def _status(self, message: pb.Call) -> pb.Answer:
        status: object
        match message.status.of:
            case pb.StatusQuestion.SERVICE:
                status = await self._coordinator.ask(StatusCall())
            case pb.StatusQuestion.HOST | pb.StatusQuestion.PARTITIONS if message.host not in {
                "",
                self.address,
            }:
                door = await self._door(message.host)
                return await (await self._peer(door, message.host)).ask(message)
            case pb.StatusQuestion.HOST:
                status = await self._host.counts()
            case pb.StatusQuestion.PARTITIONS:
                status = await self._host.partitions()
            case other:
                raise InvalidArgument(f"expected 1, 2 or 3 for status.of, got {other}")
        return pb.Answer(status=pb.Status(json=json.dumps(status, default=_plain)))

    async def led_from(self, keys: Sequence[PartitionKey]) -> list[tuple[str, str]]:
        """The address and the door of each partition's leading host; empty if not known.

        Raises:
            RemoteStorageError: The coordinator does not answer.
        """
        routes = await self._coordinator.ask(RouteCall(keys))
        leading = [route.leader_host or "" for route in routes]
        doors = await self._doors_of({one for one in leading if one})
        return [(one, doors.get(one, "")) for one in leading]

    async def close(self) -> None:
        """Close the streams to other hosts."""
        await self._peers.close()


def _opened_by(cursor: str) -> str:
    """The address of the host that has a list open."""
    return "/".join(cursor.split("/")[:2])


def _plain(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _spawned(
    work: Coroutine[Any, Any, object], then: Callable[[object], None]
) -> asyncio.Task[object]:
    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(lambda _: then(_outcome(task)))
    return task


def _outcome(task: asyncio.Task[object]) -> object:
    if task.cancelled():
        return OutcomeUnknown("the host is closing")
    return task.exception() or task.result()

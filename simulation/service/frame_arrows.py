"""The frames of streams as the picture shows them: an arrow for each call, answer and item."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import ceil
from typing import Any, NamedTuple

from tierledger.actors.coordinator.requests import RouteCall
from tierledger.actors.deadline import Attempt
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.client.streams import Stream
from tierledger.actors.door.wire.answers import result_of
from tierledger.actors.door.wire.calls import call_of
from tierledger.actors.door.wire.coordination import (
    announcement_of,
    register_of,
    registered_of,
    route_of,
)
from tierledger.actors.door.wire.failures import error_of
from tierledger.actors.door.wire.feed import claim_in, frame_of, subscription_of
from tierledger.actors.door.wire.segments import claim_of, key_of
from tierledger.actors.feed.frames import Head
from tierledger.events.errors import RemoteStorageError
from tierledger.simulation.history.recorded_client import call_text
from tierledger.simulation.machines.environment.clockwork import S
from tierledger.simulation.machines.environment.recording import (
    Message,
    Recording,
    request_message,
)

_ABOUT_PARTITIONS = ("write", "question", "next_page")
"""Calls that callers of the history make; others are made beside them."""


class FrameArrows:
    """The arrows of all streams of a world."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.calls: dict[bytes, str] = {}
        """By the content of a call, which of the history's calls it is for. Hosts pass calls
        on with the same content."""

    def of_connection(self) -> ConnectionArrows:
        """What draws the frames of a new connection."""
        return ConnectionArrows(self)


class _AskedCall(NamedTuple):
    """A call on a stream that has no answer yet."""

    name: str
    call: str | None
    partition: int | None


class ConnectionArrows:
    """Draws the frames of one connection."""

    def __init__(self, arrows: FrameArrows) -> None:
        self._arrows = arrows
        self._noted: dict[int, str] = {}
        """By the id of a call that is not sent yet, which of the history's calls it is for."""
        self._asked: dict[int, _AskedCall] = {}
        self._fed: dict[int, int] = {}
        """By a subscription's id, its partition."""

    def watch(self, stream: Stream) -> None:
        """Note which of the history's calls each call on `stream` is for."""
        ask = stream.ask

        async def asked(message: pb.Call, attempt: Attempt | None = None) -> pb.Answer:
            call, number = call_text(), stream._last_id + 1
            if call is not None and message.WhichOneof("ask") in _ABOUT_PARTITIONS:
                self._noted[number] = self._arrows.calls[asked_by(message)] = call
            return await ask(message, attempt)

        vars(stream).update(ask=asked)

    def asks(self, client: str, host: str, frame: bytes, arrives: float) -> Sequence[int]:
        """Draw a frame of a client; returns the numbers of its arrows."""
        return self._draw(client, host, self._asked_in(frame), arrives)

    def answers(self, host: str, client: str, frame: bytes, arrives: float) -> Sequence[int]:
        """Draw a frame of a host; returns the numbers of its arrows."""
        return self._draw(host, client, self._told_in(frame), arrives)

    def _draw(
        self, source: str, target: str, messages: Iterable[Message], arrives: float
    ) -> Sequence[int]:
        recording, at = self._arrows.recording, ceil(arrives * S)
        if not recording.keeps:
            return ()
        return [recording.arrow(source, target, at, one) for one in messages]

    def _asked_in(self, frame: bytes) -> Iterator[Message]:
        parsed = pb.ClientFrame.FromString(frame)
        if parsed.HasField("greeting"):
            yield Message("greeting", [parsed.greeting.software])
        for call in parsed.calls:
            noted = self._noted.pop(call.id, None) or self._arrows.calls.get(asked_by(call))
            message = _asked(call, noted)
            self._asked[call.id] = _AskedCall(message.what, noted, message.partition)
            yield message
        for number in parsed.cancelled:
            asked = self._asked.get(number)  # It may be answered all the same.
            if asked is not None:
                about = [asked.call] if asked.call else []
                yield Message(f"{asked.name} cancelled", about, asked.partition)
        for one in parsed.subscribed:
            subscription = subscription_of(one)
            self._fed[one.id] = subscription.key.partition
            yield Message("feed subscribed", [subscription])
        for expected in parsed.expected:
            claim, partition = claim_in(expected), self._fed.get(expected.id)
            yield Message("feed expected", [claim], partition)
        for number in parsed.unsubscribed:
            yield Message("feed unsubscribed", (), self._fed.get(number))

    def _told_in(self, frame: bytes) -> Iterator[Message]:
        parsed = pb.HostFrame.FromString(frame)
        if parsed.HasField("greeting"):
            yield Message("greeting answered", [parsed.greeting.host])
        for answer in parsed.answers:
            asked = self._asked.pop(answer.id, None)
            name, call, partition = asked or ("call", None, None)
            end = "failed" if answer.HasField("failure") else "answered"
            about = _answered(answer)
            yield Message(f"{name} {end}", [call, *about] if call else about, partition)
        for item in parsed.fed:
            name = (item.WhichOneof("what") or "nothing").replace("_", " ")
            yield Message(f"feed {name}", _item(item), self._fed.get(item.id))
        if parsed.HasField("farewell"):
            yield Message("farewell", [error_of(parsed.farewell)])


def asked_by(call: pb.Call) -> bytes:
    """A call's content, without the fields that a host changes when it forwards the call."""
    asked = pb.Call()
    asked.CopyFrom(call)
    for name in ("id", "deadline_ms", "host"):
        asked.ClearField(name)
    if asked.HasField("question"):
        asked.question.ClearField("role")
    return asked.SerializeToString(deterministic=True)


def _asked(call: pb.Call, noted: str | None) -> Message:
    kind = call.WhichOneof("ask") or "nothing"
    read = _READ.get(kind, call_of)
    try:
        request = read(call)
    except RemoteStorageError as error:
        return Message(kind, [error])
    if request is None:
        return Message(kind.replace("_", " "))
    return request_message(request, noted)


_READ: dict[str, Callable[[pb.Call], object]] = {
    "announce": lambda call: announcement_of(call.announce),
    "register": lambda call: register_of(call.register),
    "route": lambda call: RouteCall([key_of(one) for one in call.route.partitions]),
}


def _answered(answer: pb.Answer) -> list[Any]:
    match answer.WhichOneof("result"):
        case "registered":
            return [registered_of(answer.registered)]
        case "announced":
            return [claim_of(one) for one in answer.announced.claims]
        case "routes":
            return [route_of(one) for one in answer.routes.routes]
        case "failure" | "written" | "found" | "ready":
            return [result_of(answer)]
        case _:
            return []


def _item(item: pb.Fed) -> list[Any]:
    match item.WhichOneof("what"):
        case "head":
            return [Head(item.head.position)]
        case "ended":
            return []
        case _:
            return [frame_of(item)]

"""The leaders of a partition over time, according to its log, and the brokers that copied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tierledger.events import log_events as log
from tierledger.events.lifecycle import RemotePartitionDeleteState

if TYPE_CHECKING:
    from tierledger.pages.drawing import Range


@dataclass(slots=True)
class SessionSpan:
    """One session: from `opened_ms` until it closed, another opened, or the log ends."""

    opened: log.SessionOpened
    opened_ms: int
    ended_ms: int
    first_position: int
    last_position: int
    is_open: bool = True
    ending: str = "still open at the end of the log"
    dispute: log.SessionDisputed | None = None


@dataclass(slots=True)
class CopyRun:
    """Consecutive copies of one broker, by recorded history."""

    broker_id: int
    first_ms: int
    last_ms: int
    copies: int


@dataclass(frozen=True, slots=True)
class Flag:
    """Something that happened to the whole partition."""

    time_ms: int
    text: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """Everything on a partition's axis of log time.

    Attributes:
        axis_ms: First and last log time; an import's session, which opens before all recorded
            time, does not stretch it.
        recorded: The copying brokers of an imported history; an import has only one session.
    """

    axis_ms: Range
    leaderships: list[SessionSpan]
    recorded: list[CopyRun]
    flags: list[Flag]

    @property
    def disputes(self) -> int:
        return sum(one.dispute is not None for one in self.leaderships)


class TimelineBuilder:
    """Follows a log event by event."""

    def __init__(self) -> None:
        self.topic = ""
        """The topic's name in the newest session."""
        self._leaderships: list[SessionSpan] = []
        self._recorded: list[CopyRun] = []
        self._flags: list[Flag] = []
        self._first_ms: int | None = None
        self._last_ms = 0

    def note(self, event: log.Event) -> None:
        now_ms = event.log_time_ms
        self._last_ms = now_ms
        if self._first_ms is None and now_ms > 0:
            self._first_ms = now_ms
        match event.body:
            case log.SessionOpened() as body:
                self._open(event, body)
            case log.SessionClosed() as body:
                self._end(event, f"closed: {body.reason}")
            case log.SessionDisputed() as body:
                self._leaderships[-1].dispute = body
            case log.SegmentAdded(source=tuple()) as body:
                self._copy(body.broker_id, now_ms)
            case log.PartitionDeleteUpdated() as body:
                name = RemotePartitionDeleteState(body.state).name
                self._flags.append(Flag(now_ms, f"{name} by broker {body.broker_id}"))
            case _:
                pass
        self._extend(event)

    def timeline(self) -> Timeline:
        first = self._last_ms if self._first_ms is None else self._first_ms
        return Timeline((first, self._last_ms), self._leaderships, self._recorded, self._flags)

    def _open(self, event: log.Event, body: log.SessionOpened) -> None:
        self._end(event, f"replaced by session {body.number}")
        self.topic = body.topic or self.topic
        at, now_ms = event.position, event.log_time_ms
        self._leaderships.append(SessionSpan(body, now_ms, now_ms, at, at))

    def _end(self, event: log.Event, how: str) -> None:
        if self._leaderships and self._leaderships[-1].is_open:
            before = self._leaderships[-1]
            before.ended_ms, before.is_open, before.ending = event.log_time_ms, False, how

    def _extend(self, event: log.Event) -> None:
        if self._leaderships and self._leaderships[-1].is_open:
            self._leaderships[-1].ended_ms = event.log_time_ms
            self._leaderships[-1].last_position = event.position

    def _copy(self, broker_id: int, now_ms: int) -> None:
        if self._recorded and self._recorded[-1].broker_id == broker_id:
            self._recorded[-1].last_ms = now_ms
            self._recorded[-1].copies += 1
        else:
            self._recorded.append(CopyRun(broker_id, now_ms, now_ms, 1))

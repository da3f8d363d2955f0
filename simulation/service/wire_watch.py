"""Checks the rules of the door's protocol on the frames of every stream.

It sees only the frames at both ends of each stream, not the objects that make them.
"""

from __future__ import annotations

from collections.abc import Iterable

from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.client.streams import PING_AFTER_S, PING_TIMEOUT_S
from tierledger.actors.door.wire.calls import DEADLINE_MS
from tierledger.simulation.checkers.violation import Violation
from tierledger.simulation.service.frame_arrows import asked_by
from tierledger.simulation.service.network import WORLD_CONTEXT
from tierledger.simulation.service.streams import Connection, End
from tierledger.simulation.service.virtual_loop import VirtualLoop

LATE_S = 0.5
"""Seconds after its deadline within which a call must be answered, while its host runs."""

LOOK_S = 0.25
"""Seconds between two looks at what waits. A host that runs and has room for calls must read
at least one waiting frame from one look to the next."""

SILENCE_MAX_S = 2 * PING_AFTER_S + PING_TIMEOUT_S + LATE_S
"""Seconds for which a client may wait on a stream without a frame from its host."""

CLIENTS = ("broker", "host")
"""How names of processes begin that follow the protocol; a stranger does not."""


class _Conversation:
    """What a host has read and written on one stream."""

    def __init__(self) -> None:
        self.due: dict[int, float] = {}
        """Per call without an answer, by id: when its answer is late (virtual s)."""
        self.withdrawn: set[int] = set()
        self.has_unread = False
        """Frames waited at the last look, though the host could read; none was read since."""


class _Waiting:
    """What a client waits for on one stream."""

    def __init__(self) -> None:
        self.calls: set[int] = set()
        self.since: float | None = None
        """Since when (virtual s) it has waited for its calls and read nothing."""

    def note(self, now: float) -> None:
        """The calls have changed."""
        if not self.calls:
            self.since = None
        elif self.since is None:
            self.since = now


class WireWatch:
    """Sees every frame when it is written and when it is read."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.violations: list[Violation] = []
        self._loop = loop
        self._conversations: dict[int, _Conversation] = {}
        self._waiting: dict[int, _Waiting] = {}
        self._passed_to: dict[str, set[bytes]] = {}
        """Per host's process, by name: the calls that other hosts have forwarded to it."""
        self._sent_to: dict[str, set[bytes]] = {}
        """The same for calls of clients, which may send one call more than once."""

    def _found(self, checker: str, message: str) -> None:
        self.violations.append(
            Violation(checker, None, f"{self._loop.time():.3f} s: {message}")
        )

    def read(self, end: End, frame: bytes) -> None:
        """Check a frame that `end` reads."""
        connection = end.connection
        now = self._loop.time()
        if end is connection.client:
            if waiting := self._waiting.get(connection.number):
                answers = pb.HostFrame.FromString(frame).answers
                waiting.calls.difference_update(one.id for one in answers)
                waiting.since = None
                waiting.note(now)
            return
        seen = self._conversations.setdefault(connection.number, _Conversation())
        seen.has_unread = False
        parsed = pb.ClientFrame.FromString(frame)
        known = self._passed_to if connection.is_between_hosts else self._sent_to
        asked = known.setdefault(end.name, set())
        for call in parsed.calls:
            seen.due[call.id] = now + (call.deadline_ms or DEADLINE_MS) / 1000 + LATE_S
            asked.add(asked_by(call))
        for number in parsed.cancelled:
            if seen.due.pop(number, None) is not None:
                seen.withdrawn.add(number)

    def written(self, end: End, frame: bytes) -> None:
        """Check a frame that `end` sends."""
        connection = end.connection
        if end is connection.server:
            self._answered(connection, pb.HostFrame.FromString(frame))
        elif end.name.startswith(CLIENTS):
            parsed = pb.ClientFrame.FromString(frame)
            waiting = self._waiting.setdefault(connection.number, _Waiting())
            waiting.calls.update(call.id for call in parsed.calls)
            waiting.calls.difference_update(parsed.cancelled)
            waiting.note(self._loop.time())
            if connection.is_between_hosts:
                self._passed_on(end.name, parsed)

    def _answered(self, connection: Connection, frame: pb.HostFrame) -> None:
        seen = self._conversations[connection.number]
        for answer in frame.answers:
            if answer.id in seen.withdrawn:
                seen.withdrawn.discard(answer.id)  # Answer and cancellation crossed.
            elif seen.due.pop(answer.id, None) is None:
                name = connection.server.name
                self._found(
                    "misanswered", f"{name} answers {answer.id}, which has no answer due"
                )

    def _passed_on(self, name: str, frame: pb.ClientFrame) -> None:
        passed, sent = self._passed_to.get(name, set()), self._sent_to.get(name, set())
        for call in frame.calls:
            asked = asked_by(call)
            if call.HasField("status"):
                continue  # A host pings a silent host by such calls.
            if asked in passed and asked not in sent:
                self._found("passed_twice", f"{name} passes on what was passed to it")

    def look(self, connections: Iterable[Connection]) -> None:
        """Report calls and frames that have waited for too long."""
        now = self._loop.time()
        for connection in connections:
            if waiting := self._waiting.get(connection.number):
                self._look_at_client(connection.client, waiting)
            seen = self._conversations.get(connection.number)
            end = connection.server
            if seen is None or end.error is not None or end.owner is None:
                continue
            is_full = len(seen.due) >= connection.streams.plan.limits.calls_max
            if end.owner.is_paused or end.is_blocked or is_full:
                seen.has_unread = False
                seen.due = {one: max(due, now + LATE_S) for one, due in seen.due.items()}
            else:
                if seen.has_unread:
                    calls = len(seen.due)
                    self._found("unread", f"{end.name} reads no further, with {calls} calls")
                seen.has_unread = bool(end.unread)
            for number, due in list(seen.due.items()):
                if due < now:
                    del seen.due[number]
                    self._found("overdue", f"{end.name} says nothing of call {number} in time")

    def _look_at_client(self, client: End, waiting: _Waiting) -> None:
        now, owner = self._loop.time(), client.owner
        calls_max = client.connection.streams.plan.limits.calls_max
        if owner is None or owner.is_paused or owner.is_dead or client.error is not None:
            waiting.since = None
        elif len(waiting.calls) >= calls_max:
            waiting.since = now  # A ping would be one call too many.
        elif waiting.since is not None and now - waiting.since > SILENCE_MAX_S:
            waiting.since = None
            host = client.other.name
            self._found("silent_host", f"{client.name} still waits for {host}, which is silent")

    def start(self, connections: dict[int, Connection]) -> None:
        """Look at `connections` every `LOOK_S` from now on."""

        def again() -> None:
            self.look(list(connections.values()))
            self._loop.call_later(LOOK_S, again, context=WORLD_CONTEXT)

        again()

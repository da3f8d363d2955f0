"""A checker of a partition's feed: its source and a replica, in cases that no world leads to.

The source's machine applies a log of the run in small steps, is loaded again at any position,
and gains and loses its session for a claim. No frame is lost out of order, so the replica must
refuse nothing. It must be ready exactly when it was told so for its broker's last claim.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from random import Random

from tierledger.actors.calls import LEADER
from tierledger.actors.feed.frames import FeedFenced, FeedReady, Frame, SnapshotBegun
from tierledger.actors.feed.replica import Replica
from tierledger.actors.feed.source import FeedSource
from tierledger.events.commands import Claim
from tierledger.events.log_events import Event
from tierledger.events.partition.evolve import evolve_all
from tierledger.events.partition.state import PartitionState
from tierledger.simulation.checkers.violation import ASKED, Violation
from tierledger.simulation.history.final_log import FinalLog

EVENTS_MAX = 40
"""How many of a log's events are applied; the machine is loaded again several times."""


def misfed(log: FinalLog, seed: int, count: int) -> Iterator[Violation]:
    """One of `count` random steps of a feed has a wrong result.

    The log can be folded.
    """
    asked = _Asked(log, Random(f"{seed}:feed"))
    for _ in range(count):
        asked.happen()
    asked.finish()
    for checker, why in asked.wrong[:1]:
        yield Violation(checker, log.key, f"{ASKED}, of its feed: {why}")


class _Asked:
    """A machine with its feed source, and one replica."""

    def __init__(self, log: FinalLog, random: Random) -> None:
        self.wrong: list[tuple[str, str]] = []
        self._log, self._random = log, random
        self._end = min(len(log.events), EVENTS_MAX)
        self.state = PartitionState(log.topic_id_partition, log.genesis)
        self._go_to(int(random.random() * self._end))
        self._under: dict[Claim, tuple[int, int]] = {}
        """Claim to the session that the machine serves it under, and where that began."""
        self._sessions = 0
        self._source = FeedSource(self, self._session_under)
        self._replica = Replica(log.key, LEADER)
        self._number: int | None = None
        self._way: deque[tuple[Frame, int]] = deque()
        """Frames on their way, each with the position that made the replica ready when sent."""
        self._claim = Claim(1, 1, 0)
        self._got_ready = False
        self._replica.expect(self._claim)

    def _session_under(self, claim: Claim) -> int | None:
        known = self._under.get(claim)
        return None if known is None else known[0]

    def _go_to(self, end: int) -> list[Event]:
        """Apply the events before position `end`."""
        events = list(self._log.events[self.state.next_position : end])
        evolve_all(self.state, events, end.to_bytes(32, "big"))
        return events

    def happen(self) -> None:
        draw = self._random.random
        match int(draw() * 12):
            case 0 | 1:
                self._grow(1 + int(draw() * 3))
            case 2 | 3 | 4:
                self._send(1 + int(draw() * 6))
                self._receive(len(self._way))
            case 5:
                self._send(1 + int(draw() * 6))
            case 6:
                self._receive(int(draw() * 6))
            case 7:
                self._leave()
            case 8:
                self._announce()
            case 9:
                self._sessions += 1
                at = self.state.next_position - 1
                self._under[self._claim] = self._sessions, at
            case 10:
                self._under.pop(self._claim, None)
            case _:
                self._load()

    def _grow(self, most: int) -> None:
        if events := self._go_to(min(self.state.next_position + most, self._end)):
            self._source.changed(events)

    def _load(self) -> None:
        """Restart the machine at an earlier position, as from a checkpoint."""
        end = int(self._random.random() * (self.state.next_position + 1))
        self.state = PartitionState(self._log.topic_id_partition, self._log.genesis)
        self._go_to(end)
        self._under.clear()
        self._source.restarted()

    def _announce(self) -> None:
        self._claim = self._claim._replace(announcement=self._claim.announcement + 1)
        self._got_ready = False
        self._replica.expect(self._claim)
        if self._number is not None:
            self._source.expect(self._number, self._claim)
        self._see()

    def _leave(self) -> None:
        """End the subscription; frames on their way are lost."""
        if self._number is not None:
            self._source.drop(self._number)
            self._number = None
        self._way.clear()

    def _send(self, limit: int) -> bool:
        """Send up to `limit` frames; returns whether there were as many."""
        if self._number is None:
            self._number = self._source.subscribe(self._replica.subscription())
        self._source.hash_more()
        frames = self._source.take(self._number, limit)
        if (held := self._source.unproven(self._number)) is not None:
            is_held = held[1] == (held[0] + 1).to_bytes(32, "big")
            self._source.proven(self._number, held, is_held=is_held)
            frames = self._source.take(self._number, limit)
        _, since = self._under.get(self._claim, (0, self._end))
        self._way.extend((frame, since) for frame in frames)
        return len(frames) == limit

    def _receive(self, most: int) -> None:
        for _ in range(min(most, len(self._way))):
            frame, since = self._way.popleft()
            refusal = self._replica.take(frame)
            if refusal is not None:
                self.wrong.append(("fed_refused", refusal.reason))
                self._leave()
                return
            match frame:
                case SnapshotBegun():
                    self._got_ready = False
                case FeedReady(claim=claim) if claim == self._claim:
                    self._got_ready = True
                    if self._replica.position < since:
                        why = f"it is ready at {self._replica.position}, and needs {since}"
                        self.wrong.append(("early_ready", why))
                case FeedFenced(claim=claim) if claim == self._claim:
                    self._got_ready = False
                case _:
                    pass
            self._see()

    def _see(self) -> None:
        if self._replica.is_ready != self._got_ready:
            why = (
                f"its replica at position {self._replica.position} is not ready for "
                f"{self._claim}, after `Ready`"
                if self._got_ready
                else f"its replica at position {self._replica.position} is ready for "
                f"{self._claim}, without `Ready`"
            )
            self.wrong.append(("early_ready", why))

    def finish(self) -> None:
        """Bring the machine to the log's end, under the last claim; the replica must follow."""
        self._grow(self._end)
        self._under[self._claim] = self._sessions + 1, self.state.next_position - 1
        while self._send(16):
            pass
        self._receive(len(self._way))
        at, is_ready = self._replica.position, self._replica.is_ready
        if not self._replica.is_whole or at != self.state.next_position - 1 or not is_ready:
            end = self.state.next_position - 1
            why = f"in the end its replica is at {at} of {end}, {'not ' * (not is_ready)}ready"
            self.wrong.append(("fed_refused", why))

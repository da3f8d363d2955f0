"""A host as a pure state machine: which leaders and followers run there, and in what order.

Rule 1: the coordinator's placements and releases count by their numbers, however late and often
they come; see `PlacementOrder`.
Rule 2: each ping reports to the coordinator the leaders that ended without its order and the
claims that did not get to lead, until the partition is placed here anew.
Rule 3: a read of a partition that no broker hosts waits for a load from the store that begins
after the read came. So all that was durable before the read is in its answer. Reads of one
partition share a load.

Calls to leaders and followers do not pass through this machine, nor do their effects: the
shells look the partition up and hand both on. No I/O, clock or Ray here: the shells carry
effects out, one on asyncio and one in the simulator.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from itertools import count
from typing import Any, assert_never

from tierledger.actors import messages as partition
from tierledger.actors.calls import (
    FOLLOWER,
    LEADER,
    STORAGE,
    PartitionKey,
    Placement,
    QueryCall,
    Refusal,
)
from tierledger.actors.host import messages as msg
from tierledger.actors.host.placement_order import PlacementOrder
from tierledger.actors.story import Story
from tierledger.events.commands import CloseSession
from tierledger.events.errors import NotReady, Overloaded

LOADS_AT_ONCE = 8
"""Partitions that load at the same time; more would only compete for the store. Leaders wait
for other leaders alone: callers wait for them."""

READS_MAX = 1024
"""Reads that may wait for a load; the next is answered `Overloaded` at once."""


class LifePhase(Enum):
    """Where a partition is in its life on the host."""

    QUEUED = "queued"
    """Its load waits for other loads to end."""
    LOADING = "loading"
    RUNNING = "running"
    LEAVING = "leaving"
    """It was stopped, and still serves the calls that it had accepted."""
    GONE = "gone"


_COORDINATOR = frozenset({msg.Placed, msg.BrokerLeft})
_READS = frozenset({msg.ReadArrived, msg.ReadGivenUp})

HEARS: dict[LifePhase, frozenset[type[Any]]] = {
    LifePhase.QUEUED: _COORDINATOR | _READS,
    LifePhase.LOADING: _COORDINATOR | _READS | {msg.Loaded},
    LifePhase.RUNNING: _COORDINATOR | {msg.Ended, msg.Refused},
    LifePhase.LEAVING: _COORDINATOR | {msg.Ended, msg.Refused},
}
"""Stimuli that may arrive about a life in each phase; for one that is gone, all are late.

A life that has not loaded yet can only end because it is stopped, and is gone at once.
"""


class Life:
    """One stay of a leader or follower, or one load for reads."""

    __slots__ = ("assignment", "calls", "key", "later", "number", "phase", "role")

    def __init__(self, number: int, key: PartitionKey, role: str) -> None:
        self.number = number
        self.key = key
        self.role = role
        self.phase = LifePhase.QUEUED
        self.assignment = 0
        """The number of its newest assignment."""
        self.calls: dict[int, QueryCall] = {}
        """Reads that are answered once this life has loaded, by caller."""
        self.later: dict[int, QueryCall] = {}
        """Reads that came after the load had begun, by caller: they need the next load."""


CHECKS: list[Callable[[HostMachine], None]] = []
"""Called after each step: for tests."""


class HostMachine:
    """Knows what runs on one host. Talk to it through `handle` only."""

    def __init__(self, opener: bytes) -> None:
        """`opener`: names this process in the sessions that are opened here."""
        self.lives: dict[int, Life] = {}
        self.seats: dict[tuple[PartitionKey, str], Life] = {}
        """The same lives by partition and role; each pair has one life at a time."""
        self.order = PlacementOrder()
        self.lost: dict[PartitionKey, int] = {}
        """Leaders that ended here and were not placed anew, with their last assignment."""
        self.refused: dict[PartitionKey, Refusal] = {}
        """Claims that did not get to lead here, until the partition's next placement."""
        self.is_closing = False
        self.story = Story()
        self.leaders: deque[Life] = deque()
        """Leaders that wait to load; some of them may be gone already."""
        self.others: deque[Life] = deque()
        """The same of all other lives."""
        self.loading: dict[int, Life] = {}
        self.readers: dict[int, Life] = {}
        """Reads that wait for a load: the caller's number to the life that loads."""
        self._opener = opener
        self._numbers = count(1)

    def handle(self, stimulus: msg.Stimulus) -> list[msg.Effect]:
        """The effects that `stimulus` calls for, to be carried out in order.

        Raises:
            AssertionError: `stimulus` may not arrive in this phase; with the last steps.
        """
        life = self._about(stimulus)
        if life is not None and type(stimulus) not in HEARS[life.phase]:
            raise AssertionError(
                f"{stimulus!r} while {life.key} is {life.phase.value}; {self.story}"
            )
        effects = self._handle(stimulus, life)
        self.story.note(stimulus, None if life is None else life.number, effects)
        for check in CHECKS:
            check(self)
        return effects

    def behind(self, is_loading: Callable[[int], bool]) -> list[PartitionKey]:
        """Partitions whose follower here has not caught up, as `is_loading` tells by life."""
        return [
            life.key
            for life in self.lives.values()
            if life.role == FOLLOWER and is_loading(life.number)
        ]

    def runs(self, placed: int | None) -> tuple[tuple[PartitionKey, str, int], ...]:
        """What runs here, by partition, role and placement; nothing if that is all `placed`.

        A release is lost if the coordinator ends before it has sent it.
        """
        found = tuple(
            (life.key, life.role, life.assignment)
            for life in self.lives.values()
            if life.role != STORAGE and life.phase is not LifePhase.LEAVING
        )
        return found if placed is not None and len(found) > placed else ()

    def _about(self, stimulus: msg.Stimulus) -> Life | None:
        match stimulus:
            case msg.Placed(placement=placement):
                return self.seats.get((placement.key, placement.role))
            case msg.BrokerLeft(close=close):
                return self.seats.get((close.key, LEADER))
            case msg.ReadArrived(call=call):
                return self.seats.get((call.key, STORAGE))
            case msg.ReadGivenUp(reply_to=reply_to):
                return self.readers.get(reply_to)
            case msg.CloseArrived():
                return None
            case _:
                return self.lives.get(stimulus.life)

    def _handle(self, stimulus: msg.Stimulus, life: Life | None) -> list[msg.Effect]:
        match stimulus:
            case msg.Placed(placement=placement, now_ms=now_ms):
                return self._placed(placement, life, now_ms)
            case msg.ReadArrived(reply_to=reply_to, call=call):
                return self._read_arrived(reply_to, call, life)
            case msg.CloseArrived(now_ms=now_ms):
                return self._close(now_ms)
            case _:
                return [] if life is None else self._handle_life(life, stimulus)

    def _handle_life(
        self,
        life: Life,
        stimulus: msg.BrokerLeft | msg.Loaded | msg.Refused | msg.Ended | msg.ReadGivenUp,
    ) -> list[msg.Effect]:
        match stimulus:
            case msg.BrokerLeft(close=close, now_ms=now_ms):
                command = CloseSession(close.claim, "the broker leads no more")
                arrived = partition.CommandArrived(None, command, now_ms)
                return [msg.Feed(life.number, arrived)]
            case msg.Loaded():
                return self._loaded(life)
            case msg.Refused(refused=refused):
                self.refused[life.key] = Refusal.of(refused)
                return []
            case msg.Ended(reason=reason):
                return self._ended(life, reason)
            case msg.ReadGivenUp(reply_to=reply_to):
                return self._given_up(reply_to, life)
            case _:
                assert_never(stimulus)

    # Placements.

    def _placed(self, placement: Placement, life: Life | None, now_ms: int) -> list[msg.Effect]:
        assignment = placement.assignment
        if self.order.is_late(placement, None if life is None else life.assignment):
            return []
        if assignment is None:
            assert life is not None, "a release of nothing is late"
            is_released = not placement.is_moved
            stop = partition.StopArrived(None, now_ms, is_released=is_released)
            return self._stop(life, stop)
        if self.is_closing:
            return []  # This process ends; the coordinator will use another host.
        if placement.role == LEADER:
            self.refused.pop(placement.key, None)
        assigned = partition.Assigned(assignment, None, now_ms, self._opener)
        if life is not None:
            life.assignment = assignment.number
            if life.phase is LifePhase.LEAVING:
                life.phase = LifePhase.RUNNING  # A new claim ends the stop.
            return [msg.Feed(life.number, assigned)]
        life = self._new_life(placement.key, placement.role)
        life.assignment = assignment.number
        tip = placement.key.named(placement.topic)
        if placement.role == LEADER:
            self.lost.pop(placement.key, None)
            begin = msg.Begin(life.number, tip, LEADER, assigned)
            return [begin, *self._load_next()]
        begin = msg.Begin(life.number, tip, FOLLOWER)
        return [begin, *self._load_next(), msg.Feed(life.number, assigned)]

    def _stop(self, life: Life, stop: partition.StopArrived) -> list[msg.Effect]:
        feed = msg.Feed(life.number, stop)
        if life.phase in {LifePhase.QUEUED, LifePhase.LOADING}:  # It has accepted no calls.
            return [feed, *self._forget(life)]
        life.phase = LifePhase.LEAVING
        return [feed]

    def _close(self, now_ms: int) -> list[msg.Effect]:
        """Stop all lives. Sessions stay open: their brokers lead on, served by another host."""
        self.is_closing = True
        self.leaders.clear()
        self.others.clear()
        stop = partition.StopArrived(msg.CLOSING, now_ms, is_released=False)
        closed = NotReady("the host is being closed")
        effects: list[msg.Effect] = [partition.ReplyError(one, closed) for one in self.readers]
        self.readers.clear()
        for life in list(self.lives.values()):
            effects += self._stop(life, stop)
        return effects if self.lives else [*effects, msg.Closed()]

    # Lives.

    def _new_life(self, key: PartitionKey, role: str) -> Life:
        life = Life(next(self._numbers), key, role)
        self.lives[life.number] = self.seats[key, role] = life
        (self.leaders if role == LEADER else self.others).append(life)
        return life

    def _load_next(self) -> list[msg.Effect]:
        """Begin the loads that wait, as far as there is room."""
        effects: list[msg.Effect] = []
        while (life := self._next_to_load()) is not None:
            life.phase = LifePhase.LOADING
            self.loading[life.number] = life
            effects.append(msg.Load(life.number))
        return effects

    def _next_to_load(self) -> Life | None:
        led = sum(life.role == LEADER for life in self.loading.values())
        for waiting, before in ((self.leaders, led), (self.others, len(self.loading))):
            while waiting and before < LOADS_AT_ONCE:
                life = waiting.popleft()
                if life.phase is LifePhase.QUEUED:
                    return life  # Else it was stopped meanwhile.
        return None

    def _loaded(self, life: Life) -> list[msg.Effect]:
        if life.role == STORAGE:
            return self._read(life)
        self.loading.pop(life.number, None)
        life.phase = LifePhase.RUNNING
        return self._load_next()

    def _ended(self, life: Life, reason: str) -> list[msg.Effect]:
        if life.role == LEADER:
            self.order.ended(life.key, life.assignment)
        if life.role == LEADER and reason not in {partition.STOPPED, partition.REFUSED}:
            self.refused.pop(life.key, None)
            self.lost[life.key] = life.assignment
        effects = self._forget(life)
        if self.is_closing and not self.lives:
            effects.append(msg.Closed())
        return effects

    def _forget(self, life: Life) -> list[msg.Effect]:
        life.phase = LifePhase.GONE
        del self.lives[life.number], self.seats[life.key, life.role]
        self.loading.pop(life.number, None)
        return [msg.Drop(life.number), *self._load_next()]

    # Reads of partitions that no broker hosts.

    def _read_arrived(
        self, reply_to: int, call: QueryCall, life: Life | None
    ) -> list[msg.Effect]:
        if len(self.readers) >= READS_MAX:
            full = f"{READS_MAX} reads of released partitions wait; try again later"
            return [partition.ReplyError(reply_to, Overloaded(full))]
        if self.is_closing:
            return [partition.ReplyError(reply_to, NotReady("the host is being closed"))]
        if life is None:
            return self._begin_read(call.key, {reply_to: call})
        self.readers[reply_to] = life
        waiting = life.calls if life.phase is LifePhase.QUEUED else life.later
        waiting[reply_to] = call
        return []

    def _begin_read(self, key: PartitionKey, calls: dict[int, QueryCall]) -> list[msg.Effect]:
        life = self._new_life(key, STORAGE)
        life.calls = calls
        self.readers.update(dict.fromkeys(calls, life))
        return [msg.Begin(life.number, key.named(""), STORAGE), *self._load_next()]

    def _given_up(self, reply_to: int, life: Life) -> list[msg.Effect]:
        del self.readers[reply_to]
        life.calls.pop(reply_to, None)
        life.later.pop(reply_to, None)
        if life.calls:
            return []
        stop = partition.StopArrived(None, 0)  # Else it may retry an unreachable store.
        return [msg.Feed(life.number, stop), *self._over(life)]

    def _read(self, life: Life) -> list[msg.Effect]:
        effects: list[msg.Effect] = []
        for reply_to, call in life.calls.items():
            del self.readers[reply_to]
            asked = partition.QueryArrived(reply_to, call.query, call.position_min)
            effects.append(msg.Feed(life.number, asked))
        return effects + self._over(life)

    def _over(self, life: Life) -> list[msg.Effect]:
        """End a load for reads, and queue the next one for reads that came meanwhile."""
        effects = self._forget(life)
        return effects + self._begin_read(life.key, life.later) if life.later else effects

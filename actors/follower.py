"""The rules by which one partition's follower lives, as a pure state machine.

Rule 1: a follower reads the log, never the leader, so it is right even when its leader is not.
Rule 2: an answer is given at a position, and never behind the one its caller has seen.
Rule 3: a follower is ready for an announcement once a read of its next slot has found that slot
free. The read has to begin after the announcement was durable. A list of the log's keys proves
nothing: it may be behind.
"""

from __future__ import annotations

from enum import Enum
from typing import assert_never

from typing_extensions import override

from tierledger.actors import messages as msg
from tierledger.actors.replaying import Replaying, quarantine_alarm
from tierledger.events.commands import Claim
from tierledger.events.errors import (
    DataError,
    NotLeader,
    NotReady,
    Overloaded,
    Quarantined,
)
from tierledger.storage.partition.loading import LoadedPartition
from tierledger.storage.serde import MetadataSerDe

WAITING_MAX = 1024
"""Reads that may wait for a position; the next is answered `Overloaded` at once."""


RETRY_DELAY_MS = 50
"""Pause before a slot is read again that the store failed to read."""


class FollowerPhase(Enum):
    """Where a follower is in its life."""

    LOADING = "loading"
    FOLLOWING = "following"
    QUARANTINED = "quarantined"
    GONE = "gone"


NEVER_HEARD: frozenset[type[msg.Stimulus]] = frozenset(
    {msg.AppendAnswered, msg.AppendRefused, msg.CheckpointDone, msg.OracleAnswered}
)
"""Answers to effects that only leaders have. All other stimuli may arrive in each phase."""


class Follower(Replaying):
    """Replays one partition's log. Talk to it through `handle` only."""

    def __init__(self, serde: MetadataSerDe) -> None:
        super().__init__(serde)
        self.phase = FollowerPhase.LOADING
        self._waiting: list[msg.QueryArrived] = []
        self._reading = False
        self._read_again = False
        self._hint_max = -1
        """The highest position of the hints since the log was last read to its end."""
        self._claims: dict[int, Claim] = {}
        self._ready: set[Claim] = set()
        self._awaiting_end: list[Claim] = []
        self._looking: list[Claim] = []
        """Claims that were announced before the read of the next slot that is under way."""

    def handle(self, stimulus: msg.Stimulus) -> list[msg.Effect]:  # noqa: C901, PLR0911, PLR0912 - One case each.
        """The effects that `stimulus` calls for, to be carried out in order."""
        match stimulus:
            case msg.StateLoaded():
                self._begin(stimulus)
                self._reading = False  # A read under way is of a log that was forgotten.
                return self._read()
            case msg.LogRead():
                return self._log_read(stimulus)
            case msg.LoadFailed():
                self._reading = False
                return self._quarantine(str(stimulus.error))
            case msg.StepFailed(cause=cause, story=story):
                return self._quarantine(cause, story)
            case msg.Assigned():
                return self._assigned(stimulus)
            case msg.HintArrived():
                return self._hinted(stimulus.position)
            case msg.QueryArrived():
                return self._query(stimulus)
            case msg.QueryExpired():
                return self._expired(stimulus)
            case msg.CommandArrived():
                error = NotLeader("a follower takes no writes")
                return [msg.ReplyError(stimulus.reply_to, error)]
            case msg.CommandsArrived(commands=commands):
                return [effect for one in commands for effect in self.handle(one)]
            case msg.StopArrived():
                return self._stop(stimulus)
            case msg.DeletionsTold():
                return []
            case msg.SlotRead():
                return self._slot_read(stimulus)
            case msg.ProbeFailed():
                return self._look_failed()
            case (
                msg.AppendAnswered()
                | msg.AppendRefused()
                | msg.CheckpointDone()
                | msg.OracleAnswered()
            ):
                return []
            case _:
                assert_never(stimulus)

    @property
    def waiting(self) -> int:
        """Reads that wait for a position."""
        return len(self._waiting)

    def standby(self) -> LoadedPartition | None:
        """A copy for a leader on this host to begin with; None if nothing was read yet."""
        if self.state is None or self._trouble is not None:
            return None
        return LoadedPartition(self.state.copy(), self.next_batch)

    def is_ready_for(self, claim: Claim) -> bool:
        """Whether all that the log held when `claim` was announced is applied."""
        return self.phase is FollowerPhase.FOLLOWING and claim in self._ready

    @override
    def session_under(self, claim: Claim) -> int | None:
        # A follower's claims belong to no session: a new leader leaves them as they are.
        return 0 if self.is_ready_for(claim) else None

    def _assigned(self, assigned: msg.Assigned) -> list[msg.Effect]:
        claim = assigned.assignment.claim
        former = self._claims.get(claim.broker_id)
        if former is not None:
            if former > claim:
                return [msg.Reply(assigned.reply_to, self.position)]
            self._ready.discard(former)
        self._claims[claim.broker_id] = claim
        if self._trouble is None:
            self._awaiting_end.append(claim)
        return [msg.Reply(assigned.reply_to, self.position), *self._read(again=True)]

    def _read(self, *, again: bool = False) -> list[msg.Effect]:
        """Read on. `again`: once more after a read that may have begun too early."""
        if (
            self.state is None
            or self.phase is FollowerPhase.QUARANTINED
            or self.phase is FollowerPhase.GONE
        ):
            return []
        if self._reading:
            self._read_again = self._read_again or again
            return []
        self._reading = True
        return [msg.ReadLog(self.next_batch)]

    def _hinted(self, position: int) -> list[msg.Effect]:
        if position <= self.position:
            return []
        self._hint_max = max(position, self._hint_max)
        return self._read()

    def _log_read(self, read: msg.LogRead) -> list[msg.Effect]:
        self._reading = False
        state = self.state
        if state is None or read.number != self.next_batch or self._trouble is not None:
            return []
        for batch in read.batches:
            try:
                self._take(state, batch)
            except DataError as error:
                return self._quarantine(str(error))
        effects = self._serve()
        if read.batches and not read.is_end:
            self._read_again = False
            return effects + self._read()
        # The hinted events may have been written after this read looked for them. They may
        # also not exist, so a hint causes one more read, not two.
        if self._read_again or self._hint_max > self.position:
            self._read_again, self._hint_max = False, -1
            return effects + self._read()
        self.phase = FollowerPhase.FOLLOWING
        return effects + self._look()

    def _look(self, delay_ms: int = 0) -> list[msg.Effect]:
        """Read the next slot if a claim waits to know whether the log ends; one at a time."""
        if self._trouble is not None or self._looking or not self._awaiting_end:
            return []
        self._looking, self._awaiting_end = self._awaiting_end, []
        return [msg.ReadSlot(self.next_batch, delay_ms)]

    def _slot_read(self, read: msg.SlotRead) -> list[msg.Effect]:
        looked, self._looking = self._looking, []
        if read.number == self.next_batch and read.value is None:
            in_force = self._claims.values()
            self._ready.update(claim for claim in looked if claim in in_force)
            return self._look()
        self._awaiting_end = looked + self._awaiting_end
        return self._read()

    def _look_failed(self) -> list[msg.Effect]:
        self._awaiting_end, self._looking = self._looking + self._awaiting_end, []
        return self._look(RETRY_DELAY_MS)

    def _serve(self) -> list[msg.Effect]:
        due = [q for q in self._waiting if q.position_min <= self.position]
        if due:
            self._waiting = [q for q in self._waiting if q.position_min > self.position]
        return [msg.Answer(query.reply_to, query.query) for query in due]

    def _query(self, arrived: msg.QueryArrived) -> list[msg.Effect]:
        is_here = self.state is not None and arrived.position_min <= self.position
        if self.phase is FollowerPhase.QUARANTINED and is_here:
            return [msg.Answer(arrived.reply_to, arrived.query, stale=True)]
        if self._trouble is not None:
            return [msg.ReplyError(arrived.reply_to, self._trouble)]
        if self.phase is FollowerPhase.LOADING:
            error = NotReady("the partition's log is being loaded")
            return [msg.ReplyError(arrived.reply_to, error)]
        if is_here:
            return [msg.Answer(arrived.reply_to, arrived.query)]
        if len(self._waiting) >= WAITING_MAX:
            full = Overloaded(f"{WAITING_MAX} reads wait for this partition; try again later")
            return [msg.ReplyError(arrived.reply_to, full)]
        self._waiting.append(arrived)
        return self._read()

    def _expired(self, expired: msg.QueryExpired) -> list[msg.Effect]:
        late = [q for q in self._waiting if q.reply_to == expired.reply_to]
        self._waiting = [q for q in self._waiting if q.reply_to != expired.reply_to]
        return [
            msg.ReplyError(
                query.reply_to,
                NotReady(f"position {query.position_min} is not here yet ({self.position} is)"),
            )
            for query in late
        ]

    def _quarantine(self, cause: str, story: str = "") -> list[msg.Effect]:
        if self.phase in {FollowerPhase.QUARANTINED, FollowerPhase.GONE}:
            return []
        self.phase = FollowerPhase.QUARANTINED
        self._trouble = Quarantined(f"the log is not readable any further: {cause}")
        self._read_again, self._awaiting_end, self._looking = False, [], []
        waiting, self._waiting = self._waiting, []
        return [
            quarantine_alarm(cause, story),
            *(msg.ReplyError(query.reply_to, self._trouble) for query in waiting),
        ]

    def _stop(self, stop: msg.StopArrived) -> list[msg.Effect]:
        self.phase = FollowerPhase.GONE
        self._trouble = NotReady("this host does not follow the partition any more")
        waiting, self._waiting = self._waiting, []
        effects: list[msg.Effect] = [
            msg.ReplyError(query.reply_to, self._trouble) for query in waiting
        ]
        return [*effects, msg.Gone("stopped", stop.reply_to)]

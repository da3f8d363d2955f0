"""The rules by which one partition's leader lives, as a pure state machine.

Rule 1: the log is the lease. The leader serves nothing before its own `SessionOpened` is
durable and every event before that is applied. If another writer has filled the leader's next
slot, the leader is fenced and ends.
Rule 2: no state that a caller can read changes before the change is durable. One batch is in
flight at a time; commands that arrive meanwhile form the next batch.
Rule 3: a reply that appends nothing is a read. It is sent only after a probe of the next slot
or an append that began after the call arrived: that proves that no newer leader had written.

No I/O, clock or Ray here: the host carries the effects out, and the simulator can, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import assert_never

from typing_extensions import override

from tierledger.actors import messages as msg
from tierledger.actors.holds import Deletions
from tierledger.actors.leader.batch import (
    InFlight,
    damage_of,
    draft,
    let_go_bytes,
    refusals,
    unkept,
)
from tierledger.actors.leader.checkpoints import Checkpoints
from tierledger.actors.leader.claim import CLAIMS_MAX, WaitingClaims, is_under, open_command
from tierledger.actors.replaying import Replaying, quarantine_alarm
from tierledger.actors.sent_batch import NextStep, SentBatch
from tierledger.events import commands as cmd
from tierledger.events.errors import (
    DataError,
    NotLeader,
    NotReady,
    OutcomeUnknown,
    Overloaded,
    Quarantined,
    RemoteStorageError,
)
from tierledger.events.partition.decide import Limits
from tierledger.events.partition.overlay import Overlay
from tierledger.storage.partition.event_log import encode_batch
from tierledger.storage.serde import MetadataSerDe

INBOX_MAX = 1024
"""Calls that may wait for one partition; the next is answered `Overloaded` at once."""

SESSION_COMMANDS = (cmd.OpenSession, cmd.CloseSession)
"""The coordinator's commands. A full inbox takes them, too, since nobody would retry them."""

CHECKPOINT_EVENTS = 1000
"""Events between two checkpoints: 4 ms to replay, 2 ms to plan."""

LOADED_EVENTS = 20_000
"""The same while a log is read that has no checkpoint: a load that is broken off goes on from
there, and no checkpoint has to hold a whole log."""

RETRY_DELAY_MS = 50
"""Pause before the slot of an append without an answer is read (again)."""


class LeaderPhase(Enum):
    """Where a leader is in its life."""

    LOADING = "loading"
    LEADING = "leading"
    QUARANTINED = "quarantined"
    GONE = "gone"


_CALLS: frozenset[type[msg.Stimulus]] = frozenset(
    {
        msg.Assigned,
        msg.CommandArrived,
        msg.CommandsArrived,
        msg.QueryArrived,
        msg.QueryExpired,
        msg.StopArrived,
        msg.DeletionsTold,
    }
)
_ALWAYS = _CALLS | {msg.StepFailed, msg.CheckpointDone, msg.OracleAnswered}

HEARS: dict[LeaderPhase, frozenset[type[msg.Stimulus]]] = {
    LeaderPhase.LOADING: _ALWAYS | {msg.StateLoaded, msg.LogRead, msg.LoadFailed},
    LeaderPhase.LEADING: _ALWAYS
    | {msg.AppendAnswered, msg.AppendRefused, msg.SlotRead, msg.ProbeFailed},
}
"""Stimuli that may arrive in each phase. In the last two all may: answers come late."""


class Leader(Replaying):
    """Owns one partition's log while it leads. Talk to it through `handle` only."""

    def __init__(self, serde: MetadataSerDe, limits: Limits, first: msg.Assigned) -> None:
        super().__init__(serde)
        self.phase = LeaderPhase.LOADING
        self.undecided = WaitingClaims()
        """The claims about which the leader oracle is asked."""
        self._limits = limits
        self._deletions = Deletions()
        self._inbox: deque[msg.CommandArrived] = deque([open_command(first)])
        self._queries: list[msg.QueryArrived] = []
        self._has_claimed = False
        """Whether its session is durable: from then on it answers."""
        self._claims = 0
        """How often its claim found the slot taken."""
        self._in_flight: InFlight | None = None
        self._probe: list[msg.Effect] | None = None
        """Replies that wait until the next slot was found free; None: no probe is under way."""
        self._checkpoints = Checkpoints()
        self._is_held = False
        """Whether loading pauses until the checkpoint that is being written is done."""
        self._stop: msg.StopArrived | None = None

    def handle(self, stimulus: msg.Stimulus) -> list[msg.Effect]:  # noqa: C901, PLR0911, PLR0912
        """The effects that `stimulus` calls for, to be carried out in order."""
        match stimulus:  # However many cases: each is one line. The frequent ones go first.
            case msg.CommandsArrived(commands):
                return self._commands(commands)
            case msg.AppendAnswered():
                return self._append_answered(stimulus)
            case msg.QueryArrived():
                return self._query(stimulus)
            case msg.SlotRead():
                return self._slot_read(stimulus)
            case msg.StateLoaded():
                self._begin(stimulus)
                self._checkpoints.begin(stimulus.uncovered, stimulus.state.next_position)
                return [msg.ReadLog(self.next_batch)]
            case msg.LogRead():
                return self._log_read(stimulus)
            case msg.LoadFailed():
                return self._quarantine(str(stimulus.error))
            case msg.StepFailed(cause=cause, story=story):
                return self._quarantine(cause, story)
            case msg.Assigned():
                return self._command(open_command(stimulus))
            case msg.CommandArrived():
                return self._command(stimulus)
            case msg.QueryExpired():
                self._queries = [q for q in self._queries if q.reply_to != stimulus.reply_to]
                return []
            case msg.AppendRefused():
                return self._append_refused(stimulus)
            case msg.ProbeFailed():
                return self._probe_failed(stimulus)
            case msg.OracleAnswered():
                decidable = self.undecided.answered(stimulus)
                return [] if decidable is None else self._command(decidable)
            case msg.CheckpointDone():
                self._checkpoints.done(stimulus)
                return self._read_on() if self._is_held else self._pump()
            case msg.StopArrived():
                return self._stop_arrived(stimulus)
            case msg.DeletionsTold():
                self._deletions = stimulus.deletions
                return []
            case msg.HintArrived():
                return []
            case _:
                assert_never(stimulus)

    @property
    def waiting(self) -> int:
        """Commands and queries that wait here."""
        return len(self._inbox) + len(self._queries)

    @property
    def in_flight(self) -> int | None:
        """The number of the batch that is being appended; None if there is none."""
        return None if self._in_flight is None else self._in_flight.sent.number

    @property
    def is_alone(self) -> bool:
        """Whether its session is in the log, so that no former leader can append any more.

        Also if it is at its end: then it appends nothing either.
        """
        return self._has_claimed or self.phase in {LeaderPhase.QUARANTINED, LeaderPhase.GONE}

    @property
    def may_wait(self) -> bool:
        """Whether a command that comes now will be decided on; else it is refused at once."""
        return self.phase is LeaderPhase.LEADING and self._stop is None

    def holds(self, claim: cmd.Claim) -> bool:
        """Whether this leader holds the session that was opened for `claim`."""
        return self.session_under(claim) is not None

    @override
    def session_under(self, claim: cmd.Claim) -> int | None:
        """The number of the session that was opened for `claim`; None if not held here."""
        if self.state is None or not self._has_claimed or self.phase is not LeaderPhase.LEADING:
            return None
        session = self.state.session
        return session.number if session is not None and is_under(session, claim) else None

    # Loading and claiming.

    def _log_read(self, stimulus: msg.LogRead) -> list[msg.Effect]:
        state = self.state
        if self.phase is not LeaderPhase.LOADING or state is None:
            return []
        if stimulus.number != self.next_batch:
            return []
        for batch in stimulus.batches:
            try:
                self._checkpoints.applied(self._take(state, batch))
            except DataError as error:
                return self._quarantine(str(error))
        if stimulus.batches and not stimulus.is_end:
            return self._read_on()
        # This actor does not lead yet: its claim is the first command in the inbox. Only a
        # partition whose deletion has finished is served without a session, since that is
        # final and no session may be opened any more.
        self.phase = LeaderPhase.LEADING
        self._has_claimed = state.is_finished
        return self._pump()

    def _read_on(self) -> list[msg.Effect]:
        """Read on. Write a checkpoint if one is due; wait for it if the next is due, too."""
        effects = self._checkpoints.due(LOADED_EVENTS, self.next_batch)
        self._is_held = self._checkpoints.holds_back(LOADED_EVENTS)
        return effects if self._is_held else [*effects, msg.ReadLog(self.next_batch)]

    def _quarantine(self, cause: str, story: str = "") -> list[msg.Effect]:
        if self.phase in {LeaderPhase.QUARANTINED, LeaderPhase.GONE}:
            return []
        self.phase = LeaderPhase.QUARANTINED
        self._is_held = False
        self._trouble = Quarantined(f"the partition takes no writes: {cause}")
        effects: list[msg.Effect] = [quarantine_alarm(cause, story)]
        if self._in_flight is not None:
            doubt = OutcomeUnknown(f"it may be stored; the partition failed: {cause}")
            effects += refusals(self._in_flight.replies, doubt)
            self._in_flight = None
        effects += self._refuse_all(self._trouble)
        for query in self._queries:
            effects += self._query_in_quarantine(query)
        self._queries = []
        return effects if self._stop is None else effects + self._leave(msg.STOPPED)

    # Calls.

    def _command(self, arrived: msg.CommandArrived) -> list[msg.Effect]:
        return self._commands((arrived,))

    def _commands(self, commands: Sequence[msg.CommandArrived]) -> list[msg.Effect]:
        effects: list[msg.Effect] = []
        for arrived in commands:
            effects += self._queued(arrived)
        return effects + self._pump()

    def _queued(self, arrived: msg.CommandArrived) -> list[msg.Effect]:
        """Queue a command; the effects that it has before its turn comes."""
        if self.phase is LeaderPhase.GONE or not self._stays_for(arrived):
            return [msg.ReplyError(arrived.reply_to, self._gone_error())]
        if self._trouble is not None:
            return [msg.ReplyError(arrived.reply_to, self._trouble)]
        if len(self._inbox) >= INBOX_MAX and not isinstance(arrived.command, SESSION_COMMANDS):
            error = Overloaded(f"{INBOX_MAX} calls wait for this partition; try again later")
            return [msg.ReplyError(arrived.reply_to, error)]
        self._inbox.append(arrived)
        # A broker that no longer leads gives up its waiting claim now, not when its turn comes.
        if isinstance(arrived.command, cmd.CloseSession):
            return self.undecided.withdraw([arrived.command.claim])
        return []

    def _query(self, arrived: msg.QueryArrived) -> list[msg.Effect]:
        if self.phase is LeaderPhase.GONE:
            return [msg.ReplyError(arrived.reply_to, self._gone_error())]
        if self.phase is LeaderPhase.QUARANTINED:
            return self._query_in_quarantine(arrived)
        if len(self._queries) >= INBOX_MAX:
            error = Overloaded(f"{INBOX_MAX} reads wait for this partition; try again later")
            return [msg.ReplyError(arrived.reply_to, error)]
        if not self._has_claimed:
            not_ready = NotReady("the partition's log is being loaded")
            return [msg.ReplyError(arrived.reply_to, not_ready)]
        self._queries.append(arrived)
        return self._pump()

    def _query_in_quarantine(self, arrived: msg.QueryArrived) -> list[msg.Effect]:
        # A caller that has seen later events than the last good state must not go back.
        if self.state is None or arrived.position_min > self.position:
            assert self._trouble is not None, "a quarantine has its reason"
            return [msg.ReplyError(arrived.reply_to, self._trouble)]
        return [msg.Answer(arrived.reply_to, arrived.query, stale=True)]

    def _gone_error(self) -> RemoteStorageError:
        return self._trouble or NotLeader("this host does not lead the partition any more")

    # The one step that decides, appends or probes.

    def _pump(self) -> list[msg.Effect]:
        """Start the next append or probe if neither is in flight."""
        if self.phase is not LeaderPhase.LEADING or self._in_flight or self._probe is not None:
            return []
        if not self._inbox and not self._queries:
            return self._when_idle()
        assert self.state is not None, "a leader has loaded its log"
        drafted = draft(
            Overlay(self.state),
            self._inbox,
            self._limits,
            self._deletions,
            has_claimed=self._has_claimed,
        )
        leaving = None if self._stop is None else self._gone_error()
        effects = drafted.at_once
        if drafted.undecided or self.undecided:  # Rarely.
            effects = effects + self.undecided.hold_all(drafted.undecided, leaving)
            effects += self.undecided.withdraw(drafted.given_up)
            effects += self.undecided.overtake(one.command for one in drafted.commands)
        replies = drafted.replies
        replies += [msg.Answer(query.reply_to, query.query) for query in self._queries]
        self._queries = []
        if not drafted.events:
            if not replies:
                return effects + self._pump()
            self._probe = replies
            return [*effects, msg.ReadSlot(self.next_batch)]
        encoded = encode_batch(self._serde, drafted.events, self.state.chain_hash)
        self._in_flight = InFlight(
            sent=SentBatch(self.next_batch, encoded.value),
            chain_hash=encoded.chain_hash,
            events=tuple(drafted.events),
            commands=tuple(drafted.commands),
            replies=tuple(replies),
        )
        return [*effects, self._append(self._in_flight)]

    def _append(self, flight: InFlight) -> msg.Append:
        return msg.Append(flight.sent.number, flight.sent.value, self._beginning)

    def _when_idle(self) -> list[msg.Effect]:
        if self._stop is None:
            return self._checkpoints.due(CHECKPOINT_EVENTS, self.next_batch)
        assert self.state is not None, "a leader has loaded its log"
        session = self.state.session
        if self._stop.is_released and session is not None and session.is_open:
            close = cmd.CloseSession(session.claim, "no broker hosts the partition")
            self._inbox.append(msg.CommandArrived(None, close, self._stop.now_ms))
            return self._pump()
        effects = self._checkpoints.at_end(CHECKPOINT_EVENTS, self.next_batch)
        if self._checkpoints.is_writing:
            return effects
        return [*effects, *self._leave(msg.STOPPED)]

    def _stop_arrived(self, stop: msg.StopArrived) -> list[msg.Effect]:
        self._stop = stop
        dropped = self.undecided.drop(self._gone_error())
        if self.phase is not LeaderPhase.LEADING or not (self._in_flight or self._has_claimed):
            return dropped + self._leave(msg.STOPPED)
        # A batch in flight may be stored already: its callers wait for its true outcome.
        return dropped + self._pump()

    def _stays_for(self, arrived: msg.CommandArrived) -> bool:
        """Whether `arrived` is accepted. A stop accepts only a new claim, which ends it."""
        stop = self._stop
        if stop is None:
            return True
        if stop.reply_to is None and isinstance(arrived.command, cmd.OpenSession):
            self._stop = None  # The stop of a host that closes has somebody who waits for it.
            return True
        return False

    def _leave(self, reason: str) -> list[msg.Effect]:
        """Refuse the callers that still wait, and end."""
        self.phase = LeaderPhase.GONE
        self._is_held = False
        error = self._gone_error()
        effects = self._refuse_all(error)
        effects += [msg.ReplyError(query.reply_to, error) for query in self._queries]
        self._queries = []
        return [*effects, msg.Gone(reason, None if self._stop is None else self._stop.reply_to)]

    # Outcomes.

    def _append_answered(self, answered: msg.AppendAnswered) -> list[msg.Effect]:
        flight = self._in_flight
        if flight is None or answered.number != flight.sent.number:
            return []
        if answered.outcome is msg.AppendOutcome.UNKNOWN:
            self._in_flight = flight._replace(sent=flight.sent.in_doubt())
        return self._go_on(flight, flight.sent.answered(answered.outcome))

    def _go_on(self, flight: InFlight, step: NextStep, found: bytes = b"") -> list[msg.Effect]:
        """Go on with the append; `found`: the batch of another writer, if it has the slot."""
        number = flight.sent.number
        match step:
            case NextStep.SETTLE:
                return self._stored(flight)
            case NextStep.LOOK:
                return [msg.ReadSlot(number)]
            case NextStep.LOOK_LATER:
                return [msg.ReadSlot(number, delay_ms=RETRY_DELAY_MS)]
            case NextStep.SEND:
                return [self._append(flight)]
            case NextStep.LEAVE:
                return self._passed(flight)
            case NextStep.YIELD:
                return self._yield(flight, found)
            case NextStep.GIVE_UP:
                raise AssertionError("only a refusal leads there")

    def _yield(self, flight: InFlight, found: bytes) -> list[msg.Effect]:
        """Give the slot up, in which `found` is not what we sent.

        It is another leader's batch, or our own that was damaged since.
        """
        assert self.state is not None, "a leader has loaded its log"
        damage = damage_of(flight.sent.number, found, self._serde, self.state)
        if damage is None:
            return self._overtaken(flight.sent.number)
        self._in_flight = None
        return unkept(flight.replies, damage) + self._quarantine(str(damage))

    def _stored(self, flight: InFlight) -> list[msg.Effect]:
        assert self.state is not None, "a leader has loaded its log"
        before, let_go = self.state.session, let_go_bytes(self.state, flight.events)
        self._apply(self.state, flight.events, flight.chain_hash)
        if self.state.session != before and self._stop is None:
            self._inbox.extend(self.undecided.release())
        self._go_behind(flight.sent.number, flight.sent.value)
        self._in_flight = None
        self._checkpoints.applied(len(flight.events))
        self._has_claimed = True  # The first batch of a leader begins with its session.
        moved = msg.HeadMoved(self.position, let_go, self.state.delete is not None)
        effects = [*flight.replies, moved]
        checkpoint = self._checkpoints.due(CHECKPOINT_EVENTS, self.next_batch)
        if checkpoint and len(self.state.tombstones):
            forget = msg.CommandArrived(None, cmd.DropTombstones(), self.state.log_time_ms)
            self._inbox.append(forget)
        return effects + checkpoint + self._pump()

    def _append_refused(self, refused: msg.AppendRefused) -> list[msg.Effect]:
        """The store kept nothing: callers get its error. Session commands are retried here."""
        flight = self._in_flight
        if flight is None or refused.number != flight.sent.number:
            return []
        if flight.sent.refused() is NextStep.LOOK_LATER:
            return self._go_on(flight, NextStep.LOOK_LATER)
        self._in_flight = None
        effects = unkept(flight.replies, refused.error)
        if not self._has_claimed:
            return effects + self._leave("the claim could not be stored")
        if self._stop is not None and not self._inbox:
            # A session that stays open does no harm: the next one replaces it.
            return effects + self._leave(msg.STOPPED)
        again = [one for one in flight.commands if isinstance(one.command, SESSION_COMMANDS)]
        if not again:
            return effects + self._pump()
        self._inbox.extendleft(one._replace(reply_to=None) for one in reversed(again))
        self._probe = []  # So that nothing is appended before that slot was read.
        return [*effects, msg.ReadSlot(self.next_batch, delay_ms=RETRY_DELAY_MS)]

    def _slot_read(self, read: msg.SlotRead) -> list[msg.Effect]:
        flight = self._in_flight
        if flight is not None and read.number == flight.sent.number:
            return self._go_on(flight, flight.sent.seen(read), read.value or b"")
        if self._probe is None or read.number != self.next_batch:
            return []
        if read.value is not None or read.is_passed:
            return self._overtaken(read.number)
        replies, self._probe = self._probe, None
        return self._after_look(replies)

    def _probe_failed(self, failed: msg.ProbeFailed) -> list[msg.Effect]:
        if self._in_flight is not None and failed.number == self._in_flight.sent.number:
            return [msg.ReadSlot(failed.number, delay_ms=RETRY_DELAY_MS)]
        if self._probe is None or failed.number != self.next_batch:
            return []
        replies, self._probe = self._probe, None
        return self._after_look(unkept(replies, failed.error))

    def _after_look(self, effects: list[msg.Effect]) -> list[msg.Effect]:
        # The replies that were waiting for the look go out first: they were decided on the
        # state that it confirmed, and the next batch changes that state.
        #
        # An actor that has never led, has nothing left to decide and waits for no answer of the
        # oracle was refused. It looked only to see whether the session that refused it is still
        # the last one. So it ends here, and not where it was refused: first its callers hear.
        if not (self._has_claimed or self._inbox or self.undecided):
            return effects + self._leave(msg.REFUSED)
        return effects + self._pump()

    def _passed(self, flight: InFlight) -> list[msg.Effect]:
        """The log goes on behind our slot, which is empty: what stood in it was forgotten."""
        if not flight.sent.is_uncertain:
            return self._overtaken(flight.sent.number)
        self._in_flight, number = None, flight.sent.number
        error = OutcomeUnknown(f"batch {number} may have been stored, and is forgotten")
        self._trouble = NotLeader(f"batch {number} was passed by another leader")
        return [*unkept(flight.replies, error), *self._leave("fenced")]

    def _overtaken(self, number: int) -> list[msg.Effect]:
        """Another leader wrote the next batch: this one is fenced, its answers may be stale."""
        self._claims += 1
        flight, may_claim = self._in_flight, self._stop is None and self._claims < CLAIMS_MAX
        if not self._has_claimed and flight is not None and may_claim:
            # A former leader appended while we loaded: read its batches, then claim again.
            self._inbox.extendleft(reversed(flight.commands))
            self._in_flight = None
            self.phase = LeaderPhase.LOADING
            return [msg.ReadLog(self.next_batch)]
        # `NotLeader` and not `Fenced`: only the new leader knows whether the callers' claim
        # still leads, so they ask it.
        self._trouble = NotLeader(f"batch {number} was written by another leader")
        return self._leave("fenced")

    def _refuse_all(self, error: RemoteStorageError) -> list[msg.Effect]:
        effects: list[msg.Effect] = []
        if self._in_flight is not None:
            effects += refusals(self._in_flight.replies, error)
        effects += refusals(self._probe or (), error)
        effects += [msg.ReplyError(arrived.reply_to, error) for arrived in self._inbox]
        effects += self.undecided.drop(error)
        self._in_flight, self._probe = None, None
        self._inbox.clear()
        return effects

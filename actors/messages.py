"""What partition actors are told (stimuli, in the past tense) and answer with (effects).

`reply_to` names a caller; the shell knows which. Every stimulus that answers an effect carries
the batch number it was about, so a late answer is recognised as late.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, TypeAlias

from tierledger.events.commands import Claim, Command, LeaderVerdict
from tierledger.events.errors import RemoteStorageError
from tierledger.events.partition.state import PartitionState, Session
from tierledger.events.typed_fields import Int32, Int64, Text
from tierledger.storage.partition.event_log import StoredBatch

ReplyTo: TypeAlias = "int | None"
"""A caller; none if nobody waits."""


class Query(NamedTuple):
    """One question of the interface; `kind` is one of `answering.QUERIES`."""

    kind: Text
    epoch: Int32 = 0
    offset: Int64 = 0


class Assignment(NamedTuple):
    """The coordinator's word that a broker announced itself and that this host serves it."""

    number: int
    claim: Claim
    leader_epoch: int | None = None
    topic: str = ""
    import_cluster: str | None = None
    recorded_time_ms: int | None = None
    """Log time of the session if it imports history; else the host's clock is asked."""
    resigned: tuple[Claim, ...] = ()
    """Of an import: the claims of brokers that only follow now; see `OpenSession`."""


class AppendOutcome(Enum):
    """What became of an append. `UNKNOWN` is resolved by reading the slot, never guessed."""

    CREATED = "created"
    EXISTS = "exists"
    PASSED = "passed"
    """The log goes on behind the slot, which is empty: what stood there was forgotten."""
    UNKNOWN = "unknown"


# Stimuli


class Assigned(NamedTuple):
    """This actor is to lead on behalf of a broker, or to lead on under a newer claim."""

    assignment: Assignment
    reply_to: ReplyTo
    now_ms: int
    opener: bytes | None = None
    """This process, for the sessions that it opens."""


class StateLoaded(NamedTuple):
    """The checkpoint was read, or there is none and `state` is blank."""

    state: PartitionState
    next_batch: int


class LogRead(NamedTuple):
    """What stood in the log from batch `number` on; nothing, if it ended there.

    `is_end`: the log ended behind them when it was read. A log that grows all the time would
    never be found empty.
    """

    number: int
    batches: tuple[StoredBatch, ...]
    is_end: bool = False


class LoadFailed(NamedTuple):
    """Neither checkpoint nor log could be read."""

    error: RemoteStorageError


class StepFailed(NamedTuple):
    """A step of the partition raised what nobody had foreseen."""

    cause: str
    story: str
    """The steps before it."""


class CommandArrived(NamedTuple):
    """Somebody wants a change."""

    reply_to: ReplyTo
    command: Command
    now_ms: int


class CommandsArrived(NamedTuple):
    """Changes that are wanted, one after the other, and are decided on together."""

    commands: tuple[CommandArrived, ...]


class QueryArrived(NamedTuple):
    """Somebody asks; a follower answers only from `position_min` on."""

    reply_to: ReplyTo
    query: Query
    position_min: int = -1


class QueryExpired(NamedTuple):
    """The caller waited long enough."""

    reply_to: ReplyTo


class AppendAnswered(NamedTuple):
    """The store answered the append of batch `number`."""

    number: int
    outcome: AppendOutcome


class AppendRefused(NamedTuple):
    """The store certainly kept nothing of batch `number`."""

    number: int
    error: RemoteStorageError


class SlotRead(NamedTuple):
    """What stands under batch `number`; answers both a probe and a look at a lost reply."""

    number: int
    value: bytes | None
    is_passed: bool = False
    """Nothing does, but the log goes on behind it."""


class ProbeFailed(NamedTuple):
    """The store did not answer the probe of batch `number`."""

    number: int
    error: RemoteStorageError


class OracleAnswered(NamedTuple):
    """The leader oracle's word on question `number`, about `claim`; none: it knows nothing."""

    claim: Claim
    verdict: LeaderVerdict | None
    now_ms: int
    number: int


class CheckpointDone(NamedTuple):
    """The checkpoint stands, or not.

    `again`: what stands instead holds less of the log, so it is to be replaced now. Otherwise
    another may be due after as many events as ever: no refusal is for good.
    """

    stored: bool
    again: bool = False


class StopArrived(NamedTuple):
    """The partition leaves this host; what is queued is served first.

    `is_released`: no broker hosts it any more, so its session closes. Otherwise the session
    stays, and another host leads on under the same claim.
    """

    reply_to: ReplyTo
    now_ms: int
    is_released: bool = True


class HintArrived(NamedTuple):
    """The log probably grew to `position`."""

    position: int


# Effects


class ReadLog(NamedTuple):
    """Read the log from batch `number` on, and answer with `LogRead`."""

    number: int


class Append(NamedTuple):
    """Create batch `number`, and answer with `AppendAnswered` or `AppendRefused`."""

    number: int
    value: bytes


class ReadSlot(NamedTuple):
    """Read batch `number`, after `delay_ms`, and answer with `SlotRead` or `ProbeFailed`."""

    number: int
    delay_ms: int = 0


class Reply(NamedTuple):
    """A write holds from `position` on."""

    reply_to: ReplyTo
    position: int


class ReplyError(NamedTuple):
    """A call failed; `error` says what it left behind."""

    reply_to: ReplyTo
    error: RemoteStorageError


class Answer(NamedTuple):
    """Answer `query` from the state as it stands now, before anything else changes it."""

    reply_to: ReplyTo
    query: Query
    stale: bool = False


class AskOracle(NamedTuple):
    """Ask who leads, after `delay_ms`, and answer with `OracleAnswered` within a deadline."""

    claim: Claim
    delay_ms: int
    number: int


class ClaimRefused(NamedTuple):
    """The claim of `assignment` does not lead: what the log holds instead.

    `is_served`: this actor leads on under that session; otherwise nobody does here.
    """

    assignment: int
    session: Session | None
    is_served: bool
    log_time_ms: int


class WriteCheckpoint(NamedTuple):
    """Store the state as it stands now, at the end of batch `next_batch - 1`."""

    next_batch: int


class HeadMoved(NamedTuple):
    """Events up to `position` are durable and applied; followers may want to know."""

    position: int


class Alarm(NamedTuple):
    """Something a person should hear of."""

    kind: str
    message: str


STOPPED = "stopped"
REFUSED = "another session leads"
"""Why an actor is gone that the coordinator need not make anew: it was told, or it tells."""


class Gone(NamedTuple):
    """This actor is finished and may be forgotten."""

    reason: str
    reply_to: ReplyTo = None


Stimulus: TypeAlias = (
    Assigned
    | StateLoaded
    | LogRead
    | LoadFailed
    | StepFailed
    | CommandArrived
    | CommandsArrived
    | QueryArrived
    | QueryExpired
    | AppendAnswered
    | AppendRefused
    | SlotRead
    | ProbeFailed
    | OracleAnswered
    | CheckpointDone
    | StopArrived
    | HintArrived
)
Effect: TypeAlias = (
    ReadLog
    | Append
    | ReadSlot
    | Reply
    | ReplyError
    | Answer
    | AskOracle
    | ClaimRefused
    | WriteCheckpoint
    | HeadMoved
    | Alarm
    | Gone
)

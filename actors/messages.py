"""What partition actors are told (stimuli, in the past tense) and answer with (effects).

`reply_to` names a caller that the shell knows. A stimulus that answers an effect carries the
number of its batch or question, so that a late answer is recognised as late.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, TypeAlias

from tierledger.actors.explained import NotKnown, ToldRetention
from tierledger.actors.holds import Deletions
from tierledger.events.commands import Claim, Command, LeaderVerdict
from tierledger.events.errors import RemoteStorageError
from tierledger.events.partition.state import PartitionState, Session
from tierledger.events.typed_fields import Int32, Int64, Text
from tierledger.storage.partition.event_log import StoredBatch

ReplyTo: TypeAlias = "int | None"
"""The number of a caller; None if nobody waits."""


class Query(NamedTuple):
    """One query of the interface; `kind` is one of `queries.QUERIES`."""

    kind: Text
    epoch: Int32 = 0
    offset: Int64 = 0


class Assignment(NamedTuple):
    """The coordinator's order to serve a partition here for the broker that announced it."""

    number: int
    claim: Claim
    leader_epoch: int | None = None
    topic: str = ""
    import_cluster: str | None = None
    recorded_time_ms: int | None = None
    """Log time of the session if it imports history; else the time of the host's clock."""
    resigned: tuple[Claim, ...] = ()
    """Only for an import: the claims of brokers that only follow now; see `OpenSession`."""


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
    """Names this process in the sessions that it opens."""


class StateLoaded(NamedTuple):
    """The state to begin with: of a checkpoint, of the log's beginning, or of a follower."""

    state: PartitionState
    next_batch: int
    uncovered: int | None = None
    """Events of `state` that the checkpoint does not cover, if it is the state of the follower
    on the same host: what the checkpoint has is not known. None: it is the checkpoint's."""


class LogRead(NamedTuple):
    """The batches of the log from `number` on, in order; none if the log ended there.

    `is_end`: the log ended behind these batches when it was read. Without this flag the end of
    a log that grows all the time would never be found.
    """

    number: int
    batches: tuple[StoredBatch, ...]
    is_end: bool = False


class LoadFailed(NamedTuple):
    """Neither checkpoint nor log could be read."""

    error: RemoteStorageError


class StepFailed(NamedTuple):
    """A step of the partition raised an unforeseen error."""

    cause: str
    story: str
    """The steps before it."""


class CommandArrived(NamedTuple):
    """A client or the coordinator wants a change."""

    reply_to: ReplyTo
    command: Command
    now_ms: int
    retention: ToldRetention | NotKnown | None = None
    """For the deletion of a segment: what Kafka says; None if nobody was to be asked."""


class CommandsArrived(NamedTuple):
    """Commands that are decided on together, in order."""

    commands: tuple[CommandArrived, ...]


class QueryArrived(NamedTuple):
    """A client asks; a follower answers once it has applied `position_min`."""

    reply_to: ReplyTo
    query: Query
    position_min: int = -1


class QueryExpired(NamedTuple):
    """The time of a query is over, or its caller has given up."""

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
    """What stands in the slot of batch `number`: after a probe, or after an append in doubt."""

    number: int
    value: bytes | None
    is_passed: bool = False
    """The slot is empty, but the log goes on behind it."""


class ProbeFailed(NamedTuple):
    """The store failed to read the slot of batch `number`."""

    number: int
    error: RemoteStorageError


class OracleAnswered(NamedTuple):
    """The leader oracle's answer to question `number`, about `claim`; None: no answer."""

    claim: Claim
    verdict: LeaderVerdict | None
    now_ms: int
    number: int


class CheckpointDone(NamedTuple):
    """The checkpoint was stored, or not.

    `again`: the one that stands instead covers less of the log, so it is to be replaced now.
    Otherwise the next is due after the usual number of events, also after a failure.
    """

    stored: bool
    again: bool = False


class StopArrived(NamedTuple):
    """The actor is to end; it serves first what is queued.

    `is_released`: no broker hosts the partition any more, so its session closes. Otherwise the
    session stays open, and another host leads on under the same claim.
    """

    reply_to: ReplyTo
    now_ms: int
    is_released: bool = True


class DeletionsTold(NamedTuple):
    """From here on brokers may delete what `deletions` leaves; also of what waits already."""

    deletions: Deletions


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
    beginning: bytes = b""
    """With what the batch before it begins, which has to be there; empty: with anything."""


class ReadSlot(NamedTuple):
    """Read batch `number`, after `delay_ms`, and answer with `SlotRead` or `ProbeFailed`."""

    number: int
    delay_ms: int = 0


class Reply(NamedTuple):
    """A write holds from `position` on."""

    reply_to: ReplyTo
    position: int


class ReplyError(NamedTuple):
    """A call failed; the class of `error` tells whether anything of it may be stored."""

    reply_to: ReplyTo
    error: RemoteStorageError


class Answer(NamedTuple):
    """Answer `query` from the state as it stands now, before anything else changes it."""

    reply_to: ReplyTo
    query: Query
    stale: bool = False


class AskOracle(NamedTuple):
    """Ask the oracle who leads, after `delay_ms`; answer with `OracleAnswered` in time."""

    claim: Claim
    delay_ms: int
    number: int


class ClaimRefused(NamedTuple):
    """The claim of `assignment` does not lead; the log holds `session` instead.

    `is_served`: this actor leads on under that session; otherwise it does not lead.
    """

    assignment: int
    session: Session | None
    is_served: bool
    log_time_ms: int


class WriteCheckpoint(NamedTuple):
    """Store the state as it stands now, at the end of batch `next_batch - 1`."""

    next_batch: int


class HeadMoved(NamedTuple):
    """Events up to `position` are durable and applied: a hint for followers."""

    position: int
    let_go_bytes: int = 0
    """Of finished segments whose deletion began with them, and whose data nobody keeps."""
    is_being_deleted: bool = False
    """Whether the deletion of the whole partition has begun."""


class Alarm(NamedTuple):
    """Something an operator should see."""

    kind: str
    message: str
    hold: str | None = None
    """For a deletion that was refused: the name of the hold; empty: an unowned time."""


STOPPED = "stopped"
REFUSED = "another session leads"
"""Reasons of `Gone` that do not count as a lost leader: the coordinator ordered the end, or it
hears of the refused claim."""


class Gone(NamedTuple):
    """This actor has ended and may be forgotten."""

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
    | DeletionsTold
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

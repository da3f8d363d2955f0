"""What the coordinator is told (stimuli, in the past tense) and answers with (effects).

Each effect that asks for something is answered by one stimulus. A stimulus about a process
carries its watch, a number that no other process and no later look at the same one has: what
comes late is recognised as late. The log's own are those of a partition (`actors.messages`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias

from tierledger.actors.calls import HostPing, PartitionKey
from tierledger.actors.coordinator import rules
from tierledger.actors.coordinator.events import Announcement, CoordinatorBody, Registered
from tierledger.actors.coordinator.ownership import Handover, Owned, PluginMode, hand_over
from tierledger.actors.coordinator.refusals import leader_refused
from tierledger.actors.coordinator.rules import HostWork
from tierledger.actors.coordinator.state import CoordinatorState
from tierledger.actors.messages import (
    Append,
    AppendAnswered,
    LoadFailed,
    LogRead,
    ProbeFailed,
    ReadLog,
    ReadSlot,
    ReplyError,
    ReplyTo,
    SlotRead,
)
from tierledger.events.commands import NOBODY_KNOWS, Claim, LeaderVerdict
from tierledger.events.errors import RemoteStorageError


class Moment(NamedTuple):
    """When a stimulus came."""

    s: float
    """By a clock that never goes back; only differences mean something."""
    ms: int
    """Since 1970, as events are dated."""


# Requests: what is to be decided on.


class Request(Protocol):
    """Something to decide on; a value, so that it can be decided on again."""

    @property
    def items(self) -> int:
        """How many partitions it is about."""
        ...

    def decide(self, state: CoordinatorState) -> list[CoordinatorBody]:
        """What it comes to, on top of everything before it."""
        ...

    def answer(self, state: CoordinatorState) -> object:
        """What its caller hears once that is durable."""
        ...


class Register(NamedTuple):
    """A client starts to speak for a broker."""

    broker_id: int
    request: bytes
    after: int
    mode: PluginMode | None = None
    """Of a broker's plugin; programs have none."""

    @property
    def items(self) -> int:
        return 1

    def decide(self, state: CoordinatorState) -> list[CoordinatorBody]:
        return rules.register(state, *self)

    def answer(self, state: CoordinatorState) -> Registered:
        return rules.registered(state, self.broker_id, self.request)


class HandOver(NamedTuple):
    """An operator says who owns the cluster's metadata from now on, and instead of whom."""

    wish: Handover

    @property
    def items(self) -> int:
        return 1

    def decide(self, state: CoordinatorState) -> list[CoordinatorBody]:
        return [*hand_over(state.word, self.wish)]

    def answer(self, state: CoordinatorState) -> Owned:
        return Owned(state.word.owner, state.word.number)


class Announce(NamedTuple):
    """A broker says what it leads, follows, or hosts no more."""

    given: Announcement
    denied: frozenset[PartitionKey] = frozenset()
    """What it says to lead, and Kafka names another broker for."""

    @property
    def items(self) -> int:
        return sum(map(len, self.given[3:6]))

    def decide(self, state: CoordinatorState) -> list[CoordinatorBody]:
        bodies = rules.announce(state, self.given, self.denied)
        rules.hear(state, self.given)
        return bodies

    def answer(self, state: CoordinatorState) -> list[Claim]:
        rules.hear(state, self.given)
        return rules.in_force(state, self.given, self.denied)


def informed(given: Announcement, verdicts: Mapping[PartitionKey, LeaderVerdict]) -> Announce:
    """`given` with the leader epochs that Kafka knows, as `verdicts` has its words.

    Brokers do not tell their plugins in which epoch they lead.
    """
    leaders, denied = [], set()
    for item in given.leaders:
        verdict = verdicts.get(PartitionKey(*item[:2]), NOBODY_KNOWS)
        epoch = item[3]
        if verdict.broker_id == given.broker_id:
            epoch = verdict.leader_epoch
        elif verdict.broker_id >= 0:
            denied.add(PartitionKey(*item[:2]))
        leaders.append((*item[:3], epoch, item[4]))
    return Announce(given._replace(leaders=tuple(leaders)), frozenset(denied))


class Fact(NamedTuple):
    """What the coordinator has found out about a host, or a host about its partitions."""

    kind: str
    host: str
    about: tuple[Any, ...]

    @property
    def items(self) -> int:
        return 1

    def decide(self, state: CoordinatorState) -> list[CoordinatorBody]:
        match self.kind:
            case "started":
                return rules.host_started(state, self.host, *self.about)
            case "lost":
                return rules.host_lost(state, self.host, *self.about)
            case "leader lost":
                key, assignment = self.about
                return rules.leader_lost(state, key, assignment, self.host)
            case _:
                key, refusal = self.about
                return leader_refused(state, key, refusal, self.host)

    def answer(self, state: CoordinatorState) -> None:
        """Nobody waits."""


class Timer(NamedTuple):
    """What a timer is for."""

    kind: str
    host: str = ""
    watch: int = 0
    """Of the host; or the number of the word that a move is given up from."""


# Stimuli


class Started(NamedTuple):
    """The process runs: the log is to be read, and the work taken up."""


class Requested(NamedTuple):
    """Something is to be decided on."""

    reply_to: ReplyTo
    request: Request


class Resumed(NamedTuple):
    """Others have run; the next piece of work may be done."""


class AppendFailed(NamedTuple):
    """Batch `number` was not created; it may have been, if `error` is `OutcomeUnknown`."""

    number: int
    error: RemoteStorageError


class PingAnswered(NamedTuple):
    """A host lives."""

    host: str
    watch: int
    ping: HostPing


class PingMissed(NamedTuple):
    """A host did not answer in time."""

    host: str
    watch: int


class HostEnded(NamedTuple):
    """The process is dead, or was not found."""

    host: str
    watch: int


class ProcessStarted(NamedTuple):
    """A process serves at the address."""

    host: str
    address: str
    ping: HostPing


class StartFailed(NamedTuple):
    """No process serves at the address; something of one may run."""

    host: str
    address: str
    error: RemoteStorageError


class ProcessEnded(NamedTuple):
    """The process there has ended, as far as that can be done; or `error`: it may run."""

    host: str
    address: str
    error: RemoteStorageError | None = None


class Told(NamedTuple):
    """A host has heard what it was told."""

    host: str
    watch: int


class NotTold(NamedTuple):
    """A host may not have heard what it was told."""

    host: str
    watch: int
    error: Exception


class TellFailed(NamedTuple):
    """A host heard, and failed at what it was told."""

    host: str
    watch: int
    error: Exception


class TimerFired(NamedTuple):
    """Time is up."""

    timer: Timer


class Stopped(NamedTuple):
    """The process ends in good order."""


# Effects


class Resume(NamedTuple):
    """Let others run, then answer with `Resumed`."""


class Reply(NamedTuple):
    """What was asked for is durable, and was read from the end of the log."""

    reply_to: ReplyTo
    value: object


class Prepare(NamedTuple):
    """Let a process for the address begin to start, if that helps."""

    address: str


class StartProcess(NamedTuple):
    """Start a host at the address; answer with `ProcessStarted` or `StartFailed` in time."""

    host: str
    address: str
    timeout_s: float


class EndProcess(NamedTuple):
    """End the process, if it is that one; answer with `ProcessEnded`."""

    host: str
    address: str
    process: str | None


class Ping(NamedTuple):
    """Answer with `PingAnswered`, `PingMissed` after that long, or `HostEnded`."""

    host: str
    address: str
    watch: int
    timeout_s: float


class Tell(NamedTuple):
    """Tell a host its placements or closes; answer with `Told`, `NotTold` or `TellFailed`."""

    address: str
    watch: int
    work: HostWork


class Forget(NamedTuple):
    """The process at the address is watched no more."""

    address: str


class SetTimer(NamedTuple):
    """Answer with `TimerFired` after that long."""

    timer: Timer
    delay_s: float


class Ready(NamedTuple):
    """The hosts that are wanted run, or have had their time to start."""


class Note(NamedTuple):
    """A line for the log of the process; the event `alarm` is one that a person should see."""

    level: str
    event: str
    details: dict[str, Any]
    error: Exception | None = None
    """What nobody foresaw, with its traceback."""


class GiveUp(NamedTuple):
    """It cannot start; its starter starts another."""

    error: RemoteStorageError


Stimulus: TypeAlias = (
    Started
    | Requested
    | Resumed
    | AppendAnswered
    | AppendFailed
    | LogRead
    | LoadFailed
    | SlotRead
    | ProbeFailed
    | PingAnswered
    | PingMissed
    | HostEnded
    | ProcessStarted
    | StartFailed
    | ProcessEnded
    | Told
    | NotTold
    | TellFailed
    | TimerFired
    | Stopped
)
Effect: TypeAlias = (
    Append
    | ReadLog
    | ReadSlot
    | Resume
    | Reply
    | ReplyError
    | Prepare
    | StartProcess
    | EndProcess
    | Ping
    | Tell
    | Forget
    | SetTimer
    | Ready
    | Note
    | GiveUp
)

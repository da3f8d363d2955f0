"""What the coordinator is told (stimuli, in the past tense) and answers with (effects).

Each effect that asks for something is answered by one stimulus. A stimulus about a process
carries its watch, a number that no other process and no later search for the same one has, so
that late stimuli are recognised. Stimuli and effects about the log are the same as those of a
partition (`actors.messages`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias

from tierledger.actors.calls import HostLoad, HostPing, PartitionKey
from tierledger.actors.coordinator import decide, holding, placement, unowned
from tierledger.actors.coordinator.attendance import Attend, MoveReport
from tierledger.actors.coordinator.events import Announcement, CoordinatorBody, Registered
from tierledger.actors.coordinator.evolve import HostWork
from tierledger.actors.coordinator.ownership import Handover, Owned, PluginMode, hand_over
from tierledger.actors.coordinator.refusals import leader_refused
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
    """Seconds of a clock that never goes back; only differences mean something."""
    ms: int
    """Milliseconds since 1970, as events are dated."""

    @property
    def running_ms(self) -> int:
        """`s` in milliseconds."""
        return int(self.s * 1000)


# Requests: what is to be decided on.


class Decidable(Protocol):
    """Something to decide on. It is a value, so that it can be decided on again."""

    @property
    def items(self) -> int:
        """How many partitions the request is about."""
        ...

    def decide(self, state: CoordinatorState) -> list[CoordinatorBody]:
        """The events that the request leads to, on top of everything before it."""
        ...

    def answer(self, state: CoordinatorState) -> object:
        """The answer to the caller once those events are durable.

        `state` is behind them, and before what is decided on next. It does not change.
        """
        ...


class Register(NamedTuple):
    """A client registers for a broker; see `decide.register`."""

    broker_id: int
    request: bytes
    after: int
    mode: PluginMode | None = None
    """The mode of a broker's plugin; None for a program."""

    @property
    def items(self) -> int:
        return 1

    def decide(self, state: CoordinatorState) -> list[CoordinatorBody]:
        return decide.register(state, *self)

    def answer(self, state: CoordinatorState) -> Registered:
        return decide.registered(state, self.broker_id, self.request)


class HandOver(NamedTuple):
    """An operator's request to change the owner of the cluster's metadata."""

    wish: Handover

    @property
    def items(self) -> int:
        return 1

    def decide(self, state: CoordinatorState) -> list[CoordinatorBody]:
        found = hand_over(state.ownership, self.wish)
        if found:
            holding.refuse_leaving(state, self.wish)
        return [*found]

    def answer(self, state: CoordinatorState) -> Owned:
        return Owned(state.ownership.owner, state.ownership.epoch)


class HoldDeletions(NamedTuple):
    """A broker runs, or ran, without the plugin; see `unowned`."""

    broker_id: int
    since_ms: int
    foreign: int
    excused_ms: int = 0

    @property
    def items(self) -> int:
        return 1

    def decide(self, state: CoordinatorState) -> list[CoordinatorBody]:
        return unowned.hold(state, *self)

    def answer(self, state: CoordinatorState) -> None:
        """Answer nothing: no caller waits."""


class ReleaseDeletions(NamedTuple):
    """A broker's plugin was only silent; None: an operator lets brokers delete again."""

    broker_id: int | None

    @property
    def items(self) -> int:
        return 1

    def decide(self, state: CoordinatorState) -> list[CoordinatorBody]:
        return unowned.release(state, self.broker_id)

    def answer(self, state: CoordinatorState) -> Owned:
        return Owned(state.ownership.owner, state.ownership.epoch)


class ChangeHold(NamedTuple):
    """An operator's request to place or release a hold, and when it came."""

    wish: holding.PlaceHold | holding.ReleaseHold
    now_ms: int

    @property
    def items(self) -> int:
        return 1

    def decide(self, state: CoordinatorState) -> list[CoordinatorBody]:
        if isinstance(self.wish, holding.PlaceHold):
            return [*holding.place(state, self.wish.hold, self.now_ms)]
        return [*holding.release(state, self.wish)]

    def answer(self, state: CoordinatorState) -> None:
        """Answer nothing: hosts are told next."""


class Announce(NamedTuple):
    """A broker announces which partitions it leads, follows, or no longer hosts."""

    given: Announcement
    denied: frozenset[PartitionKey] = frozenset()
    """Partitions that it claims to lead, while Kafka names another broker."""

    @property
    def items(self) -> int:
        return sum(map(len, self.given[3:6]))

    def decide(self, state: CoordinatorState) -> list[CoordinatorBody]:
        bodies = decide.announce(state, self.given, self.denied)
        decide.hear(state, self.given)
        return bodies

    def answer(self, state: CoordinatorState) -> list[Claim]:
        return decide.in_force(state, self.given, self.denied)


class Balance(NamedTuple):
    """The coordinator's own wish to move a leader to a host that has fewer."""

    move: placement.Move

    @property
    def items(self) -> int:
        return 1

    def decide(self, state: CoordinatorState) -> list[CoordinatorBody]:
        return placement.move(state, self.move)

    def answer(self, state: CoordinatorState) -> None:
        """Answer nothing: no caller waits."""


class Relieve(NamedTuple):
    """A wish to move leaders and followers of a host to others; see `placement.relieve`."""

    bodies: tuple[CoordinatorBody, ...]
    position: int
    """The end of the log that they were decided on."""

    @property
    def items(self) -> int:
        return len(self.bodies)

    def decide(self, state: CoordinatorState) -> list[CoordinatorBody]:
        """None if anything was logged since: whoever wishes it asks again."""
        return list(self.bodies) if state.next_position == self.position else []

    def answer(self, state: CoordinatorState) -> None:
        """Answer nothing: they have moved, or it is wished again."""


def informed(given: Announcement, verdicts: Mapping[PartitionKey, LeaderVerdict]) -> Announce:
    """The request for `given`, with the leader epochs of Kafka's `verdicts` filled in.

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
    """A fact that the coordinator found out about a host, or a host about its partitions."""

    kind: str
    host: str
    about: tuple[Any, ...]

    @property
    def items(self) -> int:
        return 1

    def decide(self, state: CoordinatorState) -> list[CoordinatorBody]:
        match self.kind:
            case "started":
                return decide.host_started(state, self.host, *self.about)
            case "lost":
                return decide.host_lost(state, self.host, *self.about)
            case "leader lost":
                key, assignment = self.about
                return decide.leader_lost(state, key, assignment, self.host)
            case _:
                key, refusal = self.about
                return leader_refused(state, key, refusal, self.host)

    def answer(self, state: CoordinatorState) -> None:
        """None: no caller waits for what becomes of a fact."""


class Timer(NamedTuple):
    """What a timer is for."""

    kind: str
    host: str = ""
    watch: int = 0
    """The host's watch; or the owner epoch of the move that is to be ended."""


# Stimuli


class Started(NamedTuple):
    """The coordinator's process runs: read the log and take up the work."""


class Requested(NamedTuple):
    """A caller's request is to be decided on."""

    reply_to: ReplyTo
    request: Decidable


Report: TypeAlias = "Attend | MoveReport | dict[str, Any]"
"""Of a plugin, of a command that moves the metadata, or of a follower."""


class Reported(NamedTuple):
    """A report is to be answered at once; see `Presence`."""

    reply_to: ReplyTo
    report: Report


class Resumed(NamedTuple):
    """Other tasks have run; the next piece of work may be done."""


class AppendFailed(NamedTuple):
    """The append of batch `number` failed; it is in doubt if `error` is `OutcomeUnknown`."""

    number: int
    error: RemoteStorageError


class PingAnswered(NamedTuple):
    """A host answered a ping, with its report."""

    host: str
    watch: int
    ping: HostPing
    load: HostLoad | None = None
    """What its leaders are asked, if it was asked for that, too, and knows."""


class PingMissed(NamedTuple):
    """A host did not answer a ping in time."""

    host: str
    watch: int


class HostEnded(NamedTuple):
    """The host's process is dead, or was not found."""

    host: str
    watch: int


class ProcessStarted(NamedTuple):
    """A process serves at the address."""

    host: str
    address: str
    ping: HostPing


class StartFailed(NamedTuple):
    """No process serves at the address; one that does not serve may still run."""

    host: str
    address: str
    error: RemoteStorageError


class ProcessEnded(NamedTuple):
    """The process at the address has ended, as far as possible. With `error` it may run."""

    host: str
    address: str
    error: RemoteStorageError | None = None


class ReplaceAsked(NamedTuple):
    """Somebody wants the process of a host to be replaced."""

    host: str
    process: str
    is_relieved: bool
    """Whether all of its leaders and followers have moved that can."""
    leaves_node: bool = False
    """Whether the new process is to start on another node."""


class Knocked(NamedTuple):
    """A knock at a host's door was answered, or was not in time."""

    host: str
    watch: int
    opens: bool


class WorkDone(NamedTuple):
    """A host has carried out the work that it was sent."""

    host: str
    watch: int


class WorkInDoubt(NamedTuple):
    """A host may not have got the work that it was sent."""

    host: str
    watch: int
    error: Exception


class WorkFailed(NamedTuple):
    """A host got the work that it was sent, and failed at it."""

    host: str
    watch: int
    error: Exception


class TimerFired(NamedTuple):
    """A timer's delay is over."""

    timer: Timer


class Stopped(NamedTuple):
    """The coordinator's process ends in good order."""


# Effects


class Resume(NamedTuple):
    """Let other tasks run, then answer with `Resumed`."""


class ReplyToRequest(NamedTuple):
    """The answer to a request: its events are durable, and the whole log has been read."""

    reply_to: ReplyTo
    value: object


class Prepare(NamedTuple):
    """Prepare the start of a process at the address, where a launcher can do so."""

    address: str
    is_replacement: bool = False
    """Whether it is to replace one that is well."""


class StartProcess(NamedTuple):
    """Start a host at the address; answer with `ProcessStarted` or `StartFailed` in time."""

    host: str
    address: str
    timeout_s: float


class EndProcess(NamedTuple):
    """End the process at the address if it is `process` (None: any); answer `ProcessEnded`."""

    host: str
    address: str
    process: str | None


class RetireHost(NamedTuple):
    """Have a host stop in good order; answer with `HostEnded`, however that went."""

    host: str
    address: str
    watch: int


class Ping(NamedTuple):
    """Ping a host; answer with `PingAnswered`, `PingMissed` at the timeout, or `HostEnded`."""

    host: str
    address: str
    watch: int
    timeout_s: float
    placed: int | None = None
    """How many leaders and followers are placed there; None while placements are being sent."""


class Knock(NamedTuple):
    """Knock at a host's door (HOST:PORT), as a client would; answer with `Knocked`."""

    host: str
    door: str
    watch: int


class SendWork(NamedTuple):
    """Send a host its work; answer with `WorkDone`, `WorkInDoubt` or `WorkFailed`."""

    address: str
    watch: int
    work: HostWork


class Forget(NamedTuple):
    """Forget the process at the address: it is no longer pinged."""

    address: str


class SetTimer(NamedTuple):
    """Answer with `TimerFired` after `delay_s`."""

    timer: Timer
    delay_s: float


class Ready(NamedTuple):
    """The service is ready: the wanted hosts run, or their time to start is over."""


class Note(NamedTuple):
    """A line for the process's own log; the event `alarm` is one that operators should see."""

    level: str
    event: str
    details: dict[str, Any]
    error: Exception | None = None
    """An unforeseen error, with its traceback."""


class GiveUp(NamedTuple):
    """The coordinator cannot start; whatever started it starts another."""

    error: RemoteStorageError


Stimulus: TypeAlias = (
    Started
    | Requested
    | Reported
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
    | ReplaceAsked
    | Knocked
    | ProcessStarted
    | StartFailed
    | ProcessEnded
    | WorkDone
    | WorkInDoubt
    | WorkFailed
    | TimerFired
    | Stopped
)
Effect: TypeAlias = (
    Append
    | ReadLog
    | ReadSlot
    | Resume
    | ReplyToRequest
    | ReplyError
    | Prepare
    | StartProcess
    | EndProcess
    | RetireHost
    | Ping
    | Knock
    | SendWork
    | Forget
    | SetTimer
    | Ready
    | Note
    | GiveUp
)

"""A leader or follower without a host: the test decides when the store answers its requests."""

from collections import deque
from itertools import count

from tests.models.events.driven_partition import CLAIM, GENESIS, TIP, command_of
from tierledger.actors import messages as msg
from tierledger.actors.follower import Follower
from tierledger.actors.leader.machine import Leader
from tierledger.events import commands as cmd
from tierledger.events.errors import RemoteStorageError, StorageUnavailable
from tierledger.events.log_events import Event, Origin
from tierledger.events.partition.decide import Limits
from tierledger.events.partition.state import PartitionState
from tierledger.simulation.checkers.slow.model import COPY_FINISHED, Add, Record, Update
from tierledger.storage.partition.event_log import StoredBatch, decode_batch
from tierledger.storage.serde import MsgpackSerDe

SERDE = MsgpackSerDe()
NOW_MS = 1_700_000_000_000
BATCHES_PER_READ = 3

CREATED = msg.AppendOutcome.CREATED
EXISTS = msg.AppendOutcome.EXISTS
UNKNOWN = msg.AppendOutcome.UNKNOWN

OTHER = cmd.Claim(broker_id=2, incarnation=1, announcement=1)
"""The claim of another broker; `CLAIM` is that of broker 1."""


class SlotStore:
    """The log of one partition: dense slots, each created once."""

    def __init__(self) -> None:
        self.slots: list[bytes] = []

    def create(self, number: int, value: bytes) -> msg.AppendOutcome:
        assert number <= len(self.slots), "a leader never skips a slot"
        if number < len(self.slots):
            return EXISTS
        self.slots.append(value)
        return CREATED

    def read(self, number: int) -> bytes | None:
        return self.slots[number] if number < len(self.slots) else None

    def read_from(self, number: int) -> tuple[StoredBatch, ...]:
        ahead = self.slots[number : number + BATCHES_PER_READ]
        return tuple(StoredBatch(at, value) for at, value in enumerate(ahead, number))

    def events(self) -> list[Event]:
        """All events of the log, verified."""
        events: list[Event] = []
        previous = GENESIS
        for number, value in enumerate(self.slots):
            decoded = decode_batch(SERDE, StoredBatch(number, value), len(events), previous)
            events += decoded.events
            previous = decoded.chain_hash
        return events


class Harness:
    """Feeds a machine, keeps its replies, and holds its requests to the store."""

    def __init__(self, machine: Leader | Follower, store: SlotStore) -> None:
        self.machine = machine
        self.store = store
        self.asked: deque[msg.ReadLog | msg.Append | msg.ReadSlot | msg.WriteCheckpoint] = (
            deque()
        )
        self.replies: list[msg.Reply | msg.ReplyError | msg.Answer] = []
        self.answered_at: dict[int, int] = {}
        """By caller, the machine's position when it gave the answer."""
        self.alarms: list[msg.Alarm] = []
        self.hints: list[int] = []
        self.gone: list[msg.Gone] = []
        self.questions: list[msg.AskOracle] = []
        """Questions to the leader oracle that it has not answered."""
        self.refused: list[msg.ClaimRefused] = []
        self._callers = count(1)

    @property
    def leader(self) -> Leader:
        assert isinstance(self.machine, Leader)
        return self.machine

    @property
    def follower(self) -> Follower:
        assert isinstance(self.machine, Follower)
        return self.machine

    def feed(self, stimulus: msg.Stimulus) -> None:
        for effect in self.machine.handle(stimulus):
            match effect:
                case msg.ReadLog() | msg.Append() | msg.ReadSlot() | msg.WriteCheckpoint():
                    self.asked.append(effect)
                case msg.Reply() | msg.ReplyError() | msg.Answer():
                    self._say(effect)
                case msg.HeadMoved(position=position):
                    self.hints.append(position)
                case msg.Alarm():
                    self.alarms.append(effect)
                case msg.Gone():
                    self.gone.append(effect)
                case msg.AskOracle():
                    self.questions.append(effect)
                case msg.ClaimRefused():
                    self.refused.append(effect)

    def _say(self, effect: msg.Reply | msg.ReplyError | msg.Answer) -> None:
        if effect.reply_to is not None:
            self.replies.append(effect)
            if isinstance(effect, msg.Answer):
                self.answered_at[effect.reply_to] = self.machine.position

    # The store's side.

    def load(self) -> None:
        """Start from a blank state, as without a checkpoint."""
        self.feed(msg.StateLoaded(PartitionState(TIP, GENESIS), 0))

    def step(self) -> None:
        """Let the store carry out the oldest waiting request, without a fault."""
        effect = self.asked.popleft()
        match effect:
            case msg.ReadLog(number=number):
                self.feed(msg.LogRead(number, self.store.read_from(number)))
            case msg.Append(number=number, value=value):
                self.feed(msg.AppendAnswered(number, self.store.create(number, value)))
            case msg.ReadSlot(number=number):
                self.feed(msg.SlotRead(number, self.store.read(number)))
            case msg.WriteCheckpoint():
                self.feed(msg.CheckpointDone(stored=True))

    def settle(self) -> None:
        """Let the store carry out all waiting requests, and those that follow from them."""
        while self.asked:
            self.step()

    def expect_append(self) -> msg.Append:
        """Take out the waiting append, which the test then answers itself."""
        effect = self.asked.popleft()
        assert isinstance(effect, msg.Append), effect
        return effect

    def refuse_append(self) -> None:
        """Let the store refuse the waiting append."""
        number = self.expect_append().number
        self.feed(msg.AppendRefused(number, StorageUnavailable("full")))

    def expect_probe(self) -> msg.ReadSlot:
        effect = self.asked.popleft()
        assert isinstance(effect, msg.ReadSlot), effect
        return effect

    # The oracle's side.

    def oracle_says(
        self, verdict: cmd.LeaderVerdict | None, *, question: int = 0, now_ms: int = NOW_MS
    ) -> None:
        """Let the oracle answer a waiting question at once, whatever its back-off."""
        asked = self.questions.pop(question)
        self.feed(msg.OracleAnswered(asked.claim, verdict, now_ms, asked.number))

    def oracle_decides(
        self, verdict: cmd.LeaderVerdict | None, *, question: int = 0, now_ms: int = NOW_MS
    ) -> None:
        """Let the oracle answer, and the store carry out all requests that follow."""
        self.oracle_says(verdict, question=question, now_ms=now_ms)
        self.settle()

    # The callers' side.

    def write(self, record: Record, claim: cmd.Claim = CLAIM, request: bytes = b"") -> int:
        """Send a write of `record`; returns its caller. Retries use the same `request`."""
        origin = Origin(claim.broker_id, request or None)
        return self.command(command_of(record, claim, origin))

    def write_in_doubt(self, record: Record) -> tuple[int, msg.Append]:
        """Send a write, and lose the store's answer; returns the caller and the append."""
        caller, append = self.write(record), self.expect_append()
        self.feed(msg.AppendAnswered(append.number, UNKNOWN))
        return caller, append

    def next_caller(self) -> int:
        return next(self._callers)

    def command(self, command: cmd.Command) -> int:
        caller = self.next_caller()
        self.feed(msg.CommandArrived(caller, command, NOW_MS))
        return caller

    def ask(self, query: msg.Query | None = None, position_min: int = -1) -> int:
        caller = next(self._callers)
        self.feed(msg.QueryArrived(caller, query or msg.Query("lookup"), position_min))
        return caller

    def assign(
        self, number: int, claim: cmd.Claim = CLAIM, leader_epoch: int | None = None
    ) -> int:
        caller = next(self._callers)
        self.feed(assigned(number, claim, leader_epoch, reply_to=caller))
        return caller

    def stop(self, *, is_released: bool = True, waits: bool = False) -> int | None:
        caller = next(self._callers) if waits else None
        self.feed(msg.StopArrived(caller, NOW_MS, is_released))
        return caller

    def heard(self, caller: int) -> msg.Reply | msg.ReplyError | msg.Answer | None:
        """The reply to `caller`, which must not get two; none while it waits."""
        found = [one for one in self.replies if one.reply_to == caller]
        assert len(found) <= 1, f"caller {caller} was told twice: {found}"
        return found[0] if found else None

    def position_for(self, caller: int) -> int:
        """The position from which `caller`'s write holds."""
        heard = self.heard(caller)
        assert isinstance(heard, msg.Reply), heard
        return heard.position

    def error_for(self, caller: int) -> RemoteStorageError:
        heard = self.heard(caller)
        assert isinstance(heard, msg.ReplyError), heard
        return heard.error


def assigned(
    number: int,
    claim: cmd.Claim = CLAIM,
    leader_epoch: int | None = None,
    reply_to: msg.ReplyTo = None,
) -> msg.Assigned:
    assignment = msg.Assignment(number, claim, leader_epoch, TIP.topic)
    return msg.Assigned(assignment, reply_to, NOW_MS)


def new_leader(
    store: SlotStore, number: int = 1, claim: cmd.Claim = CLAIM, leader_epoch: int | None = None
) -> Harness:
    """A leader that has an assignment and has not read the log yet."""
    first = assigned(number, claim, leader_epoch)
    return Harness(Leader(SERDE, Limits(), first), store)


def claiming(
    store: SlotStore, number: int = 1, claim: cmd.Claim = CLAIM, leader_epoch: int | None = None
) -> Harness:
    """A leader that has read the log and has claimed, with or without success."""
    harness = new_leader(store, number, claim, leader_epoch)
    harness.load()
    harness.settle()
    return harness


def leading(store: SlotStore, number: int = 1, claim: cmd.Claim = CLAIM) -> Harness:
    """A leader whose session is open."""
    harness = claiming(store, number, claim)
    assert harness.leader.holds(claim)
    return harness


def following(store: SlotStore) -> Harness:
    """A follower that has read the whole log."""
    harness = Harness(Follower(SERDE), store)
    harness.load()
    harness.settle()
    return harness


def added(number: int) -> Add:
    """The start of a copy of segment `number`, which has ten offsets of its own."""
    return Add(bytes([number]) * 16, 10 * number, 10 * number + 9, {0: 10 * number}, size=10)


def finished(number: int, custom: bytes | None = None) -> Update:
    return Update(bytes([number]) * 16, COPY_FINISHED, 1, custom_metadata=custom)


def kinds(events: list[Event]) -> list[str]:
    return [type(event.body).__name__ for event in events]

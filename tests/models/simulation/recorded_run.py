"""A correct service of one partition in miniature, whose calls are recorded.

Writes go through the project's own rules and codecs; the answers to reads come from the slow
model. Tests plant an anomaly in the recorded history.
"""

from random import Random
from typing import NamedTuple

from tests.models.events.driven_partition import GENESIS, TIP, command_of, kafka_value
from tierledger.actors.calls import FOLLOWER, LEADER, PartitionKey
from tierledger.actors.messages import Query
from tierledger.events import commands as cmd
from tierledger.events.errors import OutcomeUnknown
from tierledger.events.log_events import Event, Origin
from tierledger.events.partition.decide import Accepted, Limits, Rejected, decide
from tierledger.events.partition.evolve import evolve_all
from tierledger.events.partition.overlay import Overlay
from tierledger.events.partition.state import PartitionState
from tierledger.simulation.checkers.slow.model import (
    COPY_FINISHED,
    DELETE_FINISHED,
    DELETE_STARTED,
    Add,
    PartitionDelete,
    Record,
    SlowPartition,
    Update,
)
from tierledger.simulation.history.calls import (
    READ,
    WRITE,
    CallHistory,
    Operation,
    Recorder,
    digest_of,
)
from tierledger.simulation.history.final_log import FinalLog, LoggedBatch, decode_log
from tierledger.storage.partition.event_log import encode_batch
from tierledger.storage.serde import MsgpackSerDe

Result = Accepted | Rejected | tuple[int, bytes]
"""The decision on a write, or position and digest of the answer to a read."""

KEY = PartitionKey.of(TIP)
FIRST = cmd.Claim(1, 1, 1)
SECOND = cmd.Claim(2, 1, 1)
THIRD = cmd.Claim(1, 1, 2)
SERDE = MsgpackSerDe()


class Replica:
    """A replica's state and the slow model, both at the same position."""

    def __init__(self) -> None:
        self.state = PartitionState(TIP, GENESIS)
        self.model = SlowPartition()

    @property
    def position(self) -> int:
        return self.state.next_position - 1

    def take(self, batch: tuple[list[Event], bytes, Record | None]) -> None:
        events, chain_hash, record = batch
        evolve_all(self.state, events, chain_hash)
        if record is not None:
            assert self.model.apply(record) == "applied"

    def answer(self, query: Query) -> object:
        """The slow model's answer to `query`; segments as the state's rows."""
        model, epoch, row = self.model, query.epoch, self.state.rows.get
        match query.kind:
            case "highest_offset":
                return model.highest(epoch)
            case "size":
                return model.size(epoch)
            case "list":
                return [row(one.added.segment_id) for one in model.list_all()]
            case "list_epoch":
                return [row(one) for one in model.list_epoch(epoch)]
            case "lookup":
                found = model.lookup(epoch, query.offset)
            case _:
                found = model.next_txn(epoch, query.offset)
        return None if found is None else row(found)


class Pending(NamedTuple):
    """A call that has not ended."""

    number: int
    command: cmd.Command | None = None
    record: Record | None = None
    query: Query | None = None
    role: str = LEADER


class RecordedRun:
    """A leader, a follower that lags, and a clock that ticks with each step."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.now = 0
        self.recorder = Recorder(lambda: self.now)
        self.leader, self.follower = Replica(), Replica()
        self.batches: list[LoggedBatch] = []
        self.checkpoints: list[tuple[int, bytes]] = []
        self.claim = FIRST
        self._limits = limits or Limits()
        self._decoded: list[tuple[list[Event], bytes, Record | None]] = []
        self._followed = 0
        self._requests = 0

    # Events without a caller.

    def lead(self, claim: cmd.Claim, assignment: int) -> None:
        """Open the session of `claim`."""
        opening = cmd.OpenSession(claim, assignment, None, TIP.topic)
        assert isinstance(self._decide(opening, None), Accepted)
        self.claim = claim
        self.recorder.note(self.now, f"broker-{claim.broker_id}", "claimed", KEY, "")

    def close(self) -> None:
        self._decide(cmd.CloseSession(self.claim, "test"), None)

    def follow(self, batches: int = 1_000_000) -> None:
        """Let the follower read up to `batches` more batches."""
        for batch in self._decoded[self._followed : self._followed + batches]:
            self.follower.take(batch)
            self._followed += 1

    def checkpoint(self) -> None:
        self.checkpoints.append((self.leader.position, self.leader.state.digest()))

    # Calls: at once, or by the three steps begin, carry out and end.

    def write(self, process: str, record: Record, claim: cmd.Claim | None = None) -> int:
        pending = self.begin_write(process, record, claim)
        return self.end(pending, self.carry_out(pending))

    def read(self, process: str, query: Query, role: str = LEADER) -> int:
        pending = self.begin_read(process, query, role)
        return self.end(pending, self.carry_out(pending))

    def begin_write(
        self, process: str, record: Record, claim: cmd.Claim | None = None
    ) -> Pending:
        self.now += 1
        self._requests += 1
        claim, request = claim or self.claim, self._requests.to_bytes(16, "big")
        command = command_of(record, claim, Origin(claim.broker_id, request))
        number = self.recorder.begin(
            process,
            WRITE,
            KEY,
            claim=claim,
            request=request,
            what=type(record).__name__,
            wanted=kafka_value(record),
        )
        return Pending(number, command=command, record=record)

    def begin_read(self, process: str, query: Query, role: str = LEADER) -> Pending:
        self.now += 1
        number = self.recorder.begin(
            process, READ, KEY, role=role, what=query.kind, query=query
        )
        return Pending(number, query=query, role=role)

    def carry_out(self, pending: Pending) -> Result:
        """Carry out a call; returns its result, which is durable but not yet reported."""
        self.now += 1
        if pending.query is not None:
            replica = self.leader if pending.role == LEADER else self.follower
            value = digest_of(replica.answer(pending.query), pending.query)
            return replica.position, value
        assert pending.command is not None
        return self._decide(pending.command, pending.record)

    def end(self, pending: Pending, result: Result) -> int:
        self.now += 1
        if isinstance(result, Rejected):
            self.recorder.failed(pending.number, result.error)
        elif isinstance(result, Accepted):
            self.recorder.ok(pending.number, result.position)
        else:
            self.recorder.ok(pending.number, *result)
        return pending.number

    def lose_reply(self, pending: Pending) -> int:
        self.now += 1
        self.recorder.failed(pending.number, OutcomeUnknown("no answer"))
        return pending.number

    # The record of the run.

    def history(self) -> CallHistory:
        return self.recorder.history()

    @property
    def operations(self) -> list[Operation]:
        return self.history().operations

    def log(self) -> FinalLog:
        return decode_log(SERDE, "cluster", TIP, self.batches)

    def _decide(self, command: cmd.Command, record: Record | None) -> Accepted | Rejected:
        state = self.leader.state
        decision = decide(Overlay(state), command, self.now, self._limits)
        assert isinstance(decision, Accepted | Rejected)
        if isinstance(decision, Accepted) and decision.events:
            events = list(decision.events)
            encoded = encode_batch(SERDE, events, state.chain_hash)
            self.batches.append(LoggedBatch(len(self.batches), encoded.value, self.now))
            self._decoded.append((events, encoded.chain_hash, record))
            self.leader.take(self._decoded[-1])
        return decision


def small_run() -> RecordedRun:
    """Three sessions of two leaders, with retries, refusals, a lost reply, all questions."""
    run = RecordedRun()
    run.lead(FIRST, 1)
    one, two, three = (bytes([number]) * 16 for number in (1, 2, 3))
    for number, segment_id in enumerate((one, two)):
        add = Add(segment_id, number * 100, number * 100 + 99, {0: number * 100}, 50)
        run.write("writer-1", add)
        run.write("writer-1", Update(segment_id, COPY_FINISHED, custom_metadata=b"bucket"))
    run.write("writer-1", Update(two, COPY_FINISHED, custom_metadata=b"bucket"))  # Repeated.
    run.write("writer-1", Update(three, COPY_FINISHED))  # Unknown, so rejected.
    run.checkpoint()
    run.follow(3)
    run.read("reader", Query("lookup", 0, 50), FOLLOWER)
    run.lead(SECOND, 2)
    run.write("writer-1", Add(three, 200, 299, {0: 200}), FIRST)  # Fenced.
    run.lose_reply(run.begin_write("writer-2", Add(three, 200, 299, {0: 200})))
    lost = run.begin_write("writer-3", Add(three, 200, 299, {0: 200}))
    run.carry_out(lost)
    run.lose_reply(lost)
    for kind in ("lookup", "highest_offset", "size", "next_txn", "list", "list_epoch"):
        run.read("reader", Query(kind, 0, 120))
    run.write("writer-4", Update(one, DELETE_STARTED))
    run.write("writer-4", Update(one, DELETE_FINISHED))
    run.write("writer-4", Update(one, DELETE_FINISHED))  # The segment is gone: accepted.
    run.lead(THIRD, 3)
    run.follow()
    run.read("reader", Query("list"), FOLLOWER)
    run.checkpoint()
    run.recorder.note(run.now, "host-1", "crashed", None, "")
    return run


KINDS = ("lookup", "lookup", "lookup", "highest_offset", "size", "next_txn")


def long_run(seed: int, calls: int) -> RecordedRun:
    """Callers whose calls overlap at random, with a change of leaders in 2 % of the calls."""
    random, run = Random(seed), RecordedRun()
    run.lead(FIRST, 1)
    open_calls: list[tuple[Pending, Result | None]] = []
    segments: list[tuple[bytes, int, int]] = []
    for count in range(calls):
        if random.random() < 0.02:
            run.lead(cmd.Claim(random.randint(1, 3), 1, count + 2), count + 2)
            run.checkpoint()
        begun = _begin(run, random, count, segments)
        open_calls.append((begun, None))
        while len(open_calls) > random.randint(0, 4):
            at = random.randrange(len(open_calls))
            pending, result = open_calls[at]
            if result is None:
                open_calls[at] = pending, run.carry_out(pending)
                run.follow(random.randint(0, 3))
            else:
                del open_calls[at]
                _end(run, random, pending, result)
    return run


def _end(run: RecordedRun, random: Random, pending: Pending, result: Result) -> None:
    if random.random() < 0.05:
        run.lose_reply(pending)
    else:
        run.end(pending, result)


def _begin(
    run: RecordedRun, random: Random, count: int, segments: list[tuple[bytes, int, int]]
) -> Pending:
    """Begin a read, or a write of some segment's next state; each call by a new caller."""
    process = f"caller-{count}"
    if random.random() < 0.5:
        query = Query(random.choice(KINDS), random.randint(0, 2), random.randint(0, count + 1))
        role = LEADER if random.random() < 0.7 else FOLLOWER
        return run.begin_read(process, query, role)
    if not segments or random.random() < 0.4:
        segment_id = random.randbytes(16)
        start = 10 * len(segments)
        segments.append((segment_id, COPY_FINISHED, start))
        epoch = random.randint(0, 2)
        return run.begin_write(process, Add(segment_id, start, start + 9, {epoch: start}, 7))
    at = random.randrange(max(0, len(segments) - 10), len(segments))
    segment_id, state, start = segments[at]
    segments[at] = segment_id, min(state + 1, DELETE_FINISHED), start
    return run.begin_write(process, Update(segment_id, state, event_timestamp_ms=count))


def deleted_partition() -> RecordedRun:
    """A run that ends with the partition's deletion."""
    run = RecordedRun()
    run.lead(FIRST, 1)
    run.write("writer", Add(b"a" * 16, 0, 9, {0: 0}))
    for state in range(3):
        run.write("writer", PartitionDelete(state))
    return run

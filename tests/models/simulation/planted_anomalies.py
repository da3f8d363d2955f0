"""Histories and logs with one change, which makes them wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.models.events.driven_partition import GENESIS, TIP
from tests.models.simulation.recorded_run import KEY, SERDE, RecordedRun
from tierledger.actors.calls import FOLLOWER, LEADER
from tierledger.events.log_events import Event
from tierledger.events.partition.decide import Limits
from tierledger.events.partition.evolve import evolve_all
from tierledger.events.partition.state import PartitionState
from tierledger.simulation.checkers.all import check
from tierledger.simulation.checkers.state_digest import state_digest
from tierledger.simulation.checkers.violation import Violation
from tierledger.simulation.history.calls import CallHistory, Operation
from tierledger.simulation.history.final_log import FinalLog
from tierledger.simulation.history.observations import COLD, Applied, Healed, Led, StateSeen
from tierledger.storage.partition.event_log import StoredBatch, decode_batch


def altered(
    operations: Sequence[Operation],
    number: int,
    **fields: Any,  # noqa: ANN401 - The operation's fields.
) -> list[Operation]:
    """`operations` with other `fields` in operation `number`."""
    changed = list(operations)
    changed[number] = changed[number]._replace(**fields)
    return changed


def relogged(log: FinalLog, events: Sequence[Event]) -> FinalLog:
    """The log with other events, as if these had been stored."""
    kept = dict(log.chain_hashes)
    times = [*log.durable_at, *[None] * len(events)][: len(events)]
    return FinalLog(
        log.topic_id_partition, log.genesis, events, chain_hashes=kept, durable_at=times
    )


def replaced(log: FinalLog, position: int, **fields: Any) -> FinalLog:  # noqa: ANN401 - As above.
    """The log with other `fields` in the event at `position`."""
    events = list(log.events)
    events[position] = events[position]._replace(**fields)
    return relogged(log, events)


def rewritten(log: FinalLog, position: int, **fields: Any) -> FinalLog:  # noqa: ANN401 - As above.
    """The log with other `fields` in the body of the event at `position`."""
    body: Any = log.events[position].body
    return replaced(log, position, body=body._replace(**fields))


def without_times(log: FinalLog) -> FinalLog:
    """The log as of a live run, in which the times of durability are unknown."""
    return FinalLog(
        log.topic_id_partition, log.genesis, log.events, chain_hashes=log.chain_hashes
    )


class NodeRecords(NamedTuple):
    """The records that the nodes of a correct run would have made of themselves."""

    states: list[StateSeen]
    applied: list[Applied]
    led: list[Led]

    def without(self, which: str, at: int) -> NodeRecords:
        """The same records without record `at` of the list `which`."""
        kept = list(getattr(self, which))
        del kept[at]
        return self._replace(**{which: kept})

    def altered(self, which: str, at: int, **fields: Any) -> NodeRecords:  # noqa: ANN401
        """The same records with other `fields` in record `at` of the list `which`."""
        kept = list(getattr(self, which))
        kept[at] = kept[at]._replace(**fields)
        return self._replace(**{which: kept})


def node_records(run: RecordedRun) -> NodeRecords:
    """Records of a leader per session, a follower from the middle on, and a cold reader."""
    found = NodeRecords([], [], [])
    state = PartitionState(TIP, GENESIS)
    entered = len(run.batches) // 2
    for number, value, durable in run.batches:
        first = state.next_position
        assert durable is not None
        decoded = decode_batch(SERDE, StoredBatch(number, value), first, state.chain_hash)
        if number == entered:
            entry = Applied(durable, "follower-1", KEY, first, first - 1, state.chain_hash)
            found.applied.append(entry)
        evolve_all(state, decoded.events, decoded.chain_hash)
        last, session = state.next_position - 1, decoded.events[0].session
        taken = Applied(durable, "", KEY, first, last, decoded.chain_hash)
        found.applied.append(taken._replace(node_life="leader-1"))
        seen = StateSeen(durable, "host-1", LEADER, KEY, last, state_digest(state))
        found.states.append(seen)
        found.led.append(Led(durable, f"leader of {session}", KEY, session, last))
        if number >= entered:
            found.applied.append(taken._replace(time=durable + 1, node_life="follower-1"))
            found.states.append(seen._replace(node="host-2", role=FOLLOWER))
    end = state.next_position - 1
    found.states.append(StateSeen(run.now, "reader", COLD, KEY, end, state_digest(state)))
    return found


def all_found(
    run: RecordedRun,
    *,
    operations: list[Operation] | None = None,
    log: FinalLog | None = None,
    nodes: NodeRecords | None = None,
    healed: Healed | None = None,
) -> list[Violation]:
    """The violations that all checkers find, after the given changes to the run."""
    history = run.history()
    if operations is not None:
        history = CallHistory(operations, history.notes)
    nodes = node_records(run) if nodes is None else nodes
    return check(
        history,
        {KEY: run.log() if log is None else log},
        checkpoints={KEY: run.checkpoints},
        states=nodes.states,
        applied=nodes.applied,
        led=nodes.led,
        healed=None if healed is None else {KEY: healed},
        limits=Limits(128),
        check_every=1,
    )


def names(violations: Sequence[Violation]) -> set[str]:
    return {violation.checker for violation in violations}

"""Histories and logs with one thing in them that never happened."""

from collections.abc import Sequence
from typing import Any

from tests.models.recorded_run import KEY, RecordedRun
from tierledger.events.log_events import Event
from tierledger.simulation.checkers import check
from tierledger.simulation.checkers_violation import Violation
from tierledger.simulation.final_log import FinalLog
from tierledger.simulation.history import History, Operation


def altered(
    operations: Sequence[Operation],
    number: int,
    **fields: Any,  # noqa: ANN401 - Of that operation.
) -> list[Operation]:
    """`operations`, of which one was otherwise."""
    changed = list(operations)
    changed[number] = changed[number]._replace(**fields)
    return changed


def relogged(log: FinalLog, events: Sequence[Event]) -> FinalLog:
    """The log with other events, as if they had been stored so."""
    kept = dict(log.chain_hashes)
    times = [*log.durable_at, *[None] * len(events)][: len(events)]
    return FinalLog(
        log.topic_id_partition, log.genesis, events, chain_hashes=kept, durable_at=times
    )


def replaced(log: FinalLog, position: int, **fields: Any) -> FinalLog:  # noqa: ANN401 - As above.
    """The log, of which one event was otherwise."""
    events = list(log.events)
    events[position] = events[position]._replace(**fields)
    return relogged(log, events)


def rewritten(log: FinalLog, position: int, **fields: Any) -> FinalLog:  # noqa: ANN401 - As above.
    """The log, of which one event said otherwise."""
    body: Any = log.events[position].body
    return replaced(log, position, body=body._replace(**fields))


def without_times(log: FinalLog) -> FinalLog:
    """The log of a live run, where nobody knows when what became durable."""
    return FinalLog(
        log.topic_id_partition, log.genesis, log.events, chain_hashes=log.chain_hashes
    )


def all_found(
    run: RecordedRun, *, operations: list[Operation] | None = None, log: FinalLog | None = None
) -> list[Violation]:
    """What all checkers together say."""
    history = run.history()
    if operations is not None:
        history = History(operations, history.notes)
    return check(
        history,
        {KEY: run.log() if log is None else log},
        checkpoints={KEY: run.checkpoints},
        custom_metadata_bytes_max=128,
        check_every=1,
    )


def names(violations: Sequence[Violation]) -> set[str]:
    return {violation.checker for violation in violations}

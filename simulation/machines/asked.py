"""The questions behind a run that are about no single partition: how many, and of what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tierledger.actors.calls import PartitionKey
from tierledger.simulation.checkers.fold import folded
from tierledger.simulation.checkers.violation import Violation
from tierledger.simulation.history.final_log import FinalLog
from tierledger.simulation.machines.scenario.knobs import turned_to
from tierledger.simulation.questions.coordination import miscoordinated
from tierledger.simulation.questions.feeds import misfed
from tierledger.simulation.questions.memory import wrong_memory
from tierledger.simulation.questions.tables import wrong_table

HAPPENINGS = 80
"""Further happenings that a coordinator decides on."""

CHANGES = 60
"""Changes of each table, with small pages and shards; also the messages of `wrong_memory`."""

FEW = (("PAGE_ENTRIES_MAX", 3), ("SHARD_ROWS", 2))

FEEDS = (("FRAME_ROWS", 1), ("RING_BYTES", 1500))

PIECES = (("ITEMS_MAX", 2),)
"""Partitions that are placed at once, if coordinators are asked about small pieces."""

KEYS = 3
"""Partitions that the further happenings are about."""


def of_tables(logs: Iterable[FinalLog], seed: int) -> Iterator[Violation]:
    """Violations by tables and by what processes remember; also by feeds of each log."""
    with turned_to(FEW):
        yield from wrong_table(seed, CHANGES)
    yield from wrong_memory(seed, CHANGES)
    with turned_to(FEEDS):
        for log in logs:
            if folded(log) is not None:
                yield from misfed(log, seed, 2 * CHANGES)


def of_coordination(
    bodies: Iterable[object], keys: Sequence[PartitionKey], seed: int, *, in_pieces: bool
) -> Iterator[Violation]:
    """Violations by the coordinator's rules, on its log and behind it."""
    with turned_to(PIECES if in_pieces else ()):
        yield from miscoordinated(bodies, keys[:KEYS], HAPPENINGS, seed)

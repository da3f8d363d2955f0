"""Questions that no run asked are put to rules and tables, and find mistakes in them."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.models.simulation.recorded_run import small_run
from tierledger.actors import due, explained, holds
from tierledger.actors.calls import PartitionKey
from tierledger.actors.coordinator import decide as coordinator_decide
from tierledger.actors.coordinator import displaced, placement, refusals
from tierledger.actors.coordinator import evolve as coordinator_evolve
from tierledger.actors.coordinator.events import HostStarted
from tierledger.actors.feed.replica import Replica
from tierledger.actors.feed.source import FeedSource
from tierledger.actors.follower import Follower
from tierledger.actors.host.placement_order import PlacementOrder
from tierledger.actors.leader.checkpoints import Checkpoints
from tierledger.actors.leader.claim import WaitingClaims
from tierledger.events.partition import decide, evolve, imports, overlay, sessions
from tierledger.events.partition.state import KeptSegment
from tierledger.events.tables.epoch_tables import EpochTables
from tierledger.events.tables.paged_map import PAGE_ENTRIES_MAX, PagedMap
from tierledger.events.tables.segment_rows import SegmentRows
from tierledger.simulation.checkers.all import Asking
from tierledger.simulation.checkers.fold import folded
from tierledger.simulation.checkers.slow.decisions import Facts
from tierledger.simulation.checkers.violation import Violation
from tierledger.simulation.history.final_log import FinalLog
from tierledger.simulation.machines.asked import FEEDS, FEW, PIECES
from tierledger.simulation.machines.scenario.knobs import turned_to
from tierledger.simulation.mutants.catalogue import Mutant, planted
from tierledger.simulation.mutants.rewriting import rewritten
from tierledger.simulation.questions import decisions, deletions
from tierledger.simulation.questions.coordination import miscoordinated
from tierledger.simulation.questions.feeds import misfed
from tierledger.simulation.questions.memory import wrong_memory
from tierledger.simulation.questions.tables import wrong_table

KEYS = [PartitionKey(bytes(16), number) for number in range(3)]
HOSTS = [HostStarted(f"host-{at}", 1, f"process-{at}", f"host-{at}/1") for at in range(3)]
SEEDS = 8

LOG = small_run().log()


def of_decisions() -> list[Violation]:
    return asked_behind(decisions.asking(60))


def of_deletions() -> list[Violation]:
    return asked_behind(deletions.asking(60))


def asked_behind(asks: Asking) -> list[Violation]:
    """The violations after each prefix of a log."""
    found: list[Violation] = []
    for end in range(len(LOG.events) + 1):
        log = FinalLog(LOG.topic_id_partition, LOG.genesis, LOG.events[:end])
        facts, state = Facts(16, 1_000), folded(log)
        assert state is not None
        for event in log.events:
            facts.take(event)
        found += asks(log, facts, state)[0]
    return found


def of_coordination() -> list[Violation]:
    found: list[Violation] = []
    for seed in range(3 * SEEDS):
        with turned_to(PIECES if seed % 2 else ()):
            found += miscoordinated(HOSTS, KEYS, 150, seed)
    return found


def of_tables() -> list[Violation]:
    with turned_to(FEW):
        return [one for seed in range(SEEDS) for one in wrong_table(seed, 60)]


def of_memory() -> list[Violation]:
    return [one for seed in range(SEEDS) for one in wrong_memory(seed, 60)]


def of_feeds() -> list[Violation]:
    with turned_to(FEEDS):
        return [one for seed in range(4 * SEEDS) for one in misfed(LOG, seed, 120)]


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    assert of_deletions() == [], "these come behind those of decisions"
    assert of_coordination() == []
    assert of_tables() == []
    assert of_memory() == []
    assert of_feeds() == []


def mistaken(function: Any, old: str, new: str) -> Mutant:  # noqa: ANN401
    return Mutant("", "", frozenset(), lambda: rewritten(function, old, new))


DECISIONS = (
    (decide._update, "if not is_valid_segment_transition(source, target):", "if False:"),
    (decide._within_limit, "size > limits", "size >= limits"),
    (decide._add, "if row == pack_row(started_fields(body)):", "if False:"),
    (imports.import_events, "item.offset <= view", "item.offset < view"),
    (imports._updated, "if known is None:", "if False:"),
    (sessions._against, "ours > theirs", "ours >= theirs"),
    (sessions._verdict, "verdict.leader_epoch < max", "verdict.leader_epoch <= max"),
    (sessions._in_a_row, "run.session != session.number", "False"),
    (overlay.Overlay.note, "self._heard[body.broker_id] =", "_ ="),
    (overlay.Overlay._note_update, "self._buried[event.position] = event.log_time_ms", "pass"),
)
"""In what leaders decide."""

DELETIONS = (
    (evolve._segment_purge_started, ", lease_until_ms=body.lease_until_ms", ""),
    (decide._purges, "if kept.purger is None:", "if False:"),
    (KeptSegment.is_free, "now_ms >= self", "now_ms > self"),
    (due.only_due, "(one.is_unreleased if command.released else True)", "True"),
    (explained._not_by_size, ">= told", "> told"),
    (holds.in_force, "one in narrowest and one.term_ms", "one in narrowest"),
    (due.why_held, "if one.term_ms is None", ""),
)
"""In what a leader makes of deletions and purges."""

COORDINATION = (
    (coordinator_evolve._announced, "work += _release(state, key, entry)", "pass"),
    (placement._Placing.follow, "self.count += 1", "pass"),
    (coordinator_decide.hear, "max(last,", "min(last,"),
    (coordinator_evolve._followers_placed, "entry.follower_number = position", "pass"),
    (displaced._last_standing, "if is_alive and is_open", "if is_open"),
    (refusals.give_back, "entry.displaced.pop(body.holder[0], None)", "pass"),
    (placement._Room.least, "load >= self._bound", "load > self._bound"),
    (
        placement.hosts_wanted,
        "state.loads[host] - partitions_per_host for",
        "state.loads[host] - partitions_per_host + 1 for",
    ),
)
"""In what a coordinator makes of its log."""

TABLES = (
    (PagedMap.floor, "page._unpack()", "pass"),
    (PagedMap.delete, "page.first = self._firsts[at] = keys[0]", "pass"),
    (PagedMap.above, "at : at + 2", "at : at + 1"),
    (SegmentRows.snapshot, "self._owned = set()", "pass"),
    (SegmentRows.drop, "self._count += len(shard) - before", "pass"),
    (EpochTables.holders, "page.summary < offset", "page.summary <= offset"),
    (EpochTables.holders, "page_at(until), -1, -1", "page_at(until), 0, -1"),
)
"""In a table."""

MEMORY = (
    (PlacementOrder.is_late, "number < known", "number <= known"),
    (PlacementOrder._pass, "max(self._passed", "min(self._passed"),
    (WaitingClaims.hold, "command.waited_ms + delay_ms", "delay_ms"),
    (WaitingClaims.withdraw, "and waiting.command.claim == claim", ""),
    (Checkpoints.done, "self._events += self._held", "pass"),
    (Follower._slot_read, "and read.value is None", ""),
    (Follower._look_failed, "self._looking + self._awaiting_end", "self._awaiting_end"),
)
"""In what is kept in mind."""


REFUSED = [
    (FeedSource.restarted, "max(one.floor, one.given[0])", "one.floor"),
    (FeedSource.expect, "= claim, None", "= one.claim, None"),
]
READY = [
    (
        FeedSource._news_of_claim,
        "one.slices is not None or one.given[0] < one.ready_at",
        "one.slices is not None",
    ),
    (Replica.expect, "claim, False", "claim, self.is_ready"),
    (Replica._ready, "self.is_ready or ready.claim == self.claim", "True"),
]


@pytest.mark.parametrize(
    ("asked", "checker", "mistake"),
    [
        *((of_decisions, "misdecided", one) for one in DECISIONS),
        *((of_deletions, "misdecided", one) for one in DELETIONS),
        *((of_coordination, "miscoordinated", one) for one in COORDINATION),
        *((of_tables, "wrong_table", one) for one in TABLES),
        *((of_memory, "wrong_memory", one) for one in MEMORY),
        *((of_feeds, "fed_refused", one) for one in REFUSED),
        *((of_feeds, "early_ready", one) for one in READY),
    ],
)
def test_a_mistake_is_found_by_its_checker(
    asked: Callable[[], list[Violation]], checker: str, mistake: tuple[Any, str, str]
) -> None:
    with planted(mistaken(*mistake)):
        found = asked()

    assert {one.checker for one in found} == {checker}
    assert PAGE_ENTRIES_MAX == 512

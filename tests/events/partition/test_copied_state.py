"""A copy of a state is the same state, and each of the two goes on alone."""

from hypothesis import given
from hypothesis import strategies as st

from tests.models.events.driven_partition import (
    GENESIS,
    TIP,
    DrivenPartition,
    fold,
    import_of,
    opened,
)
from tests.models.events.histories import Step, histories
from tierledger.events.log_events import UNTIL_RELEASED_MS
from tierledger.events.partition.invariants import check
from tierledger.events.partition.state import (
    KeptSegment,
    KeptSegments,
    PartitionState,
    Tombstones,
)
from tierledger.events.tables.segment_rows import pack_row
from tierledger.events.tables.spilled_map import SpilledMap
from tierledger.simulation.service.spill import small_spill


@given(histories(), histories(), st.integers(0, 60), st.booleans())
def test_a_copy_and_its_origin_go_on_alone(
    history: Step, other: Step, cut: int, copy_first: bool
) -> None:
    origin = opened(imports=True)
    origin.accept(import_of(history[:cut]))
    copied = DrivenPartition()
    copied.state, copied.stored = origin.state.copy(), origin.stored.copy()

    assert copied.state.digest() == origin.state.digest()
    turns = [(origin, history[cut:]), (copied, other)]
    for partition, records in reversed(turns) if copy_first else turns:
        partition.accept(import_of(records, cut))

    for partition in (origin, copied):
        check(partition.state)
        folded = PartitionState(TIP, GENESIS)
        fold(folded, partition.stored, 3)
        assert folded.digest() == partition.state.digest()


def test_a_copy_has_its_own_indexes() -> None:
    tombstones, kept = Tombstones(), KeptSegments(small_spill())
    for position in range(3):
        tombstones.add(bytes([position]) * 16, position, 7)
        row = pack_row(
            [bytes([position]) * 16, 1, 0, 9, [0, 0, 0], 100, 5, 1, 5, None, False, 4]
        )
        kept.add(
            bytes([position]) * 16, position, KeptSegment(row, UNTIL_RELEASED_MS, 0, "", 7)
        )
    deleted, held = tombstones.copy(), kept.copy()
    for copied in (deleted, held):
        copied.drop_at(1)
    tombstones.add(b"x" * 16, 9, 8)

    assert [at for at, _ in tombstones.oldest(9)] == [0, 1, 2, 9]
    assert [at for at, _ in deleted.oldest(9)] == [0, 2]
    assert b"x" * 16 not in deleted
    assert (kept.bytes, len(kept), len(kept.unreleased)) == (300, 3, 3)
    assert (held.bytes, len(held), len(held.unreleased)) == (200, 2, 2)
    assert type(held.by_position) is SpilledMap, "it does not fill the memory"

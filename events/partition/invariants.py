"""The invariants of a partition's state, which hold between any two events.

`check` derives everything again from the rows and compares. It changes nothing and takes a pass
over all segments. Tests and the simulator use it, and a leader that is asked to check itself.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.partition.state import (
    DIGEST_MODULUS,
    PENDING_MAX,
    REQUESTS_MAX,
    PartitionState,
    hash_of,
)
from tierledger.events.tables.epoch_tables import EpochTables, interval_key
from tierledger.events.tables.segment_rows import (
    EPOCHS,
    FINISHED_AT,
    ID_BYTES,
    LOST,
    NOT_FINISHED,
    REFERENCED,
    SIZE,
    STATE,
    UNREFERENCED,
    Row,
    end_in_epoch,
    id_of_row,
    unpack_row,
)

_FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
_GONE = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED

Rows = dict[bytes, Row]


class Member(NamedTuple):
    """A segment in one epoch, as its row describes it."""

    segment_id: bytes
    start: int
    end: int
    placement: int
    is_finished: bool


def check(state: PartitionState) -> None:
    """Assert that a log can lead to `state`.

    Raises:
        AssertionError: None can; the message names the partition and the broken invariant.
    """
    rows = {id_of_row(row): unpack_row(row) for row in state.rows}
    try:
        _check_rows(state, rows)
        _check_digest(state)
        _check_tombstones(state, rows)
        _check_kept(state, rows)
        _check_head(state)
        members = _members(rows)
        assert members.keys() <= state.epochs.keys(), "each segment's epochs have tables"
        for epoch, tables in state.epochs.items():
            _check_epoch(state, epoch, tables, members[epoch], rows)
    except AssertionError as error:
        error.add_note(f"{state.topic_id_partition} before position {state.next_position}")
        raise


def _check_rows(state: PartitionState, rows: Rows) -> None:
    assert len(rows) == len(state.rows), "the rows are counted, and no id is in two"
    count, size = [0, 0, 0], [0, 0, 0]
    for segment_id, fields in rows.items():
        stored = state.rows.get(segment_id)
        assert stored is not None, f"{segment_id.hex()}: its row is found by its id"
        assert fields[STATE] < _GONE, f"{segment_id.hex()}: a deleted segment has no row"
        count[fields[STATE]] += 1
        size[fields[STATE]] += fields[SIZE]
        _check_row(state, segment_id, fields)
    assert state.count_by_state == count, (
        f"segments by state: {count}, {state.count_by_state} counted"
    )
    assert state.bytes_by_state == size, (
        f"bytes by state: {size}, {state.bytes_by_state} counted"
    )


def _check_row(state: PartitionState, segment_id: bytes, fields: Row) -> None:
    epochs, finished_at = fields[EPOCHS], fields[FINISHED_AT]
    numbers, placements = epochs[::3], epochs[2::3]
    assert numbers, f"{segment_id.hex()}: it has an epoch"
    assert numbers == sorted(set(numbers)), f"{segment_id.hex()}: epochs ascend"
    assert NOT_FINISHED <= finished_at < state.next_position, "it finished in the past"
    if fields[STATE] == _FINISHED:
        assert finished_at != NOT_FINISHED, f"{segment_id.hex()}: finished at some position"
        assert set(placements) <= {REFERENCED, UNREFERENCED, LOST}
    else:
        assert set(placements) == {UNREFERENCED}, f"{segment_id.hex()}: not served"
    if fields[STATE] == RemoteLogSegmentState.COPY_SEGMENT_STARTED:
        assert finished_at == NOT_FINISHED, f"{segment_id.hex()}: has not finished yet"
    assert not set(numbers) & set(state.strays.get(segment_id, ())), "a stray epoch is a former"


def _check_digest(state: PartitionState) -> None:
    assert len(state.pending) < PENDING_MAX, "the digest is settled in time"
    settled = state.rows_digest
    for segment_id, before in state.pending.items():
        after = state.rows.get(segment_id)
        settled -= 0 if before is None else hash_of(before)
        settled += 0 if after is None else hash_of(after)
    fresh = sum(hash_of(row) for row in state.rows)
    assert settled % DIGEST_MODULUS == fresh % DIGEST_MODULUS, "the rows' digest"


def _check_tombstones(state: PartitionState, rows: Rows) -> None:
    tombstones = state.tombstones
    tombstones.by_position.check()
    entries = list(tombstones.by_position.items())
    times = [int.from_bytes(value[16:], "big", signed=True) for _, value in entries]
    assert times == sorted(times), "the oldest tombstones stand first"
    assert all(time_ms <= state.log_time_ms for time_ms in times), "deleted in the past"
    for position, value in entries:
        assert 0 <= position < state.next_position, "deleted at a position of the log"
        assert tombstones.position_of(value[:16]) == position, "found by its id"
        assert value[:16] not in rows, f"{value[:16].hex()}: deleted and alive"
    assert len({value[:16] for _, value in entries}) == len(entries), "one tombstone per id"
    fresh = sum(hash_of(value) for _, value in entries) % DIGEST_MODULUS
    assert tombstones.digest == fresh, "the tombstones' digest"


def _check_kept(state: PartitionState, rows: Rows) -> None:
    kept = state.kept
    kept.by_position.check()
    for position, one in kept.all():
        segment_id = id_of_row(one.row)
        assert 0 <= position < state.next_position, "kept at a position of the log"
        assert kept.position_of(segment_id) == position, "found by its id"
        assert segment_id not in rows, f"{segment_id.hex()}: kept and alive"
        assert segment_id not in state.tombstones, f"{segment_id.hex()}: kept and deleted"
        assert unpack_row(one.row)[STATE] == _FINISHED, f"{segment_id.hex()}: never finished"
    ids = {value[:ID_BYTES] for _, value in kept.by_position.items()}
    assert len(ids) == len(kept), "each id once"
    fresh = sum(hash_of(value) for _, value in kept.by_position.items()) % DIGEST_MODULUS
    assert kept.digest == fresh, "the digest of what is kept"
    unreleased = {position for position, one in kept.all() if one.is_unreleased}
    assert {at for at, _ in kept.unreleased} == unreleased, "what nobody has released"
    sizes = (unpack_row(one.row)[SIZE] for _, one in state.kept.all())
    assert state.kept.bytes == sum(sizes), "the bytes of what is kept are added up"


def _check_head(state: PartitionState) -> None:
    session = state.session
    if session is not None:
        assert state.heard[session.broker_id] == session.pair, "who leads was heard last"
    for kept in state.requests.values():
        positions = list(kept.values())
        assert len(positions) < REQUESTS_MAX, "requests are forgotten in time"
        assert positions == sorted(positions), "the oldest request stands first"
        assert all(0 <= one < state.next_position for one in positions), "led to a position"
    for segment_id, epochs in state.strays.items():
        assert epochs == tuple(sorted(set(epochs))), f"{segment_id.hex()}: strays ascend"
        assert epochs, f"{segment_id.hex()}: strays are kept while there are any"
        assert set(epochs) <= state.epochs.keys(), f"{segment_id.hex()}: strays have tables"
    if state.is_finished:
        left = (len(state.rows), len(state.epochs), len(state.strays), len(state.tombstones))
        assert left == (0, 0, 0, 0), f"a deleted partition holds nothing: {left}"


def _members(rows: Rows) -> defaultdict[int, list[Member]]:
    members: defaultdict[int, list[Member]] = defaultdict(list)
    for segment_id, fields in rows.items():
        epochs = fields[EPOCHS]
        for at in range(0, len(epochs), 3):
            epoch, start, placement = epochs[at : at + 3]
            end = end_in_epoch(fields, epoch)
            done = fields[STATE] == _FINISHED
            members[epoch].append(Member(segment_id, start, end, placement, done))
    return members


def _check_epoch(
    state: PartitionState,
    epoch: int,
    tables: EpochTables,
    members: list[Member],
    rows: Rows,
) -> None:
    for _, table in tables.tables():
        table.check()
    strays = {one for one, epochs in state.strays.items() if epoch in epochs}
    placed: list[set[bytes]] = [set(), set(), set()]
    for member in members:
        placed[member.placement].add(member.segment_id)
    referenced = dict(tables.referenced.items())
    unreferenced = {one for one, _ in tables.unreferenced.items()}
    lost = {one for one, _ in tables.lost.items()}
    served = {one.start: one.segment_id for one in members if one.placement == REFERENCED}
    assert referenced == served, f"epoch {epoch}: referenced"
    assert len(served) == len(placed[REFERENCED]), f"epoch {epoch}: one segment at an offset"
    assert unreferenced == placed[UNREFERENCED] | strays, f"epoch {epoch}: unreferenced"
    assert lost == placed[LOST], f"epoch {epoch}: lost"
    _check_hidden(epoch, tables, members)
    listed = [*referenced.values(), *unreferenced, *lost]
    assert len(set(listed)) == len(listed), f"epoch {epoch}: each is listed once"
    size = sum(rows[one][SIZE] for one in listed if one in rows)
    assert tables.size == size, f"epoch {epoch}: {tables.size} bytes counted, {size} listed"
    ends = [one.end for one in members if one.is_finished]
    if ends:
        assert tables.highest is not None, f"epoch {epoch}: something finished"
        assert tables.highest >= max(ends), f"epoch {epoch}: highest {tables.highest}"


def _check_hidden(epoch: int, tables: EpochTables, members: list[Member]) -> None:
    """`hidden` has exactly the finished segments that a floor search can miss.

    See `epoch_tables`.
    """
    expected = {}
    for one in members:
        following = tables.referenced.above(one.start)
        overlapped = following is not None and following[0] <= one.end
        if one.is_finished and (one.placement != REFERENCED or overlapped):
            expected[interval_key(one.start, one.segment_id)] = one.end
    assert dict(tables.hidden.items()) == expected, f"epoch {epoch}: hidden"
    for page in tables.hidden.pages:
        assert page.summary in {None, max(page.values)}, f"epoch {epoch}: a page's highest end"

"""The reader over generated logs: elections, lost lineages, overlaps, transactions, times."""

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from tests.models.tiering.read_tier import reader
from tests.models.tiering.written_log import (
    ABORT,
    COMMIT,
    NO_PRODUCER,
    NOW_MS,
    WrittenLog,
    WrittenTier,
)
from tierledger.tiering.local.leader_epochs import epochs_from, epochs_until
from tierledger.tiering.reader.reader import IsolationLevel

COMMITTED = IsolationLevel.READ_COMMITTED


async def offsets(
    tier: WrittenTier,
    from_offset: int | None = None,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    to_offset: int | None = None,
) -> list[int]:
    found = []
    async for record in reader(tier).records(from_offset, isolation, to_offset):
        assert record.headers == [("at", b"%d" % record.offset)]
        found.append(record.offset)
    return found


class History(NamedTuple):
    """A tier and what is true of it."""

    tier: WrittenTier
    log: WrittenLog
    """Of the lineage that the tier's newest segment knows."""
    start: int
    """Of that log, as that segment knows it."""
    end: int
    """Of the tier, exclusive."""


Step = tuple[str, int, int]

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("data"), st.integers(1, 4), st.just(NO_PRODUCER)),
        st.tuples(st.just("data"), st.integers(1, 4), st.integers(1, 2)),
        st.tuples(st.just("end"), st.sampled_from((ABORT, COMMIT)), st.integers(1, 2)),
        st.tuples(st.just("copy"), st.integers(0, 3), st.integers(0, 3)),
        st.tuples(st.just("elect"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("trim"), st.integers(1, 4), st.just(0)),
    ),
    min_size=1,
    max_size=40,
)


async def history(steps: list[Step], piece_bytes: int) -> History | None:
    """The log and its tier after `steps`; None if nothing is in the tier."""
    tier, log, covered, epoch = WrittenTier(piece_bytes), WrittenLog(), 0, 0
    for kind, number, other in steps:
        if kind == "data":
            times = [NOW_MS + (log.end + at) * 7 % 50 for at in range(number)]
            log.append(number, other, timestamps=times, codec=number % 5)
        elif kind == "end" and other in log.open_transactions(log.end):
            log.end_transaction(other, number)
        elif kind == "copy" and covered < log.end:
            # An upload begins with a segment that may reach back, and ends where one rolled.
            starts = [one.first for one in log.batches if one.first <= covered]
            ends = [one.last + 1 for one in log.batches if one.last >= covered]
            start, end = starts[max(0, len(starts) - 1 - number)], ends[: other + 1][-1]
            await tier.copy(log, start, end)
            covered = end
        elif kind == "trim":
            start = min(log.epochs.values()) + number
            if start <= covered:
                log.epochs = epochs_from(log.epochs, start)
        elif kind == "elect":
            epoch += 1
            kept = log.batches[: len(log.batches) - number]
            log.elect(epoch, kept[-1].last + 1 if kept else 0)
            covered = min(covered, log.end)
    if not tier.copied:
        return None
    newest, known = max(
        tier.copied, key=lambda one: (max(one[0].segment_leader_epochs), one[0].end_offset)
    )
    end = newest.end_offset + 1
    return History(tier, known, min(epochs_until(known.epochs, end).values()), end)


@given(STEPS, st.sampled_from((17, 64, 1000)), st.data())
async def test_it_gives_what_the_newest_lineage_wrote_and_nothing_else(
    steps: list[Step], piece_bytes: int, data: st.DataObject
) -> None:
    found = await history(steps, piece_bytes)
    if found is None:
        return
    tier, log, first, end = found
    start = data.draw(st.integers(first, end), label="start")
    stop = data.draw(st.integers(start, end), label="stop")

    assert await offsets(tier) == log.offsets(first, end, committed=False)
    assert await offsets(tier, start, to_offset=stop) == [
        one for one in log.offsets(start, end, committed=False) if one < stop
    ]
    assert await reader(tier).end_offset(COMMITTED) == log.last_stable_offset(end)
    assert await offsets(tier, None, COMMITTED) == log.offsets(first, end, committed=True)
    assert await offsets(tier, start, COMMITTED, stop) == [
        one for one in log.offsets(start, end, committed=True) if one < stop
    ]


@given(STEPS, st.integers(NOW_MS - 1, NOW_MS + 60))
async def test_a_time_leads_to_the_first_record_that_is_not_earlier(
    steps: list[Step], timestamp_ms: int
) -> None:
    found = await history(steps, 1000)
    if found is None:
        return
    tier, log, first, end = found
    later = [
        one.first + at
        for one in log.batches
        for at, time in enumerate(one.timestamps)
        if time >= timestamp_ms and first <= one.first + at < end
    ]

    assert await reader(tier).from_timestamp(timestamp_ms) == min(later, default=end)

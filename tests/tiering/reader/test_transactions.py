"""Committed reading: which transactions were aborted, and how the reader learns of it."""

from itertools import pairwise

import pytest

from tests.models.tiering.read_tier import read
from tests.models.tiering.written_log import ABORT, COMMIT, WrittenLog, WrittenTier
from tierledger.events.errors import RemoteResourceNotFound
from tierledger.tiering.reader.reader import IsolationLevel

COMMITTED = IsolationLevel.READ_COMMITTED


async def test_an_aborted_transaction_with_a_missing_marker_is_not_given() -> None:
    tier, log = WrittenTier(), WrittenLog()
    log.append(5, producer=1)
    log.append(5)
    log.end_transaction(1, ABORT)
    log.append(9)
    log.append(10)
    await tier.copy(log, 0, 10)
    marker = await tier.copy(log, 10, 20)
    await tier.copy(log, 20, 30)
    assert await read(tier, 0, COMMITTED) == ([*range(5, 10), *range(11, 30)], None)
    await tier.delete(marker)

    found, error = await read(tier, 0, COMMITTED)

    assert found == []
    assert isinstance(error, RemoteResourceNotFound)


@pytest.mark.parametrize(("lost", "kept"), [(ABORT, COMMIT), (COMMIT, ABORT)])
async def test_an_end_in_a_lost_lineage_does_not_count(lost: int, kept: int) -> None:
    tier, log = WrittenTier(), WrittenLog()
    log.append(5, producer=1)
    log.append(5)
    unclean = log.copy()
    unclean.end_transaction(1, lost)
    unclean.append(9)
    await tier.copy(unclean, 0, 20)
    log.elect(2)
    log.append(5)
    log.end_transaction(1, kept)
    log.append(4)
    await tier.copy(log, 10, 20)

    found, error = await read(tier, 0, COMMITTED)

    assert error is None
    assert found == log.offsets(0, 20, committed=True)
    assert (0 in found) == (kept == COMMIT)


async def test_each_index_is_fetched_once_and_a_snapshot_only_where_it_is_needed() -> None:
    tier, log = WrittenTier(), WrittenLog()
    for number in range(40):
        log.append(5, producer=1 if number % 4 == 1 else -1)
        if number % 4 == 3:
            log.end_transaction(1, ABORT if number % 8 == 3 else COMMIT)
    ends = [log.batches[at].last + 1 for at in range(3, 49, 5)]
    for start, end in pairwise([0, *ends]):
        await tier.copy(log, start, end)

    found, error = await read(tier, None, COMMITTED)

    assert error is None
    assert found == log.offsets(0, ends[-1], committed=True)
    with_index = sum(not metadata.txn_index_empty for metadata, _ in tier.copied)
    assert tier.requests("TRANSACTION") == with_index > 2
    # What lies behind the last stable offset shows that its transaction is open indeed.
    assert tier.requests("log") == len(tier.copied) + 1
    assert tier.requests("PRODUCER_SNAPSHOT") <= len(tier.copied) + 1
    assert tier.requests("LEADER_EPOCH") == 1

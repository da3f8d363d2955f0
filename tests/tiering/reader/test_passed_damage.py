"""A reading that goes on behind a damaged batch: it costs its own offsets, and no others."""

from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from tests.models.storage.flipped_bits import flipped
from tests.models.tiering.read_tier import read as read_strictly
from tests.models.tiering.read_tier import reader
from tests.models.tiering.written_log import (
    ABORT,
    COMMIT,
    WrittenBatch,
    WrittenLog,
    WrittenTier,
)
from tierledger.events.errors import CorruptRemoteData, RejectedError
from tierledger.tiering.formats.records import LostRecords
from tierledger.tiering.reader.reader import IsolationLevel

COMMITTED = IsolationLevel.READ_COMMITTED
LENGTH_AT, MAGIC_AT, CRC_AT = 8, 16, 17


@dataclass
class Found:
    """What a reading gave."""

    offsets: list[int] = field(default_factory=list)
    lost: list[LostRecords] = field(default_factory=list)
    error: Exception | None = None

    @property
    def gaps(self) -> list[tuple[int, int]]:
        return [(one.first, one.last) for one in self.lost]


async def read(
    tier: WrittenTier,
    start: int | None = None,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    end: int | None = None,
) -> Found:
    found = Found()
    records = reader(tier).records(start, isolation, end, found.lost.append)
    try:
        async for record in records:
            found.offsets.append(record.offset)
    except Exception as error:  # noqa: BLE001 - The test looks at the error.
        found.error = error
    return found


async def tier_of(log: WrittenLog, *bounds: int) -> WrittenTier:
    tier = WrittenTier()
    for start, end in pairwise(bounds):
        await tier.copy(log, start, end)
    return tier


def damage(tier: WrittenTier, batch: WrittenBatch, at: int, bit: int = 4) -> None:
    """Flip a bit of the batch where it is stored."""
    for segment, log in tier.storage.logs.items():
        place = log.find(batch.data)
        if place >= 0:
            tier.storage.logs[segment] = flipped(log, place + at, bit)
            return
    raise AssertionError(batch)


@pytest.mark.parametrize("at", [CRC_AT, MAGIC_AT, 25, 60, 70])
async def test_each_damaged_batch_costs_its_own_offsets(at: int) -> None:
    log = WrittenLog()
    log.fill(9, 3)

    for batch in log.batches:
        tier = await tier_of(log, 0, 12, 27)
        damage(tier, batch, at)
        lost = range(batch.first, batch.last + 1)
        for start, end in ((0, 27), (4, 20), (batch.first + 1, 27), (13, 14)):
            found = await read(tier, start, end=end)
            wanted = range(start, end)
            assert found.error is None
            assert found.offsets == [one for one in wanted if one not in lost]
            gone = [one for one in wanted if one in lost]
            assert found.gaps == ([(gone[0], gone[-1])] if gone else [])
        committed = await read(tier, isolation=COMMITTED)
        assert committed.offsets == [one for one in range(27) if one not in lost]


async def test_without_somebody_to_tell_damage_is_an_error_as_ever() -> None:
    log = WrittenLog()
    log.fill(3, 2)
    tier = await tier_of(log, 0, 6)
    damage(tier, log.batches[1], CRC_AT)

    found, error = await read_strictly(tier)

    assert found == [0, 1]
    assert isinstance(error, CorruptRemoteData)
    assert "offset 2" in str(error)


async def test_a_length_that_leads_nowhere_costs_the_rest_of_the_segment() -> None:
    log = WrittenLog()
    log.fill(6, 2)
    for at, bit in ((LENGTH_AT + 3, 1), (LENGTH_AT + 2, 1), (LENGTH_AT, 1)):
        tier = await tier_of(log, 0, 12)
        damage(tier, log.batches[2], at, bit)

        found = await read(tier)

        assert (found.offsets, found.gaps) == ([0, 1, 2, 3], [])
        assert isinstance(found.error, CorruptRemoteData)


async def test_two_damaged_batches_in_a_row_are_not_believed_to_be_any() -> None:
    log = WrittenLog()
    log.fill(6, 2)
    tier = await tier_of(log, 0, 12)
    damage(tier, log.batches[2], CRC_AT)
    damage(tier, log.batches[3], CRC_AT)
    damage(tier, log.batches[5], CRC_AT)

    found = await read(tier)

    assert found.offsets == [0, 1, 2, 3]
    assert "offset 4" in str(found.error)


async def test_a_batch_of_an_old_format_costs_itself() -> None:
    log = WrittenLog()
    log.fill(3, 2)
    tier = await tier_of(log, 0, 6)
    damage(tier, log.batches[1], MAGIC_AT, 2)

    found = await read(tier)

    assert found.gaps == [(2, 3)]
    assert isinstance(found.lost[0].error, CorruptRemoteData | RejectedError)


@pytest.mark.parametrize("end", [ABORT, COMMIT])
async def test_transactions_at_a_gap_are_judged_by_the_indexes(end: int) -> None:
    log = WrittenLog()
    for _ in range(2):
        log.append(2, 7)
        log.append(2, 8)
        log.append(2, 7)
        log.end_transaction(7, end)
        log.end_transaction(8, COMMIT)
        log.append(1)
    right = log.offsets(0, log.end, committed=True)

    for batch in log.batches:
        tier = await tier_of(log, 0, log.end)
        damage(tier, batch, CRC_AT)
        found = await read(tier, isolation=COMMITTED)
        lost = range(batch.first, batch.last + 1)
        assert found.error is None
        assert found.offsets == [one for one in right if one not in lost]
        assert found.gaps == [(batch.first, batch.last)]

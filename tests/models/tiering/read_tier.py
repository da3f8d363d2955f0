"""Reads of a written tier: the offsets that came, and the error that ended the read."""

from tests.models.tiering.written_log import TIP, WrittenLog, WrittenTier
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.tiering.reader.reader import IsolationLevel, RemoteLogReader


def reader(tier: WrittenTier) -> RemoteLogReader:
    return RemoteLogReader(tier.metadata, tier.storage, TIP)


async def read(
    tier: WrittenTier,
    from_offset: int | None = None,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> tuple[list[int], Exception | None]:
    """The offsets of the records that came, and the error that ended the read, if any."""
    found: list[int] = []
    records = reader(tier).records(from_offset, isolation)
    try:
        async for record in records:
            found += [record.offset]
    except Exception as error:  # noqa: BLE001 - The test looks at the error.
        return found, error
    return found, None


async def three_segments() -> tuple[WrittenTier, list[RemoteLogSegmentMetadata]]:
    """A tier of offsets 0 to 9, 10 to 19 and 20 to 29, from 10 on in leader epoch 4."""
    tier, log = WrittenTier(), WrittenLog()
    for number in range(15):
        if number == 5:
            log.elect(4)
        log.append(2)
    return tier, [await tier.copy(log, start, start + 10) for start in (0, 10, 20)]

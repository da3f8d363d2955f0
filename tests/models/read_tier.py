"""Readings of a written tier: what came, and the error that ended it."""

from tests.models.written_log import TIP, WrittenLog, WrittenTier
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.tiering.reader.reader import IsolationLevel, RemoteLogReader


def reader(tier: WrittenTier) -> RemoteLogReader:
    return RemoteLogReader(tier.metadata, tier.storage, TIP)


async def read(
    tier: WrittenTier,
    from_offset: int | None = None,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> tuple[list[int], Exception | None]:
    """What came, and the error that ended it."""
    found: list[int] = []
    records = reader(tier).records(from_offset, isolation)
    try:
        async for record in records:
            found += [record.offset]
    except Exception as error:  # noqa: BLE001 - Whatever it is, the test looks at it.
        return found, error
    return found, None


async def three_segments() -> tuple[WrittenTier, list[RemoteLogSegmentMetadata]]:
    """Offsets 0 to 9, 10 to 19 and 20 to 29; in leader epoch 4 from 10 on."""
    tier, log = WrittenTier(), WrittenLog()
    for number in range(15):
        if number == 5:
            log.elect(4)
        log.append(2)
    return tier, [await tier.copy(log, start, start + 10) for start in (0, 10, 20)]

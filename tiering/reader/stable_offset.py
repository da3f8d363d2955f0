"""The last stable offset of a tier: up to where a committed reading goes."""

from __future__ import annotations

from tierledger.events.errors import RemoteResourceNotFound
from tierledger.storage.process_log import ProcessLog
from tierledger.tiering.closing import closing
from tierledger.tiering.formats.record_batches import note_transaction
from tierledger.tiering.reader.indexes import SegmentIndexes
from tierledger.tiering.reader.run import LogRun
from tierledger.tiering.reader.tier import Tier, open_transactions_after

_log = ProcessLog("tierledger.tiering")


async def last_stable_offset(tier: Tier) -> int:
    """Where the oldest transaction without an end in the tier begins; else its `next_offset`.

    The newest segment's producer snapshot tells. Topics from before Kafka 2.8 may have segments
    without one: then the log behind the newest snapshot is read, or all of it.

    Raises:
        RemoteResourceNotFound: A segment that has to be read is not there.
        CorruptRemoteData: A snapshot or a log that has to be read is damaged.
    """
    start, opened = await _newest_known(tier)
    if start < tier.next_offset:
        _log.warning(
            "no producer snapshot; the log is read for open transactions",
            segment=str(tier.newest.remote_log_segment_id),
            offset=start,
        )
        run = LogRun(tier, SegmentIndexes(tier.storage), start, tier.next_offset)
        async with closing(run.batches()) as found:
            async for _, batch in found:
                note_transaction(opened, batch)
    return min((tier.next_offset, *opened.values()))


async def _newest_known(tier: Tier) -> tuple[int, dict[int, int]]:
    """The first offset behind the newest snapshot, and the transactions open there."""
    start = tier.next_offset
    for epoch_range in reversed(tier.chain.ranges):
        held = [one async for one in tier.segments_in(epoch_range)]
        for metadata, part in reversed(held):
            start = part.first
            # A segment that ends in a lost lineage has a snapshot of that lineage.
            if part.last != metadata.end_offset:
                continue
            try:
                opened = await open_transactions_after(tier.storage, metadata)
            except RemoteResourceNotFound:
                continue
            return part.last + 1, opened
    return start, {}

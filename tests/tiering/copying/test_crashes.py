"""A broker killed at every step of copying and deleting: metadata and bucket agree in the end.

Each test takes one stage of a partition's life. Its steps are counted in a run that nobody
kills; then for each of them a broker with a log, a store and a place in the bucket of its own
is killed there, and another process does the stage again. At some steps of copying that is
another broker, with a log of its own.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.models.tiering import tier_trace
from tests.models.tiering.tier_broker import CLUSTER, PART_BYTES, Ended, Job, run
from tests.tiering.conftest import TierPlace
from tierledger.events.errors import PartitionDeleted, RemoteResourceNotFound
from tierledger.events.identifiers import RemoteLogSegmentId
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.simulation.live.s3_server import S3Server
from tierledger.storage.catalog import Catalog
from tierledger.storage.connector import load_connector, load_serde
from tierledger.tiering.layouts.tier_url import open_tier
from tierledger.tiering.reader.reader import RemoteLogReader
from tierledger.tiering.stored_metadata import StoredMetadata

pytestmark = pytest.mark.chaos

TIP = next(tip for tip in tier_trace.topics() if tip.topic == "codec-lz4")
SEGMENTS = tier_trace.segments_of(TIP.topic, TIP.partition)
STARTS = [one.metadata.start_offset for one in SEGMENTS]

LEFT = {"copy": STARTS, "size": STARTS[1:], "time": STARTS[2:], "remove": []}
"""Start offsets of the segments that are there when a stage is done."""

TAKEOVERS = range(3, 3 * 14, 9)
"""Steps of copying, each elsewhere between a segment's announcement and its last record."""

EVERY = {"copy": 3}
"""Of a segment's 14 steps of copying each comes once, by turns in one of the three segments."""

STEPS_MIN = {"copy": 3 * 14, "size": 8, "time": 8, "remove": 3 * 2 + 8}
"""Steps that a stage has at least: two for each write and each request."""


class Broker:
    """A broker with a log directory, a store and a place in the bucket of its own."""

    def __init__(self, folder: Path, server: S3Server, place: TierPlace, stage: str) -> None:
        folder.mkdir()
        tier_trace.local_log_directory(folder, TIP.topic, TIP.partition)
        url, options = place
        self.job = Job(folder, TIP, url, options, stage)
        self._server = server

    def run(self, kill_at: int | None = None) -> Ended:
        return run(self.job, kill_at)

    def hand_over(self) -> None:
        """Let broker 2 be who runs from now on, with a log that knows of nothing remote."""
        disk = self.job.folder / "broker-2"
        tier_trace.local_log_directory(disk, TIP.topic, TIP.partition)
        self.job = self.job._replace(broker=2, disk=disk)

    def end_grace(self) -> None:
        """Let nobody's unfinished copies be left alone any longer."""
        self.job = self.job._replace(grace_ms=0)

    def agreed(self) -> list[int]:
        """Start offsets of all segments, if each is whole in the bucket and nothing else is."""
        return asyncio.run(self._agreed())

    def unfinished(self) -> set[RemoteLogSegmentId]:
        """The segments of which only the announcement is there."""
        return asyncio.run(self._unfinished())

    async def _unfinished(self) -> set[RemoteLogSegmentId]:
        async with self._opened() as source:
            return {
                one.remote_log_segment_id
                for one in await listed(source)
                if one.state == RemoteLogSegmentState.COPY_SEGMENT_STARTED
            }

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[StoredMetadata]:
        config = {"metadata.storage.url": f"sqlite:{self.job.folder / 'ledger.sqlite'}"}
        connector, serde = load_connector(config), load_serde(config)
        backend = await connector.backend(read_only=True)
        try:
            catalog = Catalog(backend, connector.key_factory(CLUSTER), serde, CLUSTER)
            yield StoredMetadata(catalog.reader)
        finally:
            await backend.close()

    async def first_offset(self) -> int | None:
        async with (
            self._opened() as source,
            open_tier(self.job.url, self.job.options) as storage,
        ):
            return await RemoteLogReader(source, storage, TIP).earliest_offset()

    async def _agreed(self) -> list[int]:
        async with self._opened() as source:
            segments = await listed(source)
            await self._read_back(source, segments)
        objects = dict(self._server.objects(self.job.url))
        for segment in segments:
            assert segment.state == RemoteLogSegmentState.COPY_SEGMENT_FINISHED
            take(objects, segment)
        assert objects == {}, "nobody knows of these objects"
        return [segment.start_offset for segment in segments]

    async def _read_back(
        self, source: StoredMetadata, segments: list[RemoteLogSegmentMetadata]
    ) -> None:
        """The segments left in the tier are read whole: offsets, timestamps, bytes."""
        if not segments:
            return
        originals = {one.metadata.start_offset: one for one in SEGMENTS}
        expected = b"".join(originals[one.start_offset].log for one in segments)
        async with open_tier(self.job.url, self.job.options) as storage:
            reader = RemoteLogReader(source, storage, TIP)
            assert await reader.earliest_offset() == segments[0].start_offset
            read = [bytes(batch.data) async for batch in reader.batches()]
            assert b"".join(read) == expected
            for segment in segments:
                middle = (segment.start_offset + segment.end_offset) // 2
                first = await anext(reader.batches(middle))
                assert first.base_offset <= middle <= first.last_offset
            newest = segments[-1]
            at = await reader.from_timestamp(newest.max_timestamp_ms)
            assert at is not None
            assert newest.start_offset <= at <= newest.end_offset


async def listed(source: StoredMetadata) -> list[RemoteLogSegmentMetadata]:
    try:
        found = [one async for one in source.list_remote_log_segments(TIP)]
    except PartitionDeleted:
        return []
    return sorted(found, key=lambda one: one.start_offset)


def take(objects: dict[str, int], segment: RemoteLogSegmentMetadata) -> None:
    """Take the segment's objects out of `objects`: the parts of its log, and its indexes."""
    segment_id = str(segment.remote_log_segment_id.id)
    mine = [name for name in objects if segment_id in name]
    parts = sorted(name for name in mine if "/log." in name)
    assert len(parts) == -(-segment.segment_size_in_bytes // PART_BYTES)
    assert sum(objects[name] for name in parts) == segment.segment_size_in_bytes
    assert [name.rpartition("/")[2] for name in mine if name not in parts] == ["indexes"]
    for name in mine:
        del objects[name]


@pytest.mark.parametrize(
    ("stage", "every"),
    [
        *((stage, EVERY.get(stage, 1)) for stage in LEFT),
        pytest.param("copy", 1, marks=pytest.mark.long),
    ],
)
def test_killed_at_any_step_a_broker_that_comes_back_leaves_no_orphan_and_misses_nothing(
    stage: str,
    every: int,
    tmp_path: Path,
    s3_server: S3Server,
    s3_tier: Callable[[], TierPlace],
) -> None:
    unharmed = Broker(tmp_path / "unharmed", s3_server, s3_tier(), stage)
    steps = unharmed.run().steps
    assert unharmed.agreed() == LEFT[stage]
    assert steps >= STEPS_MIN[stage]

    for step in range(0, steps, every):
        broker = Broker(tmp_path / f"{step}", s3_server, s3_tier(), stage)
        assert broker.run(kill_at=step).was_killed
        broker.run()
        assert broker.agreed() == LEFT[stage], f"killed at step {step}"


def test_a_broker_that_takes_over_leaves_unfinished_copies_alone_until_the_grace_is_over(
    tmp_path: Path, s3_server: S3Server, s3_tier: Callable[[], TierPlace]
) -> None:
    for step in TAKEOVERS:
        broker = Broker(tmp_path / f"{step}", s3_server, s3_tier(), "copy")
        assert broker.run(kill_at=step).was_killed
        left = broker.unfinished()
        broker.hand_over()

        broker.run()

        assert broker.unfinished() == left, f"killed at step {step}"
        assert len(left) == 1
        broker.end_grace()
        broker.run()
        assert broker.agreed() == LEFT["copy"], f"killed at step {step}"


def test_a_removed_partition_is_gone_for_readers(
    tmp_path: Path, s3_server: S3Server, s3_tier: Callable[[], TierPlace]
) -> None:
    broker = Broker(tmp_path / "one", s3_server, s3_tier(), "remove")
    broker.run()

    with pytest.raises(RemoteResourceNotFound, match="deletion is finished"):
        asyncio.run(broker.first_offset())

"""Scrubs of whole tiers: every planted damage is found, and nothing else."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace
from typing_extensions import override

from tests.models.storage.flipped_bits import flipped
from tests.models.tiering import tier_trace
from tests.models.tiering.damaged_tier import PART_BYTES, DamagedTier, TierSegments, payments
from tests.models.tiering.damaged_tier import Damage as Planted
from tests.models.tiering.written_log import ABORT, WrittenLog
from tierledger.events.errors import FormatTooNew, InvalidArgument, StorageUnavailable
from tierledger.events.identifiers import Uuid
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.tiering.formats.index_files import TRANSACTION_ENTRY
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.formats.leader_epoch_checkpoint import format_leader_epochs
from tierledger.tiering.formats.record_batches import BatchSplitter
from tierledger.tiering.layouts.kafka import KafkaLayoutStorageManager
from tierledger.tiering.layouts.tier_url import Layout
from tierledger.tiering.objects.request_counts import Operation
from tierledger.tiering.remote_storage_manager import RemoteStorageManager
from tierledger.tiering.scrub.log_check import LogCheck, SegmentFault
from tierledger.tiering.scrub.pace import Pace
from tierledger.tiering.scrub.progress import DamagedObject, Progress, load_progress
from tierledger.tiering.scrub.scrubber import Scrubber

LAYOUTS = pytest.mark.parametrize("layout", list(Layout))


def scrubber_of(
    tier: DamagedTier,
    progress: Progress,
    storage: RemoteStorageManager | None = None,
) -> Scrubber:
    source, storage = TierSegments(tier), storage or tier.storage()
    return Scrubber(source, storage, tier.names, progress, bytes_per_second=None)


async def scrubbed(tier: DamagedTier) -> Progress:
    """The findings of a scrub of the whole tier."""
    progress = Progress({})
    async for _ in scrubber_of(tier, progress).run():
        pass
    assert progress.is_complete
    assert progress.unread == []
    return progress


def names(findings: list[DamagedObject]) -> set[str]:
    return {one.object for one in findings}


@LAYOUTS
async def test_nothing_is_wrong_with_a_brokers_tier(layout: Layout, tmp_path: Path) -> None:
    tier = await DamagedTier.written(layout, tmp_path, list(tier_trace.segments()))

    progress = await scrubbed(tier)

    assert progress.findings == []
    assert progress.segments == len(tier_trace.segments())
    sizes = [
        len(one.log) + sum(map(len, one.indexes.values())) for one in tier_trace.segments()
    ]
    assert progress.bytes == sum(sizes)


def is_harmless(layout: Layout, damage: Planted) -> bool:
    """Whether the object is as good as before, or nobody can tell."""
    if layout == Layout.LEDGER:
        return False
    if damage.role == "index":
        # An offset index without its last entries only makes readers read more.
        return damage.kind in {"shorter by an entry", "halved"}
    if damage.role == "rsm-manifest":
        # Of the manifest only places and sizes matter, and whose it is.
        return damage.kind.startswith("flipped")
    return False


@LAYOUTS
async def test_every_damage_is_found_and_nothing_else(layout: Layout, tmp_path: Path) -> None:
    tier = await DamagedTier.written(layout, tmp_path, payments())
    wrong = []

    for number in (0, 2):
        for damage in await tier.damages(number):
            async with tier.damaged(damage):
                progress = await scrubbed(tier)
            segment_id = str(damage.segment.metadata.remote_log_segment_id.id)
            found = {one.segment_id for one in progress.findings}
            is_found = damage.name in names(progress.findings)
            if found - {segment_id} or not (is_found or is_harmless(layout, damage)):
                wrong.append(f"{damage}: {progress.findings}")

    assert wrong == []


async def test_a_flipped_bit_anywhere_in_a_log_is_found(tmp_path: Path) -> None:
    tier = await DamagedTier.written(Layout.LOCAL_TIERED, tmp_path, payments())
    (damage, *_) = [one for one in await tier.damages(2) if one.role == "log"]
    tier.segments = [damage.segment]
    first = int.from_bytes(damage.before[8:12]) + 12

    for at in (*range(first, first + 70), *range(first + 70, len(damage.before), 997)):
        changed = flipped(damage.before, at, 1 << (at * 5) % 8)
        async with tier.damaged(damage._replace(content=changed)):
            found = (await scrubbed(tier)).findings

        assert names(found) == {damage.name}, at
        # A wrong offset shows on the batch behind.
        assert (found[0].position or 0) <= at + 2 * first


class Killed(BaseException):
    """The process ended here."""


class Watched(KafkaLayoutStorageManager):
    """Notes which segments were read to their end; fails or ends as told."""

    def __init__(self, tier: DamagedTier) -> None:
        super().__init__(tier.store)
        self.read: list[Uuid] = []
        self.kill_at: int | None = None
        self.away: set[Uuid] = set()

    @override
    async def fetch_log_segment(
        self,
        metadata: RemoteLogSegmentMetadata,
        start_position: int,
        end_position: int | None = None,
    ) -> AsyncIterator[bytes]:
        segment_id = metadata.remote_log_segment_id.id
        if segment_id in self.away:
            raise StorageUnavailable("it does not answer")
        if self.kill_at == len(self.read):
            raise Killed
        async for piece in super().fetch_log_segment(metadata, start_position, end_position):
            yield piece
        self.read.append(segment_id)


def all_ids(tier: DamagedTier) -> set[Uuid]:
    return {one.metadata.remote_log_segment_id.id for one in tier.segments}


@pytest.mark.parametrize("kill_at", [0, 1, 17, 39])
async def test_a_killed_scrub_reads_each_segment_once(kill_at: int, tmp_path: Path) -> None:
    tier = await DamagedTier.written(Layout.LOCAL_TIERED, tmp_path, list(tier_trace.segments()))
    (damage,) = [
        one for one in await tier.damages(0) if (one.role, one.kind) == ("index", "missing")
    ]
    storage, file, scope = Watched(tier), tmp_path / "progress", {"tier": "this"}
    storage.kill_at = kill_at

    async def run() -> Progress:
        progress = load_progress(file, scope)
        async for _ in scrubber_of(tier, progress, storage).run():
            progress.save(file)
        progress.save(file)
        return progress

    async with tier.damaged(damage):
        with pytest.raises(Killed):
            await run()
        assert len(storage.read) == kill_at
        storage.kill_at = None
        progress = await run()
        again = await run()

    assert len(storage.read) == len(tier.segments)
    assert set(storage.read) == all_ids(tier)
    assert names(progress.findings) == {damage.name}
    assert progress.segments == len(tier.segments)
    assert again == progress, "all is done: nothing is read"


async def test_what_cannot_be_read_stops_nothing_and_is_tried_again(tmp_path: Path) -> None:
    tier = await DamagedTier.written(Layout.LOCAL_TIERED, tmp_path, payments())
    storage, progress = Watched(tier), Progress({})
    storage.away = {tier.segments[0].metadata.remote_log_segment_id.id}
    scrubber = scrubber_of(tier, progress, storage)

    assert len([size async for size in scrubber.run()]) == 3
    assert [one.message for one in progress.unread] == ["it does not answer"]
    assert set(storage.read) == all_ids(tier) - storage.away
    storage.away = set()
    assert len([size async for size in scrubber.run()]) == 1

    assert (progress.unread, progress.findings, progress.segments) == ([], [], 3)
    assert set(storage.read) == all_ids(tier)
    assert len(storage.read) == 3


async def test_what_is_deleted_meanwhile_is_no_damage(tmp_path: Path) -> None:
    tier = await DamagedTier.written(Layout.LOCAL_TIERED, tmp_path, payments())
    source, progress = TierSegments(tier), Progress({})
    for damage in await tier.damages(1):
        if damage.content is None:
            await tier.store.delete(Operation.DELETE, [damage.name])
    scrubber = Scrubber(source, tier.storage(), tier.names, progress, bytes_per_second=None)
    source.gone = {tier.segments[1].metadata.remote_log_segment_id.id}

    assert len([size async for size in scrubber.run()]) == 3

    assert (progress.findings, progress.unread) == ([], [])


class FakeClock:
    """Goes on when somebody sleeps."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.slept: list[float] = []

    def now_s(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds


async def test_it_reads_no_faster_than_its_rate(tmp_path: Path) -> None:
    tier = await DamagedTier.written(Layout.LEDGER, tmp_path, payments())
    clock, progress = FakeClock(), Progress({})
    scrubber = Scrubber(
        TierSegments(tier),
        tier.storage(),
        tier.names,
        progress,
        bytes_per_second=1000,
        clock=clock,
    )

    async for _ in scrubber.run():
        assert clock.time - 1000 == pytest.approx(progress.bytes / 1000)

    assert progress.seconds == pytest.approx(progress.bytes / 1000)
    assert max(clock.slept) <= PART_BYTES / 1000
    with pytest.raises(InvalidArgument, match="a rate of 1 or more, got 0"):
        Pace(0, clock)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"format": 2}', "expected format 1, found 2"),
        ('{"format": 1, "scope": {"tier": "that"}}', "it is of .*that"),
        ('{"format": 1, "other": 1}', "expected the progress of a scrub"),
        ("[]", "expected the progress of a scrub"),
        ("", "expected the progress of a scrub"),
        ('{"format": 1, "scope": {"tier": "this"}, "cursor": 5}', "expected the progress"),
        (
            '{"format": 1, "scope": {"tier": "this"}, "findings": [[1]]}',
            "expected the progress",
        ),
    ],
)
def test_a_file_of_anything_else_is_refused(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(content)

    with pytest.raises((InvalidArgument, FormatTooNew), match=message):
        load_progress(tmp_path / "file", {"tier": "this"})


def test_a_device_is_neither_read_as_progress_nor_replaced() -> None:
    with pytest.raises(InvalidArgument, match="no regular file"):
        load_progress(Path("/dev/null"), {"tier": "this"})


@pytest.mark.parametrize(
    ("epochs", "is_right"),
    [({0: 0, 3: 82}, True), ({0: 0, 3: 81}, False), ({0: 0}, False), ({3: 82}, True)],
)
def test_an_epoch_begins_where_it_is_known(epochs: dict[int, int], is_right: bool) -> None:
    *_, segment = payments()
    metadata = replace(segment.metadata, segment_leader_epochs={3: 84})
    indexes = {**segment.indexes, IndexType.LEADER_EPOCH: format_leader_epochs(epochs)}
    log = replace_epoch(segment.log, 3)

    found = checked(metadata, indexes, log, {3: 82, 7: 99})

    assert [one.index_type for one in found] == ([] if is_right else [IndexType.LEADER_EPOCH])


def test_a_batch_of_another_epoch_is_damage_of_the_log() -> None:
    *_, segment = payments()

    found = checked(segment.metadata, segment.indexes, replace_epoch(segment.log, 5), {})

    assert [(one.index_type, one.position) for one in found] == [(None, 0)]
    assert "expected leader epoch 0 for offset 84, got 5" in found[0].message


@pytest.mark.parametrize(("first", "is_right"), [(4, True), (3, False), (1, False)])
def test_a_marker_without_data_may_be_entered_as_a_transaction_of_itself(
    first: int, is_right: bool
) -> None:
    # Brokers before 2.4 did so: its first offset is its own.
    log = WrittenLog()
    log.append(2)
    log.append(1, 7)
    log.end_transaction(7, ABORT)
    log.end_transaction(8, ABORT)
    first_of_7 = TRANSACTION_ENTRY.pack(0, 7, 2, 3, 4)
    entries = first_of_7 + TRANSACTION_ENTRY.pack(0, 8, first, 4, 5)
    metadata = replace(
        tier_trace.segments()[0].metadata,
        start_offset=0,
        end_offset=4,
        segment_leader_epochs={0: 0},
    )

    found = damages(metadata, log, {IndexType.TRANSACTION: entries})

    assert (found == []) == is_right


def damages(
    metadata: RemoteLogSegmentMetadata, log: WrittenLog, indexes: Mapping[IndexType, bytes]
) -> list[str]:
    """What is wrong with the transaction index of a segment with the whole of `log`."""
    check = LogCheck(metadata, indexes, {})
    found = list(check.begin())
    position = 0
    for batch in log.batches:
        (one,) = BatchSplitter("log", 0, 0).feed(batch.data)
        found += check.take(one, position)
        position += len(batch.data)
    found += check.finish()
    return [one.message for one in found if one.index_type is IndexType.TRANSACTION]


def checked(
    metadata: RemoteLogSegmentMetadata,
    indexes: Mapping[IndexType, bytes],
    log: bytes,
    known_epochs: dict[int, int],
) -> list[SegmentFault]:
    check = LogCheck(metadata, indexes, known_epochs)
    splitter = BatchSplitter("it", 0, len(log))
    found = list(check.begin())
    for batch in splitter.feed(log):
        found += check.take(batch, splitter.position - len(batch.data))
    return found + list(check.finish())


def replace_epoch(log: bytes, epoch: int) -> bytes:
    """The batches of `log`, each stamped by the leader of that epoch."""
    changed, at = bytearray(log), 0
    for batch in BatchSplitter("it", 0, len(log)).feed(log):
        changed[at + 12 : at + 16] = epoch.to_bytes(4)
        at += len(batch.data)
    return bytes(changed)

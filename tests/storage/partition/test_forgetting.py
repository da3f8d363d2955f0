"""A partition that holds nothing can be let go; it stays known where it ended."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from typing_extensions import override

from tests.models.storage.stored_partitions import (
    CLUSTER,
    SERDE,
    TIP,
    StoredPartition,
    finished,
    segment_id,
    updated,
)
from tierledger.events.errors import RejectedError, RemoteResourceNotFound
from tierledger.events.log_events import SegmentKept
from tierledger.events.partition.invariants import check
from tierledger.storage.backend import (
    AtomicConflict,
    CreateOutcome,
    MetadataStorageBackend,
    Operation,
)
from tierledger.storage.backends.memory import MemoryBackend
from tierledger.storage.backends.sqlite.backend import SqliteBackend
from tierledger.storage.catalog import Catalog
from tierledger.storage.partition.forgetting import forget
from tierledger.storage.partition.verification import verify

PASSED = CreateOutcome.PASSED


async def emptied(
    backend: MetadataStorageBackend | None = None, *, checkpoint: bool = True
) -> StoredPartition:
    partition = await StoredPartition.led(backend)
    for number in range(3):
        await partition.append(finished(number))
        await partition.append([updated(number, 2), updated(number, 3)])
        if checkpoint:
            await partition.checkpoint()
    await partition.close()
    return partition


def catalog(partition: StoredPartition) -> Catalog:
    return Catalog(partition.backend, partition.keys, SERDE, CLUSTER)


async def test_what_is_kept_from_deletion_is_never_forgotten() -> None:
    partition = await StoredPartition.led()
    await partition.append(finished(0))
    await partition.append([updated(0, 2), SegmentKept(segment_id(0), 9, 1, 1, 5, "undo")])
    await partition.close()

    for segments_too in (False, True):
        with pytest.raises(RejectedError, match="1 deleted segments are kept"):
            await forget(partition.reader(), segments_too=segments_too)


async def test_nothing_of_the_segments_that_went_with_it_is_counted() -> None:
    partition = await StoredPartition.led()
    await partition.append(finished(0))
    await partition.close()

    await forget(partition.reader(), segments_too=True)

    state, _ = await partition.reader().state()
    check(state)
    assert state.count_by_state == [0, 0, 0]
    assert state.next_position == partition.state.next_position


@pytest.mark.parametrize("checkpoint", [True, False])
async def test_what_stays_is_the_boundary_alone(checkpoint: bool, tmp_path: Path) -> None:
    backend = await SqliteBackend.open(tmp_path / "store.sqlite")
    partition = await emptied(backend, checkpoint=checkpoint)
    keys = partition.keys

    await forget(partition.reader())

    left = [key for key, _ in await backend.get_like("")]
    next_slot = keys.log_batch(partition.tip, partition.next_batch)
    assert left == [next_slot, keys.partition(partition.tip)]
    assert [entry.is_forgotten async for entry in catalog(partition).partitions()] == [True]
    with pytest.raises(RemoteResourceNotFound):
        await catalog(partition).topic("orders")
    assert (await verify(partition.reader())).passed
    await backend.close()


async def test_a_leader_could_go_on_where_the_log_ended() -> None:
    partition = await emptied()
    await forget(partition.reader())

    again = await StoredPartition.resumed(partition.backend)
    again.partition_value = partition.values[again.keys.partition(TIP)]
    again.state.tracks_changes = True
    await again.open()
    await again.append(finished(9))
    await again.checkpoint()
    await again.append(finished(10))

    assert again.state.session is not None
    assert again.state.session.number == 2
    assert again.next_batch == partition.next_batch + 4
    state, _ = await again.reader().state()
    assert state.digest() == again.state.digest()
    report = await verify(again.reader())
    assert report.findings == ()
    assert report.checkpoint_position is not None
    found = await catalog(again).topic("orders")
    assert found.topic_id == TIP.topic_id
    with pytest.raises(RemoteResourceNotFound):
        await again.reader().state_as_of(position=2)


async def test_the_boundary_outlives_the_checkpoint() -> None:
    partition = await emptied()
    await forget(partition.reader())
    await partition.backend.remove_like(partition.keys.state(TIP))

    state, next_batch = await partition.reader().state()

    assert state.next_position == partition.state.next_position
    assert state.chain_hash == partition.state.chain_hash
    assert next_batch == partition.next_batch + 1


@pytest.mark.parametrize("slot", range(9))
async def test_no_slot_of_a_forgotten_log_can_be_won_again(slot: int) -> None:
    partition = await emptied()
    await forget(partition.reader())
    before = dict(partition.values)

    late = await partition.backend.create_each([(partition.batch_key(slot), b"late")])

    assert late == [CreateOutcome.EXISTS if slot == partition.next_batch else PASSED]
    assert dict(partition.values) == before


class OvertakenStore(MemoryBackend):
    """A store in which somebody is quicker than an atomic step."""

    quicker: Callable[[], Awaitable[None]] | None = None

    @override
    async def execute_atomically(self, operations: Sequence[Operation]) -> None:
        quicker, self.quicker = self.quicker, None
        if quicker is not None:
            await quicker()
        await super().execute_atomically(operations)


async def test_nothing_is_forgotten_if_somebody_leads_meanwhile() -> None:
    backend = OvertakenStore()
    partition = await emptied(backend)
    backend.quicker = partition.open

    with pytest.raises(AtomicConflict):
        await forget(partition.reader())

    assert (await verify(partition.reader())).passed
    state, _ = await partition.reader().state()
    assert state.is_open


async def test_a_partition_that_is_led_is_kept() -> None:
    await kept(await StoredPartition.led(), "led by broker 1")


async def test_a_partition_with_segments_is_kept() -> None:
    partition = await StoredPartition.led()
    await partition.append(finished(1))
    await partition.close()

    await kept(partition, "1 segments")


async def kept(partition: StoredPartition, message: str) -> None:
    before = dict(partition.values)

    with pytest.raises(RejectedError, match=message):
        await forget(partition.reader())

    assert dict(partition.values) == before

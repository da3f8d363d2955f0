"""A partition read without actors: whole, as of a point, and when something is wrong."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from sortedcontainers import SortedDict
from typing_extensions import override

from tests.models.storage.stored_partitions import (
    SERDE,
    TIME_MS,
    TIP,
    TRACES,
    StoredPartition,
    finished,
    import_trace,
    updated,
)
from tierledger.events.errors import CorruptLog, InvalidArgument, RemoteResourceNotFound
from tierledger.events.event_codec import chain
from tierledger.events.partition.state import PartitionState
from tierledger.storage.backends.memory import MemoryBackend
from tierledger.storage.backends.sqlite.backend import SqliteBackend
from tierledger.storage.partition.event_log import StoredBatch, stored_events
from tierledger.storage.partition.forgetting import forget

STEP_MS = 1000


async def written(
    backend: MemoryBackend | None = None, *, checkpoint_after: int | None = 3
) -> tuple[StoredPartition, list[tuple[bytes, int]]]:
    """A partition, and after each batch the digest and the next position."""
    partition = await StoredPartition.led(backend)
    digests = [(partition.state.digest(), partition.state.next_position)]
    for number in range(6):
        await partition.append([*finished(number), updated(number, 2)], step_ms=STEP_MS)
        digests.append((partition.state.digest(), partition.state.next_position))
        if number == checkpoint_after:
            await partition.checkpoint()
    return partition, digests


@pytest.mark.parametrize("trace", ["one-broker", "tier"])
@pytest.mark.parametrize("checkpoint_at", [0.0, 0.5, 2.0])
async def test_the_state_is_that_of_the_writer(
    trace: str, checkpoint_at: float, tmp_path: Path
) -> None:
    backend = await SqliteBackend.open(tmp_path / "store.sqlite")
    partitions = await import_trace(backend, TRACES / trace, checkpoint_at=checkpoint_at)

    for partition in partitions:
        reader = partition.reader()
        state, next_batch = await reader.state()
        assert state.digest() == partition.state.digest()
        assert next_batch == partition.next_batch
        assert reader.notes == []
    await backend.close()


async def test_a_state_as_of_a_position_is_what_the_writer_had_then() -> None:
    partition, digests = await written()

    for digest, next_position in digests:
        state = await partition.reader().state_as_of(position=next_position - 1)
        assert state.digest() == digest


async def test_a_state_can_be_cut_within_a_batch() -> None:
    partition, _ = await written()
    whole = await StoredPartition.led()
    await whole.append(finished(0), step_ms=STEP_MS)

    state = await partition.reader().state_as_of(position=2)

    assert state.next_position == 3
    assert state.chain_hash == whole.state.chain_hash
    assert state.digest() == whole.state.digest()


@pytest.mark.parametrize("checkpoint_after", [None, 0, 3, 5])
async def test_a_time_names_the_last_event_until_then(checkpoint_after: int | None) -> None:
    partition, _ = await written(checkpoint_after=checkpoint_after)
    events = [event async for event in partition.reader().events()]

    for time_ms in range(TIME_MS, events[-1].log_time_ms + 1500, 500):
        state = await partition.reader().state_as_of(time_ms=time_ms)
        last = max(event.position for event in events if event.log_time_ms <= time_ms)
        assert state.next_position == last + 1


async def test_before_the_first_event_nothing_is_known() -> None:
    partition, _ = await written()

    with pytest.raises(RemoteResourceNotFound):
        await partition.reader().state_as_of(time_ms=TIME_MS - 1)


async def test_a_position_beyond_the_log_is_refused() -> None:
    partition, digests = await written()
    end = digests[-1][1]

    with pytest.raises(InvalidArgument, match=f"up to {end - 1}, got {end}"):
        await partition.reader().state_as_of(position=end)


@pytest.mark.parametrize("from_position", [0, 1, 5, 12, 13, 18, 19, 400])
async def test_events_come_from_any_position_on(from_position: int) -> None:
    partition, digests = await written()

    found = [event.position async for event in partition.reader().events(from_position)]

    assert found == list(range(from_position, digests[-1][1]))


async def test_a_damaged_checkpoint_is_left_aside_and_said() -> None:
    partition, digests = await written()
    partition.values[partition.keys.partition(partition.tip)] = b"damaged"
    reader = partition.reader()

    state, _ = await reader.state()

    assert state.digest() == digests[-1][0]
    assert len(reader.notes) == 1
    assert "log alone" in reader.notes[0]


async def test_a_checkpoint_without_its_segments_is_left_aside() -> None:
    partition, digests = await written()
    await partition.backend.remove_like(partition.keys.segments(partition.tip))
    reader = partition.reader()

    state, _ = await reader.state()

    assert state.digest() == digests[-1][0]
    assert len(reader.notes) == 1


async def test_a_damaged_log_is_an_error() -> None:
    partition, _ = await written(checkpoint_after=None)
    await partition.flip(4)

    with pytest.raises(CorruptLog):
        await partition.reader().state()


async def test_a_log_without_its_beginning_is_an_error() -> None:
    partition, _ = await written(checkpoint_after=None)
    await partition.lose(0)

    with pytest.raises(CorruptLog, match="begins at batch 1"):
        await partition.reader().state()


class BegunMeanwhile(MemoryBackend):
    """A store in which all is written right behind the first look at a log."""

    written: SortedDict[str, bytes]

    @override
    async def get_like(self, prefix: str, **bounds: Any) -> list[tuple[str, bytes]]:
        found = await super().get_like(prefix, **bounds)
        self.values = self.written
        return found


async def test_a_log_that_begins_while_it_is_looked_for_is_no_damage() -> None:
    backend = BegunMeanwhile()
    partition, _ = await written(backend)
    backend.written, backend.values = backend.values, SortedDict()

    start = await partition.reader().beginning()

    assert start.next_batch == 0
    assert start.state.next_position == 0


async def test_a_partition_without_a_log_is_unknown() -> None:
    with pytest.raises(RemoteResourceNotFound):
        await StoredPartition(MemoryBackend()).reader().state()


async def test_reading_as_of_now_does_not_need_a_checkpoint() -> None:
    partition, _ = await written(checkpoint_after=None)

    state: PartitionState = await partition.reader().state_as_of(time_ms=2 * TIME_MS)

    assert state.digest() == partition.state.digest()


async def test_a_position_and_its_hash_are_found_wherever_they_are_in_the_log() -> None:
    partition = await StoredPartition.led()
    for number in range(40):
        await partition.append([finished(number)[0]] * (1 + number % 3))
    reader, hashes = partition.reader(), list[bytes]()
    for number in range(partition.next_batch):
        value = await partition.batch(number)
        hashes += map(chain, stored_events(SERDE, StoredBatch(number, value))[1])
    assert len(hashes) == partition.state.next_position

    for near in (0, 7, partition.next_batch, 1000):
        for position, chain_hash in enumerate(hashes):
            assert await reader.has_history(position, chain_hash, near)
            assert not await reader.has_history(position, b"another", near)
            assert not await reader.has_history(position + 1, chain_hash, near)


@pytest.mark.parametrize("slot", [1, 20, 39, 41], ids="slot {}".format)
@pytest.mark.parametrize("foreign", [0, 30])
async def test_a_batch_in_a_wrong_slot_makes_a_log_damaged_and_not_another(
    slot: int, foreign: int
) -> None:
    partition = await StoredPartition.led()
    other = await StoredPartition.led(tip=replace(TIP, partition=4))
    for number in range(40):
        await partition.append([finished(number)[0]])
        await other.append([finished(number)[0]] * 3)
    reader, hashes = partition.reader(), list[bytes]()
    for number in range(partition.next_batch):
        value = await partition.batch(number)
        hashes += map(chain, stored_events(SERDE, StoredBatch(number, value))[1])
    backend: Any = partition.backend
    backend.values[partition.batch_key(slot)] = await other.batch(foreign)

    for near in (0, slot, partition.next_batch):
        for position, chain_hash in enumerate(hashes):
            with suppress(CorruptLog):
                assert await reader.has_history(position, chain_hash, near)


async def test_of_a_log_that_was_forgotten_the_boundary_alone_is_compared() -> None:
    partition = StoredPartition(MemoryBackend())
    assert not await partition.reader().has_history(0, b"any"), "there is no log"
    await partition.open()
    await partition.close()
    end, chain_hash = partition.state.next_position - 1, partition.state.chain_hash
    reader = partition.reader()
    await forget(reader)
    partition.state, partition.next_batch = await reader.state()
    await partition.open()

    assert await reader.has_history(0, b"nothing is left of it")
    assert await reader.has_history(end, chain_hash)
    assert not await reader.has_history(end, b"another")
    assert await reader.has_history(end + 1, partition.state.chain_hash)
    assert not await reader.has_history(end + 2, partition.state.chain_hash)

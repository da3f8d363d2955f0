"""Answers out of a store without any service, held against Kafka's own."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from typing_extensions import override

from tests.models.storage.stored_partitions import (
    TIP,
    StoredPartition,
    added,
    finished,
    import_trace,
    metadata_in,
    updated,
)
from tests.models.tiering import tier_trace
from tierledger.conformance.answers import AnsweredQuestion, QueryResult, read_answers
from tierledger.events.errors import PartitionDeleted, RemoteResourceNotFound
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.log_events import PartitionDeleteUpdated
from tierledger.storage.backends.memory import MemoryBackend
from tierledger.tiering.stored_metadata import StoredMetadata


async def opened(backend: MemoryBackend) -> tuple[StoredPartition, StoredMetadata]:
    """A partition of one segment, and what readers are told of it."""
    partition = await StoredPartition.led(backend)
    await partition.append(finished(0))
    return partition, metadata_in(backend)


async def answer(metadata: StoredMetadata, asked: AnsweredQuestion) -> object:
    question = asked.question
    tip = TopicIdPartition(question.topic_id, question.partition, question.topic)
    epoch, offset = question.epoch or 0, question.offset or 0
    match question.query:
        case "lookup":
            found = await metadata.remote_log_segment_metadata(tip, epoch, offset)
        case "next_txn":
            found = await metadata.next_segment_with_txn_index(tip, epoch, offset)
        case "highest_offset":
            return await metadata.highest_offset_for_epoch(tip, epoch)
        case "size":
            return await metadata.remote_log_size(tip, epoch)
        case "list_epoch":
            return [str(one) async for one in ids(metadata, tip, epoch)]
        case _:
            return sorted([str(one) async for one in ids(metadata, tip, None)])
    return None if found is None else str(found.remote_log_segment_id.id)


async def ids(
    metadata: StoredMetadata, tip: TopicIdPartition, epoch: int | None
) -> AsyncIterator[Uuid]:
    async for one in metadata.list_remote_log_segments(tip, epoch):
        yield one.remote_log_segment_id.id


@pytest.mark.parametrize("checkpoint_at", [0.5, 2.0], ids=["checkpoint", "log alone"])
async def test_it_answers_as_the_broker_did(checkpoint_at: float) -> None:
    backend = MemoryBackend()
    await import_trace(backend, tier_trace.TRACE, checkpoint_at=checkpoint_at)
    metadata = metadata_in(backend)
    asked = [
        one
        for one in read_answers(tier_trace.TRACE / "answers.jsonl.gz")
        if one.question.after is None
    ]

    for one in asked:
        assert isinstance(one.outcome, QueryResult)
        expected = one.outcome.value
        if one.question.query == "list":
            expected = sorted(segment["id"] for segment in expected)

        assert await answer(metadata, one) == expected, one.question

    assert {one.question.query for one in asked} >= {"lookup", "list", "list_epoch", "size"}


async def test_a_summary_is_that_of_the_whole_state_whether_or_not_it_is_loaded() -> None:
    partition, metadata = await opened(MemoryBackend())
    for number in range(1, 12):
        await partition.append(finished(number, epoch=number // 4))
    await partition.checkpoint()
    await partition.append([added(20, 200, 209, epoch=7)])

    before = await metadata.partition_summary(TIP)
    assert len([one async for one in metadata.list_remote_log_segments(TIP)]) == 13
    after = await metadata.partition_summary(TIP)

    assert before == after
    assert before.count_by_state == (1, 12, 0)
    assert before.leader_epochs == (0, 1, 2, 7)


async def test_what_was_listed_follows_the_log() -> None:
    partition, metadata = await opened(MemoryBackend())
    listing = metadata.list_remote_log_segments(TIP)
    assert (await anext(listing)).start_offset == 0

    await partition.append([*finished(1), updated(0, 2)])

    found = await metadata.remote_log_segment_metadata(TIP, 0, 15)
    assert found is not None
    assert found.end_offset == 19
    assert await metadata.remote_log_segment_metadata(TIP, 0, 5) is None
    assert await metadata.highest_offset_for_epoch(TIP, 0) == 19
    # A list that was begun goes on as it was.
    assert [one.start_offset async for one in listing] == []
    assert len([one async for one in metadata.list_remote_log_segments(TIP, 0)]) == 2


class UnhurriedBackend(MemoryBackend):
    """Lets others run in the middle of a reading, as a file or a server does."""

    batches_read = 0

    @override
    async def get_like(
        self, prefix: str, *, after: str | None = None, limit: int = 1000
    ) -> list[tuple[str, bytes]]:
        found = await super().get_like(prefix, after=after, limit=limit)
        self.batches_read += len(found)
        await asyncio.sleep(0)
        return found


async def test_questions_at_the_same_time_see_each_event_once() -> None:
    backend = UnhurriedBackend()
    partition, metadata = await opened(backend)
    assert [one async for one in metadata.list_remote_log_segments(TIP)]
    await partition.fill(range(1, 9))
    await partition.append([updated(0, 2), updated(0, 3)])
    backend.batches_read = 0

    found = await asyncio.gather(
        *(metadata.remote_log_segment_metadata(TIP, 0, at * 10) for at in range(1, 9))
    )

    assert [one.start_offset for one in found if one] == [at * 10 for at in range(1, 9)]
    assert (await metadata.partition_summary(TIP)).count_by_state == (0, 8, 0)
    assert backend.batches_read == 9, "nobody read what another was reading"


@pytest.mark.parametrize("is_held", [False, True])
async def test_a_deleted_partition_answers_nothing(is_held: bool) -> None:
    partition, metadata = await opened(MemoryBackend())
    if is_held:
        assert [one async for one in metadata.list_remote_log_segments(TIP)]
    await partition.append([PartitionDeleteUpdated(state, 1, 5) for state in (0, 1, 2)])

    with pytest.raises(PartitionDeleted):
        await metadata.remote_log_segment_metadata(TIP, 0, 5)
    with pytest.raises(PartitionDeleted):
        await metadata.partition_summary(TIP)
    with pytest.raises(PartitionDeleted):
        await anext(metadata.list_remote_log_segments(TIP))


async def test_an_unknown_partition_is_an_error_not_nothing() -> None:
    metadata = metadata_in(MemoryBackend())

    with pytest.raises(RemoteResourceNotFound):
        await metadata.highest_offset_for_epoch(TIP, 0)
    with pytest.raises(RemoteResourceNotFound):
        await anext(metadata.list_remote_log_segments(TIP, 0))

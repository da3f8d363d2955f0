"""Compares Kafka's metadata topic, folded by Kafka's rules, with tierledger's answers.

The topic is folded here from its records alone, by brute force (`conformance`), without the
code of Kafka's manager or of tierledger's.

Rule 1: a partition's leader answers; for a partition that nobody leads, as after its topic's
deletion, its log. Each question is asked anew, so a leader that opens meanwhile is asked next.
Rule 2: what counts is what a broker could see or lose, and that hangs on segments. A partition
without segments in either manager is equal, whether one knows it as deleted, forgotten or
empty. A leader epoch's highest offset counts while the epoch has a segment that was finished.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from typing_extensions import override

from tierledger.actors.calls import STORAGE, PartitionKey
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.messages import Query
from tierledger.conformance.answers import recorded_segment
from tierledger.conformance.loaded_trace import RefusedRecord, imported_record, partition_of
from tierledger.conformance.recorded_segments import (
    RecordedPartition,
    RecordedSegment,
    RecordedTopic,
)
from tierledger.events.errors import (
    FormatTooNew,
    PartitionDeleted,
    RemoteResourceNotFound,
)
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.tables.segment_rows import id_of_row
from tierledger.moving.importing import newer_record

if TYPE_CHECKING:
    from tierledger.moving.topic import TopicReader

AT_ONCE = 16
"""Partitions that are compared concurrently."""

DELETED = "its deletion is finished"

SHOWN_ALWAYS = {"id", "state", "start_offset", "end_offset", "size"}

SEGMENT = "segment "
"""How questions about one segment begin, before its id."""


class Disagreement(NamedTuple):
    """A question that Kafka's topic and tierledger answer differently."""

    partition: TopicIdPartition
    question: str
    kafka: object
    tierledger: object

    @property
    def segment(self) -> bytes | None:
        """The id of the segment that it is about; None if it is about none, or several."""
        if not self.question.startswith(SEGMENT):
            return None
        return bytes(Uuid.parse(self.question.removeprefix(SEGMENT)))

    @override
    def __str__(self) -> str:
        """One line: partition, question and both answers."""
        kafka, ours = self.kafka, self.tierledger
        return (
            f"{self.partition}, {self.question}: by Kafka's metadata topic "
            f"{_shown(kafka, ours)}, by tierledger {_shown(ours, kafka)}"
        )


def _shown(answer: object, other: object) -> str:
    """An answer; of a segment its state, offsets and bytes, and what else differs."""
    if not isinstance(answer, dict):
        return "none" if answer is None else str(answer)
    known = other if isinstance(other, dict) else answer
    more = {
        field: value
        for field, value in answer.items()
        if field not in SHOWN_ALWAYS and value != known[field]
    }
    return ", ".join(
        [
            answer["state"],
            f"offsets {answer['start_offset']} to {answer['end_offset']}",
            f"{answer['size']} bytes",
            *(f"{field} {value}" for field, value in more.items()),
        ]
    )


class Comparison:
    """A fold of the topic up to where it was read, to compare with leaders' answers."""

    def __init__(self, manager: AsyncRemoteLogMetadataManager, reader: TopicReader) -> None:
        """`manager`: configured, used for questions only; `reader`: at the topic's start."""
        self.records = 0
        self._manager = manager
        self._reader = reader
        self._topic = RecordedTopic(())
        self._names: dict[PartitionKey, TopicIdPartition] = {}

    async def read(self) -> set[TopicIdPartition]:
        """Read the topic to its present end; the partitions that have new records.

        Raises:
            FormatTooNew: A newer Kafka wrote a record, which its own manager can read.
            RemoteStorageError: The brokers do not answer.
        """
        changed = set()
        async for records in self._reader.read(await self._reader.ends()):
            for record, _ in records:
                imported = imported_record(record)
                if isinstance(imported, RefusedRecord):
                    if imported.is_newer:
                        raise FormatTooNew(newer_record(imported))
                    continue  # Kafka's own consumer skips it, too, or ends there.
                assert record.value is not None, "it was decoded"
                self._topic.apply(record.value)
                self.records += 1
                tip = partition_of(imported)
                changed.add(self._names.setdefault(PartitionKey.of(tip), tip))
        return changed

    async def differences(self, partitions: Iterable[TopicIdPartition]) -> list[Disagreement]:
        """All differences of those partitions; of lists and sums only if no segment differs.

        Raises:
            RemoteStorageError: Their leaders do not answer.
        """
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(tip: TopicIdPartition) -> list[Disagreement]:
            async with gate:
                return await self._differences(tip)

        asked = map(one, sorted(partitions, key=str))  # Sets have no order.
        return [each for found in await asyncio.gather(*asked) for each in found]

    async def _differences(self, tip: TopicIdPartition) -> list[Disagreement]:
        kafka = self._topic.partition(tip.topic_id, tip.partition)
        by_kafka = answers_of(kafka)
        by_us = await self._answers(tip, kafka)
        found = [
            Disagreement(tip, question, by_kafka.get(question), by_us.get(question))
            for question in sorted(by_kafka.keys() | by_us.keys())
            if by_kafka.get(question) != by_us.get(question)
        ]
        segments = [one for one in found if one.question.startswith(SEGMENT)]
        # A differing segment explains the lists and sums that differ, so it is enough.
        return segments or (found if kafka.segments else [])

    async def _answers(self, tip: TopicIdPartition, kafka: RecordedPartition) -> dict[str, Any]:
        try:
            return await self._answered(tip, epochs_of(kafka))
        except PartitionDeleted:
            return {"deletion": DELETED}
        except RemoteResourceNotFound:
            return {"deletion": None}

    async def _answered(self, tip: TopicIdPartition, epochs: dict[int, bool]) -> dict[str, Any]:
        ask, rows = self._manager.ask, self._manager.rows
        summary: Any = (await ask(tip, STORAGE, Query("summary"))).value
        answers: dict[str, Any] = {"deletion": summary[3]}
        if sum(summary[0]):  # Each question reads the whole log of a partition without leader.
            listed = map(recorded_segment, await rows(tip, Query("list"), STORAGE))
            answers |= {f"{SEGMENT}{one['id']}": one for one in listed}
        for epoch, has_finished in epochs.items():
            ids = map(id_of_row, await rows(tip, Query("list_epoch", epoch), STORAGE))
            answers[f"segments of epoch {epoch}"] = sorted(str(Uuid(one)) for one in ids)
            size = await ask(tip, STORAGE, Query("size", epoch))
            answers[f"bytes of epoch {epoch}"] = size.value
            if has_finished:
                highest = await ask(tip, STORAGE, Query("highest_offset", epoch))
                answers[f"highest offset of epoch {epoch}"] = highest.value
        return answers


def epochs_of(kafka: RecordedPartition) -> dict[int, bool]:
    """The leader epochs of the partition's segments, and whether one of these was finished."""
    epochs: dict[int, bool] = {}
    for segment in kafka.segments.values():
        was_finished = segment.state is not RemoteLogSegmentState.COPY_SEGMENT_STARTED
        for epoch in segment.added.segment_leader_epochs:
            epochs[epoch] = epochs.get(epoch, False) or was_finished
    return epochs


def answers_of(kafka: RecordedPartition) -> Mapping[str, Any]:
    """The answers by a partition's records, by question."""
    if kafka.deleted:
        return {"deletion": DELETED}
    answers: dict[str, Any] = {
        "deletion": None if kafka.deletion is None else int(kafka.deletion),
        **{f"{SEGMENT}{one}": _plain(segment) for one, segment in kafka.segments.items()},
    }
    for epoch, has_finished in epochs_of(kafka).items():
        ids = kafka.of_epoch(epoch)
        answers[f"segments of epoch {epoch}"] = sorted(ids)
        answers[f"bytes of epoch {epoch}"] = kafka.sizes(ids)
        if has_finished:
            answers[f"highest offset of epoch {epoch}"] = kafka.highest.get(epoch)
    return answers


def _plain(segment: RecordedSegment) -> dict[str, Any]:
    """A segment in the form of tierledger's answers."""
    added, last = segment.added, segment.last
    custom = last.custom_metadata
    return {
        "id": str(added.remote_log_segment_id.id),
        "state": segment.state.name,
        "start_offset": added.start_offset,
        "end_offset": added.end_offset,
        "size": added.segment_size_in_bytes,
        "max_timestamp_ms": added.max_timestamp_ms,
        "broker_id": last.broker_id,
        "event_timestamp_ms": last.event_timestamp_ms,
        "custom_metadata_hex": None if custom is None else custom.value.hex(),
        "txn_index_empty": added.txn_index_empty,
    }

"""Deleted records, produced into another topic: what `tierledger undelete` does.

Each partition is written by one transactional producer. The offset up to which its source was
written is committed in the same transaction as the records, to a consumer group of the new
topic's own. So a run that is repeated goes on where the last transaction ended, and no record
is there twice. A second run at the same time fences the first.
(docs/adr/0085-an-undeletion-commits-its-progress-with-its-records.md)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition  # type: ignore[import-untyped]
from aiokafka.admin import NewTopic  # type: ignore[import-untyped]
from aiokafka.errors import (  # type: ignore[import-untyped]
    IllegalOperation,
    InvalidProducerEpoch,
    InvalidTimestampError,
    MessageSizeTooLargeError,
    PolicyViolationError,
    ProducerFenced,
    RecordListTooLargeError,
    for_code,
)
from aiokafka.structs import OffsetAndMetadata  # type: ignore[import-untyped]

from tierledger.events.errors import (
    Fenced,
    InvalidArgument,
    RejectedError,
    RemoteResourceNotFound,
    StorageUnavailable,
)
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.partition.restored import rows_with_kept
from tierledger.events.partition.state import PartitionState
from tierledger.events.tables.segment_rows import (
    END,
    MAX_TIMESTAMP,
    SIZE,
    START,
    STATE,
    Row,
    unpack_row,
)
from tierledger.pipeline.imports.topic import (
    admin_of,
    answering,
    client_of,
    offsets_of,
    partitions_of,
)
from tierledger.pipeline.stable_offsets import Admin, Committed, committed_offset
from tierledger.storage.kafka_brokers import KafkaBrokers
from tierledger.tiering.closing import closing
from tierledger.tiering.formats.records import LostRecords, Record
from tierledger.tiering.reader.reader import IsolationLevel, RemoteLogReader

# aiokafka's producer is not annotated; `Any` stops at this line.
Producer: TypeAlias = Any

TRANSACTION_BYTES = 16 << 20
"""Bytes of records in one transaction; what is repeated after a kill at most."""

TRANSACTION_RECORDS = 50_000

TRANSACTION_S = 20.0
"""How long a transaction gathers records at most; brokers abort it after a minute."""

RECORD_BYTES_MAX = 64 << 20
"""The longest record that is produced, and the limit of a topic that is made here."""

_LONG_MAX = str(2**63 - 1)
SETTINGS = {
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "cleanup.policy": "delete",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": _LONG_MAX,
    "message.timestamp.after.max.ms": _LONG_MAX,
    "max.message.bytes": str(RECORD_BYTES_MAX),
}
"""Of a topic that is made here. By a broker's own, old records may be deleted at once, refused,
or get new times."""

REPLICAS = 3

POLL_MS = 1000

AGAIN_S = 0.2
"""Pause before brokers are asked again that are not ready yet."""


_NO_TEXT = RejectedError(
    "a header's name is not UTF-8, and Kafka's client for Python cannot write it"
)


class Deleted(NamedTuple):
    """What is to be brought back of one partition."""

    tip: TopicIdPartition
    first_offset: int
    end_offset: int
    """Exclusive."""
    segments: int
    size_in_bytes: int
    max_timestamp_ms: int
    holes: tuple[tuple[int, int], ...]
    """Offsets that no segment has, kept or not: first and last of each."""

    @classmethod
    def of(cls, state: PartitionState, first: int | None, end: int | None) -> Deleted | None:
        """What is kept of the partition between two offsets; None if nothing is."""
        kept = (one for _, one in state.kept.all() if one.purger is None)
        rows = [row for one in kept if _overlaps(row := unpack_row(one.row), first, end)]
        if not rows:
            return None
        rows.sort(key=lambda row: int(row[START]))
        begin = rows[0][START] if first is None else max(first, rows[0][START])
        last = max(row[END] for row in rows)
        behind = last + 1 if end is None else min(end, last + 1)
        return cls(
            state.topic_id_partition,
            begin,
            behind,
            len(rows),
            sum(row[SIZE] for row in rows),
            max(row[MAX_TIMESTAMP] for row in rows),
            _holes(map(unpack_row, rows_with_kept(state).values()), begin, behind),
        )

    def stretches(self, start: int) -> Iterator[tuple[int, int]]:
        """What can be read from `start` on: first offset and end of each, holes left out."""
        ends = [*(first for first, _ in self.holes), self.end_offset]
        begins = [self.first_offset, *(last + 1 for _, last in self.holes)]
        for begin, end in zip(begins, ends, strict=True):
            if start < end:
                yield max(start, begin), end


def _overlaps(row: Row, first: int | None, end: int | None) -> bool:
    return (first is None or row[END] >= first) and (end is None or row[START] < end)


def _holes(rows: Iterable[Row], begin: int, end: int) -> tuple[tuple[int, int], ...]:
    """Offsets from `begin` to before `end` of which no finished segment has any."""
    finished = sorted(
        (row[START], row[END])
        for row in rows
        if row[STATE] == RemoteLogSegmentState.COPY_SEGMENT_FINISHED
    )
    found, reached = list[tuple[int, int]](), begin
    for first, last in finished:
        if reached < first < end:
            found.append((reached, first - 1))
        reached = max(reached, last + 1)
    return tuple(found)


class Undone(NamedTuple):
    """What a run did for one partition."""

    records: int
    size_in_bytes: int
    next_offset: int
    """The source offset at which the next run would begin."""
    lost: list[LostRecords]


class Became(NamedTuple):
    """A range of records of the source, and the offsets that they have now."""

    partition: int
    first_offset: int
    new_first_offset: int
    records: int


@contextmanager
def _named(where: str) -> Iterator[None]:
    """Convert what brokers refuse for good; all else of theirs is for `answering`."""
    try:
        yield
    except (ProducerFenced, InvalidProducerEpoch, IllegalOperation) as error:
        # aiokafka says IllegalOperation of whatever is done after it was fenced.
        raise Fenced(f"another run brings back {where}: {error!r}") from error
    except (MessageSizeTooLargeError, RecordListTooLargeError) as error:
        raise InvalidArgument(
            f"a batch is longer than {where} accepts: expected a larger max.message.bytes"
        ) from error
    except (InvalidTimestampError, PolicyViolationError) as error:
        raise InvalidArgument(f"{where} refuses records: {error!r}") from error


def group_of(target: str) -> str:
    """The consumer group that has the progress, and the start of the producers' names."""
    return f"tierledger-undelete-{target}"


async def prepare(
    brokers: KafkaBrokers, target: str, partitions: int, *, creates: bool
) -> bool:
    """Make sure that the topic has so many partitions; whether it was made.

    Raises:
        InvalidArgument: It has fewer, or is not there and may not be made.
        StorageUnavailable: The brokers do not answer, or refuse.
    """
    try:
        found = await partitions_of(brokers, target)
    except RemoteResourceNotFound:
        if not creates:
            raise InvalidArgument(f"expected the topic {target!r}: it is not there") from None
        await _create(brokers, target, partitions)
        return True
    if len(found) < partitions:
        raise InvalidArgument(
            f"expected {target!r} to have {partitions} partitions as the deleted topic had; "
            f"it has {len(found)}"
        )
    return False


async def _create(brokers: KafkaBrokers, target: str, partitions: int) -> None:
    async with answering(brokers), admin_of(brokers) as admin:
        alive = len((await admin.describe_cluster())["brokers"])
        topic = NewTopic(target, partitions, min(REPLICAS, alive), topic_configs=SETTINGS)
        for _, code, *_ in (await admin.create_topics([topic])).topic_errors:
            if code:
                raise for_code(code)(f"{target} cannot be created")
    for _ in range(100):  # Until all brokers know it.
        try:
            if len(await partitions_of(brokers, target)) == partitions:
                return
        except RemoteResourceNotFound:
            pass
        await asyncio.sleep(AGAIN_S)
    raise StorageUnavailable(f"the brokers at {brokers} do not know {target!r} yet: repeat it")


@dataclass(frozen=True, slots=True)
class Undeletion:
    """Brings back partitions of a deleted topic into the topic `target`."""

    brokers: KafkaBrokers
    target: str
    isolation: IsolationLevel
    compression: str | None = "zstd"

    async def progress(self, deleted: Collection[Deleted]) -> dict[int, int]:
        """By partition, the source offset that the next run begins at; of those begun.

        What a run that was killed had begun to commit is not counted.

        Raises:
            InvalidArgument: The topic was begun from another source.
        """
        async with answering(self.brokers), admin_of(self.brokers) as admin:
            return {
                one.tip.partition: begun.offset
                for one in deleted
                if (begun := await self._progress(admin, one, is_stable=False)) is not None
            }

    async def _progress(
        self, admin: Admin, deleted: Deleted, *, is_stable: bool
    ) -> Committed | None:
        where = TopicPartition(self.target, deleted.tip.partition)
        group = group_of(self.target)
        committed = await committed_offset(admin, group, where, is_stable=is_stable)
        if committed is None:
            return None
        source, _, first = committed.metadata.rpartition(" from ")
        begun = f"{where.topic}-{where.partition} was begun from"
        if source != self._source(deleted.tip) or not first.isdigit():
            raise InvalidArgument(
                f"{begun} {committed.metadata!r}, not from {self._source(deleted.tip)!r}: "
                "expected a topic of its own"
            )
        if deleted.first_offset < int(first):
            raise InvalidArgument(
                f"{begun} offset {first}: expected --from-offset {first}, or a topic of its "
                f"own for what begins at {deleted.first_offset}"
            )
        return committed

    def _source(self, tip: TopicIdPartition) -> str:
        return f"{tip} {self.isolation.value}"

    async def run(
        self,
        deleted: Deleted,
        reader: RemoteLogReader,
        on_bytes: Callable[[int], None] = lambda _: None,
    ) -> Undone:
        """Produce the records of one partition that the topic does not have yet.

        Each transaction is durable when it is committed; after a failure, or a kill, those are
        there that were.

        Raises:
            InvalidArgument: The topic's partition has records of others, a record is longer
                than the topic accepts, or the topic was begun from another source.
            Fenced: Another run brings back the same partition.
            RemoteResourceNotFound: A part of the tier is missing.
            CorruptRemoteData: It is damaged, so that nobody can say how the records go on.
            StorageUnavailable: The brokers do not answer.
        """
        with _named(f"{self.target}-{deleted.tip.partition}"):
            async with self._producer(deleted.tip.partition) as producer:
                return await self._produce(producer, deleted, reader, on_bytes)

    def _producer(self, partition: int) -> AbstractAsyncContextManager[Producer]:
        return client_of(
            self.brokers,
            AIOKafkaProducer,
            transactional_id=f"{group_of(self.target)}-{partition}",
            acks="all",
            compression_type=self.compression,
            max_request_size=RECORD_BYTES_MAX,
            max_batch_size=1 << 20,
            linger_ms=5,
        )

    async def _produce(
        self,
        producer: Producer,
        deleted: Deleted,
        reader: RemoteLogReader,
        on_bytes: Callable[[int], None],
    ) -> Undone:
        # The producer's start has ended what an earlier run had begun.
        start, origin = await self._begun(producer, deleted)
        start = max(start, deleted.first_offset)
        lost: list[LostRecords] = []
        writing = _ProducedPart(self, producer, deleted, origin)
        async with closing(self._records(deleted, reader, start, lost.append)) as records:
            async for record in records:
                if record.header_names is not None:
                    lost.append(LostRecords(record.offset, record.offset, _NO_TEXT))
                    continue
                await writing.add(record)
                if writing.is_full():
                    on_bytes(writing.size)
                    await writing.commit(record.offset + 1)
        end = deleted.end_offset
        if self.isolation is IsolationLevel.READ_COMMITTED:
            stable = await reader.end_offset(self.isolation)
            end = start if stable is None else min(end, max(stable, start))
        on_bytes(writing.size)
        await writing.commit(end)
        return Undone(writing.records, writing.all_bytes, end, lost)

    async def _records(
        self,
        deleted: Deleted,
        reader: RemoteLogReader,
        start: int,
        on_lost: Callable[[LostRecords], None],
    ) -> AsyncIterator[Record]:
        for first, end in deleted.stretches(start):
            async with closing(reader.records(first, self.isolation, end, on_lost)) as records:
                async for record in records:
                    yield record

    async def _begun(self, producer: Producer, deleted: Deleted) -> Committed:
        """How far earlier runs came; the first one says where all began."""
        number = deleted.tip.partition
        async with answering(self.brokers), admin_of(self.brokers) as admin:
            begun = await self._progress(admin, deleted, is_stable=True)
        if begun is not None:
            return begun
        _, end = (await offsets_of(self.brokers, self.target))[number]
        if end:
            raise InvalidArgument(
                f"{self.target}-{number} has had {end} records of others: expected an empty "
                "topic, or one that an earlier run has begun"
            )
        # Written before the first record: a partition is not empty any more when a first
        # transaction was given up.
        first = deleted.first_offset
        begun = Committed(first, f"{self._source(deleted.tip)} from {first}")
        await _ProducedPart(self, producer, deleted, begun.metadata).commit(first)
        return begun

    async def became(self, deleted: Deleted, reader: RemoteLogReader) -> AsyncIterator[Became]:
        """Read the new partition back, compare, and yield which offsets became which.

        Raises:
            RejectedError: A record differs, or is not there.
        """
        number = deleted.tip.partition
        where = TopicPartition(self.target, number)
        _, end = (await offsets_of(self.brokers, self.target))[number]
        consumer = client_of(
            self.brokers,
            AIOKafkaConsumer,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        records = self._records(deleted, reader, deleted.first_offset, lambda _: None)
        async with consumer as reading, closing(records):
            reading.assign([where])
            found = _consumed(reading, where, end)
            run: Became | None = None
            async with closing(found):
                async for record in records:
                    if record.header_names is not None:
                        continue  # It was left out, and named.
                    copy = await anext(found, None)
                    if copy is None or not _is_same(record, copy):
                        at = "not there" if copy is None else f"at {copy.offset}, and differs"
                        raise RejectedError(
                            f"{deleted.tip}: the record at {record.offset} is {at} in "
                            f"{self.target}-{number}"
                        )
                    if run is not None and _goes_on(run, record.offset, copy.offset):
                        run = run._replace(records=run.records + 1)
                        continue
                    if run is not None:
                        yield run
                    run = Became(number, record.offset, copy.offset, 1)
                more = await anext(found, None)
            if more is not None:
                raise RejectedError(
                    f"{self.target}-{number} has a record at {more.offset} that {deleted.tip} "
                    "does not have"
                )
            if run is not None:
                yield run


async def _consumed(consumer: Any, where: TopicPartition, end: int) -> AsyncIterator[Any]:  # noqa: ANN401
    while await consumer.position(where) < end:
        for record in (await consumer.getmany(where, timeout_ms=POLL_MS)).get(where, []):
            yield record


def _goes_on(run: Became, offset: int, new_offset: int) -> bool:
    return (run.first_offset + run.records, run.new_first_offset + run.records) == (
        offset,
        new_offset,
    )


def _is_same(record: Record, copy: Any) -> bool:  # noqa: ANN401 - aiokafka's.
    return (record.key, record.value, record.timestamp_ms, list(record.headers)) == (
        copy.key,
        copy.value,
        copy.timestamp,
        list(copy.headers),
    )


class _ProducedPart:
    """The records of a transaction that is open, and counts of all that were added."""

    def __init__(
        self, undeletion: Undeletion, producer: Producer, deleted: Deleted, origin: str
    ) -> None:
        self.size = 0
        """Bytes of the open transaction's records."""
        self.records = 0
        self.all_bytes = 0
        self._undeletion = undeletion
        self._producer = producer
        self._deleted = deleted
        self._origin = origin
        """What is committed with each offset: the source, and where the first run began."""
        self._open_records = 0
        self._batch: Any = None
        self._sent: list[asyncio.Future[Any]] = []
        self._since: float | None = None

    async def add(self, record: Record) -> None:
        await self._begin()
        # By batches: `send` takes no record without key and value, and needs a future for each.
        if not self._append(record):
            await self._send()
            self._append(record)
        size = len(record.key or b"") + len(record.value or b"")
        self.size += size
        self.all_bytes += size
        self.records += 1
        self._open_records += 1

    def _append(self, record: Record) -> bool:
        """Append to the open batch; False: it is full."""
        if self._batch is None:
            self._batch = self._producer.create_batch()
        added = self._batch.append(
            key=record.key,
            value=record.value,
            timestamp=record.timestamp_ms,
            headers=record.headers,
        )
        return added is not None

    async def _send(self) -> None:
        batch, self._batch = self._batch, None
        if batch is not None:
            sent = await self._producer.send_batch(
                batch, self._undeletion.target, partition=self._deleted.tip.partition
            )
            self._sent.append(sent)

    async def _begin(self) -> None:
        if self._since is None:
            await self._producer.begin_transaction()
            self._since = asyncio.get_running_loop().time()

    def is_full(self) -> bool:
        assert self._since is not None, "a record was added"
        return (
            self.size >= TRANSACTION_BYTES
            or self._open_records >= TRANSACTION_RECORDS
            or asyncio.get_running_loop().time() - self._since > TRANSACTION_S
        )

    async def commit(self, next_offset: int) -> None:
        """Commit what was added, and that the source was read up to `next_offset`."""
        brokers, target = self._undeletion.brokers, self._undeletion.target
        where = TopicPartition(target, self._deleted.tip.partition)
        # Inside: `answering` calls all errors of Kafka's an outage.
        async with answering(brokers):
            with _named(f"{target}-{where.partition}"):
                await self._begin()
                await self._send()
                for one in self._sent:
                    await one
                progress = OffsetAndMetadata(next_offset, self._origin)
                await self._producer.send_offsets_to_transaction(
                    {where: progress}, group_of(target)
                )
                await self._producer.commit_transaction()
        self._sent, self._open_records, self.size, self._since = [], 0, 0, None

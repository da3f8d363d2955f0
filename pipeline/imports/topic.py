"""The records of a live metadata topic, as Kafka's own manager consumes them.

Spark's Kafka source would need jars beside PySpark and has no advantage here: offsets are fixed
when the import is planned, and each task reads its range once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeAlias

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition  # type: ignore[import-untyped]
from aiokafka.admin import AIOKafkaAdminClient  # type: ignore[import-untyped]
from aiokafka.errors import (  # type: ignore[import-untyped]
    KafkaError,
    NodeNotReadyError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from aiokafka.protocol.metadata import MetadataRequest  # type: ignore[import-untyped]
from typing_extensions import override

from tierledger.events.errors import InvalidArgument, RemoteResourceNotFound, StorageUnavailable
from tierledger.pipeline.imports.units import TopicRange
from tierledger.storage.kafka_brokers import Connection, KafkaBrokers

# The consumer is not annotated; `Any` stops at this line.
Consumer: TypeAlias = Any
ConsumerRecord: TypeAlias = Any
Admin: TypeAlias = Any

TIMEOUT_S = 30.0
"""Timeout of one operation, over all brokers."""

REQUEST_MS = 10_000
"""Timeout of one request to one broker. If any broker may answer, another is asked then."""

END_S = 5.0
"""Timeout of a client's end."""

FETCH_BYTES = 4 * 1024 * 1024
"""Bytes per fetch; a single longer batch may exceed it."""


async def cluster_id_of(brokers: KafkaBrokers) -> str:
    """The id of the Kafka cluster.

    Raises:
        StorageUnavailable: The brokers do not answer.
    """
    async with answering(brokers), admin_of(brokers) as admin:
        found = await admin.describe_cluster()
    return str(found["cluster_id"])


async def offsets_of(brokers: KafkaBrokers, topic: str) -> dict[int, tuple[int, int]]:
    """Each partition's oldest offset, and its next offset (exclusive end).

    Raises:
        RemoteResourceNotFound: There is no such topic.
        StorageUnavailable: The brokers do not answer.
    """
    async with consumer_of(brokers) as consumer, answering(brokers):
        partitions = [TopicPartition(topic, one) for one in await partitions_of(brokers, topic)]
        consumer.assign(partitions)  # A consumer asks for offsets of assigned partitions only.
        first = await consumer.beginning_offsets(partitions)
        end = await consumer.end_offsets(partitions)
    return {one.partition: (first[one], end[one]) for one in partitions}


async def partitions_of(brokers: KafkaBrokers, topic: str) -> list[int]:
    """The partitions of `topic`, by the admin client: a consumer would hide a missing topic."""
    async with admin_of(brokers) as admin:
        (found,) = await admin.describe_topics([topic])
    if found["error_code"] == UnknownTopicOrPartitionError.errno or not found["partitions"]:
        raise RemoteResourceNotFound(f"the cluster at {brokers} has no topic {topic!r}")
    return sorted(one["partition"] for one in found["partitions"])


async def records_of(part: TopicRange) -> AsyncIterator[list[ConsumerRecord]]:
    """The records of `part`, fetch by fetch; transaction markers are left out.

    Raises:
        InvalidArgument: The brokers have deleted or lost some of the planned records.
        StorageUnavailable: The brokers do not answer.
    """
    where = TopicPartition(part.topic, part.partition)
    async with consumer_of(part.brokers) as consumer:
        consumer.assign([where])
        consumer.seek(where, part.start)
        while True:
            async with answering(part.brokers):
                # The position counts markers, too, which `getmany` does not return.
                if await consumer.position(where) >= part.end:
                    return
                found = (await consumer.getmany(where, timeout_ms=1000)).get(where, [])
                if not found:
                    await refuse_shrunk(consumer, {where: part.end})
            yield [record for record in found if record.offset < part.end]


async def refuse_shrunk(consumer: Consumer, ends: Mapping[TopicPartition, int]) -> None:
    """Raise `InvalidArgument` if a partition ends before its offset in `ends`.

    It does after an unclean election, or if the topic was made anew: nothing more will come.
    """
    for where, end in (await consumer.end_offsets(list(ends))).items():
        if end < ends[where]:
            raise InvalidArgument(
                f"{where.topic}-{where.partition}: expected records up to offset "
                f"{ends[where]}, and it ends at {end} by now: the brokers have lost records"
            )


def consumer_of(brokers: KafkaBrokers) -> AbstractAsyncContextManager[Consumer]:
    return client_of(
        brokers,
        AIOKafkaConsumer,
        enable_auto_commit=False,
        auto_offset_reset="none",
        max_partition_fetch_bytes=FETCH_BYTES,
    )


class _Admin(AIOKafkaAdminClient):  # type: ignore[misc] # aiokafka is not annotated.
    """Asks first who has answered, and another broker if one cannot be reached.

    By itself the client asks a random one of those that are registered. For some seconds a
    broker that was killed is among them.
    And by itself a question about a topic makes it: with `auto.create.topics.enable`, which is
    Kafka's default.
    """

    def __init__(self, *, bootstrap_servers: list[str], **options: object) -> None:
        """`bootstrap_servers`: the addresses of brokers that answer now."""
        super().__init__(bootstrap_servers=bootstrap_servers, **options)
        self._answered = bootstrap_servers

    @override
    async def _send_request(self, request: Any, node_id: int | None = None) -> Any:
        if isinstance(request, MetadataRequest):
            request._allow_auto_topic_creation = False
        if node_id is not None:
            return await super()._send_request(request, node_id)
        known = sorted(
            self._client.cluster.brokers(),
            key=lambda one: f"{one.host}:{one.port}" not in self._answered,
        )
        for one in known:
            with suppress(NodeNotReadyError):
                return await super()._send_request(request, one.nodeId)
        return await super()._send_request(request)

    async def stop(self) -> None:
        await self.close()


def admin_of(brokers: KafkaBrokers) -> AbstractAsyncContextManager[Admin]:
    return client_of(brokers, _Admin)


@asynccontextmanager
async def client_of(
    brokers: KafkaBrokers, kind: Callable[..., Any], **options: object
) -> AsyncIterator[Any]:
    """A client of aiokafka's that has started, with the brokers that answer now.

    Raises:
        StorageUnavailable: The brokers do not answer.
    """
    async with answering(brokers):
        found = await reached(brokers)
    client = kind(request_timeout_ms=REQUEST_MS, **options, **found)
    async with started(client, brokers):
        yield client


@asynccontextmanager
async def started(client: Any, brokers: KafkaBrokers) -> AsyncIterator[None]:  # noqa: ANN401
    """Start the client; at the end, whatever ends it, all of its connections are closed.

    aiokafka leaves its first connection open if it is cancelled before it has used it. So the
    look for the brokers goes on then, up to `REQUEST_MS`, and the client is stopped later.
    """
    wire = client.client if isinstance(client, AIOKafkaProducer) else client._client
    looking: list[asyncio.Future[None]] = []
    wire.bootstrap = partial(_uncancelled, wire.bootstrap, looking)
    try:
        async with answering(brokers):
            await client.start()
        yield
    finally:
        ending = asyncio.ensure_future(_end(client, wire, looking))
        _endings.add(ending)
        ending.add_done_callback(_endings.discard)
        await asyncio.wait({ending}, timeout=END_S)
        if ending.done() and not ending.cancelled():
            ending.result()


_endings: set[asyncio.Future[None]] = set()
"""A loop itself keeps no task from the garbage collector."""


async def _uncancelled(
    work: Callable[[], Coroutine[Any, Any, None]], begun: list[asyncio.Future[None]]
) -> None:
    begun.append(asyncio.ensure_future(work()))
    await asyncio.shield(begun[-1])


async def _end(client: Any, wire: Any, looking: list[asyncio.Future[None]]) -> None:  # noqa: ANN401
    """Stop the client; a stop may never end with brokers that were restarted.

    A stop that raises `CancelledError` is an end, too: a consumer's cancels the answers that
    it waits for, and one of them may cancel this task in turn.
    """
    try:
        if looking:
            await asyncio.wait(looking)
        with suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                await client.stop()
    finally:
        for one in wire._conns.values():
            one.close()


async def reached(brokers: KafkaBrokers) -> dict[str, Any]:
    """Settings for a client: the brokers that answer now, and how to connect to them.

    A client given all brokers tries them in turn. A single frozen one could use up the whole
    timeout before the others are tried.
    """

    async def nothing(_: Connection) -> None:
        pass

    answered = await brokers.answers(nothing, REQUEST_MS / 1000)
    return {"bootstrap_servers": list(answered), **brokers.client_options()}


@asynccontextmanager
async def answering(brokers: KafkaBrokers) -> AsyncIterator[None]:
    """Raise errors of the brokers, and a timeout, as `events.errors`."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            yield
    except OffsetOutOfRangeError as error:
        raise InvalidArgument(
            f"the brokers at {brokers} have deleted records while they were read: {error}"
        ) from error
    except (KafkaError, TimeoutError, OSError) as error:
        why = str(error) or f"no answer within {TIMEOUT_S:.0f} s"
        raise StorageUnavailable(f"the brokers at {brokers}: {why}") from error

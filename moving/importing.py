"""Imports the records of Kafka's own manager into tierledger's logs, as the topic grows.

A log recognises each record by its place (cluster, metadata partition, offset), so an importer
can always begin at the topic's start. A bad record or partition does not stop the others.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from tierledger.actors.calls import STORAGE
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.messages import Query
from tierledger.conformance.loaded_trace import (
    RefusedRecord,
    imported_record,
    partition_of,
    runs_by_broker,
)
from tierledger.events.commands import ImportedRecord
from tierledger.events.errors import (
    Fenced,
    NotLeader,
    NotReady,
    PartitionDeleted,
    RemoteStorageError,
)
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.typed_fields import INT64_MAX
from tierledger.storage.process_log import ProcessLog

if TYPE_CHECKING:
    from tierledger.moving.topic import TopicReader, TopicRecord

AT_ONCE = 16
"""Partitions that are imported concurrently."""

READY_S = 10.0
"""Seconds after which a partition counts as one that is not imported."""

AGAIN_S = 1.0
"""Seconds after which the lead of a partition that is not ready is claimed again."""

LOOK_S = 0.05
"""Seconds between two looks whether a partition is ready."""

_log = ProcessLog("tierledger.moving")


class _Failed(NamedTuple):
    """Why a partition's import failed; its records from `offset` on have to be read again."""

    offset: int
    error: RemoteStorageError


class TailImport:
    """Imports all of a topic, and then its new records."""

    def __init__(
        self, manager: AsyncRemoteLogMetadataManager, reader: TopicReader, cluster: str
    ) -> None:
        """`manager`: configured, for `IMPORTER`; `reader`: at the topic's start."""
        self.imported = 0
        """Records sent to leaders, including those that had been imported before."""
        self._refused: dict[tuple[int, int], RefusedRecord] = {}
        self.seen: dict[int, int] = {}
        """By metadata partition its end when the newest round began."""
        self.ends: dict[int, int] = {}
        """By metadata partition the offset up to which the last round has imported."""
        self._manager = manager
        self._reader = reader
        self._cluster = cluster
        self._done: dict[TopicIdPartition, int] = {}
        self._led: set[TopicIdPartition] = set()
        self._failed: dict[TopicIdPartition, tuple[int, _Failed]] = {}
        """Failed partitions, each with the metadata partition of its records."""

    @property
    def refused(self) -> list[RefusedRecord]:
        """Records that belong to no partition, and are skipped; null values are not listed."""
        return list(self._refused.values())

    @property
    def trouble(self) -> str | None:
        """What is not imported, of which the first is named; None if all is.

        Records of a newer Kafka, as its own manager reads them: without them segments are
        missing. Or else partitions whose import failed.
        """
        newer = [one for one in self._refused.values() if one.is_newer]
        if newer:
            return f"{len(newer)} records are not imported, {newer_record(newer[0])}"
        if not self._failed:
            return None
        tip, (_, failed) = next(iter(self._failed.items()))
        return f"{len(self._failed)} partitions are not imported, {tip}: {failed.error}"

    @property
    def lag(self) -> int:
        """Offsets that the topic had when the newest round began, and are not imported."""
        done = dict(self.ends)
        for number, failed in self._failed.values():
            done[number] = min(failed.offset, done.get(number, 0))
        return sum(end - done.get(number, 0) for number, end in self.seen.items())

    async def round(self) -> None:
        """Import all records that are in the topic now; `trouble` reports failed partitions.

        Raises:
            RemoteStorageError: The brokers or the coordinator do not answer.
        """
        self._again()
        ends = self.seen = await self._reader.ends()
        async for records in self._reader.read(ends):
            await self._take(records)
        self.ends = ends

    async def release(self) -> None:
        """Give up the lead of all partitions."""
        await self._manager.on_stop_partitions(sorted(self._led, key=str))
        self._led.clear()

    def _again(self) -> None:
        """Seek back to where partitions failed; records imported since are skipped."""
        starts: dict[int, int] = {}
        for number, failed in self._failed.values():
            starts[number] = min(failed.offset, starts.get(number, failed.offset))
        for number, offset in starts.items():
            self._reader.seek(number, offset)
        self._failed.clear()

    async def _take(self, records: list[TopicRecord]) -> None:
        by_partition: dict[TopicIdPartition, list[ImportedRecord]] = {}
        for record, mirrored in records:
            if mirrored is not None:
                continue  # A mirror wrote it from tierledger's own log.
            imported = imported_record(record)
            if record.value is None:
                continue  # A compacted topic's: it tells of no segment.
            if isinstance(imported, RefusedRecord):
                self._refuse(imported)
                continue
            tip = partition_of(imported)
            if imported.offset > self._done.get(tip, -1) and tip not in self._failed:
                by_partition.setdefault(tip, []).append(imported)
        await asyncio.gather(
            *(self._look(one) for one in by_partition if one not in self._done)
        )
        by_partition = {
            tip: some
            for tip, some in by_partition.items()
            if some[-1].offset > self._done.get(tip, -1)
        }
        times = {
            tip: some[0].timestamp_ms
            for tip, some in by_partition.items()
            if tip not in self._led
        }
        if times:
            await self._lead(times)
        gate = asyncio.Semaphore(AT_ONCE)

        async def take_one(tip: TopicIdPartition, some: list[ImportedRecord]) -> None:
            async with gate:
                await self._take_partition(tip, some)

        async with asyncio.TaskGroup() as group:
            for tip, some in by_partition.items():
                group.create_task(take_one(tip, some))

    async def _look(self, tip: TopicIdPartition) -> None:
        """Note if a partition's deletion is finished: no session can be opened there."""
        try:
            await self._manager.ask(tip, STORAGE, Query("summary"))
        except PartitionDeleted:
            self._done[tip] = INT64_MAX
        except RemoteStorageError:
            pass  # It has no log yet; any other problem is reported when it is imported.

    def _refuse(self, refused: RefusedRecord) -> None:
        place = refused.partition, refused.offset
        if place not in self._refused:
            self._refused[place] = refused
            _log.warning("a record of Kafka's is passed over", **_plain(refused))

    async def _lead(self, times: dict[TopicIdPartition, int]) -> None:
        await self._manager.announce_import(times, [], self._cluster)
        self._led |= times.keys()

    async def _take_partition(
        self, tip: TopicIdPartition, records: list[ImportedRecord]
    ) -> None:
        try:
            for _, run in runs_by_broker(records):
                await self._send(tip, run)
                self._done[tip] = run[-1].offset
                self.imported += len(run)
        except PartitionDeleted:
            self._done[tip] = INT64_MAX  # Kafka ignores later records of it, too.
        except RemoteStorageError as error:
            first = next(one for one in records if one.offset > self._done.get(tip, -1))
            failed = _Failed(first.offset, error)
            self._failed[tip] = (first.metadata_partition, failed)
            self._led.discard(tip)
            _log.warning("a partition is not imported", partition=str(tip), error=str(error))

    async def _send(self, tip: TopicIdPartition, run: list[ImportedRecord]) -> None:
        time_ms = run[0].timestamp_ms
        try:
            await self._when_led(tip, time_ms)
            await self._manager.import_records(tip, run)
        except (Fenced, NotLeader):
            # Another session, such as another importer's, took the lead: claim it again.
            await self._lead({tip: time_ms})
            await self._when_led(tip, time_ms)
            await self._manager.import_records(tip, run)

    async def _when_led(self, tip: TopicIdPartition, time_ms: int) -> None:
        """Return once the partition can be imported into; claims the lead again meanwhile.

        A broker that led before the owner changed may not have heard of that yet. Kafka names
        it as the leader, so the claim is refused, and nothing but a new one brings it back.
        A claim that is in force is only repeated, which costs nothing.

        Raises:
            NotReady: It was not ready within the deadline.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + READY_S
        again = loop.time() + AGAIN_S
        while not await self._manager.is_ready(tip):
            if loop.time() > until:
                raise NotReady(f"{tip} was not ready within {READY_S:g} s")
            await asyncio.sleep(LOOK_S)
            if loop.time() > again:
                await self._lead({tip: time_ms})
                again = loop.time() + AGAIN_S


def newer_record(refused: RefusedRecord) -> str:
    """Which record of a newer Kafka cannot be read, and what to do."""
    return (
        f"metadata partition {refused.partition}, offset {refused.offset}: {refused.reason}; "
        "a newer Kafka wrote it, so a newer tierledger is needed"
    )


def _plain(refused: RefusedRecord) -> dict[str, object]:
    return {"partition": refused.partition, "offset": refused.offset, "reason": refused.reason}

"""Gives guards what is due in the trash, and writes down what they have purged.

Which partitions keep something is looked for in the store, at leisure. What is due is decided
by each log's writer: by its leader, or here where nobody leads it (`UnledLog`). A broker is
given a few segments at a time with one lease, and told of them one after another.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tierledger.actors.calls import CleanUpCall, PartitionKey, PurgeCall, Purging
from tierledger.actors.coordinator.fold import Fold
from tierledger.actors.coordinator.purge_requests import (
    COMMAND,
    CleanUp,
    NextPurge,
    ReleaseKept,
    ToPurge,
)
from tierledger.actors.coordinator.unled_log import UnledLog
from tierledger.actors.due import purging_of, rows_now
from tierledger.actors.ports import HostHandle
from tierledger.events import commands as cmd
from tierledger.events.errors import DataError, NotReady, RemoteStorageError
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.log_events import Origin
from tierledger.events.tables.segment_rows import SIZE, id_of_row, unpack_row
from tierledger.storage.catalog import Catalog
from tierledger.storage.process_log import ProcessLog

GIVEN_MAX = 16
"""Segments that a broker is given at a time."""

LEASE_MS = 10 * 60_000
"""For how long; in its second half nothing more is told of them, and they are given anew."""

AGAIN_MS = 30_000
"""After that time a partition is looked at again in which nothing was due."""

LOOK_MIN_S = 2.0
LOOK_SHARE = 100
"""The store is looked through again after so many times the time that it took, 1 % of it."""

STEP_S = 1.0
"""Partitions are looked at for so long for one request."""

_log = ProcessLog("tierledger.coordinator")


class _Keeping(NamedTuple):
    """A partition that keeps something."""

    tip: TopicIdPartition
    after: int = -1
    """Behind which position the next look begins."""
    not_before_ms: int = 0


class _Leased(NamedTuple):
    """What a broker has been given."""

    rest: deque[ToPurge]
    until_ms: int


class Purges:
    """What is kept, and who purges it now."""

    def __init__(
        self,
        catalog: Catalog,
        fold: Callable[[], Fold],
        host: Callable[[str], HostHandle | None],
        now_ms: Callable[[], int],
    ) -> None:
        """`fold` is the coordinator's own; `host`: the handle on the process at an address."""
        self._catalog = catalog
        self._fold = fold
        self._host = host
        self._now_ms = now_ms
        self._keeping: dict[PartitionKey, _Keeping] = {}
        self._given: dict[int, _Leased] = {}
        self._unled: UnledLog | None = None
        """The log that was written last, if nobody leads it."""
        self._purged = 0
        self._purged_bytes = 0
        self._purged_ms: int | None = None
        """When a guard purged something last; None: none since the start."""
        self._lock = asyncio.Lock()
        self._looking: asyncio.Task[None] | None = None
        self._look_at_s = 0.0

    async def next(self, wish: NextPurge) -> ToPurge | None:
        """What that broker is to purge next; None: nothing is due, or it is not known yet.

        Raises:
            RemoteStorageError: What was purged is not written down: ask again, with it.
        """
        self._look()
        async with self._lock:
            broker_id = wish.broker_id
            if wish.done is not None:
                await self._end(broker_id, *wish.done)
            given = self._given.get(broker_id)
            if given is None or not given.rest or self._now_ms() >= given.until_ms:
                given = self._given[broker_id] = await self._start(broker_id)
            if not given.rest:
                return None
            given.rest.rotate(-1)  # One whose deletion fails does not hold up the others.
            return given.rest[-1]

    async def release(self, wish: ReleaseKept) -> None:
        """Let go of what is kept until somebody says so; durable on return.

        Raises:
            RemoteStorageError: Nothing is known to be released: repeat it.
        """
        # A purge that nobody has been given yet: from here on it is due.
        command = cmd.StartPurges(Origin(COMMAND, None), wish.segment_ids, 0, released=True)
        async with self._lock:
            await self._purge(wish.topic_id_partition, command)
        _log.info("released", **{**wish._asdict(), "segment_ids": len(wish.segment_ids)})

    async def clean_up(self, wish: CleanUp) -> Sequence[bytes]:
        """End segments that no broker ends; their rows then, durable on return.

        Raises:
            RejectedError: A segment is not as it was seen, or held.
            RemoteStorageError: Nothing is known to be written: repeat it.
        """
        tip, command, by = wish
        async with self._lock:
            host = self._leading(tip)
            if host is not None:
                rows = await host.ask(CleanUpCall(PartitionKey.of(tip), command))
            else:
                log = await UnledLog.read(self._catalog, self._fold(), tip, is_coordinator=True)
                await log.write(command, self._now_ms())
                rows = rows_now(log.state, command)
        target, count = command.target.name, len(command.rows)
        _log.info("cleaned up", partition=str(tip), segments=count, state=target, by=by)
        return rows

    def report(self) -> dict[str, Any]:
        """For `status`: what is kept where, what brokers have been given, what is purged.

        What is kept is known once the store was looked through.
        """
        self._look()
        given = Counter(
            (broker_id, one.topic_id_partition)
            for broker_id, held in self._given.items()
            for one in held.rest
        )
        return {
            "partitions": len(self._keeping),
            "purged": self._purged,
            "purged_bytes": self._purged_bytes,
            "purged_ms": self._purged_ms,
            "given": [
                {
                    "broker": broker_id,
                    "topic": tip.topic,
                    "topic_id": str(tip.topic_id),
                    "partition": tip.partition,
                    "segments": segments,
                }
                for (broker_id, tip), segments in given.items()
            ],
        }

    async def close(self) -> None:
        """Look no further."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    async def _end(self, broker_id: int, key: PartitionKey, segment_id: bytes) -> None:
        command = cmd.EndPurges(Origin(broker_id, None), (segment_id,))
        keeping = self._keeping.get(key)
        await self._purge(key.named("") if keeping is None else keeping.tip, command)
        for one in list(self._given[broker_id].rest if broker_id in self._given else ()):
            if id_of_row(one.row) == segment_id:
                self._given[broker_id].rest.remove(one)
                self._purged += 1
                self._purged_ms = self._now_ms()
                self._purged_bytes += unpack_row(one.row)[SIZE]

    async def _start(self, broker_id: int) -> _Leased:
        loop = asyncio.get_running_loop()
        until_s, now_ms = loop.time() + STEP_S, self._now_ms()
        rest = deque[ToPurge]()
        for key, one in list(self._keeping.items()):
            if rest or loop.time() >= until_s:
                break
            if now_ms < one.not_before_ms:
                continue
            command = cmd.StartPurges(
                Origin(broker_id, None), (), LEASE_MS, GIVEN_MAX, one.after
            )
            again_ms = now_ms + AGAIN_MS
            self._keeping[key] = one._replace(not_before_ms=again_ms)
            try:
                found = await self._purge(one.tip, command)
            except RemoteStorageError as error:
                _log.info("nothing is purged now", partition=str(one.tip), error=repr(error))
                continue
            rest.extend(ToPurge(one.tip, row) for row in found.rows)
            if not found.keeps:
                del self._keeping[key]
            elif rest:
                self._keeping[key] = one
            elif found.after >= 0:
                self._keeping[key] = one._replace(after=found.after)
            else:
                soon_ms = again_ms if found.due_ms is None else min(found.due_ms, again_ms)
                self._keeping[key] = _Keeping(one.tip, -1, soon_ms)
        return _Leased(rest, now_ms + LEASE_MS // 2)

    async def _purge(
        self, tip: TopicIdPartition, command: cmd.StartPurges | cmd.EndPurges
    ) -> Purging:
        host = self._leading(tip)
        if host is not None:
            return await host.ask(PurgeCall(PartitionKey.of(tip), command))
        log, self._unled = self._unled, None  # Only if all goes well, what it has is right.
        if log is None or log.state.topic_id_partition != tip:
            log = await UnledLog.read(self._catalog, self._fold(), tip, is_coordinator=True)
        now_ms = self._now_ms()
        await log.write(command, now_ms)
        found = purging_of(log.state, command, now_ms)
        if found.rows:
            self._unled = log
        return found

    def _leading(self, tip: TopicIdPartition) -> HostHandle | None:
        """The host that leads a partition; None if no broker hosts that.

        Raises:
            NotReady: It is hosted, and has no leader now.
        """
        key, state = PartitionKey.of(tip), self._fold().state
        entry = state.partitions.get(key)
        if entry is None or not entry.is_hosted:
            return None
        address = state.route(key).leader_host
        host = None if address is None else self._host(address)
        if host is None:
            raise NotReady(f"{tip} has no leader now")
        return host

    def _look(self) -> None:
        """Begin to look through the store, if it is time for that."""
        loop = asyncio.get_running_loop()
        is_idle = self._looking is None or self._looking.done()
        if is_idle and loop.time() >= self._look_at_s:
            self._looking = loop.create_task(self._look_through())

    async def _look_through(self) -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        try:
            async for entry in self._catalog.partitions():
                tip = entry.topic_id_partition
                key = PartitionKey.of(tip)
                if key not in self._keeping and await self._keeps(tip):
                    self._keeping[key] = _Keeping(tip)
        except Exception as error:  # noqa: BLE001 - It is tried again.
            _log.warning("the trash is not looked through", error=repr(error))
        took_s = loop.time() - began_s
        self._look_at_s = loop.time() + max(LOOK_MIN_S, LOOK_SHARE * took_s)

    async def _keeps(self, tip: TopicIdPartition) -> bool:
        try:
            return await self._catalog.reader(tip).keeps()
        except DataError:
            return False  # A damaged log is a trouble of its own, and nothing is purged by it.

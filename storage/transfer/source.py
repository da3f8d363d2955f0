"""Reads what is new in a cluster's logs, while a service may go on writing them.

Rule: the coordinator's log is read last. It gives out the numbers under which brokers and hosts
write to partitions (incarnations, announcements, assignments), so it must know all of those
that the partitions' logs have. That it knows more is as if a service had ended right after it
was told: sessions that nobody has opened yet.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from tierledger.events.errors import CorruptLog, DataError, StoreRefused
from tierledger.storage.catalog import Catalog
from tierledger.storage.partition.event_log import BatchLog
from tierledger.storage.transfer.logs import COORDINATOR, BatchPiece, ClusterLogs, LogEnd, LogId


class StoreSource:
    """The logs of a cluster in a store that is only read."""

    def __init__(
        self,
        catalog: Catalog,
        known: Mapping[LogId, LogEnd],
        *,
        ends_where_closed: bool = False,
    ) -> None:
        """`known`: how far somebody has the logs already.

        `ends_where_closed`: whether a slot that closes a log is its end, and not a refusal.
        """
        self.logs = ClusterLogs(catalog.keys, catalog.serde, catalog.cluster_id)
        self.ends = dict(known)
        """How far the logs were read."""
        self.damaged: dict[LogId, DataError] = {}
        """Logs that are sound up to their end in `ends` only, and why."""
        self._catalog = catalog
        self._known = known
        self._ends_where_closed = ends_where_closed
        self._closed: set[LogId] = set()

    async def pieces(self) -> AsyncIterator[BatchPiece]:
        """What follows the known ends, up to the ends of the logs.

        Raises:
            StoreRefused: A log does not have what is known of it: it is another store, or an
                older one, or one that is closed.
            CorruptLog: The coordinator's log does not verify.
            StorageUnavailable: The store cannot be reached.
        """
        missing = {log for log in self._known if not log.is_coordinators}
        async for tip, _ in self._catalog.first_batches():
            log = LogId(bytes(tip.topic_id), tip.partition)
            missing.discard(log)
            try:
                async for piece in self._of(log):
                    yield piece
                if log not in self.ends and log not in self._closed:
                    raise CorruptLog(f"{log}: there is a checkpoint, and no log")
            except StoreRefused:
                raise
            except DataError as error:
                self.damaged[log] = error
        for log in missing:
            raise self._other(log)
        async for piece in self._of(COORDINATOR):
            yield piece

    async def _of(self, log: LogId) -> AsyncIterator[BatchPiece]:
        logs, backend = self.logs, self._catalog.backend
        batches = BatchLog(backend, logs.prefix(log), logs.batch_keys(log))
        end = self.ends.get(log)
        if end is not None:
            value = await backend.get(batches.key(end.next_batch - 1))
            first = await self._first(batches, log)
            if not (logs.ends_with(end, log, value) or end.next_batch <= first):
                raise self._other(log)
        end = end or logs.start(log)
        number = end.next_batch
        while True:
            try:
                page = await batches.page(number)
            except CorruptLog as error:
                number, before = await self._first(batches, log), number
                if number <= before:
                    raise CorruptLog(f"{log}: {error}") from None
                continue  # It was forgotten up to there.
            values = [batch.value for batch in page.batches]
            if not values:
                return
            found = logs.followed(end, BatchPiece(log, number, values))
            end, number = found.end, found.end.next_batch
            if found.batches:
                self.ends[log] = end
                yield BatchPiece(log, number - found.batches, values[: found.batches])
            if isinstance(found.error, StoreRefused) and self._ends_where_closed:
                self._closed.add(log)
                return
            if found.error is not None:
                raise found.error
            if page.is_end:
                return  # Another read may find more, as long as somebody writes.

    async def _first(self, batches: BatchLog, log: LogId) -> int:
        """The number of the first batch that the log still has; 0 if it has none."""
        found = await self._catalog.backend.get_like(self.logs.prefix(log), limit=1)
        if not found:
            return 0
        number = found[0][0].rpartition("/")[2]
        if not number.isdecimal() or batches.key(int(number)) != found[0][0]:
            raise CorruptLog(f"{log}: {found[0][0]!r} is no batch")
        return int(number)

    def _other(self, log: LogId) -> StoreRefused:
        end = self._known[log]
        return StoreRefused(
            f"{log} does not have what is known of it before position {end.next_position}: "
            "the store is older, or another one"
        )

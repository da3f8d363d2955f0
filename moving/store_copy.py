"""Moves a cluster's ledger to another store, while a service goes on in the former one.

Rule: each log of the former store is closed there, durably, before its end counts as known, and
the new store opens only with each log up to that end. So no write that was acknowledged is
lost, also of a host that nobody has found and ended.
"""

from __future__ import annotations

from collections.abc import Callable
from secrets import token_bytes
from typing import Self

from tierledger.actors.coordinator.log import closed
from tierledger.events.errors import DataError, StoreRefused
from tierledger.storage.backend import MetadataStorageBackend
from tierledger.storage.catalog import Catalog
from tierledger.storage.closed_slot import COPIED, closed_slot
from tierledger.storage.transfer.closing import close_logs, closed_because
from tierledger.storage.transfer.logs import ClusterLogs, LogId
from tierledger.storage.transfer.source import StoreSource
from tierledger.storage.transfer.target import StoreTarget

NOT_WHOLE = (
    "a ledger is being copied to this store, or that was interrupted: no service starts on it; "
    "`tierledger storage copy` begins anew"
)

OnBatches = Callable[[int], None]


class StoreCopy:
    """A copy that is under way."""

    def __init__(self, logs: ClusterLogs, target: StoreTarget, new_url: str) -> None:
        """Not called directly: see `begun`."""
        self.damaged: dict[LogId, DataError] = {}
        """Logs that are sound, and copied, up to some position only, and why."""
        self._logs = logs
        self._target = target
        self._new_url = new_url
        self._batches = 0

    @classmethod
    async def begun(cls, former: Catalog, new: MetadataStorageBackend, new_url: str) -> Self:
        """A copy of the cluster's ledger into `new`, of which nothing is copied yet.

        What an interrupted attempt has left in `new` is removed. `new_url` is what is told of
        `new`, without secrets.

        Raises:
            RejectedError: `new` has something of the cluster.
            StoreRefused: `former` is closed, and not because of such an attempt.
            StorageUnavailable: It cannot be reached.
        """
        logs = ClusterLogs(former.keys, former.serde, former.cluster_id)
        why = await closed_because(former)
        if why not in {None, COPIED + new_url}:
            raise StoreRefused(why)
        return cls(logs, await StoreTarget.begun(new, logs, NOT_WHOLE), new_url)

    @property
    def logs(self) -> int:
        """How many logs the copy has by now."""
        return len(self._target.ends)

    @property
    def events(self) -> int:
        """How many events it has by now; those that were forgotten count."""
        return sum(end.next_position for end in self._target.ends.values())

    async def follow(self, former: Catalog, on_batches: OnBatches = lambda _: None) -> int:
        """Copy what is new in `former` since the last call; how many batches that was.

        Raises:
            StoreRefused: It does not have what was copied: it is another store by now, or an
                older one.
            CorruptLog: The coordinator's log is damaged.
            RejectedError: Somebody else writes to the new store.
            StorageUnavailable: A store cannot be reached.
        """
        before = self._batches
        await self._copied(former, on_batches)
        return self._batches - before

    async def switch(self, former: Catalog, on_batches: OnBatches = lambda _: None) -> None:
        """Close `former` for good, copy the rest, compare, and open the new store.

        `former` has to be open for writing. If this fails before it returns, `former` stays
        closed, and another copy may begin anew, or `reopen_logs` opens it again.

        Raises:
            CorruptRemoteData: The copy does not end where the logs do.
            Else as `follow`.
        """
        mark = closed_slot(self._logs.serde, COPIED + self._new_url, token_bytes(16))
        # A host may be about to write the first batch of what is placed on it.
        placed = (await closed(former, mark)).state.partitions
        wanted = {LogId(*key) for key in placed}
        async for tip, _ in former.first_batches():
            wanted.add(LogId(bytes(tip.topic_id), tip.partition))
        await close_logs(former.backend, self._logs, wanted, mark)
        source = await self._copied(former, on_batches)
        await self._target.finish(source.ends)

    async def close(self) -> None:
        """Wait for what is on its way to the new store, after an error, too."""
        await self._target.close()

    async def _copied(self, former: Catalog, on_batches: OnBatches) -> StoreSource:
        # It is closed if an earlier attempt came that far.
        source = StoreSource(former, self._target.ends, ends_where_closed=True)
        async for piece in source.pieces():
            await self._target.append(piece)
            self._batches += len(piece.values)
            on_batches(len(piece.values))
        self.damaged = dict(source.damaged)
        return source

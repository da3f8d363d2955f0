"""What a guard asks the coordinator and is told, apart from what answers: clients load it."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, NamedTuple, Protocol

from tierledger.actors.calls import PartitionKey
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.typed_fields import Id, Int32


class ToPurge(NamedTuple):
    """A segment whose data a guard is to delete."""

    topic_id_partition: TopicIdPartition
    row: bytes


class NextPurge(NamedTuple):
    """A guarded broker asks what it may purge, and tells what it has purged."""

    broker_id: Int32
    done: tuple[PartitionKey, Id] | None = None

    def put_to(self, asked: GivesPurges) -> Coroutine[Any, Any, ToPurge | None]:
        return asked.purge(self)


class GivesPurges(Protocol):
    """Gives guards what is due."""

    async def purge(self, wish: NextPurge) -> ToPurge | None: ...

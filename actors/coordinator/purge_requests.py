"""What goes from the tier by the coordinator's word: requests of guards and of operators.

Apart from what answers them: clients load it.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Annotated, Any, NamedTuple, Protocol

from msgspec import Meta

from tierledger.actors.calls import PartitionKey
from tierledger.events.commands import EndSegments
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.typed_fields import Id, Int32, Text


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


COMMAND = -1
"""In place of a broker: an operator's command."""

RELEASED_MAX = 500
"""Segments that one request releases."""


class ReleaseKept(NamedTuple):
    """An operator releases segments that are kept until then; what a hold is about stays kept.

    May be repeated.
    """

    topic_id_partition: TopicIdPartition
    segment_ids: Annotated[tuple[Id, ...], Meta(max_length=RELEASED_MAX)]
    by: Text
    reason: Text

    def put_to(self, asked: GivesPurges) -> Coroutine[Any, Any, None]:
        return asked.release_kept(self)


CLEANED_MAX = 100
"""Segments that one request ends."""


class CleanUp(NamedTuple):
    """An operator ends segments that no broker ends; whoever writes the log decides on it.

    The answer is their rows after that, of those that have not ended. May be repeated.
    """

    topic_id_partition: TopicIdPartition
    command: EndSegments
    by: Text

    def put_to(self, asked: GivesPurges) -> Coroutine[Any, Any, Sequence[bytes]]:
        return asked.clean_up(self)


class GivesPurges(Protocol):
    """Gives guards what is due, and lets go of what operators say."""

    async def clean_up(self, wish: CleanUp) -> Sequence[bytes]: ...

    async def release_kept(self, wish: ReleaseKept) -> None: ...

    async def purge(self, wish: NextPurge) -> ToPurge | None: ...

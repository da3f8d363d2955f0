"""What the leaders and followers of a running service answer, for commands that ask them.

Nothing is announced and nobody is registered: a command that reads disturbs no broker. Ray is
loaded only once a service is known to run.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from tierledger.actors.calls import STORAGE, PartitionKey, QueryCall
from tierledger.actors.messages import Query
from tierledger.actors.router import Router
from tierledger.actors.service_link import ServiceLink
from tierledger.actors.service_record import live_record
from tierledger.cli.opened_store import found_partition, opened_catalog
from tierledger.cli.output import print_note
from tierledger.cli.service_settings import service_settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tierledger.actors.calls import Answered
    from tierledger.cli.opened_store import StoreOptions

DEADLINE_S = 10.0
"""How long to look for somebody who answers."""


class _Place(NamedTuple):
    """Where to ask: the partition, and in which role somebody serves it."""

    router: Router
    key: PartitionKey
    role: str

    async def ask(self, query: Query) -> Answered:
        served_as = self.role

        def make(role: str) -> QueryCall:
            nonlocal served_as
            served_as = role
            return QueryCall(self.key, role, query, timeout_ms=int(DEADLINE_S * 900))

        answered: Answered = await self.router.ask(self.key, self.role, make)
        if served_as == STORAGE:
            print_note("nobody leads or follows it now; its host answered from the store")
        elif served_as != self.role:
            print_note(f"it has no {self.role} now; its {served_as} answered")
        if answered.stale:
            print_note("the partition is in quarantine; this is its last good state")
        return answered


async def lookup_live(
    options: StoreOptions, where: tuple[str, int], role: str, place: tuple[int, int]
) -> bytes | None:
    """The segment that `role` answers for an epoch and offset; none if it knows none.

    Raises:
        NotReady: No service runs, or nobody answered in time.
        RemoteResourceNotFound: The partition is unknown, or its deletion is finished.
    """
    async with _asking(options, where, role) as asked:
        row: Any = (await asked.ask(Query("lookup", *place))).value
    return None if row is None else bytes(row)


async def list_live(
    options: StoreOptions, where: tuple[str, int], role: str, epoch: int | None
) -> list[bytes]:
    """All segments as `role` lists them, or one leader epoch's. Raises as a lookup does."""
    query = Query("list") if epoch is None else Query("list_epoch", epoch)
    async with _asking(options, where, role) as asked:
        answered = await asked.ask(query)
        page: Any = answered.value
        rows: list[bytes] = list(page)
        while answered.cursor is not None:
            answered = await asked.router.next_page(asked.key, role, answered.cursor)
            page = answered.value
            rows += page
    return rows


@asynccontextmanager
async def _asking(
    options: StoreOptions, where: tuple[str, int], role: str
) -> AsyncIterator[_Place]:
    async with opened_catalog(options) as catalog:
        tip = await found_partition(catalog, *where)
    settings = await service_settings(options)
    await live_record(settings)
    from tierledger.actors.ray_service import connect

    router = Router(ServiceLink(lambda: connect(settings)), DEADLINE_S)
    try:
        yield _Place(router, PartitionKey.of(tip), role)
    finally:
        await router.close()

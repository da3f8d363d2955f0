"""Answers of the leaders and followers of a running service, for commands that read.

They announce nothing and register nobody, so they disturb no broker. A service is named by its
store, or by its doors.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from tierledger.actors.calls import STORAGE, PartitionKey, PartitionsCall, QueryCall
from tierledger.actors.client.router import Router
from tierledger.actors.client.service_link import ServiceLink
from tierledger.actors.coordinator.requests import HostsCall
from tierledger.actors.discovery.connecting import connect
from tierledger.actors.messages import Query
from tierledger.actors.wall_clock import RandomIds
from tierledger.cli.opened_store import found_partition, opened_catalog
from tierledger.cli.output import print_note
from tierledger.cli.service_settings import client_settings
from tierledger.cli.settings import names_doors
from tierledger.events.errors import InvalidArgument, RemoteResourceNotFound
from tierledger.events.identifiers import Uuid

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tierledger.actors.calls import Answered
    from tierledger.actors.connection import ServiceConnection
    from tierledger.cli.opened_store import StoreOptions

DEADLINE_S = 10.0
"""How long to look for a host that answers."""


class _Respondent(NamedTuple):
    """Where to ask: the partition, and the role of the node that answers."""

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
    """The segment that `role` returns for an epoch and offset; none if it has none.

    Raises:
        NotReady: No service runs, or no host answered in time.
        RemoteResourceNotFound: The partition is unknown, or its deletion is finished.
    """
    async with _asking(options, where, role) as asked:
        row: Any = (await asked.ask(Query("lookup", *place))).value
    return None if row is None else bytes(row)


async def list_live(
    options: StoreOptions, where: tuple[str, int], role: str, epoch: int | None
) -> list[bytes]:
    """All segments as `role` lists them, or one leader epoch's. Raises as `lookup_live`."""
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
) -> AsyncIterator[_Respondent]:
    key = None
    if not names_doors(options.store):
        async with opened_catalog(options) as catalog:
            key = PartitionKey.of(await found_partition(catalog, *where))
    settings = await client_settings(options)
    link = ServiceLink(lambda: connect(settings))
    router = Router(link, DEADLINE_S, RandomIds().request_id())
    try:
        connection = await link.ready()  # A call itself would wait.
        yield _Respondent(router, key or await _served(connection, *where), role)
    finally:
        await router.close()


async def _served(connection: ServiceConnection, topic: str, partition: int) -> PartitionKey:
    """The key of a named partition, where only a service can be asked for it.

    Raises:
        RemoteResourceNotFound: No host serves a topic of that name.
        InvalidArgument: Hosts serve several topics of that name.
    """
    with suppress(InvalidArgument):
        return PartitionKey(bytes(Uuid.parse(topic)), partition)
    served = await asyncio.gather(
        *(
            connection.host(address).ask(PartitionsCall())
            for address in (await connection.coordinator.ask(HostsCall())).values()
        )
    )
    ids = sorted({one["topic_id"] for many in served for one in many if one["topic"] == topic})
    if not ids:
        raise RemoteResourceNotFound(
            f"no host leads or follows a topic called {topic!r}; expected one that is served, "
            "its id, or the store's URL"
        )
    if len(ids) > 1:
        raise InvalidArgument(
            f"several topics are called {topic!r}; expected one of their ids: {', '.join(ids)}"
        )
    return PartitionKey(bytes(Uuid.parse(ids[0])), partition)

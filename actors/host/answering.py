"""Answers a `Query` from a state: at once if it takes one search, in slices if it is long."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from tierledger.actors.calls import Answered
from tierledger.actors.messages import Query
from tierledger.actors.queries import QUERIES, AnswerForm, asked, kind_of
from tierledger.events.errors import NotReady, PartitionDeleted, RemoteStorageError
from tierledger.events.partition import answers
from tierledger.events.partition.state import PartitionState

PAGE_ROWS = 1000
"""Rows of a list's page: 100 kB on the wire, below 2 ms to make."""

PAGE_BYTES = 4 * 1024 * 1024
"""Bytes of a list's page, up to the one row that exceeds it: rows with custom metadata may be
a thousand times as long as others."""

CURSORS_MAX = 64
"""Lists that a host keeps open. The next one closes the oldest; its reader gets `NotReady`."""


def answer_now(state: PartitionState, query: Query, *, stale: bool) -> Answered | None:
    """The answer if it takes one search; None if it has to be made in slices.

    Raises:
        PartitionDeleted: The partition's deletion is finished.
        InvalidArgument: There is no such kind of query.
    """
    if state.is_finished:
        raise PartitionDeleted(f"{state.topic_id_partition}: its deletion is finished")
    if kind_of(query).form is AnswerForm.ROWS:
        return None
    value = asked(state, query)
    if isinstance(value, answers.WalkPaused):
        return None
    if isinstance(value, answers.PartitionSummary):
        value = tuple(value)
    return Answered(value, state.next_position - 1, stale=stale)


def snapshot_for(state: PartitionState, query: Query) -> answers.Snapshot:
    """The snapshot, at the state's present position, from which a sliced answer is made."""
    takes_epoch = "epoch" in QUERIES[query.kind].arguments
    return answers.Snapshot(state, query.epoch if takes_epoch else None)


async def walk(snapshot: answers.Snapshot, query: Query, *, stale: bool) -> Answered:
    """The answer to a query that needs a long walk, in slices."""
    while isinstance(found := asked(snapshot, query), answers.WalkPaused):
        query = query._replace(offset=found.offset)
        await asyncio.sleep(0)
    return Answered(found, snapshot.position, stale=stale)


Failed: TypeAlias = "Callable[[Exception], RemoteStorageError]"


class _OpenList(NamedTuple):
    rows: Iterator[bytes | None]
    position: int
    stale: bool
    failed: Failed


class OpenLists:
    """Lists that readers go through page by page, each at one position."""

    def __init__(self, process: str) -> None:
        """`process` makes cursors unique among this host's processes and all other hosts'."""
        self._process = process
        self._open: dict[str, _OpenList] = {}
        self._count = itertools.count(1)

    async def first_page(
        self, snapshot: answers.Snapshot, query: Query, failed: Failed, *, stale: bool
    ) -> Answered:
        """The first page of a list, which stays open if it has more pages.

        `failed` makes the error that the reader of a later page gets if making it fails.
        """
        rows, position = asked(snapshot, query), snapshot.position
        return await self._page(_OpenList(rows, position, stale, failed))

    async def next_page(self, cursor: str) -> Answered:
        """The next page of the list that `cursor` names.

        Raises:
            NotReady: The list was closed to make room for others; begin it again.
            RemoteStorageError: The page could not be made; the error is that of `failed`.
        """
        found = self._open.pop(cursor, None)
        if found is None:
            raise NotReady(f"list {cursor} is not open any more; begin it again")
        try:
            return await self._page(found)
        except Exception as error:
            raise found.failed(error) from error

    async def _page(self, open_list: _OpenList) -> Answered:
        page: list[bytes] = []
        size = 0
        for row in open_list.rows:
            if row is None:
                await asyncio.sleep(0)
                continue
            page.append(row)
            size += len(row)
            if len(page) == PAGE_ROWS or size >= PAGE_BYTES:
                cursor = self._keep(open_list)
                return Answered(page, open_list.position, cursor, open_list.stale)
        return Answered(page, open_list.position, stale=open_list.stale)

    def _keep(self, open_list: _OpenList) -> str:
        while len(self._open) >= CURSORS_MAX:
            del self._open[next(iter(self._open))]
        cursor = f"{self._process}/{next(self._count)}"
        self._open[cursor] = open_list
        return cursor

"""A list's page is bounded by rows and by bytes; no row is lost between two pages."""

from typing import Any, NoReturn

import pytest

from tierledger.actors.host.answering import PAGE_BYTES, PAGE_ROWS, OpenLists
from tierledger.actors.messages import Query
from tierledger.events.partition import answers


class _Rows:
    """Stands for a snapshot; what is listed comes from `list_all`."""

    position = 7


def _failed(error: Exception) -> NoReturn:
    raise error


async def paged(monkeypatch: pytest.MonkeyPatch, rows: list[bytes]) -> list[list[bytes]]:
    """The pages of a list of `rows`."""
    monkeypatch.setattr(answers, "list_all", lambda _: iter(rows))
    lists, snapshot = OpenLists("process"), _Rows()
    query = Query("list")
    page = await lists.first_page(snapshot, query, _failed, stale=True)  # type: ignore[arg-type]
    pages: list[Any] = [page.value]
    while page.cursor is not None:
        assert page.stale
        page = await lists.next_page(page.cursor)
        pages.append(page.value)
    assert page.stale
    return pages


@pytest.mark.parametrize(
    ("size", "rows", "lengths"),
    [
        (1, PAGE_ROWS + 1, [PAGE_ROWS, 1]),
        (PAGE_BYTES // 2, 5, [2, 2, 1]),
        (PAGE_BYTES // 2 - 1, 5, [3, 2]),
        (PAGE_BYTES + 1, 2, [1, 1, 0]),
    ],
)
async def test_a_page_ends_with_what_is_reached_first(
    size: int, rows: int, lengths: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = [bytes(size)] * rows

    pages = await paged(monkeypatch, given)

    assert [len(page) for page in pages] == lengths
    assert [row for page in pages for row in page] == given

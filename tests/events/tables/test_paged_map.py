"""Pages: their bounds, when they are copied, and which ones a checkpoint writes."""

import pytest

from tierledger.events.tables.paged_map import PAGE_ENTRIES_MAX, PagedMap, StoredPage


def filled(count: int, *, step: int = 1) -> PagedMap[int, int]:
    one: PagedMap[int, int] = PagedMap()
    for key in range(0, count * step, step):
        one.set(key, -key)
    return one


def adopted(one: PagedMap[int, int]) -> PagedMap[int, int]:
    """The map after a start from the store: every page is still packed."""
    other: PagedMap[int, int] = PagedMap()
    other.adopt(
        StoredPage(page.number, page.first, page.size, page.proof, page.pack())
        for page in one.pages
    )
    return other


def test_an_empty_map_has_nothing_anywhere() -> None:
    one: PagedMap[int, int] = PagedMap()

    found = (one.get(1), one.floor(1), one.below(1), one.above(1), one.last())

    assert found == (None,) * 5
    assert (len(one), one.delete(1), 1 in one, one.page_at(1)) == (0, False, False, -1)


def test_neighbours_are_found_across_pages() -> None:
    one = filled(PAGE_ENTRIES_MAX + 2, step=10)
    last_of_page = (PAGE_ENTRIES_MAX - 1) * 10

    assert one.above(last_of_page) == (last_of_page + 10, -last_of_page - 10)
    assert one.below(last_of_page + 10) == (last_of_page, -last_of_page)
    assert one.floor(last_of_page + 9) == (last_of_page, -last_of_page)
    assert one.above(-5) == (0, 0)
    assert one.below(0) is None
    assert one.above(last_of_page + 20) is None


@pytest.mark.parametrize("key", [-1, 0, 10, 11, 10 * PAGE_ENTRIES_MAX, 10**6])
def test_what_is_behind_a_key_is_found_on_all_pages(key: int) -> None:
    one = filled(2 * PAGE_ENTRIES_MAX + 2, step=10)
    one.delete(0)

    assert [*one.items_behind(key)] == [entry for entry in one.items() if entry[0] > key]
    assert [*PagedMap[int, int]().items_behind(key)] == []


def test_a_log_that_grows_leaves_full_pages_behind() -> None:
    one = filled(3 * PAGE_ENTRIES_MAX + 1)

    assert [page.size for page in one.pages] == [PAGE_ENTRIES_MAX] * 3 + [1]


def test_a_page_that_overflows_elsewhere_is_halved() -> None:
    one = filled(PAGE_ENTRIES_MAX + 1, step=10)

    one.set(5, 0)

    half = PAGE_ENTRIES_MAX // 2
    assert [page.size for page in one.pages] == [half, half + 1, 1]
    one.check()


def test_a_page_whose_last_entry_goes_is_dropped() -> None:
    one = filled(PAGE_ENTRIES_MAX + 1)
    number = one.pages[-1].number
    one.changed.clear()

    assert one.delete(PAGE_ENTRIES_MAX)

    assert [page.size for page in one.pages] == [PAGE_ENTRIES_MAX]
    assert (one.changed, one.dropped) == (set(), {number})


def test_a_dropped_page_never_lends_its_number_to_another() -> None:
    one = filled(1)
    one.delete(0)

    one.set(0, 0)

    assert one.pages[0].number not in one.dropped


def test_a_snapshot_shares_every_page_but_the_one_that_changes() -> None:
    one = filled(4 * PAGE_ENTRIES_MAX)
    snapshot = one.snapshot()

    one.set(PAGE_ENTRIES_MAX, 7)

    shared = [ours is theirs for ours, theirs in zip(one.pages, snapshot.pages, strict=True)]
    assert shared == [True, False, True, True]
    assert (one.get(PAGE_ENTRIES_MAX), snapshot.get(PAGE_ENTRIES_MAX)) == (
        7,
        -PAGE_ENTRIES_MAX,
    )


def test_a_change_of_the_snapshot_does_not_show_in_its_origin() -> None:
    one = filled(10)
    snapshot = one.snapshot()

    snapshot.set(3, 7)
    snapshot.delete(4)

    assert (one.get(3), one.get(4)) == (-3, -4)
    assert (snapshot.get(3), snapshot.get(4)) == (7, None)


def test_only_what_changed_is_named_to_a_checkpoint() -> None:
    one = filled(3 * PAGE_ENTRIES_MAX)
    one.changed.clear()

    one.set(2 * PAGE_ENTRIES_MAX, 1)
    one.delete(1)
    one.delete(1)
    one.get(PAGE_ENTRIES_MAX)

    assert one.changed == {one.pages[0].number, one.pages[2].number}


def test_an_adopted_page_stays_packed_until_somebody_looks_inside() -> None:
    one = adopted(filled(3 * PAGE_ENTRIES_MAX))
    packed = [page.packed for page in one.pages]

    found = one.get(PAGE_ENTRIES_MAX + 1)

    assert found == -PAGE_ENTRIES_MAX - 1
    assert [page.packed is None for page in one.pages] == [False, True, False]
    assert [page.pack() for page in one.pages] == packed
    assert len(one) == 3 * PAGE_ENTRIES_MAX


def test_an_adopted_map_numbers_new_pages_after_the_stored_ones() -> None:
    one = adopted(filled(2 * PAGE_ENTRIES_MAX))
    before = {page.number for page in one.pages}

    one.set(2 * PAGE_ENTRIES_MAX, 0)

    assert one.changed - before == {max(before) + 1}


def test_a_summary_is_gone_when_its_page_changes_and_only_then() -> None:
    one = filled(2 * PAGE_ENTRIES_MAX)
    for page in one.pages:
        page.summary = "derived"

    one.set(0, 5)

    assert [page.summary for page in one.pages] == [None, "derived"]


def test_entries_are_read_on_from_a_pages_border() -> None:
    one = filled(2 * PAGE_ENTRIES_MAX + 5)

    rest = list(one.items_from(2 * PAGE_ENTRIES_MAX))

    assert rest == [(key, -key) for key in range(2 * PAGE_ENTRIES_MAX, len(one))]


def test_keys_may_be_bytes_and_values_nothing() -> None:
    one: PagedMap[bytes, None] = PagedMap()
    for key in (b"b", b"a", b"\xff" * 16):
        one.set(key, None)

    stored: PagedMap[bytes, None] = PagedMap()
    stored.adopt(
        StoredPage(page.number, page.first, page.size, 0, page.pack()) for page in one.pages
    )

    assert [key for key, _ in stored.items()] == [b"a", b"b", b"\xff" * 16]
    assert b"a" in stored
    assert stored.floor(b"c") == (b"b", None)


@pytest.mark.parametrize("damage", ["order", "first", "length"])
def test_the_check_finds_what_is_wrong(damage: str) -> None:
    one = filled(10)
    page = one.pages[0]
    if damage == "order":
        page.keys[3], page.keys[4] = page.keys[4], page.keys[3]
    elif damage == "first":
        page.keys[0] = -1
    else:
        page.size += 1

    with pytest.raises(AssertionError):
        one.check()

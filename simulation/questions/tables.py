"""A checker of the tables that a partition's state is made of, compared with plain ones.

A world fills its tables the way logs do, and has few rows. Here they are changed at random,
copied and stored, with pages and shards of only a few entries.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from random import Random
from typing import Any

from tierledger.events.tables.epoch_tables import EpochTables, interval_key
from tierledger.events.tables.paged_map import PagedMap, StoredPage
from tierledger.events.tables.segment_rows import ID_BYTES, SegmentRows
from tierledger.simulation.checkers.violation import ASKED, Violation

KEYS = 40
"""Keys run from 0 to one less; most of them are in use at some time."""


def wrong_table(seed: int, count: int) -> Iterator[Violation]:
    """A table holds, after one of `count` changes, something else than a dictionary would."""
    for ask in (_pages_differ, _rows_differ, _holders_differ):
        try:
            why = ask(Random(f"{seed}:{ask.__name__}"), count)
        except (LookupError, TypeError, ValueError, AttributeError, AssertionError) as error:
            why = f"a change leads to {error!r}"
        if why is not None:
            yield Violation("wrong_table", None, f"{ASKED}: {why}")


def _pages_differ(random: Random, count: int) -> str | None:
    table, plain = PagedMap[int, int](), dict[int, int]()
    store: dict[int, StoredPage] = {}
    frozen = table.snapshot(), dict(plain)
    for step in range(count):
        key = int(random.random() * KEYS)
        match int(random.random() * 12):
            case 0 | 1 | 2 | 3:
                table.set(key, step)
                plain[key] = step
            case 4 | 5:
                key = max(plain, default=0) + int(random.random() * 3)
                is_behind = key > max(plain, default=-1)
                if table.append(key, step) != is_behind:
                    return f"{key} is appended to {sorted(plain)}, or not"
                if is_behind:
                    plain[key] = step
            case 6 | 7 | 8 | 9:
                if table.delete(key) != (plain.pop(key, None) is not None):
                    return f"{key} is deleted from {sorted(plain)}, or not"
            case 10:
                _store(table, store)
                table = PagedMap()
                table.adopt(sorted(store.values(), key=lambda page: page.number % 3))
                continue  # The next change meets loaded pages.
            case _:
                if list(frozen[0].items()) != sorted(frozen[1].items()):
                    return f"a copy of {frozen[1]} holds {list(frozen[0].items())} later"
                frozen = table.snapshot(), dict(plain)
        why = _found_otherwise(table, plain, key)
        if why is not None:
            return f"change {step} of a table of pages: {why}, among {plain}"
    return None


def _store(table: PagedMap[int, int], store: dict[int, StoredPage]) -> None:
    """Store what has changed, as a checkpoint does."""
    frozen = table.freeze()
    for number in frozen.dropped - {page.number for page in frozen.pages}:
        store.pop(number, None)
    for page in frozen.pages:
        if page.number in frozen.changed:
            store[page.number] = StoredPage(page.number, page.first, page.size, 0, page.pack())
    for page in frozen.pages:
        known = store[page.number]
        assert known[1:3] == (page.first, page.size), "an unchanged page is as it was stored"


def _found_otherwise(table: PagedMap[int, int], plain: dict[int, int], key: int) -> str | None:
    """How `table` differs from `plain` around `key`; none if it does not."""
    ordered = sorted(plain.items())
    lower = [one for one in ordered if one[0] < key]
    higher = [one for one in ordered if one[0] > key]
    sizes = [page.size for page in table.pages]
    skipped = sum(islice(sizes, key % (len(sizes) + 1)))
    found: list[tuple[str, Any, Any]] = [
        ("floor", table.floor(key), next(reversed([*lower, *_at(plain, key)]), None)),
        ("get", table.get(key), plain.get(key)),
        ("in", key in table, key in plain),
        ("below", table.below(key), next(reversed(lower), None)),
        ("above", table.above(key), next(iter(higher), None)),
        ("last", table.last(), next(reversed(ordered), None)),
        ("length", len(table), len(plain)),
        ("items", list(table.items()), ordered),
        ("items from", list(table.items_from(skipped)), ordered[skipped:]),
    ]
    for what, got, expected in found:
        if got != expected:
            return f"{what} of {key} is {got}, not {expected}"
    table.check()
    return None


def _at(plain: dict[int, int], key: int) -> list[tuple[int, int]]:
    return [(key, plain[key])] if key in plain else []


def _rows_differ(random: Random, count: int) -> str | None:
    table, plain = SegmentRows(), dict[bytes, bytes]()
    frozen = table.snapshot(), dict(plain)
    for step in range(count):
        # Many ids agree in their first bytes, so that shards are spread.
        at = int(random.random() * KEYS)
        segment_id = bytes((at % 2, at % 3, at)).ljust(ID_BYTES, b"\0")
        match int(random.random() * 8):
            case 0 | 1 | 2 | 3:
                table.put(segment_id, b"%d" % step)
                plain[segment_id] = b"%d" % step
            case 4 | 5 | 6:
                table.drop(segment_id)
                plain.pop(segment_id, None)
            case _:
                if sorted(frozen[0]) != sorted(frozen[1].values()):
                    return f"a copy of {frozen[1]} holds {sorted(frozen[0])} later"
                frozen = table.snapshot(), dict(plain)
        some = list(plain)[::2]
        if table.get(segment_id) != plain.get(segment_id) or len(table) != len(plain):
            return f"{segment_id.hex()} is {table.get(segment_id)!r} among {plain}"
        if sorted(table) != sorted(plain.values()):
            return f"rows {sorted(table)} are there, and not {sorted(plain.values())}"
        if sorted(table.only(some)) != sorted(plain[one] for one in some):
            return f"of {some} there are {sorted(table.only(some))}"
    if sorted(table.snapshot().drain()) != sorted(plain.values()):
        return f"drained of {plain} is something else"
    return None


def _holders_differ(random: Random, count: int) -> str | None:
    tables, plain = EpochTables(), dict[bytes, tuple[int, int]]()
    for step in range(count):
        number = int(random.random() * KEYS)
        segment_id = bytes((number,)).ljust(ID_BYTES, b"\0")
        if (known := plain.pop(segment_id, None)) is not None:
            tables.hidden.delete(interval_key(known[0], segment_id))
        else:
            start = int(random.random() * KEYS)
            # Few are so long that they hold offsets behind many later starts.
            end = start + int(random.random() ** 4 * KEYS)
            plain[segment_id] = start, end
            tables.hidden.set(interval_key(start, segment_id), end)
        offset = int(random.random() * 2 * KEYS)
        found = sorted(tables.holders(offset))
        holding = sorted(one for one, (start, end) in plain.items() if start <= offset <= end)
        if found != holding:
            numbers = [one[0] for one in found]
            return f"change {step}: offset {offset} is held by {numbers}, among {plain}"
    return None

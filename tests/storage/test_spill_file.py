"""The spill store of a real process, with room and without."""

import sqlite3
import tracemalloc

import pytest

from tests.models.captured_logs import captured_logs
from tierledger.events.log_events import UNTIL_RELEASED_MS
from tierledger.events.partition.state import KeptSegment, KeptSegments
from tierledger.events.tables.segment_rows import pack_row
from tierledger.events.tables.spilled_map import Spill
from tierledger.storage import spill_file
from tierledger.storage.spill_file import SpillFile


def test_it_has_what_was_put_until_that_is_dropped() -> None:
    store = SpillFile()
    first, second = store.put(b"one"), store.put(b"two" * 10_000)
    assert first is not None
    assert second is not None

    store.drop(first)
    third = store.put(b"three")

    assert third is not None
    assert (store.get(second), store.get(third)) == (b"two" * 10_000, b"three")


def test_without_room_pages_stay_in_memory_and_a_warning_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened = spill_file._opened

    def small() -> sqlite3.Connection:
        database = opened()
        database.execute("PRAGMA max_page_count = 8")
        return database

    monkeypatch.setattr(spill_file, "_opened", small)
    store = SpillFile()
    with captured_logs() as logs:
        numbers = [store.put(bytes(5000)) for _ in range(10)]
        again = [one for one in numbers if one is not None]
        for one in again:
            store.drop(one)
        after = store.put(bytes(5000))

    assert None in numbers
    assert after is not None, "there is room again"
    assert [one["event"] for one in logs] == ["what is seldom read stays in memory"]
    assert "full" in logs[0]["error"]


def test_a_kept_segment_takes_few_bytes_of_memory_however_large_its_row() -> None:
    count = 20_000
    tracemalloc.start()
    kept = KeptSegments(Spill(SpillFile(), open_max=2))
    for position in range(count):
        segment_id = position.to_bytes(16, "big")
        fields = [segment_id, 1, position, position, [0, 0, 0], 5, 0, 0, 0, bytes(200), None, 0]
        one = KeptSegment(pack_row(fields), UNTIL_RELEASED_MS - 1, 1, "the term", position)
        kept.add(segment_id, position, one)

    each = tracemalloc.get_traced_memory()[0] / count
    tracemalloc.stop()

    assert each < 40
    assert (len(kept), kept.bytes) == (count, 5 * count)
    found = kept.get((777).to_bytes(16, "big"))
    assert found is not None
    assert found.log_time_ms == 777

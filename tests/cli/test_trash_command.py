"""`trash` shows what was deleted and stays in the tier; all else shows it as deleted."""

import asyncio
from pathlib import Path

from tests.models.cli.command_line import invoke, lines
from tests.models.storage.stored_partitions import (
    TIME_MS,
    TIP,
    StoredPartition,
    segment_id,
    updated,
)
from tierledger import tables
from tierledger.cli.exit_status import ExitStatus
from tierledger.events.identifiers import Uuid
from tierledger.events.log_events import SegmentKept
from tierledger.storage.backends.sqlite.backend import SqliteBackend

WHY = "it was deleted under the term of the hold week of somebody: undo"


async def with_trash(path: Path) -> tuple[str, ...]:
    """The options that name a store with three segments, of which the first two are kept."""
    backend = await SqliteBackend.open(path)
    partition = await StoredPartition.led(backend)
    await partition.fill(range(3))
    for number in (1, 0):
        until_ms = TIME_MS + 1000 * number
        kept = SegmentKept(segment_id(number), until_ms, number + 1, 7, 5, WHY)
        await partition.append([updated(number, 2), kept])
    await partition.checkpoint()
    await backend.close()
    return "--store", f"sqlite:{path}"


def test_the_trash_tells_what_is_kept_until_when_and_why(tmp_path: Path) -> None:
    store = asyncio.run(with_trash(tmp_path / "ledger.sqlite"))

    (one,) = lines(invoke("trash", "ls", "--json", *store))
    kept = lines(invoke("trash", "show", TIP.topic, "3", "--json", *store))
    texts = [invoke("trash", *what, *store) for what in (["ls"], ["show", TIP.topic, "3"])]
    other = invoke("trash", "ls", "--topic", "payments", *store)

    assert (one["topic"], one["partition"], one["segments"]) == (TIP.topic, 3, 2)
    assert (one["first_offset"], one["last_offset"]) == (0, 19)
    assert one["kept_until_ms"] == TIME_MS, "the first that may go"
    assert [each["id"] for each in kept] == [str(Uuid(segment_id(at))) for at in (0, 1)]
    assert [each["deleted_by"] for each in kept] == ["retention", "topic"]
    assert {each["reason"] for each in kept} == {WHY}
    for text in texts:
        assert text.exit_code == 0, text.output
        assert TIP.topic in text.stdout or WHY[:20] in text.stdout
    assert other.exit_code == ExitStatus.USAGE


def test_it_is_a_table_beside_that_of_the_segments(tmp_path: Path) -> None:
    options = asyncio.run(with_trash(tmp_path / "ledger.sqlite"))
    shown = lines(invoke("trash", "show", TIP.topic, "3", "--json", *options))

    rows = tables.read("trash", options[1]).to_pylist()
    left = tables.read("segments", options[1]).to_pylist()
    before = tables.read("segments", options[1], topic=TIP.topic, partition=3, as_of=6)
    as_of = tables.read("trash", options[1], topic=TIP.topic, partition=3, as_of=6)

    assert [row["segment_id"] for row in rows] == [one["id"] for one in reversed(shown)]
    names = {"deleted_ms", "deleted_by", "kept_until_ms", "reason", "purged_by", "end_offset"}
    for row, one in zip(rows, reversed(shown), strict=True):
        assert {name: row[name] for name in names} == {name: one[name] for name in names}
    assert len(left) == 1
    assert (before.num_rows, as_of.num_rows) == (3, 0)
    live = {row["segment_id"]: row for row in before.to_pylist()}
    for row in rows:
        was = live[row["segment_id"]]
        assert all(row[name] == was[name] for name in ("size_in_bytes", "leader_epochs"))
        assert (row["state"], row["topic"]) == (was["state"], was["topic"])


def test_in_all_other_answers_it_is_deleted(tmp_path: Path) -> None:
    store = asyncio.run(with_trash(tmp_path / "ledger.sqlite"))

    (left,) = lines(invoke("segments", TIP.topic, "3", "--json", *store))
    described = invoke("describe", TIP.topic, "3", *store)
    whole = lines(invoke("segments", TIP.topic, "3", "--json", "--deleted", *store))
    epoch = lines(
        invoke("segments", TIP.topic, "3", "--epoch", "0", "--json", "--deleted", *store)
    )
    live = invoke("segments", TIP.topic, "3", "--deleted", "--from", "leader", *store)
    before = lines(
        invoke("segments", TIP.topic, "3", "--json", "--as-of", "position:6", *store)
    )
    log = lines(invoke("log", TIP.topic, "3", "--json", *store))
    forgotten = invoke("forget", TIP.topic, "3", "--leave-data", "--yes", *store)
    proved = invoke("verify", "--json", *store)

    assert left["start_offset"] == 20
    assert "2 segments that were deleted: trash show" in described.stdout
    assert len(before) == 3
    assert [one["start_offset"] for one in whole] == [0, 10, 20]
    assert epoch == whole
    positions = {one["id"]: one["finished_at_position"] for one in before}
    assert {one["id"]: one["finished_at_position"] for one in whole} == positions
    assert "--deleted: what is kept is read from the store" in live.stderr
    events = [one for one in log if one["type"] == "SegmentKept"]
    assert [one["cause"] for one in events] == ["TOPIC", "RETENTION"]
    assert forgotten.exit_code == ExitStatus.USAGE, "its log is all that knows them"
    assert proved.exit_code == 0, proved.output

"""Audits of whole tiers by Spark: planted damage is found, and nothing else."""

import asyncio
import csv
import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.models.cli.command_line import orders, refused, rows_in, run, write
from tests.models.pipeline.folded_tables import imported, rows_of
from tests.models.spark.rows import writing
from tests.models.storage.stored_partitions import TIME_MS, StoredPartition, finished
from tests.models.tiering import tier_trace
from tests.models.tiering.audited_tier import (
    DELETED,
    DELETING,
    FINISHED,
    OLD_S,
    PART_BYTES,
    AuditedTier,
    other_partition,
)
from tierledger.events.errors import InvalidArgument
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.metadata import CustomMetadata
from tierledger.pipeline import inventory
from tierledger.pipeline.folding.store import JobStore
from tierledger.pipeline.inventory import Seen, listed_objects
from tierledger.pipeline.jobs.audit import here
from tierledger.pipeline.jobs.audit.here import Listed, audited_here
from tierledger.pipeline.jobs.audit.job import audit, listed
from tierledger.pipeline.jobs.audit.kinds import AuditKind
from tierledger.pipeline.jobs.audit.rows import Audit, AuditDigest
from tierledger.pipeline.jobs.audit.segments import Settled, segments_table
from tierledger.pipeline.listing import read_inventory, totals, write_listing, written_listing
from tierledger.pipeline.table_columns import PlainRow
from tierledger.pipeline.tables.plan import planned
from tierledger.tiering.layouts.ledger.format import LedgerCustomMetadata
from tierledger.tiering.layouts.listed_objects import names_of
from tierledger.tiering.layouts.tier_url import Layout, open_store, parse

STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED
ORPHANS_BEFORE_MS = (OLD_S + 1000) * 1000

Found = dict[AuditKind, list[str]]
"""Segment ids, or names of foreign objects, by kind."""


def nothing() -> None:
    """Change nothing."""


def nothing_of(_: object) -> None:
    """What a list tells on the way."""


def directly(
    spark: SparkSession,
    world: AuditedTier,
    before: Callable[[], None] = nothing,
    after: Callable[[], None] = nothing,
) -> Callable[[], Listed[DataFrame]]:
    """Lists the tier; `before` and `after` happen at those moments."""

    def made() -> Listed[DataFrame]:
        before()
        file = world.files / "listing.parquet"
        store = open_store(parse(world.tier))
        asyncio.run(write_listing(store, "", file, nothing_of, nothing_of))
        after()
        return Listed(written_listing(spark, file))

    return made


def found_by(
    spark: SparkSession,
    world: AuditedTier,
    lister: Callable[[], Listed[DataFrame]] | None = None,
    damaged: Sequence[TopicIdPartition] = (),
) -> tuple[Found, dict[AuditKind, int]]:
    """Rows by kind, and how many there are of the kinds that have none."""
    store = JobStore.of(world.url)
    asked = lister or directly(spark, world)
    empty = AuditDigest(100)
    with audit(spark, store, world.names, asked, ORPHANS_BEFORE_MS, empty) as made:
        told = made.result()
        rows = [row.asDict() for row in listed(made.rows).collect()]
    assert [one.partition for one in told.damaged] == [one.partition for one in damaged]
    if lister is None:  # Else the world has changed meanwhile.
        ours, rows_here = found_here(world, store)
        assert in_order(rows_here) == in_order(rows)
        assert ours.digest.totals == told.digest.totals
        assert ours.digest.partitions == told.digest.partitions
        assert ours.digest.worst() == told.digest.worst()
        assert ours[:3] == told[:3]
        assert ours.damaged == told.damaged
    found: Found = {}
    for row in rows:
        found.setdefault(AuditKind(row["kind"]), []).append(row["segment_id"] or row["place"])
    counted = {kind: one.rows for kind, one in told.digest.totals.items() if one.rows}
    return {kind: sorted(some) for kind, some in found.items()}, counted


def found_here(world: AuditedTier, store: JobStore) -> tuple[Audit, list[PlainRow]]:
    """Findings of the job in this process, and the rows of its table."""
    rows: list[PlainRow] = []

    def lister() -> Listed[Sequence[Seen]]:
        coming = listed_objects(open_store(parse(world.tier)), "", 1000, nothing_of, nothing_of)
        found = asyncio.run(coming)
        assert found is not None
        return Listed(found)

    plan = asyncio.run(planned(segments_table(world.names, Settled()), store))
    writing = nullcontext(lambda chunk: rows.extend(chunk.rows()))
    found = audited_here(
        plan, world.names, lister, ORPHANS_BEFORE_MS, AuditDigest(100), writing
    )
    assert found is not None
    return found, rows


def told_here(place: Path) -> None:
    found = inventory.read_inventory(str(place), 10)
    assert found is not None
    inventory.totals(found)


def in_order(rows: Sequence[PlainRow]) -> list[str]:
    """Rows as text, without their order."""
    return sorted(str(sorted(row.items())) for row in rows)


LAYOUTS = [Layout.LEDGER, Layout.LOCAL_TIERED, Layout.MANIFEST]

HOSTILE = [
    'quo"te',
    "new\nline",
    "per%2Fcent",
    "com,ma",
    "ünïcode",
    "codec-none/..etc",
    "xcodec-none-0-short/00000000000000000000-.log",
]


async def damage_log(world: AuditedTier, tip: TopicIdPartition) -> None:
    """A partition whose second batch does not verify."""
    async with writing(world.url) as backend:
        partition = await StoredPartition.led(backend, tip)
        await partition.append(finished(0))
        await partition.flip(1)


async def test_no_segment_of_a_log_that_lost_a_batch_is_called_an_orphan(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = AuditedTier(tmp_path)
    for number in range(5):
        await world.copy(number)
        await world.write()
    async with writing(world.url) as backend:
        # Where a search by doubling steps looks.
        await StoredPartition(backend, world.tip).lose(3)

    found, _ = await asyncio.to_thread(found_by, spark, world, damaged=[world.tip])

    assert not found.keys() & {AuditKind.ORPHAN, AuditKind.MISSING_OBJECT}
    page = ["--tier", world.tier, "--json"]
    result = await asyncio.to_thread(run, tmp_path / "store.sqlite", "jobs", "audit", *page)
    assert result.exit_code == 3, result.output
    assert "batch 3 is missing" in result.stderr


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_every_kind_of_damage_is_found_once_and_nothing_else(
    spark: SparkSession, tmp_path: Path, layout: Layout
) -> None:
    world = AuditedTier(tmp_path, layout)
    lost, partial, resized, _, deleted = [await world.copy(at) for at in range(5)]
    for state in (DELETING, DELETED):
        world.note(deleted, state, deleted.custom_metadata)
    await world.write()
    orphan, young = world.renamed(0), world.renamed(1)
    stranger = world.renamed(2, partition=other_partition(world.tip).partition)
    await world.put_segment(orphan)
    await world.put_segment(young, is_old=False)
    await world.put_segment(stranger)
    for path in world.log_objects(lost):
        path.unlink()
    beside = [one for one in world.objects(partial) if one not in world.log_objects(partial)]
    (world.log_objects(partial) if layout == Layout.LEDGER else beside)[-1].unlink()
    shrunk = world.log_objects(resized)[0]
    if layout == Layout.LOCAL_TIERED:
        shrunk = shrunk.with_suffix(".timeindex")
    shrunk.write_bytes(shrunk.read_bytes()[:-1])
    for name in HOSTILE:
        world.put(name, b"?")
    unread = other_partition(world.tip, 8)
    await damage_log(world, unread)
    await world.put_segment(world.renamed(3, partition=unread.partition))

    found, counted = await asyncio.to_thread(found_by, spark, world, damaged=[unread])

    def ids(*some: object) -> list[str]:
        return [str(one.remote_log_segment_id.id) for one in some]  # type: ignore[attr-defined]

    assert found == {
        AuditKind.MISSING_OBJECT: ids(lost),
        AuditKind.INCOMPLETE_SET: ids(partial),
        AuditKind.SIZE_MISMATCH: ids(resized),
        AuditKind.DELETED_BUT_THERE: ids(deleted),
        AuditKind.ORPHAN: ids(orphan.metadata),
        AuditKind.FOREIGN: sorted(HOSTILE),
    }
    assert counted[AuditKind.TOO_YOUNG] == 1
    assert counted[AuditKind.UNKNOWN_PARTITION] == 1
    assert counted[AuditKind.DAMAGED_LOG] == 1
    assert counted[AuditKind.WHOLE] == 1
    assert sum(counted.values()) == 9 + len(HOSTILE)


async def test_metadata_that_nobody_can_read_is_found_and_another_prefix_is_not_missing(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = AuditedTier(tmp_path)
    await world.copy(0)
    elsewhere = LedgerCustomMetadata(PART_BYTES, 11_000, "old").to_custom_metadata()
    unread, moved = (world.segments[number].metadata for number in (1, 2))
    for metadata, custom in ((unread, CustomMetadata(b"?")), (moved, elsewhere)):
        world.note(metadata, STARTED)
        world.note(metadata, FINISHED, custom)
    await world.write()

    found, counted = await asyncio.to_thread(found_by, spark, world)

    assert found == {AuditKind.UNREADABLE_METADATA: [str(unread.remote_log_segment_id.id)]}
    assert counted[AuditKind.ELSEWHERE] == 1
    assert counted[AuditKind.WHOLE] == 1


def test_the_tree_that_a_broker_wrote_has_nothing_that_is_not_right(
    spark: SparkSession, tmp_path: Path
) -> None:
    store, _ = imported(tmp_path / "store.sqlite", "tier")
    names = names_of(Layout.LOCAL_TIERED, "")
    file = tmp_path / "listing.parquet"

    def lister() -> Listed[DataFrame]:
        tier = open_store(parse(f"local-tiered:{tier_trace.TREE}"))
        asyncio.run(write_listing(tier, "", file, nothing_of, nothing_of))
        return Listed(written_listing(spark, file))

    with audit(spark, store, names, lister, ORPHANS_BEFORE_MS, AuditDigest(1)) as made:
        totals = made.result().digest.totals

    counted = {kind: one.rows for kind, one in totals.items() if one.rows}
    assert counted == {AuditKind.WHOLE: len(tier_trace.segments())}


async def test_what_is_copied_or_deleted_during_an_audit_is_no_finding(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = AuditedTier(tmp_path)
    kept, gone_before, gone_after = [await world.copy(at) for at in range(3)]
    del kept
    started = await world.copy(3, state=STARTED)
    await world.write()

    def delete(metadata: object) -> None:
        for state in (DELETING, DELETED):
            world.note(metadata, state)  # type: ignore[arg-type]
        asyncio.run(world.write())
        for path in world.objects(metadata):  # type: ignore[arg-type]
            path.unlink()

    def before() -> None:
        delete(gone_before)

    def after() -> None:
        # Its objects were listed; and so were those of a copy that is recorded only now.
        delete(gone_after)
        world.note(started, RemoteLogSegmentState.COPY_SEGMENT_FINISHED)
        asyncio.run(world.copy(4))
        asyncio.run(world.write())

    found, counted = await asyncio.to_thread(
        found_by, spark, world, directly(spark, world, before, after)
    )

    assert found == {}
    assert counted == {AuditKind.CHANGING: 3, AuditKind.WHOLE: 1}


def test_an_inventory_tells_the_same_as_the_tier_itself(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = AuditedTier(tmp_path)
    for name in (*HOSTILE, "plain"):
        world.put(name, b"?" * len(name))
    directly(spark, world)()
    there = {
        one["path"]: one for one in pq.read_table(world.files / "listing.parquet").to_pylist()
    }
    comma = tmp_path / "inventory.csv"
    with comma.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["etag", "size", "path", "last_modified"])
        for name, one in there.items():
            time = datetime.fromtimestamp(one["last_modified_ms"] / 1000, UTC)
            writer.writerow(["", one["size"], name, time.isoformat(timespec="milliseconds")])
        # An older version of an object, as an inventory with versions has it.
        writer.writerow(["", 1, "plain", "1999-01-01T00:00:00Z"])
    times = pa.array([one["last_modified_ms"] for one in there.values()])
    columns = {
        "path": list(there),
        "size": [one["size"] for one in there.values()],
        "last_modified": times.cast(pa.timestamp("ms", "UTC")),
    }
    pq.write_table(pa.table(columns), tmp_path / "inventory.parquet")

    standings = [
        {row["path"]: row.asDict() for row in read_inventory(spark, str(place)).collect()}
        for place in (comma, tmp_path / "inventory.parquet")
    ]

    assert len(there) == len(HOSTILE) + 1
    assert standings == [there, there]
    rows = {Seen(*(one[name] for name in Seen._fields)) for one in there.values()}
    for place in (comma, tmp_path / "inventory.parquet"):
        assert set(inventory.read_inventory(str(place), 100) or ()) == rows
        assert inventory.read_inventory(str(place), len(rows)) is None or place != comma


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"path": ["a"], "size": [1]}, "last_modified is missing"),
        ({"path": ["a", "b"], "size": ["1", "many"], "last_modified": ["0", "0"]}, "'b'"),
        ({"path": ["a"], "size": [-1], "last_modified": [0]}, "'a'"),
        ({"path": ["a"], "size": [1 << 60], "last_modified": [0]}, "'a'"),
        ({"path": [None, "b"], "size": [1, 1], "last_modified": [0, 0]}, "1 rows without"),
    ],
)
def test_a_listing_that_cannot_be_is_refused(
    spark: SparkSession, tmp_path: Path, columns: dict[str, list[object]], expected: str
) -> None:
    pq.write_table(pa.table(columns), tmp_path / "inventory.parquet")

    with pytest.raises(InvalidArgument, match=expected) as there:
        totals(read_inventory(spark, str(tmp_path / "inventory.parquet")))
    with pytest.raises(InvalidArgument) as ours:
        told_here(tmp_path / "inventory.parquet")

    assert str(ours.value) == str(there.value)


@pytest.mark.parametrize(
    ("before_ms", "is_settled"), [(TIME_MS, False), (TIME_MS + 1, True), (0, False)]
)
async def test_what_happened_after_an_older_list_was_made_is_not_settled(
    tmp_path: Path, before_ms: int, is_settled: bool
) -> None:
    world = AuditedTier(tmp_path)
    await world.copy(0)
    await world.copy(1, state=DELETED)
    await world.write()
    store = JobStore.of(world.url)
    table = segments_table(world.names, Settled({}, before_ms))

    plan = await planned(table, store)
    rows = await asyncio.to_thread(rows_of, plan)

    assert {row["state"]: row["is_settled"] for row in rows} == {
        "COPY_SEGMENT_FINISHED": is_settled,
        "DELETE_SEGMENT_FINISHED": is_settled,
    }


@pytest.mark.parametrize("engine", ["local", "spark"])
@pytest.mark.usefixtures("spark")
async def test_the_command_says_by_its_status_whether_anything_was_found(
    tmp_path: Path, engine: str
) -> None:
    world = AuditedTier(tmp_path)
    lost = await world.copy(0)
    await world.write()
    for path in world.objects(lost):
        path.unlink()
    world.put("<script>alert(1)</script>", b"?")
    page, out = tmp_path / "audit.html", tmp_path / "rows"
    args = ["--tier", world.tier, "--json", "--page", page, "--out", out, "--format", "json"]
    args += ["--engine", engine]

    result = await asyncio.to_thread(run, tmp_path / "store.sqlite", "jobs", "audit", *args)

    assert result.exit_code == 1, result.output
    told = json.loads(result.stdout)
    assert (told["missing_object"], told["foreign"], told["findings"]) == (1, 1, 1)
    assert [row["kind"] for row in told["worst"]] == ["missing_object"]
    assert sorted(row["kind"] for row in rows_in(out)) == ["foreign", "missing_object"]
    text = page.read_text()
    assert str(lost.remote_log_segment_id.id) in text
    assert "://" not in text
    assert text.count("<script>") == 3


@pytest.mark.parametrize("engine", ["local", "spark"])
@pytest.mark.usefixtures("spark")
async def test_what_cannot_be_looked_at_is_named_and_the_rest_is_judged(
    tmp_path: Path, engine: str
) -> None:
    world = AuditedTier(tmp_path)
    lost = await world.copy(0)
    await world.copy(1)
    orphan = world.renamed(2)
    await world.put_segment(orphan)
    await world.write()
    for path in world.objects(lost):
        path.unlink()
    (world.root / "loop").symlink_to("loop")
    page, out = tmp_path / "audit.html", tmp_path / "rows"
    args = ["--tier", world.tier, "--engine", engine, "--page", page, "--out", out]
    args += ["--format", "json", "--older-than", "1h"]
    store = tmp_path / "store.sqlite"

    result = await asyncio.to_thread(run, store, "jobs", "audit", *args, "--json")
    plain = await asyncio.to_thread(
        run, store, "jobs", "audit", "--tier", world.tier, "--engine", engine
    )

    assert (result.exit_code, plain.exit_code) == (3, 3), result.output + plain.output
    told = json.loads(result.stdout)
    assert told["not_seen"] == ["loop: Too many levels of symbolic links"]
    kinds = {kind: told[kind] for kind in ("missing_object", "whole", "orphan", "unseen")}
    assert kinds == {"missing_object": 1, "whole": 1, "orphan": 0, "unseen": 1}
    assert "loop: Too many levels" in result.stderr
    assert "loop: Too many levels" in plain.stdout
    assert "loop: Too many levels" in page.read_text()


@pytest.mark.parametrize("inventory_too", [False, True])
async def test_a_tier_of_too_many_objects_for_one_process_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inventory_too: bool
) -> None:
    world = AuditedTier(tmp_path)
    await world.copy(0)
    await world.write()
    out, comma = tmp_path / "rows", tmp_path / "inventory.csv"
    comma.write_text("path,size,last_modified\na,1,0\nb,1,0\n")
    monkeypatch.setattr(here, "OBJECTS_MAX", 1)
    args = ["--tier", world.tier, "--engine", "local", "--out", out, "--format", "csv"]
    if inventory_too:
        args += ["--listing", comma]

    result = await asyncio.to_thread(run, tmp_path / "store.sqlite", "jobs", "audit", *args)

    refused(result, "--engine: expected spark, as the tier has more than 1 objects")
    assert not out.exists()


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--tier", "nowhere"], "expected a tier"),
        (["--tier", "dir:/does/not/exist"], "there is no such directory"),
        (["--tier", "memory:", "--older-than", "soon"], "--older-than"),
        (["--tier", "memory:", "--listed-at", "2026-01-01T00:00:00Z"], "--listing only"),
        (["--tier", "memory:", "--listing", "/does/not/exist"], "no such listing"),
        (
            ["--tier", "memory:", "--listing", "s3://b/list", "--engine", "local"],
            "--listing: expected a file with --engine local, got s3://b/list",
        ),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(
    tmp_path: Path, args: list[str], expected: str
) -> None:
    write(tmp_path / "store", orders)

    refused(run(tmp_path / "store", "jobs", "audit", *args), expected)

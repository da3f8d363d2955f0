"""`tierledger.records`: what is not there, not readable, or makes no sense."""

import asyncio
import shutil
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from tests.models.spark.rows import partition_of
from tests.models.spark.tier import BROKERS_TIER, consumed_rows, directly, records
from tests.models.storage.flipped_bits import flip
from tests.models.storage.stored_partitions import TIP
from tests.models.tiering import tier_trace
from tests.models.tiering.odd_segments import OddSegment, write_odd_tier
from tests.models.tiering.raw_batches import fields, raw_batch
from tierledger.events.errors import (
    CorruptRemoteData,
    InvalidArgument,
    RemoteResourceNotFound,
    StoreRefused,
)
from tierledger.pipeline.records.source import RecordsSource

TOPIC = "codec-none"
SEGMENT = tier_trace.segments_of(TOPIC, 0)[2].metadata
SEGMENT_ID = str(SEGMENT.remote_log_segment_id.id)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tier that may be damaged."""
    return Path(shutil.copytree(tier_trace.TREE, tmp_path / "tier"))


def log_of(tree: Path) -> Path:
    (found,) = tree.rglob(f"*{SEGMENT_ID}.log")
    return found


def damaged(tree: Path) -> str:
    """One bit of the segment's last batch is flipped."""
    flip(log_of(tree), -3, 4)
    return f"local-tiered:{tree}"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"colour": "red"}, "got 'colour'"),
        ({"store": "memory:"}, "got memory:"),
        ({"store": ""}, "expected the option store"),
        ({"tier": "memory:"}, "expected a tier that other processes can read"),
        ({"tier": ""}, "expected the option tier"),
        ({"tier": "ftp:"}, "expected a tier as"),
        ({"topic": ""}, "expected the option topic"),
        ({"partition": "-1"}, "for partition, got '-1'"),
        ({"startingOffset": "five"}, "for startingOffset, got 'five'"),
        ({"startingOffset": "5", "endingOffset": "4"}, "endingOffset from 5 up, got 4"),
        ({"startingOffset": "5", "startingTimestamp": "4"}, "got both"),
        ({"endingOffset": "5", "endingTimestamp": "4"}, "got both"),
        ({"isolation": "serializable"}, "read_uncommitted or read_committed"),
        ({"damaged": "ignore"}, "fail or skip for damaged"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(
    options: dict[str, str], message: str
) -> None:
    good = {"store": "sqlite:x", "tier": "dir:.", "topic": "orders"}

    with pytest.raises(InvalidArgument, match=message):
        RecordsSource(good | options).schema()


def test_options_of_the_tiers_client_are_told_to_nobody() -> None:
    options = {"store": "sqlite:x", "tier": "s3://b/p", "topic": "t", "tier.token": "secret"}
    source = RecordsSource(options)

    reader = source.reader(source.schema())

    assert "secret" not in repr(vars(reader))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"topic": "nobody"}, RemoteResourceNotFound, "no topic 'nobody'"),
        ({"topic": TOPIC, "partition": 7}, RemoteResourceNotFound, "no partition 7"),
        ({"topic": TOPIC, "startingOffset": 234}, InvalidArgument, "holds 0 to 232"),
        ({"topic": TOPIC, "cluster": "other"}, RemoteResourceNotFound, "'other' has no topic"),
        ({"topic": TOPIC, "tier": "dir:/not/there"}, StoreRefused, "no such directory"),
    ],
)
def test_what_is_not_there_is_named(
    store: str, options: dict[str, object], error: type[Exception], message: str
) -> None:
    tier = str(options.pop("tier", BROKERS_TIER))

    with pytest.raises(error, match=message):
        directly(store, tier, **options)


def test_a_partition_of_which_nothing_was_copied_has_no_rows(sqlite_url: str) -> None:
    asyncio.run(partition_of(sqlite_url, TIP, 0))

    assert directly(sqlite_url, BROKERS_TIER, topic=TIP.topic) == ([], 0)
    with pytest.raises(InvalidArgument, match="nothing of it is in the tier"):
        directly(sqlite_url, BROKERS_TIER, topic=TIP.topic, startingOffset=0)


def test_what_is_wrong_reaches_the_user(spark: SparkSession, store: str, tree: Path) -> None:
    with pytest.raises(AnalysisException, match="got 'colour'"):
        records(spark, store, BROKERS_TIER, topic=TOPIC, colour="red")
    with pytest.raises(PySparkException, match="no topic 'nobody'"):
        records(spark, store, BROKERS_TIER, topic="nobody").count()
    with pytest.raises(PySparkException, match=rf"CorruptRemoteData: log of .*{SEGMENT_ID}"):
        records(spark, store, damaged(tree), topic=TOPIC).count()


def test_a_damaged_segment_fails_by_its_name(store: str, tree: Path) -> None:
    with pytest.raises(CorruptRemoteData, match=SEGMENT_ID):
        directly(store, damaged(tree), topic=TOPIC)


def test_a_damaged_segment_can_be_set_aside_and_a_row_says_so(store: str, tree: Path) -> None:
    found, tasks = directly(store, damaged(tree), topic=TOPIC, damaged="skip")

    (bad,) = [row for row in found if row["damage"] is not None]
    assert tasks == 10
    assert (bad["partition"], bad["segment_id"], bad["key"]) == (0, SEGMENT_ID, None)
    assert "expected checksum" in bad["damage"]
    assert SEGMENT.start_offset < bad["offset"] <= SEGMENT.end_offset
    lost = range(bad["offset"], SEGMENT.end_offset + 1)
    assert bad["damaged_to"] == SEGMENT.end_offset
    nothing = {"damage": None, "damaged_to": None}
    good = [{**row, **nothing} for row in consumed_rows("read_uncommitted", TOPIC)]
    assert [row for row in found if row is not bad] == [
        row for row in good if row["partition"] == 1 or row["offset"] not in lost
    ]


def test_a_segment_that_is_missing_is_damage_too(store: str, tree: Path) -> None:
    log_of(tree).unlink()
    tier = f"local-tiered:{tree}"

    with pytest.raises(RemoteResourceNotFound, match=SEGMENT_ID):
        directly(store, tier, topic=TOPIC)
    found, _ = directly(store, tier, topic=TOPIC, damaged="skip")

    (bad,) = [row for row in found if row["damage"] is not None]
    assert bad["offset"] == SEGMENT.start_offset
    assert len(found) == len(consumed_rows("read_uncommitted", TOPIC)) - 45 + 1


async def undecodable(folder: Path) -> dict[str, str]:
    """A store and tier with offsets 0 to 9, of which 2 to 4 and 7 cannot be decoded."""
    bad = raw_batch(
        2, [fields(at) for at in range(3)], codec=2, compress=lambda _: b"\xff" * 20
    )
    odd = raw_batch(5, [fields(0), fields(1), fields(2)[:-1], fields(3), fields(4)])
    log = raw_batch(0, [fields(0), fields(1)]) + bad + odd
    store, tier = await write_odd_tier(folder, [OddSegment(0, 9, log)])
    return {"store": store, "tier": tier, "topic": TIP.topic}


def test_only_what_cannot_be_decoded_is_missing_and_a_row_says_from_where_to_where(
    tmp_path: Path,
) -> None:
    options = asyncio.run(undecodable(tmp_path))

    found, _ = directly(**options, damaged="skip")
    part, _ = directly(**options, damaged="skip", startingOffset=3, endingOffset=8)

    gaps = {row["offset"]: row["damaged_to"] for row in found if row["damage"]}
    assert gaps == {2: 4, 7: 7}
    assert [row["offset"] for row in found] == [0, 1, 2, 5, 6, 7, 8, 9]
    assert [(row["offset"], row["damaged_to"]) for row in part] == [
        (3, 4),
        (5, None),
        (6, None),
        (7, 7),
    ]
    with pytest.raises(CorruptRemoteData, match="offset 2 to 4 cannot be decoded"):
        directly(**options)


def test_a_headers_name_that_is_no_utf8_has_its_bytes_beside_it(tmp_path: Path) -> None:
    log = raw_batch(0, [fields(0, headers=[(b"caf\xe9", b"x")]), fields(1)])
    store, tier = asyncio.run(write_odd_tier(tmp_path, [OddSegment(0, 1, log)]))

    found, _ = directly(store, tier, topic=TIP.topic)

    assert [(row["headers"], row["header_names"]) for row in found] == [
        ([("caf\ufffd", b"x")], [b"caf\xe9"]),
        (None, None),
    ]


def test_who_sets_damage_aside_gets_the_column_that_says_so(store: str) -> None:
    source = RecordsSource(
        {"store": store, "tier": BROKERS_TIER, "topic": TOPIC, "damaged": "skip"}
    )
    schema = source.schema()

    with pytest.raises(InvalidArgument, match="expected the column damage"):
        source.reader(type(schema)([schema["key"]]))

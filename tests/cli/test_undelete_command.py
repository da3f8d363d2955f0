"""`undelete` refuses what makes no sense before it writes; the rest is on a stock broker."""

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest
from aiokafka.errors import (  # type: ignore[import-untyped] # It has no types.
    MessageSizeTooLargeError,
    ProducerFenced,
)

from tests.cli.test_trash_command import with_trash
from tests.models.cli.command_line import invoke, refused
from tests.models.storage.stored_partitions import TIP, StoredPartition, segment_id, updated
from tierledger.events.errors import Fenced, InvalidArgument
from tierledger.events.log_events import SegmentKept
from tierledger.events.partition.state import PartitionState
from tierledger.pipeline.undeletion import Deleted, _is_same, _named
from tierledger.storage.backends.memory import MemoryBackend
from tierledger.tiering.formats.records import Record


@pytest.fixture
def store(tmp_path: Path) -> tuple[str, ...]:
    return asyncio.run(with_trash(tmp_path / "ledger.sqlite"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["payments"], "payments"),
        ([TIP.topic, "8"], "has no partition 8: expected one of 3"),
        ([TIP.topic, "--from-offset", "500"], "nothing that was deleted of"),
        ([TIP.topic, "--from-offset", "5", "--to-offset", "5"], "expected more than"),
        ([TIP.topic, "--isolation", "dirty"], "expected one of read_committed"),
        ([TIP.topic, "--compression", "rar"], "expected one of none, gzip"),
    ],
)
def test_what_cannot_be_brought_back_is_refused(
    store: tuple[str, ...], tmp_path: Path, given: list[str], message: str
) -> None:
    tier = ("--tier", f"dir:{tmp_path}", "--kafka", "127.0.0.1:1")

    refused(invoke("undelete", *given, "--to", "back", *tier, *store), message)


async def kept(*numbers: int, gone: tuple[int, ...] = ()) -> PartitionState:
    """A partition of five segments of ten offsets, of which some are kept, and some gone."""
    partition = await StoredPartition.led(MemoryBackend())
    await partition.fill(range(5))
    for number in numbers:
        one = SegmentKept(segment_id(number), 9, 1, 7, 5, "")
        await partition.append([updated(number, 2), one])
    for number in gone:
        await partition.append([updated(number, 2), updated(number, 3)])
    return (await partition.reader().state()).state


def test_what_is_kept_is_planned_with_the_holes_in_it() -> None:
    state = asyncio.run(kept(0, 2, 3))

    whole = Deleted.of(state, None, None)
    part = Deleted.of(state, 25, 32)

    assert whole is not None
    assert part is not None
    assert (whole.first_offset, whole.end_offset, whole.segments) == (0, 40, 3)
    assert whole.holes == (), "segment 1 is there"
    assert [*whole.stretches(7)] == [(7, 40)]
    assert (part.first_offset, part.end_offset, part.segments, part.holes) == (25, 32, 2, ())
    assert Deleted.of(state, 10, 20) is None, "that one is not deleted"


def test_what_no_segment_has_is_left_out() -> None:
    deleted = Deleted.of(asyncio.run(kept(0, 2, 4, gone=(1, 3))), 5, None)

    assert deleted is not None
    assert deleted.holes == ((10, 19), (30, 39))
    assert [*deleted.stretches(5)] == [(5, 10), (20, 30), (40, 50)]
    assert [*deleted.stretches(15)] == [(20, 30), (40, 50)]
    assert [*deleted.stretches(25)] == [(25, 30), (40, 50)]
    assert [*deleted.stretches(50)] == []


def test_what_brokers_refuse_for_good_is_no_outage() -> None:
    with pytest.raises(Fenced, match="another run brings back new-0"), _named("new-0"):
        raise ProducerFenced
    with pytest.raises(InvalidArgument, match=r"max\.message\.bytes"), _named("new-0"):
        raise MessageSizeTooLargeError


def test_a_record_with_another_time_is_not_the_same() -> None:
    record = Record(0, 7, "CreateTime", 0, b"k", None, [("n", b"v")])
    copy = SimpleNamespace(key=b"k", value=None, timestamp=7, headers=(("n", b"v"),))

    assert _is_same(record, copy)
    assert not _is_same(record, SimpleNamespace(**{**vars(copy), "timestamp": 8}))

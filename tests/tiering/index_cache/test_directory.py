"""The directory of an index cache: whose files are whose, and what is in one."""

import os
import struct
from pathlib import Path

import google_crc32c
import pytest

from tests.models.tiering.index_storage import IndexStorage, names
from tests.models.tiering.tier_trace import segments_of
from tierledger.events.errors import CorruptRemoteData
from tierledger.events.identifiers import Uuid
from tierledger.tiering.index_cache.cache import RemoteIndexCache
from tierledger.tiering.index_cache.files import (
    CacheDirectory,
    CacheKey,
    RawIndexes,
    decode,
    encode,
)

FIRST, SECOND = segments_of("codec-none", 0)[:2]
ID = FIRST.metadata.remote_log_segment_id.id
KEY = CacheKey(ID, FIRST.metadata.start_offset)
RAW = RawIndexes(b"offsets.", b"times of 12.", b"")
HEADER = struct.Struct(">4sH16sq3I")


async def test_nothing_is_touched_that_is_not_named_like_our_own(tmp_path: Path) -> None:
    foreign = {
        f"{0:020}-{ID}.indexes",  # As in the three-object layout of a tier.
        f"007_{ID}.indexes",
        f"007_{ID}.indexes.0.tmp",
        f"0_{ID}.indexes.tmp",
        f"0_{ID}.indexes.0.tmp.gz",
        f"0_{ID}.log.0.deleted",
        f"-1_{ID}.indexes",
        f"0_{str(ID)[:-1]}.indexes",
        "x_y.indexes",
        ".indexes",
    }
    for name in foreign:
        (tmp_path / name).write_bytes(b"mine")
    (tmp_path / f"1_{ID}.indexes").mkdir()
    (tmp_path / f"1_{ID}.indexes.0.tmp").symlink_to(tmp_path / "x_y.indexes")
    before = names(tmp_path)

    async with RemoteIndexCache(tmp_path, IndexStorage()) as cache:
        assert cache.counts.entries == 0

    assert names(tmp_path) == before
    assert all((tmp_path / name).read_bytes() == b"mine" for name in foreign)
    assert (cache.counts.corrupt_files, cache.counts.files_removed_at_start) == (0, 0)


@pytest.mark.parametrize(
    ("leftovers", "number"),
    [([], 0), (["0.tmp"], 1), (["3.deleted"], 4), (["9.tmp", "41.tmp", "12.deleted"], 42)],
)
def test_no_file_gets_the_name_of_one_that_is_about_to_be_removed(
    tmp_path: Path, leftovers: list[str], number: int
) -> None:
    for leftover in leftovers:
        (tmp_path / f"{KEY.file_name}.{leftover}").write_bytes(b"half")
    (tmp_path / KEY.file_name).write_bytes(b"whole")
    files = CacheDirectory(tmp_path)

    found = files.open()

    assert len(found.leftovers) == len(leftovers)
    assert files.temporary(KEY).name == f"{KEY.file_name}.{number}.tmp"
    doomed = files.doom(KEY)
    assert doomed is not None
    assert doomed.name == f"{KEY.file_name}.{number + 1}.deleted"
    files.release()


def test_a_name_is_not_taken_by_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / f"{KEY.file_name}.5.tmp").symlink_to(tmp_path / "elsewhere")
    files = CacheDirectory(tmp_path)

    assert files.open().leftovers == []

    assert files.temporary(KEY).name == f"{KEY.file_name}.6.tmp"
    files.release()


@pytest.mark.parametrize("is_reversed", [False, True])
async def test_of_two_files_the_newer_one_stays(tmp_path: Path, *, is_reversed: bool) -> None:
    keys = [CacheKey(ID, offset) for offset in (0, 7)]
    older, newer = reversed(keys) if is_reversed else keys
    for time_ns, key in enumerate((older, newer), 10**18):
        path = tmp_path / key.file_name
        path.write_bytes(encode(key, RAW))
        os.utime(path, ns=(time_ns, time_ns))

    async with RemoteIndexCache(tmp_path, IndexStorage()) as cache:
        assert (cache.counts.entries, cache.counts.removals) == (1, 0)
        assert cache.counts.bytes == (tmp_path / newer.file_name).stat().st_size

    assert names(tmp_path) == {newer.file_name}


@pytest.mark.parametrize(
    "other", [KEY._replace(start_offset=1), KEY._replace(segment_id=Uuid(bytes(15) + b"\x01"))]
)
def test_a_sound_file_of_another_segment_or_offset_is_refused(other: CacheKey) -> None:
    data = encode(other, RAW)

    assert decode(other, data) == RAW
    with pytest.raises(CorruptRemoteData, match="expected that segment, got "):
        decode(KEY, data)


@pytest.mark.parametrize("lengths", [(8, 12, 1), (8, 11, 0), (0, 0, 0)])
def test_wrong_lengths_are_refused_despite_the_checksum(lengths: tuple[int, int, int]) -> None:
    magic, version, segment_id, start_offset, *_ = HEADER.unpack_from(encode(KEY, RAW))
    header = HEADER.pack(magic, version, segment_id, start_offset, *lengths)
    body = b"".join(RAW)
    crc = google_crc32c.value(header + body)

    with pytest.raises(CorruptRemoteData, match=r"expected \d+ bytes, got"):
        decode(KEY, header + struct.pack(">I", crc) + body)

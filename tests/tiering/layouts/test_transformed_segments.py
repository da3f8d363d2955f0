"""Segments that the plugin of the three-object layout itself compressed and encrypted."""

import base64
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import cramjam
import pytest

from tests.models.cli.command_line import invoke
from tests.models.spark.tier import directly
from tests.models.tiering import tier_trace
from tests.models.tiering.audited_tier import FINISHED, AuditedTier
from tests.models.tiering.segment_copies import whole_log
from tests.models.tiering.tier_trace import TieredSegment
from tierledger.cli.settings import TIER_KEYS_VARIABLE
from tierledger.events.errors import (
    CorruptRemoteData,
    InvalidArgument,
    RejectedError,
)
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.tiering.formats.index_type import ALL_INDEX_TYPES
from tierledger.tiering.layouts.manifest.chunks import ChunkIndex
from tierledger.tiering.layouts.tier_url import Layout, open_tier
from tierledger.tiering.objects.request_counts import RequestCounts
from tierledger.tiering.objects.stream import PIECE_BYTES
from tierledger.tiering.remote_storage_manager import RemoteStorageManager

GOLDEN = Path(__file__).parents[2] / "golden" / "three-objects"
"""Written by the plugin: `three/` below a folder for each way, in chunks of 4096 bytes."""

KEYS = f"first={GOLDEN / 'first.pem'},second={GOLDEN / 'second.pem'}"
WAYS = pytest.mark.parametrize("way", ["compressed", "encrypted", "both"])
CHUNK = 4096


def stored() -> list[TieredSegment]:
    """The segments that were written in each way."""
    codec_none = tier_trace.segments_of("codec-none", 0)[:1]
    return [*codec_none, *tier_trace.segments_of("payments-tx", 0)[:2]]


def opened(
    root: Path, keys: str = KEYS, counts: RequestCounts | None = None
) -> RemoteStorageManager:
    return open_tier(f"manifest:dir:{root / 'three'}", {"keys": keys}, counts=counts)


async def read(
    storage: RemoteStorageManager, metadata: RemoteLogSegmentMetadata, start: int, last: int
) -> bytes:
    pieces = [one async for one in storage.fetch_log_segment(metadata, start, last)]
    assert all(pieces)
    return b"".join(pieces)


@WAYS
async def test_what_the_plugin_wrote_is_read_as_it_was(way: str) -> None:
    storage = opened(GOLDEN / way)

    for segment in stored():
        assert await whole_log(storage, segment.metadata) == segment.log
        assert await storage.fetch_all_indexes(segment.metadata) == segment.indexes
        for kind in segment.indexes:
            assert await storage.fetch_index(segment.metadata, kind) == segment.indexes[kind]


@WAYS
async def test_a_part_of_a_log_is_read_by_its_chunks_alone(way: str) -> None:
    segment, counts = stored()[0], RequestCounts()
    storage, size = opened(GOLDEN / way, counts=counts), len(segment.log)
    await storage.fetch_all_indexes(segment.metadata)
    ends = (0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK - 1, 2 * CHUNK, size - 1, size + 9)

    for start in ends[:-1]:
        for last in ends:
            if last >= start:
                found = await read(storage, segment.metadata, start, last)
                assert found == segment.log[start : last + 1]
    before = counts.bytes_read
    await read(storage, segment.metadata, CHUNK + 5, CHUNK + 6)

    whole = sum(path.stat().st_size for path in log_of(GOLDEN / way))
    assert 0 < counts.bytes_read - before < whole / 2


def log_of(root: Path) -> list[Path]:
    return list(root.glob("three/codec-none-*/0/*.log"))


@pytest.mark.parametrize(
    ("keys", "error", "message"),
    [
        ("", RejectedError, "with the key 'first'; expected its PEM file .*, got none"),
        ("second=x", RejectedError, "with the key 'first'; .*, got 'second'"),
        ("first=/nowhere.pem", InvalidArgument, "key 'first': .* /nowhere.pem: No such file"),
        (f"first={Path(__file__)}", InvalidArgument, "'first': expected a private key in PEM"),
        (
            f"first={GOLDEN / 'second.pem'}",
            RejectedError,
            "another key than that of 'first' in .*second.pem",
        ),
        ("first", InvalidArgument, "ID=FILE,ID=FILE"),
        ("first=a,first=b", InvalidArgument, "each id once"),
    ],
)
async def test_a_key_that_is_missing_or_wrong_is_one_error_with_its_id(
    keys: str, error: type[Exception], message: str
) -> None:
    metadata = stored()[0].metadata

    with pytest.raises(error, match=message):
        await whole_log(opened(GOLDEN / "encrypted", keys), metadata)
    with pytest.raises(error, match=message):
        await opened(GOLDEN / "encrypted", keys).fetch_all_indexes(metadata)


async def test_without_encryption_no_key_is_needed() -> None:
    metadata = stored()[0].metadata

    assert await whole_log(opened(GOLDEN / "compressed", ""), metadata) == stored()[0].log


@pytest.fixture
def copy(tmp_path: Path) -> Callable[[str], Path]:
    """A tier that may be damaged."""
    return lambda way: Path(shutil.copytree(GOLDEN / way, tmp_path / way))


@WAYS
@pytest.mark.parametrize("suffix", ["log", "indexes"])
async def test_no_damaged_chunk_is_believed(
    way: str, suffix: str, copy: Callable[[str], Path]
) -> None:
    segment, root = stored()[0], copy(way)
    (path,) = root.glob(f"three/codec-none-*/0/*.{suffix}")
    before, wrong = path.read_bytes(), []
    if way == "compressed" and suffix == "indexes":
        return  # Stored as they are: their readers compare them with the log.

    for at in range(0, len(before), 1999 if suffix == "log" else 67):
        path.write_bytes(before[:at] + bytes((before[at] ^ 4,)) + before[at + 1 :])
        try:
            found: object = await whole_log(opened(root), segment.metadata)
            indexes = await opened(root).fetch_indexes(segment.metadata, ALL_INDEX_TYPES)
        except CorruptRemoteData:
            continue
        # Without encryption a chunk has no checksum, but its batches have.
        if way != "compressed" or indexes != segment.indexes:
            wrong.append((at, found))
    assert wrong == []


@pytest.mark.parametrize(
    "change",
    [
        {"chunkIndex": {"type": "other"}},
        {"chunkIndex": {"transformedChunks": "AAAA"}},
        {"chunkIndex": {"transformedChunks": "?"}},
        {"chunkIndex": {"transformedChunks": None}},
        {"chunkIndex": {"originalChunkSize": 0}},
        {"chunkIndex": {"originalChunkSize": 6000}},
        {"compression": "yes"},
        {"encryption": {"dataKey": "second:?", "aad": ""}},
        {"encryption": {"dataKey": 7, "aad": ""}},
        {"encryption": "x"},
    ],
)
async def test_a_manifest_of_other_transformations_is_none(
    change: dict[str, object], copy: Callable[[str], Path]
) -> None:
    root, segment = copy("both"), stored()[0]
    (path,) = root.glob("three/codec-none-*/0/*.rsm-manifest")
    manifest = json.loads(path.read_bytes())
    for name, value in change.items():
        known = manifest[name]
        both = isinstance(value, dict) and isinstance(known, dict)
        manifest[name] = {**known, **value} if both else value  # type: ignore[dict-item]
    path.write_text(json.dumps(manifest))

    with pytest.raises(CorruptRemoteData, match="rsm-manifest: expected a manifest"):
        await whole_log(opened(root), segment.metadata)


def packed(sizes: list[int], width: int) -> str:
    base = min(sizes[:-1], default=0)
    data = len(sizes).to_bytes(4, "big")
    if len(sizes) > 1:
        data += base.to_bytes(4, "big") + bytes((width,))
        data += b"".join((one - base).to_bytes(width, "big") for one in sizes[:-1])
    data += sizes[-1].to_bytes(4, "big")
    return base64.b64encode(bytes(cramjam.zstd.compress(data))).decode()


@pytest.mark.parametrize(("sizes", "width"), [([9], 0), ([300, 7], 1), ([300, 70_000, 1], 4)])
def test_sizes_of_chunks_are_unpacked_in_every_width(sizes: list[int], width: int) -> None:
    log_size = 100 * len(sizes) - 1
    index = ChunkIndex(
        {
            "type": "variable",
            "originalChunkSize": 100,
            "originalFileSize": log_size,
            "transformedChunks": packed(sizes, width),
        }
    )

    ((_, chunks),) = index.pieces("log", 0, log_size)
    assert [one.end - one.start for one in chunks] == sizes
    assert chunks[-1].last == log_size


def test_a_long_log_is_read_in_pieces_of_whole_chunks() -> None:
    chunk, count = 4 << 20, 300
    index = ChunkIndex(
        {
            "type": "fixed",
            "originalChunkSize": chunk,
            "originalFileSize": chunk * count - 5,
            "transformedChunkSize": chunk + 28,
            "finalTransformedChunkSize": chunk + 23,
        }
    )

    planned = list(index.pieces("log", chunk * 10 + 7, chunk * count - 5))

    assert all(piece.end - piece.start <= PIECE_BYTES for piece, _ in planned)
    assert planned[0][0].start == 10 * (chunk + 28)
    assert planned[-1][0].end == index.object_size == (chunk + 28) * (count - 1) + chunk + 23
    chunks = [one for _, some in planned for one in some]
    assert [one.first for one in chunks] == [chunk * at for at in range(10, count)]


@pytest.fixture
async def world(tmp_path: Path) -> AuditedTier:
    """A store with one finished segment, which the plugin compressed and encrypted."""
    world = AuditedTier(tmp_path, Layout.MANIFEST)
    metadata = world.segments[0].metadata
    for state in (RemoteLogSegmentState.COPY_SEGMENT_STARTED, FINISHED):
        world.note(metadata, state)
    await world.write()
    (written,) = (GOLDEN / "both" / "three").glob("codec-none-*")
    shutil.copytree(written, world.root / written.name)
    return world


def test_commands_read_encrypted_segments_with_the_keys_of_the_environment(
    world: AuditedTier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ["--store", world.url, "--tier", world.tier]
    cat = ["cat", "codec-none", 0, *asked, "--cache", tmp_path / "cache"]

    audit = invoke("jobs", "audit", *asked, "--engine", "local")
    refused, unread = invoke(*cat), invoke("scrub", *asked)
    monkeypatch.setenv(TIER_KEYS_VARIABLE, KEYS)
    read, scrub = invoke(*cat), invoke("scrub", *asked)

    assert (read.exit_code, scrub.exit_code, audit.exit_code) == (0, 0, 0), scrub.output
    assert len(read.stdout.splitlines()) == 45
    assert refused.exit_code == 2
    assert "encrypted with the key 'second'" in refused.stderr
    assert unread.exit_code == 4
    assert "encrypted with the key 'second'" in unread.output


def test_spark_reads_encrypted_segments_with_the_keys_of_its_options(
    world: AuditedTier,
) -> None:
    found, _ = directly(world.url, world.tier, topic="codec-none", **{"tier.keys": KEYS})

    assert len(found) == 45
    with pytest.raises(RejectedError, match="encrypted with the key 'second'"):
        directly(world.url, world.tier, topic="codec-none", damaged="skip")

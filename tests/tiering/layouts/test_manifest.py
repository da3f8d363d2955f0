"""Reading the three-object layout: prefixes, custom metadata, what is refused and noticed."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.tiering.segment_copies import manifest_objects, whole_log
from tests.models.tiering.tier_trace import TieredSegment, segments
from tierledger.events.errors import (
    CorruptRemoteData,
    DataError,
    FormatTooNew,
    RemoteResourceNotFound,
)
from tierledger.events.identifiers import Uuid
from tierledger.events.kafka.primitives import compact_string, tag_section
from tierledger.events.metadata import CustomMetadata
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.layouts.manifest.format import (
    StoredObjects,
    decode_custom_metadata,
    decode_manifest,
)
from tierledger.tiering.layouts.manifest.layout import ManifestStorageManager
from tierledger.tiering.layouts.tier_url import open_tier
from tierledger.tiering.objects.request_counts import Operation, RequestCounts

SEGMENT = next(one for one in segments() if len(one.indexes) == 5)

REMOTE_SIZE = (0, b"\xc8\x01")  # 100, as Kafka's varlong.


def laid_out(root: Path, *, prefix: str = "", **other: object) -> Callable[[str], Path]:
    """Write the sample's objects below `root`; gives the path of the one with a suffix."""
    paths = {}
    for name, content in manifest_objects(SEGMENT, prefix, **other).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        paths[name.rpartition(".")[2]] = path
    return lambda suffix: paths[suffix]


def opened(root: Path, counts: RequestCounts | None = None) -> ManifestStorageManager:
    storage = open_tier(f"manifest:dir:{root}", counts=counts)
    assert isinstance(storage, ManifestStorageManager)
    return storage


def custom(*fields: tuple[int, bytes]) -> CustomMetadata:
    return CustomMetadata(tag_section(fields) if fields else b"")


def with_custom(metadata: CustomMetadata | None) -> TieredSegment:
    return SEGMENT._replace(metadata=SEGMENT.metadata.create_with_custom_metadata(metadata))


async def test_each_operation_alone_fetches_the_manifest_and_one_more(tmp_path: Path) -> None:
    laid_out(tmp_path)

    for expected, ask in [
        (SEGMENT.indexes, ManifestStorageManager.fetch_all_indexes),
        (SEGMENT.log, whole_log),
        (
            SEGMENT.indexes[IndexType.TIMESTAMP],
            lambda storage, metadata: storage.fetch_index(metadata, IndexType.TIMESTAMP),
        ),
    ]:
        counts = RequestCounts()
        storage = opened(tmp_path, counts)
        assert await ask(storage, SEGMENT.metadata) == expected
        assert counts.total() == 2
        assert await ask(storage, SEGMENT.metadata) == expected
        assert counts.total() == 3


async def test_a_log_that_is_not_compressed_as_its_manifest_says_is_damage(
    tmp_path: Path,
) -> None:
    laid_out(tmp_path, compression=True)
    storage = opened(tmp_path)

    with pytest.raises(CorruptRemoteData, match=r"\.log at 0: expected 4096 bytes .* in zstd"):
        await whole_log(storage, SEGMENT.metadata)
    assert await storage.fetch_all_indexes(SEGMENT.metadata) == SEGMENT.indexes


async def test_an_encryption_of_null_is_none(tmp_path: Path) -> None:
    path = laid_out(tmp_path)("rsm-manifest")
    manifest = {**json.loads(path.read_bytes()), "encryption": None}
    path.write_text(json.dumps(manifest))

    assert await whole_log(opened(tmp_path), SEGMENT.metadata) == SEGMENT.log


async def test_an_unnamed_transaction_index_is_none(tmp_path: Path) -> None:
    path = laid_out(tmp_path)("rsm-manifest")
    manifest = json.loads(path.read_bytes())
    del manifest["segmentIndexes"]["transaction"]
    path.write_text(json.dumps(manifest))

    with pytest.raises(RemoteResourceNotFound, match="has no TRANSACTION index"):
        await opened(tmp_path).fetch_index(SEGMENT.metadata, IndexType.TRANSACTION)


async def test_another_version_of_the_manifest_is_refused(tmp_path: Path) -> None:
    laid_out(tmp_path, version="2")

    with pytest.raises(FormatTooNew, match="expected manifest version 1, found 2"):
        await whole_log(opened(tmp_path), SEGMENT.metadata)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b'{"version":"1"}', b"\xff\xfe", b'"1"', b'{"version":["1"]}'],
)
async def test_a_damaged_manifest_is_noticed(content: bytes, tmp_path: Path) -> None:
    laid_out(tmp_path)("rsm-manifest").write_bytes(content)

    with pytest.raises(DataError, match="rsm-manifest: expected"):
        await whole_log(opened(tmp_path), SEGMENT.metadata)


async def test_a_log_of_another_size_is_noticed(tmp_path: Path) -> None:
    laid_out(tmp_path, chunkIndex={"type": "fixed", "originalFileSize": 7})

    with pytest.raises(CorruptRemoteData, match=r"expected a log of \d+ bytes, found 7"):
        await whole_log(opened(tmp_path), SEGMENT.metadata)


@pytest.mark.parametrize("which", ["topic", "partition", "segment"])
async def test_the_manifest_of_another_segment_is_noticed(which: str, tmp_path: Path) -> None:
    path = laid_out(tmp_path)("rsm-manifest")
    manifest = json.loads(path.read_bytes())
    named = manifest["remoteLogSegmentMetadata"]["remoteLogSegmentId"]
    other: str | int = str(Uuid(b"of another place"))
    if which == "topic":
        named["topicIdPartition"]["topicId"] = other
    elif which == "partition":
        other = named["topicIdPartition"]["topicPartition"]["partition"] = 77
    else:
        named["id"] = other
    path.write_text(json.dumps(manifest))
    ours = SEGMENT.metadata.remote_log_segment_id.id

    for ask in (
        opened(tmp_path).fetch_all_indexes(SEGMENT.metadata),
        whole_log(opened(tmp_path), SEGMENT.metadata),
    ):
        with pytest.raises(CorruptRemoteData, match=rf"manifest: .*{ours}, found .*{other}"):
            await ask


@pytest.mark.parametrize("left", [None, {}, {"remoteLogSegmentId": None}])
async def test_a_manifest_need_not_say_whose_it_is(left: object, tmp_path: Path) -> None:
    laid_out(tmp_path, remoteLogSegmentMetadata=left)

    assert await whole_log(opened(tmp_path), SEGMENT.metadata) == SEGMENT.log


@pytest.mark.parametrize("suffix", ["log", "indexes"])
async def test_a_truncated_object_is_never_short_data(suffix: str, tmp_path: Path) -> None:
    path = laid_out(tmp_path)(suffix)
    path.write_bytes(path.read_bytes()[:-3])
    counts = RequestCounts()
    storage = opened(tmp_path, counts)

    if suffix == "log":
        with pytest.raises(CorruptRemoteData, match=r"\.log: expected"):
            await whole_log(storage, SEGMENT.metadata)
        assert counts.corrupt == {Operation.FETCH_LOG: 1}
        return
    with pytest.raises(CorruptRemoteData, match=r"\.indexes: expected"):
        await storage.fetch_all_indexes(SEGMENT.metadata)
    with pytest.raises(CorruptRemoteData, match=r"\.indexes: expected"):
        await storage.fetch_index(SEGMENT.metadata, IndexType.TRANSACTION)
    assert counts.corrupt == {Operation.FETCH_INDEXES: 2}


async def test_a_recorded_prefix_and_key_win_over_what_is_derived(tmp_path: Path) -> None:
    laid_out(tmp_path, prefix="old/")
    prefix = (1, compact_string("old/", "a prefix"))
    storage = opened(tmp_path)

    with pytest.raises(RemoteResourceNotFound):
        await whole_log(storage, SEGMENT.metadata)
    moved = with_custom(custom(REMOTE_SIZE, prefix))
    assert await whole_log(storage, moved.metadata) == SEGMENT.log

    for name, content in manifest_objects(SEGMENT).items():
        (tmp_path / f"else-where.{name.rpartition('.')[2]}").write_bytes(content)
    key = (2, compact_string("where", "a key"))
    moved = with_custom(custom((1, compact_string("else-", "a prefix")), key))
    storage = opened(tmp_path)
    assert await storage.fetch_all_indexes(moved.metadata) == SEGMENT.indexes


@pytest.mark.parametrize("nothing", [None, custom(), custom(REMOTE_SIZE)])
async def test_custom_metadata_without_a_place_leaves_it_derived(
    nothing: CustomMetadata | None, tmp_path: Path
) -> None:
    laid_out(tmp_path)

    assert await whole_log(opened(tmp_path), with_custom(nothing).metadata) == SEGMENT.log


def test_custom_metadata_has_the_size_that_the_plugin_gives_it() -> None:
    # Its own tests say 11 bytes for a size of 100 and a key of three letters.
    written = custom(REMOTE_SIZE, (2, compact_string("foo", "a key")))

    assert len(written.value) == 11
    assert decode_custom_metadata(written, "here") == StoredObjects(None, "foo", 100)


@pytest.mark.parametrize(
    "value", [b"\x01", b"\x01\x01\x05ab", b"\x00\x00", b"\x01\x01\x01\x00"]
)
def test_other_custom_metadata_is_refused(value: bytes) -> None:
    with pytest.raises(CorruptRemoteData, match=value.hex()):
        decode_custom_metadata(CustomMetadata(value), "here")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["version", "chunkIndex", "segmentIndexes", "compression", "offset"]
                ),
                inner,
                max_size=5,
            )
        ),
        max_leaves=12,
    )
)
def test_no_other_json_is_taken_for_a_manifest(value: object) -> None:
    with pytest.raises(DataError):
        decode_manifest(json.dumps(value).encode(), "here")

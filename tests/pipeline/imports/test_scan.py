"""Whose a record is: what the scan says is what the codec says, of any bytes."""

from hypothesis import given
from hypothesis import strategies as st

from tests.models.storage.stored_partitions import TRACES
from tierledger.conformance.trace import read_records
from tierledger.events.errors import MetadataParseError
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.kafka.codec import encode, peek_partition
from tierledger.events.kafka.seal import is_seal
from tierledger.events.lifecycle import RemotePartitionDeleteState
from tierledger.events.metadata import RemotePartitionDeleteMetadata
from tierledger.pipeline.imports.scan import RECORD, ScannedRecord, ScanRows

RECORDED = [record.value or b"" for record in read_records(TRACES / "one-broker")][:20]
MARKED = RemotePartitionDeleteState.DELETE_PARTITION_MARKED
ENCODED = st.builds(
    lambda name, id_, number: encode(
        RemotePartitionDeleteMetadata(TopicIdPartition(Uuid(id_), number, name), MARKED, 5, 1)
    ),
    st.text(st.characters(codec="utf-8"), max_size=140),
    st.binary(min_size=16, max_size=16),
    st.integers(0, 3),
)


def respelled(value: bytes) -> bytes:
    """The same record, its frame version in two bytes where one would do."""
    return bytes([value[0] | 0x80, 0]) + value[1:]


@st.composite
def spoiled(draw: st.DrawFn) -> bytes:
    """A recorded value with a byte changed near its beginning, or cut there."""
    value = bytearray(draw(st.sampled_from(RECORDED)))
    at = draw(st.integers(0, 48))
    if draw(st.booleans()):
        return bytes(value[:at])
    value[at] = draw(st.integers(0, 255))
    return bytes(value)


def whose(value: bytes) -> tuple[bytes, int] | None:
    try:
        tip = peek_partition(value)
    except MetadataParseError:
        return None
    return bytes(tip.topic_id), tip.partition


@given(
    st.lists(
        st.one_of(
            ENCODED,
            ENCODED.map(respelled),
            spoiled(),
            st.sampled_from(RECORDED),
            st.binary(max_size=60),
        )
    )
)
def test_the_scan_says_whose_a_record_is_as_the_codec_does(values: list[bytes]) -> None:
    records = [value for value in values if not is_seal(value)]  # A seal is no record.
    rows = ScanRows()
    # Twice: what the first look remembers is what the second goes by.
    for offset, value in enumerate(values + values):
        rows.add(ScannedRecord(0, offset, 5, value))

    found = [row for row in rows.taken().to_pylist() if row["kind"] == RECORD]
    owners = [(row["topic_id"], row["partition"]) if row["topic_id"] else None for row in found]
    assert owners == [whose(value) for value in records + records]
    assert all((row["reason"] is None) == (row["topic_id"] is not None) for row in found)

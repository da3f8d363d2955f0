"""A checkpoint with right checksums and wrong fields is none, and the log is read instead."""

import zlib
from collections.abc import Callable
from typing import Any

import pytest

from tests.models.actors.harness import SERDE
from tests.models.storage.stored_partitions import StoredPartition, finished
from tierledger.events.errors import CorruptCheckpoint
from tierledger.storage.partition.checkpoint import CheckpointStore, PartitionValue

HEAD = PartitionValue._fields.index("head")
SESSION, REQUESTS, COUNTS = 1, 3, 8


def field(at: int, value: object) -> Callable[[list[Any]], None]:
    def change(fields: list[Any]) -> None:
        fields[at] = value

    return change


def of_head(at: int, value: object) -> Callable[[list[Any]], None]:
    def change(fields: list[Any]) -> None:
        fields[HEAD][at] = value

    return change


WRONG = {
    "next_position, got 5.0": field(4, 5.0),
    "next_batch, got None": field(5, None),
    "topic, got 5": field(2, 5),
    "chain_hash, got 1": field(6, b"x"),
    "expected 12 fields": field(HEAD, [1]),
    "log_time_ms, got 1.5": of_head(0, 1.5),
    "for session": of_head(SESSION, [1, 1, 1, 1, 1, None, None]),
    "session[7], got 1": of_head(SESSION, [1, 1, 1, 1, 1, None, None, 1]),
    "requests[0][1]": of_head(REQUESTS, [[1, [["text", 5]]]]),
    "count_by_state[2], got -1": of_head(COUNTS, [0, 0, -1]),
    "epochs[0]": field(9, [[0]]),
    "for tombstones": field(11, None),
}


async def stored() -> StoredPartition:
    partition = await StoredPartition.led()
    await partition.append(finished(0))
    await partition.checkpoint()
    return partition


@pytest.mark.parametrize("complaint", WRONG)
async def test_a_partitions_value_of_wrong_fields_is_left_for_the_log(complaint: str) -> None:
    partition = await stored()
    key = partition.keys.partition(partition.tip)
    fields = SERDE.deserialize("partition", partition.values[key])
    WRONG[complaint](fields)
    changed = partition.values[key] = SERDE.serialize("partition", fields)

    checkpoints = CheckpointStore(partition.backend, partition.keys, SERDE, partition.tip)
    with pytest.raises(CorruptCheckpoint) as caught:
        checkpoints.parse_partition(changed)
    reader = partition.reader()
    state, _ = await reader.state()

    assert complaint in str(caught.value)
    assert state.digest() == partition.state.digest()
    assert [note for note in reader.notes if complaint in note]


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ([0.0, None, 0, []], "epoch, got 0.0"),
        ([0, "9", 0, []], "highest, got '9'"),
        ([0, None, 0], "expected 4 fields"),
        ([0, None, 0, []], "without"),
        ([0, None, 0, [["referenced", [[0, 0, 1]]]]], "directories"),
    ],
)
async def test_a_leader_epochs_value_of_wrong_fields_is_refused(
    fields: list[Any], complaint: str
) -> None:
    partition = await stored()
    value = SERDE.serialize("epoch", fields)
    partition.values[partition.keys.leader_epoch(partition.tip, 0)] = value
    checkpoints = CheckpointStore(partition.backend, partition.keys, SERDE, partition.tip)

    with pytest.raises(CorruptCheckpoint) as caught:
        await checkpoints.read_epochs([(0, zlib.crc32(value))])

    assert complaint in str(caught.value)

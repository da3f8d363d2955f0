"""The partitioner agrees with Kafka's on what Kafka's own class answered."""

import pytest

from tierledger.events.errors import InvalidArgument
from tierledger.events.identifiers import Uuid
from tierledger.events.kafka.metadata_partition import metadata_partition

ANSWERS = [
    ("Bp9TDduJRGa9Q5rlvCJOxg", 3, [1, 1, 0, 0]),
    ("Bp9TDduJRGa9Q5rlvCJOxg", 5, [2, 2, 2, 4]),
    ("Bp9TDduJRGa9Q5rlvCJOxg", 50, [47, 37, 12, 24]),
    ("AQIDBAUGBwgJCgsMDQ4PEA", 3, [1, 0, 1, 2]),
    ("AQIDBAUGBwgJCgsMDQ4PEA", 5, [3, 1, 4, 2]),
    ("AQIDBAUGBwgJCgsMDQ4PEA", 50, [13, 41, 44, 37]),
]


@pytest.mark.parametrize(("topic_id", "count", "expected"), ANSWERS)
def test_a_partition_is_kept_where_kafka_keeps_it(
    topic_id: str, count: int, expected: list[int]
) -> None:
    parsed = Uuid.parse(topic_id)

    found = [metadata_partition(parsed, number, partition_count=count) for number in range(4)]

    assert found == expected


def test_a_topic_without_partitions_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="got 0"):
        metadata_partition(Uuid(bytes(16)), 0, partition_count=0)

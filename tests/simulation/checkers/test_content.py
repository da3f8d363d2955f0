"""Values have the same text in messages and in violations."""

from typing import Any

import pytest

from tierledger.actors.calls import PartitionKey
from tierledger.events.commands import Claim
from tierledger.events.log_events import Event, SegmentUpdated
from tierledger.simulation.checkers.content import (
    SHOWN_MAX,
    content,
    first_difference,
    partition_of,
)

TOPIC = bytes(15) + b"\x09"
KEY, OTHER = PartitionKey(TOPIC, 3), PartitionKey(TOPIC, 4)
UPDATED = SegmentUpdated(b"s" * 16, 1, 1, 10, None)
EVENT = Event(5, 1, 0, 1, b"1.1.2", UPDATED)


@pytest.mark.parametrize(
    ("found", "expected", "told"),
    [
        ([EVENT], [EVENT._replace(body=UPDATED._replace(event_timestamp_ms=11))],
         "body.event_timestamp_ms 10; expected 11"),
        ([], [Claim(1, 1, 2)],
         "nothing; expected Claim(broker_id=1, incarnation=1, announcement=2)"),
        ([1, 2], [1], "2; expected nothing"),
        ({"a": 1, "b": None}, {"a": 1, "b": 9}, "of b None; expected 9"),
        ({"a": 1}, {}, "of a 1; expected nothing"),
        ({"a": None}, {}, "of a None; expected nothing"),
        ((7, [1, 2, 3]), (7, [1, 4, 3]), "2; expected 4"),
        ("NotReady", [EVENT.position], "NotReady; expected [5]"),
    ],
)  # fmt: skip
def test_of_two_values_the_first_difference_is_told(
    found: Any,  # noqa: ANN401 - Any two values.
    expected: Any,  # noqa: ANN401
    told: str,
) -> None:
    assert first_difference(found, expected) == told


def test_a_long_difference_says_that_it_goes_on() -> None:
    assert first_difference("x" * (SHOWN_MAX + 1), "y") == f"{'x' * SHOWN_MAX}...; expected y"


def test_an_announcement_reads_in_messages_as_it_does_in_what_checkers_say() -> None:
    claim = Claim(2, 1, 3)

    assert content((claim,)) == f"{claim}"


@pytest.mark.parametrize(
    ("args", "partition"),
    [((KEY, 1), 3), (([KEY], (KEY,)), 3), ((KEY, OTHER), None), ((1, "x"), None)],
)
def test_a_message_is_about_a_partition_if_it_names_one(
    args: tuple[Any, ...], partition: int | None
) -> None:
    assert partition_of(args) == partition

"""Which closed segments stay local on purpose, as in Kafka 4.4's copy task."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tierledger.events.errors import InvalidArgument
from tierledger.tiering.copying.copy_lag import CopyLag
from tierledger.tiering.local.log import LocalSegment

NOW_MS = 10_000


def closed(*segments: tuple[int, int]) -> list[LocalSegment]:
    """Segments by the time of the newest record and by size; the last one is active."""
    return [
        LocalSegment(10 * at, 10 * at + 10, size, latest_ms, Path(f"{at}.log"))
        for at, (latest_ms, size) in enumerate(segments)
    ]


THREE = closed((9_000, 100), (9_500, 10), (9_900, 1))


@pytest.mark.parametrize(
    ("lag", "due"),
    [
        (CopyLag(), 2),
        (CopyLag(0, 10**9), 2),
        (CopyLag(10**9, 0), 2),
        (CopyLag(500), 2),
        (CopyLag(501), 1),
        (CopyLag(1000), 1),
        (CopyLag(1001), 0),
        (CopyLag(-1, 1), 2),
        (CopyLag(-1, 2), 1),
        (CopyLag(-1, 11), 1),
        (CopyLag(-1, 12), 0),
        (CopyLag(1000, 1), 2),
        (CopyLag(1001, 11), 1),
        (CopyLag(-1, -1), 0),
    ],
)
def test_a_segment_goes_once_its_age_or_the_bytes_behind_reach_a_limit(
    lag: CopyLag, due: int
) -> None:
    assert lag.due(THREE, 2, NOW_MS) == due


def test_a_segment_that_stays_keeps_those_behind_it() -> None:
    segments = closed((9_000, 1), (9_900, 1), (9_000, 1), (9_900, 1))

    assert CopyLag(1000).due(segments, 3, NOW_MS) == 1


def test_a_record_from_the_future_is_old_enough() -> None:
    assert CopyLag(1000).due(closed((NOW_MS + 1, 1), (NOW_MS, 1)), 1, NOW_MS) == 1
    assert CopyLag(1000).due(closed((NOW_MS, 1), (NOW_MS, 1)), 1, NOW_MS) == 0


@pytest.mark.parametrize(
    ("config", "lag"),
    [
        ({}, (0, -1)),
        ({"retention.ms": "5", "local.retention.ms": "4"}, (0, -1)),
        ({"remote.copy.lag.ms": "3", "remote.copy.lag.bytes": "7"}, (3, 7)),
        ({"remote.copy.lag.ms": "-1", "local.retention.ms": "4", "retention.ms": "5"}, (4, -1)),
        (
            {"remote.copy.lag.ms": "-1", "local.retention.ms": "-2", "retention.ms": "5"},
            (5, -1),
        ),
        ({"remote.copy.lag.ms": "-1", "local.retention.ms": "-1"}, (-1, -1)),
        ({"remote.copy.lag.ms": "-1"}, (604_800_000, -1)),
        ({"retention.bytes": "9"}, (0, 9)),
        ({"local.retention.bytes": "0"}, (0, 0)),
    ],
)
def test_minus_one_is_what_local_retention_is(
    config: Mapping[str, str], lag: tuple[int, int]
) -> None:
    assert CopyLag.of_topic(config) == lag


@pytest.mark.parametrize("value", ["-2", "1d", "", "1.5"])
def test_values_that_kafka_refuses_are_refused(value: str) -> None:
    with pytest.raises(InvalidArgument, match=r"remote\.copy\.lag\.ms: expected -1 or more"):
        CopyLag.of_topic({"remote.copy.lag.ms": value})

"""Counts of the tier's tasks, as scraped and as documented."""

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.house.test_documents import document, table
from tests.models.tiering.planned_faults import When
from tests.models.tiering.retention_world import (
    DELETING,
    NOW_MS,
    SIZE,
    STARTED,
    TIP,
    RetentionWorld,
)
from tierledger.events.errors import NotReady, PartitionDeleted
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.lifecycle import RemotePartitionDeleteState
from tierledger.events.metadata import RemotePartitionDeleteMetadata
from tierledger.events.partition.answers import PartitionSummary
from tierledger.tiering.broker_version import BrokerVersion
from tierledger.tiering.metrics.metered_metadata import MeteredMetadata
from tierledger.tiering.metrics.tier_metrics import (
    CLOCK_JUMPS,
    COPY_BYTES,
    COPY_LAG_BYTES,
    FETCH_ERRORS,
    METADATA_COUNT,
    PARTITION,
    PARTITION_SIZE_BYTES,
    SIZE_BYTES,
    TIER_METRICS,
    TierMetrics,
)

OTHER = TopicIdPartition(TIP.topic_id, 4, TIP.topic)
FORMER = TopicIdPartition(Uuid(bytes(16)), 3, TIP.topic)
"""A partition of an older topic of that name."""
ELSEWHERE = TopicIdPartition(Uuid(b"\x01" * 16), 0, "payments")
OF_THE_BROKER = {(CLOCK_JUMPS.name, ()): 0}
"""Samples that exist without any partition."""


def scraped(metrics: TierMetrics) -> dict[tuple[str, tuple[str, ...]], float]:
    """All samples, by name and labels; two alike would make a scrape fail."""
    found: dict[tuple[str, tuple[str, ...]], float] = {}
    text = generate_latest(metrics.registry).decode()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            names = [one for one in PARTITION if one in sample.labels]
            key = sample.name, tuple(sample.labels[one] for one in names)
            assert key not in found, f"twice: {key}"
            found[key] = sample.value
    return found


def sized(segments: int, size: int) -> PartitionSummary:
    """The summary of a partition with so many finished segments."""
    return PartitionSummary((0, segments, 0), (0, size, 0), (), None)


def test_from_4_3_on_a_size_leaves_out_what_is_being_copied() -> None:
    summary = PartitionSummary((2, 3, 1), (100, 30, 7), (0,), None)
    for minor, size in ((2, 137), (3, 37)):
        metrics = TierMetrics(BrokerVersion(4, minor))
        metrics.set_size(TIP, summary)

        found = scraped(metrics)
        assert found[SIZE_BYTES.name, ("orders",)] == size
        assert found[METADATA_COUNT.name, ("orders",)] == 6


def test_a_topics_size_is_the_sum_of_its_partitions() -> None:
    metrics = TierMetrics()
    for tip, segments, size in (
        (TIP, 2, 10),
        (OTHER, 3, 100),
        (FORMER, 1, 1),
        (ELSEWHERE, 1, 7),
    ):
        metrics.set_size(tip, sized(segments, size))

    found = scraped(metrics)

    assert found[SIZE_BYTES.name, ("orders",)] == 111
    assert found[SIZE_BYTES.name, ("payments",)] == 7
    assert found[METADATA_COUNT.name, ("orders",)] == 6
    assert found[PARTITION_SIZE_BYTES.name, ("orders", str(TIP.topic_id), "3")] == 10
    assert found[PARTITION_SIZE_BYTES.name, ("orders", str(FORMER.topic_id), "3")] == 1


def test_what_a_partition_sets_replaces_what_it_set_before() -> None:
    metrics = TierMetrics()
    metrics.set(COPY_LAG_BYTES, TIP, 5)
    metrics.set(COPY_LAG_BYTES, OTHER, 1)
    metrics.set(COPY_LAG_BYTES, TIP, 2)

    assert scraped(metrics)[COPY_LAG_BYTES.name, ("orders",)] == 3


def test_a_topics_counter_is_of_all_its_partitions() -> None:
    metrics = TierMetrics()
    metrics.count(COPY_BYTES, TIP, 100)
    metrics.count(COPY_BYTES, OTHER, 10)
    metrics.count(FETCH_ERRORS, ELSEWHERE)

    found = scraped(metrics)

    assert found[COPY_BYTES.name, ("orders",)] == 110
    assert found[FETCH_ERRORS.name, ("payments",)] == 1
    assert (FETCH_ERRORS.name, ("orders",)) not in found


def test_a_partition_that_goes_takes_its_share_and_the_last_one_the_topics_series() -> None:
    metrics = TierMetrics()
    for tip, size in ((TIP, 10), (OTHER, 100), (ELSEWHERE, 7)):
        metrics.set_size(tip, sized(1, size))
        metrics.count(COPY_BYTES, tip, size)

    metrics.forget(TIP)
    metrics.forget(TIP)
    after_one = scraped(metrics)
    metrics.forget(OTHER)
    after_both = scraped(metrics)

    assert after_one[SIZE_BYTES.name, ("orders",)] == 100
    assert after_one[COPY_BYTES.name, ("orders",)] == 110  # What was copied was copied.
    assert {labels[0] for _, labels in after_both if labels} == {"payments"}


def test_what_is_of_the_broker_stays_when_all_partitions_go() -> None:
    metrics = TierMetrics()
    metrics.set_size(TIP, sized(1, 10))
    metrics.count(CLOCK_JUMPS, None)
    metrics.forget(TIP)

    assert scraped(metrics) == {(CLOCK_JUMPS.name, ()): 1}
    assert metrics.value(CLOCK_JUMPS, TIP) == 1


def test_every_metric_is_told_of_before_it_has_a_value() -> None:
    text = generate_latest(TierMetrics().registry).decode()

    missing = [one.name for one in TIER_METRICS if one.help not in text]

    assert not missing
    assert scraped(TierMetrics()) == OF_THE_BROKER


async def test_a_question_for_the_size_renews_the_gauges() -> None:
    world = RetentionWorld({0: 0, 1: 50}, end=400)
    metered = MeteredMetadata(world.store, world.metrics)
    await world.add(0, 99, {0: 0, 1: 50})
    await world.add(100, 199, {1: 100}, state=STARTED)
    await world.add(200, 299, {1: 200}, state=DELETING)

    size = await metered.remote_log_size(TIP, 0)

    assert size == SIZE  # Of that epoch; the gauge is of all.
    found = scraped(world.metrics)
    assert found[SIZE_BYTES.name, ("orders",)] == 2 * SIZE  # Without what is being copied.
    assert found[METADATA_COUNT.name, ("orders",)] == 3


async def test_an_answer_is_given_though_the_gauge_could_not_be_renewed() -> None:
    world = RetentionWorld(end=100)
    await world.add(0, 99, {0: 0})
    world.faults.fail_next("partition_summary", When.BEFORE, NotReady("a moment"))

    size = await MeteredMetadata(world.store, world.metrics).remote_log_size(TIP, 0)

    assert size == SIZE
    assert scraped(world.metrics) == OF_THE_BROKER


async def test_the_series_of_a_deleted_partition_end_with_the_question_that_finds_out() -> None:
    world = RetentionWorld(end=100)
    metered = MeteredMetadata(world.store, world.metrics)
    for state in RemotePartitionDeleteState:
        deletion = RemotePartitionDeleteMetadata(TIP, state, NOW_MS, 1)
        await metered.put_remote_partition_delete_metadata(deletion)

    for ask in (
        lambda: metered.remote_log_size(TIP, 0),
        lambda: metered.partition_summary(TIP),
    ):
        world.metrics.set_size(TIP, sized(1, SIZE))
        with pytest.raises(PartitionDeleted):
            await ask()
        assert scraped(world.metrics) == OF_THE_BROKER


async def test_whatever_else_is_asked_is_passed_on() -> None:
    world = RetentionWorld(end=200)
    metered = MeteredMetadata(world.store, world.metrics)
    segment = await world.add(0, 99, {0: 0})

    assert await metered.remote_log_segment_metadata(TIP, 0, 50) == segment
    assert await metered.highest_offset_for_epoch(TIP, 0) == 99
    assert await metered.next_segment_with_txn_index(TIP, 0, 0) == segment
    assert [one async for one in metered.list_remote_log_segments(TIP, 0)] == [segment]


async def test_a_task_works_on_metered_metadata_as_on_any() -> None:
    world = RetentionWorld(end=200)
    await world.add(0, 99, {0: 0}, age_ms=1)
    deletions = world.deletions()
    deletions.store = MeteredMetadata(deletions.store, world.metrics)

    result = await world.task_with(deletions, retention_ms=1).run_once()

    assert len(result.deleted) == 1
    assert world.left() == []


def test_the_documented_metrics_are_those_that_are_exposed() -> None:
    assert table(document("docs/metrics.md"), "tier metric") == [
        [one.name, "counter" if one.is_counter else "gauge", ", ".join(one.labels), one.help]
        for one in TIER_METRICS
    ]

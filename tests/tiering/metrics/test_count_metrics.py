"""Counts of index caches and storage managers: as they are scraped, and as documented."""

from dataclasses import fields
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.house.test_documents import document, table
from tests.models.tiering.index_storage import IndexStorage
from tests.models.tiering.tier_trace import segments_of
from tierledger.tiering.index_cache.cache import RemoteIndexCache
from tierledger.tiering.index_cache.counts import IndexCacheCounts
from tierledger.tiering.metrics.count_metrics import (
    INDEX_CACHE_METRICS,
    REQUEST_METRICS,
    TierCountMetrics,
)
from tierledger.tiering.metrics.tier_metrics import TierMetrics
from tierledger.tiering.objects.request_counts import Operation, RequestCounts, RequestKind

EXPOSED = (*INDEX_CACHE_METRICS.values(), *REQUEST_METRICS.values())
FIRST, SECOND = segments_of("codec-none", 0)[:2]
CACHE = "tierledger_index_cache_"
TIER = "tierledger_tier_"


def scraped(metrics: TierMetrics) -> dict[tuple[str, ...], float]:
    """All samples of ours, by name and labels."""
    text = generate_latest(metrics.registry).decode()
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith((CACHE, TIER))
    }


async def test_a_cache_is_read_when_somebody_scrapes(tmp_path: Path) -> None:
    metrics = TierMetrics()
    async with RemoteIndexCache(tmp_path, IndexStorage(FIRST, SECOND)) as cache:
        TierCountMetrics(metrics.registry).add_index_cache(cache.counts)
        before = scraped(metrics)
        for segment in (FIRST, FIRST, SECOND):
            await cache.get(segment.metadata)
        cache.remove([SECOND.metadata.remote_log_segment_id])
        after = scraped(metrics)

    assert set(before.values()) == {0}
    assert len(before) == len(fields(IndexCacheCounts))
    assert {name: value for (name,), value in after.items() if value} == {
        f"{CACHE}hits_total": 1,
        f"{CACHE}misses_total": 2,
        f"{CACHE}loads_total": 2,
        f"{CACHE}removals_total": 1,
        f"{CACHE}entries": 1,
        f"{CACHE}bytes": cache.counts.bytes,
    }


def test_requests_are_told_by_what_they_were_for() -> None:
    metrics = TierMetrics()
    counts = RequestCounts()
    TierCountMetrics(metrics.registry).add_storage(counts)
    counts.requests[Operation.COPY, RequestKind.PUT] += 3
    counts.requests[Operation.DELETE, RequestKind.LIST] += 1
    counts.failures[Operation.COPY, RequestKind.PUT] += 1
    counts.bytes_written += 700

    assert scraped(metrics) == {
        (f"{TIER}requests_total", "copy_log_segment_data", "put"): 3,
        (f"{TIER}requests_total", "delete_log_segment_data", "list"): 1,
        (f"{TIER}request_failures_total", "copy_log_segment_data", "put"): 1,
        (f"{TIER}bytes_written_total",): 700,
        (f"{TIER}bytes_read_total",): 0,
    }


def test_several_of_a_kind_are_summed_up_and_what_they_share_counts_once() -> None:
    metrics = TierMetrics()
    counted = TierCountMetrics(metrics.registry)
    for hits in (1, 10):
        counted.add_index_cache(IndexCacheCounts(hits=hits))
    shared, other = RequestCounts(), RequestCounts()
    for counts in (shared, other):
        counts.requests[Operation.COPY, RequestKind.PUT] += 5
    for counts in (shared, shared, other):
        counted.add_storage(counts)

    found = scraped(metrics)

    assert found[f"{CACHE}hits_total",] == 11
    assert found[f"{TIER}requests_total", "copy_log_segment_data", "put"] == 10


def test_what_was_never_added_is_told_of_and_has_no_series() -> None:
    metrics = TierMetrics()
    TierCountMetrics(metrics.registry)

    text = generate_latest(metrics.registry).decode()

    assert not [one.name for one in EXPOSED if one.help not in text]
    assert scraped(metrics) == {}


def test_counts_are_exposed_once() -> None:
    metrics = TierMetrics()
    TierCountMetrics(metrics.registry)

    with pytest.raises(ValueError, match="Duplicated"):
        TierCountMetrics(metrics.registry)


def test_everything_that_is_counted_is_exposed() -> None:
    """A new field takes one line in a table of metrics, and one in the documentation."""
    assert list(INDEX_CACHE_METRICS) == [one.name for one in fields(IndexCacheCounts)]
    assert sorted(REQUEST_METRICS) == sorted(vars(RequestCounts()))


def test_what_has_labels_is_what_is_counted_by_something() -> None:
    by_something = {
        name for name, value in vars(RequestCounts()).items() if not isinstance(value, int)
    }

    assert {name for name, one in REQUEST_METRICS.items() if one.labels} == by_something


def test_the_documented_counts_are_those_that_are_exposed() -> None:
    assert table(document("docs/metrics.md"), "tier count") == [
        [one.name, "counter" if one.is_counter else "gauge", ", ".join(one.labels), one.help]
        for one in EXPOSED
    ]

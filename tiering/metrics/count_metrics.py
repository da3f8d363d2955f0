"""The counters of index caches and storage managers as Prometheus metrics.

A scrape reads the counters; the code that counts does not know of Prometheus.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector
from typing_extensions import override

from tierledger.tiering.index_cache.counts import IndexCacheCounts
from tierledger.tiering.metrics.tier_metrics import BROKER, TierMetric
from tierledger.tiering.objects.request_counts import RequestCounts

BY_OPERATION = ("operation",)
BY_REQUEST = ("operation", "request")


def _cache(name: str, text: str) -> TierMetric:
    return TierMetric(f"tierledger_index_cache_{name}", text, BROKER)


def _tier(name: str, text: str, labels: tuple[str, ...] = BROKER) -> TierMetric:
    return TierMetric(f"tierledger_tier_{name}", text, labels)


INDEX_CACHE_METRICS: Final = {
    "hits": _cache("hits_total", "Indexes that were in memory."),
    "misses": _cache("misses_total", "Indexes that had to be waited for."),
    "file_hits": _cache("file_hits_total", "Indexes that came from the cache's files."),
    "loads": _cache("loads_total", "Indexes that came from the tier."),
    "load_failures": _cache("load_failures_total", "Indexes that could not be loaded."),
    "evictions": _cache("evictions_total", "Segments evicted for others."),
    "removals": _cache("removals_total", "Segments dropped because they were deleted."),
    "distrusted": _cache(
        "distrusted_total", "Segments dropped because their indexes did not match the log."
    ),
    "corrupt_files": _cache("corrupt_files_total", "Damaged files of the cache."),
    "corrupt_downloads": _cache("corrupt_downloads_total", "Damaged indexes from the tier."),
    "empty_offset_indexes": _cache(
        "empty_offset_indexes_total", "Offset indexes without entries that should have some."
    ),
    "file_errors": _cache("file_errors_total", "Failed operations on the cache's files."),
    "files_removed_at_start": _cache(
        "files_removed_at_start_total", "Files left over by a process that ended too early."
    ),
    "refusals": _cache("refusals_total", "Times that the cache's directory was unusable."),
    "entries": _cache("entries", "Segments that the cache holds."),
    "bytes": _cache("bytes", "Bytes that the cache holds."),
}
"""The metric of each field of `IndexCacheCounts`."""

REQUEST_METRICS: Final = {
    "requests": _tier("requests_total", "Requests to the store of the tier.", BY_REQUEST),
    "failures": _tier("request_failures_total", "Requests that failed.", BY_REQUEST),
    "corrupt": _tier(
        "corrupt_total",
        "Operations that found an object that differs from what was copied.",
        BY_OPERATION,
    ),
    "bytes_read": _tier("bytes_read_total", "Bytes that came from the store of the tier."),
    "bytes_written": _tier("bytes_written_total", "Bytes sent to the store of the tier."),
}
"""The metric of each field of `RequestCounts`; fields that are counters by key have labels."""


class TierCountMetrics(Collector):
    """The summed counts of a broker's index caches, and those of its storage managers.

    Without an added cache or manager, its metrics have no series. Thread-safe.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register with `registry`, usually that of `TierMetrics`.

        Raises:
            ValueError: `registry` has such metrics already.
        """
        self._caches: list[IndexCacheCounts] = []
        self._requests: list[RequestCounts] = []
        registry.register(self)

    def add_index_cache(self, counts: IndexCacheCounts) -> None:
        """Expose the counts of one more cache from now on."""
        self._caches.append(counts)

    def add_storage(self, counts: RequestCounts) -> None:
        """Expose the counts of one more storage manager; shared counts are added only once."""
        if all(one is not counts for one in self._requests):
            self._requests.append(counts)

    @override
    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """All metrics with their present values."""
        yield from _families(INDEX_CACHE_METRICS, tuple(self._caches))
        yield from _families(REQUEST_METRICS, tuple(self._requests))

    def describe(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """All metrics without samples, from which a registry takes their names."""
        yield from _families(INDEX_CACHE_METRICS, ())
        yield from _families(REQUEST_METRICS, ())


def _families(
    metrics: Mapping[str, TierMetric], counted: Sequence[IndexCacheCounts | RequestCounts]
) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
    for field, metric in metrics.items():
        kind = CounterMetricFamily if metric.is_counter else GaugeMetricFamily
        family = kind(metric.name, metric.help, labels=metric.labels)
        sums: dict[tuple[str, ...], int] = {}
        for counts in counted:
            for labels, count in _samples(getattr(counts, field)):
                sums[labels] = sums.get(labels, 0) + count
        for labels, total in sorted(sums.items()):
            family.add_metric(labels, total)
        yield family


def _samples(value: int | Mapping[object, int]) -> Iterator[tuple[tuple[str, ...], int]]:
    if isinstance(value, int):
        yield (), value
        return
    for key, count in dict(value).items():  # A copy, since counting goes on meanwhile.
        parts = key if isinstance(key, tuple) else (key,)
        yield tuple(str(part) for part in parts), count

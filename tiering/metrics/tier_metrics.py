"""Metrics of the tier's tasks for Prometheus, under Kafka's names.

Kafka's metrics are by topic: sums over the topic's partitions on this broker. If a partition
leaves the broker, its share of the gauges is removed. With a topic's last partition the topic's
counters are removed; they begin at 0 when it returns, as Prometheus expects of counters.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector
from typing_extensions import override

from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.partition.answers import PartitionSummary
from tierledger.tiering.broker_version import NEWEST, BrokerVersion

TOPIC = ("topic",)
PARTITION = ("topic", "topic_id", "partition")
BROKER = ()
"""Labels of metrics of the whole broker; such a counter exists from the start, at 0."""


class TierMetric(NamedTuple):
    """One metric: exposed name, help text and labels."""

    name: str
    help: str
    labels: tuple[str, ...] = TOPIC

    @property
    def is_counter(self) -> bool:
        return self.name.endswith("_total")


def _kafka(name: str, text: str) -> TierMetric:
    return TierMetric(f"kafka_server_BrokerTopicMetrics_{name}", text)


SIZE_BYTES = TierMetric(
    "kafka_log_remote_BrokerTopicMetrics_RemoteLogSizeBytes",
    "Bytes of all segments in the tier, each once (KIP-852); from Kafka 4.3 on without "
    "those that are being copied.",
)
PARTITION_SIZE_BYTES = TierMetric(
    "tierledger_remote_log_size_bytes",
    "Bytes of all segments of the partition in the tier, each once; from Kafka 4.3 on "
    "without those that are being copied.",
    PARTITION,
)
METADATA_COUNT = _kafka("RemoteLogMetadataCount", "Segments in the tier, in any state.")
SIZE_COMPUTATION_MS = _kafka(
    "RemoteLogSizeComputationTime",
    "Milliseconds that the last computation of the size for retention.bytes took.",
)
COPY_REQUESTS = _kafka("RemoteCopyRequestsPerSec_total", "Copies of a segment that began.")
COPY_BYTES = _kafka("RemoteCopyBytesPerSec_total", "Bytes of logs that were copied.")
COPY_ERRORS = _kafka("RemoteCopyErrorsPerSec_total", "Copies of a segment that failed.")
COPY_LAG_BYTES = _kafka(
    "RemoteCopyLagBytes",
    "Bytes of closed segments that are not copied yet; as in Kafka, also of those that stay "
    "local on purpose.",
)
COPY_LAG_SEGMENTS = _kafka(
    "RemoteCopyLagSegments",
    "Closed segments that are not copied yet; as in Kafka, also those that stay local on "
    "purpose.",
)
KEPT_LOCAL_BYTES = TierMetric(
    "tierledger_remote_copy_kept_local_bytes",
    "Bytes of segments that remote.copy.lag.ms and remote.copy.lag.bytes keep local.",
)
KEPT_LOCAL_SEGMENTS = TierMetric(
    "tierledger_remote_copy_kept_local_segments",
    "Segments that remote.copy.lag.ms and remote.copy.lag.bytes keep local on purpose.",
)
DELETE_REQUESTS = _kafka(
    "RemoteDeleteRequestsPerSec_total", "Deletions of a segment that began."
)
DELETE_ERRORS = _kafka("RemoteDeleteErrorsPerSec_total", "Deletions of a segment that failed.")
DELETE_LAG_BYTES = _kafka(
    "RemoteDeleteLagBytes", "Bytes of segments that are due for deletion and not deleted yet."
)
DELETE_LAG_SEGMENTS = _kafka(
    "RemoteDeleteLagSegments", "Segments that are due for deletion and not deleted yet."
)
FETCH_REQUESTS = _kafka("RemoteFetchRequestsPerSec_total", "Reads of a segment that began.")
FETCH_BYTES = _kafka("RemoteFetchBytesPerSec_total", "Bytes of logs that were read.")
FETCH_ERRORS = _kafka("RemoteFetchErrorsPerSec_total", "Reads of a segment that failed.")
AUX_STATE_REQUESTS = _kafka(
    "BuildRemoteLogAuxStateRequestsPerSec_total",
    "Times a follower began to rebuild its state from the tier.",
)
AUX_STATE_ERRORS = _kafka(
    "BuildRemoteLogAuxStateErrorsPerSec_total",
    "Times a follower failed to rebuild its state from the tier.",
)
CLOCK_JUMPS = TierMetric(
    "tierledger_clock_jumps_total",
    "Times that the wall clock jumped ahead by more than a minute; retention "
    "follows it slowly.",
    BROKER,
)

TIER_METRICS = (
    SIZE_BYTES,
    PARTITION_SIZE_BYTES,
    METADATA_COUNT,
    SIZE_COMPUTATION_MS,
    COPY_REQUESTS,
    COPY_BYTES,
    COPY_ERRORS,
    COPY_LAG_BYTES,
    COPY_LAG_SEGMENTS,
    KEPT_LOCAL_BYTES,
    KEPT_LOCAL_SEGMENTS,
    DELETE_REQUESTS,
    DELETE_ERRORS,
    DELETE_LAG_BYTES,
    DELETE_LAG_SEGMENTS,
    FETCH_REQUESTS,
    FETCH_BYTES,
    FETCH_ERRORS,
    AUX_STATE_REQUESTS,
    AUX_STATE_ERRORS,
    CLOCK_JUMPS,
)
"""All exposed metrics, in this order."""


class TierMetrics(Collector):
    """The metrics of one broker's tier, in a registry of their own.

    Thread-safe: a scrape reads in one thread while the tasks count in another.
    """

    def __init__(self, broker: BrokerVersion = NEWEST) -> None:
        """`broker`: the version of Kafka whose metrics these are."""
        self.broker = broker
        self.registry = CollectorRegistry()
        self._lock = threading.Lock()
        self._known: set[TopicIdPartition] = set()
        self._counts: dict[TierMetric, defaultdict[str, int]] = {
            metric: defaultdict(int) for metric in TIER_METRICS if metric.is_counter
        }
        self._counts[CLOCK_JUMPS][""] = 0
        self._values: dict[TierMetric, dict[TopicIdPartition, int]] = {
            metric: {} for metric in TIER_METRICS if not metric.is_counter
        }
        self.registry.register(self)

    def count(
        self,
        counter: TierMetric,
        topic_id_partition: TopicIdPartition | None,
        amount: int = 1,
    ) -> None:
        """Add `amount` to a counter of the partition's topic; for none, of the whole broker."""
        with self._lock:
            if topic_id_partition is None:
                self._counts[counter][""] += amount
                return
            self._known.add(topic_id_partition)
            self._counts[counter][topic_id_partition.topic] += amount

    def set(self, gauge: TierMetric, topic_id_partition: TopicIdPartition, value: int) -> None:
        """Set the partition's share of a gauge."""
        with self._lock:
            self._known.add(topic_id_partition)
            self._values[gauge][topic_id_partition] = value

    def set_size(self, topic_id_partition: TopicIdPartition, summary: PartitionSummary) -> None:
        """Set the partition's size in the tier: segments in any state, and their bytes.

        From Kafka 4.3 on, the bytes leave out segments that are being copied.
        """
        size = sum(summary.bytes_by_state)
        if self.broker.sizes_leave_out_copies:
            size -= summary.bytes_by_state[RemoteLogSegmentState.COPY_SEGMENT_STARTED]
        self.set(METADATA_COUNT, topic_id_partition, sum(summary.count_by_state))
        self.set(SIZE_BYTES, topic_id_partition, size)
        self.set(PARTITION_SIZE_BYTES, topic_id_partition, size)

    def value(self, metric: TierMetric, topic_id_partition: TopicIdPartition) -> int:
        """The partition's share of a gauge, or its topic's counter; 0 if there is none.

        For a counter of the whole broker the partition does not matter.
        """
        with self._lock:
            if metric.is_counter:
                topic = topic_id_partition.topic if metric.labels else ""
                return self._counts[metric].get(topic, 0)
            return self._values[metric].get(topic_id_partition, 0)

    def forget(self, topic_id_partition: TopicIdPartition) -> None:
        """Drop the series of a partition that this broker no longer leads, or a deleted one."""
        with self._lock:
            self._known.discard(topic_id_partition)
            for values in self._values.values():
                values.pop(topic_id_partition, None)
            topic = topic_id_partition.topic
            if all(known.topic != topic for known in self._known):
                for counts in self._counts.values():
                    counts.pop(topic, None)

    @override
    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """All metrics. Those without samples are included for their help texts."""
        with self._lock:
            families = [self._family(metric) for metric in TIER_METRICS]
        yield from families

    def _family(self, metric: TierMetric) -> CounterMetricFamily | GaugeMetricFamily:
        if metric.is_counter:
            counter = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
            for topic, count in sorted(self._counts[metric].items()):
                counter.add_metric((topic,)[: len(metric.labels)], count)
            return counter
        gauge = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
        sums: defaultdict[tuple[str, ...], int] = defaultdict(int)
        for one, value in self._values[metric].items():
            named = (one.topic, str(one.topic_id), str(one.partition))
            sums[named[: len(metric.labels)]] += value
        for labels, total in sorted(sums.items()):
            gauge.add_metric(labels, total)
        return gauge

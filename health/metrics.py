"""A service's status as Prometheus metrics. Pure: from a `ServiceStatus` to metric families.

Every scrape gets a new status. A value that is not known now is absent, and never that of an
earlier scrape. A counter belongs to a host's process and begins at 0 with the next process, as
Prometheus' functions for counters expect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from tierledger.health.status import QUARANTINED, HostStatus, PartitionStatus, ServiceStatus
from tierledger.health.troubles import KINDS, Trouble, troubles_of

SERIES_PARTITIONS_MAX = 1000
"""Most partitions that have series of their own; with more there are only the totals."""

HOST = ("host",)
TROUBLE = ("code", "severity")
PARTITION = ("topic", "topic_id", "partition", "host")


class Metric(NamedTuple):
    """One metric: its exposed name, its labels and its help text."""

    name: str
    labels: tuple[str, ...]
    help: str

    @property
    def is_counter(self) -> bool:
        return self.name.endswith("_total")


METRICS = (
    Metric("tierledger_coordinator_up", (), "1 if the coordinator answered within 2 s."),
    Metric("tierledger_coordinator_position", (), "Last position of the coordinator's log."),
    Metric("tierledger_known_partitions", (), "Partitions that the coordinator knows."),
    Metric(
        "tierledger_set_aside_items",
        (),
        "Items that the coordinator set aside because they cannot be carried out; "
        "`tierledger status` shows the reasons.",
    ),
    Metric(
        "tierledger_broker_incarnation",
        ("broker",),
        "Number of the broker's last registration.",
    ),
    Metric(
        "tierledger_trouble",
        TROUBLE,
        "Troubles with this code that `tierledger status` lists; 0 for all other codes.",
    ),
    Metric(
        "tierledger_trouble_since_seconds",
        TROUBLE,
        "When the oldest trouble with this code began, in seconds since 1970, if known.",
    ),
    Metric("tierledger_host_up", HOST, "1 if the host answered within 2 s."),
    Metric("tierledger_host_leaders", HOST, "Leaders that run on the host."),
    Metric("tierledger_host_followers", HOST, "Followers that run on the host."),
    Metric(
        "tierledger_host_commits_total",
        HOST,
        "Commits to the store that the host's process began.",
    ),
    Metric(
        "tierledger_host_batches_total",
        HOST,
        "Batches of events in the commits that the host's process began; a batch is of "
        "one partition.",
    ),
    Metric(
        "tierledger_host_alarms_total",
        ("host", "kind"),
        "Alarms that the host's process raised.",
    ),
    Metric(
        "tierledger_host_inbox_calls_max", HOST, "Calls that wait in the host's fullest inbox."
    ),
    Metric("tierledger_host_feeds", HOST, "Partitions whose replicas the host feeds."),
    Metric("tierledger_host_fed_replicas", HOST, "Replicas that the host feeds."),
    Metric(
        "tierledger_host_feed_lag_events_max",
        HOST,
        "Events by which the slowest replica is behind, among fed replicas with a "
        "complete snapshot.",
    ),
    Metric(
        "tierledger_host_feed_snapshots",
        HOST,
        "Snapshots that the host is sending to replicas.",
    ),
    Metric(
        "tierledger_host_feed_snapshots_waiting",
        HOST,
        "Snapshots for replicas that wait for their turn.",
    ),
    Metric(
        "tierledger_host_feed_overtaken_total",
        HOST,
        "Times that a replica fell too far behind and got a new snapshot.",
    ),
    Metric("tierledger_served_partitions", (), "Partitions that a host leads or follows."),
    Metric("tierledger_led_partitions", (), "Partitions whose leader runs on a host."),
    Metric("tierledger_led_events", (), "Events in the logs of led partitions."),
    Metric("tierledger_open_sessions", (), "Partitions whose log has an open session."),
    Metric("tierledger_disputes", (), "Disputed sessions in the logs of served partitions."),
    Metric(
        "tierledger_quarantined_partitions",
        (),
        "Partitions whose log does not verify, or one of whose steps failed.",
    ),
    Metric(
        "tierledger_troubled_partitions",
        ("trouble",),
        "Partitions in trouble, by the worst trouble of each.",
    ),
    Metric(
        "tierledger_follower_lag_events_max",
        (),
        "Events by which the slowest follower is behind its leader.",
    ),
    Metric(
        "tierledger_partition_position",
        (*PARTITION, "role"),
        "Last position that a leader or follower has applied.",
    ),
    Metric(
        "tierledger_follower_lag_events",
        PARTITION,
        "Events by which a follower is behind its leader.",
    ),
    Metric(
        "kafka_log_remote_BrokerTopicMetrics_RemoteLogSizeBytes",
        ("topic",),
        "Bytes of all segments of led partitions, in any state, each once (KIP-852).",
    ),
    Metric(
        "tierledger_remote_log_size_bytes",
        ("topic", "topic_id", "partition"),
        "Bytes of all segments of the led partition, in any state, each once.",
    ),
    Metric(
        "tierledger_partitions_without_series",
        (),
        "Partitions without metrics of their own, because there are too many partitions.",
    ),
)
"""All exposed metrics, in this order."""

Sample = tuple[tuple[str, ...], float]
"""Values of the labels, and the metric's value."""


def families(
    status: ServiceStatus, partitions_max: int = SERIES_PARTITIONS_MAX
) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
    """The metrics of a service, including those without samples, for their help texts.

    With more than `partitions_max` partitions none has series of its own, and
    `tierledger_partitions_without_series` is their number.
    """
    count = len(status.partitions)
    shown = status.partitions if count <= partitions_max else []
    samples: dict[str, Iterable[Sample]] = {
        **_of_coordinator(status),
        **_of_troubles(troubles_of(status)),
        **_of_hosts(status.hosts),
        **_of_totals(status),
        **_of_partitions(shown),
        "kafka_log_remote_BrokerTopicMetrics_RemoteLogSizeBytes": _topic_sizes(status),
        "tierledger_partitions_without_series": [((), count - len(shown))],
    }
    for metric in METRICS:
        family: CounterMetricFamily | GaugeMetricFamily
        if metric.is_counter:
            family = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
        else:
            family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
        for labels, value in samples.pop(metric.name):
            family.add_metric(labels, value)
        yield family
    assert not samples, f"not in METRICS: {sorted(samples)}"


_FEEDS = {
    "tierledger_host_feeds": "open",
    "tierledger_host_fed_replicas": "replicas",
    "tierledger_host_feed_lag_events_max": "lag_events_max",
    "tierledger_host_feed_snapshots": "snapshots",
    "tierledger_host_feed_snapshots_waiting": "snapshots_waiting",
    "tierledger_host_feed_overtaken_total": "overtaken",
}
"""Metric to the name of the count in `HostStatus.feeds`."""


def _of_coordinator(status: ServiceStatus) -> dict[str, Iterable[Sample]]:
    known = status.coordinator
    return {
        "tierledger_coordinator_up": [((), known is not None)],
        "tierledger_coordinator_position": [] if known is None else [((), known["position"])],
        "tierledger_set_aside_items": [] if known is None else [((), known["set_aside"])],
        "tierledger_known_partitions": [] if known is None else [((), known["partitions"])],
        "tierledger_broker_incarnation": [
            ((str(broker),), known["incarnation"]) for broker, known in status.brokers.items()
        ],
    }


def _of_troubles(troubles: list[Trouble]) -> dict[str, Iterable[Sample]]:
    counts = Counter(one.code for one in troubles)
    known = [one for one in troubles if one.since_ms is not None]
    since = {
        code: min(one.since_ms or 0 for one in known if one.code == code)
        for code in {one.code for one in known}
    }
    kinds = [((code, str(kind.severity)), code) for code, kind in KINDS.items()]
    return {
        "tierledger_trouble": [(labels, counts[code]) for labels, code in kinds],
        "tierledger_trouble_since_seconds": [
            (labels, since[code] / 1000) for labels, code in kinds if code in since
        ],
    }


def _of_hosts(hosts: list[HostStatus]) -> dict[str, Iterable[Sample]]:
    def counted(field: str) -> list[Sample]:
        values = [(one.name, getattr(one, field)) for one in hosts]
        return [((name,), value) for name, value in values if value is not None]

    return {
        "tierledger_host_up": [((one.name,), one.is_up) for one in hosts],
        "tierledger_host_leaders": counted("leaders"),
        "tierledger_host_followers": counted("followers"),
        "tierledger_host_commits_total": counted("commits"),
        "tierledger_host_batches_total": counted("batches"),
        "tierledger_host_alarms_total": [
            ((one.name, kind), count)
            for one in hosts
            for kind, count in sorted(one.alarms.items())
        ],
        "tierledger_host_inbox_calls_max": counted("waiting_max"),
        **{
            metric: [((one.name,), one.feeds[count]) for one in hosts if count in one.feeds]
            for metric, count in _FEEDS.items()
        },
    }


def _of_totals(status: ServiceStatus) -> dict[str, Iterable[Sample]]:
    if status.coordinator is None:  # The totals are not known, so they are not 0.
        names = [one.name for one in METRICS if one.name in _TOTALS]
        return {**dict.fromkeys(names, ()), "tierledger_troubled_partitions": ()}
    totals = status.totals()
    leaders = [one.leader for one in status.partitions if one.leader is not None]
    troubles: dict[str, int] = totals["troubles"]
    quarantined = troubles[QUARANTINED]
    values = (
        totals["partitions_served"],
        totals["partitions_led"],
        sum(one.position + 1 for one in leaders),
        totals["sessions_open"],
        totals["disputes"],
        quarantined,
        totals["lag_events_max"],
    )
    return {
        **{name: [((), value)] for name, value in zip(_TOTALS, values, strict=True)},
        "tierledger_troubled_partitions": [
            ((trouble,), count) for trouble, count in troubles.items()
        ],
    }


_TOTALS = (
    "tierledger_served_partitions",
    "tierledger_led_partitions",
    "tierledger_led_events",
    "tierledger_open_sessions",
    "tierledger_disputes",
    "tierledger_quarantined_partitions",
    "tierledger_follower_lag_events_max",
)


def _topic_sizes(status: ServiceStatus) -> list[Sample]:
    sizes: dict[str, int] = {}
    for one in status.partitions:
        if one.leader is not None:
            sizes[one.topic] = sizes.get(one.topic, 0) + one.leader.remote_log_bytes
    return [((topic,), size) for topic, size in sorted(sizes.items())]


def _of_partitions(partitions: list[PartitionStatus]) -> dict[str, Iterable[Sample]]:
    positions: list[Sample] = []
    lags: list[Sample] = []
    sizes: list[Sample] = []
    for one in partitions:
        identity = (one.topic, one.topic_id, str(one.partition))
        if one.leader is not None:
            led = (*identity, one.leader.host, "leader")
            positions.append((led, one.leader.position))
            sizes.append((identity, one.leader.remote_log_bytes))
        for follower in one.followers:
            labels = (*identity, follower.host)
            positions.append(((*labels, "follower"), follower.position))
            if follower.lag_events is not None:
                lags.append((labels, follower.lag_events))
    return {
        "tierledger_partition_position": positions,
        "tierledger_follower_lag_events": lags,
        "tierledger_remote_log_size_bytes": sizes,
    }

"""A service's status as Prometheus metrics. Pure: from a `ServiceStatus` to metric families.

Every scrape gets a new status. A value that is not known now is absent, and never that of an
earlier scrape. A counter belongs to a host's process and begins at 0 with the next process, as
Prometheus' functions for counters expect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)

from tierledger.actors.coordinator.events import Owner
from tierledger.health.status import (
    QUARANTINED,
    PartitionStatus,
    ServedStatus,
    ServiceStatus,
)
from tierledger.health.troubles import KINDS, Trouble, troubles_of
from tierledger.tiering.broker_version import NEWEST, BrokerVersion

SERIES_PARTITIONS_MAX = 1000
"""Most partitions that have series of their own; with more there are only the totals."""

HOST = ("host",)
BROKER = ("broker",)
TROUBLE = ("code", "severity")
STORE_TIMES = "tierledger_host_store_seconds"
DOOR_TIMES = "tierledger_host_door_seconds"
PARTITION = ("topic", "topic_id", "partition", "host")


Family: TypeAlias = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily


class Metric(NamedTuple):
    """One metric: its exposed name, its labels and its help text."""

    name: str
    labels: tuple[str, ...]
    help: str

    @property
    def kind(self) -> str:
        """Its type for Prometheus."""
        if self.name in {STORE_TIMES, DOOR_TIMES}:
            return "histogram"
        return "counter" if self.name.endswith("_total") else "gauge"


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
    Metric(
        "tierledger_owner",
        ("owner",),
        "1 for the owner of the cluster's remote log metadata, 0 for all others.",
    ),
    Metric("tierledger_owner_epoch", (), "Number of changes of the owner so far."),
    Metric("tierledger_holds", (), "Holds that operators have placed and not released."),
    Metric(
        "tierledger_unexplained_segments",
        (),
        "Segments that are kept as no rule of Kafka's explains their deletion.",
    ),
    Metric(
        "tierledger_trash_segments",
        (),
        "Segments in the trash of partitions that a host leads or follows: deleted, and kept.",
    ),
    Metric("tierledger_trash_bytes", (), "Bytes of these."),
    Metric(
        "tierledger_trash_oldest_seconds",
        (),
        "When the oldest of these was deleted, in seconds since 1970.",
    ),
    Metric(
        "tierledger_trash_due_since_seconds",
        (),
        "Since when the first of them is due, in seconds since 1970; absent if none is.",
    ),
    Metric(
        "tierledger_trash_partitions",
        (),
        "Partitions that keep segments that were deleted, as found since a guard asked first.",
    ),
    Metric(
        "tierledger_purged_segments_total",
        (),
        "Kept segments that guards have purged since the coordinator started.",
    ),
    Metric("tierledger_purged_bytes_total", (), "Bytes of these."),
    Metric(
        "tierledger_purge_success_seconds",
        (),
        "When a guard last purged a segment, in seconds since 1970; absent if none has since "
        "the coordinator started.",
    ),
    Metric(
        "tierledger_moving_since_seconds",
        (),
        "When the metadata began to move to another owner, in seconds since 1970; absent if "
        "it does not move.",
    ),
    Metric(
        "tierledger_plugin_mode",
        ("broker", "mode"),
        "1 for the mode in which the broker's plugin runs.",
    ),
    Metric(
        "tierledger_plugin_owner_epoch",
        BROKER,
        "Owner epoch that the broker's plugin follows; 0 if it knows none.",
    ),
    Metric(
        "tierledger_plugin_positions",
        BROKER,
        "Partitions of which the broker remembers how far a ledger has fed its plugin.",
    ),
    Metric("tierledger_plugin_silence_seconds", BROKER, "Age of the last report of a plugin."),
    Metric(
        "tierledger_plugin_idle",
        BROKER,
        "1 if no write of the broker is under way, and none begins in its owner epoch.",
    ),
    Metric(
        "tierledger_plugin_guarded",
        BROKER,
        "1 if the broker's storage manager is guarded, 0 if not; absent for an older plugin.",
    ),
    Metric(
        "tierledger_shadow_answers",
        ("broker", "result"),
        "Answers that a broker in shadow has compared, by result, since the coordinator's "
        "process began.",
    ),
    Metric(
        "tierledger_shadow_standing",
        BROKER,
        "Answers of a broker in shadow that differ from those of Kafka's own manager now.",
    ),
    Metric(
        "tierledger_shadow_verified_age_seconds",
        BROKER,
        "Age of the last answer that was verified; absent if there is none.",
    ),
    Metric(
        "tierledger_kafka_task",
        ("task",),
        "1 for what `serve --kafka` does with Kafka's metadata topic: import, mirror, or "
        "nothing.",
    ),
    Metric(
        "tierledger_kafka_silence_seconds",
        (),
        "Age of the last report of the process that imports or mirrors.",
    ),
    Metric(
        "tierledger_kafka_success_seconds",
        (),
        "When a round of the import or mirror last ended without trouble, in seconds since "
        "1970; each round covers all that came before it.",
    ),
    Metric(
        "tierledger_backup_success_seconds",
        (),
        "When the newest backup was made, in seconds since 1970; 0 if none was seen; absent "
        "without `serve --backups`.",
    ),
    Metric(
        "tierledger_kafka_records",
        (),
        "Records that the present import or mirror has transferred.",
    ),
    Metric(
        "tierledger_kafka_import_lag_records",
        (),
        "Offsets of Kafka's metadata topic that are not imported yet.",
    ),
    Metric(
        "tierledger_kafka_foreign_records",
        (),
        "Records in Kafka's metadata topic that tierledger neither wrote nor imported.",
    ),
    Metric("tierledger_host_up", HOST, "1 if the host answered within 2 s."),
    Metric(
        "tierledger_host_silence_seconds",
        HOST,
        "Age of the host's last answer to the coordinator.",
    ),
    Metric(
        "tierledger_host_checkpoint_success_seconds",
        HOST,
        "When a leader on the host last stored a checkpoint, in seconds since 1970; absent if "
        "none has since its process began.",
    ),
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
        STORE_TIMES,
        ("host", "operation"),
        "How long the store took, failures included, since the host's process began; append "
        "is a commit, write a checkpoint or a record, read and list are what they say.",
    ),
    Metric(
        DOOR_TIMES,
        ("host", "operation", "outcome"),
        "How long calls at the host's door took, from their arrival to their answer, since its "
        "process began.",
    ),
    Metric(
        "tierledger_host_alarms_total",
        ("host", "kind"),
        "Alarms that the host's process raised.",
    ),
    Metric(
        "tierledger_host_refused_deletions_total",
        ("host", "hold"),
        "Deletions that the host's process refused for this hold; empty: since a broker ran "
        "without the plugin.",
    ),
    Metric(
        "tierledger_host_inbox_calls_max", HOST, "Calls that wait in the host's fullest inbox."
    ),
    Metric(
        "tierledger_host_follower_lag_events_max",
        HOST,
        "Events by which the slowest follower on the host is behind its leader.",
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
        "Bytes of all segments of led partitions, each once (KIP-852); from Kafka 4.3 on "
        "without those that are being copied.",
    ),
    Metric(
        "tierledger_remote_log_size_bytes",
        ("topic", "topic_id", "partition"),
        "Bytes of all segments of the led partition, each once; from Kafka 4.3 on without "
        "those that are being copied.",
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
    status: ServiceStatus,
    partitions_max: int = SERIES_PARTITIONS_MAX,
    broker: BrokerVersion = NEWEST,
    backup_s: int | None = None,
) -> Iterator[Family]:
    """The metrics of a service, including those without samples, for their help texts.

    With more than `partitions_max` partitions none has series of its own, and
    `tierledger_partitions_without_series` is their number. `broker` is the version of Kafka
    whose rules say what counts as size. `backup_s` is when the newest backup was made, if
    that is known.
    """
    count = len(status.partitions)
    shown = status.partitions if count <= partitions_max else []
    samples: dict[str, Iterable[Sample]] = {
        STORE_TIMES: (),
        DOOR_TIMES: (),
        **_of_coordinator(status),
        **_of_owner(status.coordinator),
        **_of_plugins(status.coordinator or _NOTHING),
        **_of_follower(status.coordinator or _NOTHING),
        **_of_troubles(troubles_of(status)),
        **_of_hosts(status),
        **_of_trash(status),
        **_of_totals(status),
        **_of_partitions(shown, broker),
        "kafka_log_remote_BrokerTopicMetrics_RemoteLogSizeBytes": _topic_sizes(status, broker),
        "tierledger_backup_success_seconds": [] if backup_s is None else [((), backup_s)],
        "tierledger_partitions_without_series": [((), count - len(shown))],
    }
    for metric in METRICS:
        yield _family(metric, samples.pop(metric.name), status)
    assert not samples, f"not in METRICS: {sorted(samples)}"


def _family(metric: Metric, samples: Iterable[Sample], status: ServiceStatus) -> Family:
    if metric.kind == "histogram":
        return _histogram(metric, _times_of(metric, status))
    made = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family: CounterMetricFamily | GaugeMetricFamily
    family = made(metric.name, metric.help, labels=metric.labels)
    for labels, value in samples:
        family.add_metric(labels, value)
    return family


def _times_of(
    metric: Metric, status: ServiceStatus
) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Values of a histogram's labels, and their `CallTimes.plain`."""
    for host in status.hosts:
        if metric.name == STORE_TIMES:
            for operation, told in host.store_times.items():
                yield (host.name, operation), told
        else:
            for outcome, operations in host.door_times.items():
                for operation, told in operations.items():
                    yield (host.name, operation, outcome), told


def _histogram(
    metric: Metric, times: Iterable[tuple[tuple[str, ...], Mapping[str, Any]]]
) -> HistogramMetricFamily:
    family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, told in times:
        buckets = [
            ("+Inf" if bound is None else str(bound), calls) for bound, calls in told["upto_s"]
        ]
        family.add_metric(labels, buckets, told["sum_s"])
    return family


_FEEDS = {
    "tierledger_host_feeds": "open",
    "tierledger_host_fed_replicas": "replicas",
    "tierledger_host_feed_lag_events_max": "lag_events_max",
    "tierledger_host_feed_snapshots": "snapshots",
    "tierledger_host_feed_snapshots_waiting": "snapshots_waiting",
    "tierledger_host_feed_overtaken_total": "overtaken",
}
"""Metric to the name of the count in `HostStatus.feeds`."""


_PURGES = {
    "tierledger_trash_partitions": "partitions",
    "tierledger_purged_segments_total": "purged",
    "tierledger_purged_bytes_total": "purged_bytes",
}
"""Metric to the name in what the coordinator tells of purges."""


def _of_coordinator(status: ServiceStatus) -> dict[str, Iterable[Sample]]:
    known = status.coordinator
    return {
        "tierledger_coordinator_up": [((), known is not None)],
        "tierledger_coordinator_position": [] if known is None else [((), known["position"])],
        "tierledger_set_aside_items": [] if known is None else [((), known["set_aside"])],
        "tierledger_unexplained_segments": []
        if known is None
        else [
            (
                (),
                sum(
                    one.unexplained["segments"] for one in status.partitions if one.unexplained
                ),
            )
        ],
        "tierledger_holds": [((), len(status.holds()))]
        if known and known["holds"] is not None
        else [],
        **{
            name: [((), known["purges"][key])] if known and known["purges"] else []
            for name, key in _PURGES.items()
        },
        "tierledger_purge_success_seconds": [((), known["purges"]["purged_ms"] / 1000)]
        if known and known["purges"] and known["purges"].get("purged_ms") is not None
        else [],
        "tierledger_known_partitions": [] if known is None else [((), known["partitions"])],
        "tierledger_broker_incarnation": [
            ((str(broker),), known["incarnation"]) for broker, known in status.brokers.items()
        ],
    }


_NOTHING: dict[str, Any] = {"attending": [], "shadows": [], "kafka": None, "now_ms": None}
"""What a silent coordinator says of plugins and of Kafka's topic."""


def _of_owner(known: Mapping[str, Any] | None) -> dict[str, Iterable[Sample]]:
    owners: list[Sample] = []
    epochs: list[Sample] = []
    moving: list[Sample] = []
    if known is not None:
        owners = [((str(owner),), owner == known["owner"]) for owner in Owner]
        epochs = [((), known["owner_epoch"])]
        if known["owner"] == Owner.MOVING and known["owner_since_ms"] is not None:
            moving = [((), known["owner_since_ms"] / 1000)]
    return {
        "tierledger_owner": owners,
        "tierledger_owner_epoch": epochs,
        "tierledger_moving_since_seconds": moving,
    }


SHADOW_RESULTS = ("equal", "recovered", "different", "resolved", "skipped")


def _of_plugins(known: Mapping[str, Any]) -> dict[str, Iterable[Sample]]:
    plugins = [(str(one["broker_id"]), one) for one in known["attending"]]
    return {
        "tierledger_plugin_mode": [((broker, one["mode"]), 1) for broker, one in plugins],
        "tierledger_plugin_owner_epoch": [
            ((broker,), one["owner_epoch"]) for broker, one in plugins
        ],
        "tierledger_plugin_positions": [
            ((broker,), one["positions"]) for broker, one in plugins if "positions" in one
        ],
        "tierledger_plugin_silence_seconds": [
            ((broker,), one["heard_ms_ago"] / 1000) for broker, one in plugins
        ],
        "tierledger_plugin_idle": [((broker,), one["is_idle"]) for broker, one in plugins],
        "tierledger_plugin_guarded": [
            ((broker,), one["is_guarded"])
            for broker, one in plugins
            if one.get("is_guarded") is not None
        ],
        "tierledger_shadow_answers": [
            ((str(one["broker_id"]), result), one[result])
            for one in known["shadows"]
            for result in SHADOW_RESULTS
            if result in one
        ],
        "tierledger_shadow_standing": _of_shadows(known, "standing"),
        "tierledger_shadow_verified_age_seconds": [
            (labels, ago_ms / 1000) for labels, ago_ms in _of_shadows(known, "verified_ms_ago")
        ],
    }


def _of_shadows(known: Mapping[str, Any], count: str) -> list[Sample]:
    found = [(str(one["broker_id"]), one.get(count)) for one in known["shadows"]]
    return [((broker,), value) for broker, value in found if value is not None]


def _of_follower(known: Mapping[str, Any]) -> dict[str, Iterable[Sample]]:
    """What the follower has reported; what it has not is absent."""
    kafka, now_ms = known["kafka"] or {}, known["now_ms"]

    def told(value: float | None) -> list[Sample]:
        return [] if value is None else [((), value)]

    silence, success = kafka.get("heard_ms_ago"), kafka.get("succeeded_ms_ago")
    if success is not None:
        success = None if now_ms is None else (now_ms - silence - success) / 1000
    return {
        "tierledger_kafka_task": [((kafka["task"],), 1)] if kafka else [],
        "tierledger_kafka_silence_seconds": told(None if silence is None else silence / 1000),
        "tierledger_kafka_success_seconds": told(success),
        "tierledger_kafka_records": told(kafka.get("records")),
        "tierledger_kafka_import_lag_records": told(kafka.get("lag")),
        "tierledger_kafka_foreign_records": told(kafka.get("foreign")),
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


def _of_trash(status: ServiceStatus) -> dict[str, Iterable[Sample]]:
    """What is kept, as far as leaders and followers that run know it."""
    known = status.coordinator
    if known is None:
        return dict.fromkeys(_TRASH, ())
    kept = [one.kept for one in status.partitions if one.kept]
    ends = [one["until_ms"] for one in kept if one["until_ms"] is not None]
    due = [one for one in ends if one <= known["now_ms"]]
    oldest = [one["since_ms"] for one in kept]
    values: list[Iterable[Sample]] = [
        [((), sum(one["segments"] for one in kept))],
        [((), sum(one["bytes"] for one in kept))],
        [((), min(oldest) / 1000)] if oldest else [],
        [((), min(due) / 1000)] if due else [],
    ]
    return dict(zip(_TRASH, values, strict=True))


_TRASH = (
    "tierledger_trash_segments",
    "tierledger_trash_bytes",
    "tierledger_trash_oldest_seconds",
    "tierledger_trash_due_since_seconds",
)


def _lags(status: ServiceStatus) -> list[Sample]:
    """By host: the most events by which one of its followers is behind."""
    worst: dict[str, int] = {}
    for partition in status.partitions:
        for one in partition.followers:
            if one.lag_events is not None:
                worst[one.host] = max(worst.get(one.host, 0), one.lag_events)
    return [((host,), lag) for host, lag in sorted(worst.items())]


def _of_hosts(status: ServiceStatus) -> dict[str, Iterable[Sample]]:
    hosts = status.hosts

    def counted(field: str) -> list[Sample]:
        values = [(one.name, getattr(one, field)) for one in hosts]
        return [((name,), value) for name, value in values if value is not None]

    return {
        "tierledger_host_up": [((one.name,), one.is_up) for one in hosts],
        "tierledger_host_silence_seconds": [
            (labels, value / 1000) for labels, value in counted("heard_ms_ago")
        ],
        "tierledger_host_checkpoint_success_seconds": [
            (labels, value / 1000) for labels, value in counted("checkpointed_ms")
        ],
        "tierledger_host_follower_lag_events_max": _lags(status),
        "tierledger_host_leaders": counted("leaders"),
        "tierledger_host_followers": counted("followers"),
        "tierledger_host_commits_total": counted("commits"),
        "tierledger_host_batches_total": counted("batches"),
        "tierledger_host_alarms_total": [
            ((one.name, kind), count)
            for one in hosts
            for kind, count in sorted(one.alarms.items())
        ],
        "tierledger_host_refused_deletions_total": [
            ((one.name, hold), told["times"])
            for one in hosts
            for hold, told in sorted(one.held_back.items())
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


def _topic_sizes(status: ServiceStatus, broker: BrokerVersion) -> list[Sample]:
    sizes: dict[str, int] = {}
    for one in status.partitions:
        if one.leader is not None:
            sizes[one.topic] = sizes.get(one.topic, 0) + _size(one.leader, broker)
    return [((topic,), size) for topic, size in sorted(sizes.items())]


def _size(leader: ServedStatus, broker: BrokerVersion) -> int:
    left_out = leader.copying_bytes if broker.sizes_leave_out_copies else 0
    return leader.remote_log_bytes - left_out


def _of_partitions(
    partitions: list[PartitionStatus], broker: BrokerVersion
) -> dict[str, Iterable[Sample]]:
    positions: list[Sample] = []
    lags: list[Sample] = []
    sizes: list[Sample] = []
    for one in partitions:
        identity = (one.topic, one.topic_id, str(one.partition))
        if one.leader is not None:
            led = (*identity, one.leader.host, "leader")
            positions.append((led, one.leader.position))
            sizes.append((identity, _size(one.leader, broker)))
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

"""Metrics: what a scrape finds, and that the documentation lists exactly that."""

import asyncio
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.parser import text_string_to_metric_families

from tests.house.test_documents import document, table
from tests.models.actors.local_world import POLL_S
from tests.models.actors.reports import (
    NOW_MS,
    TOPIC_ID,
    SpokenHost,
    SpokenService,
    host,
    reading,
    served,
    silent,
)
from tierledger.events.errors import InvalidArgument
from tierledger.health import backup_watch, server
from tierledger.health.metrics import METRICS, SERIES_PARTITIONS_MAX, families
from tierledger.health.server import MetricsOptions, ServedMetrics, metrics_served
from tierledger.health.status import Reading, ServiceStatus, status_of
from tierledger.storage.backup.files import Backup, BackupFiles
from tierledger.storage.backup.place import Folder
from tierledger.tiering.broker_version import NEWEST, BrokerVersion

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]
LOOPBACK = MetricsOptions("127.0.0.1", 0, SERIES_PARTITIONS_MAX)


class OneStatus:
    """A collector of what does not change."""

    def __init__(
        self, status: ServiceStatus, partitions_max: int, broker: BrokerVersion
    ) -> None:
        self._families = list(families(status, partitions_max, broker))

    def collect(self) -> list[object]:
        return list(self._families)


def parsed(text: str) -> Samples:
    """All samples; two of one name and labels would make Prometheus refuse the scrape."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found, f"twice: {key}"
            found[key] = sample.value
    return found


def scraped(
    given: Reading, partitions_max: int = 1000, broker: BrokerVersion = NEWEST
) -> Samples:
    registry = CollectorRegistry()
    registry.register(OneStatus(status_of(given), partitions_max, broker))  # type: ignore[arg-type]
    return parsed(generate_latest(registry).decode())


FEEDS = (
    "host_feeds",
    "host_fed_replicas",
    "host_feed_lag_events_max",
    "host_feed_snapshots",
    "host_feed_snapshots_waiting",
    "host_feed_overtaken_total",
)


def value(samples: Samples, name: str, **labels: str) -> float | None:
    return samples.get((f"tierledger_{name}", frozenset(labels.items())))


def test_hosts_are_told_of_one_by_one() -> None:
    alarms = {"Fenced": 3, "quarantined": 1}
    busy = host(served(0, waiting=7), served(1), served(2, "follower"), alarms=alarms)

    found = scraped(reading({"host-0": busy, "host-1": silent()}))

    assert value(found, "host_up", host="host-0") == 1
    assert value(found, "host_leaders", host="host-0") == 2
    assert value(found, "host_followers", host="host-0") == 1
    assert value(found, "host_commits_total", host="host-0") == 4
    assert value(found, "host_batches_total", host="host-0") == 10
    assert value(found, "host_inbox_calls_max", host="host-0") == 7
    assert value(found, "host_alarms_total", host="host-0", kind="Fenced") == 3


def test_what_a_host_feeds_is_told() -> None:
    fed = {
        "open": 1,
        "replicas": 2,
        "lag_events_max": 3,
        "snapshots": 4,
        "snapshots_waiting": 5,
        "overtaken": 6,
    }

    found = scraped(reading({"host-0": host(served(0), feeds=fed), "host-1": host()}))

    assert [value(found, name, host="host-0") for name in FEEDS] == [1, 2, 3, 4, 5, 6]
    assert [value(found, name, host="host-1") for name in FEEDS] == [None] * 6


def test_a_silent_host_is_down_and_nothing_else_is_said_of_it() -> None:
    found = scraped(reading({"host-0": silent()}))

    assert value(found, "host_up", host="host-0") == 0
    assert [name for name, labels in found if ("host", "host-0") in labels] == [
        *("tierledger_host_up", "tierledger_host_silence_seconds")
    ]


def test_totals_are_over_all_partitions() -> None:
    far = served(1, position=5010)
    bad = served(2, phase="quarantined", disputes=2)
    hosts = {"host-0": host(served(0), far, bad), "host-1": host(served(1, "follower"))}

    found = scraped(reading(hosts))

    assert value(found, "coordinator_up") == 1
    assert value(found, "coordinator_position") == 5
    assert value(found, "set_aside_items") == 0
    assert value(found, "known_partitions") == 3
    assert value(found, "broker_incarnation", broker="1") == 2
    assert value(found, "served_partitions") == 3
    assert value(found, "led_events") == 11 + 5011 + 11
    assert value(found, "open_sessions") == 3
    assert value(found, "disputes") == 2
    assert value(found, "quarantined_partitions") == 1
    assert value(found, "troubled_partitions", trouble="behind") == 1
    assert value(found, "troubled_partitions", trouble="loading") == 0
    assert value(found, "follower_lag_events_max") == 5000


def test_what_is_in_the_trash_is_told() -> None:
    kept = {"segments": 3, "since_ms": NOW_MS, "reason": "the arithmetic"}
    trash = {"segments": 4, "bytes": 40, "since_ms": 9_000, "until_ms": NOW_MS - 1000}
    later = {"segments": 1, "bytes": 2, "since_ms": 8_000, "until_ms": NOW_MS + 1000}
    forever = {"segments": 1, "bytes": 1, "since_ms": 10_000, "until_ms": None}
    led = (
        served(0, unexplained=kept, kept=trash),
        served(1, kept=later),
        served(2, kept=forever),
        served(3, kept=None),
    )
    hosts = {"host-0": host(*led), "host-1": host(served(0, "follower", kept=trash))}
    purges = {
        "partitions": 2,
        "purged": 7,
        "purged_bytes": 70,
        "purged_ms": 5_000,
        "given": [],
    }

    samples = scraped(reading(hosts, {}, purges=purges))

    assert value(samples, "unexplained_segments") == 3
    assert value(samples, "trash_partitions") == 2
    assert value(samples, "purged_segments_total") == 7
    assert value(samples, "purged_bytes_total") == 70
    assert value(samples, "purge_success_seconds") == 5
    assert value(samples, "trash_segments") == 6
    assert value(samples, "trash_bytes") == 43
    assert value(samples, "trash_oldest_seconds") == 8
    assert value(samples, "trash_due_since_seconds") == NOW_MS / 1000 - 1


def test_what_is_kept_and_not_due_has_no_time_since_when_it_is() -> None:
    later = {"segments": 1, "bytes": 2, "since_ms": 8_000, "until_ms": NOW_MS + 1000}

    samples = scraped(reading({"host-0": host(served(0, kept=later))}))
    nothing = scraped(reading({"host-0": host(served(0))}))

    assert value(samples, "trash_due_since_seconds") is None
    assert value(samples, "trash_segments") == 1
    assert value(nothing, "trash_segments") == 0
    assert value(nothing, "trash_oldest_seconds") is None


def test_what_repeats_tells_when_it_last_succeeded_by_host() -> None:
    far = served(1, position=5010)
    ahead = host(served(0, "follower", position=5), served(1, "follower"), checkpointed_ms=7000)

    samples = scraped(reading({"host-0": host(served(0), far), "host-1": ahead}))

    assert value(samples, "host_checkpoint_success_seconds", host="host-1") == 7
    assert value(samples, "host_checkpoint_success_seconds", host="host-0") is None
    assert value(samples, "host_silence_seconds", host="host-1") == 0.1
    assert value(samples, "host_follower_lag_events_max", host="host-1") == 5000
    assert value(samples, "host_follower_lag_events_max", host="host-0") is None


def test_the_owner_and_a_move_are_told() -> None:
    still = scraped(reading({}, owner="tierledger", owner_epoch=3, owner_since_ms=5_000))
    moving = scraped(reading({}, owner="moving", owner_epoch=4, owner_since_ms=7_000))

    owners = ("nobody", "kafka", "tierledger", "moving")
    assert [value(still, "owner", owner=one) for one in owners] == [0, 0, 1, 0]
    assert value(still, "owner_epoch") == 3
    assert value(still, "moving_since_seconds") is None
    assert value(moving, "owner", owner="moving") == 1
    assert value(moving, "moving_since_seconds") == 7


def test_plugins_are_told_of_with_their_comparisons() -> None:
    plugin = {"broker_id": 3, "mode": "shadow", "owner_epoch": 2, "is_idle": True}
    plugin = {**plugin, "heard_ms_ago": 1_500, "trouble": None, "code": None}
    plugin["is_guarded"] = False
    shadow = {"broker_id": 3, "equal": 7, "recovered": 2, "different": 3, "skipped": 4}
    shadow = {**shadow, "resolved": 2, "standing": 1, "verified_ms_ago": 2_500}

    found = scraped(reading({}, attending=[plugin], shadows=[shadow]))

    assert value(found, "plugin_mode", broker="3", mode="shadow") == 1
    assert value(found, "plugin_owner_epoch", broker="3") == 2
    assert value(found, "plugin_silence_seconds", broker="3") == 1.5
    assert value(found, "plugin_idle", broker="3") == 1
    assert value(found, "plugin_guarded", broker="3") == 0
    results = ("equal", "recovered", "different", "resolved", "skipped")
    told = [value(found, "shadow_answers", broker="3", result=one) for one in results]
    assert told == [7, 2, 3, 2, 4]
    assert value(found, "shadow_standing", broker="3") == 1
    assert value(found, "shadow_verified_age_seconds", broker="3") == 2.5


def test_the_import_and_the_mirror_are_told_with_lag_and_last_success() -> None:
    common = {"round": 7, "heard_ms_ago": 500, "trouble": None, "records": 9}
    importing = {**common, "task": "import", "succeeded_ms_ago": 2_500, "lag": 4}
    mirroring = {**common, "task": "mirror", "succeeded_ms_ago": None, "foreign": 2}

    found = scraped(reading({}, kafka=importing))
    other = scraped(reading({}, kafka=mirroring))

    assert value(found, "kafka_task", task="import") == 1
    assert value(found, "kafka_silence_seconds") == 0.5
    assert value(found, "kafka_success_seconds") == (NOW_MS - 3_000) / 1000
    assert value(found, "kafka_records") == 9
    assert value(found, "kafka_import_lag_records") == 4
    assert value(found, "kafka_foreign_records") is None
    assert value(other, "kafka_task", task="mirror") == 1
    assert value(other, "kafka_success_seconds") is None
    assert value(other, "kafka_import_lag_records") is None
    assert value(other, "kafka_foreign_records") == 2


def test_troubles_are_counted_by_code_with_the_time_since_when() -> None:
    aside = [{"what": name, "reason": "none", "since_ms": 1000 * name} for name in (9, 7)]
    hosts = {"host-0": host(served(0)), "host-1": silent()}

    found = scraped(reading(hosts, set_aside=2, set_aside_items=aside))

    labels = {"code": "set-aside", "severity": "warning"}
    assert value(found, "trouble", **labels) == 2
    assert value(found, "trouble_since_seconds", **labels) == 7
    assert value(found, "trouble", code="host-silent", severity="critical") == 1
    labels = {"code": "quarantined", "severity": "critical"}
    assert value(found, "trouble", **labels) == 0
    assert value(found, "trouble_since_seconds", **labels) is None


@pytest.mark.parametrize(("broker", "left_out"), [("4.2", 0), ("4.3", 30)])
def test_sizes_are_those_that_leaders_know_by_the_rules_of_the_brokers_version(
    broker: str, left_out: int
) -> None:
    copying = served(0, remote_log_bytes=70, copying_bytes=30)
    hosts = {
        "host-0": host(copying, served(1, remote_log_bytes=5)),
        "host-1": host(served(0, "follower", remote_log_bytes=60)),
    }

    found = scraped(reading(hosts), broker=BrokerVersion.parse(broker))

    topic = frozenset({("topic", "orders")})
    of_topic = found["kafka_log_remote_BrokerTopicMetrics_RemoteLogSizeBytes", topic]
    assert of_topic == 75 - left_out
    which = {"topic": "orders", "topic_id": TOPIC_ID, "partition": "0"}
    assert value(found, "remote_log_size_bytes", **which) == 70 - left_out


def test_a_partition_has_a_series_for_each_who_serves_it() -> None:
    # Two topics of one name, one after the other, are two topics.
    other = served(0, topic_id="A" * 22, position=3)
    hosts = {
        "host-0": host(served(0), other),
        "host-1": host(served(0, "follower", position=8)),
        "host-2": host(served(0, "follower", position=9)),
    }

    found = scraped(reading(hosts))

    which = {"topic": "orders", "topic_id": TOPIC_ID, "partition": "0"}
    position = "partition_position"
    assert value(found, position, **which, host="host-0", role="leader") == 10
    assert value(found, position, **which, host="host-1", role="follower") == 8
    assert value(found, "follower_lag_events", **which, host="host-1") == 2
    assert value(found, "follower_lag_events", **which, host="host-2") == 1
    which["topic_id"] = "A" * 22
    assert value(found, position, **which, host="host-0", role="leader") == 3


@pytest.mark.parametrize(("allowed", "series", "left_out"), [(3, 3, 0), (2, 0, 3)])
def test_too_many_partitions_have_totals_only(allowed: int, series: int, left_out: int) -> None:
    given = reading({"host-0": host(*(served(number) for number in range(3)))})

    found = scraped(given, allowed)

    assert sum(name == "tierledger_partition_position" for name, _ in found) == series
    assert value(found, "partitions_without_series") == left_out
    assert value(found, "led_partitions") == 3


def test_without_the_coordinator_nothing_is_said_to_be_zero() -> None:
    found = scraped(Reading(None, {"host-0": host(served(0))}, {}))

    assert value(found, "coordinator_up") == 0
    assert value(found, "host_up", host="host-0") == 1
    assert value(found, "led_partitions") is None
    assert value(found, "quarantined_partitions") is None


def test_names_and_types_are_as_prometheus_wants_them() -> None:
    for metric, family in zip(METRICS, families(status_of(reading({}))), strict=True):
        assert isinstance(family, CounterMetricFamily) == metric.name.endswith("_total")
        assert family.type == metric.kind
        assert metric.help.endswith(".")


def test_the_documented_metrics_are_those_that_are_served() -> None:
    documented = table(document("docs/metrics.md"), "metric")

    served_ones = [
        [
            metric.name,
            metric.kind,
            ", ".join(metric.labels),
            metric.help,
        ]
        for metric in METRICS
    ]
    assert documented == served_ones


def test_how_long_the_store_takes_is_a_histogram() -> None:
    upto = ((0.001, 2), (0.0025, 5), (None, 6))
    told = {"append": {"upto_s": upto, "sum_s": 1.5}}

    found = scraped(reading({"host-0": host(served(0), store_times=told), "host-1": host()}))

    def of(name: str, **labels: str) -> float | None:
        return value(
            found, f"host_store_seconds_{name}", host="host-0", operation="append", **labels
        )

    assert [of("bucket", le=le) for le in ("0.001", "0.0025", "+Inf")] == [2, 5, 6]
    assert (of("count"), of("sum")) == (6, 1.5)
    assert not [key for key in found if ("host", "host-1") in key[1] and "store" in key[0]]


def test_calls_at_the_door_are_a_histogram_by_operation_and_outcome() -> None:
    told = {
        "ok": {"add": {"upto_s": ((0.001, 2), (None, 3)), "sum_s": 0.5}},
        "unknown": {"add": {"upto_s": ((0.001, 0), (None, 1)), "sum_s": 30.0}},
    }

    found = scraped(reading({"host-0": host(served(0), door_times=told)}))

    counts = {
        outcome: value(
            found, "host_door_seconds_count", host="host-0", operation="add", outcome=outcome
        )
        for outcome in told
    }
    assert counts == {"ok": 3, "unknown": 1}


# Over HTTP.


async def page_at(address: str) -> str:
    def fetch() -> str:
        try:
            with urllib.request.urlopen(address, timeout=20) as response:
                text: str = response.read().decode()
                return text
        except urllib.error.HTTPError as error:
            error.close()
            raise

    return await asyncio.to_thread(fetch)


async def get(address: str) -> Samples:
    return parsed(await page_at(address))


async def test_scrapes_within_a_second_share_one_reading() -> None:
    service = SpokenService({"host-0": SpokenHost(served(0))})
    async with metrics_served(LOOPBACK) as metrics:
        assert metrics.address is not None
        waiting = [asyncio.create_task(get(metrics.address)) for _ in range(5)]
        metrics.connect(service)
        found = await asyncio.gather(*waiting)

    assert {value(one, "host_up", host="host-0") for one in found} == {1}
    assert service.looks == 1


async def test_a_later_scrape_reads_again_and_knows_hosts_of_a_lost_coordinator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "CACHED_S", 0.0)
    service = SpokenService({"host-0": SpokenHost(served(0))})
    async with metrics_served(LOOPBACK) as metrics:
        assert metrics.address is not None
        metrics.connect(service)
        before = await get(metrics.address)
        service.is_silent = True
        after = [await get(metrics.address) for _ in range(2)]

    assert value(before, "coordinator_up") == 1
    assert [value(one, "coordinator_up") for one in after] == [0, 0]
    assert [value(one, "host_up", host="host-0") for one in after] == [1, 1]
    with pytest.raises(OSError, match="refused"):
        await get(metrics.address)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/metrics", 200),
        ("GET", "/metrics?name[]=tierledger_host_up", 200),
        ("GET", "/", 404),
        ("GET", "/metrics/", 404),
        ("GET", "/nope", 404),
        ("GET", "/favicon.ico", 404),
        ("POST", "/nope", 404),
        ("POST", "/metrics", 405),
        ("DELETE", "/metrics", 405),
        ("GET", "/livez", 200),
        ("GET", "/readyz", 200),
        ("GET", "/readyz/", 404),
    ],
)
async def test_only_metrics_and_health_are_there(method: str, path: str, status: int) -> None:
    async with metrics_served(LOOPBACK) as metrics:
        assert metrics.address is not None
        metrics.connect(SpokenService({"host-0": SpokenHost(served(0))}))
        url = metrics.address.removesuffix("/metrics") + path

        found = await asyncio.to_thread(status_of_request, method, url)

    assert found == status


def status_of_request(method: str, url: str) -> int:
    return answer_of(method, url)[0]


def answer_of(method: str, url: str) -> tuple[int, str]:
    """Status and text of the answer."""
    asked = urllib.request.Request(url, method=method)
    try:
        with urllib.request.urlopen(asked, timeout=20) as response:
            return int(response.status), response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


async def test_health_is_that_of_the_process_and_that_of_the_service(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service = SpokenService({"host-0": SpokenHost(served(0))})
    async with metrics_served(LOOPBACK) as metrics:
        assert metrics.address is not None
        place = metrics.address.removesuffix("/metrics")

        async def health() -> dict[str, tuple[int, str]]:
            return {
                path: await asyncio.to_thread(answer_of, "GET", place + path)
                for path in ("/livez", "/readyz")
            }

        starting = await health()
        metrics.connect(service)
        serving = await health()
        service.is_silent = True
        silent_one = await health()
        monkeypatch.setattr(server, "LOOP_TIMEOUT_S", 0.1)
        asking = threading.Thread(
            target=lambda: stuck.append(answer_of("GET", f"{place}/livez"))
        )
        stuck: list[tuple[int, str]] = []
        asking.start()
        asking.join()  # The loop stands still meanwhile.

    assert starting == {
        "/livez": (200, "ok\n"),
        "/readyz": (503, "the service is being started\n"),
    }
    assert serving == {"/livez": (200, "ok\n"), "/readyz": (200, "ok\n")}
    assert silent_one == {
        "/livez": (200, "ok\n"),
        "/readyz": (503, "the coordinator does not answer\n"),
    }
    assert stuck == [(503, "the event loop stands still\n")]


@pytest.mark.parametrize("host", ["a" * 300, "no such host", "\udcff"])
async def test_an_address_that_is_none_is_refused(host: str) -> None:
    with pytest.raises(InvalidArgument, match="metrics cannot be served on"):
        ServedMetrics(LOOPBACK._replace(host=host))


async def test_a_port_in_use_is_refused_by_name() -> None:
    taken = ServedMetrics(LOOPBACK)
    port = int(taken.address.rsplit(":", 1)[1].split("/")[0])

    with pytest.raises(InvalidArgument, match=rf"on '127\.0\.0\.1', port {port}: "):
        ServedMetrics(LOOPBACK._replace(port=port))

    await taken.close()


async def test_the_age_of_the_newest_backup_is_looked_up_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(backup_watch, "LOOK_S", 0.0)
    monkeypatch.setattr(server, "CACHED_S", 0.0)
    files = BackupFiles(Folder(tmp_path / "backups"))
    service = SpokenService({"host-0": SpokenHost()})

    async with metrics_served(LOOPBACK._replace(backups=files)) as metrics:
        metrics.connect(service)

        async def told(expected: float | None) -> None:
            assert metrics.address is not None
            name = "backup_success_seconds"
            while value(await get(metrics.address), name) != expected:  # noqa: ASYNC110
                await asyncio.sleep(POLL_S)

        await told(None)
        await told(0)  # There is no such folder.
        await files.begun()
        name = await files.write_backup(1, 60_000, Backup("c", (), {}, {}))
        await files.change(lambda _: (name,))
        await told(60)
        (tmp_path / "backups" / "photo.jpg").touch()
        await told(60)
        while "photo.jpg" not in caplog.text:
            await told(60)
    assert len(caplog.messages) == 2
    assert value(scraped(reading({})), "backup_success_seconds") is None


async def test_a_scrape_under_way_ends_with_the_service() -> None:
    service = SpokenService({"host-0": SpokenHost(is_silent=True)})
    async with metrics_served(LOOPBACK) as metrics:
        assert metrics.address is not None
        metrics.connect(service)
        scrape = asyncio.create_task(get(metrics.address))
        while not service.looks:  # noqa: ASYNC110 - It has no event.
            await asyncio.sleep(POLL_S)

    with pytest.raises(OSError, match=r"\w"):
        await scrape

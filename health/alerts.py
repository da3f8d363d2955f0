"""Alerts for Prometheus and a dashboard for Grafana, made from two tables. Pure.

What `status` lists as a trouble has no alert of its own: two alerts take all troubles, by their
severity, and name the code. The others are about what no list of troubles can tell: nobody
scrapes, something that repeats has not succeeded for long, something grows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from tierledger.health.troubles import Severity

RUNBOOK = "docs/runbook.md"


class Alert(NamedTuple):
    """One alerting rule."""

    name: str
    expression: str
    lasts: str
    """How long the expression holds before somebody is told."""
    severity: Severity
    summary: str
    """May have labels and the value, as Prometheus' templates write them."""

    @property
    def anchor(self) -> str:
        """The section of the runbook; of troubles that of the code."""
        is_of_code = "{{ $labels.code }}" in self.summary
        return "{{ $labels.code }}" if is_of_code else self.name.lower()


class Panel(NamedTuple):
    """One panel of the dashboard; two stand side by side."""

    title: str
    unit: str
    """As Grafana names it."""
    lines: tuple[tuple[str, str], ...]
    """An expression, and the legend of its lines."""


def _troubles(severity: Severity, lasts: str) -> Alert:
    return Alert(
        f"Tierledger{severity.capitalize()}",
        f'max by (instance, code) (tierledger_trouble{{severity="{severity}"}}) > 0',
        lasts,
        severity,
        "tierledger: {{ $labels.code }}",
    )


def _alarms(kind: str) -> str:
    return (
        f'sum by (instance, host) (increase(tierledger_host_alarms_total{{kind="{kind}"}}[1h]))'
        " > 0"
    )


ALERTS = (
    Alert(
        "TierledgerAbsent",
        "absent(tierledger_coordinator_up)",
        "2m",
        Severity.CRITICAL,
        "nobody serves tierledger's metrics, so nobody sees its troubles",
    ),
    _troubles(Severity.CRITICAL, "1m"),
    _troubles(Severity.WARNING, "1h"),
    Alert(
        "TierledgerReplicaNotFed",
        _alarms("damaged"),
        "0m",
        Severity.CRITICAL,
        "a replica is not fed by {{ $labels.host }}: its past in the log does not verify",
    ),
    Alert(
        "TierledgerCheckpointsFail",
        _alarms("checkpoint"),
        "15m",
        Severity.WARNING,
        "checkpoints cannot be written or read on {{ $labels.host }}",
    ),
    Alert(
        "TierledgerCustomMetadataRefused",
        _alarms("CustomMetadataSizeLimitExceeded"),
        "0m",
        Severity.WARNING,
        "brokers send more custom metadata than the service takes",
    ),
    Alert(
        "TierledgerInboxFull",
        "tierledger_host_inbox_calls_max > 512",
        "1m",
        Severity.WARNING,
        "{{ $value }} calls wait for one partition on {{ $labels.host }}",
    ),
    Alert(
        "TierledgerStoreSlow",
        "histogram_quantile(0.99, "
        'rate(tierledger_host_store_seconds_bucket{operation="append"}[5m])) > 1',
        "10m",
        Severity.WARNING,
        "one in 100 commits of {{ $labels.host }} takes longer than a second",
    ),
    Alert(
        "TierledgerCallsInDoubt",
        "sum by (instance, host) "
        '(rate(tierledger_host_door_seconds_count{outcome="unknown"}[5m])) > 0',
        "10m",
        Severity.WARNING,
        "calls at the door of {{ $labels.host }} end without a known outcome",
    ),
    Alert(
        "TierledgerFeedBehind",
        "tierledger_host_feed_lag_events_max > 10000",
        "10m",
        Severity.WARNING,
        "a broker's replica is {{ $value }} events behind {{ $labels.host }}",
    ),
    Alert(
        "TierledgerKafkaNotFollowed",
        "time() - tierledger_kafka_success_seconds > 60",
        "5m",
        Severity.WARNING,
        "no round of the import or mirror has ended for {{ $value | humanizeDuration }}",
    ),
    Alert(
        "TierledgerBackupOld",
        "time() - tierledger_backup_success_seconds > 93600",
        "10m",
        Severity.WARNING,
        "no backup was made for {{ $value | humanizeDuration }}",
    ),
    Alert(
        "TierledgerNotVerified",
        "tierledger_shadow_verified_age_seconds > 600",
        "10m",
        Severity.WARNING,
        "no answer of broker {{ $labels.broker }} in shadow was verified for "
        "{{ $value | humanizeDuration }}",
    ),
    Alert(
        "TierledgerTrashNotPurged",
        "time() - tierledger_trash_due_since_seconds > 86400",
        "1h",
        Severity.WARNING,
        "what is due in the trash has not been purged for {{ $value | humanizeDuration }}",
    ),
)
"""All alerts; each has a section in the runbook."""

_STORE_P99 = (
    "histogram_quantile(0.99, "
    "sum by (le, operation) (rate(tierledger_host_store_seconds_bucket[5m])))"
)

_DOOR_P99 = (
    "histogram_quantile(0.99, "
    "sum by (le, operation) (rate(tierledger_host_door_seconds_bucket[5m])))"
)

PANELS = (
    Panel("Not well, by code", "short", (("tierledger_trouble > 0", "{{code}}"),)),
    Panel(
        "Up",
        "bool",
        (("tierledger_coordinator_up", "coordinator"), ("tierledger_host_up", "{{host}}")),
    ),
    Panel(
        "Partitions",
        "short",
        (
            ("tierledger_known_partitions", "known"),
            ("tierledger_led_partitions", "led"),
            ("tierledger_open_sessions", "with an open session"),
            ("tierledger_quarantined_partitions", "in quarantine"),
        ),
    ),
    Panel(
        "Commits per second",
        "short",
        (("rate(tierledger_host_commits_total[5m])", "{{host}}"),),
    ),
    Panel(
        "What the store takes for 99 in 100 calls",
        "s",
        ((_STORE_P99, "{{operation}}"),),
    ),
    Panel(
        "Calls per second at the doors, by outcome",
        "short",
        (
            (
                "sum by (outcome) (rate(tierledger_host_door_seconds_count[5m]))",
                "{{outcome}}",
            ),
        ),
    ),
    Panel(
        "What 99 in 100 calls at the doors take",
        "s",
        ((_DOOR_P99, "{{operation}}"),),
    ),
    Panel(
        "Bytes in the tier, by topic",
        "bytes",
        (
            (
                "topk(10, kafka_log_remote_BrokerTopicMetrics_RemoteLogSizeBytes)",
                "{{topic}}",
            ),
        ),
    ),
    Panel(
        "Since the last success",
        "s",
        (
            ("time() - tierledger_kafka_success_seconds", "import or mirror"),
            ("time() - tierledger_host_checkpoint_success_seconds", "checkpoint, {{host}}"),
            ("time() - tierledger_purge_success_seconds", "purge"),
            ("time() - tierledger_backup_success_seconds", "backup"),
            ("tierledger_host_silence_seconds", "heartbeat, {{host}}"),
            ("tierledger_plugin_silence_seconds", "plugin of broker {{broker}}"),
        ),
    ),
    Panel(
        "Events behind",
        "short",
        (
            ("tierledger_host_follower_lag_events_max", "followers on {{host}}"),
            ("tierledger_host_feed_lag_events_max", "replicas fed by {{host}}"),
        ),
    ),
    Panel(
        "Calls that wait for one partition",
        "short",
        (("tierledger_host_inbox_calls_max", "{{host}}"),),
    ),
    Panel(
        "Trash",
        "bytes",
        (("tierledger_trash_bytes", "kept"),),
    ),
    Panel(
        "Segments in the trash",
        "short",
        (
            ("tierledger_trash_segments", "kept"),
            ("tierledger_unexplained_segments", "unexplained"),
            ("increase(tierledger_purged_segments_total[1h])", "purged in an hour"),
        ),
    ),
    Panel(
        "Age of the oldest in the trash",
        "s",
        (
            ("time() - tierledger_trash_oldest_seconds", "deleted"),
            ("time() - tierledger_trash_due_since_seconds", "due"),
        ),
    ),
    Panel(
        "Deletions refused in an hour",
        "short",
        (
            (
                "sum by (hold) (increase(tierledger_host_refused_deletions_total[1h]))",
                "{{hold}}",
            ),
        ),
    ),
    Panel(
        "Alarms in an hour",
        "short",
        (("sum by (kind) (increase(tierledger_host_alarms_total[1h]))", "{{kind}}"),),
    ),
    Panel(
        "Kafka's metadata topic",
        "short",
        (
            ("tierledger_kafka_import_lag_records", "not imported yet"),
            ("tierledger_kafka_foreign_records", "foreign"),
        ),
    ),
)
"""All panels of the dashboard."""

_METRIC = re.compile(r"\b(?:tierledger|kafka)_\w+")
_OF_HISTOGRAM = re.compile("_seconds_(?:bucket|count)$")

WIDTH, HEIGHT = 12, 8
"""Of a panel, in Grafana's grid of 24 columns."""


def metrics_in(expression: str) -> set[str]:
    """The metrics of a service that an expression asks for."""
    return {_OF_HISTOGRAM.sub("_seconds", name) for name in _METRIC.findall(expression)}


def rules(runbook: str = RUNBOOK) -> Iterator[str]:
    """The lines of a file of rules for Prometheus; `runbook` is where its page is read."""

    def text(value: str) -> str:
        return json.dumps(value, ensure_ascii=False)  # YAML reads it as it stands.

    yield "groups:"
    yield "  - name: tierledger"
    yield "    rules:"
    for one in ALERTS:
        yield f"      - alert: {one.name}"
        yield f"        expr: {text(one.expression)}"
        yield f"        for: {one.lasts}"
        yield "        labels:"
        yield f"          severity: {one.severity}"
        yield "        annotations:"
        yield f"          summary: {text(one.summary)}"
        yield f"          runbook_url: {text(f'{runbook}#{one.anchor}')}"


def dashboard() -> dict[str, Any]:
    """A dashboard for Grafana; whoever imports it chooses the source of the data."""
    source = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "title": "tierledger",
        "uid": "tierledger",
        "schemaVersion": 38,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "tags": ["kafka", "tierledger"],
        "templating": {
            "list": [{"name": "datasource", "type": "datasource", "query": "prometheus"}]
        },
        "panels": [
            {
                "id": number + 1,
                "type": "timeseries",
                "title": one.title,
                "datasource": source,
                "gridPos": {
                    "x": number % 2 * WIDTH,
                    "y": number // 2 * HEIGHT,
                    "w": WIDTH,
                    "h": HEIGHT,
                },
                "fieldConfig": {"defaults": {"unit": one.unit}, "overrides": []},
                "targets": [
                    {"refId": chr(ord("A") + at), "expr": expression, "legendFormat": legend}
                    for at, (expression, legend) in enumerate(one.lines)
                ],
            }
            for number, one in enumerate(PANELS)
        ],
    }

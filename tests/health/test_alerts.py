"""Alerts and the dashboard: what they ask for is served, and promtool agrees with the rules."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.house.test_documents import document, sections_of
from tests.models.cli.command_line import invoke
from tierledger.health.alerts import ALERTS, PANELS, dashboard, metrics_in
from tierledger.health.metrics import METRICS
from tierledger.health.troubles import KINDS, Severity

ASKED = {
    metric
    for expression in (
        *(one.expression for one in ALERTS),
        *(expression for one in PANELS for expression, _ in one.lines),
    )
    for metric in metrics_in(expression)
}
"""All metrics of alerts and panels; tests/ray/test_metrics.py sees a service serve them."""

TROUBLES = {f"Tierledger{severity.capitalize()}" for severity in Severity}


def promtool(*arguments: str | Path) -> None:
    program = shutil.which("promtool")
    assert program is not None, "scripts/promtool.sh installs it"
    done = subprocess.run(
        [program, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    result = invoke("metrics", "alerts", "--runbook", "https://wiki/runbook.md")
    assert result.exit_code == 0, result.output
    path = tmp_path / "rules.yml"
    path.write_text(result.stdout)
    return path


def test_every_metric_that_is_asked_for_is_one_that_is_served() -> None:
    assert len(ASKED) > 25
    assert {one.name for one in METRICS} >= ASKED


def test_no_panel_and_no_alert_is_by_partition() -> None:
    labels = {one.name: one.labels for one in METRICS}

    assert not [one for one in ASKED if "partition" in labels[one]]


def test_every_alert_has_a_section_that_says_what_to_look_at_and_to_do() -> None:
    sections = sections_of(document("docs/runbook.md"))

    assert set(sections) == {*KINDS, *(one.name for one in ALERTS)} - TROUBLES
    for one in ALERTS:
        if one.name not in TROUBLES:
            section = sections[one.name]
            assert f"*{one.severity}*: " in section
            assert "\ntierledger " in section
            assert "What to do: " in section


def test_prometheus_takes_the_rules(rules: Path) -> None:
    promtool("check", "rules", rules)


def test_prometheus_takes_what_panels_ask(tmp_path: Path) -> None:
    asked = [expression for one in PANELS for expression, _ in one.lines]
    recorded = [{"record": f"of:{at}", "expr": one} for at, one in enumerate(asked)]
    path = tmp_path / "panels.yml"
    path.write_text(json.dumps({"groups": [{"name": "panels", "rules": recorded}]}))

    promtool("check", "rules", path)


def told(name: str, **labels: str) -> dict[str, Any]:
    """An alert that is expected, with its summary and link."""
    (alert,) = [one for one in ALERTS if one.name == name]
    filled = {"{{ $labels." + key + " }}": value for key, value in labels.items()}
    summary, anchor = alert.summary, alert.anchor
    for what, value in filled.items():
        summary, anchor = summary.replace(what, value), anchor.replace(what, value)
    return {
        "exp_labels": {**labels, "severity": str(alert.severity)},
        "exp_annotations": {
            "summary": summary,
            "runbook_url": f"https://wiki/runbook.md#{anchor}",
        },
    }


CRITICAL = 'tierledger_trouble{code="host-silent",severity="critical",instance="a"}'
WARNING = 'tierledger_trouble{code="behind",severity="warning",instance="a"}'
UP = "tierledger_coordinator_up"
DAMAGED = 'tierledger_host_alarms_total{kind="damaged",host="host-0",instance="a"}'
TAKES = (
    "tierledger_host_store_seconds_bucket"
    '{operation="append",host="host-0",instance="a",le="%s"}'
)
IN_DOUBT = (
    "tierledger_host_door_seconds_count"
    '{operation="add",outcome="%s",host="host-0",instance="a"}'
)
SUCCESS = "tierledger_kafka_success_seconds"
BACKUP = "tierledger_backup_success_seconds"
DUE = "tierledger_trash_due_since_seconds"


@pytest.mark.parametrize(
    ("series", "at", "name", "expected"),
    [
        ({CRITICAL: "0x4 1x9"}, "6m", "TierledgerCritical", {"code": "host-silent"}),
        # Of a host that is replaced within seconds nobody is told.
        ({CRITICAL: "0x4 1 0x9"}, "6m", "TierledgerCritical", None),
        ({CRITICAL: "0x4 1x9"}, "6m", "TierledgerWarning", None),
        ({WARNING: "1x70"}, "61m", "TierledgerWarning", {"code": "behind"}),
        ({WARNING: "1x70"}, "59m", "TierledgerWarning", None),
        ({UP: "1x3 _x10"}, "12m", "TierledgerAbsent", {}),
        ({UP: "0x12"}, "12m", "TierledgerAbsent", None),
        ({DAMAGED: "0x2 1x9"}, "5m", "TierledgerReplicaNotFed", {"host": "host-0"}),
        ({DAMAGED: "1x9"}, "5m", "TierledgerReplicaNotFed", None),
        (
            {TAKES % "1.0": "0+60x30", TAKES % "2.5": "0+70x30", TAKES % "+Inf": "0+70x30"},
            "20m",
            "TierledgerStoreSlow",
            {"host": "host-0", "operation": "append"},
        ),
        (
            {TAKES % "1.0": "0+70x30", TAKES % "+Inf": "0+70x30"},
            "20m",
            "TierledgerStoreSlow",
            None,
        ),
        ({IN_DOUBT % "unknown": "0+1x30"}, "20m", "TierledgerCallsInDoubt", {"host": "host-0"}),
        ({IN_DOUBT % "unknown": "0 1x30"}, "20m", "TierledgerCallsInDoubt", None),
        ({IN_DOUBT % "ok": "0+1x30"}, "20m", "TierledgerCallsInDoubt", None),
        # Time begins at 0 in these tests: the success was then, too.
        ({SUCCESS: "0x20"}, "10m", "TierledgerKafkaNotFollowed", "10m 0s"),
        ({SUCCESS: "0+60x20"}, "10m", "TierledgerKafkaNotFollowed", None),
        ({BACKUP: "0x2000"}, "27h", "TierledgerBackupOld", "1d 3h 0m 0s"),
        ({BACKUP: "0x1000 60000x1000"}, "27h", "TierledgerBackupOld", None),
        ({DUE: "0x2000"}, "26h", "TierledgerTrashNotPurged", "1d 2h 0m 0s"),
        ({DUE: "0x2000"}, "23h", "TierledgerTrashNotPurged", None),
    ],
    ids=lambda one: None if isinstance(one, dict) else str(one),
)
def test_an_alert_is_told_when_it_has_to_be(
    rules: Path,
    series: dict[str, str],
    at: str,
    name: str,
    expected: dict[str, str] | str | None,
) -> None:
    alerts = []
    if isinstance(expected, str):
        alerts = [told(name)]
        annotations = alerts[0]["exp_annotations"]
        summary = annotations["summary"]
        annotations["summary"] = summary.replace("{{ $value | humanizeDuration }}", expected)
    elif expected is not None:
        alerts = [told(name, **expected)]
        if name != "TierledgerAbsent":
            alerts[0]["exp_labels"]["instance"] = "a"
    case = {
        "interval": "1m",
        "input_series": [{"series": key, "values": one} for key, one in series.items()],
        "alert_rule_test": [{"eval_time": at, "alertname": name, "exp_alerts": alerts}],
    }
    path = rules.parent / "test.yml"
    path.write_text(json.dumps({"rule_files": [str(rules)], "tests": [case]}))

    promtool("test", "rules", path)


def test_the_dashboard_has_each_panel_once_and_none_over_another() -> None:
    result = invoke("metrics", "dashboard")

    assert json.loads(result.stdout) == dashboard()
    panels = dashboard()["panels"]
    places = {(one["gridPos"]["x"], one["gridPos"]["y"]) for one in panels}
    assert len(places) == len({one["id"] for one in panels}) == len(PANELS)
    assert max(x for x, _ in places) == 12

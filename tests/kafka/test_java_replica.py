"""The plugin answers every question of every recorded trace as the Python replica does."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest

from tests.models.kafka.feed_vectors import write_vectors
from tierledger.simulation.live.server import QUICK_JAVA

ROOT = Path(__file__).parents[2]
TRACES = ROOT / "tests" / "traces"
PLUGIN = ROOT / "kafka-plugin"

ALL_TRACES = [records.parent for records in sorted(TRACES.rglob("records.jsonl.gz"))]
FEW_TRACES = ALL_TRACES[::6]


@pytest.mark.parametrize(
    ("traces", "questions_min"),
    [(FEW_TRACES, 10_000), pytest.param(ALL_TRACES, 100_000, marks=pytest.mark.long)],
    ids=["few", "all"],
)
def test_the_plugins_replica_answers_as_pythons_does(
    traces: list[Path], questions_min: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("mvn") is None or not (PLUGIN / "target").exists():
        raise RuntimeError("the plugin is not built: run scripts/setup.sh --with-plugin")
    asked = 0
    for trace in traces:
        name = str(trace.relative_to(TRACES))
        into = tmp_path / f"{name.replace('/', '-')}.txt.gz"
        asked += write_vectors(trace, into, Random(name), monkeypatch)
    assert asked > questions_min
    java = " ".join(QUICK_JAVA)
    done = subprocess.run(
        [
            "mvn",
            *("--offline", "--quiet", "--batch-mode", "surefire:test"),
            *("-Dtest=FeedsTest", f"-Dtierledger.feeds={tmp_path}"),
            f"-DargLine={java}",
        ],
        env=os.environ | {"MAVEN_OPTS": java},
        cwd=PLUGIN,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[:20_000]
    report = PLUGIN / "target/surefire-reports/TEST-org.tierledger.kafka.FeedsTest.xml"
    assert str(tmp_path) in report.read_text()

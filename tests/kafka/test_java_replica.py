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


def test_the_plugins_replica_answers_all_traces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("mvn") is None or not (PLUGIN / "target").exists():
        raise RuntimeError("the plugin is not built: run scripts/setup.sh --with-plugin")
    asked = 0
    for records in sorted(TRACES.rglob("records.jsonl.gz")):
        name = str(records.parent.relative_to(TRACES))
        into = tmp_path / f"{name.replace('/', '-')}.txt.gz"
        asked += write_vectors(records.parent, into, Random(name), monkeypatch)
    assert asked > 100_000
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

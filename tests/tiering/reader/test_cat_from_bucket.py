"""`tierledger cat` on what a copy task has put into a bucket, as a user runs it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.models.tiering import tier_trace
from tests.models.tiering.tier_broker import CLUSTER, Job, run
from tests.tiering.conftest import TierPlace

TIP = next(tip for tip in tier_trace.topics() if tip.topic == "payments-tx")
ISOLATIONS = ("read_uncommitted", "read_committed")


@pytest.fixture
def copied(tmp_path: Path, s3_tier: Callable[[], TierPlace]) -> Job:
    tier_trace.local_log_directory(tmp_path, TIP.topic, TIP.partition)
    job = Job(tmp_path, TIP, *s3_tier(), "copy")
    assert not run(job).was_killed
    return job


def cat(job: Job, *more: str) -> subprocess.CompletedProcess[str]:
    """The client finds the bucket through its own variables."""
    variables = {f"AWS_{name.upper()}": value for name, value in job.options.items()}
    return subprocess.run(
        [
            *(sys.executable, "-m", "tierledger.cli.main", "cat"),
            *(TIP.topic, str(TIP.partition), "--tier", job.url, "--cluster", CLUSTER),
            *("--store", f"sqlite:{job.folder / 'ledger.sqlite'}"),
            *("--cache", str(job.folder / "indexes"), *more),
        ],
        check=False,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_it_prints_what_a_consumer_got(copied: Job, isolation: str) -> None:
    result = cat(copied, "--isolation", isolation)

    assert (result.returncode, result.stderr) == (0, "")
    end = tier_trace.ends()[TIP.topic, TIP.partition]["latest_tiered_offset"]
    expected = [
        record
        for record in tier_trace.consumed(isolation)[TIP.topic, TIP.partition]
        if record["offset"] <= end
    ]
    printed = [json.loads(line) for line in result.stdout.splitlines()]
    assert printed
    assert printed == expected[: len(printed)]
    # Committed, it ends before the first transaction whose end is not in the tier.
    assert isolation == "read_committed" or len(printed) == len(expected)


def test_a_bucket_that_is_not_there_is_no_empty_tier(copied: Job) -> None:
    result = cat(copied._replace(url="s3://no-such-bucket/here"))

    assert result.returncode == 2
    assert "no such bucket" in result.stderr
    assert copied.options["secret_access_key"] not in result.stderr

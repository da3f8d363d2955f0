"""Metrics and status of a service that runs as a process of its own."""

import asyncio
import json
import os
import signal
import tempfile
import urllib.error
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.health.test_alerts import ASKED
from tests.health.test_metrics import get, page_at, value
from tests.models.actors.local_world import CLUSTER, copy, eventually, partition, segment
from tests.models.ray.brokers import Brokers, settings_for
from tests.ray.test_serve import COMMAND, served
from tierledger.actors.ray.cluster import leave_cluster
from tierledger.events.errors import InvalidStateTransition


@pytest.fixture
async def brokers(tmp_path: Path) -> AsyncIterator[Brokers]:
    """Brokers of a service that another process runs."""
    brokers = Brokers(settings_for(tmp_path / "store.sqlite"))
    yield brokers
    leave_cluster()


def requests_logged(pid: int) -> list[dict[str, str]]:
    """What hosts of a service, by the pid of `serve`, have logged of calls."""
    files = Path(tempfile.gettempdir()).glob(f"ray/session_*_{pid}/logs/*.err")
    lines = [line for file in files for line in file.read_text().splitlines()]
    return [json.loads(line) for line in lines if '"request"' in line]


async def test_scrapes_and_looks_see_what_a_service_does(brokers: Brokers) -> None:
    store = brokers.settings.storage["metadata.storage.url"]
    tips = [partition(number) for number in range(3)]
    forms = ("--metrics-port", 0, "--log-format", "json")
    with served(store, "--cluster", CLUSTER, *forms) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        before, page = await get(address), await page_at(address)
        options = ("--store", store, "--watch", "--interval", "200ms", "--json")
        watch = await asyncio.create_subprocess_exec(
            *COMMAND, "status", *options, stdout=asyncio.subprocess.PIPE
        )
        assert watch.stdout is not None
        first = json.loads(await watch.stdout.readline())
        leader, follower = await brokers.manager(1), await brokers.manager(2)
        await leader.on_partition_leadership_changes(tips, [])
        await follower.on_partition_leadership_changes([], tips[:2])
        await leader.when_ready(tips)
        await follower.when_ready(tips[:2])
        positions = [await copy(leader, segment(0, tip), segment(1, tip)) for tip in tips]
        after = await get(address)
        while value(after, "led_events") != sum(positions) + 3:  # Of a second ago, at first.
            after = await get(address)
        last, seen = first, list[int]()
        while seen != positions or last["totals"]["lag_events_max"]:
            last = json.loads(await watch.stdout.readline())
            seen = [one["position"] for one in last["partitions"]]
        with pytest.raises(InvalidStateTransition) as refused:
            await leader.add_remote_log_segment_metadata(segment(0, tips[0], size=99))
        await eventually(lambda: requests_logged(process.pid))
        lines = requests_logged(process.pid)
        for manager in brokers.managers:
            await manager.close()
        watch.send_signal(signal.SIGINT)
        await watch.communicate()
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(60) == 0

    assert [f"(request {one['request']})" in str(refused.value) for one in lines] == [True]
    assert {one for one in ASKED if f"# TYPE {one.removesuffix('_total')}" not in page} == set()
    assert value(after, "host_silence_seconds", host="host-0") is not None
    assert value(before, "host_up", host="host-0") == 1
    assert value(before, "known_partitions") == 0
    assert first["service"]["metrics"] == address
    assert watch.returncode == 0
    assert last["totals"]["partitions_led"] == value(after, "led_partitions") == 3
    assert last["totals"]["followers"] == value(after, "host_followers", host="host-0") == 2
    assert [one["trouble"] for one in last["partitions"]] == [None] * 3
    assert value(after, "open_sessions") == 3
    assert value(after, "broker_incarnation", broker="2") == 1
    assert value(after, "host_commits_total", host="host-0")
    assert value(after, "host_store_seconds_count", host="host-0", operation="append")
    assert value(after, "coordinator_position") == last["coordinator"]["position"]
    with pytest.raises(urllib.error.URLError, match="refused"):
        await get(address)

"""The commands against a service on Ray, as a user runs them."""

import asyncio
import json
import os
from pathlib import Path

import pytest
from typer.testing import Result

from tests.models.actors.local_world import CLUSTER, copy, partition, segment
from tests.models.cli.command_line import invoke, lines
from tests.models.ray.brokers import Brokers
from tests.models.storage.stored_partitions import TRACES
from tierledger.actors.ray.service import RayService

HISTORIES = [TRACES / "histories" / f"seed-{number:02}" for number in (3, 11, 27)]
LARGE = [TRACES / name for name in ("one-broker", "topic-deletion", "large")]


def run(service: RayService, *arguments: object) -> Result:
    storage = service.settings.storage["metadata.storage.url"]
    return invoke(*arguments, "--store", storage, "--cluster", CLUSTER)


def assert_replayed(service: RayService, *arguments: object) -> None:
    result = run(service, "replay", *arguments, "--check", "--from", "all", "--json")

    for summary in lines(result):
        assert summary["host_kills"] >= 1
        assert summary["records_refused"] == 0
        for source in ("leader", "follower", "storage"):
            told = summary[f"answers_from_{source}"]
            assert (told["wrong"], told["missed"]) == (0, 0)


@pytest.mark.parametrize(
    ("traces", "churn"),
    [
        ([TRACES / "custom-metadata", TRACES / "custom-metadata-over-limit"], 3),
        pytest.param(LARGE, 5, marks=pytest.mark.long),
        pytest.param(HISTORIES, 5, marks=pytest.mark.long),
        pytest.param([TRACES / "three-brokers-churn"], 50, marks=pytest.mark.long),
    ],
    ids=["small", "large", "histories", "churn"],
)
def test_traces_are_answered_as_kafka_did_whoever_is_asked(
    service: RayService, traces: list[Path], churn: int
) -> None:
    """Each in one process, too: see tests/cli/test_replay_command.py."""
    assert_replayed(service, *traces, "--churn", churn)


def test_whatever_was_replayed_verifies(service: RayService) -> None:
    assert_replayed(service, TRACES / "tier", "--churn", 3, "--origin", "to be verified")

    reports = lines(run(service, "verify", "--json"))

    assert len(reports) >= 13
    assert all(one["passed"] for one in reports)


async def test_a_command_can_ask_the_leader_the_follower_or_the_store(
    brokers: Brokers, service: RayService
) -> None:
    tip = partition(77)
    leader, follower = await brokers.manager(1), await brokers.manager(2)
    await leader.on_partition_leadership_changes([tip], [])
    await follower.on_partition_leadership_changes([], [tip])
    await leader.when_ready([tip])
    follower.observe(tip, await copy(leader, *(segment(n, tip) for n in range(3))))
    assert await follower.highest_offset_for_epoch(tip, 0) == 29

    def ask(*arguments: object) -> list[Result]:
        sources = ("leader", "follower", "store")
        return [run(service, *arguments, "--from", one) for one in sources]

    found = await asyncio.to_thread(ask, "lookup", "orders", 77, 0, 15, "--json")
    listed = await asyncio.to_thread(ask, "segments", "orders", 77, "--json")
    by_epoch = await asyncio.to_thread(ask, "segments", "orders", 77, "--epoch", 0)
    missed = await asyncio.to_thread(ask, "lookup", "orders", 77, 0, 99)

    assert {one.exit_code for one in (*found, *listed, *by_epoch)} == {0}
    assert {json.loads(one.stdout)["start_offset"] for one in found} == {10}
    for results in (found, listed, by_epoch, missed):
        assert len({one.stdout for one in results}) == 1
    assert {(one.exit_code, one.stdout) for one in missed} == {(1, "no segment\n")}
    (status,) = lines(await asyncio.to_thread(run, service, "status", "--json"))
    assert status["service"]["pid"] == os.getpid()
    assert set(status["brokers"]) >= {"1", "2"}
    (found,) = [one for one in status["partitions"] if one["partition"] == 77]
    assert found["leader"] is not None
    assert len(found["followers"]) == 1
    shown = await asyncio.to_thread(run, service, "status")
    assert "broker 1" in shown.stdout


async def test_what_nobody_hosts_is_read_by_a_host_or_not_at_all(
    brokers: Brokers, service: RayService
) -> None:
    tip = partition(78)
    leader = await brokers.manager(1)
    await leader.on_partition_leadership_changes([tip], [])
    await copy(leader, segment(0, tip))

    unfollowed = await asyncio.to_thread(
        run, service, "lookup", "orders", 78, 0, 5, "--from", "follower"
    )
    await leader.on_stop_partitions([tip])
    released = await asyncio.to_thread(
        run, service, "lookup", "orders", 78, 0, 5, "--from", "follower"
    )

    assert (unfollowed.exit_code, released.exit_code) == (0, 0)
    assert "its leader answered" in unfollowed.stderr
    assert "answered from the store" in released.stderr
    assert unfollowed.stdout == released.stdout


def test_a_second_serve_is_refused_and_told_who_serves(service: RayService) -> None:
    result = run(service, "serve")

    assert result.exit_code == 2
    assert result.stdout == ""
    assert f"pid {os.getpid()}" in result.stderr

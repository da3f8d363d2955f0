"""A stock broker deletes nothing that is under a hold, and all of it after the release."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin.config_resource import (  # type: ignore[import-untyped] # It has no types.
    ConfigResource,
    ConfigResourceType,
)

from tests.kafka.test_one_broker import TOPIC, settings_of, until
from tests.kafka.test_seal import earliest
from tests.models.cli.command_line import lines, run
from tests.models.kafka import kafka_page
from tests.models.kafka.clients import administered, consumed, create_topic, produced
from tests.models.kafka.tiered_broker import GUARDED, TieredBroker
from tests.ray.test_serve import served
from tierledger.benchmarks.kafka_broker import JARS, OLDEST, SHORT_SESSION, SUITE
from tierledger.simulation.live.server import free_ports

ROUNDS = 5

pytestmark = [pytest.mark.ray, pytest.mark.long]


@pytest.mark.parametrize("jars", [OLDEST, SUITE, JARS], ids=["3.9", "4.3", "newest"])
async def test_retention_deletes_what_was_held_once_it_is_released(
    jars: Path, tmp_path: Path
) -> None:
    ledger, door = tmp_path / "ledger.sqlite", f"127.0.0.1:{free_ports()}"
    broker = TieredBroker(door, tmp_path / "tier", SHORT_SESSION, jars)
    serve, handover = kafka_page.commands(f"sqlite:{ledger}", door, broker.address)[:2]
    with served(f"sqlite:{ledger}", *serve[3:]), broker:
        assert (await tool(ledger, *handover)).exit_code == 0
        settings = settings_of(broker)
        await create_topic(broker.address, TOPIC, settings=settings)
        sent = await produced(broker.address, TOPIC, 0, 120)
        await until(lambda: broker.is_tiered(TOPIC))
        tiered = {*broker.tiered_logs()}
        added = await tool(
            ledger, "hold", "add", "audit", "--topic", "ord*", "--reason", "the audit reads it"
        )
        assert (added.exit_code, added.stdout) == (0, "hold audit is placed\n"), added.output
        assert await consumed(broker.address, TOPIC) == sent

        await expire(broker, settings)
        await eventually_refused(ledger)
        assert tiered <= {*broker.tiered_logs()}
        assert broker.errors() == []
        assert len(ended(broker)) >= ROUNDS, "one warning a round"
        assert await earliest(broker) > 0, "Kafka raises it before it deletes"

        done = await tool(ledger, "hold", "release", "audit", "--reason", "it is done")
        assert done.exit_code == 0, done.output
        await until(lambda: not tiered & {*broker.tiered_logs()})


@pytest.mark.parametrize("jars", [OLDEST, SUITE, JARS], ids=["3.9", "4.3", "newest"])
async def test_with_the_guard_brokers_go_on_and_what_they_delete_stays_and_is_purged(
    jars: Path, tmp_path: Path
) -> None:
    ledger, door = tmp_path / "ledger.sqlite", f"127.0.0.1:{free_ports()}"
    broker = TieredBroker(door, tmp_path / "tier", {**SHORT_SESSION, **GUARDED}, jars)
    serve, handover = kafka_page.commands(f"sqlite:{ledger}", door, broker.address)[:2]
    with served(f"sqlite:{ledger}", *serve[3:]), broker:
        assert (await tool(ledger, *handover)).exit_code == 0
        settings = settings_of(broker)
        await create_topic(broker.address, TOPIC, settings=settings)
        sent = await produced(broker.address, TOPIC, 0, 120)
        await until(lambda: broker.is_tiered(TOPIC))
        tiered = {*broker.tiered_logs()}
        for name, *term in (("undo", "--term", "1s"), ("audit",)):
            every = ("--topic", "*", *term, "--reason", "undo")
            added = await tool(ledger, "hold", "add", name, *every)
            assert added.exit_code == 0, added.output

        await expire(broker, settings)
        assert await eventually_kept(ledger, len(tiered) - 2) == {"retention"}
        assert await earliest(broker) > 0
        assert (await consumed(broker.address, TOPIC)) == sent[await earliest(broker) :]

        async with administered(broker.address) as admin:
            await admin.delete_topics([TOPIC])
        assert await eventually_kept(ledger, len(tiered)) == {"retention", "topic"}
        assert tiered <= {*broker.tiered_logs()}, "all of it is in the tier"
        (one,) = lines(await tool(ledger, "trash", "ls", "--json"))
        assert one["segments"] >= len(tiered)
        assert (await tool(ledger, "segments", TOPIC, 0, "--json")).stdout == ""

        done = await tool(ledger, "hold", "release", "audit", "--reason", "it is done")
        assert done.exit_code == 0, done.output
        await until(lambda: not broker.tiered_logs())
        async with asyncio.timeout(60):
            while (await tool(ledger, "trash", "ls", "--json")).stdout:
                pass
        assert broker.errors() == []
        assert ended(broker) == [], "no round of retention ended early"


async def test_a_purge_whose_broker_dies_before_it_reports_is_done_again(
    tmp_path: Path,
) -> None:
    ledger, door = tmp_path / "ledger.sqlite", f"127.0.0.1:{free_ports()}"
    broker = TieredBroker(door, tmp_path / "tier", {**SHORT_SESSION, **GUARDED})
    serve, handover = kafka_page.commands(f"sqlite:{ledger}", door, broker.address)[:2]
    with served(f"sqlite:{ledger}", *serve[3:]), broker:
        assert (await tool(ledger, *handover)).exit_code == 0
        await create_topic(broker.address, TOPIC, settings=settings_of(broker))
        await produced(broker.address, TOPIC, 0, 120)
        await until(lambda: broker.is_tiered(TOPIC))
        for name, *until_when in (("undo", "--term", "1s"), ("audit",)):
            every = ("--topic", "*", *until_when, "--reason", "undo")
            assert (await tool(ledger, "hold", "add", name, *every)).exit_code == 0
        async with administered(broker.address) as admin:
            await admin.delete_topics([TOPIC])
        tiered = broker.tiered_logs()
        await eventually_kept(ledger, len(tiered))
        (host,) = json.loads((await tool(ledger, "status", "--json")).stdout)["hosts"]

        release = ("hold", "release", "audit", "--reason", "it is done")
        released = asyncio.create_task(tool(ledger, *release))
        deleted = await asyncio.to_thread(frozen_between, host["pid"], tiered, ledger)
        broker.kill()
        os.kill(host["pid"], signal.SIGKILL)  # The report may wait at its door.
        await released

        broker.start()
        await until(lambda: not broker.tiered_logs())
        async with asyncio.timeout(60):
            while (await tool(ledger, "trash", "ls", "--json")).stdout:
                pass
        # On a busy machine the controller that was killed calls its own heartbeats late.
        assert [one for one in broker.errors() if "QuorumController" not in one] == []
        purges = await asyncio.to_thread(purges_in, ledger)
        assert purges[deleted] == ["SegmentPurgeStarted", "SegmentPurged"]


def frozen_between(host: int, tiered: list[Path], ledger: Path) -> str:
    """The id of a segment whose data is gone, which the ledger has not heard: `host` is frozen.

    Looks at a segment that has just gone; if its purge has ended already, at the next.
    """
    waiting = list(tiered)
    while True:
        gone = next((log for log in waiting if not log.exists()), None)
        if gone is None:
            assert waiting, "no purge was seen between its two events"
            continue
        os.kill(host, signal.SIGSTOP)
        segment_id = gone.stem.partition("-")[2]
        if purges_in(ledger)[segment_id] == ["SegmentPurgeStarted"]:
            return segment_id
        waiting.remove(gone)
        os.kill(host, signal.SIGCONT)


def purges_in(ledger: Path) -> dict[str, list[str]]:
    """The events of each segment's purge, by its id."""
    found: dict[str, list[str]] = defaultdict(list)
    for one in lines(run(ledger, "log", TOPIC, 0, "--json")):
        if one["type"] in {"SegmentPurgeStarted", "SegmentPurged"}:
            found[one["id"]].append(one["type"])
    return found


async def eventually_kept(ledger: Path, segments: int) -> set[str]:
    """What deleted the segments in the trash, once there are so many."""
    async with asyncio.timeout(60):
        while len(kept := lines(await tool(ledger, "trash", "show", TOPIC, 0, "--json"))) < (
            segments
        ):
            pass
    return {one["deleted_by"] for one in kept}


async def tool(ledger: Path, *given: object) -> Any:  # noqa: ANN401 - See `run`.
    return await asyncio.to_thread(run, ledger, *given)


def ended(broker: TieredBroker) -> list[str]:
    """The warnings that a round of retention has ended early."""
    return re.findall(r"^WARN .*RLMTask.* received error", broker.log(), re.MULTILINE)


async def eventually_refused(ledger: Path) -> None:
    """Return once some rounds of retention were refused."""
    async with asyncio.timeout(60):
        while lines(await tool(ledger, "hold", "ls", "--json"))[0]["refused"] < ROUNDS:
            pass


async def expire(broker: TieredBroker, settings: dict[str, str]) -> None:
    """Let retention delete nearly all of the topic."""
    shorter = {"retention.bytes": "1024", "local.retention.bytes": "512"}
    await configure(broker, {**settings, **shorter})


async def configure(broker: TieredBroker, settings: dict[str, str]) -> None:
    """Give the topic these settings in place of its own."""
    async with administered(broker.address) as admin:
        given = ConfigResource(ConfigResourceType.TOPIC, TOPIC, settings)
        (answer,) = await admin.alter_configs([given])
        assert answer.resources[0][0] == 0, answer

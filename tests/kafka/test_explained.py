"""A stock broker deletes what Kafka's rules explain; the rest is kept until a release."""

from __future__ import annotations

import asyncio
import json
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiokafka import TopicPartition  # type: ignore[import-untyped] # It has no types.
from aiokafka.admin import RecordsToDelete  # type: ignore[import-untyped]

from tests.kafka.test_holds import configure, expire, tool
from tests.kafka.test_one_broker import TOPIC, settings_of, until
from tests.kafka.test_seal import earliest
from tests.models.cli.command_line import lines
from tests.models.kafka import kafka_page
from tests.models.kafka.clients import administered, create_topic, produced
from tests.models.kafka.tiered_broker import GUARDED, TieredBroker
from tests.ray.test_serve import served
from tierledger.benchmarks.kafka_broker import JARS, OLDEST, SHORT_SESSION, SUITE
from tierledger.moving.freshness import once_led
from tierledger.simulation.live.server import free_ports

pytestmark = pytest.mark.ray


@pytest.mark.parametrize(
    "jars", [pytest.param(OLDEST, marks=pytest.mark.long), JARS], ids=["3.9", "newest"]
)
async def test_only_what_no_rule_explains_is_kept(jars: Path, tmp_path: Path) -> None:
    ledger, door = tmp_path / "ledger.sqlite", f"127.0.0.1:{free_ports()}"
    broker = TieredBroker(door, tmp_path / "tier", {**SHORT_SESSION, **GUARDED}, jars)
    serve, handover = kafka_page.commands(f"sqlite:{ledger}", door, broker.address)[:2]
    with served(f"sqlite:{ledger}", *serve[3:], "--breaker", 80), broker:
        assert (await tool(ledger, *handover)).exit_code == 0
        settings = settings_of(broker)
        await create_topic(broker.address, TOPIC, settings=settings)
        await produced(broker.address, TOPIC, 0, 120)
        await until(lambda: broker.is_tiered(TOPIC))
        tiered = lines(await tool(ledger, "segments", TOPIC, 0, "--json"))
        count = len(broker.tiered_logs())

        # Into a segment: no segment ends there, so somebody has asked for it.
        await delete_records(broker, tiered[1]["start_offset"] + 1)
        await until(lambda: len(broker.tiered_logs()) == count - 1)
        assert await troubles(ledger) == []

        # To the end of one, as retention leaves a log, with nothing that is due.
        await delete_records(broker, tiered[3]["end_offset"] + 1)
        async with asyncio.timeout(60):
            while len(kept := lines(await shown(ledger))) < 3:
                pass
        assert [one["start_offset"] for one in kept] == [
            one["start_offset"] for one in tiered[1:4]
        ]
        assert all("where a segment ends, as retention leaves" in one["reason"] for one in kept)
        (trouble,) = await troubles(ledger)
        assert (trouble["severity"], trouble["subject"]) == ("critical", f"partition {TOPIC}-0")
        assert "3 segments" in trouble["text"]
        assert len(broker.tiered_logs()) == count - 1

        done = await tool(ledger, "trash", "release", TOPIC, "--reason", "we did it", "--json")
        assert lines(done)[0]["released"] == 3
        await until(lambda: len(broker.tiered_logs()) == count - 4)
        assert await troubles(ledger) == []

        await expire(broker, settings)
        await until(lambda: len(broker.tiered_logs()) <= 2)
        assert (await shown(ledger)).stdout == ""
        assert broker.errors() == []


async def shown(ledger: Path) -> Any:  # noqa: ANN401 - See `run`.
    return await tool(ledger, "trash", "show", TOPIC, 0, "--json")


async def troubles(ledger: Path) -> list[dict[str, Any]]:
    """Those about deletions."""
    status = json.loads((await tool(ledger, "status", "--json")).stdout)
    return [one for one in status["troubles"] if one["code"].startswith("deletion")]


async def delete_records(broker: TieredBroker, before: int) -> None:
    async with administered(broker.address) as admin:
        await admin.delete_records({TopicPartition(TOPIC, 0): RecordsToDelete(before)})


@pytest.mark.long
@pytest.mark.parametrize("jars", [OLDEST, SUITE], ids=["3.9", "4.3"])
@pytest.mark.parametrize("is_guarded", [True, False], ids=["guarded", "bare"])
async def test_a_leader_that_counts_bytes_twice_loses_none_with_the_guard(
    is_guarded: bool, jars: Path, tmp_path: Path
) -> None:
    # KAFKA-20732: a leader that has neither copied nor, as a follower, asked what is copied
    # takes all of its folder for not tiered. Copies are off, and no manager answers a follower.
    ledger, door = tmp_path / "ledger.sqlite", f"127.0.0.1:{free_ports()}"
    guard = GUARDED if is_guarded else {}
    broker = TieredBroker(door, tmp_path / "tier", {**SHORT_SESSION, **guard}, jars)
    serve, handover = kafka_page.commands(f"sqlite:{ledger}", door, broker.address)[:2]
    with broker:
        with served(f"sqlite:{ledger}", *serve[3:]):
            assert (await tool(ledger, *handover)).exit_code == 0
            settings = {**settings_of(broker), "local.retention.bytes": "-2"}
            await create_topic(broker.address, TOPIC, settings=settings)
            await produced(broker.address, TOPIC, 0, 120)
            await until(lambda: len(broker.tiered_logs()) == broker.local_segments(TOPIC) - 1)
            tiered = {*broker.tiered_logs()}
            size = sum(one.stat().st_size for one in tiered)
            limit = str(size * 3 // 2)  # More than there is, and less than twice of it.
            without = {"retention.bytes": limit, "remote.log.copy.disable": "true"}
            await configure(broker, {**settings, **without})
        broker.restart(signal.SIGTERM)
        await once_led(partial(earliest, broker))
        with served(f"sqlite:{ledger}", *serve[3:]):
            if not is_guarded:
                await until(lambda: len(broker.tiered_logs()) < len(tiered))
                return
            async with asyncio.timeout(60):
                while not (kept := lines(await shown(ledger))) or (
                    kept[-1]["end_offset"] + 1 < await earliest(broker)
                ):
                    pass
            assert f"retention.bytes is {limit}, the tier has" in kept[0]["reason"]
            (trouble,) = await troubles(ledger)
            assert trouble["code"] == "deletion-unexplained"
            assert {*broker.tiered_logs()} == tiered, "nothing within retention is lost"

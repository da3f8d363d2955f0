"""A stock broker tiers by Kafka's own manager inside the plugin; the ledger knows the same."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.test_one_broker import TOPIC, settings_of, until
from tests.models.cli.command_line import lines, run
from tests.models.kafka.clients import (
    WAIT_S,
    consumed,
    create_topic,
    delete_topic,
    produced,
)
from tests.models.kafka.tiered_broker import LISTENER, STOCK, TieredBroker
from tests.ray.test_serve import served
from tierledger.benchmarks.kafka_broker import CLUSTER_ID, JARS, OLDEST
from tierledger.simulation.live.server import free_ports

EMBEDDED = {
    key: STOCK[key] for key in STOCK if key.startswith(("rlmm.config.remote", LISTENER))
}
COMPARED = 20
"""Answers that are worth the name of a comparison."""

pytestmark = [pytest.mark.ray, pytest.mark.long]


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


# What is of the manager inside on the classes of 3.9, `test_modes` tries as well.
@pytest.fixture(
    params=[
        pytest.param(OLDEST, marks=pytest.mark.long, id="3.9"),
        pytest.param(JARS, id="newest"),
    ]
)
def jars(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


# `test_moving` tiers in the mode handover as well.
@pytest.fixture(params=["shadow", "handover"])
def broker(
    request: pytest.FixtureRequest, tmp_path: Path, ledger: Path, jars: Path
) -> Iterator[TieredBroker]:
    door = f"127.0.0.1:{free_ports()}"
    settings = {**EMBEDDED, "rlmm.config.tierledger.mode": request.param}
    broker = TieredBroker(door, tmp_path / "tier", settings, jars)
    options = ["--cluster", CLUSTER_ID, "--listen", door, "--kafka", broker.address]
    with served(f"sqlite:{ledger}", *options), broker:
        done = run(ledger, "handover", "--to", "kafka", "--kafka", broker.address)
        assert done.exit_code == 0, done.output
        yield broker


async def test_it_tiers_and_reads_as_without_the_plugin(
    broker: TieredBroker, ledger: Path
) -> None:
    await create_topic(broker.address, TOPIC, settings=settings_of(broker))
    sent = await produced(broker.address, TOPIC, 0, 120)
    await until(lambda: broker.is_tiered(TOPIC))
    assert await consumed(broker.address, TOPIC) == sent
    assert broker.errors() == []
    # The import is behind the topic at times, and then differences are true; not at its end.
    finished = len(broker.tiered_logs())
    await eventually(lambda: finished <= states(ledger).count("COPY_SEGMENT_FINISHED"))
    if broker.settings["rlmm.config.tierledger.mode"] == "shadow":
        known = await asyncio.to_thread(run, ledger, "log", TOPIC, 0, "--json")
        head = lines(known)[-1]["position"]
        before = (await asyncio.to_thread(shadow, ledger))["equal"]
        await eventually(lambda: shadow(ledger)["equal"] >= before + COMPARED)
        differences = (await asyncio.to_thread(shadow, ledger))["differences"]
        assert all(one["position"] < head for one in differences), differences
    await delete_topic(broker.address, TOPIC)
    await until(lambda: not broker.tiered_logs())
    assert broker.errors() == []


def states(ledger: Path) -> list[str]:
    """Of the segments that the ledger knows, if it knows of the topic."""
    known = run(ledger, "segments", TOPIC, 0, "--json")
    return [] if known.exit_code else [one["state"] for one in lines(known)]


async def eventually(is_so: Callable[[], bool]) -> None:
    """Return once that is so, which commands are asked."""
    async with asyncio.timeout(WAIT_S):
        while not await asyncio.to_thread(is_so):  # noqa: ASYNC110 - Other processes do it.
            await asyncio.sleep(0.2)


def shadow(ledger: Path) -> dict[str, Any]:
    """The broker's counts of compared answers."""
    status = json.loads(run(ledger, "status", "--json").output)
    (found,) = status["coordinator"]["shadows"] or [{"equal": 0}]
    return dict(found)

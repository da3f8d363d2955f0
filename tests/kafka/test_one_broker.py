"""A stock broker tiers through the plugin, drops its own copies, and gives everything back."""

import asyncio
import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.models.cli.command_line import lines, run
from tests.models.kafka import kafka_page
from tests.models.kafka.clients import (
    WAIT_S,
    consumed,
    create_topic,
    delete_topic,
    produced,
)
from tests.models.kafka.tiered_broker import TIERED, TieredBroker
from tests.ray.test_serve import served
from tierledger.benchmarks.kafka_broker import JARS, OLDEST, SHORT_SESSION, SUITE
from tierledger.cli.exit_status import ExitStatus
from tierledger.moving.broker_versions import OldestVersion
from tierledger.simulation.live.server import free_ports
from tierledger.storage.kafka_brokers import KafkaBrokers

TOPIC = "orders"
VERSIONS = {
    jars: (version, f"broker 1: {version}")
    for jars, version in ((OLDEST, "3.9"), (SUITE, "4.3"), (JARS, "4.4"))
}
"""What the broker of each release tells of itself."""

pytestmark = pytest.mark.ray


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture(
    params=[*(pytest.param(one, marks=pytest.mark.long) for one in (OLDEST, SUITE)), JARS],
    ids=["3.9", "4.3", "newest"],
)
def broker(
    request: pytest.FixtureRequest, tmp_path: Path, ledger: Path
) -> Iterator[TieredBroker]:
    door = f"127.0.0.1:{free_ports(2)}"
    slip = {"rlmm.config.tierledger.mod": "shadow"}  # Which `doctor` is to find.
    settings = {**SHORT_SESSION, **slip}
    broker = TieredBroker(door, tmp_path / "tier", settings, request.param)
    store = f"sqlite:{ledger}"
    serve, handover = kafka_page.commands(store, door, broker.address)[:2]
    assert serve[:3] == ["serve", "--store", store]
    with served(store, *serve[3:], "--hosts", 2), broker:
        done = run(ledger, *handover)
        assert done.exit_code == 0, done.output
        yield broker


def settings_of(broker: TieredBroker) -> dict[str, str]:
    """A topic's; 3.9 has no other name for segments below a mebibyte."""
    small = "segment.bytes" if broker.jars == OLDEST else "internal.segment.bytes"
    return {small if key == "internal.segment.bytes" else key: TIERED[key] for key in TIERED}


def looked_at(broker: TieredBroker, ledger: Path) -> dict[str, str]:
    """What `doctor` finds of the broker, the service and the store, without clocks."""
    result = run(ledger, "doctor", "--kafka", broker.address, "--json")
    assert result.exit_code == ExitStatus.FOUND, result.output
    rows = [json.loads(one) for one in result.stdout.splitlines()]
    assert "the plugin has no setting rlmm.config.tierledger.mod" in {
        one["text"] for one in rows
    }
    wanted = ("kafka", "broker", "plugin", "door", "store-", "service")
    return {
        one["check"]: one["state"]
        for one in rows
        if one["check"].startswith(wanted) and not one["check"].endswith("-clock")
    }


async def test_what_was_produced_is_read_from_the_tier_until_it_is_deleted(
    broker: TieredBroker, ledger: Path
) -> None:
    await create_topic(broker.address, TOPIC, settings=settings_of(broker))
    sent = await produced(broker.address, TOPIC, 0, 120)
    await until(lambda: broker.is_tiered(TOPIC))
    assert await consumed(broker.address, TOPIC) == sent
    known = await asyncio.to_thread(segments, ledger)
    finished = [one for one in known if one["state"] == "COPY_SEGMENT_FINISHED"]
    assert len(finished) == len(broker.tiered_logs()) >= 10
    assert broker.errors() == []
    assert await asyncio.to_thread(version_of, broker, ledger) == VERSIONS[broker.jars]
    assert await watched_version(broker) == VERSIONS[broker.jars][0]
    assert await asyncio.to_thread(looked_at, broker, ledger) == {
        "kafka-cluster": "well",
        "brokers": "well",
        "broker-settings": "warning",  # It has no guard.
        "kafka-seal": "well",
        "service": "well",
        "doors": "well",
        "plugins": "well",
        "broker-clocks": "well",
        "service-kafka": "well",
        "store-read": "well",
        "store-write": "not_looked_at",  # The service has the file open.
    }
    assert await asyncio.to_thread(leader_epochs, ledger) == [0], (
        "which the broker has not said"
    )

    broker.restart(signal.SIGKILL)

    sent += await produced(broker.address, TOPIC, 120, 200)
    await until(lambda: broker.is_tiered(TOPIC))
    assert await consumed(broker.address, TOPIC) == sent

    await delete_topic(broker.address, TOPIC)
    await until(lambda: not broker.tiered_logs())
    assert broker.errors() == []


def version_of(broker: TieredBroker, ledger: Path) -> tuple[str, str]:
    """The version whose rules a what-if uses that may ask the broker, and what told it."""
    asked = ("--what-if", "retention.ms=1d", "--kafka", broker.address)
    (told,) = lines(run(ledger, "jobs", "retention", *asked, "--json"))
    return told["kafka_version"], told["kafka_version_told_by"]


async def watched_version(broker: TieredBroker) -> str:
    """The version that `serve --kafka` has heard once it has asked the broker."""
    version = OldestVersion(KafkaBrokers(broker.address))
    asking = asyncio.create_task(version.run())
    await until(lambda: version.is_told)
    asking.cancel()
    return str(version())


def segments(ledger: Path) -> list[Any]:
    """The ledger's segments, as `tierledger segments` prints them."""
    return lines(run(ledger, "segments", TOPIC, 0, "--json"))


def leader_epochs(ledger: Path) -> list[int | None]:
    """Under which each session was opened."""
    known = lines(run(ledger, "log", TOPIC, 0, "--json"))
    opened = [one for one in known if one["type"] == "SessionOpened"]
    return [one["leader_epoch"] for one in opened]


async def until(is_so: Callable[[], bool]) -> None:
    """Return once that is so; the broker does it at intervals of its own."""
    async with asyncio.timeout(WAIT_S):
        while not is_so():  # noqa: ASYNC110 - Another process does it.
            await asyncio.sleep(0.1)

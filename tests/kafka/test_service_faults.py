"""A stock broker tiers on while its service is killed and frozen, and loses no record."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import Popen

import pytest
from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped] # It has no types.
from aiokafka.admin import (  # type: ignore[import-untyped] # It has no types.
    AIOKafkaAdminClient,
    NewTopic,
)

from tests.kafka.test_one_broker import TOPIC, consumed, until
from tests.models import kafka_page
from tests.models.command_line import lines, run
from tests.models.local_world import free_ports
from tests.models.tiered_broker import TIERED, TieredBroker
from tests.ray.test_serve import served
from tierledger.simulation.live.processes import descendants, end_all, is_running

pytestmark = [pytest.mark.ray, pytest.mark.long]

GONE = "gone"
PACE_S = 0.03


def processes(serve: Popen[str], title: str) -> list[int]:
    """Those of the service that call themselves so."""
    return [
        pid
        for pid in descendants(serve.pid)
        if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(f"ray::{title}".encode())
    ]


@asynccontextmanager
async def producing(broker: TieredBroker, sent: list[bytes]) -> AsyncIterator[None]:
    """Records are produced meanwhile, each once; behind it `sent` has got all of them."""
    ends = asyncio.Event()

    async def produce() -> None:
        async with AIOKafkaProducer(bootstrap_servers=broker.address) as producer:
            while not ends.is_set():
                value = b"%06d" % len(sent) + bytes(200)
                await producer.send_and_wait(TOPIC, value, partition=0)
                sent.append(value)
                await asyncio.sleep(PACE_S)

    task = asyncio.create_task(produce())
    try:
        yield
    finally:
        ends.set()
        await task


async def test_a_broker_outlives_whatever_becomes_of_its_service(tmp_path: Path) -> None:
    ledger, sent = tmp_path / "ledger.sqlite", list[bytes]()
    store, door = f"sqlite:{ledger}", f"127.0.0.1:{free_ports(2)}"
    with TieredBroker(door, tmp_path / "tier") as broker:  # Nobody answers it yet.
        pid = broker.pid
        serve, fresh = kafka_page.commands(store, door, broker.address)[:2]
        options = [*serve[3:], "--hosts", 2]

        async def tiers_on() -> None:
            """What is produced from now on is tiered, and leaves the broker's disk."""
            end = len(sent) + 20
            await until(lambda: broker.local_start(TOPIC) >= end)

        admin = AIOKafkaAdminClient(bootstrap_servers=broker.address)
        await admin.start()
        async with asyncio.timeout(400):
            with served(store, *options) as service:
                assert (await asyncio.to_thread(run, ledger, *fresh)).exit_code == 0
                topics = [NewTopic(one, 1, 1, topic_configs=TIERED) for one in (TOPIC, GONE)]
                await admin.create_topics(topics)
                async with AIOKafkaProducer(bootstrap_servers=broker.address) as producer:
                    for number in range(40):
                        await producer.send_and_wait(GONE, b"%0200d" % number, partition=0)
                await until(lambda: broker.local_start(GONE) >= 30)
                async with producing(broker, sent):
                    await tiers_on()
                    for how in (signal.SIGKILL, signal.SIGSTOP):
                        for title in ("HostShell", "Coordinator"):
                            for victim in await asyncio.to_thread(processes, service, title):
                                os.kill(victim, how)
                                await tiers_on()
                    assert service.poll() is None
                    end_all([service.pid, *descendants(service.pid)])
                    await admin.delete_topics([GONE])
                    await until(lambda: broker.local_start(GONE) == -1)
            with served(store, *options):
                async with producing(broker, sent):
                    await tiers_on()
                assert await consumed(broker) == sent
                left = [one.stem for one in (tmp_path / "tier").rglob(f"{GONE}-0-*/*.log")]
                found = await asyncio.to_thread(run, ledger, "segments", GONE, 0, "--json")
                known = tuple(one["id"] for one in lines(found))
                assert all(name.endswith(known) for name in left)
        await admin.close()
        assert broker.pid == pid
        assert is_running(pid)

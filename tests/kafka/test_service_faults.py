"""A stock broker tiers on while its service is killed and frozen, and loses no record."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from subprocess import Popen

import pytest

from tests.kafka.test_one_broker import TOPIC, until
from tests.models.cli.command_line import lines, run
from tests.models.kafka import kafka_page
from tests.models.kafka.clients import consumed, create_topic, delete_topic, produced, producing
from tests.models.kafka.tiered_broker import TIERED, TieredBroker
from tests.ray.test_serve import served
from tierledger.simulation.live.processes import descendants, end_all, is_running
from tierledger.simulation.live.server import free_ports

pytestmark = [pytest.mark.ray, pytest.mark.long]

GONE = "gone"


def processes(serve: Popen[str], title: str) -> list[int]:
    """Those of the service that call themselves so."""
    return [
        pid
        for pid in descendants(serve.pid)
        if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(f"ray::{title}".encode())
    ]


async def test_a_broker_outlives_whatever_becomes_of_its_service(tmp_path: Path) -> None:
    ledger, sent = tmp_path / "ledger.sqlite", list[bytes]()
    store, door = f"sqlite:{ledger}", f"127.0.0.1:{free_ports(2)}"
    with TieredBroker(door, tmp_path / "tier") as broker:  # Nobody answers it yet.
        pid = broker.pid
        serve, fresh = kafka_page.commands(store, door, broker.address)[:2]
        options = [*serve[3:], "--hosts", 2]

        async def tiers_on() -> None:
            """Return once records that are produced from now on have left the broker's disk."""
            end = len(sent) + 20
            await until(lambda: broker.local_start(TOPIC) >= end)

        async with asyncio.timeout(400):
            with served(store, *options) as service:
                assert (await asyncio.to_thread(run, ledger, *fresh)).exit_code == 0
                for topic in (TOPIC, GONE):
                    await create_topic(broker.address, topic, settings=TIERED)
                await produced(broker.address, GONE, 0, 40)
                await until(lambda: broker.local_start(GONE) >= 30)
                async with producing(broker.address, TOPIC, sent):
                    await tiers_on()
                    for how in (signal.SIGKILL, signal.SIGSTOP):
                        for title in ("HostShell", "Coordinator"):
                            for victim in await asyncio.to_thread(processes, service, title):
                                os.kill(victim, how)
                                await tiers_on()
                    assert service.poll() is None
                    end_all([service.pid, *descendants(service.pid)])
                    await delete_topic(broker.address, GONE)
                    await until(lambda: broker.local_start(GONE) == -1)
            with served(store, *options):
                async with producing(broker.address, TOPIC, sent):
                    await tiers_on()
                assert await consumed(broker.address, TOPIC) == sent
                left = [one.stem for one in (tmp_path / "tier").rglob(f"{GONE}-0-*/*.log")]
                found = await asyncio.to_thread(run, ledger, "segments", GONE, 0, "--json")
                known = tuple(one["id"] for one in lines(found))
                assert all(name.endswith(known) for name in left)
        assert broker.pid == pid
        assert is_running(pid)
        # Without the service it finds what it has tiered even if it starts anew.
        for how in (signal.SIGTERM, signal.SIGKILL):
            await asyncio.to_thread(broker.restart, how)
            async with asyncio.timeout(60):
                assert await consumed(broker.address, TOPIC) == sent

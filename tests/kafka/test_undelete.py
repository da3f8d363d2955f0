"""A topic that was deleted comes back: every record once, whatever kills the command."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition  # type: ignore[import-untyped]
from aiokafka.structs import OffsetAndMetadata  # type: ignore[import-untyped]

from tests.kafka.test_holds import eventually_kept, tool
from tests.kafka.test_one_broker import TOPIC, settings_of, until
from tests.models.cli.command_line import lines, refused
from tests.models.kafka import kafka_page
from tests.models.kafka.clients import administered, create_topic
from tests.models.kafka.tiered_broker import GUARDED, TieredBroker
from tests.ray.test_serve import served
from tierledger.benchmarks.kafka_broker import SHORT_SESSION
from tierledger.pipeline.imports.topic import admin_of
from tierledger.pipeline.stable_offsets import committed_offset
from tierledger.simulation.live.server import free_ports
from tierledger.storage.kafka_brokers import KafkaBrokers

pytestmark = [pytest.mark.ray]

NEW, PART = "orders-back", "orders-end"

SMALL_TRANSACTIONS = """
import sys
import tierledger.pipeline.undeletion as undeletion
undeletion.TRANSACTION_RECORDS = 10
from tierledger.cli.main import main
main()
"""

KILLS = 3

RECORDS = 600


async def test_a_deleted_topic_comes_back_once_whoever_is_killed(tmp_path: Path) -> None:
    ledger, door = tmp_path / "ledger.sqlite", f"127.0.0.1:{free_ports()}"
    # By default brokers make a topic when somebody asks about it.
    settings = {**SHORT_SESSION, **GUARDED, "auto.create.topics.enable": "true"}
    broker = TieredBroker(door, tmp_path / "tier", settings)
    serve, handover = kafka_page.commands(f"sqlite:{ledger}", door, broker.address)[:2]
    with served(f"sqlite:{ledger}", *serve[3:]), broker:
        assert (await tool(ledger, *handover)).exit_code == 0
        await create_topic(broker.address, TOPIC, settings=settings_of(broker))
        term = ("--topic", "*", "--term", "7d", "--deleted-by", "topic", "--reason", "undo")
        assert (await tool(ledger, "hold", "add", "week", *term)).exit_code == 0
        await written(broker.address)
        sent = await committed(broker.address, TOPIC)
        await until(lambda: broker.is_tiered(TOPIC))
        segments = len(broker.tiered_logs())
        async with administered(broker.address) as admin:
            await admin.delete_topics([TOPIC])
        await eventually_kept(ledger, segments)

        tier = tmp_path / "tier" / "kafka-tiered-storage"
        where = ("--tier", f"local-tiered:{tier}", "--kafka", broker.address)
        asked = ("undelete", TOPIC, "--to", NEW, *where)
        planned = await tool(ledger, *asked, "--dry-run")
        assert planned.exit_code == 0, planned.output
        async with administered(broker.address) as admin:
            assert NEW not in await admin.list_topics(), "a plan makes nothing"
        assert str(segments) in planned.stdout
        await killed_in_between(ledger, *asked)
        offsets = tmp_path / "offsets.jsonl"
        done = await tool(ledger, *asked, "--map", offsets, "--json")
        assert done.exit_code == 0, done.output

        back = await committed(broker.address, NEW)
        end = lines(done)[0]["next_offset"]
        expected = {offset: one for offset, one in sent.items() if offset < end}
        assert len(expected) > RECORDS / 3
        assert [*back.values()] == [*expected.values()]
        ranges = [json.loads(line) for line in offsets.read_text().splitlines()]
        became = [
            (one["first_offset"] + at, one["new_first_offset"] + at)
            for one in ranges
            for at in range(one["records"])
        ]
        assert became == [*zip(expected, back, strict=True)]

        await left_open(broker.address)
        again = await tool(ledger, *asked, "--json")
        assert (again.exit_code, lines(again)[0]["records"]) == (0, 0)
        elsewhere = ("undelete", TOPIC, *asked[2:], "--isolation", "read_uncommitted")
        refused(await tool(ledger, *elsewhere), "was begun from")
        part = ("undelete", TOPIC, "--to", PART, *where)
        assert (await tool(ledger, *part, "--from-offset", RECORDS - 9)).exit_code == 0
        assert (await tool(ledger, *part, "--from-offset", RECORDS - 5)).exit_code == 0
        less = await tool(ledger, *part, "--from-offset", 9)
        refused(less, f"expected --from-offset {RECORDS - 9}, or a topic of its own")
        await stable(broker.address)
        assert broker.errors() == []


async def written(address: str) -> None:
    """Records with keys, headers and tombstones, in transactions; each third is aborted."""
    producer = AIOKafkaProducer(bootstrap_servers=address, transactional_id="orders")
    await producer.start()
    try:
        for first in range(0, RECORDS, 12):
            await producer.begin_transaction()
            for number in range(first, first + 12):
                await producer.send(
                    TOPIC,
                    None if number % 4 == 1 else b"%d" % number * 20,
                    key=None if number % 4 == 0 else b"k%d" % number,
                    partition=0,
                    headers=[("n", b"%d" % number), ("n", None)] if number % 3 else [],
                )
            if first % 36 == 12:
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()
    finally:
        await producer.stop()


async def committed(address: str, topic: str) -> dict[int, Any]:
    """By offset: all that a consumer of committed records gets, without offsets."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=address,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await consumer.start()
    try:
        where = TopicPartition(topic, 0)
        consumer.assign([where])
        end = (await consumer.end_offsets([where]))[where]
        found = {}
        async with asyncio.timeout(60):
            while await consumer.position(where) < end:
                for one in (await consumer.getmany(where, timeout_ms=500)).get(where, []):
                    found[one.offset] = (one.key, one.value, one.timestamp, one.headers)
        return found
    finally:
        await consumer.stop()


async def stable(address: str) -> None:
    """What a group has committed is told when no transaction can change it any more."""
    where = TopicPartition(NEW, 0)
    brokers = KafkaBrokers(address)
    producer = AIOKafkaProducer(bootstrap_servers=address, transactional_id="offsets")
    async with admin_of(brokers) as admin, producer:
        assert await committed_offset(admin, "counts", where, is_stable=True) is None
        for offset in (7, 8):
            await producer.begin_transaction()
            at = {where: OffsetAndMetadata(offset, "why")}
            await producer.send_offsets_to_transaction(at, "counts")
            told = committed_offset(admin, "counts", where, is_stable=True)
            asked = asyncio.ensure_future(told)
            await asyncio.sleep(0.5)
            assert not asked.done()
            await producer.commit_transaction()
            assert await asked == (offset, "why")


async def left_open(address: str) -> None:
    """A run that was killed just before it committed what it had read."""
    group = f"tierledger-undelete-{NEW}"
    producer = AIOKafkaProducer(bootstrap_servers=address, transactional_id=f"{group}-0")
    async with producer:
        await producer.begin_transaction()
        at = {TopicPartition(NEW, 0): OffsetAndMetadata(1, "")}
        await producer.send_offsets_to_transaction(at, group)


async def killed_in_between(ledger: Path, *asked: object) -> None:
    """Start the command, and kill it at some moment of its work; several times."""
    random = Random(1)
    ends = []
    for _ in range(KILLS):
        command = [*map(str, asked), "--store", f"sqlite:{ledger}"]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", SMALL_TRANSACTIONS, *command), stdout=-1, stderr=-1
        )
        assert process.stdout is not None
        await process.stdout.readline()  # The plan: it begins.
        await asyncio.sleep(random.uniform(0.1, 1.0))
        if process.returncode is None:
            os.kill(process.pid, signal.SIGKILL)
        await process.communicate()
        ends.append(process.returncode)
    assert -signal.SIGKILL in ends

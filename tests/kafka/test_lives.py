"""A stock broker goes through lives: after each step every record is read, and the way is open.

The same steps, drawn from the same seeds, as in tests/moving/test_lives.py.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest
from aiokafka import TopicPartition  # type: ignore[import-untyped] # It has no types.
from aiokafka.admin import RecordsToDelete  # type: ignore[import-untyped] # As above.
from aiokafka.admin.config_resource import (  # type: ignore[import-untyped] # As above.
    ConfigResource,
    ConfigResourceType,
)

from tests.kafka.test_one_broker import until
from tests.models.cli.command_line import invoke
from tests.models.kafka.clients import (
    WAIT_S,
    administered,
    consumed,
    create_topic,
    delete_topic,
    produced,
)
from tests.models.kafka.lives import Step, What, life
from tests.models.kafka.tiered_broker import STOCK, TIERED, TieredBroker
from tests.moving.test_stock_cluster import Ledger, eventually
from tests.ray.test_serve import served
from tierledger.cli.exit_status import ExitStatus
from tierledger.simulation.live.kafka_broker import CLUSTER_ID
from tierledger.simulation.live.server import free_ports

pytestmark = [pytest.mark.ray, pytest.mark.long]

OF_MANY_BROKERS = frozenset(
    {What.REASSIGN, What.UNOWNED, What.REPLACE, What.DELETE_WHILE_MOVING, What.BESIDE}
)
"""Steps that need a second broker, or would leave data in the tier."""

STEPS = 14
RECORDS = 60
"""Records of a step that tiers: several segments."""


class StockLife:
    """One broker in handover, `serve`, and what was produced to the broker's topics."""

    def __init__(
        self, folder: Path, broker: TieredBroker, door: str, services: ExitStack
    ) -> None:
        self.broker = broker
        self._tier = folder / "tier"
        self._store = f"sqlite:{folder / 'ledger.sqlite'}"
        self._listen = ["--listen", door]
        self.ledger = Ledger(self._store, door, broker.address)
        self._services = services
        self._sent: dict[str, list[bytes]] = {}
        """By topic, all its records."""
        self._first: dict[str, int] = {}
        """By topic, the first offset that has to be there."""
        self._serving: subprocess.Popen[str] | None = None

    async def live(self, steps: list[Step]) -> None:
        for at, step in enumerate(steps):
            try:
                await self._take(step)
                await self._is_whole()
            except BaseException as error:
                error.add_note("\n".join(str(one) for one in steps[: at + 1]))
                raise

    async def _take(self, step: Step) -> None:
        topic = step.topic
        match step.what:
            case What.MAKE:
                await create_topic(self.broker.address, topic, settings=TIERED)
                self._sent[topic], self._first[topic] = [], 0
            case What.TIER:
                await self._grow(topic)
            case What.RETAIN:
                await self._configure(topic, {"retention.bytes": "4096"})
                await until(lambda: self._tiered(topic) < 5)
                await self._configure(topic)
                await self._lose(topic)
            case What.DELETE_RECORDS:
                await self._delete_records(topic)
            case What.TIERING_OFF:
                off = {
                    "remote.storage.enable": "false",
                    "remote.log.delete.on.disable": "true",
                    "local.retention.bytes": "-2",
                    "local.retention.ms": "-2",
                }
                await self._configure(topic, off)
                await until(lambda: not self._tiered(topic))
                await self._lose(topic)
            case What.TIERING_ON:
                await self._configure(topic)
                # Kafka removes local segments that it had tiered before: start behind them.
                await self._grow(topic)
                await self._delete_records(topic)
            case What.DELETE:
                await delete_topic(self.broker.address, topic)
                del self._sent[topic], self._first[topic]
                await until(lambda: not self._tiered(topic))
            case What.FORGET | What.RESTART:
                await self._restart(forgets=step.what is What.FORGET)
            case What.MOVE:
                await self.move()
            case What.REST:
                for _ in range(4):
                    await self.move()
            case _:
                raise AssertionError(f"one broker cannot: {step}")

    async def _grow(self, topic: str) -> None:
        sent = self._sent[topic]
        sent += await produced(self.broker.address, topic, len(sent), len(sent) + RECORDS)
        await until(lambda: self.broker.is_tiered(topic))

    async def _delete_records(self, topic: str) -> None:
        end = len(self._sent[topic])
        async with administered(self.broker.address) as admin:
            await admin.delete_records({TopicPartition(topic, 0): RecordsToDelete(end)})
        self._first[topic] = end
        await until(lambda: not self._tiered(topic))

    async def _configure(self, topic: str, more: dict[str, str] | None = None) -> None:
        """Set the topic's settings to those of a tiered topic and these."""
        given = ConfigResource(ConfigResourceType.TOPIC, topic, TIERED | (more or {}))
        async with administered(self.broker.address) as admin:
            (answer,) = await admin.alter_configs([given])
        assert [one[0] for one in answer.resources] == [0], answer

    async def _lose(self, topic: str) -> None:
        """The topic's records from here on are those that the broker has now."""
        found = await consumed(self.broker.address, topic)
        self._first[topic] = len(self._sent[topic]) - len(found)

    async def _is_whole(self) -> None:
        for topic, sent in self._sent.items():
            found = await consumed(self.broker.address, topic)
            assert found == sent[self._first[topic] :], topic

    def _tiered(self, topic: str) -> int:
        return len(list(self._tier.rglob(f"{topic}-0-*/*.log")))

    # The service.

    def serve(self) -> None:
        options = ["--cluster", CLUSTER_ID, *self._listen, "--kafka", self.broker.address]
        self._serving = self._services.enter_context(served(self._store, *options))

    async def _restart(self, *, forgets: bool) -> None:
        """Restart `serve`; in between forget the logs that hold nothing."""
        assert self._serving is not None, "it was started"
        self._serving.terminate()
        assert await asyncio.to_thread(self._serving.wait, WAIT_S) == ExitStatus.WELL
        if forgets:
            shown = await asyncio.to_thread(invoke, "ls", "--store", self._store, "--json")
            for line in map(json.loads, shown.stdout.splitlines()):
                given = ["forget", line["topic_id"], line["partition"], "--yes"]
                # It refuses logs that hold something.
                await asyncio.to_thread(invoke, *given, "--store", self._store)
        await asyncio.to_thread(self.serve)

    async def move(self) -> None:
        """Move the metadata to the other owner."""
        await eventually(self._is_still)
        begun = (await self.ledger.status())["coordinator"]
        # The round under way may have begun before the last move ended.
        await eventually(lambda: self._is_still(begun["kafka"]["round"] + 2))
        owner = begun["owner"]
        await self.ledger.moved("kafka" if owner == "tierledger" else "tierledger")

    async def _is_still(self, rounds: int = 0) -> bool:
        """Whether the broker attends, and `serve` has followed the topic without trouble.

        `rounds`: how many rounds `serve` has to have gone by then.
        """
        status = (await self.ledger.status())["coordinator"]
        task = "mirror" if status["owner"] == "tierledger" else "import"
        follower, plugins = status["kafka"] or {}, status["attending"]
        attends = [(one["mode"], one["owner_epoch"], one["trouble"]) for one in plugins]
        follows = (follower.get("task"), follower.get("trouble")) == (task, None)
        attended = attends == [("handover", status["owner_epoch"], None)]
        return follows and attended and follower["round"] >= rounds


@pytest.mark.parametrize("seed", range(3))
async def test_the_way_is_open_both_ways_whatever_a_broker_went_through(
    seed: int, tmp_path: Path
) -> None:
    steps = life(seed, STEPS, without=OF_MANY_BROKERS)
    with ExitStack() as stack:
        door = f"127.0.0.1:{free_ports()}"
        broker = stack.enter_context(TieredBroker(door, tmp_path / "tier", STOCK))
        one = StockLife(tmp_path, broker, door, stack)
        one.serve()
        done = await one.ledger.hand_over("--to", "kafka")
        assert done.exit_code == ExitStatus.WELL, done.stderr
        await asyncio.to_thread(broker.become, "handover")

        await one.live(steps)

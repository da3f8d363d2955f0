"""A stock broker goes through lives: after each step every record is read, and the way is open.

The same steps, drawn from the same seeds, as in tests/moving/test_lives.py.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from contextlib import ExitStack
from pathlib import Path
from shutil import rmtree

import pytest
from aiokafka import TopicPartition  # type: ignore[import-untyped] # It has no types.
from aiokafka.admin import RecordsToDelete  # type: ignore[import-untyped] # As above.
from aiokafka.admin.config_resource import (  # type: ignore[import-untyped] # As above.
    ConfigResource,
    ConfigResourceType,
)

from tests.kafka.test_one_broker import until
from tests.kafka.test_service_faults import processes
from tests.models.cli.command_line import invoke
from tests.models.kafka.clients import (
    WAIT_S,
    administered,
    consumed,
    create_topic,
    delete_topic,
    produced,
)
from tests.models.kafka.tiered_broker import STOCK, TIERED, TieredBroker
from tests.moving.test_stock_cluster import Ledger, eventually
from tests.ray.test_serve import served
from tierledger.benchmarks.kafka_broker import CLUSTER_ID
from tierledger.cli.exit_status import ExitStatus
from tierledger.simulation.live.processes import descendants, end_all
from tierledger.simulation.live.server import free_ports
from tierledger.simulation.lives.steps import OF_MOVES, LifeStep, What, life

pytestmark = [pytest.mark.ray, pytest.mark.long, pytest.mark.timeout(1800)]

OF_MANY_BROKERS = frozenset({What.REASSIGN, What.UNOWNED, What.REPLACE, What.BESIDE})
"""Steps that need a second broker."""

LOG_BYTES = 20_000
"""So much of the broker's log is shown if a life fails."""

FROZEN_S = 5.0
"""For so long a broker is cut off."""

FEW, MANY = (7, 13), (0, 1, 2, 3, 4, 5, 6, 8, 9, 30)
"""Seeds; a life takes three minutes. The many are in tests/moving/test_stock_lives.py."""

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

    async def live(self, steps: list[LifeStep]) -> None:
        for at, step in enumerate(steps):
            try:
                await self._take(step)
                await self._is_whole()
            except BaseException as error:
                error.add_note("\n".join(str(one) for one in steps[: at + 1]))
                error.add_note(self.broker.log()[-LOG_BYTES:])
                raise

    async def _take(self, step: LifeStep) -> None:
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
                # Kafka tries only once: the broker has to have heard of the last move's end.
                await self._stands_still()
                await delete_topic(self.broker.address, topic)
                del self._sent[topic], self._first[topic]
                await until(lambda: not self._tiered(topic))
            case _:
                await self._take_of_cluster(step)

    async def _take_of_cluster(self, step: LifeStep) -> None:
        match step.what:
            case What.FORGET | What.RESTART:
                await self._restart(forgets=step.what is What.FORGET)
            case What.MOVE:
                await self.move()
            case What.REST:
                for _ in range(4):
                    await self.move()
            case What.DELETE_WHILE_MOVING:
                await self._move_with(step)
                del self._sent[step.topic], self._first[step.topic]
                await self.move()
                await self._remove_left(step.topic)
            case _ if step.what in OF_MOVES:
                await self._move_with(step)
                await self.move()
            case _:
                raise AssertionError(f"one broker cannot: {step}")

    async def _remove_left(self, topic: str) -> None:
        """Remove what a topic that was deleted while moving has left in the tier."""
        if await self._stands_still() == "kafka":
            await self.move()
        # The broker may delete it after all; if not, it first has to stop.
        await eventually(lambda: self._is_left(topic))
        if self._tiered(topic):
            await self._restart(forgets=True, left=topic)
            # The command deletes nothing in the tier that Kafka's tests have.
            for left in self._tier.rglob(f"{topic}-0-*"):
                rmtree(left)

    async def _is_left(self, topic: str) -> bool:
        """Whether `status` lists what it left; or nothing is left."""
        left = (await self.ledger.status())["left"] or ()
        return not self._tiered(topic) or topic in [one["topic"] for one in left]

    async def _move_with(self, step: LifeStep) -> None:
        """Try to move the metadata; returns once somebody owns it, after what the step says."""
        owner = await self._stands_still()
        moving = self.ledger.handing_over("--to", other(owner))
        try:
            assert moving.stderr is not None
            while "moving, owner epoch" not in (
                line := await asyncio.to_thread(moving.stderr.readline)
            ):
                assert line, "it ended without a move"
            await self._trouble(step, moving)
            _, errors = await asyncio.to_thread(moving.communicate, timeout=WAIT_S)
            ends = {ExitStatus.WELL, ExitStatus.USAGE, ExitStatus.FAILED, -signal.SIGKILL}
            assert moving.returncode in ends, errors
        finally:
            moving.kill()
            await asyncio.to_thread(moving.communicate)

    async def _trouble(self, step: LifeStep, command: subprocess.Popen[str]) -> None:
        assert self._serving is not None, "it was started"
        serve = self._serving.pid
        match step.what:
            case What.DELETE_WHILE_MOVING:
                await delete_topic(self.broker.address, step.topic)
            case What.KILL_HOST | What.KILL_COORDINATOR:
                title = "HostShell" if step.what is What.KILL_HOST else "Coordinator"
                victims = await asyncio.to_thread(processes, self._serving, title)
                os.kill(victims[0], signal.SIGKILL)
            case What.KILL_SERVE:
                await asyncio.to_thread(end_all, [serve, *descendants(serve)])
                await asyncio.to_thread(self._serving.wait, WAIT_S)
                await asyncio.to_thread(self.serve)
            case What.KILL_COMMAND:
                command.kill()
            case What.KILL_BROKER:
                await asyncio.to_thread(self.broker.restart, signal.SIGKILL)
            case What.CUT_OFF_BROKER:
                self.broker.freeze()
                await asyncio.sleep(FROZEN_S)
                self.broker.thaw()
            case _:
                raise AssertionError(f"{step} disturbs no move")

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

    async def _restart(self, *, forgets: bool, left: str | None = None) -> None:
        """Restart `serve`; in between forget the logs that hold nothing.

        `left`: a deleted topic of which segments are forgotten, too.
        """
        assert self._serving is not None, "it was started"
        self._serving.terminate()
        assert await asyncio.to_thread(self._serving.wait, WAIT_S) == ExitStatus.WELL
        if forgets:
            shown = await asyncio.to_thread(invoke, "ls", "--store", self._store, "--json")
            for line in map(json.loads, shown.stdout.splitlines()):
                given = ["forget", line["topic_id"], line["partition"], "--yes"]
                is_left = line["topic"] == left
                given += ["--leave-data"] if is_left else []
                done = await asyncio.to_thread(invoke, *given, "--store", self._store)
                # It refuses other logs that hold something.
                assert not is_left or done.exit_code == ExitStatus.WELL, done.output
        await asyncio.to_thread(self.serve)

    async def move(self) -> None:
        """Move the metadata to the other owner."""
        await self.ledger.moved(other(await self._stands_still()))

    async def _stands_still(self) -> str:
        """The owner, once all is as it has to be for a move."""
        await eventually(self._is_still)
        begun = (await self.ledger.status())["coordinator"]
        # The round under way may have begun before the last move ended.
        await eventually(lambda: self._is_still(begun["kafka"]["round"] + 2))
        owner: str = begun["owner"]
        return owner

    async def _is_still(self, rounds: int = 0) -> bool:
        """Whether the broker attends, and `serve` has followed the topic without trouble.

        `rounds`: how many rounds `serve` has to have gone by then.
        """
        status = (await self.ledger.status())["coordinator"]
        if status is None or status["owner"] == "moving":
            return False  # The service is being started, or gives a move up.
        task = "mirror" if status["owner"] == "tierledger" else "import"
        follower, plugins = status["kafka"] or {}, status["attending"]
        attends = [(one["mode"], one["owner_epoch"], one["trouble"]) for one in plugins]
        follows = (follower.get("task"), follower.get("trouble")) == (task, None)
        attended = attends == [("handover", status["owner_epoch"], None)]
        return follows and attended and follower["round"] >= rounds


def other(owner: str) -> str:
    return "kafka" if owner == "tierledger" else "tierledger"


async def lived(seed: int, folder: Path) -> None:
    """Go through the life of that seed; `folder` is the test's own."""
    with ExitStack() as stack:
        door = f"127.0.0.1:{free_ports()}"
        broker = stack.enter_context(TieredBroker(door, folder / "tier", STOCK))
        one = StockLife(folder, broker, door, stack)
        one.serve()
        done = await one.ledger.hand_over("--to", "kafka")
        assert done.exit_code == ExitStatus.WELL, done.stderr
        await asyncio.to_thread(broker.become, "handover")

        await one.live(steps(seed))


def steps(seed: int) -> list[LifeStep]:
    """Those of the seed's life that one broker can take."""
    return life(seed, STEPS, without=OF_MANY_BROKERS)


@pytest.mark.parametrize("seed", FEW)
async def test_the_way_is_open_both_ways_whatever_a_broker_went_through(
    seed: int, tmp_path: Path
) -> None:
    await lived(seed, tmp_path)


def test_in_these_lives_everybody_dies_once() -> None:
    assert {step.what for seed in (*FEW, *MANY) for step in steps(seed)} >= {*OF_MOVES}

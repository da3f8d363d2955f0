"""Replicas behind doors answer every recorded trace as leaders do, whatever breaks."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.actors.door.clients import door_of, served
from tests.actors.feed.test_traces import TRACES, outcome_of
from tests.models.actors.local_world import CLUSTER, LocalWorld, eventually
from tierledger.actors.calls import LEADER, PartitionKey
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.door.client.replicas import FedReplica, Replicas
from tierledger.actors.door.server import feeding
from tierledger.actors.feed import source
from tierledger.conformance.answering import outcome_from_state, partition_of
from tierledger.conformance.answers import AnsweredQuestion, grouped_by_after, read_answers
from tierledger.conformance.loaded_trace import LoadedTrace, load_trace
from tierledger.conformance.trace import answers_path
from tierledger.conformance.verdicts import check
from tierledger.events import commands as cmd
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.lifecycle import RemotePartitionDeleteState
from tierledger.events.partition.state import PartitionState
from tierledger.simulation.live.cable import Cable, cable

RECORDS_PER_IMPORT = 40
MISHAPS = 12
"""In one trace, about."""

FINISHED = int(RemotePartitionDeleteState.DELETE_PARTITION_FINISHED)


class Day:
    """A trace that is imported into a service with two hosts, and what goes wrong meanwhile."""

    def __init__(
        self, world: LocalWorld, trace: LoadedTrace, lines: list[Cable], random: Random
    ) -> None:
        self.happened: list[str] = []
        self.replicas: dict[TopicIdPartition, FedReplica] = {}
        self._world, self._trace, self._lines, self._random = world, trace, lines, random
        records = sum(len(part.records) for part in trace.partitions)
        self._share = MISHAPS * RECORDS_PER_IMPORT / 2 / max(records, 1)
        self._managers: list[AsyncRemoteLogMetadataManager] = []
        self._leads: dict[TopicIdPartition, AsyncRemoteLogMetadataManager] = {}
        self.reached: dict[TopicIdPartition, int] = {}

    async def begin(self, home: Replicas) -> None:
        self._managers = [await self._world.broker(number) for number in (1, 2)]
        for part in self._trace.partitions:
            tip = part.topic_id_partition
            self.replicas[tip] = home.of(tip, LEADER)
            await self._lead(tip, part.records[0])

    async def _lead(self, tip: TopicIdPartition, record: cmd.ImportedRecord) -> None:
        """Let another broker lead."""
        manager = self._managers[self._leads.get(tip) is self._managers[0]]
        await manager.announce_import({tip: record.timestamp_ms}, [], self._trace.origin)
        await manager.when_ready([tip])
        self._leads[tip] = manager
        self.replicas[tip].expect(manager.claim_to_lead(tip))

    async def go_on(self, tip: TopicIdPartition, records: list[cmd.ImportedRecord]) -> None:
        while records:
            count = self._random.randrange(1, RECORDS_PER_IMPORT)
            run, records = records[:count], records[count:]
            if self._random.random() < self._share:
                await self._mishap(tip, run[0])
            manager = self._leads[tip]
            self.reached[tip] = await manager.import_records(tip, run)

    async def _mishap(self, tip: TopicIdPartition, record: cmd.ImportedRecord) -> None:
        what = self._random.choice(("leader", "host", "cut", "cut", "hold", "let"))
        self.happened.append(what)
        line = self._random.choice(self._lines)
        match what:
            case "leader":
                await self._lead(tip, record)
            case "host":
                await self._world.service.kill_host(self._random.choice(("host-0", "host-1")))
            case "cut":
                line.cut()
            case "hold":
                line.hold()
            case _:
                line.let()

    async def state(self, tip: TopicIdPartition) -> PartitionState:
        """The leader's, once the replica has it, too, and knows that it has."""
        for line in self._lines:
            line.let()
        replica, key = self.replicas[tip], PartitionKey.of(tip)

        def leading() -> PartitionState | None:
            hosts = [one.host for one in self._world.service._hosts.values()]
            found = [host._shells.get((key, LEADER)) for host in hosts]
            states = [shell.machine.state for shell in found if shell is not None]
            return next((one for one in states if one is not None), None)

        def has_all() -> bool:
            state = leading()
            is_sure = replica.is_ready or replica._replica._delete_state == FINISHED
            return (
                state is not None
                and is_sure
                and replica.position == state.next_position - 1 >= self.reached.get(tip, 0)
            )

        await eventually(has_all)
        state = leading()
        assert state is not None
        return state


def _param(trace: Path) -> Any:  # noqa: ANN401 - pytest has no public name for it.
    name = str(trace.relative_to(TRACES))
    is_long = name not in {"three-brokers-churn", "topic-deletion", "histories/seed-02"}
    return pytest.param(trace, id=name, marks=[pytest.mark.long] if is_long else [])


@pytest.mark.parametrize(
    "trace", [_param(path.parent) for path in sorted(TRACES.rglob("records.jsonl.gz"))]
)
async def test_replicas_behind_doors_answer_a_trace_as_leaders_do(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(f"doors/{trace.relative_to(TRACES)}")
    monkeypatch.setattr(source, "FRAME_ROWS", random.choice([7, 50, 1000]))
    monkeypatch.setattr(source, "RING_BYTES", random.choice([2_000, 20_000, 1_000_000]))
    monkeypatch.setattr(feeding, "FRAME_BYTES", random.choice([1, 256 * 1024]))
    loaded = load_trace(trace)
    asked = list(read_answers(answers_path(trace)))
    ours: list[AnsweredQuestion] = []
    async with (
        served(tmp_path, hosts=2) as world,
        cable(await door_of(world, "host-0")) as first,
        cable(await door_of(world, "host-1")) as second,
        Replicas(f"tierledger://{first.door},{second.door}", CLUSTER) as home,
    ):
        day = Day(world, loaded, [first, second], random)
        await day.begin(home)
        for after, questions in grouped_by_after([one.question for one in asked]):
            for part in loaded.partitions:
                due = part.due(after)
                part.fed += len(due)
                await day.go_on(part.topic_id_partition, due)
            for question in questions:
                tip = partition_of(question)
                if tip in day.replicas:
                    theirs = outcome_from_state(await day.state(tip), question)
                    told = outcome_of(day.replicas[tip]._replica, question)
                    assert told == theirs, (question, day.happened)
                    ours.append(AnsweredQuestion(question, theirs))
        assert [one.counts.dropped for one in day.replicas.values()] == [0] * len(day.replicas)
    if len(ours) == len(asked):
        assert check(loaded.raw, asked, ours).passed

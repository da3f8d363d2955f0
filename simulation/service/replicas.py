"""Brokers' replicas: the service's own, fed through hosts' doors, and asked now and then."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random
from typing import Any

from tierledger.actors.calls import FOLLOWER
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.client.replicas import FedReplica, Replicas
from tierledger.actors.feed.replica import Replica
from tierledger.actors.messages import Query
from tierledger.actors.queries import QUERIES, answer_from
from tierledger.events.commands import NO_CLAIM, Claim
from tierledger.events.errors import NotReady, PartitionDeleted
from tierledger.events.tables.segment_rows import END, EPOCHS, unpack_row
from tierledger.simulation.checkers.feed import DELETED, ReplicaSeen
from tierledger.simulation.checkers.violation import Violation, ms_text
from tierledger.simulation.history.observations import Ready
from tierledger.simulation.machines.environment.observer import Observer
from tierledger.simulation.machines.scenario.streams import stream
from tierledger.simulation.service.stage import Stage
from tierledger.simulation.service.virtual_loop import VirtualProcess

PAUSE_S = 0.06
"""Mean time between two looks at one of a broker's replicas."""

ASKED, LEFT = 0.3, 0.1
"""The shares of looks in which a replica is asked, and in which its broker's feeds break."""

PLAIN = 0.3
"""The share of replicas that wait for no claim: leader or follower may feed them."""


class FedNotes:
    """What the replicas of a world were fed, and what they answered."""

    def __init__(self, world: Stage, observer: Observer) -> None:
        self.world = world
        self.seen: list[ReplicaSeen] = []
        self.refused: list[Violation] = []
        """Items that a replica refused, though streams bring all of them in order."""
        self._observer = observer

    def watch(self, kept: KeptReplica) -> None:
        """Note what `kept` is given from now on."""
        fed, given = kept.fed, kept.fed.given
        subscription = 0

        def noted(item: pb.Fed) -> bool:
            nonlocal subscription
            position, was_ready = fed.position, fed.is_ready
            is_first, subscription = (
                subscription != fed.counts.subscriptions,
                fed.counts.subscriptions,
            )
            goes_on = given(item)
            self._mark(item, position, is_first=is_first)
            if not goes_on:
                self._refuse(
                    kept, f"at position {position} it refuses {item.WhichOneof('what')}"
                )
            elif item.HasField("change") and fed.position > position:
                self.saw(kept)
            if fed.is_ready and not was_ready and kept.claim is not None:
                self.world.recording.mark("replica was ready")
                ready = Ready(
                    self.world.now_ns(),
                    kept.name,
                    kept.role,
                    kept.key,
                    kept.claim,
                    fed.position,
                )
                self._observer.note_ready(ready, kept.process.name)
            return goes_on

        vars(fed).update(given=noted)

    def _mark(self, item: pb.Fed, position: int, *, is_first: bool) -> None:
        mark = self.world.recording.mark
        if item.HasField("snapshot"):
            mark("replica took a snapshot")
            if not is_first:
                mark("replica was overtaken")
        elif item.HasField("fenced"):
            mark("replica hears that it is fenced")
        elif item.HasField("change") and is_first and position >= 0:
            mark("replica went on from where it was")

    def _refuse(self, kept: KeptReplica, why: str) -> None:
        if kept.number not in self.world.damaged:
            now = ms_text(self.world.now_ns())
            self.refused.append(
                Violation("fed_refused", kept.key, f"{kept.name} at {now}: {why}")
            )

    def saw(self, kept: KeptReplica, answers: tuple[tuple[Query, Any], ...] = ()) -> None:
        """Note the position of a replica, and what it answered there."""
        replica, now = kept.fed._replica, self.world.now_ns()
        at = replica.position, replica.is_whole
        self.seen.append(ReplicaSeen(now, kept.name, kept.key, *at, answers))
        text = f"replica-{kept.number} is at position {replica.position}"
        process = kept.process.name
        self.world.recording.moment(process, "replica", text, None, kept.number)


class KeptReplica:
    """A broker's replica of one partition, in one role."""

    def __init__(
        self, notes: FedNotes, process: VirtualProcess, number: int, name: str, fed: FedReplica
    ) -> None:
        self.process, self.number, self.name, self.fed = process, number, name, fed
        self.key, self.role = fed._replica.key, fed._replica.role
        notes.watch(self)

    @property
    def claim(self) -> Claim | None:
        """The claim for which it is to be ready; None if it waits for none."""
        return self.fed._replica.claim


class BrokerReplicas:
    """The replicas of one process of a broker. Make it in a step of that process."""

    def __init__(
        self, notes: FedNotes, process: VirtualProcess, broker_id: int, doors: list[str]
    ) -> None:
        world = notes.world
        self._notes, self._process = notes, process
        self._random = random = stream(world.scenario.seed, f"replicas of {process.name}")
        random.shuffle(doors)
        url = "tierledger://" + ",".join(doors)
        self._home = Replicas(url, world.cluster_id, broker_id, opened=world.streams.fed)
        self.kept: dict[int, KeptReplica] = {}
        """By partition."""
        self._made = 0
        world.loop.spawn(process, self._look())

    async def renew(self, number: int, role: str, claim: Claim) -> None:
        """The broker has announced itself in that role."""
        kept = self.kept.get(number)
        if kept is not None and kept.fed._is_over:
            kept = None
        if kept is not None and kept.claim is None:
            return
        if kept is not None and kept.role == role:
            kept.fed.expect(claim)
            return
        await self.drop(number)
        self._made += 1
        is_plain = self._random.random() < PLAIN
        fed = self._home.of(
            self._notes.world.tips[number],
            FOLLOWER if is_plain else role,
            None if is_plain or claim == NO_CLAIM else claim,
        )
        name = f"{self._process.name}/replica-{number}/{self._made}"
        self.kept[number] = KeptReplica(self._notes, self._process, number, name, fed)

    async def drop(self, number: int) -> None:
        """The broker no longer hosts the partition."""
        kept = self.kept.pop(number, None)
        if kept is not None:
            await kept.fed.close()

    async def _look(self) -> None:
        random, streams = self._random, self._notes.world.streams
        while True:
            await asyncio.sleep(2 * PAUSE_S * random.random())
            if not self.kept or self._notes.world.is_quiet:
                continue
            chosen = random.random()
            if chosen < ASKED:
                self.ask(random.choice(list(self.kept.values())))
            elif chosen < ASKED + LEFT:
                streams.break_feeds(self._process)

    def ask(self, kept: KeptReplica) -> None:
        """Ask a replica a few questions."""
        replica = kept.fed._replica
        if replica.is_whole and not kept.fed._is_over:
            self._notes.saw(kept, tuple(_answers(replica, self._random)))


def _answers(replica: Replica, random: Random) -> Iterator[tuple[Query, Any]]:
    everything = Query("list")
    answer = _answer(replica, everything)
    yield everything, answer
    rows = answer[0] if isinstance(answer, tuple) else []
    for row in random.sample(rows, min(2, len(rows))):
        fields = unpack_row(row)
        at = 3 * random.randrange(len(fields[EPOCHS]) // 3)
        epoch, begins = fields[EPOCHS][at : at + 2]
        offset = random.choice((begins, begins - 1, fields[END], fields[END] + 1))
        for kind in ("list_epoch", "size", "highest_offset"):
            yield Query(kind, epoch), _answer(replica, Query(kind, epoch))
        for kind in ("lookup", "next_txn"):
            query = Query(kind, epoch, max(0, offset))
            yield query, _answer(replica, query)


def _answer(replica: Replica, query: Query) -> Any:  # noqa: ANN401 - Any answer.
    """A replica's answer in a tuple, or `DELETED`; None if it is not ready to answer."""
    try:
        answer = answer_from(replica, query)
        return (answer if QUERIES[query.kind].is_ordered else sorted(answer),)
    except PartitionDeleted:
        return DELETED
    except NotReady:
        return None

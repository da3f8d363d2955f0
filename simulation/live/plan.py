"""What brokers of a live run do, and the state that all of them share."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tierledger.actors.calls import PartitionKey
from tierledger.actors.connection import ServiceConnection
from tierledger.actors.host_settings import ServiceSettings
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.simulation.history.calls import Recorder


@dataclass(frozen=True, slots=True)
class LivePlan:
    """What brokers do. Times in seconds.

    Attributes:
        seed: Of all draws; real processes still behave differently each time.
        brokers: How many, each with a manager of its own.
        partitions: How many, all of one topic, which every broker replicates.
        calls_per_s: About how many calls are made while nothing fails.
        change_every_s: Mean time between two elections.
        late_chance: Share of announcements that arrive up to 3 s late.
        without_epoch: Share of announcements that name no leader epoch, as Kafka's never do.
        deadline_s: After which a call is given up.
    """

    seed: int
    brokers: int = 3
    partitions: int = 6
    calls_per_s: float = 120.0
    change_every_s: float = 5.0
    late_chance: float = 0.1
    without_epoch: float = 0.05
    deadline_s: float = 10.0

    @property
    def think_s(self) -> float:
        """Mean pause of a client between two things it does."""
        return (self.partitions + self.brokers) * CALLS_PER_STEP / self.calls_per_s


CALLS_PER_STEP = 1.6
"""Calls of one step of a broker's client on average: a read is one, a copy two or more."""


class LiveWorld:
    """The service of one run, its partitions, and what is seen of both."""

    def __init__(
        self,
        plan: LivePlan,
        settings: ServiceSettings,
        connect: Callable[[ServiceSettings], Awaitable[ServiceConnection]],
    ) -> None:
        self.plan = plan
        self.settings = settings
        self.connect = connect
        self.recorder = Recorder(self.now_ns)
        topic_id = Uuid(b"live topic\x00\x00" + plan.seed.to_bytes(4, "big"))
        self.tips = [
            TopicIdPartition(topic_id, number, f"live-{plan.seed}")
            for number in range(plan.partitions)
        ]
        self.epoch: dict[TopicIdPartition, int] = {}
        """Each partition's leader epoch in the controller."""
        self.failures: list[BaseException] = []
        """Unexpected exceptions: callers may see only the errors of the interface."""
        self._numbers = 0

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def note(self, what: str, node: str, *, key: PartitionKey | None = None) -> None:
        """Note a fault, or a change of leaders, in the history."""
        self.recorder.note(self.now_ns(), node, what, key)

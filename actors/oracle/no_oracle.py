"""The oracle of a service without Kafka's addresses, and the deadline of those with them."""

from __future__ import annotations

from collections.abc import Sequence

from tierledger.events.commands import LeaderVerdict
from tierledger.events.identifiers import TopicIdPartition

ORACLE_DEADLINE_S = 3.0
"""Time the leader oracle has for an answer; after it the leader counts as unknown. A
broker that answers at all does so in milliseconds, and the claim that waits cannot serve."""


class NoOracle:
    """Never knows a leader: in every dispute the later claim leads, and the log records it."""

    async def leaders_of(
        self, partitions: Sequence[TopicIdPartition]
    ) -> list[LeaderVerdict | None]:
        return [None] * len(partitions)

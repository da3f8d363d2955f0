"""What a service does that cannot ask anybody who leads, and how long it waits if it can."""

from __future__ import annotations

from collections.abc import Sequence

from tierledger.events.commands import LeaderVerdict
from tierledger.events.identifiers import TopicIdPartition

ORACLE_DEADLINE_S = 3.0
"""Time the leader oracle has for an answer; without one by then, nobody knows. A broker that
answers at all does so in milliseconds; the claim that waits serves nobody meanwhile."""


class NoOracle:
    """Knows nothing, at once: every dispute opens for the later claim, and is on record."""

    async def leaders_of(
        self, partitions: Sequence[TopicIdPartition]
    ) -> list[LeaderVerdict | None]:
        return [None] * len(partitions)

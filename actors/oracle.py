"""Who is asked which broker leads a partition when the log alone cannot tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tierledger.events.commands import LeaderVerdict
    from tierledger.events.identifiers import TopicIdPartition

ORACLE_DEADLINE_S = 3.0
"""Time the leader oracle has for an answer; without one by then, nobody knows. A broker that
answers at all does so in milliseconds; the claim that waits serves nobody meanwhile."""


class NoOracle:
    """Knows nothing, at once: every dispute opens for the later claim, and is on record."""

    async def leader_of(
        self,
        topic_id_partition: TopicIdPartition,  # noqa: ARG002 - The port's.
    ) -> LeaderVerdict | None:
        return None

"""A leader oracle whose answers, errors and delays a test decides."""

import asyncio
from collections.abc import Sequence

from tierledger.events.commands import LeaderVerdict
from tierledger.events.identifiers import TopicIdPartition


class FakeOracle:
    """Answers with `verdict`, or raises `error` if set; waits while `answers` is clear."""

    def __init__(self, verdict: LeaderVerdict | None = None) -> None:
        self.verdict = verdict
        self.error: Exception | None = None
        self.answers = asyncio.Event()
        self.answers.set()
        self.asked: list[TopicIdPartition] = []

    async def leaders_of(
        self, partitions: Sequence[TopicIdPartition]
    ) -> list[LeaderVerdict | None]:
        self.asked += partitions
        await self.answers.wait()
        if self.error is not None:
            raise self.error
        return [self.verdict] * len(partitions)

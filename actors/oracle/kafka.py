"""Kafka's own word on who leads: the brokers are asked for a topic's metadata, by its id."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeAlias

import structlog
from aiokafka.conn import create_conn  # type: ignore[import-untyped]  # It has no types.

from tierledger.actors.oracle.metadata_request import MetadataRequest
from tierledger.actors.oracle.no_oracle import ORACLE_DEADLINE_S
from tierledger.events.commands import LeaderVerdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tierledger.events.identifiers import TopicIdPartition

OTHERS_S = 0.5
"""How long the other brokers have once one has answered: one that hangs holds nothing up."""

_Partition: TypeAlias = tuple[bytes, int]

_log = structlog.get_logger("tierledger.oracle")


class KafkaOracle:
    """Asks brokers; each question has connections of its own, since there are few of them."""

    def __init__(self, brokers: Sequence[tuple[str, int]]) -> None:
        """`brokers`: host and port of each."""
        self._brokers = brokers

    async def leaders_of(
        self, partitions: Sequence[TopicIdPartition]
    ) -> list[LeaderVerdict | None]:
        """Of each partition the leader with the highest leader epoch that a broker names.

        A broker that is cut off from the others goes on naming the leader that it knew, in an
        older epoch: so all brokers given are asked, and the newest word counts.

        Raises:
            ConnectionError: None of them answered within `ORACLE_DEADLINE_S`.
        """
        topic_ids = sorted({bytes(one.topic_id) for one in partitions})
        asked = [asyncio.create_task(_leaders(one, topic_ids)) for one in self._brokers]
        try:
            answers = await _first_answers(asked)
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        newest: dict[_Partition, LeaderVerdict] = {}
        for answer in answers:
            for partition, verdict in answer.items():
                known = newest.get(partition)
                if known is None or _epoch(verdict) > _epoch(known):
                    newest[partition] = verdict
        return [newest.get((bytes(one.topic_id), one.partition)) for one in partitions]


def _epoch(verdict: LeaderVerdict) -> int:
    return -1 if verdict.leader_epoch is None else verdict.leader_epoch


async def _first_answers(
    asked: Sequence[asyncio.Task[dict[_Partition, LeaderVerdict]]],
) -> list[dict[_Partition, LeaderVerdict]]:
    """What the brokers answer until a little after the first answer.

    Raises:
        ConnectionError: There was none in time.
    """
    loop = asyncio.get_running_loop()
    until, answers, why = loop.time() + ORACLE_DEADLINE_S, list[Any](), "no answer in time"
    waiting = set(asked)
    while waiting and (left := until - loop.time()) > 0:
        done, waiting = await asyncio.wait(
            waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED
        )
        for task in done:
            error = task.exception()
            if error is None:
                answers.append(task.result())
                until = min(until, loop.time() + OTHERS_S)
            else:
                why = str(error) or repr(error)
    if not answers:
        raise ConnectionError(f"no broker says who leads: {why}")
    return answers


async def _leaders(
    broker: tuple[str, int], topic_ids: Sequence[bytes]
) -> dict[_Partition, LeaderVerdict]:
    """Who leads the partitions of these topics, as one broker knows it."""
    connection = await create_conn(
        *broker,
        client_id="tierledger",
        request_timeout_ms=int(ORACLE_DEADLINE_S * 1000),
    )
    try:
        answer = (await connection.send(MetadataRequest(topic_ids))).to_object()
    finally:
        connection.close()
    # A topic that this broker does not know has no partitions.
    return {
        (topic["topic_id"], partition["partition"]): LeaderVerdict(
            partition["leader_id"], partition["leader_epoch"]
        )
        for topic in answer["topics"]
        for partition in topic["partitions"]
    }

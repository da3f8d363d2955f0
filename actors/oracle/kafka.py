"""Kafka's own word on who leads: the brokers are asked for a topic's metadata, by its id."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

from tierledger.actors.oracle.metadata_request import MetadataRequest
from tierledger.actors.oracle.no_oracle import ORACLE_DEADLINE_S
from tierledger.events.commands import LeaderVerdict
from tierledger.events.identifiers import TopicIdPartition
from tierledger.storage.kafka_brokers import Connection, KafkaBrokers

_Partition: TypeAlias = tuple[bytes, int]


class KafkaOracle:
    """Asks brokers; each question has connections of its own, since there are few of them."""

    def __init__(self, brokers: KafkaBrokers) -> None:
        self._brokers = brokers

    async def leaders_of(
        self, partitions: Sequence[TopicIdPartition]
    ) -> list[LeaderVerdict | None]:
        """Of each partition the leader with the highest leader epoch that a broker names.

        A broker that is cut off from the others goes on naming the leader that it knew, in an
        older epoch: so all brokers given are asked, and the newest word counts.

        Raises:
            ConnectionError: None of them answered within `ORACLE_DEADLINE_S`.
            InvalidArgument: What is said of how to ask them is wrong.
        """
        topic_ids = sorted({bytes(one.topic_id) for one in partitions})
        ask = partial(_leaders, topic_ids=topic_ids)
        answers = await self._brokers.answers(ask, ORACLE_DEADLINE_S)
        newest: dict[_Partition, LeaderVerdict] = {}
        for answer in answers.values():
            for partition, verdict in answer.items():
                known = newest.get(partition)
                if known is None or _epoch(verdict) > _epoch(known):
                    newest[partition] = verdict
        return [newest.get((bytes(one.topic_id), one.partition)) for one in partitions]


def _epoch(verdict: LeaderVerdict) -> int:
    return -1 if verdict.leader_epoch is None else verdict.leader_epoch


async def _leaders(
    connection: Connection, topic_ids: Sequence[bytes]
) -> dict[_Partition, LeaderVerdict]:
    """Who leads the partitions of these topics, as one broker knows it."""
    answer = (await connection.send(MetadataRequest(topic_ids))).to_object()
    # A topic that this broker does not know has no partitions.
    return {
        (topic["topic_id"], partition["partition"]): LeaderVerdict(
            partition["leader_id"], partition["leader_epoch"]
        )
        for topic in answer["topics"]
        for partition in topic["partitions"]
    }

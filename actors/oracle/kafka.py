"""Asks Kafka itself who leads: requests a topic's metadata from brokers, by the topic's id."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

from tierledger.actors.oracle.metadata_request import metadata_request
from tierledger.actors.oracle.no_oracle import ORACLE_DEADLINE_S
from tierledger.events.commands import LeaderVerdict
from tierledger.events.identifiers import TopicIdPartition
from tierledger.storage.kafka_brokers import Connection, KafkaBrokers

_Partition: TypeAlias = tuple[bytes, int]


class KafkaOracle:
    """Asks Kafka's brokers; questions are rare, so each opens its own connections."""

    def __init__(self, brokers: KafkaBrokers) -> None:
        self._brokers = brokers

    async def leaders_of(
        self, partitions: Sequence[TopicIdPartition]
    ) -> list[LeaderVerdict | None]:
        """For each partition, in order, the leader of the answer with the highest leader epoch.

        A broker that is cut off from the others goes on naming the leader that it knew, in an
        older epoch. So all configured brokers are asked, and the highest epoch counts.

        Raises:
            ConnectionError: No broker answered within `ORACLE_DEADLINE_S`.
            InvalidArgument: The settings for connections to the brokers are wrong.
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
    """The leaders of these topics' partitions, as one broker knows them."""
    answer = (await connection.send(metadata_request(topic_ids))).to_object()
    # A topic that this broker does not know has no partitions.
    return {
        (topic["topic_id"], partition["partition"]): LeaderVerdict(
            partition["leader_id"], partition["leader_epoch"]
        )
        for topic in answer["topics"]
        for partition in topic["partitions"]
    }

"""Asks Kafka by which rules a broker may delete: the broker that leads, as it deletes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from aiokafka.errors import for_code  # type: ignore[import-untyped] # It has no types.

from tierledger.actors.explained import NotKnown, ToldRetention
from tierledger.actors.oracle.configs_request import configs_request
from tierledger.actors.oracle.metadata_request import metadata_request
from tierledger.actors.oracle.no_oracle import ORACLE_DEADLINE_S
from tierledger.actors.oracle.offsets_request import EARLIEST, LATEST, offsets_request
from tierledger.events.identifiers import TopicIdPartition
from tierledger.storage.kafka_brokers import Connection, KafkaBrokers

SETTINGS = ("retention.ms", "retention.bytes")

Answer = dict[TopicIdPartition, ToldRetention | NotKnown]


class _LedAt(NamedTuple):
    """Where a partition is led, as one broker knows it."""

    leader_epoch: int
    address: str
    topic: str


class KafkaRetentions:
    """Asks brokers; each question opens its own connections."""

    def __init__(self, brokers: KafkaBrokers) -> None:
        self._brokers = brokers

    async def retentions_of(
        self, partitions: Sequence[TopicIdPartition]
    ) -> list[ToldRetention | NotKnown]:
        """For each partition, in order, what its leading broker says.

        The broker that deletes goes by its own settings, so it is asked for them.

        Raises:
            ConnectionError: No broker answered in time.
            InvalidArgument: The settings for connections to the brokers are wrong.
        """
        ids = sorted({bytes(one.topic_id) for one in partitions})
        places: dict[tuple[bytes, int], _LedAt] = {}
        answers = await self._brokers.answers(
            partial(_places, topic_ids=ids), ORACLE_DEADLINE_S
        )
        for answer in answers.values():
            for where, place in answer.items():
                if where not in places or place > places[where]:
                    places[where] = place
        led: dict[str, dict[TopicIdPartition, str]] = {}
        for one in partitions:
            found = places.get((bytes(one.topic_id), one.partition))
            if found is not None:
                led.setdefault(found.address, {})[one] = found.topic
        told: Answer = {}
        asked = [self._ask(address, names) for address, names in led.items()]
        for each in await asyncio.gather(*asked):
            told |= each
        nobody = NotKnown("Kafka names no leader of the partition")
        return [told.get(one, nobody) for one in partitions]

    async def _ask(self, address: str, names: Mapping[TopicIdPartition, str]) -> Answer:
        broker = KafkaBrokers(address, self._brokers.config)
        try:
            answers = await broker.answers(partial(_retentions, names=names), ORACLE_DEADLINE_S)
        except ConnectionError as error:
            return dict.fromkeys(names, NotKnown(f"its leader does not answer: {error}"))
        return answers[address]


async def _places(
    connection: Connection, topic_ids: Sequence[bytes]
) -> dict[tuple[bytes, int], _LedAt]:
    answer = (await connection.send(metadata_request(topic_ids))).to_object()
    addresses = {one["node_id"]: f"{one['host']}:{one['port']}" for one in answer["brokers"]}
    return {
        (topic["topic_id"], one["partition"]): _LedAt(
            one["leader_epoch"], addresses[one["leader_id"]], topic["name"]
        )
        for topic in answer["topics"]
        for one in topic["partitions"]
        if one["leader_id"] in addresses
    }


async def _retentions(connection: Connection, names: Mapping[TopicIdPartition, str]) -> Answer:
    topics = sorted(set(names.values()))
    configs = (await connection.send(configs_request(topics, SETTINGS))).to_object()
    settings: dict[str, dict[str, Any] | NotKnown] = {}
    for one in configs["results"]:
        topic = one["resource_name"]
        settings[topic] = _refused(one["error_code"], f"settings of {topic}") or {
            each["name"]: each["value"] for each in one["configs"]
        }
    asked: dict[str, list[int]] = {}
    for tip, topic in names.items():
        asked.setdefault(topic, []).append(tip.partition)
    starts = await _offsets(connection, asked, EARLIEST)
    ends = await _offsets(connection, asked, LATEST)
    found: Answer = {}
    for tip, topic in names.items():
        parts = (settings[topic], starts[topic, tip.partition], ends[topic, tip.partition])
        unknown = [one for one in parts if isinstance(one, NotKnown)]
        found[tip] = unknown[0] if unknown else _retention(*parts)
    return found


def _retention(settings: Any, start: Any, end: Any) -> ToldRetention:  # noqa: ANN401 - As in JSON.
    ms, size = (int(settings[name]) for name in SETTINGS)
    return ToldRetention(ms, size, start["offset"], start["leader_epoch"], end["offset"])


async def _offsets(
    connection: Connection, asked: Mapping[str, Sequence[int]], timestamp: int
) -> dict[tuple[str, int], Any]:
    answer = (await connection.send(offsets_request(asked, timestamp))).to_object()
    return {
        (topic["name"], one["partition"]): _refused(
            one["error_code"], f"offsets of {topic['name']}-{one['partition']}"
        )
        or one
        for topic in answer["topics"]
        for one in topic["partitions"]
    }


def _refused(code: int, what: str) -> NotKnown | None:
    return NotKnown(f"Kafka tells no {what}: {for_code(code).__name__}") if code else None

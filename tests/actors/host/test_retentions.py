"""Kafka is asked once for all that wait, and what it does not say is said to be not known."""

import asyncio
from collections.abc import Sequence

from typing_extensions import override

from tierledger.actors.conditions import NOT_JUDGED, Conditions
from tierledger.actors.explained import NotKnown, ToldRetention
from tierledger.actors.host.retentions import Retentions
from tierledger.actors.ports import RetentionSource
from tierledger.events.errors import StorageUnavailable
from tierledger.events.identifiers import TopicIdPartition, Uuid

SAID = ToldRetention(1, 2, 3, 4, 5)
TIPS = [TopicIdPartition(Uuid(bytes(16)), number, "orders") for number in range(3)]


class Kafka(RetentionSource):
    """Answers when a test lets it."""

    def __init__(self) -> None:
        self.asked: list[list[TopicIdPartition]] = []
        self.is_away = False
        self.answers = asyncio.Event()
        self.answers.set()

    @override
    async def retentions_of(
        self, partitions: Sequence[TopicIdPartition]
    ) -> list[ToldRetention | NotKnown]:
        self.asked.append([*partitions])
        await self.answers.wait()
        if self.is_away:
            raise StorageUnavailable("no broker answers")
        return [SAID] * len(partitions)


def asking(kafka: Kafka) -> tuple[Retentions, Conditions]:
    conditions = Conditions(lambda: 7)
    return Retentions(kafka, conditions, asyncio.create_task), conditions


async def test_those_that_wait_share_a_question_and_an_answer_is_used_again() -> None:
    kafka = Kafka()
    kafka.answers.clear()
    retentions, _ = asking(kafka)
    waiting = [asyncio.create_task(retentions.of(TIPS[0]))]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting += [asyncio.create_task(retentions.of(one)) for one in (*TIPS, TIPS[1])]
    await asyncio.sleep(0)
    kafka.answers.set()

    assert await asyncio.gather(*waiting) == [SAID] * 5
    assert kafka.asked == [[TIPS[0]], TIPS]
    assert await retentions.of(TIPS[2]) == SAID
    assert len(kafka.asked) == 2, "it is fresh"


async def test_a_failure_is_no_answer_and_a_condition_until_kafka_answers() -> None:
    kafka = Kafka()
    kafka.is_away = True
    retentions, conditions = asking(kafka)

    failed = await retentions.of(TIPS[0])

    assert isinstance(failed, NotKnown)
    assert "no broker answers" in failed.why
    assert [one["code"] for one in conditions.plain()] == [NOT_JUDGED]
    kafka.is_away = False
    assert await retentions.of(TIPS[0]) == SAID, "a failure is not kept"
    assert conditions.plain() == []

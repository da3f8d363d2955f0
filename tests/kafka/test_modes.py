"""A plugin goes by the owner's word, with Kafka's own manager of a real broker inside."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.kafka.test_plugin import Plugins, started
from tests.models.word_door import WordDoor
from tierledger.actors.door import door_pb2 as pb
from tierledger.simulation.live.kafka_broker import CLUSTER_ID, JARS, OLDEST, KafkaBroker

METADATA = "remote.log.metadata"


@pytest.fixture(scope="module", params=[OLDEST, JARS], ids=["3.9", "newest"])
def broker(request: pytest.FixtureRequest) -> Iterator[KafkaBroker]:
    with KafkaBroker(jars=request.param) as broker:
        yield broker


@pytest.fixture
def plugins(broker: KafkaBroker) -> Iterator[Plugins]:
    with started(broker.jars) as plugins:
        yield plugins


def opened(broker: KafkaBroker, door: WordDoor, mode: str) -> str:
    """The command that opens the plugin of broker 1 in that mode."""
    kafka = {
        f"{METADATA}.common.client.bootstrap.servers": broker.address,
        f"{METADATA}.topic.replication.factor": 1,
        f"{METADATA}.topic.num.partitions": 2,
        "log.dir": broker.logs,
        "tierledger.mode": mode,
    }
    given = " ".join(f"{key} {value}" for key, value in kafka.items())
    return f"1 open {CLUSTER_ID} {door.address} {given}"


async def test_handover_goes_by_the_owners_word(broker: KafkaBroker, plugins: Plugins) -> None:
    ask = plugins.ask
    async with WordDoor(CLUSTER_ID) as door:
        await ask(opened(broker, door, "handover"))
        await ask("1 lead 0")
        heard = await door.attended(0)
        assert (heard.broker_id, heard.mode, heard.is_idle) == (1, pb.MODE_HANDOVER, True)
        assert await ask("1 is-ready 0") == "false"
        assert await ask("1 lookup 0 5") == "ReplicaNotAvailableException"
        assert await ask("1 add 0 0") == "ReplicaNotAvailableException"

        await door.say("kafka")
        assert await ask("1 found 0 5") == "none"
        assert await ask("1 ready 0") == "ready"
        assert await ask("1 add 0 0") == "done"
        assert not (await door.attended(1)).is_idle

        # Reads go on; what is refused now is asked for again, but not what costs an upload.
        await door.say("moving", "kafka", "tierledger")
        await door.attended(2, is_idle=True)
        assert await ask("1 add 0 1") == "ReplicaNotAvailableException"
        assert await ask("1 lookup 0 5") == "none"
        finished = asyncio.create_task(ask("1 move 0 0 COPY_SEGMENT_FINISHED"))
        await door.attended(2, is_idle=True)
        await door.attended(2, is_idle=True)
        assert not finished.done()

        await door.say("kafka")
        assert await finished == "done"
        assert await ask("1 lookup 0 5") == "0:COPY_SEGMENT_FINISHED"

        # The ledger, which has nobody behind it here, is asked from now on.
        await door.say("tierledger")
        assert await ask("1 is-ready 0") == "false"
        assert await ask("1 lookup 0 5") == "ReplicaNotAvailableException"
        assert door.registered[0].mode == pb.MODE_HANDOVER
    assert await ask("1 close") == "done"
    assert await ask("1 threads") == "none"

"""What the demo's clients do.

`produce BROKER COUNT LOG`, `consume BROKER COUNT TOPIC`, `delete BROKER COUNT`.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition  # type: ignore[import-untyped] # It has no types.
from aiokafka.admin import AIOKafkaAdminClient, NewTopic  # type: ignore[import-untyped] # It has no types.

TOPIC = "orders"
SETTINGS = {
    "remote.storage.enable": "true",
    "internal.segment.bytes": "16384",
    "local.retention.bytes": "1",
    "file.delete.delay.ms": "200",
}
WAIT_S = 60.0


def record(number: int) -> bytes:
    return b"order %06d " % number + bytes(500)


async def produce(broker: str, count: int, log: Path) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=broker)
    await admin.start()
    await admin.create_topics([NewTopic(TOPIC, 1, 1, topic_configs=SETTINGS)])
    await admin.close()
    async with AIOKafkaProducer(bootstrap_servers=broker) as producer:
        for number in range(count):
            await producer.send_and_wait(TOPIC, record(number), partition=0)
            if (number + 1) % 200 == 0:
                print(f"{number + 1} records produced")
    async with asyncio.timeout(WAIT_S):
        while (first := local_start(log)) < count - 60:  # noqa: ASYNC110
            await asyncio.sleep(0.2)  # Another process does it.
    print(f"the broker's own log begins at offset {first}; what is before it is in the tier")


def local_start(log: Path) -> int:
    return min((int(one.stem) for one in log.glob("*.log")), default=0)


async def delete(broker: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=broker)
    await admin.start()
    await admin.delete_topics([TOPIC])
    await admin.close()


async def consume(broker: str, count: int, topic: str) -> None:
    async with AIOKafkaConsumer(
        bootstrap_servers=broker, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        async with asyncio.timeout(WAIT_S):
            for number in range(count):
                if (await consumer.getone()).value != record(number):
                    sys.exit(f"record {number} is not what was sent")
    print(f"{count} records, each byte for byte what was sent")


def main() -> None:
    what, broker, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    match what:
        case "produce":
            asyncio.run(produce(broker, count, Path(sys.argv[4])))
        case "consume":
            asyncio.run(consume(broker, count, sys.argv[4]))
        case "delete":
            asyncio.run(delete(broker))


if __name__ == "__main__":
    main()

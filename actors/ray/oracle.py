"""What a service's processes ask Kafka, by its settings."""

from __future__ import annotations

from tierledger.actors.door.addresses import DoorAddress
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.oracle.kafka import KafkaOracle
from tierledger.actors.oracle.no_oracle import NoOracle
from tierledger.actors.oracle.retention import KafkaRetentions
from tierledger.actors.ports import LeaderOracle, RetentionSource
from tierledger.events.errors import InvalidArgument
from tierledger.storage.kafka_brokers import KafkaBrokers


def oracle_of(settings: ServiceSettings) -> LeaderOracle:
    """An oracle that asks Kafka, if `settings` name brokers; otherwise one that knows nothing.

    Raises:
        InvalidArgument: A broker's address is none, or has no port.
    """
    if settings.kafka is None:
        return NoOracle()
    _check(settings.kafka)
    return KafkaOracle(settings.kafka)


def retentions_of(settings: ServiceSettings) -> RetentionSource | None:
    """Who says what brokers may delete; None if `settings` name no brokers.

    Raises as `oracle_of`.
    """
    if settings.kafka is None:
        return None
    _check(settings.kafka)
    return KafkaRetentions(settings.kafka)


def _check(kafka: KafkaBrokers) -> None:
    addresses = kafka.addresses
    brokers = [DoorAddress.parse(one.strip()) for one in addresses.split(",")]
    if not all(one.port for one in brokers):
        raise InvalidArgument(f"expected the ports of Kafka's brokers, got {addresses!r}")

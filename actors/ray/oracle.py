"""The leader oracle of a service's processes, by its settings."""

from __future__ import annotations

from tierledger.actors.door.addresses import DoorAddress
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.oracle.kafka import KafkaOracle
from tierledger.actors.oracle.no_oracle import NoOracle
from tierledger.actors.ports import LeaderOracle
from tierledger.events.errors import InvalidArgument


def oracle_of(settings: ServiceSettings) -> LeaderOracle:
    """An oracle that asks Kafka, if `settings` name brokers; otherwise one that knows nothing.

    Raises:
        InvalidArgument: A broker's address is none, or has no port.
    """
    if settings.kafka is None:
        return NoOracle()
    addresses = settings.kafka.addresses
    brokers = [DoorAddress.parse(one.strip()) for one in addresses.split(",")]
    if not all(one.port for one in brokers):
        raise InvalidArgument(f"expected the ports of Kafka's brokers, got {addresses!r}")
    return KafkaOracle(settings.kafka)

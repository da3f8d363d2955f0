"""Whom the processes of a service ask who leads, as its settings say."""

from __future__ import annotations

from tierledger.actors.door.addresses import DoorAddress
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.oracle.kafka import KafkaOracle
from tierledger.actors.oracle.no_oracle import NoOracle
from tierledger.actors.ports import LeaderOracle
from tierledger.events.errors import InvalidArgument


def oracle_of(settings: ServiceSettings) -> LeaderOracle:
    """Kafka, if `settings` say where it is.

    Raises:
        InvalidArgument: They say so in words that are no addresses.
    """
    if settings.kafka is None:
        return NoOracle()
    addresses = settings.kafka.addresses
    brokers = [DoorAddress.parse(one.strip()) for one in addresses.split(",")]
    if not all(one.port for one in brokers):
        raise InvalidArgument(f"expected the ports of Kafka's brokers, got {addresses!r}")
    return KafkaOracle(settings.kafka)

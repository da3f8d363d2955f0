"""A broker's own settings, as it tells them itself."""

from __future__ import annotations

from aiokafka.errors import for_code  # type: ignore[import-untyped] # It has no types.

from tierledger.actors.oracle.configs_request import broker_configs_request
from tierledger.events.errors import StorageUnavailable
from tierledger.storage.kafka_brokers import Connection, KafkaBrokers


async def settings_of(
    brokers: KafkaBrokers, broker_id: int, address: str, within_s: float
) -> dict[str, str | None]:
    """All settings of the broker at `address`; None for those that it does not show.

    `brokers` has the settings of the connection.

    Raises:
        StorageUnavailable: The broker does not answer, or refuses.
    """

    async def ask(connection: Connection) -> dict[str, str | None]:
        ((code, message, _, _, configs, _),) = (
            await connection.send(broker_configs_request(broker_id))
        ).results
        if code:
            why = message or for_code(code).__name__
            raise StorageUnavailable(f"{address} does not tell its settings: {why}")
        return {name: value for name, value, *_ in configs}

    try:
        answers = await KafkaBrokers(address, brokers.config).answers(ask, within_s)
    except ConnectionError as error:
        raise StorageUnavailable(str(error)) from error
    return answers[address]

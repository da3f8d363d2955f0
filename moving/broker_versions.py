"""Which version of Kafka the brokers of a cluster run, as they tell it themselves.

A broker names the newest `metadata.version` that it supports in its answer to ApiVersions, and
each release of Kafka has brought levels of its own. aiokafka asks for version 2, the last one
without them.
"""

from __future__ import annotations

import asyncio
from io import BytesIO
from typing import Any

from aiokafka.protocol.api import ResponseHeader_v0  # type: ignore[import-untyped] # No types.
from aiokafka.protocol.types import Int16, Int32  # type: ignore[import-untyped] # No types.

from tierledger.events.errors import InvalidArgument, RejectedError
from tierledger.pipeline.imports.topic import REQUEST_MS, admin_of, answering
from tierledger.storage.kafka_brokers import Connection, KafkaBrokers
from tierledger.storage.kafka_requests import STRING, request_of, rows
from tierledger.storage.process_log import ProcessLog
from tierledger.tiering.broker_version import NEWEST, BrokerVersion

ASK_S = 60.0
"""Seconds between two questions for the brokers' versions; they may be upgraded meanwhile."""

_log = ProcessLog("tierledger.moving")

FEATURE = "metadata.version"

_SUPPORTED_FEATURES = 0
"""Tag of the features that a broker supports."""

_FEATURES = rows(("name", STRING), ("min_version", Int16), ("max_version", Int16))

VERSIONS = request_of(
    *(18, 3),
    asks=[("client_software_name", STRING), ("client_software_version", STRING)],
    answers=[
        ("error_code", Int16),
        (
            "api_versions",
            rows(("api_key", Int16), ("min_version", Int16), ("max_version", Int16)),
        ),
        ("throttle_time_ms", Int32),
    ],
    # The one answer without tags in its header, so that every client can read it.
    header=ResponseHeader_v0,
)
"""Asks which requests a broker answers; what it supports is in the answer's tags."""


async def versions_of(brokers: KafkaBrokers) -> dict[int, BrokerVersion]:
    """The version of each broker of the cluster that answers, by its id.

    Raises:
        RejectedError: A broker does not tell, as those do not that use ZooKeeper.
        StorageUnavailable: The brokers do not answer.
    """
    async with answering(brokers):
        async with admin_of(brokers) as admin:
            known = (await admin.describe_cluster())["brokers"]
        ids = {f"{one['host']}:{one['port']}": one["node_id"] for one in known}
        everyone = KafkaBrokers(",".join(ids), brokers.config)
        levels = await everyone.answers(_level_of, REQUEST_MS / 1000)
    return {ids[address]: _version(address, level) for address, level in levels.items()}


class OldestVersion:
    """The oldest version of a cluster's brokers, as last told; at first the newest known."""

    def __init__(self, brokers: KafkaBrokers | None) -> None:
        """Nothing is asked before `run`; None: there is nobody to ask."""
        self._brokers = brokers
        self._told: BrokerVersion | None = None

    def __call__(self) -> BrokerVersion:
        """The version."""
        return self._told or NEWEST

    @property
    def is_told(self) -> bool:
        """Whether brokers have told their version."""
        return self._told is not None

    async def run(self) -> None:
        """Ask again and again, until cancelled."""
        while self._brokers is not None:
            try:
                self._told = min((await versions_of(self._brokers)).values())
            except Exception as error:  # noqa: BLE001 - The next question may succeed.
                _log.debug("the brokers did not tell their version", error=repr(error))
            await asyncio.sleep(ASK_S)


def _version(address: str, level: int | None) -> BrokerVersion:
    if level is None:
        raise RejectedError(f"{address} does not tell its version: it names no {FEATURE}")
    try:
        return BrokerVersion.of_metadata_version(level)
    except InvalidArgument as error:
        raise RejectedError(f"{address}: {error}") from error


async def _level_of(connection: Connection) -> int | None:
    """The newest level of `metadata.version` that the broker supports; None: it names none."""
    return level_in(await connection.send(VERSIONS("tierledger", "1")))


def level_in(answer: Any) -> int | None:  # noqa: ANN401 - aiokafka's.
    """The newest level of `metadata.version` in an answer to ApiVersions, version 3."""
    features = answer.tags.get(_SUPPORTED_FEATURES)
    if features is None:
        return None
    newest = {name: level for name, _, level, _ in _FEATURES.decode(BytesIO(features))}
    return newest.get(FEATURE)

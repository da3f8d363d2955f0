"""What the user has given `doctor` to look at, and what several checks take from it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from tierledger.cli.commands.doctor.seen import UnseenError
from tierledger.cli.opened_store import StoreOptions
from tierledger.cli.settings import given_url, names_doors
from tierledger.events.errors import RemoteStorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tierledger.actors.discovery.service_record import ServiceRecord
    from tierledger.actors.host_settings import ServiceSettings
    from tierledger.cli.commands.status.look import ClusterView
    from tierledger.health.status import ServiceStatus
    from tierledger.moving.topic import KafkaCluster
    from tierledger.storage.kafka_brokers import KafkaBrokers

T = TypeVar("T")

SEE_SERVICE, SEE_STORE = "see the check `service`", "see the check `store-read`"

STORE, SERVICE, TIER, KAFKA, BACKUPS, COLUMNS = (
    "--store with the store's own URL",
    "--store, of the store or of the service's doors",
    "--tier",
    "--kafka",
    "--backups",
    "--columns, and --store with the store's own URL",
)
"""The options that a check needs."""


class Given:
    """The options, and what was read by them once for all checks."""

    def __init__(
        self,
        store: StoreOptions,
        tier: str | None,
        brokers: KafkaBrokers | None,
        backups: str | None = None,
        columns: str | None = None,
    ) -> None:
        self.options = store
        self._tier = tier
        self._brokers = brokers
        self._backups = backups
        self._columns = columns
        self._read: dict[str, asyncio.Task[Any]] = {}

    def has(self, option: str) -> bool:
        """Whether the user has given what a check needs."""
        url = given_url(self.options.store)
        has_store = bool(url) and not names_doors(self.options.store)
        return {
            STORE: has_store,
            SERVICE: bool(url),
            TIER: self._tier is not None,
            KAFKA: self._brokers is not None,
            BACKUPS: self._backups is not None,
            COLUMNS: self._columns is not None and has_store,
        }[option]

    @property
    def tier(self) -> str:
        assert self._tier is not None, "a check that needs --tier"
        return self._tier

    @property
    def brokers(self) -> KafkaBrokers:
        assert self._brokers is not None, "a check that needs --kafka"
        return self._brokers

    @property
    def backups(self) -> str:
        assert self._backups is not None, "a check that needs --backups"
        return self._backups

    @property
    def columns(self) -> str:
        assert self._columns is not None, "a check that needs --columns"
        return self._columns

    async def settings(self) -> ServiceSettings:
        """The settings of a client of the service."""
        from tierledger.cli.service_settings import client_settings

        return await self._once("settings", lambda: client_settings(self.options))

    async def read_store(self) -> ServiceSettings:
        """The settings of a client of the service, whose store was read for them.

        Raises:
            UnseenError: It cannot be read, which another check tells.
        """
        try:
            return await self.settings()
        except RemoteStorageError as error:
            raise UnseenError(f"the store was not read, {SEE_STORE}") from error

    async def record(self) -> ServiceRecord | None:
        """The service's record in the store; None: there is none, or doors were given."""
        from tierledger.actors.discovery.service_record import read_record

        if not self.has(STORE):
            return None
        settings = await self.settings()
        return await self._once("record", lambda: read_record(settings))

    async def look(self) -> ClusterView:
        """What `status` sees of the service, or of a store on which none runs."""
        from tierledger.cli.commands.status.look import StatusOptions, take_look

        options = StatusOptions(self.options, is_repeated=True)
        return await self._once("service", lambda: take_look(options))

    async def service(self) -> ServiceStatus | None:
        """The status of the service; None: none runs."""
        look = await self.look()
        return None if look.service is None else look.service[1]

    async def served(self) -> ServiceStatus:
        """The status of the service.

        Raises:
            UnseenError: None runs, or it is not reached.
        """
        try:
            found = await self.service()
        except RemoteStorageError as error:
            raise UnseenError(f"the service was not reached, {SEE_SERVICE}") from error
        if found is None:
            raise UnseenError("no service runs on the store")
        return found

    async def coordinator(self) -> dict[str, Any]:
        """What the coordinator of the service says.

        Raises:
            UnseenError: It does not answer, or no service runs.
        """
        found = (await self.served()).coordinator
        if found is None:
            raise UnseenError("the coordinator does not answer")
        return found

    async def doors(self) -> tuple[list[str], bool]:
        """The doors of the service, and whether they speak TLS.

        Raises:
            UnseenError: No service runs on the store, or the store cannot be read.
        """
        from tierledger.actors.door.addresses import TLS_SCHEME, doors_in

        url = given_url(self.options.store) or ""
        if names_doors(self.options.store):
            return doors_in(url), url.startswith(TLS_SCHEME)
        try:
            record = await self.record()
        except RemoteStorageError as error:
            raise UnseenError(f"the store was not read, {SEE_STORE}") from error
        if record is None:
            raise UnseenError("no service runs on the store")
        return [one.door for one in record.host_doors], record.speaks_tls

    async def kafka(self) -> KafkaCluster:
        """Where Kafka's brokers are, as the cluster tells it.

        Raises:
            StorageUnavailable: No broker answers.
        """
        from tierledger.moving.topic import kafka_cluster

        return await self._once("kafka", lambda: kafka_cluster(self.brokers))

    async def each_broker(self) -> KafkaCluster:
        """Where Kafka's brokers are, for a check that is about each of them.

        Raises:
            UnseenError: No broker answers, which another check tells.
        """
        try:
            return await self.kafka()
        except RemoteStorageError as error:
            raise UnseenError("no broker was reached, see the check `kafka-cluster`") from error

    async def _once(self, name: str, read: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What `read` gets, once for all; a check that is over its deadline does not end it."""
        if name not in self._read:
            self._read[name] = asyncio.create_task(read())
        found: T = await asyncio.shield(self._read[name])
        return found

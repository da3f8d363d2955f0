"""From settings to a store: the connector and serializer that a user names, or the defaults.

Settings have Kafka's names, with or without the prefix `rlmm.config.`. A class is named by its
path, `package.module:Class` or `package.module.Class`.
"""

from __future__ import annotations

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

from sortedcontainers import SortedDict
from typing_extensions import override

from tierledger.events.errors import InvalidArgument, StoreRefused
from tierledger.storage.backend import MetadataStorageBackend
from tierledger.storage.backends.memory import MemoryBackend
from tierledger.storage.keys import DefaultMetadataKeyFactory, MetadataKeyFactory
from tierledger.storage.locate import (
    SCHEMES,
    StoreUrl,
    default_store_path,
    default_store_url,
    parse_store_url,
)
from tierledger.storage.serde import MetadataSerDe, MsgpackSerDe

PREFIX = "rlmm.config."

URL_SETTING = "metadata.storage.url"
CONNECTOR_SETTING = "metadata.storage.connector.class"
SERIALIZER_SETTING = "metadata.storage.serializer.class"

T = TypeVar("T")

BEHIND_S = 0.2
"""By how much a command that reads a bucket may be behind; more where requests take long, see
`Views`."""


class MetadataStorageConnector(ABC):
    """Opens one store. Constructed without arguments, then configured once."""

    @abstractmethod
    def configure(self, config: Mapping[str, object]) -> None:
        """Take this connector's settings from all settings.

        Raises:
            InvalidArgument: A setting is wrong.
        """

    @property
    def has_one_writer(self) -> bool:
        """Whether only one process at a time may have this store open for writing.

        If so, other processes write through that one. This is the default, as it is safe with
        any store.
        """
        return True

    @property
    def is_on_one_machine(self) -> bool:
        """Whether the store is a file, which only processes of its machine reach.

        If so, the process that writes has to be there; the default.
        """
        return True

    @abstractmethod
    async def backend(self, *, read_only: bool) -> MetadataStorageBackend:
        """The store, opened; the caller closes it.

        Raises:
            NoSuchStore: There is no store yet, and it would only be read.
            StoreRefused: It cannot be opened; the store's own class says when.
        """

    async def try_place(self) -> bool:
        """Whether it was tried, where there is no store yet, that one can be made there.

        Nothing of that stays. By default nothing can be tried.

        Raises:
            StoreRefused: One cannot be made there.
            StorageUnavailable: The place does not answer.
        """
        return False

    async def reader(self) -> MetadataStorageBackend:
        """The store, opened for reading by a part of its service, which relies on rule 3.

        By default as `backend`. Where each look for what is new costs a request, what `backend`
        opens for reading may be a moment behind.
        """
        return await self.backend(read_only=True)

    async def prepare(self) -> bool:
        """Whether `successor` knows now what takes long to find out, and need not do so then.

        For a process that is to follow while another one still writes. By default nothing
        takes long.

        Raises:
            NoSuchStore: There is no store.
            StoreRefused: It cannot be written here.
            StorageUnavailable: It does not answer.
        """
        return False

    async def successor(self) -> MetadataStorageBackend:
        """The store, opened for writing in place of a lost process; the caller closes it.

        By default as `backend`: a lost process holds no lock. It may live on where this
        machine does not reach it, if the store itself keeps it from writing.
        """
        return await self.backend(read_only=False)

    @abstractmethod
    def key_factory(self, cluster_id: str) -> MetadataKeyFactory:
        """The factory for the keys of one Kafka cluster in this store.

        Raises:
            InvalidArgument: `cluster_id` is not valid as an id.
        """


async def opened(
    connector: MetadataStorageConnector, *, read_only: bool, is_prepared: bool = False
) -> MetadataStorageBackend:
    """The store, which is there already, for a part of its service; the caller closes it.

    `is_prepared`: what the connector's `prepare` has answered.

    Raises:
        NoSuchStore: There is none, and none is made.
        StoreRefused: As `MetadataStorageConnector.backend`.
    """
    if is_prepared and not read_only:
        return await connector.successor()
    reading = await connector.reader()
    if read_only:
        return reading
    try:
        return await connector.successor()
    finally:
        await reading.close()


class SqliteConnector(MetadataStorageConnector):
    """Opens a SQLite file: `metadata.storage.url` = `sqlite:FILE`; default: the user's own."""

    def __init__(self) -> None:
        self.path: Path | None = None

    @override
    def configure(self, config: Mapping[str, object]) -> None:
        self.path = _url_of("sqlite", config).path

    @override
    async def backend(self, *, read_only: bool) -> MetadataStorageBackend:
        # Imported here, as a PostgreSQL store does not need it.
        from tierledger.storage.backends.sqlite.backend import SqliteBackend  # noqa: PLC0415

        if self.path is None:
            self.configure({})
        assert self.path is not None
        if not read_only and self.path == default_store_path():
            await asyncio.to_thread(_make_folder, self.path.parent)
        return await SqliteBackend.open(self.path, read_only=read_only)

    @override
    def key_factory(self, cluster_id: str) -> MetadataKeyFactory:
        return DefaultMetadataKeyFactory(cluster_id)


def _make_folder(folder: Path) -> None:
    """Make the default store's folder, which nobody can have mistyped."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreRefused(f"{folder} cannot be made: {error}") from error


class MemoryConnector(MetadataStorageConnector):
    """Opens a store in memory, the same one for the connector's lifetime."""

    def __init__(self) -> None:
        self._values: SortedDict[str, bytes] = SortedDict()

    @override
    def configure(self, config: Mapping[str, object]) -> None:
        if setting(config, URL_SETTING) is not None:
            _url_of("memory", config)

    @override
    async def backend(self, *, read_only: bool) -> MetadataStorageBackend:
        return MemoryBackend(self._values, read_only=read_only)

    @override
    def key_factory(self, cluster_id: str) -> MetadataKeyFactory:
        return DefaultMetadataKeyFactory(cluster_id)


class PostgresConnector(MetadataStorageConnector):
    """Opens a PostgreSQL database: `metadata.storage.url` = `postgresql://USER@HOST/DB`."""

    def __init__(self) -> None:
        self.url: StoreUrl | None = None

    @property
    @override
    def has_one_writer(self) -> bool:
        return False

    @property
    @override
    def is_on_one_machine(self) -> bool:
        return False

    @override
    def configure(self, config: Mapping[str, object]) -> None:
        self.url = _url_of("postgresql", config)

    @override
    async def backend(self, *, read_only: bool) -> MetadataStorageBackend:
        # Imported here, as a SQLite store does not need it.
        from tierledger.storage.backends.postgres.backend import PostgresBackend  # noqa: PLC0415

        if self.url is None:
            raise InvalidArgument(f"expected {SCHEMES['postgresql']} in {URL_SETTING}")
        return await PostgresBackend.open(self.url, read_only=read_only)

    async def server_time_ms(self) -> int:
        """What the server's clock says, in ms since 1970.

        Raises as `backend` does.
        """
        from tierledger.storage.backends.postgres.backend import server_time_ms  # noqa: PLC0415

        if self.url is None:
            raise InvalidArgument(f"expected {SCHEMES['postgresql']} in {URL_SETTING}")
        return await server_time_ms(self.url)

    @override
    def key_factory(self, cluster_id: str) -> MetadataKeyFactory:
        return DefaultMetadataKeyFactory(cluster_id)


class SlateDbConnector(MetadataStorageConnector):
    """Opens a bucket: `metadata.storage.url` = `slatedb:s3://BUCKET/PREFIX`."""

    def __init__(self) -> None:
        self.url: StoreUrl | None = None
        self._is_prepared = False

    @property
    @override
    def is_on_one_machine(self) -> bool:
        return self.url is not None and self.url.path is not None

    @override
    def configure(self, config: Mapping[str, object]) -> None:
        self.url = _url_of("slatedb", config)

    @override
    async def backend(self, *, read_only: bool) -> MetadataStorageBackend:
        # Imported here, as other stores do not need it.
        from tierledger.storage.backends.slatedb.backend import SlateDbBackend  # noqa: PLC0415

        return await SlateDbBackend.open(
            self._needed(), read_only=read_only, patience_s=BEHIND_S
        )

    @override
    async def try_place(self) -> bool:
        from tierledger.storage.backends.slatedb.place import (  # noqa: PLC0415
            DatabasePlace,
            Listing,
        )

        place = DatabasePlace.of(self._needed())
        if not place.bucket:
            return False  # The folder of a probe would stay.
        await Listing(place).require_conditions()
        return True

    @override
    async def reader(self) -> MetadataStorageBackend:
        from tierledger.storage.backends.slatedb.backend import SlateDbBackend  # noqa: PLC0415

        return await SlateDbBackend.open(self._needed(), read_only=True)

    @override
    async def prepare(self) -> bool:
        from tierledger.storage.backends.slatedb.place import (  # noqa: PLC0415
            DatabasePlace,
            Listing,
        )

        reading = await self.reader()
        await reading.close()
        await Listing(DatabasePlace.of(self._needed())).require_conditions()
        self._is_prepared = True
        return True

    @override
    async def successor(self) -> MetadataStorageBackend:
        from tierledger.storage.backends.slatedb.backend import SlateDbBackend  # noqa: PLC0415

        return await SlateDbBackend.open(
            self._needed(), takes_over=True, is_prepared=self._is_prepared
        )

    def _needed(self) -> StoreUrl:
        if self.url is None:
            raise InvalidArgument(f"expected {SCHEMES['slatedb']} in {URL_SETTING}")
        return self.url

    @override
    def key_factory(self, cluster_id: str) -> MetadataKeyFactory:
        return DefaultMetadataKeyFactory(cluster_id)


CONNECTORS: dict[str, type[MetadataStorageConnector]] = {
    "sqlite": SqliteConnector,
    "postgresql": PostgresConnector,
    "memory": MemoryConnector,
    "slatedb": SlateDbConnector,
}
"""The connector for each scheme of a store's URL."""


def load_connector(config: Mapping[str, object]) -> MetadataStorageConnector:
    """The connector that `config` names, or the one for its URL, configured.

    Raises:
        InvalidArgument: The class cannot be loaded or is no connector, or a setting is wrong.
    """
    path = setting(config, CONNECTOR_SETTING)
    if path is None:
        connector = CONNECTORS[_url(config).scheme]()
    else:
        connector = load_instance(path, MetadataStorageConnector)  # type: ignore[type-abstract]
    connector.configure(config)
    return connector


def load_serde(config: Mapping[str, object]) -> MetadataSerDe:
    """The serializer that `config` names, or the default one.

    Raises:
        InvalidArgument: The class cannot be loaded, or is no serializer.
    """
    path = setting(config, SERIALIZER_SETTING)
    if path is None:
        return MsgpackSerDe()
    return load_instance(path, MetadataSerDe)  # type: ignore[type-abstract]


def setting(config: Mapping[str, object], name: str) -> str | None:
    """The setting `name`, with or without Kafka's prefix; None if it is absent or empty.

    Raises:
        InvalidArgument: The value is not text, or both spellings are set and differ.
    """
    plain, prefixed = config.get(name) or None, config.get(PREFIX + name) or None
    if plain is not None and prefixed is not None and plain != prefixed:
        raise InvalidArgument(
            f"{name} is {plain!r}, but {PREFIX}{name} is {prefixed!r}: expected one of them"
        )
    value = prefixed if plain is None else plain
    if value is not None and not isinstance(value, str):
        raise InvalidArgument(f"expected text for {name}, got {value!r}")
    return value


def load_instance(path: str, kind: type[T]) -> T:
    """An instance of the class at `path`, a subclass of `kind`, created without arguments.

    Raises:
        InvalidArgument: There is no such class, or it cannot be created so.
    """
    found = _load(path)
    if not isinstance(found, type) or not issubclass(found, kind):
        raise InvalidArgument(f"expected the path of a {kind.__name__}, but {path!r} is none")
    if inspect.isabstract(found):
        raise InvalidArgument(
            f"expected a {kind.__name__} without abstract methods, got {path!r}"
        )
    try:
        return found()
    except TypeError as error:
        raise InvalidArgument(f"{path!r} cannot be made without arguments: {error}") from error


def _load(path: str) -> object:
    module, colon, name = path.partition(":")
    if not colon:
        module, _, name = path.rpartition(".")
    if not module or not name:
        raise InvalidArgument(f"expected package.module:Class, got {path!r}")
    try:
        found: object = attrgetter(name)(import_module(module))
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise InvalidArgument(f"cannot load {path!r}: {error}") from error
    return found


def _url(config: Mapping[str, object]) -> StoreUrl:
    text = setting(config, URL_SETTING)
    return default_store_url() if text is None else parse_store_url(text)


def _url_of(scheme: str, config: Mapping[str, object]) -> StoreUrl:
    url = _url(config)
    if url.scheme != scheme:
        raise InvalidArgument(
            f"expected a {scheme}: store in {URL_SETTING}, got {url.public!r}"
        )
    return url

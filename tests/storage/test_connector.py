"""Settings lead to a store: ours, or one that a user brings along by class path."""

import base64
import json
import os
import shutil
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from unittest.mock import AsyncMock

import msgpack
import pytest
from typing_extensions import override

from tierledger.events.errors import (
    CorruptCheckpoint,
    InvalidArgument,
    NoSuchStore,
    StoreRefused,
)
from tierledger.storage.backend import MetadataStorageBackend
from tierledger.storage.backends.memory import MemoryBackend
from tierledger.storage.backends.slatedb.place import Listing
from tierledger.storage.connector import (
    MemoryConnector,
    MetadataStorageConnector,
    SlateDbConnector,
    SqliteConnector,
    load_connector,
    load_serde,
    opened,
)
from tierledger.storage.keys import DefaultMetadataKeyFactory, MetadataKeyFactory
from tierledger.storage.locate import (
    StoreUrl,
    default_store_url,
    parse_store_url,
    public_url,
    with_secrets_of,
)
from tierledger.storage.serde import MetadataSerDe, MsgpackSerDe, Plain


class JsonSerDe(MetadataSerDe):
    """Somebody else's: readable, with bytes in base64."""

    @override
    def serialize(self, kind: str, fields: Sequence[Plain]) -> bytes:
        return json.dumps([kind, self._outward(list(fields))]).encode()

    @override
    def deserialize(self, kind: str, data: bytes) -> list[Plain]:
        try:
            found, fields = json.loads(data)
        except ValueError as error:
            raise CorruptCheckpoint(f"no JSON: {error}") from error
        if found != kind:
            raise CorruptCheckpoint(f"expected a {kind}, got a {found}")
        read: list[Plain] = self._inward(fields)
        return read

    def _outward(self, field: Plain) -> Plain:
        match field:
            case bytes():
                return {"base64": base64.b64encode(field).decode()}
            case list():
                return [self._outward(one) for one in field]
            case _:
                return field

    def _inward(self, field: Plain) -> Plain:
        match field:
            case {"base64": text}:
                return base64.b64decode(text)
            case list():
                return [self._inward(one) for one in field]
            case _:
                return field


class UpperKeys(DefaultMetadataKeyFactory):
    @override
    def service(self) -> str:
        return super().service().upper()


class RackConnector(MetadataStorageConnector):
    """Somebody else's: a store per rack, chosen by a setting of their own."""

    stores: Mapping[str, MemoryBackend] = {"north": MemoryBackend(), "south": MemoryBackend()}

    def __init__(self) -> None:
        self.rack = ""

    @override
    def configure(self, config: Mapping[str, object]) -> None:
        self.rack = str(config["metadata.storage.rack"])

    @override
    async def backend(self, *, read_only: bool) -> MetadataStorageBackend:
        return self.stores[self.rack]

    @override
    def key_factory(self, cluster_id: str) -> MetadataKeyFactory:
        return UpperKeys(cluster_id)


class HalfConnector(RackConnector):
    @abstractmethod
    def lacking(self) -> None: ...


class NeedyConnector(RackConnector):
    def __init__(self, rack: str) -> None:
        self.rack = rack


NOT_A_CLASS = RackConnector()


@pytest.mark.parametrize("separator", [":", "."])
@pytest.mark.parametrize("prefix", ["", "rlmm.config."])
async def test_a_connector_of_ones_own_is_loaded_by_its_path(
    separator: str, prefix: str
) -> None:
    config = {
        f"{prefix}metadata.storage.connector.class": f"{__name__}{separator}RackConnector",
        "metadata.storage.rack": "south",
        "metadata.storage.url": "rack:anything",
    }

    connector = load_connector(config)

    assert await connector.backend(read_only=True) is RackConnector.stores["south"]
    assert connector.key_factory("c").service() == "C/SERVICE"


@pytest.mark.parametrize("separator", [":", "."])
@pytest.mark.parametrize("prefix", ["", "rlmm.config."])
def test_a_serializer_of_ones_own_is_loaded_by_its_path(separator: str, prefix: str) -> None:
    name = f"{prefix}metadata.storage.serializer.class"
    fields = [b"\x00\xff", "text", None, True, -5, [[1, b""]]]

    serde = load_serde({name: f"{__name__}{separator}JsonSerDe"})

    assert b"base64" in serde.serialize("segment", fields)
    assert serde.deserialize("segment", serde.serialize("segment", fields)) == fields
    # What an author does not write works by what they wrote.
    row = msgpack.packb(fields)
    assert serde.serialize_row(row) == serde.serialize("segment", fields)
    assert serde.deserialize_row(serde.serialize_row(row)) == row


@pytest.mark.parametrize(
    "path",
    [
        "nonsense",
        ":",
        "module:",
        ":Class",
        "no.such.module:Class",
        "no.such.module.Class",
        f"{__name__}:NoSuchClass",
        f"{__name__}:NOT_A_CLASS",
        f"{__name__}:HalfConnector",
        f"{__name__}:NeedyConnector",
        "pathlib:Path",
        "..relative:Class",
    ],
)
def test_a_path_that_leads_nowhere_or_elsewhere_is_named(path: str) -> None:
    for load, name in ((load_connector, "connector"), (load_serde, "serializer")):
        with pytest.raises(InvalidArgument) as caught:
            load({f"metadata.storage.{name}.class": path})
        assert path in str(caught.value)


def test_a_class_of_the_other_kind_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="MetadataSerDe"):
        load_serde({"metadata.storage.serializer.class": f"{__name__}:RackConnector"})
    with pytest.raises(InvalidArgument, match="MetadataStorageConnector"):
        load_connector({"metadata.storage.connector.class": f"{__name__}:JsonSerDe"})


async def test_the_urls_scheme_chooses_the_connector(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"

    connector = load_connector({"metadata.storage.url": f"sqlite:{path}"})

    assert isinstance(connector, SqliteConnector)
    writer = await connector.backend(read_only=False)
    await writer.create("k", b"v")
    reader = await connector.backend(read_only=True)
    assert await reader.get("k") == b"v"
    with pytest.raises(StoreRefused):
        await reader.create("l", b"")
    await reader.close()
    await writer.close()
    assert connector.key_factory("c").service() == "c/service"


async def test_a_store_in_memory_lasts_as_long_as_its_connector() -> None:
    connector = load_connector({"rlmm.config.metadata.storage.url": "memory:"})
    writer = await connector.backend(read_only=False)

    await writer.create("k", b"v")
    await writer.close()

    assert isinstance(connector, MemoryConnector)
    reader = await connector.backend(read_only=True)
    assert await reader.get("k") == b"v"


def test_without_settings_it_is_the_users_own_sqlite_file() -> None:
    connector = load_connector({"metadata.storage.url": "", "rlmm.config.else": 1})

    assert isinstance(connector, SqliteConnector)
    assert connector.path == default_store_url().path
    assert isinstance(load_serde({}), MsgpackSerDe)


@pytest.mark.parametrize(
    "config",
    [
        {"metadata.storage.url": 5},
        {"metadata.storage.url": ["sqlite:a"]},
        {"metadata.storage.url": "memory:", "rlmm.config.metadata.storage.url": "sqlite:a"},
        {"metadata.storage.url": "postgres:a"},
        {
            "metadata.storage.url": "memory:",
            "metadata.storage.connector.class": "tierledger.storage.connector:SqliteConnector",
        },
        {
            "metadata.storage.url": "sqlite:a",
            "metadata.storage.connector.class": "tierledger.storage.connector:MemoryConnector",
        },
    ],
    ids=str,
)
def test_settings_that_do_not_go_together_are_refused(config: Mapping[str, object]) -> None:
    with pytest.raises(InvalidArgument):
        load_connector(config)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("memory:", StoreUrl("memory")),
        ("sqlite:a/b.sqlite", StoreUrl("sqlite", Path("a/b.sqlite").absolute())),
        ("sqlite:/a:b", StoreUrl("sqlite", Path("/a:b"))),
        ("sqlite:///a", StoreUrl("sqlite", Path("/a"))),
        ("sqlite:~/a", StoreUrl("sqlite", Path.home() / "a")),
        ("slatedb:s3://b/p/q", StoreUrl("slatedb", server="s3://b/p/q")),
        ("slatedb:s3://b/p/", StoreUrl("slatedb", server="s3://b/p")),
        ("slatedb:file:a", StoreUrl("slatedb", Path("a").absolute())),
        ("slatedb:file:///a/b", StoreUrl("slatedb", Path("/a/b"))),
    ],
)
def test_a_store_is_named_by_scheme_and_place(text: str, url: StoreUrl) -> None:
    assert parse_store_url(text) == url
    assert parse_store_url(str(url)) == url


@pytest.mark.parametrize(
    "text",
    [
        "",
        "memory",
        "memory:x",
        "sqlite",
        "sqlite:",
        "sqlite://host/x",
        "SQLITE:a",
        "a.db",
        "s3:b",
        "slatedb:",
        "slatedb:s3://bucket",
        "slatedb:s3://bucket/",
        "slatedb:s3:/bucket/a",
        "slatedb:s3://bucket/a//b",
        "slatedb:s3://bucket/../b",
        "slatedb:s3://bucket/a?b=c",
        "slatedb:gs://bucket/a",
        "slatedb:file:",
        "slatedb:file://host/a",
    ],
)
def test_a_store_that_cannot_be_found_so_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        parse_store_url(text)


def test_an_unknown_scheme_is_answered_with_those_known() -> None:
    known = (
        "sqlite:FILE or postgresql://USER@HOST:PORT/DATABASE or slatedb:s3://BUCKET/PREFIX or "
        "memory:, got 'redis:x'"
    )
    with pytest.raises(InvalidArgument, match=known):
        parse_store_url("redis:x")


@pytest.mark.parametrize(
    ("text", "public"),
    [
        ("sqlite:///u:me@x/a?b=c", "sqlite:/u:me@x/a?b=c"),
        ("postgresql://me@h:1/db", "postgresql://me@h:1/db"),
        ("postgres://me:secret@h:1,i:2/db", "postgresql://me@h:1,i:2/db"),
        ("postgresql://me:se?cret@h/db", "postgresql://me@h/db"),
        ("postgresql://me:se@cret@h/db", "postgresql://me@h/db"),
        ("postgresql://h/db?password=secret", "postgresql://h/db"),
        ("postgresql://h/db?a=b&p%61ssword=secret&c=d", "postgresql://h/db?a=b&c=d"),
        ("postgresql:///db?host=/var/run", "postgresql:///db?host=/var/run"),
    ],
)
def test_what_others_see_of_a_store_holds_no_password(text: str, public: str) -> None:
    url = parse_store_url(text)

    assert url.public == public
    assert public_url(str(url)) == public
    assert "secret" not in repr(url)
    assert parse_store_url(str(url)) == url
    assert with_secrets_of(text, public) == (text if text.startswith("postgres") else public)
    assert with_secrets_of(text, "postgresql://else/db") == "postgresql://else/db"


def test_a_password_meant_for_another_program_is_not_repeated() -> None:
    with pytest.raises(InvalidArgument, match="got 'mysql://me@h/db'"):
        parse_store_url("mysql://me:secret@h/db")


async def test_the_default_store_needs_no_folder_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    connector = SqliteConnector()

    await (await connector.backend(read_only=False)).close()

    assert connector.path is not None
    assert connector.path.is_relative_to(tmp_path / "home")


async def test_without_a_home_folder_a_store_has_to_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("HOME", "~")
    monkeypatch.setattr(os, "getuid", lambda: 54_321)  # An id that nobody has.
    named = SqliteConnector()
    named.configure({"metadata.storage.url": f"sqlite:{tmp_path / 'store'}"})

    await (await named.backend(read_only=False)).close()

    with pytest.raises(InvalidArgument, match=r"no store is named.*expected --store.* or HOME"):
        await SqliteConnector().backend(read_only=False)


def test_the_default_store_is_among_the_users_data() -> None:
    path = default_store_url().path

    assert path is not None
    assert path.is_absolute()
    assert path.parts[-2:] == ("tierledger", "tierledger.sqlite")


async def test_a_prepared_successor_looks_for_nothing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"metadata.storage.url": f"slatedb:file:{tmp_path / 'store'}"}
    former = await load_connector(config).backend(read_only=False)
    await former.create("k", b"before")
    connector = load_connector(config)
    assert await connector.prepare()
    await former.create("l", b"after")
    await former.close()
    looked = AsyncMock()
    monkeypatch.setattr(Listing, "require_conditions", looked)
    monkeypatch.setattr(SlateDbConnector, "reader", looked)

    successor = await opened(connector, read_only=False, is_prepared=True)

    assert await successor.get_each(["k", "l"]) == [b"before", b"after"]
    assert not looked.called
    await successor.close()


async def test_a_prepared_successor_makes_no_store_where_it_had_seen_one(
    tmp_path: Path,
) -> None:
    config = {"metadata.storage.url": f"slatedb:file:{tmp_path / 'store'}"}
    with pytest.raises(NoSuchStore):
        await load_connector(config).prepare()
    await (await load_connector(config).backend(read_only=False)).close()
    connector = load_connector(config)
    await connector.prepare()
    shutil.rmtree(tmp_path / "store")

    with pytest.raises(NoSuchStore, match="it was there before"):
        await opened(connector, read_only=False, is_prepared=True)

    with pytest.raises(NoSuchStore):
        await load_connector(config).reader()

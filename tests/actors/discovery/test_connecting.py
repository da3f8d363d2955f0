"""How a client finds its service: which way is taken for which URL."""

import sys
from types import SimpleNamespace

import pytest

from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.discovery.connecting import connect
from tierledger.actors.host_settings import ServiceSettings
from tierledger.events.errors import InvalidArgument, NotReady

NOBODY = "tierledger://localhost:1"
"""No process listens there."""


def settings(url: str) -> ServiceSettings:
    return ServiceSettings("a-cluster", {"metadata.storage.url": url})


THROUGH_STORE = "tierledger.actors.discovery.found_connection"


@pytest.mark.parametrize("url", ["sqlite:FILE", "postgresql://HOST/DATABASE", "memory:"])
async def test_the_url_of_a_store_leads_to_the_doors_in_its_record(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[ServiceSettings] = []

    async def through_store(given: ServiceSettings) -> None:
        asked.append(given)

    monkeypatch.setitem(sys.modules, THROUGH_STORE, SimpleNamespace(connect=through_store))

    await connect(settings(url))

    assert asked == [settings(url)]


async def test_the_url_of_hosts_leads_past_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, THROUGH_STORE, None)

    with pytest.raises(NotReady, match="localhost:1"):
        await connect(settings(NOBODY))


async def test_a_manager_of_which_nothing_is_said_goes_by_the_url() -> None:
    config = {"cluster.id": "a-cluster", "broker.id": 1, "metadata.storage.url": NOBODY}

    with pytest.raises(NotReady, match="localhost:1"):
        await AsyncRemoteLogMetadataManager(deadline_s=1.0).configure(config)


async def test_a_wrong_url_of_hosts_is_named() -> None:
    for url in ("tierledger://nowhere", "http://there", "localhost:4711"):
        with pytest.raises(
            InvalidArgument, match=rf"^metadata.storage.url: .*tierledger://HOST:PORT.*'{url}'"
        ):
            await connect(settings(url))


def test_the_past_is_not_read_through_hosts() -> None:
    with pytest.raises(InvalidArgument, match="tierledger"):
        settings(NOBODY).connector()

"""How a client finds its service: which way is taken for which URL."""

import sys
from types import SimpleNamespace

import pytest

from tierledger.actors.client import AsyncRemoteLogMetadataManager
from tierledger.actors.connecting import connect
from tierledger.actors.host_settings import ServiceSettings
from tierledger.events.errors import InvalidArgument

HOSTS = "tierledger://one:9092,two:9092"


def settings(url: str) -> ServiceSettings:
    return ServiceSettings("a-cluster", {"metadata.storage.url": url})


THROUGH_RAY = "tierledger.actors.ray_service"


@pytest.mark.parametrize("url", ["sqlite:FILE", "postgresql://HOST/DATABASE", "memory:"])
async def test_the_url_of_a_store_leads_through_ray(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[ServiceSettings] = []

    async def through_ray(given: ServiceSettings) -> None:
        asked.append(given)

    monkeypatch.setitem(sys.modules, THROUGH_RAY, SimpleNamespace(connect=through_ray))

    await connect(settings(url))

    assert asked == [settings(url)]


async def test_the_url_of_hosts_is_no_stores_and_leads_past_ray(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, THROUGH_RAY, None)

    with pytest.raises(InvalidArgument, match=f"expected the URL of a store, got '{HOSTS}'"):
        await connect(settings(HOSTS))


async def test_a_manager_of_which_nothing_is_said_goes_by_the_url() -> None:
    config = {"cluster.id": "a-cluster", "broker.id": 1, "metadata.storage.url": HOSTS}

    with pytest.raises(InvalidArgument, match="expected the URL of a store"):
        await AsyncRemoteLogMetadataManager().configure(config)

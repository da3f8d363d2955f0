"""`serve` when a step between the service's start and its end fails."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.models.actors.secrets import Secrets
from tierledger.actors.door.security.settings import CA_KEY, TOKEN_KEY
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.ray import service as ray_service
from tierledger.cli.commands import serve
from tierledger.cli.commands.console import serving
from tierledger.cli.opened_store import StoreOptions
from tierledger.cli.service_settings import client_settings
from tierledger.events.errors import OutcomeUnknown


@pytest.mark.parametrize("error", [OutcomeUnknown("lost"), asyncio.CancelledError()])
async def test_a_service_that_has_started_is_closed_whatever_happens_then(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    class Service:
        def __init__(self, settings: object, *_: object) -> None:
            self.settings = settings

        async def start(self) -> SimpleNamespace:
            steps.append("started")
            return SimpleNamespace(address="10.0.0.1:6379", pid=1)

        async def close(self) -> None:
            steps.append("closed")

    class Connection:
        def __init__(self, _: object) -> None:
            self.coordinator = self

        async def ask(self, _: object) -> None:
            raise error

    monkeypatch.setattr(ray_service, "RayService", Service)
    monkeypatch.setattr(ray_service, "RayConnection", Connection)
    options = StoreOptions(f"sqlite:{tmp_path / 'store.sqlite'}", "orders")
    asked = serve.ServeRequest(options, ServiceSettings("", {}), "10.0.0.1:6379")
    until: Any = SimpleNamespace(give_up=steps.append)  # Nothing gets so far.

    with pytest.raises(type(error)):
        await serve._serve(asked, until)

    assert steps == ["started", "closed"]


async def test_the_console_of_a_service_comes_in_at_doors_as_hosts_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: list[StoreOptions] = []

    class Pages:
        def __init__(self, options: StoreOptions, *_: object) -> None:
            chosen.append(options)

        def close(self) -> None:
            pass

    monkeypatch.setattr(serving, "Console", Pages)
    monkeypatch.setenv("TIERLEDGER_TOKEN", "a-token-of-whoever-starts-it")
    security = Secrets(tmp_path).door()
    asked = serve.ServeRequest(
        StoreOptions(f"sqlite:{tmp_path / 'store.sqlite'}", "orders"),
        ServiceSettings("", {}, security=security),
        console="127.0.0.1:0",
    )

    async with AsyncExitStack() as running:
        serve._prepared_console(asked, "orders", running)

    settings = await client_settings(chosen[0])
    assert settings.storage[TOKEN_KEY] == security.host_token
    assert settings.storage[CA_KEY] == security.ca

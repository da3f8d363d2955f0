"""`tierledger handover` waits a little for who follows Kafka's topic to be well."""

import asyncio
from typing import Any

import pytest

from tierledger.cli.commands import handover


class Troubled:
    """A coordinator whose follower is well after some looks."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    async def status(self) -> dict[str, Any]:
        self.looks -= 1
        return {"kafka": {"trouble": "no broker answers" if self.looks >= 0 else None}}


async def test_a_trouble_that_passes_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover, "LOOK_S", 0)
    coordinator: Any = Troubled(5)

    await handover.settled(coordinator)

    assert coordinator.looks == -1


async def test_a_trouble_that_stays_is_left_to_the_move(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handover, "SETTLES_S", 0.01)
    coordinator: Any = Troubled(10**9)

    async with asyncio.timeout(30):
        await handover.settled(coordinator)

    assert coordinator.looks > 0

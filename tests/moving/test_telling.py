"""What a move tells the service: again and again, and how it has ended; never in its way."""

import asyncio
from typing import Any

import pytest

from tierledger.actors.coordinator.attendance import MoveReport
from tierledger.events.errors import InvalidArgument, RejectedError, StorageUnavailable
from tierledger.moving import telling as module
from tierledger.moving.telling import SUCCEEDED, telling

REPORT = MoveReport("tierledger", "holding", 2)


class HearingCoordinator:
    """Keeps what it is told; may fail, or never answer."""

    def __init__(self, fails: Exception | None = None, *, is_silent: bool = False) -> None:
        self.heard: list[MoveReport] = []
        self.enough = asyncio.Event()
        self._fails = fails
        self._is_silent = is_silent

    async def ask(self, request: Any) -> Any:  # noqa: ANN401 - Any request.
        self.heard.append(request)
        if len(self.heard) >= 3:
            self.enough.set()
        if self._is_silent:
            await asyncio.Event().wait()
        if self._fails is not None:
            raise self._fails


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TELL_S", 0.01)
    monkeypatch.setattr(module, "PATIENCE_S", 0.05)


async def test_a_move_tells_again_and_again_and_then_its_end() -> None:
    coordinator = HearingCoordinator()

    async with telling(coordinator, lambda: REPORT):
        await coordinator.enough.wait()

    *during, last = coordinator.heard
    assert set(during) == {REPORT}
    assert last == REPORT._replace(outcome=SUCCEEDED)


async def test_why_a_move_was_given_back_is_told() -> None:
    coordinator = HearingCoordinator()

    with pytest.raises(RejectedError, match="too long"):
        async with telling(coordinator, lambda: REPORT):
            raise RejectedError("it took too long")

    assert coordinator.heard[-1].outcome == "it took too long"


@pytest.mark.parametrize("error", [StorageUnavailable("away"), InvalidArgument("unknown")])
async def test_a_service_that_does_not_take_it_changes_nothing(error: Exception) -> None:
    coordinator = HearingCoordinator(error)

    async with telling(coordinator, lambda: REPORT):
        await coordinator.enough.wait()

    assert len(coordinator.heard) >= 3


async def test_a_service_that_never_answers_holds_nothing_up() -> None:
    coordinator = HearingCoordinator(is_silent=True)

    async with asyncio.timeout(5), telling(coordinator, lambda: REPORT):
        await asyncio.sleep(0)

    assert coordinator.heard[-1].outcome == SUCCEEDED

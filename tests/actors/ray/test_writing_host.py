"""How hosts find the one that writes for all, also without Ray's control store."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.models.ray.brokers import settings_for
from tierledger.actors.calls import CountsCall
from tierledger.actors.ports import HostGone
from tierledger.actors.ray import handles
from tierledger.actors.ray.handles import LOOK_AGAIN_S, WritingHost
from tierledger.events.errors import NotReady, RemoteStorageError, StorageUnavailable


class WritingProcesses:
    """The actors by their names, of which some have ended; and which of them serves."""

    def __init__(self) -> None:
        self.named = {"host-0/1": 1, "host-0/2": 2}
        self.ended: set[int] = set()
        self.serves: str | None = "host-0/1"
        self.asked = 0

    async def ask(self, _: object) -> dict[str, str]:
        """The coordinator's answer."""
        self.asked += 1
        return {} if self.serves is None else {"host-0": self.serves}

    async def call(self, actor: int, method: str, *_: object, **__: object) -> int:
        if actor in self.ended:
            raise HostGone(method)
        return actor


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> WritingProcesses:
    found = WritingProcesses()
    monkeypatch.setattr(handles, "find_actor", lambda address, _: found.named.get(address))
    monkeypatch.setattr(handles, "call", found.call)
    return found


@pytest.fixture
def writer(processes: WritingProcesses, tmp_path: Path) -> WritingHost:
    coordinator: Any = processes
    return WritingHost(coordinator, settings_for(tmp_path / "s.sqlite"), "host-0")


async def answers(writer: WritingHost) -> Any:  # noqa: ANN401 - The actor that answers.
    return await (await writer.current()).ask(CountsCall())


async def test_a_successor_that_was_replaced_in_reserve_is_found_again(
    processes: WritingProcesses, writer: WritingHost
) -> None:
    await writer._foreseen()
    assert await answers(writer) == 1
    processes.ended |= {1, 2}
    processes.named["host-0/2"], processes.serves = 3, "host-0/2"
    writer.forget()
    with pytest.raises(HostGone):
        await answers(writer)  # By the handle that was foreseen.
    writer.forget()

    assert await answers(writer) == 3


async def test_a_successor_is_found_before_it_writes(
    processes: WritingProcesses, writer: WritingHost
) -> None:
    await writer._foreseen()
    processes.ended.add(2)
    processes.named["host-0/2"] = 3
    with pytest.raises(HostGone):
        await writer._foreseen()
    await writer._foreseen()
    processes.named.clear()  # The control store is away.
    processes.serves = "host-0/2"
    writer.forget()

    assert await answers(writer) == 3


async def test_a_successor_stays_foreseen_while_the_lost_process_is_named(
    processes: WritingProcesses, writer: WritingHost
) -> None:
    await writer._foreseen()
    assert await answers(writer) == 1
    processes.ended.add(1)
    processes.named.clear()  # The control store is away.
    for _ in range(3):  # The coordinator has not given it up yet.
        writer.forget()
        with pytest.raises(RemoteStorageError):
            await answers(writer)
    processes.serves = "host-0/2"
    writer.forget()

    assert await answers(writer) == 2


async def test_a_call_does_not_wait_for_a_search_that_does_not_end(
    processes: WritingProcesses, writer: WritingHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches = []

    async def search_without_end(_: object) -> None:
        searches.append(1)
        await asyncio.Event().wait()

    monkeypatch.setattr(handles, "SEARCH_S", 0.01)
    await writer._foreseen()
    processes.ended.add(1)
    monkeypatch.setattr(handles, "beside", search_without_end)
    processes.serves = "host-0/0"
    for _ in range(2):
        writer.forget()
        with pytest.raises(NotReady):
            await answers(writer)
    processes.serves = "host-0/2"
    writer.forget()

    assert await answers(writer) == 2
    assert len(searches) == 1


async def test_calls_wait_together_while_the_writing_host_is_replaced(
    processes: WritingProcesses, writer: WritingHost
) -> None:
    processes.serves = None
    waiting = [asyncio.create_task(answers(writer)) for _ in range(100)]
    await asyncio.sleep(3 * LOOK_AGAIN_S)
    assert processes.asked <= 4
    waiting[0].cancel()  # The others wait on.
    processes.serves = "host-0/2"

    assert await asyncio.gather(*waiting[1:]) == [2] * 99


async def test_a_call_fails_if_no_host_writes_for_long(
    processes: WritingProcesses, writer: WritingHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handles, "REPLACED_S", 2 * LOOK_AGAIN_S)
    processes.serves = None
    with pytest.raises(StorageUnavailable, match="is being replaced"):
        await answers(writer)

    processes.serves = "host-0/1"
    assert await answers(writer) == 1

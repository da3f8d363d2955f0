"""How hosts find the one that writes for all, also without Ray's control store."""

from pathlib import Path
from typing import Any

import pytest

from tests.models.ray.brokers import settings_for
from tierledger.actors.calls import CountsCall
from tierledger.actors.ports import HostGone
from tierledger.actors.ray import handles
from tierledger.actors.ray.handles import WritingHost


class Coordinator:
    """Knows the address of the host that writes."""

    def __init__(self) -> None:
        self.serves = "host-0/1"

    async def ask(self, _: object) -> dict[str, str]:
        return {"host-0": self.serves}


async def test_a_successor_that_was_replaced_in_reserve_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = {"host-0/1": 1, "host-0/2": 2}
    dead: set[int] = set()

    async def called(actor: int, method: str, *_: object, **__: object) -> Any:  # noqa: ANN401
        if actor in dead:
            raise HostGone(method)
        return actor

    monkeypatch.setattr(handles, "find_actor", lambda address, _: named.get(address))
    monkeypatch.setattr(handles, "call", called)
    coordinator: Any = Coordinator()
    writer = WritingHost(coordinator, settings_for(tmp_path / "s.sqlite"), "host-0")

    async def answers() -> Any:  # noqa: ANN401 - The actor that answers.
        return await (await writer.current()).ask(CountsCall())

    await writer._foreseen()
    assert await answers() == 1
    dead |= {1, 2}
    named["host-0/2"], coordinator.serves = 3, "host-0/2"
    writer.forget()
    with pytest.raises(HostGone):
        await answers()  # By the handle that was foreseen.
    writer.forget()

    assert await answers() == 3


async def test_a_successor_is_found_before_it_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = {"host-0/1": 1, "host-0/2": 2}
    dead: set[int] = set()

    async def called(actor: int, method: str, *_: object, **__: object) -> Any:  # noqa: ANN401
        if actor in dead:
            raise HostGone(method)
        return actor

    monkeypatch.setattr(handles, "find_actor", lambda address, _: named.get(address))
    monkeypatch.setattr(handles, "call", called)
    coordinator: Any = Coordinator()
    writer = WritingHost(coordinator, settings_for(tmp_path / "s.sqlite"), "host-0")

    await writer._foreseen()
    dead.add(2)
    named["host-0/2"] = 3
    with pytest.raises(HostGone):
        await writer._foreseen()
    await writer._foreseen()
    named.clear()  # The control store is away.
    coordinator.serves = "host-0/2"
    writer.forget()

    answer: Any = await (await writer.current()).ask(CountsCall())
    assert answer == 3

"""A page is made once for all who ask, and nobody waits for it where there is an older one."""

import asyncio
from collections.abc import Callable

import pytest

from tests.models.actors.local_world import eventually
from tierledger.cli.commands.console import answers as module
from tierledger.cli.commands.console.answers import Answers
from tierledger.events.errors import StorageUnavailable


class SlowPage:
    """A page whose makings end when they are let go."""

    def __init__(self) -> None:
        self.makings = self.drawn = 0
        self.version = "1"
        self.fails: Exception | None = None
        self.gate = asyncio.Event()

    async def make(self) -> tuple[str, Callable[[], str]]:
        self.makings += 1
        version = self.version
        await self.gate.wait()
        if self.fails is not None:
            raise self.fails
        return version, lambda: self._page(version)

    def _page(self, version: str) -> str:
        self.drawn += 1
        return f"page {version}"


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def answers(told: list[str], monkeypatch: pytest.MonkeyPatch) -> Answers:
    monkeypatch.setattr(module, "WAIT_S", 0.05)
    return Answers(lambda: told.append("news"))


async def test_all_who_ask_at_once_get_one_page(answers: Answers) -> None:
    page = SlowPage()
    asking = [asyncio.create_task(answers.newest("/", page.make)) for _ in range(20)]
    await asyncio.sleep(0)
    page.gate.set()

    made = await asyncio.gather(*asking)

    assert {one.html for one in made} == {"page 1"}
    assert page.drawn == 1
    assert page.makings == 2, "who came while it was made made sure that nothing is newer"


async def test_who_asks_while_an_older_page_is_made_gets_the_newer_one(
    answers: Answers,
) -> None:
    page = SlowPage()
    first = asyncio.create_task(answers.newest("/", page.make))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    page.version = "2"
    second = asyncio.create_task(answers.newest("/", page.make))
    await asyncio.sleep(0)
    page.gate.set()

    assert (await first).html == "page 1"
    assert (await second).html == "page 2"


async def test_who_asks_while_a_newer_page_is_made_gets_the_old_one_and_hears(
    answers: Answers, told: list[str]
) -> None:
    page = SlowPage()
    page.gate.set()
    await answers.newest("/", page.make)
    page.gate.clear()
    page.version = "2"

    old = await answers.newest("/", page.make)
    before = list(told)
    page.gate.set()
    await eventually(lambda: bool(told))
    new = await answers.newest("/", page.make)

    assert (old.html, new.html) == ("page 1", "page 2")
    assert (before, told[:1]) == ([], ["news"])
    assert page.makings == 2


async def test_a_slow_page_is_not_made_all_the_time(answers: Answers, told: list[str]) -> None:
    page = SlowPage()
    first = asyncio.create_task(answers.newest("/", page.make))
    await asyncio.sleep(0.1)
    page.gate.set()
    await first
    page.version = "2"

    resting = await answers.newest("/", page.make)
    await eventually(lambda: len(told) >= 2)
    rested = await answers.newest("/", page.make)

    assert (resting.html, rested.html) == ("page 1", "page 2")


async def test_a_failure_is_told_to_one_who_asks_and_then_tried_again(
    answers: Answers, told: list[str]
) -> None:
    page = SlowPage()
    page.fails = StorageUnavailable("no")
    page.gate.set()
    answers.begin("/", page.make, is_awaited=False)
    await eventually(lambda: bool(told))

    assert answers.is_known("/")
    assert told == ["news"]
    with pytest.raises(StorageUnavailable):
        await answers.newest("/", page.make)
    page.fails = None
    assert (await answers.newest("/", page.make)).html == "page 1"
    assert page.makings == 2


async def test_the_pages_that_were_asked_for_last_are_kept(
    answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HELD", 2)
    page = SlowPage()
    page.gate.set()
    for address in "abc":
        await answers.newest(address, page.make)

    assert [answers.is_known(one) for one in "abc"] == [False, True, True]

"""A move as the console shows it, played on a coordinator: steps, what is held, comparisons."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.models.actors.harness import SERDE
from tests.models.actors.local_world import KEYS, LocalWorld, sqlite_in
from tests.models.actors.reports import coordinator as known_by
from tierledger.actors.calls import PartitionKey
from tierledger.actors.coordinator.attendance import (
    Attend,
    Difference,
    MoveReport,
    ShadowReport,
)
from tierledger.actors.coordinator.events import Owner
from tierledger.actors.coordinator.ownership import Handover, PluginMode
from tierledger.cli.commands.console.move_view import GONE_MS, MoveView, move_view
from tierledger.cli.commands.console.owners import OwnerSince, PastOwners
from tierledger.events.vocabulary import WORDS
from tierledger.storage.catalog import Catalog

DIFFERS = Difference(
    PartitionKey(bytes(16), 3), "orders", "lookup", 4, 100, 41, (bytes(16),), (), None, None, ""
)
COUNTS = Difference(PartitionKey(bytes(16), 3), "orders", "size", 0, 0, 7, (), (), 12, 11, "")


SHADOW, HANDOVER = PluginMode.SHADOW, PluginMode.HANDOVER


class PlayedMove:
    """A coordinator that is moved by hand, and the view of it."""

    def __init__(self, world: LocalWorld) -> None:
        self.coordinator = world.service.coordinator
        self.owners = PastOwners()
        self._catalog = Catalog(self.coordinator.backend, KEYS, SERDE, world.cluster)

    async def own(self, to: Owner, of: Owner, **more: Any) -> None:  # noqa: ANN401 - Fields.
        await self.coordinator.hand_over(Handover(to, of, **more))

    async def attend(self, *brokers: tuple[PluginMode, int, bool]) -> None:
        for broker_id, (mode, owner_epoch, is_idle) in enumerate(brokers, 1):
            await self.coordinator.attend(Attend(broker_id, 0, mode, owner_epoch, is_idle))

    async def compare(self, broker_id: int, shadow: ShadowReport, epoch: int = 1) -> None:
        report = Attend(broker_id, 0, PluginMode.SHADOW, epoch, False, shadow)
        await self.coordinator.attend(report)

    async def follow(self, task: str, **more: Any) -> None:  # noqa: ANN401 - Fields.
        report = {"follower": "f", "reports": 1, "task": task, "round": 1, "trouble": None}
        await self.coordinator.follow_kafka({**report, **more})

    async def view(self) -> MoveView:
        await self.owners.read(self._catalog)
        return move_view(await self.coordinator.status(), self.owners.changes)


def words(view: MoveView) -> str:
    """The steps' words, by their first letters, and a gap where the move begins."""
    assert all(one.word in WORDS for one in view.steps)
    letters = [one.word[0] for one in view.steps]
    return f"{''.join(letters[:-4])} {''.join(letters[-4:])}".strip()


@pytest.fixture
async def played(tmp_path: Path) -> AsyncIterator[PlayedMove]:
    async with LocalWorld(sqlite_in(tmp_path)) as world:
        yield PlayedMove(world)


async def test_what_has_to_be_before_a_move_is_told(played: PlayedMove) -> None:
    nobody = await played.view()
    await played.own(Owner.KAFKA, Owner.NOBODY)
    stock = await played.view()
    await played.follow("import", lag=12)
    await played.attend((SHADOW, 1, False), (SHADOW, 1, False))
    await played.compare(1, ShadowReport(90, 0, (), (), 0, 90, 1000))
    one_compared = await played.view()
    await played.compare(2, ShadowReport(90, 0, (), (), 0, 90, 1000))
    verified = await played.view()
    await played.attend((HANDOVER, 1, False), (SHADOW, 1, False))
    restarting = await played.view()
    await played.attend((HANDOVER, 1, False), (HANDOVER, 1, False))

    assert (words(nobody), nobody.verdict[1]) == ("", "nobody")
    assert words(stock) == "uttt tttt"
    assert words(one_compared) == "dutt tttt"
    assert one_compared.steps[0].note == "import, round 1, 12 records behind"
    assert one_compared.steps[1].note == "not yet: broker 2"
    assert words(verified) == "ddtt tttt"
    assert words(restarting) == "ddut tttt"
    assert restarting.steps[2].note == "1 of 2 brokers that attend"
    assert words(await played.view()) == "dddt tttt"


async def test_differences_are_named_with_both_answers_until_they_go(
    played: PlayedMove,
) -> None:
    await played.own(Owner.KAFKA, Owner.NOBODY)
    await played.compare(1, ShadowReport(90, 0, (DIFFERS, COUNTS), (), 2, 0, None))
    differs = await played.view()
    await played.compare(1, ShadowReport(9, 0, (), (DIFFERS, COUNTS), 0, 9, 70_000))
    gone = await played.view()

    size, lookup = differs.differences
    assert "size of orders-3 (epoch 0, offset 0, position 7): kafka says 12" in size
    assert size.endswith(", replica says 11")
    assert "lookup of orders-3 (epoch 4, offset 100, position 41): 1 segment" in lookup
    assert (differs.compared[0].word, differs.differing) == ("standing", 2)
    assert differs.compared[0].age == "never"
    assert (gone.differences, gone.differing, gone.compared[0].word) == ([], 0, "equal")
    assert gone.compared[0].age == "1 min 10 s ago"


async def test_a_move_is_told_step_by_step(played: PlayedMove) -> None:
    await played.own(Owner.KAFKA, Owner.NOBODY)
    await played.own(Owner.MOVING, Owner.KAFKA, heading=Owner.TIERLEDGER)
    await played.attend((HANDOVER, 2, True), (HANDOVER, 1, False))
    moving = await played.view()
    await played.attend((HANDOVER, 2, True), (HANDOVER, 2, True))
    idle = await played.view()
    again = {"heading": Owner.TIERLEDGER, "owner_epoch": 2}
    await played.own(Owner.MOVING, Owner.MOVING, **again)
    second = await played.view()
    await played.own(Owner.TIERLEDGER, Owner.MOVING, owner_epoch=3)
    moved = await played.view()

    assert words(moving) == "dddd uttt"
    assert moving.steps[4].note == "not yet: broker 2"
    assert moving.verdict[0] == "open"
    assert "moves from kafka to tierledger, owner epoch 2" in moving.verdict[2]
    assert [one.what for one in moving.held] == ["writes"]
    assert words(idle) == "dddd dutt"
    assert words(second) == "dddd ddut"
    assert second.steps[6].note == "not yet: brokers 1, 2"
    assert words(moved) == "dddd dddd"
    assert (moved.verdict[:2], moved.held) == (("good", "tierledger"), [])
    told = [(one.owner_epoch, str(one.owner)) for one in played.owners.changes]
    assert told == [(1, "kafka"), (2, "moving"), (3, "moving"), (4, "tierledger")]


async def test_what_the_command_tells_is_shown_with_its_age(played: PlayedMove) -> None:
    await played.own(Owner.KAFKA, Owner.NOBODY)
    nothing = await played.view()
    found = MoveReport("tierledger", "comparing", 0, 3, 65_000, 2, ("one", "another"))
    await played.coordinator.tell_move(found)
    comparing = await played.view()
    await played.coordinator.tell_move(found._replace(phase="ended", outcome="2 differences"))
    ended = await played.view()

    assert nothing.told is None
    assert words(comparing) == "uttu tttt"
    assert comparing.steps[3].note == "2 differences"
    assert comparing.told is not None
    assert comparing.told.facts["compared"] == "3 times, the last 1 min 5 s ago"
    assert "ended" not in comparing.told.facts
    assert (comparing.told.differences, comparing.told.differing) == (("one", "another"), 2)
    assert words(ended) == "uttt tttt"
    assert ended.told is not None
    assert ended.told.facts["ended"] == "2 differences"


def test_a_command_that_tells_nothing_any_more_is_not_taken_for_busy() -> None:
    told = {**MoveReport("tierledger", "comparing")._asdict(), "heard_ms_ago": GONE_MS + 1}

    view = move_view(known_by(owner="kafka", owner_epoch=1, move=told), [])

    assert words(view) == "uttt tttt"
    assert view.told is not None
    assert view.told.facts["ended"] == "it tells nothing any more"


async def test_a_move_that_was_given_back_is_told(played: PlayedMove) -> None:
    await played.own(Owner.KAFKA, Owner.NOBODY)
    await played.own(Owner.MOVING, Owner.KAFKA, heading=Owner.TIERLEDGER)
    await played.own(Owner.KAFKA, Owner.MOVING, owner_epoch=2)

    view = await played.view()

    assert view.verdict[0] == "warn"
    assert "a move to tierledger was given back at" in view.verdict[2]
    assert words(view) == "uttt tttt"


async def test_the_way_back_needs_the_mirror_and_no_shadow(played: PlayedMove) -> None:
    await played.own(Owner.TIERLEDGER, Owner.NOBODY)
    await played.own(Owner.MOVING, Owner.TIERLEDGER, heading=Owner.KAFKA)
    await played.attend((HANDOVER, 2, False))

    view = await played.view()

    assert [one.text for one in view.steps][::6] == [
        "`serve --kafka` does its mirror of Kafka's metadata topic",
        "kafka owns the metadata, and brokers write",
    ]
    assert words(view) == "ddd uttt"


def test_what_is_held_is_told_with_its_time() -> None:
    held = [{"broker_id": 3, "since_ms": 5}, {"broker_id": 4, "since_ms": 4}]
    known = known_by(
        owner="tierledger",
        owner_epoch=1,
        deletions_held=held,
        deletions_held_text="brokers 3, 4 ran without the plugin",
        holds=[{"name": "audit"}],
    )

    view = move_view(known, [])

    assert [(one.what, one.since_ms, one.text) for one in view.held] == [
        ("deletions", 4, "brokers 3, 4 ran without the plugin"),
        ("some deletions", None, "1 hold placed"),
    ]


def test_without_a_service_the_log_tells_the_owner() -> None:
    changes = [OwnerSince(1, "tierledger", "", "", 5)]

    view = move_view(None, changes)

    assert view.verdict[1] == "tierledger"
    assert "no service runs" in view.verdict[2]
    assert not view.steps


async def test_a_damaged_log_of_the_coordinator_is_told(played: PlayedMove) -> None:
    await played.own(Owner.KAFKA, Owner.NOBODY)
    await played.own(Owner.MOVING, Owner.KAFKA, heading=Owner.TIERLEDGER)
    backend = played.coordinator.backend
    last = (await backend.last_keys([KEYS.coordinator_log()]))[0]
    assert last is not None
    await backend.update(last, b"nonsense")

    await played.view()

    assert played.owners.damage is not None
    assert last in played.owners.damage
    assert [one.owner for one in played.owners.changes] == ["kafka"]

"""An operator holds segments, sees what a hold keeps back, and releases it."""

import shlex
from pathlib import Path

import pytest

from tests.actors.service.test_held_deletions import DELETING, move
from tests.cli.test_doors import TIP, run
from tests.house.test_documented_commands import shown
from tests.models.actors.local_world import LocalWorld, copy, partition, segment
from tests.models.actors.published import published
from tests.models.cli.command_line import invoke, lines
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.coordinator.attendance import Attend
from tierledger.actors.coordinator.breaker import BREAKER, BY
from tierledger.actors.coordinator.events import Owner
from tierledger.actors.coordinator.holding import PlaceHold
from tierledger.actors.coordinator.ownership import Handover, PluginMode
from tierledger.actors.holds import Hold
from tierledger.cli.commands.hold import idle_text
from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.opened_store import StoreOptions
from tierledger.events.errors import RejectedError

ADD = ("hold", "add", "audit-2026", "--topic", "ord*", "--by", "somebody")
WHY = ("--reason", "the audit reads it")


async def leading(world: LocalWorld) -> AsyncRemoteLogMetadataManager:
    """A leader with three segments, one of which is being deleted."""
    await world.service.coordinator.hand_over(Handover(Owner.TIERLEDGER, Owner.NOBODY))
    leader = await world.leader(TIP)
    await copy(leader, segment(0), segment(1), segment(2))
    await move(leader, segment(0), DELETING)
    return leader


async def test_a_hold_is_placed_seen_and_released_by_command(tmp_path: Path) -> None:
    async with published(tmp_path, hosts=2) as world:
        leader = await leading(world)
        store = ("--store", await world.service.url())

        added = await run(*ADD, *WHY, "--offsets", "-19", "--until", "+30d", *store)
        again = await run(*ADD, "--reason", "another", *store)
        with pytest.raises(RejectedError, match="under the hold audit-2026 of somebody until"):
            await move(leader, segment(1), DELETING)
        await move(leader, segment(2), DELETING)
        listed = await run("hold", "ls", "--json", *store)
        shown = await run("hold", "ls", *store)
        status = await run("status", *store)
        told = await run("status", "--json", *store)
        done = await run("hold", "release", "audit-2026", "--reason", "done", "--json", *store)
        await move(leader, segment(1), DELETING)
        unknown = await run("hold", "release", "audit-2026", "--reason", "done", *store)
        empty = await run("hold", "ls", *store)

    assert (added.exit_code, added.stdout) == (0, "hold audit-2026 is placed\n"), added.output
    assert "note: it is about orders-0" in added.stderr
    kept_not = "orders-0: 1 segments are being deleted already and are not kept, offsets 0 to 9"
    assert kept_not in added.stderr
    assert again.exit_code == ExitStatus.USAGE
    assert "somebody has placed another one of that name" in again.stderr
    (one,) = lines(listed)
    assert (one["name"], one["by"], one["last_offset"]) == ("audit-2026", "somebody", 19)
    assert (one["refused"], one["refused_last"]) == (1, str(TIP))
    assert one["refused_since_ms"] is not None
    for text in (shown, status):
        assert text.exit_code == 0, text.output
        assert "audit-2026" in text.stdout
        assert "the audit reads it" in text.stdout
    (whole,) = lines(told)
    (trouble,) = [one for one in whole["troubles"] if one["code"] == "hold-refuses"]
    assert trouble["subject"] == "hold audit-2026"
    assert (done.exit_code, lines(done)) == (
        0,
        [{"hold": "audit-2026", "placed": False, "late": []}],
    )
    assert unknown.exit_code == ExitStatus.USAGE
    assert "there is no hold audit-2026: no hold is placed" in unknown.stderr
    assert "there is no hold" in empty.stderr


async def test_a_hold_may_be_about_what_is_not_there_yet(tmp_path: Path) -> None:
    async with published(tmp_path) as world:
        store = ("--store", await world.service.url())

        added = await run(*ADD, *WHY, "--partition", "0", *store)
        leader = await world.leader(partition())
        await copy(leader, segment(0))
        with pytest.raises(RejectedError, match="under the hold audit-2026"):
            await move(leader, segment(0), DELETING)

    assert added.exit_code == 0, added.output
    assert "it matches no partition that the service serves now" in added.stderr
    assert "nobody owns the remote log metadata" in added.stderr


async def test_a_typo_is_told_from_a_topic_that_nobody_leads_now(store: Path) -> None:
    options = StoreOptions(f"sqlite:{store}")

    idle, typo = [
        await idle_text(options, Hold("h", topic, reason="r")) for topic in ("orders", "ordres")
    ]

    assert idle.startswith("it is about orders-0, orders-1, which nobody leads now; ")
    assert typo == "the store has no such partition; those that come are held"


async def test_a_hold_may_have_a_term_for_what_is_deleted(tmp_path: Path) -> None:
    term = ("--term", "7d", "--deleted-by", "topic")
    async with published(tmp_path) as world:
        leader = await leading(world)
        store = ("--store", await world.service.url())

        bare = Attend(9, 0, PluginMode.TIERLEDGER, 1, False, is_guarded=False)
        for plugin in (bare, bare._replace(broker_id=8, is_guarded=True)):
            await world.service.coordinator.attend(plugin)
        added = await run(*ADD, "--reason", "undo", *term, *store)
        assert "note: brokers 9 run without the guard" in added.stderr
        with pytest.raises(RejectedError, match="under the hold audit-2026"):
            await move(leader, segment(1), DELETING)  # A broker without a guard.
        listed = await run("hold", "ls", "--json", *store)
        shown = await run("hold", "ls", "--wide", *store)

    assert added.exit_code == 0, added.output
    (one,) = lines(listed)
    assert (one["term_ms"], one["cause"]) == (7 * 24 * 3600 * 1000, 2)
    assert "7 d 0 h after a deletion by topic" in shown.stdout


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--term", "soon"), "--term: expected a number with"),
        (("--deleted-by", "topic"), "cause: expected none without a term"),
        (("--offsets", "9-3"), "offsets: expected the lower one first, got 9 and 3"),
        (("--offsets", "9"), "expected FIRST-LAST, FIRST- or -LAST, got '9'"),
        (("--offsets", "a-b"), "--offsets: expected a whole number"),
        (("--topic", "__consumer_offsets"), "internal to Kafka and never tiered"),
        (("--topic", "x" * 300), "topic"),
        (("--topic-id", "no id"), "no id"),
        (("--until", "soon"), "--until: expected a time"),
        (
            ("--after", "1h", "--before", "2h"),
            "after and before: expected the lower one first, got 20",
        ),
        (("--reason", ""), "reason: expected why"),
        (("--partition", "-1"), "--partition"),
    ],
)
def test_what_no_hold_can_be_about_is_refused(given: tuple[str, ...], message: str) -> None:
    done = invoke(*ADD, *WHY, *given, "--store", "tierledger://127.0.0.1:1")

    assert done.exit_code == ExitStatus.USAGE, done.output
    assert message in done.stderr


async def test_a_hold_that_is_over_already_is_refused_by_the_service(tmp_path: Path) -> None:
    async with published(tmp_path) as world:
        url = await world.service.url()
        done = await run(*ADD, *WHY, "--until", "2020-01-01T00:00:00Z", "--store", url)

    assert done.exit_code == ExitStatus.USAGE
    assert "expected an end after now" in done.stderr


async def test_the_documented_commands_run_as_they_stand(tmp_path: Path) -> None:
    commands = [shlex.split(one) for one in shown() if one.startswith("hold ")]
    async with published(tmp_path) as world:
        broken = Hold(BREAKER, "*", reason="600 of 1000 bytes", by=BY)
        await world.service.coordinator.hold(PlaceHold(broken))
        url = await world.service.url()
        ran = [await run(*one, "--store", url) for one in commands]

    assert {one[1] for one in commands} == {"add", "ls", "release"}
    assert [one.exit_code for one in ran] == [0] * len(ran), [one.output for one in ran]

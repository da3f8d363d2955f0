"""Nothing that is held is purged, nothing early, and nothing that is due is left for ever."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.actors.leader.test_holds import HOLDS, keeps
from tests.models.actors.harness import NOW_MS
from tests.models.storage.stored_partitions import TIP, StoredPartition, segment_id, updated
from tierledger.actors import due
from tierledger.actors.due import only_due, purging_of
from tierledger.actors.holds import Deletions, Hold
from tierledger.events import commands as cmd
from tierledger.events.log_events import Origin, SegmentKept
from tierledger.events.partition.overlay import Overlay
from tierledger.storage.backends.memory import MemoryBackend

TERM = Hold("week", "*", reason="undo", term_ms=7)


async def keeping(*until_ms: int) -> StoredPartition:
    partition = await StoredPartition.led(MemoryBackend())
    await partition.fill(range(len(until_ms)))
    for number, until in enumerate(until_ms):
        kept = SegmentKept(segment_id(number), until, 1, 7, 5, "undo")
        await partition.append([updated(number, 2), kept])
    return partition


def wish(choose: int = 99, after: int = -1) -> cmd.StartPurges:
    return cmd.StartPurges(Origin(4, None), (), 1_000, choose, after)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(NOW_MS - 1, NOW_MS + 1), max_size=4), st.lists(HOLDS, max_size=2))
async def test_just_what_is_over_and_not_held_is_started(
    until_ms: list[int], holds: list[Hold]
) -> None:
    partition = await keeping(*until_ms)
    told = Deletions(1, "", (*holds, TERM))

    found = only_due(Overlay(partition.state), wish(), told, NOW_MS)

    # Nobody knows the records of the segment before it: in doubt a time holds it.
    times = [-1] * len(until_ms)
    expected = [
        segment_id(number)
        for number, until in enumerate(until_ms)
        if until <= NOW_MS
        and not any(
            keeps(one._replace(after_ms=None, before_ms=None), number, times) for one in holds
        )
    ]
    assert set(found.segment_ids) <= set(expected)
    if all(one.after_ms is None and one.before_ms is None for one in holds):
        assert list(found.segment_ids) == expected
    assert only_due(Overlay(partition.state), wish(), told._replace(held="x"), NOW_MS)[1] == ()


async def test_what_is_not_due_does_not_hide_what_comes_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(due, "LOOKED_MAX", 2)
    partition = await keeping(NOW_MS + 9, NOW_MS + 5, NOW_MS, NOW_MS)
    state, command = partition.state, wish(choose=1)

    assert only_due(Overlay(state), command, Deletions(), NOW_MS).segment_ids == ()
    looked = purging_of(state, command, NOW_MS)
    assert (looked.rows, looked.due_ms, looked.keeps) == ([], NOW_MS + 5, True)
    behind = command._replace(after=looked.after)
    begun = only_due(Overlay(state), behind, Deletions(), NOW_MS)
    assert begun.segment_ids == (segment_id(2),)
    await partition.accept(begun, NOW_MS)

    found = purging_of(state, behind, NOW_MS)
    assert len(found.rows) == 1
    assert purging_of(state, behind, NOW_MS + 1_000).rows == [], "its lease is over"
    assert state.topic_id_partition == TIP

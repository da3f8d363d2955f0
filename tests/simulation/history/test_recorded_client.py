"""A recorded client records the answers that its caller got, however long."""

import asyncio
from itertools import count
from pathlib import Path

import pytest

from tests.models.actors.local_world import (
    CLUSTER,
    CountedIds,
    LocalWorld,
    copy,
    partition,
    segment,
)
from tests.models.storage import faulty_store
from tierledger.actors.calls import FOLLOWER, LEADER, Answered
from tierledger.actors.host.answering import PAGE_ROWS
from tierledger.actors.messages import Query
from tierledger.events.event_codec import genesis
from tierledger.simulation.checkers.model import wrong_answer
from tierledger.simulation.history.calls import OK, Recorder
from tierledger.simulation.history.final_log import FinalLog
from tierledger.simulation.history.recorded_client import KnownIds, RecordedClient

TIP = partition()
ROWS = PAGE_ROWS + 5


@pytest.mark.parametrize("role", [LEADER, FOLLOWER])
async def test_a_list_of_many_pages_is_recorded_whole(role: str, tmp_path: Path) -> None:
    world = LocalWorld(faulty_store.settings(str(tmp_path)))
    await world.start()
    manager = await world.leader(TIP)
    adds = [manager.add_remote_log_segment_metadata(segment(one)) for one in range(ROWS)]
    await asyncio.gather(*adds)
    follower = await world.follower(TIP)
    follower.observe(TIP, await copy(manager, segment(ROWS)))
    recorder = Recorder(count().__next__)
    asks = manager if role == LEADER else follower
    client = RecordedClient(asks, KnownIds(CountedIds()), recorder, "reader")

    for query in (Query("list"), Query("list_epoch", 0)):
        answered = await client.read(TIP, role, query)
        assert isinstance(answered, Answered)
        assert len(answered.value) == ROWS + 1  # type: ignore[arg-type]

    events = await world.events(TIP)
    await world.stop()
    operations = recorder.history().operations
    log = FinalLog(TIP, genesis(CLUSTER, TIP.topic_id, TIP.partition), events)
    assert [op.outcome for op in operations] == [OK, OK]
    assert wrong_answer(operations, log) == []

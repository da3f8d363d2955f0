"""A final log is what the store holds, or an error that says why not."""

from collections.abc import Callable

import pytest

from tests.models.events.driven_partition import TIP
from tests.models.simulation.recorded_run import (
    FIRST,
    KEY,
    SECOND,
    SERDE,
    THIRD,
    RecordedRun,
    small_run,
)
from tierledger.events.errors import CorruptLog
from tierledger.simulation.history.final_log import LoggedBatch, decode_log


def test_a_log_holds_every_event_with_its_time_and_hash() -> None:
    run = small_run()

    log = run.log()

    assert log.key == KEY
    assert [event.position for event in log.events] == list(range(run.leader.position + 1))
    assert log.chain_hashes[log.end] == run.leader.state.chain_hash
    assert log.durable_at == [batch.durable_at for batch in run.batches]


def test_a_log_knows_who_leads_and_where_each_request_stands() -> None:
    run = RecordedRun()
    run.lead(FIRST, 1)
    run.close()
    run.lead(SECOND, 2)

    log = run.log()

    assert log.claims == [FIRST, None, SECOND]
    assert (log.claim_at(-1), log.claim_at(3)) == (None, None)
    assert small_run().log().sessions == [0, 5, 9]
    written = [op for op in small_run().operations if op.request in small_run().log().requests]
    assert {op.claim for op in written} == {FIRST, SECOND}
    assert small_run().log().claims[-1] == THIRD


@pytest.mark.parametrize(
    "spoil",
    [
        lambda batches: batches[1:],
        lambda batches: [*batches[:3], *batches[4:]],
        lambda batches: [batches[1], batches[0], *batches[2:]],
        lambda batches: [batch._replace(number=batch.number + 1) for batch in batches],
        lambda batches: [*batches[:2], LoggedBatch(2, batches[1].value), *batches[3:]],
        lambda batches: [*batches[:2], LoggedBatch(2, batches[2].value[:-1] + b"!")],
    ],
    ids=[
        "without its first",
        "with a gap",
        "out of order",
        "from 1",
        "with a copy",
        "with a flipped byte",
    ],
)
def test_a_log_that_does_not_verify_is_refused(
    spoil: Callable[[list[LoggedBatch]], list[LoggedBatch]],
) -> None:
    batches = small_run().batches

    with pytest.raises(CorruptLog):
        decode_log(SERDE, "cluster", TIP, spoil(batches))


def test_the_log_of_another_cluster_is_refused() -> None:
    with pytest.raises(CorruptLog):
        decode_log(SERDE, "another", TIP, small_run().batches)


def test_an_empty_log_is_a_log() -> None:
    log = decode_log(SERDE, "cluster", TIP, [])

    assert (log.end, log.events, log.requests) == (-1, [], {})


def test_a_log_knows_how_much_of_it_was_durable_when() -> None:
    batches = small_run().batches
    log = decode_log(SERDE, "cluster", TIP, batches)
    assert log.durable_at[1:3] == [2, 5]

    assert [log.durable_before(time) for time in (0, 2, 3, 5, 999)] == [0, 1, 2, 2, 10]
    assert [log.durable_until(time) for time in (-1, 2, 3, 5, None)] == [0, 2, 2, 3, 10]
    unknown = [batch._replace(durable_at=None) for batch in batches]
    live = decode_log(SERDE, "cluster", TIP, unknown)
    assert (live.durable_before(999), live.durable_until(0)) == (0, 10)

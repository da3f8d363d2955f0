"""Laws of checkpoints and followers, on what a world has noted of them."""

import pytest

from tests.models.simulation.recorded_run import small_run
from tierledger.simulation.machines.laws.run_laws import (
    CheckpointTold,
    FollowerSeen,
    Hindrance,
    Written,
    late_follower,
    unstored_checkpoint,
)

LOG = small_run().log()
KEY = LOG.key
END = max(at for at in LOG.durable_at if at is not None)
S = 1_000_000_000


def seen(position: int, *times: int, is_reading: bool = True) -> list[FollowerSeen]:
    return [
        FollowerSeen(time, "host-1/2/0", "host-1", KEY, position, is_reading) for time in times
    ]


def late(found: list[FollowerSeen], *hindrances: Hindrance) -> bool:
    return bool(list(late_follower(found, {KEY: LOG}, hindrances, 2 * S)))


def test_a_follower_is_late_while_it_runs_and_not_only_at_the_end() -> None:
    behind = seen(LOG.end - 1, END, END + 3 * S)

    assert late([*behind, *seen(LOG.end, END + 4 * S)])
    assert not late([*seen(LOG.end - 1, END, END + S), *seen(LOG.end, END + 4 * S)])


def test_a_follower_has_time_from_when_it_follows() -> None:
    loading = seen(-1, END, is_reading=False)

    assert not late([*loading, *seen(LOG.end - 1, END + 3 * S, END + 4 * S)])
    assert late([*loading, *seen(LOG.end - 1, END + 3 * S, END + 5 * S)])


@pytest.mark.parametrize(
    ("site", "since_s", "is_late"),
    [("host-1", 2, False), ("host-2", 2, True), ("host-1", -5, True)],
)
def test_a_follower_that_was_hindered_is_not_late(
    site: str, since_s: int, is_late: bool
) -> None:
    since = END + since_s * S
    hindrance = Hindrance(site, since, since + S)

    assert late(seen(LOG.end - 1, END, END + 3 * S), hindrance) == is_late


def test_a_checkpoint_that_a_leader_takes_for_stored_was_stored_by_then() -> None:
    written = {KEY: [Written(1 * S, 4, b""), Written(5 * S, 9, b"")]}

    def found(time: int, position: int) -> list[str]:
        told = [CheckpointTold(time, "host-1/2/0", KEY, position)]
        return [one.message for one in unstored_checkpoint(told, written)]

    assert not found(2 * S, 4)
    assert not found(6 * S, 4)
    assert "up to then, [4]" in found(4 * S, 9)[0]
    assert "[4, 9]" in found(6 * S, 7)[0]

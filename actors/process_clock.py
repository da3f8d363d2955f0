"""The clock of a host or coordinator: the machine's, without its jumps into the future.

Log time never goes back. So if a host took the time of a clock that is a year ahead for some
seconds, its logs would be a year ahead for good, and would drop all tombstones at once.
"""

from __future__ import annotations

from collections.abc import Callable

from tierledger.actors.conditions import CLOCK_JUMPED, Conditions
from tierledger.actors.ports import Clock
from tierledger.storage.slewed_clock import SlewedClock


def process_clock(
    wall: Clock, monotonic_s: Callable[[], float], conditions: Callable[[], Conditions]
) -> Clock:
    """A clock that follows a jump of `wall` at twice the speed of time, and tells of it.

    `conditions` gives those of the process, in which `CLOCK_JUMPED` holds until it has caught
    up, or `wall` has come back.
    """

    def jumped() -> None:
        text = (
            "this machine's clock jumped ahead by more than a minute; the time in the logs "
            "follows at twice the speed of time"
        )
        conditions().hold(CLOCK_JUMPED, text)

    return SlewedClock(wall, monotonic_s, jumped, lambda: conditions().clear(CLOCK_JUMPED))

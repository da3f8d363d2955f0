"""What time it is, by the clocks of all processes of the service. Pure.

Rule 1: the machines decide, each with one clock, that of its processes; if there is one machine
only, its processes. So the machine that most processes run on does not outvote the others.
Rule 2: the common time is the middle one of these clocks, of two in the middle the earlier: log
time that is too late never mends.
Rule 3: a common time is agreed if more than half of the clocks are within `OFF_MS` of it, at
least two. That a process's clock is behind is believed only then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from tierledger.actors.calls import CommonTime
from tierledger.actors.conditions import CLOCK_OFF, Condition
from tierledger.actors.coordinator import messages as msg
from tierledger.actors.process_clock import OFF_MS

OWN = ""
"""Stands for the coordinator's own process."""

STEADY_MS = 1000
"""A clock that has moved by less against the coordinator's counts as it did; with a thousand
hosts nothing else is to be done at each ping."""


class _Told(NamedTuple):
    name: str
    machine: str
    offset_ms: float
    """Its clock, less the coordinator's monotonic one."""


class _Count(NamedTuple):
    """The votes."""

    common_ms: float
    votes: int
    agreeing: int
    machines: frozenset[str]
    """Those whose clocks agree."""


class Clocks:
    """The clocks of the processes that answer, as they were told last."""

    def __init__(self) -> None:
        self._told: dict[str, _Told] = {}
        """By address; the coordinator's is `OWN`."""
        self._off_since: dict[str, int] = {}
        """By address: since when (ms) its clock has been off."""
        self._count: _Count | None = None
        """None: to be counted anew."""

    def tell(self, address: str, name: str, machine: str, ms: float, now: msg.Moment) -> None:
        """Note what a process's clock says; `name` is what people call the process."""
        told, known = _Told(name, machine, ms - now.s * 1000), self._told.get(address)
        is_steady = known is not None and abs(known.offset_ms - told.offset_ms) < STEADY_MS
        if is_steady and self._count is not None:
            return
        self._told[address] = told
        self._count = None
        common_ms = self._counted().common_ms
        for one, each in self._told.items():
            if abs(each.offset_ms - common_ms) <= OFF_MS:
                self._off_since.pop(one, None)
            else:
                self._off_since.setdefault(one, now.ms)

    def keep(self, addresses: Collection[str]) -> None:
        """Forget all processes but the coordinator and these."""
        if len(self._told) <= len(addresses) + 1:
            return  # Who has gone is forgotten once a successor tells its clock.
        for gone in self._told.keys() - {OWN, *addresses}:
            del self._told[gone]
            self._off_since.pop(gone, None)
        self._count = None

    def common(self, now_s: float, address: str = OWN) -> CommonTime | None:
        """The common time, for the process at `address`; None while there is one clock only."""
        if len(self._told) < 2:
            return None
        found, own = self._counted(), self._told.get(address)
        # One machine's processes all have its clock. They tell one of their own, no others.
        is_known = len(found.machines) > 1 or (
            own is not None and own.machine in found.machines
        )
        is_agreed = is_known and 2 * found.agreeing > found.votes and found.agreeing > 1
        return CommonTime(int(found.common_ms + now_s * 1000), is_agreed)

    def conditions(self) -> Iterator[Condition]:
        """A condition for each process whose clock is off."""
        for address, since_ms in self._off_since.items():
            found = self._counted()
            name, _, offset_ms = self._told[address]
            off_ms = offset_ms - found.common_ms
            way = "ahead of" if off_ms > 0 else "behind"
            text = (
                f"the clock of {name} is {_duration(abs(off_ms))} {way} the time that "
                f"{found.agreeing} of {found.votes} clocks have"
            )
            yield Condition(CLOCK_OFF, name, since_ms, text)

    def _counted(self) -> _Count:
        if self._count is not None:
            return self._count
        by_machine: dict[str, list[float]] = {}
        for one in self._told.values():
            by_machine.setdefault(one.machine, []).append(one.offset_ms)
        votes = [(_middle(offsets), machine) for machine, offsets in by_machine.items()]
        if len(votes) == 1:
            machine = votes[0][1]
            votes = [(offset_ms, machine) for offset_ms in by_machine[machine]]
        common_ms = _middle([offset_ms for offset_ms, _ in votes])
        agreeing = [of for offset_ms, of in votes if abs(offset_ms - common_ms) <= OFF_MS]
        self._count = _Count(common_ms, len(votes), len(agreeing), frozenset(agreeing))
        return self._count


def _duration(ms: float) -> str:
    minutes = int(ms) // 60_000
    for unit, size in (("days", 1440), ("hours", 60)):
        if minutes >= 2 * size:
            return f"{minutes // size} {unit}"
    return f"{minutes} minutes"


def _middle(offsets: list[float]) -> float:
    """The middle clock; the earlier of two."""
    return sorted(offsets)[(len(offsets) - 1) // 2]

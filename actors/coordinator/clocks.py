"""What time it is, by the clocks of all processes of the service. Pure.

Rule 1: the machines decide, each with one clock, that of its processes; if there is one machine
only, its processes. So the machine that most processes run on does not outvote the others.
Rule 2: the common time is the middle one of these clocks, of two in the middle the earlier: log
time that is too late never mends.
Rule 3: a common time is agreed if more than half of the clocks are within `OFF_MS` of it, at
least two. That a process's clock is behind is believed only then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from tierledger.actors.calls import CommonTime
from tierledger.actors.conditions import CLOCK_OFF, Condition
from tierledger.actors.coordinator import messages as msg
from tierledger.actors.process_clock import OFF_MS

OWN = ""
"""Stands for the coordinator's own process."""


class _Told(NamedTuple):
    name: str
    machine: str
    offset_ms: float
    """Its clock, less the coordinator's monotonic one."""


class Clocks:
    """The clocks of the processes that answer, as they were told last."""

    def __init__(self) -> None:
        self._told: dict[str, _Told] = {}
        """By address; the coordinator's is `OWN`."""
        self._off_since: dict[str, int] = {}
        """By address: since when (ms) its clock has been off."""

    def tell(self, address: str, name: str, machine: str, ms: float, now: msg.Moment) -> None:
        """Note what a process's clock says; `name` is what people call the process."""
        self._told[address] = _Told(name, machine, ms - now.s * 1000)
        votes = self._votes()
        common = _common(votes)
        for one, told in self._told.items():
            if abs(told.offset_ms - common) <= OFF_MS:
                self._off_since.pop(one, None)
            else:
                self._off_since.setdefault(one, now.ms)

    def keep(self, addresses: Collection[str]) -> None:
        """Forget all processes but the coordinator and these."""
        for gone in self._told.keys() - {OWN, *addresses}:
            del self._told[gone]
            self._off_since.pop(gone, None)

    def common(self, now_s: float, address: str = OWN) -> CommonTime | None:
        """The common time, for the process at `address`; None while there is one clock only."""
        if len(self._told) < 2:
            return None
        votes = self._votes()
        common = _common(votes)
        agreeing = [one for one in votes if abs(one.offset_ms - common) <= OFF_MS]
        own = self._told.get(address)
        # One machine's processes all have its clock. They tell one of their own, no others.
        is_known = len({one.machine for one in agreeing}) > 1 or (
            own is not None and own.machine == agreeing[0].machine
        )
        is_agreed = is_known and 2 * len(agreeing) > len(votes) and len(agreeing) > 1
        return CommonTime(int(common + now_s * 1000), is_agreed)

    def conditions(self) -> Iterator[Condition]:
        """A condition for each process whose clock is off."""
        if not self._off_since:
            return
        votes = self._votes()
        common = _common(votes)
        agreeing = sum(abs(one.offset_ms - common) <= OFF_MS for one in votes)
        for address, since_ms in self._off_since.items():
            name, _, offset_ms = self._told[address]
            off_ms = offset_ms - common
            way = "ahead of" if off_ms > 0 else "behind"
            text = (
                f"the clock of {name} is {_duration(abs(off_ms))} {way} the time that "
                f"{agreeing} of {len(votes)} clocks have"
            )
            yield Condition(CLOCK_OFF, name, since_ms, text)

    def _votes(self) -> Sequence[_Told]:
        by_machine: dict[str, list[_Told]] = {}
        for one in self._told.values():
            by_machine.setdefault(one.machine, []).append(one)
        if len(by_machine) == 1:
            return list(self._told.values())
        return [_Told(of, of, _common(told)) for of, told in by_machine.items()]


def _duration(ms: float) -> str:
    minutes = int(ms) // 60_000
    for unit, size in (("days", 1440), ("hours", 60)):
        if minutes >= 2 * size:
            return f"{minutes // size} {unit}"
    return f"{minutes} minutes"


def _common(votes: Sequence[_Told]) -> float:
    """The middle clock; the earlier of two."""
    return sorted(one.offset_ms for one in votes)[(len(votes) - 1) // 2]

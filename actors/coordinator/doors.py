"""Which hosts clients can reach, by the doors of those hosts. Pure.

A host may answer pings, which go through Ray, while nobody can come in at its door. Three kinds
of observers tell: the coordinator knocks at each door; each host knocks at the doors of some
others, and reports it with its pings; and a host reports whether brokers' clients use its own.

Rule 1: a door is lost while at least two observers do not reach it, more than do reach it, and
no broker's client uses it. A host whose door is lost is shut: its leaders and followers move to
others. It stays shut until the door was not lost for `REOPEN_S`, so that a door that opens and
closes moves them seldom.
Rule 2: a process that nobody has reached yet gets nothing new. So a host that is started again
behind the same broken network does not count.
Rule 3: an observer that does not reach most of several doors is cut off itself, be it a host or
the coordinator, and what it sees does not count.
Rule 4: if most hosts were shut, none is: where all are unreachable, moving helps nobody.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from tierledger.actors.calls import HostPing
from tierledger.actors.conditions import Condition
from tierledger.actors.coordinator import messages as msg
from tierledger.actors.coordinator.placement import ALL_OPEN, ClosedHosts

KNOCKS_MISSED = 3
"""Knocks in a row that nobody answers after which a door counts as not reached."""

KNOCK_INTERVAL_S = 1.0
KNOCK_AGAIN_S = 0.3
"""Pause between two knocks at a door; the second one after a knock that nobody answered."""

REOPEN_S = 6.0
"""A host that was shut gets leaders and followers again once it was reached for so long."""

OBSERVERS_MIN = 2
"""Observers that must not reach a door before its host is shut: one alone may be cut off."""

HOST_UNREACHABLE = "host-unreachable"
"""The code of the condition that a host lives, and clients cannot come in at its door."""

DOORS_UNREACHABLE = "doors-unreachable"
"""The code of the condition that the coordinator does not reach most doors."""


class Door:
    """The door of one process, and what is known of it."""

    def __init__(self, address: str, at: str) -> None:
        """`address`: that of the process; `at`: where it listens (HOST:PORT)."""
        self.address = address
        self.at = at
        self.is_proven = False
        """Whether anybody has ever reached it."""
        self.missed = 0
        """The coordinator's knocks in a row that were not answered."""
        self.missed_since: msg.Moment | None = None
        self.is_heard = False
        """Whether brokers' clients use it."""
        self.seen: dict[str, bool] = {}
        """By address: which other doors this host reaches."""
        self.shut_since: msg.Moment | None = None
        self.lost_s = 0.0
        """When it was last found to be lost."""


class Votes(NamedTuple):
    """How many observers reach a door, and how many do not."""

    reached: int
    missed: int

    @property
    def are_lost(self) -> bool:
        return self.missed >= OBSERVERS_MIN and self.missed > self.reached


class Doors:
    """The doors of all hosts that run and listen."""

    def __init__(self) -> None:
        self._doors: dict[str, Door] = {}
        """By host."""
        self._cut_off_since: msg.Moment | None = None
        self.unproven = frozenset[str]()
        """Hosts of `closed` that nobody has reached yet."""
        self.closed: ClosedHosts = ALL_OPEN
        """The hosts that get nothing new, and those whose leaders and followers move away."""

    def add(self, name: str, address: str, at: str) -> None:
        """A host's process runs and listens."""
        self._doors[name] = Door(address, at)
        self._review()

    def drop(self, name: str) -> None:
        """The process is gone."""
        if self._doors.pop(name, None) is not None:
            self._review()

    def reported(self, name: str, ping: HostPing) -> None:
        """Take a host's report; what follows from it shows at the next knock."""
        if (own := self._doors.get(name)) is not None:
            seen = dict(ping.doors)
            own.seen = {} if _is_cut_off(seen.values()) else seen
            own.is_heard = ping.is_heard

    def waits_for(self, name: str) -> bool:
        """Whether no knock at the host's door has been answered or missed yet."""
        door = self._doors.get(name)
        return door is not None and not (door.is_proven or door.missed)

    def knocked(self, name: str, now: msg.Moment, *, opens: bool) -> list[msg.Effect]:
        """Take the result of a knock; notes for the log if the host is shut now, or reopened.

        `closed` may have changed.
        """
        door = self._doors[name]
        if opens:
            door.missed, door.missed_since = 0, None
        else:
            door.missed += 1
            door.missed_since = door.missed_since or now
        # One missed knock at each counts here: not all doors are knocked at for the third time
        # at once, and the first would seem to be the only one that does not open.
        is_cut_off = _is_cut_off([not one.missed for one in self._doors.values()])
        self._cut_off_since = (self._cut_off_since or now) if is_cut_off else None
        votes = self._votes(door)
        door.is_proven |= opens or door.is_heard or votes.reached > 0
        was_shut = door.shut_since is not None
        if votes.are_lost and not door.is_heard:
            door.shut_since, door.lost_s = door.shut_since or now, now.s
        elif was_shut and now.s - door.lost_s >= REOPEN_S:
            door.shut_since = None
        self._review()
        is_shut = door.shut_since is not None
        if is_shut is was_shut:
            return []
        details = {"host": name, "door": door.at, **votes._asdict()}
        if not is_shut:
            return [msg.Note("info", "a host is reached again", details)]
        return [msg.Note("error", "alarm", {"kind": "HostUnreachable", **details})]

    def conditions(self) -> Iterator[Condition]:
        """What is wrong now."""
        missed = [one for one in self._doors.values() if one.missed >= KNOCKS_MISSED]
        if self._cut_off_since is not None and missed:
            text = (
                f"the coordinator does not reach {len(missed)} of {len(self._doors)} doors, "
                f"such as {missed[0].at}; what it sees does not count"
            )
            yield Condition(DOORS_UNREACHABLE, "", self._cut_off_since.ms, text)
        for name, door in self._doors.items():
            own = self._cut_off_since is None and door.missed >= KNOCKS_MISSED
            since = door.shut_since or (door.missed_since if own else None)
            if since is None:
                continue
            votes = self._votes(door)
            moved = "its leaders move" if name in self.closed.emptied else "its leaders stay"
            text = (
                f"{name} lives, and its door {door.at} is reached by {votes.reached} of "
                f"{sum(votes)} observers; {moved}"
            )
            yield Condition(HOST_UNREACHABLE, name, since.ms, text)

    def _votes(self, door: Door) -> Votes:
        """The other hosts' votes on a door, and the coordinator's, if it is not cut off."""
        address = door.address
        seen = [one.seen[address] for one in self._doors.values() if address in one.seen]
        if self._cut_off_since is None and (not door.missed or door.missed >= KNOCKS_MISSED):
            seen.append(not door.missed)
        return Votes(sum(seen), len(seen) - sum(seen))

    def _review(self) -> None:
        shut = frozenset(name for name, one in self._doors.items() if one.shut_since)
        if 2 * len(shut) > len(self._doors):
            shut = frozenset()
        new = frozenset(name for name, one in self._doors.items() if not one.is_proven)
        if 2 * len(shut | new) > len(self._doors):
            new = frozenset()
        self.unproven = new
        self.closed = ClosedHosts(shut | new, shut)


def _is_cut_off(reached: Collection[bool]) -> bool:
    """Whether an observer is cut off itself, by which of the doors it reaches."""
    return len(reached) > 1 and 2 * sum(reached) < len(reached)

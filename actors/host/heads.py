"""Where the heads of logs are, told by who leads to who follows elsewhere.

What is told is a hint: it makes a follower read the log, and says nothing about what is in it.
So a leader that is none, or tells what is not so, costs a follower some time and a read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tierledger.actors import messages as msg
from tierledger.actors.calls import FOLLOWER, LEADER, PartitionKey
from tierledger.actors.feed.frames import Head
from tierledger.actors.host.partition_shell import PartitionShell
from tierledger.events.commands import Claim
from tierledger.events.errors import NotLeader

NOTHING = -2
"""In place of a position, below that of an empty log."""


class WatchedHead:
    """One who is told of a head. `take` it whenever `wake` was called."""

    def __init__(self, heads: Heads, shell: PartitionShell, wake: Callable[[], None]) -> None:
        """Made by `Heads.watch`."""
        self.shell = shell
        self.wake = wake
        self._heads = heads
        self._told = NOTHING

    def take(self) -> Head | None:
        """Where the head is by now; none if that was told. It is given once.

        Raises:
            NotLeader: The partition is not led here any more.
        """
        if not self._heads.has(self):
            raise NotLeader(f"this host leads {self.shell.key.named('?')} no more")
        position = self.shell.machine.position
        if position == self._told:
            return None
        self._told = position
        return Head(position)

    @property
    def has_more(self) -> bool:
        """What moves next, wakes."""
        return False

    def expect(self, claim: Claim | None) -> None:
        """Heads are nobody's claim."""

    def close(self) -> None:
        """It is told no further."""
        self._heads.drop(self)


class Heads:
    """Who is told of the heads of the logs that a host leads."""

    def __init__(self, shells: Mapping[tuple[PartitionKey, str], PartitionShell]) -> None:
        """`shells`: what runs here, as it is at any time."""
        self._shells = shells
        self._watched: dict[PartitionShell, dict[WatchedHead, None]] = {}

    def watch(self, key: PartitionKey, wake: Callable[[], None]) -> WatchedHead:
        """Tell where a head is; whenever it has moved, or at the end, `wake` is called.

        Raises:
            NotLeader: The partition is not led here.
        """
        shell = self._shells.get((key, LEADER))
        if shell is None:
            raise NotLeader(f"this host does not lead {key.named('?')}")
        one = WatchedHead(self, shell, wake)
        self._watched.setdefault(shell, {})[one] = None
        return one

    def has(self, one: WatchedHead) -> bool:
        """Whether it is still told."""
        return one in self._watched.get(one.shell, ())

    def moved(self, shell: PartitionShell) -> None:
        """The log of a leader has grown."""
        for one in self._watched.get(shell, ()):
            one.wake()

    def gone(self, shell: PartitionShell) -> None:
        """A partition does not run here any more: who was told of its head finds out."""
        for one in self._watched.pop(shell, ()):
            one.wake()

    def drop(self, one: WatchedHead) -> None:
        watched = self._watched.get(one.shell)
        if watched is not None:
            watched.pop(one, None)
            if not watched:
                del self._watched[one.shell]


class Hints:
    """What a host's followers were told of their logs' heads."""

    def __init__(self, shells: Mapping[tuple[PartitionKey, str], PartitionShell]) -> None:
        """`shells`: what runs here, as it is at any time."""
        self._shells = shells
        self._told: dict[PartitionKey, int] = {}
        """By the hosts that lead; a leader of this host is asked itself."""
        self._read: dict[PartitionKey, int] = {}
        """How far each follower was at the last look."""

    def arrived(self, key: PartitionKey, position: int) -> None:
        """The follower of `key` is to read its log at once, unless it was told as much."""
        if position > self._told.get(key, NOTHING):
            self._told[key] = position
            follower = self._shells.get((key, FOLLOWER))
            if follower is not None:
                follower.feed(msg.HintArrived(position))

    def end(self, key: PartitionKey) -> None:
        """Nobody tells of it any more."""
        self._told.pop(key, None)

    def gone(self, key: PartitionKey) -> None:
        """It is not followed here any more."""
        self.end(key)
        self._read.pop(key, None)

    def look(self) -> list[PartitionShell]:
        """All followers that have loaded; from here on they count as being where they are."""
        found = [
            shell
            for (_, role), shell in self._shells.items()
            if role == FOLLOWER and shell.machine.state is not None
        ]
        for shell in found:
            self._read[shell.key] = shell.machine.position
        return found

    def unheard(self) -> set[PartitionKey]:
        """Followers whose leaders are not known to tell of what was read by the last look.

        It has been found in the log without them. So who leads no more, and says nothing, is
        soon believed no more.
        """
        return {key for key, position in self._read.items() if self._heard(key) < position}

    def _heard(self, key: PartitionKey) -> int:
        leader = self._shells.get((key, LEADER))
        told = self._told.get(key, NOTHING)
        return told if leader is None else max(told, leader.machine.position)

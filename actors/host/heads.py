"""Hints about the heads of logs, from hosts that lead to hosts that follow.

A head is only a hint: it makes a follower read the log, and carries nothing of its contents. So
a fenced leader, or a wrong hint, costs a follower one read and some time.
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
    """A subscription to one head. Call `take` whenever `wake` was called."""

    def __init__(self, heads: Heads, shell: PartitionShell, wake: Callable[[], None]) -> None:
        """Made by `Heads.watch`."""
        self.shell = shell
        self.wake = wake
        self._heads = heads
        self._sent = NOTHING

    def take(self) -> Head | None:
        """The present head, once per position; None if the subscriber has got it already.

        Raises:
            NotLeader: The partition is not led here any more.
        """
        if not self._heads.has(self):
            raise NotLeader(f"this host no longer leads {self.shell.key.named('?')}")
        position = self.shell.machine.position
        if position == self._sent:
            return None
        self._sent = position
        return Head(position)

    @property
    def has_more(self) -> bool:
        """Always false: the next move of the head calls `wake`."""
        return False

    def expect(self, claim: Claim | None) -> None:
        """Does nothing: heads depend on no claim."""

    def close(self) -> None:
        """End the subscription."""
        self._heads.drop(self)


class Heads:
    """The subscriptions to heads of the logs that a host leads."""

    def __init__(self, shells: Mapping[tuple[PartitionKey, str], PartitionShell]) -> None:
        """`shells`: the host's live table of what runs there."""
        self._shells = shells
        self._watched: dict[PartitionShell, dict[WatchedHead, None]] = {}

    def watch(self, key: PartitionKey, wake: Callable[[], None]) -> WatchedHead:
        """Subscribe to a head. `wake` is called whenever it has moved, and at the end.

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
        """Whether the subscription is still open."""
        return one in self._watched.get(one.shell, ())

    def moved(self, shell: PartitionShell) -> None:
        """Wake the subscribers of a leader whose log has grown."""
        for one in self._watched.get(shell, ()):
            one.wake()

    def gone(self, shell: PartitionShell) -> None:
        """Wake the subscribers of a partition that does not run here any more."""
        for one in self._watched.pop(shell, ()):
            one.wake()

    def drop(self, one: WatchedHead) -> None:
        watched = self._watched.get(one.shell)
        if watched is not None:
            watched.pop(one, None)
            if not watched:
                del self._watched[one.shell]


class Hints:
    """The hints that a host has got for its followers."""

    def __init__(self, shells: Mapping[tuple[PartitionKey, str], PartitionShell]) -> None:
        """`shells`: the host's live table of what runs there."""
        self._shells = shells
        self._hints: dict[PartitionKey, int] = {}
        """Newest hint of another host's leader; a leader on this host is read directly."""
        self._read: dict[PartitionKey, int] = {}
        """Position of each follower at the last poll."""

    def arrived(self, key: PartitionKey, position: int) -> None:
        """Let the follower of `key` read its log at once, unless this hint is not newer."""
        if position > self._hints.get(key, NOTHING):
            self._hints[key] = position
            follower = self._shells.get((key, FOLLOWER))
            if follower is not None:
                follower.feed(msg.HintArrived(position))

    def end(self, key: PartitionKey) -> None:
        """No host sends hints about `key` any more."""
        self._hints.pop(key, None)

    def gone(self, key: PartitionKey) -> None:
        """`key` is not followed here any more."""
        self.end(key)
        self._read.pop(key, None)

    def look(self) -> list[PartitionShell]:
        """All followers that have loaded; their positions are noted for `unheard`."""
        found = [
            shell
            for (_, role), shell in self._shells.items()
            if role == FOLLOWER and shell.machine.state is not None
        ]
        for shell in found:
            self._read[shell.key] = shell.machine.position
        return found

    def unheard(self) -> set[PartitionKey]:
        """Followers that were, at the last poll, ahead of every hint for them.

        They found events in the log without a hint. So a leader that no longer leads and sends
        no hints is not relied on for long: its followers are polled.
        """
        return {key for key, position in self._read.items() if self._hint(key) < position}

    def _hint(self, key: PartitionKey) -> int:
        leader = self._shells.get((key, LEADER))
        hint = self._hints.get(key, NOTHING)
        return hint if leader is None else max(hint, leader.machine.position)

"""What of a host's partitions is fed to replicas, whoever they are behind.

Rule 1: a machine's step is over before anything is taken from its source, and nothing that is
done here can be part of one. Rule 2: a feed that fails is its partition's failure.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tierledger.actors.calls import FOLLOWER, LEADER
from tierledger.events.errors import NotLeader, Quarantined, RemoteStorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tierledger.actors.calls import PartitionKey
    from tierledger.actors.feed.frames import Frame, Subscription
    from tierledger.actors.feed.source import FeedSource
    from tierledger.actors.partition_shell import PartitionShell
    from tierledger.events.commands import Claim

LINGER_S = 60.0
"""How long a feed stays open when nobody is fed: who comes back soon finds it in the ring."""


class Fed:
    """One subscriber. `take` what there is whenever `wake` was called."""

    def __init__(
        self, feed: _OpenFeed, subscription: Subscription, wake: Callable[[], None]
    ) -> None:
        """Made by `Feeds.subscribe`."""
        self._feed = feed
        self._number = feed.source.subscribe(subscription)
        self.wake = wake

    def take(self) -> Frame | None:
        """What is next; none if that was all. It is given once.

        Raises:
            NotLeader: The partition does not run here any more in that role.
            Quarantined: Its feed cannot go on.
        """
        feed = self._feed
        if feed.is_gone:
            raise NotLeader(f"{feed.shell.key.named('?')} is not fed by this host any more")
        try:
            frames = feed.source.take(self._number, 1)
        except Exception as error:
            feed.shell.failed(error)
            raise Quarantined(f"the feed failed: {type(error).__name__}: {error}") from error
        return frames[0] if frames else None

    def expect(self, claim: Claim | None) -> None:
        """Its broker announced itself anew."""
        if not self._feed.is_gone:
            self._feed.source.expect(self._number, claim)
        self.wake()

    def close(self) -> None:
        """It is fed no further."""
        self._feed.drop(self, self._number)


class _OpenFeed:
    """The feed of one partition in one role, from its first subscriber on."""

    def __init__(
        self, shell: PartitionShell, source: FeedSource, close: Callable[[PartitionShell], None]
    ) -> None:
        """`close` is called when nobody has come back."""
        self.shell = shell
        self.source = source
        self._close = close
        self.is_gone = False
        self.fed: set[Fed] = set()
        self.closing: asyncio.TimerHandle | None = None
        """While nobody is fed."""

    def stepped(self) -> None:
        for one in self.fed:
            one.wake()

    def drop(self, fed: Fed, number: int) -> None:
        if fed not in self.fed:
            return
        self.fed.discard(fed)
        if self.is_gone:
            return
        self.source.drop(number)
        if not self.fed:
            loop = asyncio.get_running_loop()
            self.closing = loop.call_later(LINGER_S, self._close, self.shell)

    def keep(self) -> None:
        if self.closing is not None:
            self.closing.cancel()
            self.closing = None


class Feeds:
    """The feeds of one host."""

    def __init__(self, shells: Mapping[tuple[PartitionKey, str], PartitionShell]) -> None:
        """`shells`: what runs here, as it is at any time."""
        self._shells = shells
        self._open: dict[PartitionShell, _OpenFeed] = {}

    def subscribe(self, subscription: Subscription, wake: Callable[[], None]) -> Fed:
        """Feed a replica; whenever there is something to take, or an end, `wake` is called.

        Raises:
            NotLeader: The partition does not run here in that role.
            Overloaded: It has too many subscribers.
            Quarantined: It cannot be fed.
        """
        shell = self._feeding(subscription)
        feed = self._open.get(shell)
        if feed is None:
            feed = self._open[shell] = _OpenFeed(shell, _opened(shell), self._close)
            shell.after_step = feed.stepped
        fed = Fed(feed, subscription, wake)
        feed.keep()
        feed.fed.add(fed)
        return fed

    def _feeding(self, subscription: Subscription) -> PartitionShell:
        key, role = subscription.key, subscription.role
        shell = self._shells.get((key, role))
        if shell is None and role == FOLLOWER and subscription.claim is None:
            shell = self._shells.get((key, LEADER))
        if shell is None:
            raise NotLeader(f"this host has no {role} of {key.named('?')}")
        return shell

    def gone(self, shell: PartitionShell) -> None:
        """The partition does not run here any more: whoever it fed finds out."""
        feed = self._open.pop(shell, None)
        if feed is not None:
            feed.keep()
            feed.is_gone = True
            shell.after_step = None
            feed.stepped()

    def _close(self, shell: PartitionShell) -> None:
        del self._open[shell]
        shell.after_step = None
        shell.machine.close_feed()


def _opened(shell: PartitionShell) -> FeedSource:
    try:
        return shell.machine.open_feed()
    except RemoteStorageError:
        raise
    except Exception as error:
        shell.failed(error)
        raise Quarantined(f"the feed failed: {type(error).__name__}: {error}") from error

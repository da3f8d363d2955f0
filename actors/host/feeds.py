"""Feeds replicas in brokers, programs and other hosts with a host's partitions.

Rule 1: frames are taken from a machine's source only between two steps of the machine, never
within one. Rule 2: a feed that fails quarantines its partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from itertools import islice

from tierledger.actors import messages as msg
from tierledger.actors.calls import FOLLOWER, LEADER, PartitionKey
from tierledger.actors.feed.frames import Frame, Subscription
from tierledger.actors.feed.source import FeedSource
from tierledger.actors.host.partition_shell import PartitionShell
from tierledger.actors.slices import Slices
from tierledger.events.commands import Claim
from tierledger.events.errors import DataError, NotLeader, Quarantined, RemoteStorageError

SNAPSHOTS_AT_ONCE = 8
"""Snapshots under way on one host; one of a million rows takes a few seconds."""

TURN_S = 10.0
"""After so long a snapshot's reader counts as slow, and other snapshots do not wait for it."""

PROOFS_AT_ONCE = 8
"""Replicas whose past a host compares with logs at a time; each takes some twenty reads."""

DAMAGED = "damaged"
"""The alarm when a replica is not fed, since its past in the log does not verify."""

LINGER_S = 60.0
"""How long a feed stays open without subscribers, so that one that comes back is fed from the
ring and needs no snapshot."""


class FeedSubscriber:
    """One subscriber. Call `take` until it returns None whenever `wake` was called."""

    def __init__(
        self,
        feed: _OpenFeed,
        subscription: Subscription,
        wake: Callable[[], None],
        turns: SnapshotTurns,
    ) -> None:
        """Made by `Feeds.subscribe`."""
        self._feed = feed
        self._turns = turns
        self._is_waiting = False
        """Whether it needs a snapshot and waits for its turn."""
        self._number = feed.source.subscribe(subscription)
        self._proving: asyncio.Task[None] | None = None
        self._trouble: RemoteStorageError | None = None
        self.wake = wake

    def take(self) -> Frame | None:
        """The next frame, which is given once; None if there is none now.

        Raises:
            NotLeader: The partition does not run here any more in that role.
            Quarantined: The partition's feed failed.
            CorruptLog: The replica's past cannot be compared with the log.
        """
        # A frame at a time, and only when the caller has room for it: what waits for a slow
        # replica then waits as a place in the feed's ring, which all subscribers share, and not
        # as frames of its own. Two things make a subscriber get nothing although there is
        # something: its snapshot waits for its turn, and what it holds is not proven yet, for
        # which the log has to be read. Both wake it when they end, so no caller polls.
        #
        # Whatever goes wrong in the feed's code is this partition's alone: it is quarantined,
        # and the host's other feeds go on. Only what the subscriber is told is raised as it is.
        feed = self._feed
        if self._trouble is not None:
            raise self._trouble
        if feed.is_gone:
            raise NotLeader(f"{feed.shell.key.named('?')} is not fed by this host any more")
        try:
            self._is_waiting = False
            frames = feed.source.take(self._number, 1, self._may_begin)
            if not (self._is_waiting or feed.source.is_sending(self._number)):
                self._turns.end(self)
            held = feed.source.unproven(self._number)
            if held is not None and self._proving is None:
                self._proving = feed.shell.host.spawn(self._prove(*held))
        except Exception as error:
            feed.shell.failed(error)
            raise Quarantined(f"the feed failed: {type(error).__name__}: {error}") from error
        return frames[0] if frames else None

    @property
    def has_more(self) -> bool:
        """Whether there may be a frame behind the one that was just taken."""
        return self._feed.source.has_more(self._number)

    async def _prove(self, position: int, chain_hash: bytes) -> None:
        """Find out whether the log holds the position and hash that the replica has."""
        feed = self._feed
        try:
            async with self._turns.proofs:
                is_held = await feed.shell.has_history(position, chain_hash)
        except RemoteStorageError as error:
            self._trouble = error
            if isinstance(error, DataError):
                feed.shell.host.notified(feed.shell, msg.Alarm(DAMAGED, str(error)))
        else:
            if not feed.is_gone:
                feed.source.proven(self._number, (position, chain_hash), is_held=is_held)
        self._proving = None
        self.wake()

    def _may_begin(self) -> bool:
        self._is_waiting = not self._turns.begin(self)
        return not self._is_waiting

    def expect(self, claim: Claim | None) -> None:
        """The replica's broker announced itself anew, under `claim`."""
        if not self._feed.is_gone:
            self._feed.source.expect(self._number, claim)
        self.wake()

    def close(self) -> None:
        """End the subscription."""
        if self._proving is not None:
            self._proving.cancel()
        self._turns.end(self)
        self._feed.drop(self, self._number)


class SnapshotTurns:
    """The snapshots that are under way on a host; further ones wait, first come, first served.

    When a host takes over many replicas that all need a snapshot, this lets the first ones
    finish soon, in place of all of them late.
    """

    def __init__(self) -> None:
        self.under_way: dict[FeedSubscriber, float] = {}
        """By subscriber: when its snapshot began."""
        self.waiting: dict[FeedSubscriber, None] = {}
        self.proofs = asyncio.Semaphore(PROOFS_AT_ONCE)

    def begin(self, fed: FeedSubscriber) -> bool:
        """Whether the snapshot of `fed` may begin now; if not, it is woken when it may."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if fed not in self.waiting:
            self.waiting[fed] = None
            loop.call_later(TURN_S, fed.wake)
        free = SNAPSHOTS_AT_ONCE - sum(now - at < TURN_S for at in self.under_way.values())
        if fed not in islice(self.waiting, max(free, 0)):
            return False
        del self.waiting[fed]
        self.under_way[fed] = now
        return True

    def end(self, fed: FeedSubscriber) -> None:
        """End the turn of `fed`, or its wait for one, and wake those that are next."""
        self.waiting.pop(fed, None)
        if self.under_way.pop(fed, None) is not None:
            for one in islice(self.waiting, SNAPSHOTS_AT_ONCE):
                one.wake()


class _OpenFeed:
    """The feed of one partition in one role, from its first subscriber on."""

    def __init__(
        self, shell: PartitionShell, source: FeedSource, close: Callable[[PartitionShell], None]
    ) -> None:
        """`close` is called once the feed had no subscriber for `LINGER_S`."""
        self.shell = shell
        self.source = source
        self._close = close
        self.is_gone = False
        self._is_hashing = False
        self.fed: dict[FeedSubscriber, None] = {}
        """The subscribers, in the order in which they are woken."""
        self.closing: asyncio.TimerHandle | None = None
        """Set while there is no subscriber."""

    def stepped(self) -> None:
        if not self.source.is_hashed:
            self._hash_soon()
        for one in self.fed:
            one.wake()

    def _hash_soon(self) -> None:
        """Let the source compute its checksum, a part in each turn of the loop."""
        if not self._is_hashing:
            self._is_hashing = True
            asyncio.get_running_loop().call_soon(self._hash_some)

    def _hash_some(self) -> None:
        self._is_hashing = False
        if not self.is_gone:
            self.source.hash_more()
            self.stepped()

    def drop(self, fed: FeedSubscriber, number: int) -> None:
        if fed not in self.fed:
            return
        del self.fed[fed]
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
        """`shells`: the host's live table of what runs there."""
        self._shells = shells
        self._open: dict[PartitionShell, _OpenFeed] = {}
        self._turns = SnapshotTurns()
        self._overtaken = 0
        """Overtaken subscribers of feeds that are closed by now."""

    def subscribe(self, subscription: Subscription, wake: Callable[[], None]) -> FeedSubscriber:
        """Feed a replica. `wake` is called whenever there may be a frame, and at the end.

        Raises:
            NotLeader: The partition does not run here in that role.
            Overloaded: The partition has too many subscribers.
            Quarantined: The partition's feed failed.
        """
        shell = self._feeding(subscription)
        feed = self._open.get(shell)
        if feed is None:
            feed = self._open[shell] = _OpenFeed(shell, _opened(shell), self._close)
            shell.after_step = feed.stepped
        fed = FeedSubscriber(feed, subscription, wake, self._turns)
        feed.keep()
        feed.fed[fed] = None
        if not feed.source.is_hashed:
            feed.stepped()
        return fed

    async def counts(self) -> dict[str, int]:
        """Counts of feeds, replicas and snapshots, and the greatest lag in events."""
        slices, lag, replicas, overtaken = Slices(), 0, 0, self._overtaken
        for feed in list(self._open.values()):
            lag, replicas = max(lag, feed.source.lag()), replicas + len(feed.fed)
            overtaken += feed.source.overtaken
            await slices.yield_if_due()
        return {
            "open": len(self._open),
            "replicas": replicas,
            "lag_events_max": lag,
            "snapshots": len(self._turns.under_way),
            "snapshots_waiting": len(self._turns.waiting),
            "overtaken": overtaken,
        }

    def _feeding(self, subscription: Subscription) -> PartitionShell:
        key, role = subscription.key, subscription.role
        shell = self._shells.get((key, role))
        if shell is None and role == FOLLOWER and subscription.claim is None:
            shell = self._shells.get((key, LEADER))
        if shell is None:
            raise NotLeader(f"this host has no {role} of {key.named('?')}")
        return shell

    def gone(self, shell: PartitionShell) -> None:
        """End the feed of a partition that no longer runs here, and wake its subscribers."""
        feed = self._open.pop(shell, None)
        if feed is not None:
            self._overtaken += feed.source.overtaken
            feed.keep()
            feed.is_gone = True
            shell.after_step = None
            feed.stepped()

    def _close(self, shell: PartitionShell) -> None:
        self._overtaken += self._open.pop(shell).source.overtaken
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

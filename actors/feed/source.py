"""The sending end of a partition's feed, as a pure state machine beside a leader or follower.

Rule 1: only durable and applied events are sent. The machine calls `changed` after each batch.
Rule 2: a snapshot is the state at one position. Its rows are frozen (rows are copied when they
change, not here). Later changes are sent between its slices, so that a replica that reads on
keeps up however long the snapshot takes.
Rule 3: there is one ring of changes for all subscribers, bounded in bytes. A subscriber that is
overtaken by the ring's end gets a new snapshot.
Rule 4: no subscriber is sent a position before the one that it has answered at. A source that
is behind that position sends nothing.
Rule 5: no subscriber is sent anything before the log was found to hold the position and hash
that it names. If the ring does not know them, they are looked for in the store (`unproven`,
`proven`).
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from tierledger.actors.feed.checksum import checksum, share_of_epoch, share_of_strays
from tierledger.actors.feed.frames import (
    FRAME_BYTES,
    FRAME_ROWS,
    Change,
    Contents,
    EpochNumbers,
    FeedFenced,
    FeedReady,
    Frame,
    OtherHistory,
    Slice,
    SnapshotBegun,
    Strays,
    Subscription,
)
from tierledger.events.commands import Claim
from tierledger.events.errors import Overloaded
from tierledger.events.log_events import Event, SegmentAdded
from tierledger.events.partition.state import PartitionState
from tierledger.events.tables.segment_rows import EPOCHS, SegmentRows, id_of_row, unpack_row

RING_BYTES = 1024 * 1024
"""Bytes of changes that are kept for subscribers that are behind: about 4,000 changes of one
segment. A batch that is larger alone is kept until the next one."""

ENTRY_BYTES = 200
"""Bytes that a change takes in the ring beside its rows."""

SUBSCRIBERS_MAX = 64
"""Subscribers of one partition; it has a few replicas, and some of them connect anew."""

TAKEN_AT_ONCE = 4
"""Frames that are taken in one step: 1 MiB, about 1 ms."""

HASHED_AT_ONCE = 1000
"""Epochs and strays whose shares of the checksum are computed in one step, about 2 ms."""

_FREED = object()


class StateHolder(Protocol):
    """A leader or follower."""

    @property
    def state(self) -> PartitionState | None:
        """The state, durable and applied; None if it may not be read."""


class _Entry(NamedTuple):
    """One batch in the ring."""

    after: int
    chain_before: bytes
    changes: list[Change]
    size: int


class _Subscriber:
    """How far one replica has been fed."""

    __slots__ = (
        "claim",
        "floor",
        "frozen",
        "given",
        "held",
        "is_refused",
        "is_slice_next",
        "next_entry",
        "part",
        "proof",
        "ready_at",
        "ready_under",
        "sent",
        "slices",
        "without_rows",
    )

    def __init__(self, subscription: Subscription) -> None:
        self.held: tuple[int, bytes | None] = subscription.position, subscription.chain_hash
        """Position and chain hash to go on from, while the replica has no place in the ring."""
        self.proof = _proof_of(*self.held)
        """Whether the log holds these; None: not known yet."""
        self.without_rows = subscription.without_rows
        """Whether it has no rows, so that only a snapshot helps it."""
        self.floor = max(subscription.floor, subscription.position)
        """The position before which it must not be sent anything."""
        self.claim = subscription.claim
        self.next_entry: int | None = None
        """The ring's entry that is sent next, counted from the first that was ever added."""
        self.part = 0
        """The part of that entry that is sent next."""
        self.given = self.held
        """Position and hash up to which it was sent everything, apart from later slices."""
        self.frozen: SegmentRows | None = None
        """The rows of a snapshot that it is being sent."""
        self.slices: Iterator[Slice] | None = None
        """The slices of `frozen` that are still to be sent."""
        self.is_slice_next = False
        self.ready_under: int | None = None
        self.ready_at = -1
        """The position that it has to reach to be ready under the session `ready_under`."""
        self.sent: type[FeedReady | FeedFenced] | None = None
        """The last news of its claim."""
        self.is_refused = False
        """Whether it was told that its position is of another history."""


class FeedSource:
    """Feeds one partition's replicas. Its machine calls `changed` and `restarted`."""

    def __init__(
        self, machine: StateHolder, ready_under: Callable[[Claim], int | None]
    ) -> None:
        """`ready_under`: whether the machine has all that the log held when a claim came.

        Its result is None if not. Otherwise it is the number of the session under which that
        is so; a machine whose claims depend on no session always returns the same number.
        """
        self._machine = machine
        self._ready_under = ready_under
        self._subscribers: dict[int, _Subscriber] = {}
        self._numbers = itertools.count(1)
        self.overtaken = 0
        """Snapshots that were begun because a subscriber was overtaken by the ring's end."""
        self._given_up: list[Iterator[None]] = []
        """Snapshots that are no longer sent; it takes a while to free a large one."""
        self._begin()

    def _begin(self) -> None:
        self._ring: deque[_Entry] = deque()
        self._ring_bytes = 0
        self._entries = 0
        """How many entries were ever added; the ring holds the last of them."""
        self._position, self._chain_hash = -1, b""
        self._epochs: dict[int, tuple[EpochNumbers, int]] = {}
        """Each epoch's numbers as they were sent last, and their share of the checksum."""
        self._strays: dict[bytes, int] = {}
        """By segment with strays: their share of the checksum."""
        self._shares = 0
        """The sum of the shares in `_epochs` and `_strays`."""
        self._unhashed: list[int | bytes] = []
        """Epochs, and segments with strays, whose shares are still to be computed."""
        state = self._machine.state
        if state is not None:
            state.settle()
            state.touched = {}
            self._position, self._chain_hash = state.next_position - 1, state.chain_hash
            self._unhashed = [*state.epochs, *state.strays]
            self.hash_more()

    def hash_more(self) -> None:
        """Compute the checksum of another part of the state.

        No subscriber is sent anything before the last part.
        """
        state = self._machine.state
        if self._unhashed and state is not None and not state.is_finished:
            some = self._unhashed[-HASHED_AT_ONCE:]
            del self._unhashed[-HASHED_AT_ONCE:]
            self._renumber(state, [one for one in some if isinstance(one, int)])
            self._restray(state, [one for one in some if isinstance(one, bytes)])

    @property
    def is_hashed(self) -> bool:
        """Whether the checksum of the whole state is computed; see `hash_more`."""
        return not self._unhashed

    def __len__(self) -> int:
        """The number of subscribers; with none the source may be closed."""
        return len(self._subscribers)

    def close(self) -> None:
        """Let the machine note no more changes. Call nothing after this."""
        self._subscribers.clear()
        if self._machine.state is not None:
            self._machine.state.touched = None

    # Subscribers.

    def subscribe(self, subscription: Subscription) -> int:
        """The number by which the new subscriber is known here.

        Raises:
            Overloaded: There are too many subscribers.
        """
        if len(self._subscribers) >= SUBSCRIBERS_MAX:
            raise Overloaded(f"{SUBSCRIBERS_MAX} replicas are fed by this partition already")
        number = next(self._numbers)
        self._subscribers[number] = _Subscriber(subscription)
        return number

    def expect(self, number: int, claim: Claim | None) -> None:
        """The subscriber's broker announced itself anew, under `claim`."""
        one = self._subscribers[number]
        one.claim, one.ready_under, one.sent = claim, None, None

    def drop(self, number: int) -> None:
        """Forget a subscriber. Its next subscription names the position to go on from."""
        one = self._subscribers.pop(number, None)
        if one is not None:
            self._give_up(one)

    def _give_up(self, one: _Subscriber) -> None:
        if one.frozen is not None:
            self._given_up.append(one.frozen.dismantle())
        one.frozen = one.slices = None

    def _free(self) -> None:
        """Free another part of the snapshots that are no longer sent."""
        if self._given_up and next(self._given_up[-1], _FREED) is _FREED:
            self._given_up.pop()

    def has_more(self, number: int) -> bool:
        """Whether there may be another frame for a subscriber that has just been sent one."""
        one = self._subscribers[number]
        is_settled = one.claim is None or one.sent is FeedReady
        return not is_settled or one.slices is not None or one.next_entry != self._entries

    def unproven(self, number: int) -> tuple[int, bytes] | None:
        """The position and chain hash to look for in the log, if any; see `proven`."""
        one = self._subscribers[number]
        position, chain_hash = one.held
        if one.proof is not None or chain_hash is None or self._machine.state is None:
            return None
        return position, chain_hash

    def proven(self, number: int, held: tuple[int, bytes], *, is_held: bool) -> None:
        """Note whether the log holds `held`, unless the subscriber has another place by now."""
        one = self._subscribers.get(number)
        if one is not None and one.held == held and one.proof is None:
            one.proof = is_held

    def is_sending(self, number: int) -> bool:
        """Whether a snapshot to that subscriber is under way."""
        return self._subscribers[number].slices is not None

    def lag(self) -> int:
        """Events by which the slowest of the subscribers with a whole snapshot is behind."""
        given = [one.given[0] for one in self._subscribers.values() if self._holds(one)]
        return self._position - min(given, default=self._position)

    def _holds(self, one: _Subscriber) -> bool:
        return one.next_entry is not None and one.slices is None

    def take(
        self,
        number: int,
        limit: int = TAKEN_AT_ONCE,
        may_begin: Callable[[], bool] = lambda: True,
    ) -> list[Frame]:
        """The next frames for a subscriber, in order; fewer than `limit` if there are no more.

        Each frame is returned once. Each step of the machine may bring more, and so may
        `expect`. `may_begin`: whether a snapshot may begin now; until it may, a subscriber that
        needs one gets nothing.
        """
        self._free()
        one = self._subscribers[number]
        frames: list[Frame] = []
        while len(frames) < limit and (frame := self._next(one, may_begin)) is not None:
            frames.append(frame)
        return frames

    def _next(self, one: _Subscriber, may_begin: Callable[[], bool]) -> Frame | None:
        # Slices and changes take turns. All slices first would need a ring that holds every
        # change during the snapshot, or a large partition that is written to would never be
        # sent whole. It does not matter which of the two brings a row first: for a replica a
        # change is newer than any slice.
        #
        # News of a claim goes before both, at the position up to which the subscriber was sent
        # everything. Behind them it would wait for the ring's end, where a subscriber of a busy
        # partition may never be.
        if one.next_entry is None and (frame := self._place(one, may_begin)) is not None:
            return frame
        if one.next_entry is None:
            return None
        at = one.next_entry - self._entries + len(self._ring)
        if at < 0:
            frame = self._snapshot(one, may_begin)
            self.overtaken += frame is not None
            return frame
        if (news := self._news_of_claim(one)) is not None:
            return news
        entry = self._ring[at] if at < len(self._ring) else None
        if one.slices is not None and (entry is None or one.is_slice_next):
            one.is_slice_next = False
            part = next(one.slices)
            if part.is_last:
                one.frozen = one.slices = None
            return part
        if entry is None:
            return None
        one.is_slice_next = True
        change = entry.changes[one.part]
        one.part += 1
        if change.is_last:
            one.next_entry, one.part = one.next_entry + 1, 0
            one.given = change.position, change.chain_hash
        return change

    def _place(self, one: _Subscriber, may_begin: Callable[[], bool]) -> Frame | None:
        """Find where in the ring `one` goes on; or begin a snapshot, or refuse."""
        if self._unhashed or one.is_refused:
            return None
        held, chain_hash = one.held
        borders = itertools.chain(
            [(self._position, self._chain_hash)],
            ((entry.after, entry.chain_before) for entry in reversed(self._ring)),
        )
        for back, (position, chain_there) in enumerate(borders):
            if position == held >= 0 and chain_hash is not None:
                one.proof = chain_there == chain_hash
                if one.proof and not one.without_rows and self._position >= one.floor:
                    one.next_entry, one.part, one.given = self._entries - back, 0, one.held
                    return None
                break
        if one.proof is False:
            one.is_refused = True
            return OtherHistory(held)
        if one.proof is None or self._position < one.floor:
            return None
        return self._snapshot(one, may_begin)

    def _snapshot(self, one: _Subscriber, may_begin: Callable[[], bool]) -> Frame | None:
        state = self._machine.state
        if state is None or state.next_position - 1 != self._position:
            return None  # A batch failed half way: the state is between two positions.
        if one.slices is None and not may_begin():
            return None
        self._give_up(one)
        one.frozen = state.rows.snapshot()
        epochs = [numbers for numbers, _ in self._epochs.values()]
        one.slices = _slices(one.frozen, dict(state.strays), self._position, epochs)
        one.next_entry, one.part, one.is_slice_next = self._entries, 0, True
        one.given = self._position, self._chain_hash
        one.ready_under = one.sent = None
        return SnapshotBegun(
            self._position, self._chain_hash, _delete_state(state), self._checksum(state)
        )

    def _news_of_claim(self, one: _Subscriber) -> FeedReady | FeedFenced | None:
        """The news about the claim of `one`, at the position that it has been sent."""
        claim, state = one.claim, self._machine.state
        if claim is None or state is None:
            return None
        under = self._ready_under(claim)
        if under is not None:
            if one.ready_under != under:
                one.ready_under, one.ready_at = under, self._position
                # Another session was open meanwhile, and the subscriber was not told.
                if one.sent is FeedReady:
                    one.sent = FeedFenced
                    return FeedFenced(claim)
            if one.sent is FeedReady or one.slices is not None or one.given[0] < one.ready_at:
                return None
            one.sent = FeedReady
            return FeedReady(claim, one.given[0])
        one.ready_under = None
        if one.sent is FeedFenced or not _is_fenced(state, claim):
            return None
        one.sent = FeedFenced
        return FeedFenced(claim)

    # The machine.

    def restarted(self) -> None:
        """The machine has loaded its state (again): begin anew, with the same subscribers."""
        self._begin()
        for one in self._subscribers.values():
            if one.next_entry is not None:
                # With half a snapshot it has nothing to go on from. A position that it has
                # whole has to be found in the log again: the new ring does not know it.
                one.held = (-1, None) if one.slices is not None else one.given
                one.proof = _proof_of(*one.held)
                one.without_rows = False
                one.floor = max(one.floor, one.given[0])
                one.next_entry = None
                self._give_up(one)

    def changed(self, events: Sequence[Event]) -> None:
        """The machine has applied one batch, which is durable."""
        self._free()
        state = self._machine.state
        assert state is not None, "a batch was applied to a state"
        state.settle()
        touched, state.touched = state.touched or {}, {}
        after, chain_before = self._position, self._chain_hash
        self._position, self._chain_hash = state.next_position - 1, state.chain_hash
        if state.is_finished:
            self._epochs, self._strays, self._shares = {}, {}, 0
            self._unhashed = []
            parts = [Contents()]
        else:
            parts = list(self._parts(state, events, touched))
        if self._unhashed:
            return  # No subscriber is fed yet, and the checksum is not known.
        delete_state, total = _delete_state(state), self._checksum(state)
        changes = [
            Change(
                after,
                self._position,
                number,
                contents,
                number + 1 == len(parts),
                self._chain_hash,
                delete_state,
                total,
            )
            for number, contents in enumerate(parts)
        ]
        size = ENTRY_BYTES + sum(map(_size, parts))
        self._ring.append(_Entry(after, chain_before, changes, size))
        self._entries += 1
        self._ring_bytes += size
        while self._ring_bytes > RING_BYTES and len(self._ring) > 1:
            self._ring_bytes -= self._ring.popleft().size

    def _parts(
        self, state: PartitionState, events: Sequence[Event], touched: dict[bytes, bytes | None]
    ) -> Iterator[Contents]:
        rows: list[bytes] = []
        gone: list[bytes] = []
        epochs: dict[int, None] = {}
        for segment_id, before in touched.items():
            row = state.rows.get(segment_id)
            if row is not None:
                rows.append(row)
            elif before is not None:
                gone.append(segment_id)
            if before is not None:
                epochs.update(dict.fromkeys(unpack_row(before)[EPOCHS][::3]))
        for event in events:  # Also those of segments that were added and removed again.
            if type(event.body) is SegmentAdded:
                epochs.update(dict.fromkeys(event.body.epochs[::2]))
        if state.strays or self._strays:
            for segment_id in touched:
                epochs.update(dict.fromkeys(state.strays.get(segment_id, ())))
            self._restray(state, touched)
        return _cut(rows, state.strays, self._renumber(state, epochs), gone)

    def _renumber(self, state: PartitionState, epochs: Iterable[int]) -> list[EpochNumbers]:
        """The numbers of those of `epochs` that have changed since they were sent last."""
        changed: list[EpochNumbers] = []
        for epoch in epochs:
            tables = state.epochs[epoch]
            numbers = EpochNumbers(epoch, tables.highest, tables.size)
            sent, share = self._epochs.get(epoch, (None, 0))
            if sent != numbers:
                self._epochs[epoch] = numbers, share_of_epoch(numbers)
                self._shares += self._epochs[epoch][1] - share
                changed.append(numbers)
        return changed

    def _restray(self, state: PartitionState, segment_ids: Iterable[bytes]) -> None:
        for segment_id in segment_ids:
            self._shares -= self._strays.pop(segment_id, 0)
            epochs = state.strays.get(segment_id)
            if epochs and state.rows.get(segment_id) is not None:
                share = share_of_strays(Strays(segment_id, epochs))
                self._strays[segment_id] = share
                self._shares += share

    def _checksum(self, state: PartitionState) -> bytes:
        shares = self._shares + state.rows_digest
        return checksum(shares, self._position, self._chain_hash, _delete_state(state))


def _proof_of(position: int, chain_hash: bytes | None) -> bool | None:
    """Whether the log holds a place, before the search: None if not known, true if no place."""
    return True if position < 0 or chain_hash is None else None


def _delete_state(state: PartitionState) -> int | None:
    return None if state.delete is None else state.delete.state


def _is_fenced(state: PartitionState, claim: Claim) -> bool:
    """Whether `claim`, or a later one of its broker, was in the log and does not lead now."""
    session, pair = state.session, (claim.incarnation, claim.announcement)
    if session is None or state.last_heard(claim.broker_id) < pair:
        return False
    return not session.is_of(claim)


def _slices(
    frozen: SegmentRows,
    strays: Mapping[bytes, tuple[int, ...]],
    position: int,
    epochs: Sequence[EpochNumbers],
) -> Iterator[Slice]:
    """The slices of the snapshot at `position`, each made when it is taken; drains `frozen`."""
    contents = _cut(frozen.drain(), strays, epochs)
    held = next(contents)
    for number in itertools.count():
        following = next(contents, None)
        yield Slice(position, number, held, following is None)
        if following is None:
            return
        held = following


def _cut(
    rows: Iterable[bytes],
    strays: Mapping[bytes, tuple[int, ...]],
    epochs: Sequence[EpochNumbers],
    gone: Sequence[bytes] = (),
) -> Iterator[Contents]:
    """The contents in parts of bounded size, at least one."""
    part: list[bytes] = []
    size = 0
    for row in rows:
        part.append(row)
        size += len(row)
        if size >= FRAME_BYTES or len(part) == FRAME_ROWS:
            yield Contents(tuple(part), (), _strays_of(part, strays))
            part, size = [], 0
    for at in range(0, max(len(gone), len(epochs), 1), FRAME_ROWS):
        until = at + FRAME_ROWS
        of_part = _strays_of(part, strays)
        yield Contents(tuple(part), tuple(gone[at:until]), of_part, tuple(epochs[at:until]))
        part = []


def _strays_of(
    rows: Iterable[bytes], strays: Mapping[bytes, tuple[int, ...]]
) -> tuple[Strays, ...]:
    if not strays:
        return ()
    ids = map(id_of_row, rows)
    return tuple(Strays(one, strays[one]) for one in ids if one in strays)


def _size(contents: Contents) -> int:
    """About how many bytes `contents` take in memory."""
    rows, gone, strays, epochs = contents
    others = len(gone) + len(strays) + len(epochs)
    return sum(map(len, rows)) + ENTRY_BYTES * others + 32 * len(rows)

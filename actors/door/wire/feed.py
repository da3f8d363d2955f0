"""Subscriptions and the frames of feeds, as messages, and back."""

from __future__ import annotations

from typing import Any

from tierledger.actors.calls import FOLLOWER, LEADER
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.wire.segments import claim_message, claim_of, key_message, key_of
from tierledger.actors.feed.frames import (
    Change,
    Checksum,
    Contents,
    EpochNumbers,
    FeedFenced,
    FeedReady,
    Frame,
    Hash,
    Head,
    OtherHistory,
    Slice,
    SnapshotBegun,
    Strays,
    Subscription,
)
from tierledger.events.commands import Claim
from tierledger.events.errors import InvalidArgument
from tierledger.events.typed_fields import Count, Id, checked

_ROLES = {LEADER: pb.LEADER, FOLLOWER: pb.FOLLOWER}
_ROLE_NAMES = {number: name for name, number in _ROLES.items()}


# Subscriptions.


def subscribe_message(number: int, subscription: Subscription) -> pb.Subscribe:
    """The message for a subscription, with id `number`."""
    held = subscription.position if subscription.position >= 0 else None
    return pb.Subscribe(
        id=number,
        partition=key_message(subscription.key),
        role=_ROLES[subscription.role],
        position=held,
        chain_hash=subscription.chain_hash or b"",
        floor=subscription.floor if subscription.floor >= 0 else None,
        claim=None if subscription.claim is None else claim_message(subscription.claim),
        head_only=subscription.head_only,
        without_rows=subscription.without_rows,
    )


def subscription_of(message: pb.Subscribe) -> Subscription:
    """The subscription in a message.

    Raises:
        InvalidArgument: A field is wrong; the message names it.
    """
    role = _ROLE_NAMES.get(message.role)
    if role is None:
        raise InvalidArgument(f"expected LEADER or FOLLOWER for role, got {message.role}")
    if message.head_only:
        if role != LEADER:
            raise InvalidArgument(f"expected LEADER for role beside head_only, got {role}")
        return Subscription(key_of(message.partition), role, head_only=True)
    position, chain_hash = -1, None
    if message.HasField("position"):
        position = checked(Count, message.position, "position")
        chain_hash = checked(Hash, message.chain_hash, "chain_hash")
    elif message.chain_hash:
        raise InvalidArgument("expected a position beside chain_hash, got none")
    elif message.without_rows:
        raise InvalidArgument("expected a position beside without_rows, got none")
    floor = checked(Count, message.floor, "floor") if message.HasField("floor") else -1
    return Subscription(
        key_of(message.partition),
        role,
        position,
        chain_hash,
        floor,
        claim_in(message),
        message.without_rows,
    )


def expect_message(number: int, claim: Claim | None) -> pb.Expect:
    return pb.Expect(id=number, claim=None if claim is None else claim_message(claim))


def claim_in(message: pb.Subscribe | pb.Expect) -> Claim | None:
    """The claim for which a replica waits to be ready; None if it waits for none."""
    return claim_of(message.claim) if message.HasField("claim") else None


# Frames.


def put_frame(frame: Frame | Head, into: pb.Fed) -> None:
    """Write `frame` into the message `into`."""
    match frame:
        case SnapshotBegun():
            _put_head(frame, into.snapshot)
        case Slice():
            one = into.slice
            one.position, one.number, one.is_last = frame.position, frame.number, frame.is_last
            _put_contents(frame.contents, one.contents)
        case Change():
            change = into.change
            change.after, change.number, change.is_last = (
                frame.after,
                frame.number,
                frame.is_last,
            )
            _put_head(frame, change)
            _put_contents(frame.contents, change.contents)
        case FeedReady(claim=claim, position=position):
            into.ready.CopyFrom(pb.FeedReady(claim=claim_message(claim), position=position))
        case FeedFenced(claim=claim):
            into.fenced.CopyFrom(pb.FeedFenced(claim=claim_message(claim)))
        case OtherHistory(position=position):
            into.other_history.CopyFrom(pb.OtherHistory(position=position))
        case Head(position=position):
            into.head.CopyFrom(pb.Head(position=position))


def _put_head(frame: SnapshotBegun | Change, into: pb.SnapshotBegun | pb.Change) -> None:
    into.position = frame.position
    into.chain_hash = frame.chain_hash
    into.checksum = frame.checksum
    if frame.delete_state is not None:
        into.deletion = _DELETIONS[frame.delete_state]


_DELETIONS = {
    0: pb.DELETE_PARTITION_MARKED,
    1: pb.DELETE_PARTITION_STARTED,
    2: pb.DELETE_PARTITION_FINISHED,
}
_DELETE_STATES = {message: state for state, message in _DELETIONS.items()}


def _put_contents(contents: Contents, into: pb.Contents) -> None:
    into.SetInParent()
    into.rows.extend(contents.rows)
    into.gone.extend(contents.gone)
    for segment_id, epochs in contents.strays:
        into.strays.add(segment_id=segment_id, epochs=epochs)
    for epoch, highest, size in contents.epochs:
        into.epochs.add(epoch=epoch, highest=highest, size=size)


def frame_of(message: pb.Fed) -> Frame:
    """The frame in a message; not for the end of a subscription.

    Raises:
        InvalidArgument: The message has no frame, or a field is wrong.
    """
    match message.WhichOneof("what"):
        case "snapshot":
            return SnapshotBegun(*_head_of(message.snapshot))
        case "slice":
            part = message.slice
            number = checked(Count, part.number, "number")
            return Slice(part.position, number, _contents_of(part.contents), part.is_last)
        case "change":
            change = message.change
            position, *head = _head_of(change)
            number = checked(Count, change.number, "number")
            contents = _contents_of(change.contents)
            return Change(change.after, position, number, contents, change.is_last, *head)
        case "ready":
            return FeedReady(claim_of(message.ready.claim), message.ready.position)
        case "fenced":
            return FeedFenced(claim_of(message.fenced.claim))
        case "other_history":
            return OtherHistory(message.other_history.position)
        case other:
            raise InvalidArgument(f"expected a frame for a replica, got {other}")


def _head_of(message: pb.SnapshotBegun | pb.Change) -> tuple[Any, ...]:
    delete_state = None
    if message.HasField("deletion"):
        delete_state = _DELETE_STATES.get(message.deletion)
        if delete_state is None:
            raise InvalidArgument(f"expected 1 to 3 for deletion, got {message.deletion}")
    return (
        message.position,
        checked(Hash, message.chain_hash, "chain_hash"),
        delete_state,
        checked(Checksum, message.checksum, "checksum"),
    )


def _contents_of(message: pb.Contents) -> Contents:
    # The replica itself checks rows and the order of positions.
    return Contents(
        tuple(message.rows),
        tuple(checked(Id, one, "gone") for one in message.gone),
        tuple(
            Strays(checked(Id, one.segment_id, "strays.segment_id"), tuple(one.epochs))
            for one in message.strays
        ),
        tuple(
            EpochNumbers(one.epoch, one.highest if one.HasField("highest") else None, one.size)
            for one in message.epochs
        ),
    )

"""Bytes that resemble calls become a call or a refusal, and nothing else."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from tierledger.actors.calls import refusal_of
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.wire.answers import result_of
from tierledger.actors.door.wire.calls import call_of
from tierledger.actors.door.wire.coordination import announcement_of, register_of
from tierledger.actors.door.wire.feed import frame_of, subscription_of
from tierledger.actors.feed.frames import Subscription
from tierledger.events.errors import InvalidArgument, MetadataParseError
from tierledger.events.typed_fields import checked

VECTORS = Path(__file__).parent / "vectors"
CALLS = [
    bytes.fromhex(path.read_text())
    for pattern in ("call-*.hex", "announce.hex", "register.hex")
    for path in sorted(VECTORS.glob(pattern))
]
FED = [bytes.fromhex(path.read_text()) for path in sorted(VECTORS.glob("fed-*.hex"))]
SUBSCRIPTIONS = [
    bytes.fromhex(path.read_text()) for path in sorted(VECTORS.glob("subscribe*.hex"))
]
ANSWERS = [bytes.fromhex(path.read_text()) for path in sorted(VECTORS.glob("answer-*.hex"))]


@st.composite
def damaged(draw: st.DrawFn, whole: list[bytes]) -> bytes:
    """One of the messages with some of its bytes replaced, left out, or doubled."""
    data = bytearray(draw(st.sampled_from(whole)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        data[at : at + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(data)


@given(damaged(CALLS))
def test_damaged_calls_are_refused_or_well_formed(data: bytes) -> None:
    try:
        call = call_of(pb.Call.FromString(data))
    except (DecodeError, InvalidArgument, MetadataParseError):
        return
    assert call is None or refusal_of(call) is None


@given(damaged(CALLS))
def test_damaged_messages_to_the_coordinator_are_refused_or_well_formed(data: bytes) -> None:
    messages: list[tuple[Any, Any]] = [
        (pb.Announce, announcement_of),
        (pb.Register, register_of),
    ]
    for kind, taken in messages:
        try:
            taken(kind.FromString(data))
        except (DecodeError, InvalidArgument):
            continue


@given(damaged(FED))
def test_damaged_messages_of_a_feed_are_frames_or_refused(data: bytes) -> None:
    with suppress(DecodeError, InvalidArgument):
        frame_of(pb.Fed.FromString(data))


@given(damaged(SUBSCRIPTIONS))
def test_damaged_subscriptions_are_refused_or_well_formed(data: bytes) -> None:
    try:
        subscription = subscription_of(pb.Subscribe.FromString(data))
    except (DecodeError, InvalidArgument):
        return
    assert checked(Subscription, subscription, "subscription") == subscription


@given(damaged(ANSWERS))
def test_damaged_answers_are_answers_or_none(data: bytes) -> None:
    try:
        answer = pb.Answer.FromString(data)
    except DecodeError:
        return
    result_of(answer)

"""One message of each kind, with every field set, and the objects that known ones become."""

from collections.abc import Callable
from typing import Any, NamedTuple

from google.protobuf.message import Message

from tests.models.actors.local_world import moved, partition, segment
from tierledger.actors.calls import (
    FOLLOWER,
    LEADER,
    STORAGE,
    Answered,
    Call,
    CommandCall,
    PageCall,
    PartitionKey,
    QueryCall,
    ReadyCall,
)
from tierledger.actors.coordinator.attendance import (
    Attend,
    Attended,
    Difference,
    MoveReport,
    ShadowReport,
)
from tierledger.actors.coordinator.events import Announcement, Owner, Registered, Route
from tierledger.actors.coordinator.holding import PlaceHold, ReleaseHold
from tierledger.actors.coordinator.ownership import Handover, Ownership, PluginMode
from tierledger.actors.coordinator.purge_requests import (
    CleanUp,
    NextPurge,
    ReleaseKept,
    ToPurge,
)
from tierledger.actors.coordinator.replacing import (
    LeaveNode,
    Replacement,
    ReplacementStep,
    ReplaceProcess,
)
from tierledger.actors.coordinator.requests import RegisterCall
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.wire import coordination
from tierledger.actors.door.wire.answers import put_result, result_of
from tierledger.actors.door.wire.calls import call_of, put_call
from tierledger.actors.door.wire.failures import failure_message
from tierledger.actors.door.wire.feed import (
    expect_message,
    frame_of,
    put_frame,
    subscribe_message,
    subscription_of,
)
from tierledger.actors.door.wire.segments import claim_message, claim_of
from tierledger.actors.feed.frames import (
    Change,
    Contents,
    EpochNumbers,
    FeedFenced,
    FeedReady,
    Frame,
    Head,
    OtherHistory,
    Slice,
    SnapshotBegun,
    Strays,
    Subscription,
)
from tierledger.actors.holds import Hold
from tierledger.actors.messages import Query
from tierledger.events import commands as cmd
from tierledger.events import log_events as log
from tierledger.events.errors import Fenced, NotAuthorized, NotLeader
from tierledger.events.kafka.codec import KafkaRecord
from tierledger.events.lifecycle import (
    DeletionCause,
    RemoteLogSegmentState,
    RemotePartitionDeleteState,
)
from tierledger.events.log_events import Origin
from tierledger.events.metadata import RemotePartitionDeleteMetadata
from tierledger.events.partition.answers import PartitionSummary
from tierledger.events.partition.evolve import started_fields
from tierledger.events.tables.segment_rows import pack_row

TIP = partition(3)
KEY = PartitionKey.of(TIP)
ID = bytes(TIP.topic_id)
CLAIM = cmd.Claim(7, 2, 5)
ORIGIN = Origin(7, b"request-0001")
DEADLINE_MS = 2500

CALLS: dict[str, Call] = {
    "call-write-add": CommandCall(
        KEY,
        cmd.AddSegment(CLAIM, ORIGIN, segment(4, TIP, size=-1, epoch=-1)),
    ),
    "call-write-update": CommandCall(
        KEY,
        cmd.UpdateSegment(CLAIM, ORIGIN, moved(segment(4, TIP), custom=b"")),
    ),
    "call-write-update-guarded": CommandCall(
        KEY,
        cmd.UpdateSegment(
            CLAIM, ORIGIN, moved(segment(4, TIP), custom=b""), DeletionCause.RETENTION
        ),
    ),
    "call-write-delete": CommandCall(
        KEY,
        cmd.PutPartitionDelete(
            CLAIM,
            ORIGIN,
            RemotePartitionDeleteMetadata(
                TIP, RemotePartitionDeleteState.DELETE_PARTITION_MARKED, 8, 7
            ),
        ),
    ),
    "call-write-import": CommandCall(
        KEY,
        cmd.ImportRecords(
            CLAIM, (cmd.ImportedRecord(11, 12, 13, KafkaRecord(segment(4, TIP))),)
        ),
    ),
    "call-question": QueryCall(KEY, FOLLOWER, Query("lookup", 1, 15), 6, DEADLINE_MS),
    "call-question-at-any-position": QueryCall(
        KEY, STORAGE, Query("list_epoch", -1, 0), -1, DEADLINE_MS
    ),
    "call-ready": ReadyCall(KEY, LEADER, CLAIM),
    "call-next-page": PageCall("host-0/1/aa/9"),
}

ANSWERS: dict[str, object] = {
    "answer-written": 41,
    "answer-ready": True,
    "answer-found-nothing": Answered(None, 41),
    "answer-found-row": Answered(b"\x93row", 41, None, True),
    "answer-found-number": Answered(0, 0),
    "answer-found-rows": Answered([b"one", b""], 41, "host-0/1/aa/9"),
    "answer-found-no-rows": Answered([], 41),
    "answer-found-summary": Answered(
        tuple(PartitionSummary((1, 2, 0), (10, 20, 0), (-1, 4), 0)), 41
    ),
    "answer-found-summary-of-no-deletion": Answered(
        tuple(PartitionSummary((0, 0, 0), (0, 0, 0), (), None)), 41
    ),
}

SUBSCRIPTIONS = {
    "subscribe": Subscription(KEY, LEADER, 41, b"chain-hash", 43, CLAIM),
    "subscribe-from-nothing": Subscription(KEY, FOLLOWER),
    "subscribe-from-the-first-position": Subscription(KEY, FOLLOWER, 0, b"x", 0),
    "subscribe-from-memory": Subscription(KEY, LEADER, 41, b"chain-hash", without_rows=True),
    "subscribe-to-the-head": Subscription(KEY, LEADER, head_only=True),
}

CONTENTS = Contents(
    (b"\x93row", b""),
    (ID,),
    (Strays(ID, (-1, 4)),),
    (EpochNumbers(-1, None, 0), EpochNumbers(4, 0, 7)),
)
FRAMES: dict[str, Frame] = {
    "fed-snapshot": SnapshotBegun(41, b"chain-hash", None, bytes(range(16))),
    "fed-snapshot-of-a-deletion": SnapshotBegun(0, b"x", 0, bytes(16)),
    "fed-slice": Slice(41, 2, CONTENTS, True),
    "fed-slice-of-nothing": Slice(41, 0, Contents(), False),
    "fed-change": Change(41, 43, 1, CONTENTS, True, b"chain-hash", 2, bytes(range(16))),
    "fed-change-of-no-row": Change(-1, 0, 0, Contents(), False, b"x", None, bytes(16)),
    "fed-ready": FeedReady(CLAIM, 43),
    "fed-fenced": FeedFenced(CLAIM),
    "fed-other-history": OtherHistory(43),
}

ANNOUNCEMENT = Announcement(
    7,
    2,
    5,
    ((ID, 3, "orders", 4, 1_700_000_000_000), (ID, 4, "orders", None, None)),
    ((ID, 5, "orders"),),
    ((ID, 6, "orders"),),
    "cluster-0",
)
ROUTE = Route(True, "host-1/3", "host-0/1", CLAIM, "orders", (cmd.Claim(8, 1, 1),))
REGISTER = RegisterCall(7, b"client-1", 1, PluginMode.HANDOVER)
MOVING = Handover(Owner.MOVING, Owner.KAFKA, Owner.TIERLEDGER, 0, 5000)
ACCEPTING = MOVING._replace(accepted=(bytes(range(16)), bytes(16)))
MOVED = Handover(Owner.TIERLEDGER, Owner.MOVING, None, 3)
OWNERSHIP = Ownership(3, "moving", "kafka", "tierledger")
SHADOW = ShadowReport(
    1000,
    2,
    (
        Difference(KEY, "orders", "lookup", 4, 100, 41, (ID,), (), None, None, "size"),
        Difference(KEY, "orders", "highest_offset", 0, 0, -1, (), (), -1, 99, ""),
    ),
)
GONE = Difference(KEY, "orders", "list", 0, 0, 41, (), (), None, None, "")
VERIFIED = ShadowReport(1000, 2, (), (GONE,), 1, 997, 60_000)
TOLD = MoveReport(
    "tierledger", "comparing", 2, 3, 1500, 2, ("one", "another"), "brokers 2 are not idle", "no"
)
ATTEND = Attend(7, 2, PluginMode.SHADOW, 3, True)
GUARDED = ATTEND._replace(ran_ms=5_000, is_guarded=True)
TIMED = GUARDED._replace(clock_ms=1_700_000_000_000, release="0.1.0")
REMEMBERS = ATTEND._replace(
    positions=34, seen_epoch=5, seen_reads="tierledger", other_logs=((ID, 3, "orders"),)
)
DOORS = {"host-1/3": "[::1]:4712", "host-0/1": "127.0.0.1:4711"}


class Domain(NamedTuple):
    """An object, the message that it becomes, and the way back."""

    value: object
    made: Callable[[], Message]
    taken: Callable[[Any], object]


def _call(call: Call) -> Callable[[], Message]:
    def made() -> Message:
        message = pb.Call(id=9, deadline_ms=DEADLINE_MS, host="host-1/3")
        put_call(call, message)
        return message

    return made


def _answer(result: object) -> Callable[[], Message]:
    def made() -> Message:
        message = pb.Answer(id=9, better_door="127.0.0.1:4711")
        put_result(result, message)
        return message

    return made


def _fed(frame: Frame) -> Callable[[], Message]:
    def made() -> Message:
        message = pb.Fed(id=9)
        put_frame(frame, message)
        return message

    return made


def _subscribed(subscription: Subscription) -> Callable[[], Message]:
    return lambda: subscribe_message(9, subscription)


PLACED = PlaceHold(
    Hold(
        "audit-2026",
        "orders-*",
        topic_id=bytes(range(16)),
        partition=3,
        first_offset=0,
        last_offset=4711,
        after_ms=1_700_000_000_000,
        before_ms=1_800_000_000_000,
        until_ms=1_900_000_000_000,
        reason="the audit reads it",
        by="somebody",
    )
)

PURGE = NextPurge(7, (KEY, ID))
TO_PURGE = ToPurge(TIP, b"row")
RELEASED = ReleaseKept(TIP, (ID, bytes(16)), "somebody", "it was DeleteRecords")
ROW = pack_row(started_fields(log.added_body(segment(4, TIP))))
CLEANED = CleanUp(
    TIP,
    cmd.EndSegments(
        Origin(-1, None),
        RemoteLogSegmentState.DELETE_SEGMENT_STARTED,
        (ROW,),
        1_700_000_000_000,
        cmd.Keep(1_800_000_000_000, "it was cleaned up"),
        DeletionCause.TOPIC,
    ),
    "somebody",
)
TERM = PlaceHold(Hold("week", "*", reason="undo", by="somebody", term_ms=604_800_000, cause=2))

REPLACE = ReplaceProcess("host-1", "host-1/2/a")
LEAVE = LeaveNode("host-1", "host-1/2/a")
REPLACEMENT = Replacement(ReplacementStep.MOVING, 14)

OBJECTS: dict[str, Domain] = {
    **{name: Domain(one, _fed(one), frame_of) for name, one in FRAMES.items()},
    **{
        name: Domain(one, _subscribed(one), subscription_of)
        for name, one in SUBSCRIPTIONS.items()
    },
    **{name: Domain(one, _call(one), call_of) for name, one in CALLS.items()},
    **{name: Domain(one, _answer(one), result_of) for name, one in ANSWERS.items()},
    "announce": Domain(
        ANNOUNCEMENT,
        lambda: coordination.announce_message(ANNOUNCEMENT),
        coordination.announcement_of,
    ),
    "register": Domain(
        RegisterCall(7, b"client-1", 1),
        lambda: pb.Register(broker_id=7, request=b"client-1", after=1),
        coordination.register_of,
    ),
    "register-plugin": Domain(
        RegisterCall(7, b"client-1", 1, PluginMode.TIERLEDGER),
        lambda: pb.Register(broker_id=7, request=b"client-1", after=1, is_plugin=True),
        coordination.register_of,
    ),
    "register-in-a-mode": Domain(
        REGISTER, lambda: coordination.register_message(REGISTER), coordination.register_of
    ),
    "place-hold": Domain(
        PLACED, lambda: coordination.place_hold_message(PLACED), coordination.place_hold_of
    ),
    "place-hold-with-a-term": Domain(
        TERM, lambda: coordination.place_hold_message(TERM), coordination.place_hold_of
    ),
    "purge": Domain(PURGE, lambda: coordination.purge_message(PURGE), coordination.purge_of),
    "release-kept": Domain(
        RELEASED,
        lambda: coordination.release_kept_message(RELEASED),
        coordination.release_kept_of,
    ),
    "clean-up": Domain(
        CLEANED, lambda: coordination.clean_up_message(CLEANED), coordination.clean_up_of
    ),
    "replace-process": Domain(
        REPLACE,
        lambda: pb.ReplaceProcess(host="host-1", process="host-1/2/a"),
        coordination.replace_process_of,
    ),
    "leave-node": Domain(
        LEAVE,
        lambda: pb.ReplaceProcess(host="host-1", process="host-1/2/a", leaves_node=True),
        coordination.replace_process_of,
    ),
    "replacement": Domain(
        REPLACEMENT,
        lambda: coordination.replacement_message(REPLACEMENT),
        coordination.replacement_of,
    ),
    "to-purge": Domain(
        TO_PURGE, lambda: coordination.to_purge_message(TO_PURGE), coordination.to_purge_of
    ),
    "release-hold": Domain(
        ReleaseHold("audit-2026", "somebody", "it is over"),
        lambda: pb.ReleaseHold(name="audit-2026", by="somebody", reason="it is over"),
        coordination.release_hold_of,
    ),
    "hand-over-moving": Domain(
        MOVING, lambda: coordination.handover_message(MOVING), coordination.handover_of
    ),
    "hand-over-moving-and-accepting": Domain(
        ACCEPTING,
        lambda: coordination.handover_message(ACCEPTING),
        coordination.handover_of,
    ),
    "hand-over-moved": Domain(
        MOVED, lambda: coordination.handover_message(MOVED), coordination.handover_of
    ),
    "tell-move": Domain(
        TOLD, lambda: coordination.tell_move_message(TOLD), coordination.tell_move_of
    ),
    "tell-move-begun": Domain(
        MoveReport("kafka", "new"),
        lambda: coordination.tell_move_message(MoveReport("kafka", "new")),
        coordination.tell_move_of,
    ),
    "attend": Domain(
        ATTEND, lambda: coordination.attend_message(ATTEND), coordination.attend_of
    ),
    "attend-in-shadow": Domain(
        ATTEND._replace(shadow=SHADOW),
        lambda: coordination.attend_message(ATTEND._replace(shadow=SHADOW)),
        coordination.attend_of,
    ),
    "attend-guarded": Domain(
        GUARDED, lambda: coordination.attend_message(GUARDED), coordination.attend_of
    ),
    "attend-timed": Domain(
        TIMED, lambda: coordination.attend_message(TIMED), coordination.attend_of
    ),
    "attend-remembering": Domain(
        REMEMBERS, lambda: coordination.attend_message(REMEMBERS), coordination.attend_of
    ),
    "ownership": Domain(
        Attended(OWNERSHIP, None),
        lambda: coordination.attended_message(Attended(OWNERSHIP, None), PluginMode.TIERLEDGER),
        coordination.attended_of,
    ),
    "ownership-and-import": Domain(
        Attended(OWNERSHIP, 12),
        lambda: coordination.attended_message(Attended(OWNERSHIP, 12), PluginMode.SHADOW),
        coordination.attended_of,
    ),
    "ownership-of-a-move-that-accepts": Domain(
        Attended(OWNERSHIP, 12, ACCEPTING.accepted),
        lambda: coordination.attended_message(
            Attended(OWNERSHIP, 12, ACCEPTING.accepted), PluginMode.HANDOVER
        ),
        coordination.attended_of,
    ),
    "ownership-for-handover": Domain(
        Attended(OWNERSHIP, None),
        lambda: coordination.attended_message(Attended(OWNERSHIP, None), PluginMode.HANDOVER),
        coordination.attended_of,
    ),
    "shadow-report": Domain(
        SHADOW, lambda: coordination.shadow_message(SHADOW), coordination.shadow_of
    ),
    "shadow-verified": Domain(
        VERIFIED, lambda: coordination.shadow_message(VERIFIED), coordination.shadow_of
    ),
    "registered": Domain(
        Registered(2, True),
        lambda: coordination.registered_message(Registered(2, True)),
        coordination.registered_of,
    ),
    "route": Domain(
        ROUTE, lambda: coordination.route_message(ROUTE, DOORS), coordination.route_of
    ),
    "claim": Domain(CLAIM, lambda: claim_message(CLAIM), claim_of),
}

FAILURE = failure_message(Fenced("a newer announcement leads"))
ENDED = pb.FeedEnded(
    failure=failure_message(NotLeader("this host has no leader of it")),
    better_door="[::1]:4712",
)
NOT_ALLOWED = failure_message(NotAuthorized("broker:3 may not write for broker 5"))

PARTITION = pb.Partition(topic_id=ID, partition=3, topic="orders")
HOST = pb.Host(address="host-1/3", door="[::1]:4712")


def _embedded(name: str, *path: str) -> Message:
    message: Any = OBJECTS[name].made()
    for one in path:
        message = getattr(message, one)
        message = message[0] if hasattr(message, "__getitem__") else message
    found: Message = message
    return found


def _head(position: int) -> pb.Fed:
    fed = pb.Fed(id=9)
    put_frame(Head(position), fed)
    return fed


def messages() -> dict[str, Message]:
    """By the name of their vector."""
    return {
        **{name: one.made() for name, one in OBJECTS.items()},
        "client-frame": pb.ClientFrame(
            greeting=pb.ClientGreeting(version_min=1), calls=[pb.Call(id=1)], cancelled=[2, 300]
        ),
        "host-frame": pb.HostFrame(
            greeting=pb.HostGreeting(version=1),
            answers=[pb.Answer(id=1)],
            farewell=FAILURE,
        ),
        "client-frame-of-a-feed": pb.ClientFrame(
            subscribed=[pb.Subscribe(id=1)], expected=[pb.Expect(id=1)], unsubscribed=[2, 300]
        ),
        "host-frame-of-a-feed": pb.HostFrame(fed=[pb.Fed(id=1)]),
        "expect": expect_message(9, CLAIM),
        "expect-nothing": expect_message(9, None),
        "fed-ended": pb.Fed(id=9, ended=ENDED),
        "fed-head": _head(43),
        "fed-head-of-an-empty-log": _head(-1),
        "head": _head(43).head,
        "feed-ended": ENDED,
        "contents": _embedded("fed-slice", "slice", "contents"),
        "strays": _embedded("fed-slice", "slice", "contents", "strays"),
        "epoch-numbers": _embedded("fed-slice", "slice", "contents", "epochs"),
        "snapshot-begun": _embedded("fed-snapshot", "snapshot"),
        "slice": _embedded("fed-slice", "slice"),
        "change": _embedded("fed-change", "change"),
        "feed-ready": _embedded("fed-ready", "ready"),
        "feed-fenced": _embedded("fed-fenced", "fenced"),
        "other-history": _embedded("fed-other-history", "other_history"),
        "client-greeting": pb.ClientGreeting(
            version_min=1,
            version_max=2,
            cluster_id="cluster-1",
            broker_id=0,
            software="kafka-plugin 1.0",
        ),
        "host-greeting": pb.HostGreeting(
            version=1,
            cluster_id="cluster-1",
            host="host-1/3",
            software="tierledger 0.1.0",
            frame_bytes_max=16_777_216,
            calls_max=4096,
        ),
        "failure": FAILURE,
        "failure-not-authorized": NOT_ALLOWED,
        "failure-of-a-call": pb.Failure(
            kind=pb.NOT_READY, message="later", fate=pb.RETRYABLE, request_id=bytes(range(16))
        ),
        "call-of-a-trace": pb.Call(
            id=9,
            traceparent=f"00-{'0a' * 16}-{'0b' * 8}-01",
            next_page=pb.NextPage(cursor="host-0/1/aa/9"),
        ),
        "call-with-an-id": pb.Call(
            id=9, request_id=bytes(range(16)), next_page=pb.NextPage(cursor="host-0/1/aa/9")
        ),
        "partition": PARTITION,
        "host": HOST,
        "write": _embedded("call-write-add", "write"),
        "written": _embedded("answer-written", "written"),
        "add-segment": pb.AddSegment(
            segment_id=ID,
            start_offset=0,
            end_offset=2**63 - 1,
            max_timestamp_ms=-1,
            broker_id=-1,
            event_timestamp_ms=5,
            segment_size_in_bytes=2**31 - 1,
            segment_leader_epochs=[
                pb.EpochStart(epoch=0, offset=0),
                pb.EpochStart(epoch=2, offset=7),
            ],
            custom_metadata=b"\x00\xff",
            txn_index_empty=True,
        ),
        "epoch-start": pb.EpochStart(epoch=-1, offset=-1),
        "update-segment": _embedded("call-write-update", "write", "update"),
        "delete-partition": _embedded("call-write-delete", "write", "delete"),
        "import-records": _embedded("call-write-import", "write", "import_records"),
        "imported-record": _embedded("call-write-import", "write", "import_records", "records"),
        "question": _embedded("call-question", "question"),
        "ready-question": _embedded("call-ready", "ready"),
        "next-page": _embedded("call-next-page", "next_page"),
        "found": _embedded("answer-found-row", "found"),
        "rows": _embedded("answer-found-rows", "found", "rows"),
        "summary": _embedded("answer-found-summary", "found", "summary"),
        "ready": _embedded("answer-ready", "ready"),
        "led-partition": _embedded("announce", "leaders"),
        "announced": pb.Announced(claims=[claim_message(CLAIM)]),
        "route-question": pb.RouteQuestion(partitions=[PARTITION]),
        "routes": pb.Routes(routes=[coordination.route_message(ROUTE, DOORS)]),
        "hosts-question": pb.HostsQuestion(),
        "hosts": pb.Hosts(hosts=[HOST]),
        "status-question": pb.StatusQuestion(of=pb.StatusQuestion.PARTITIONS),
        "status": pb.Status(json='{"position": 4}'),
        "hand-over": pb.HandOver(to="tierledger", of="nobody"),
        "owned": pb.Owned(owner="tierledger"),
        "owned-in-an-epoch": pb.Owned(owner="tierledger", owner_epoch=3),
        "difference": _embedded("shadow-report", "differences"),
        "call-attend": pb.Call(id=9, attend=pb.Attend(broker_id=7)),
        "answer-ownership": pb.Answer(id=9, ownership=pb.Ownership(epoch=3)),
        "call-place-hold": pb.Call(id=9, place_hold=pb.PlaceHold(name="audit", topic="a*")),
        "call-release-hold": pb.Call(id=9, release_hold=pb.ReleaseHold(name="audit")),
        "kept-released": pb.KeptReleased(),
        "call-release-kept": pb.Call(id=9, release_kept=pb.ReleaseKept(segment_ids=[ID])),
        "answer-kept-released": pb.Answer(id=9, kept_released=pb.KeptReleased()),
        "cleaned-up": pb.CleanedUp(rows=[ROW]),
        "call-replace-process": pb.Call(id=9, replace_process=pb.ReplaceProcess(host="host-1")),
        "answer-replacement": pb.Answer(id=9, replacement=pb.Replacement()),
        "call-clean-up": pb.Call(id=9, clean_up=pb.CleanUp(partition=PARTITION)),
        "answer-cleaned-up": pb.Answer(id=9, cleaned_up=pb.CleanedUp()),
        "call-purge": pb.Call(id=9, purge=pb.Purge(broker_id=7)),
        "answer-to-purge": pb.Answer(id=9, to_purge=pb.ToPurge()),
        "hold-told": pb.HoldTold(late=[PARTITION]),
        "answer-hold-told": pb.Answer(id=9, hold_told=pb.HoldTold()),
        "call-tell-move": pb.Call(id=9, tell_move=pb.TellMove(to="kafka")),
        "answer-move-told": pb.Answer(id=9, move_told=pb.MoveTold()),
        "move-told": pb.MoveTold(),
        "call-hand-over": pb.Call(id=9, hand_over=pb.HandOver(to="tierledger")),
        "answer-owned": pb.Answer(id=9, owned=pb.Owned(owner="tierledger")),
        "call-register": pb.Call(id=9, register=pb.Register(broker_id=7)),
        "call-announce": pb.Call(id=9, announce=pb.Announce(broker_id=7)),
        "call-route": pb.Call(id=9, route=pb.RouteQuestion(partitions=[PARTITION])),
        "call-hosts": pb.Call(id=9, hosts=pb.HostsQuestion()),
        "call-status": pb.Call(id=9, status=pb.StatusQuestion(of=pb.StatusQuestion.HOST)),
        "answer-failure": pb.Answer(id=9, failure=FAILURE),
        "answer-registered": pb.Answer(id=9, registered=pb.Registered(incarnation=2)),
        "answer-announced": pb.Answer(id=9, announced=pb.Announced()),
        "answer-routes": pb.Answer(id=9, routes=pb.Routes()),
        "answer-hosts": pb.Answer(id=9, hosts=pb.Hosts(hosts=[HOST])),
        "answer-status": pb.Answer(id=9, status=pb.Status(json="[]")),
    }

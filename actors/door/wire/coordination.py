"""Requests to the coordinator and its answers, as messages, and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from tierledger.actors.calls import PartitionKey
from tierledger.actors.coordinator.attendance import (
    DIFFERENCES_KEPT,
    Attend,
    Attended,
    Difference,
    MoveReport,
    ShadowReport,
)
from tierledger.actors.coordinator.checked_requests import checked_announcement, checked_broker
from tierledger.actors.coordinator.events import Announcement, Item, Owner, Registered, Route
from tierledger.actors.coordinator.holding import PlaceHold, ReleaseHold
from tierledger.actors.coordinator.ownership import (
    GIVE_UP_AFTER_MS,
    Handover,
    Owned,
    Ownership,
    PluginMode,
    decision,
)
from tierledger.actors.coordinator.purge_requests import (
    CLEANED_MAX,
    COMMAND,
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
from tierledger.actors.coordinator.requests import (
    DoorsCall,
    HostsCall,
    RegisterCall,
    RouteCall,
    StatusCall,
)
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.wire.calls import kind_number, kind_of
from tierledger.actors.door.wire.segments import (
    claim_message,
    claim_of,
    key_message,
    key_of,
    partition_message,
    partition_of,
    row_of,
    segment_state_of,
)
from tierledger.actors.holds import Hold, check_hold
from tierledger.events.commands import EndSegments, Keep
from tierledger.events.errors import InvalidArgument
from tierledger.events.lifecycle import DeletionCause
from tierledger.events.log_events import Origin
from tierledger.events.typed_fields import checked, shown

_MODES = {
    pb.MODE_SHADOW: PluginMode.SHADOW,
    pb.MODE_HANDOVER: PluginMode.HANDOVER,
    pb.MODE_TIERLEDGER: PluginMode.TIERLEDGER,
}
_MODE_NUMBERS = {mode: number for number, mode in _MODES.items()}


def _mode_of(number: pb.PluginMode) -> PluginMode:
    if number not in _MODES:
        raise InvalidArgument(f"expected a mode from 1 to {len(_MODES)}, got {number}")
    return _MODES[number]


def register_message(call: RegisterCall) -> pb.Register:
    return pb.Register(
        broker_id=call.broker_id,
        request=call.request,
        after=call.after,
        is_plugin=call.mode is not None,
        mode=None if call.mode is None else _MODE_NUMBERS[call.mode],
    )


def register_of(message: pb.Register) -> RegisterCall:
    """The registration in a message.

    Raises:
        InvalidArgument: A field is wrong.
    """
    mode = _mode_of(message.mode) if message.mode else None
    if message.is_plugin and mode is None:
        mode = PluginMode.TIERLEDGER  # Older plugins have only this mode.
    call: RegisterCall = checked(
        RegisterCall,
        RegisterCall(checked_broker(message.broker_id), message.request, message.after, mode),
        "register",
    )
    return call


def _owner_of(text: str) -> Owner:
    try:
        return Owner(text)
    except ValueError:
        raise InvalidArgument(
            f"expected {' or '.join(Owner)} for an owner, got {shown(text)}"
        ) from None


def handover_message(wish: Handover) -> pb.HandOver:
    return pb.HandOver(
        to=wish.to,
        of=wish.of,
        heading=wish.heading or "",
        owner_epoch=wish.owner_epoch,
        give_up_after_ms=wish.give_up_after_ms,
        accepted=wish.accepted,
    )


def tell_move_message(report: MoveReport) -> pb.TellMove:
    return pb.TellMove(**report._asdict())


def tell_move_of(message: pb.TellMove) -> MoveReport:
    """The report of a move in a message.

    Raises:
        InvalidArgument: A field is wrong.
    """
    has_compared = message.HasField("compared_ms_ago")
    report: MoveReport = checked(
        MoveReport,
        MoveReport(
            message.to,
            message.phase,
            message.owner_epoch,
            message.comparisons,
            message.compared_ms_ago if has_compared else None,
            message.differing,
            tuple(message.differences),
            message.waits,
            message.outcome,
        ),
        "tell_move",
    )
    return report


def handover_of(message: pb.HandOver) -> Handover:
    """The request to change the owner in a message.

    Raises:
        InvalidArgument: A field is wrong.
    """
    wish: Handover = checked(
        Handover,
        Handover(
            _owner_of(message.to),
            _owner_of(message.of),
            _owner_of(message.heading) if message.heading else None,
            message.owner_epoch,
            message.give_up_after_ms or GIVE_UP_AFTER_MS,
            tuple(message.accepted),
        ),
        "hand_over",
    )
    return wish


_OPTIONAL_OF_HOLD = (
    "topic_id",
    "partition",
    "first_offset",
    "last_offset",
    "after_ms",
    "before_ms",
    "until_ms",
    "term_ms",
)


def place_hold_message(wish: PlaceHold) -> pb.PlaceHold:
    return pb.PlaceHold(**wish.hold._asdict())


def place_hold_of(message: pb.PlaceHold) -> PlaceHold:
    """The request to place a hold in a message.

    Raises:
        InvalidArgument: A field is wrong, or they do not fit each other.
    """
    given = {one: getattr(message, one) for one in _OPTIONAL_OF_HOLD if message.HasField(one)}
    hold: Hold = checked(
        Hold,
        Hold(
            message.name,
            message.topic,
            reason=message.reason,
            by=message.by,
            cause=message.cause,
            **given,
        ),
        "hold",
    )
    check_hold(hold)
    return PlaceHold(hold)


def release_hold_of(message: pb.ReleaseHold) -> ReleaseHold:
    """The request to release a hold in a message.

    Raises:
        InvalidArgument: A field is wrong.
    """
    wish: ReleaseHold = checked(
        ReleaseHold, ReleaseHold(message.name, message.by, message.reason), "release_hold"
    )
    return wish


def hold_wish_of(call: pb.Call) -> PlaceHold | ReleaseHold:
    """The request to place or to release a hold in a call; raises as that request's own."""
    if call.HasField("place_hold"):
        return place_hold_of(call.place_hold)
    return release_hold_of(call.release_hold)


def hold_told_message(late: Iterable[PartitionKey]) -> pb.HoldTold:
    return pb.HoldTold(late=map(key_message, late))


def _late_of(message: pb.HoldTold) -> list[PartitionKey]:
    return list(map(key_of, message.late))


def purge_message(wish: NextPurge) -> pb.Purge:
    if wish.done is None:
        return pb.Purge(broker_id=wish.broker_id)
    key, segment_id = wish.done
    return pb.Purge(broker_id=wish.broker_id, partition=key_message(key), segment_id=segment_id)


def purge_of(message: pb.Purge) -> NextPurge:
    """A guarded broker's request for something to purge, in a message.

    Raises:
        InvalidArgument: A field is wrong.
    """
    done = None
    if message.HasField("partition"):
        done = (key_of(message.partition), message.segment_id)
    wish: NextPurge = checked(
        NextPurge, NextPurge(checked_broker(message.broker_id), done), "purge"
    )
    return wish


def to_purge_message(found: ToPurge | None) -> pb.ToPurge:
    if found is None:
        return pb.ToPurge()
    return pb.ToPurge(partition=partition_message(found.topic_id_partition), row=found.row)


def to_purge_of(message: pb.ToPurge) -> ToPurge | None:
    if not message.HasField("partition"):
        return None
    return ToPurge(partition_of(message.partition)[0], message.row)


def release_kept_message(wish: ReleaseKept) -> pb.ReleaseKept:
    return pb.ReleaseKept(
        partition=partition_message(wish.topic_id_partition),
        segment_ids=wish.segment_ids,
        by=wish.by,
        reason=wish.reason,
    )


def release_kept_of(message: pb.ReleaseKept) -> ReleaseKept:
    """An operator's release of kept segments, in a message.

    Raises:
        InvalidArgument: A field is wrong.
    """
    tip, _ = partition_of(message.partition)
    given = ReleaseKept(tip, tuple(message.segment_ids), message.by, message.reason)
    wish: ReleaseKept = checked(ReleaseKept, given, "release_kept")
    return wish


def clean_up_message(wish: CleanUp) -> pb.CleanUp:
    command = wish.command
    message = pb.CleanUp(
        partition=partition_message(wish.topic_id_partition),
        state=command.target + 1,  # type: ignore[arg-type] # Enums travel as numbers.
        rows=command.rows,
        event_timestamp_ms=command.event_timestamp_ms,
        cause=int(command.cause),  # type: ignore[arg-type] # As above.
        by=wish.by,
    )
    if command.keep is not None:
        message.kept_until_ms, message.reason = command.keep
    return message


def clean_up_of(message: pb.CleanUp) -> CleanUp:
    """An operator's wish to end segments that no broker ends, in a message.

    Raises:
        InvalidArgument: A field is wrong.
    """
    tip, _ = partition_of(message.partition)
    if len(message.rows) > CLEANED_MAX:
        raise InvalidArgument(f"expected at most {CLEANED_MAX} rows, got {len(message.rows)}")
    cause = int(message.cause)
    if cause > max(DeletionCause):
        raise InvalidArgument(f"expected a cause from 0 to {max(DeletionCause)}, got {cause}")
    has_end = message.HasField("kept_until_ms")
    command = EndSegments(
        Origin(COMMAND, None),
        segment_state_of(message.state),
        tuple(row_of(tip, row) for row in message.rows),
        message.event_timestamp_ms,
        Keep(message.kept_until_ms, message.reason) if has_end else None,
        DeletionCause(cause),
    )
    wish: CleanUp = checked(CleanUp, CleanUp(tip, command, message.by), "clean_up")
    return wish


def attend_message(attend: Attend) -> pb.Attend:
    return pb.Attend(
        broker_id=attend.broker_id,
        incarnation=attend.incarnation,
        mode=_MODE_NUMBERS[attend.mode],
        owner_epoch=attend.owner_epoch,
        is_idle=attend.is_idle,
        shadow=None if attend.shadow is None else shadow_message(attend.shadow),
        positions=attend.positions,
        seen_epoch=attend.seen_epoch,
        seen_reads=attend.seen_reads,
        other_logs=map(_item_message, attend.other_logs),
        ran_ms=attend.ran_ms,
        is_guarded=attend.is_guarded,
        clock_ms=attend.clock_ms,
        release=attend.release,
    )


def attend_of(message: pb.Attend) -> Attend:
    """A plugin's report in a message.

    Raises:
        InvalidArgument: A field is wrong.
    """
    attend: Attend = checked(
        Attend,
        Attend(
            message.broker_id,
            message.incarnation,
            _mode_of(message.mode),
            message.owner_epoch,
            message.is_idle,
            shadow_of(message.shadow) if message.HasField("shadow") else None,
            message.positions,
            message.seen_epoch,
            message.seen_reads,
            tuple(map(_item, message.other_logs)),
            message.ran_ms,
            message.is_guarded if message.HasField("is_guarded") else None,
            message.clock_ms,
            message.release,
        ),
        "attend",
    )
    return attend


def attended_message(attended: Attended, mode: PluginMode) -> pb.Ownership:
    """The ownership, and by whose manager a broker in `mode` reads then."""
    ownership = attended.ownership
    return pb.Ownership(
        epoch=ownership.epoch,
        owner=ownership.owner,
        source=ownership.source,
        heading=ownership.heading,
        reads=decision(mode, ownership).reads,
        import_rounds=attended.import_rounds,
        accepted=attended.accepted,
    )


def attended_of(message: pb.Ownership) -> Attended:
    ownership = Ownership(message.epoch, message.owner, message.source, message.heading)
    rounds = message.import_rounds if message.HasField("import_rounds") else None
    return Attended(ownership, rounds, tuple(message.accepted))


def shadow_message(report: ShadowReport) -> pb.ShadowReport:
    return pb.ShadowReport(
        equal=report.equal,
        skipped=report.skipped,
        differences=map(_difference_message, report.differences),
        resolved=map(_difference_message, report.resolved),
        standing=report.standing,
        verified=report.verified,
        verified_ms_ago=report.verified_ms_ago,
    )


def _difference_message(one: Difference) -> pb.Difference:
    return pb.Difference(
        partition=pb.Partition(
            topic_id=one.key.topic_id, partition=one.key.partition, topic=one.topic
        ),
        kind=kind_number(one.kind),
        epoch=one.epoch,
        offset=one.offset,
        position=one.position,
        kafka=one.kafka,
        replica=one.replica,
        kafka_number=one.kafka_number,
        replica_number=one.replica_number,
        contents=one.contents,
    )


def shadow_of(message: pb.ShadowReport) -> ShadowReport:
    """The comparisons of a broker in shadow, in a message.

    Raises:
        InvalidArgument: A field is wrong.
    """
    count = max(len(message.differences), len(message.resolved))
    if count > DIFFERENCES_KEPT:
        raise InvalidArgument(f"expected at most {DIFFERENCES_KEPT} differences, got {count}")
    return ShadowReport(
        message.equal,
        message.skipped,
        tuple(map(_difference_of, message.differences)),
        tuple(map(_difference_of, message.resolved)),
        message.standing if message.HasField("standing") else None,
        message.verified if message.HasField("verified") else None,
        message.verified_ms_ago if message.HasField("verified_ms_ago") else None,
    )


def _difference_of(one: pb.Difference) -> Difference:
    return Difference(
        key_of(one.partition),
        one.partition.topic,
        kind_of(one.kind),
        one.epoch,
        one.offset,
        one.position,
        tuple(one.kafka),
        tuple(one.replica),
        one.kafka_number if one.HasField("kafka_number") else None,
        one.replica_number if one.HasField("replica_number") else None,
        one.contents,
    )


def announce_message(announcement: Announcement) -> pb.Announce:
    return pb.Announce(
        broker_id=announcement.broker_id,
        incarnation=announcement.incarnation,
        number=announcement.number,
        leaders=[
            pb.LedPartition(
                partition=_item_message(item[:3]),
                leader_epoch=item[3],
                recorded_time_ms=item[4],
            )
            for item in announcement.leaders
        ],
        followers=map(_item_message, announcement.followers),
        stopped=map(_item_message, announcement.stopped),
        import_cluster=announcement.import_cluster,
    )


def announcement_of(message: pb.Announce) -> Announcement:
    """The announcement in a message.

    Raises:
        InvalidArgument: An item cannot be carried out; the message names it.
    """
    leaders = tuple(
        (
            *_item(one.partition),
            one.leader_epoch if one.HasField("leader_epoch") else None,
            one.recorded_time_ms if one.HasField("recorded_time_ms") else None,
        )
        for one in message.leaders
    )
    return checked_announcement(
        Announcement(
            message.broker_id,
            message.incarnation,
            message.number,
            leaders,
            tuple(map(_item, message.followers)),
            tuple(map(_item, message.stopped)),
            message.import_cluster if message.HasField("import_cluster") else None,
        )
    )


def _item_message(item: Item) -> pb.Partition:
    return pb.Partition(topic_id=item[0], partition=item[1], topic=item[2])


def _item(message: pb.Partition) -> Item:
    return message.topic_id, message.partition, message.topic


def registered_message(registered: Registered) -> pb.Registered:
    return pb.Registered(incarnation=registered.incarnation, is_given=registered.is_given)


def registered_of(message: pb.Registered) -> Registered:
    return Registered(message.incarnation, message.is_given)


def host_message(address: str, doors: Mapping[str, str]) -> pb.Host:
    return pb.Host(address=address, door=doors.get(address, ""))


def route_message(route: Route, doors: Mapping[str, str]) -> pb.Route:
    """The message for a route; `doors`: where hosts listen, by host address."""
    leader, follower = route.leader_host, route.follower_host
    return pb.Route(
        known=route.known,
        leader=None if leader is None else host_message(leader, doors),
        follower=None if follower is None else host_message(follower, doors),
        leader_claim=None if route.leader is None else claim_message(route.leader),
        follower_claims=map(claim_message, route.followers),
        topic=route.topic,
    )


def route_of(message: pb.Route) -> Route:
    return Route(
        message.known,
        message.leader.address if message.HasField("leader") else None,
        message.follower.address if message.HasField("follower") else None,
        claim_of(message.leader_claim) if message.HasField("leader_claim") else None,
        message.topic,
        tuple(map(claim_of, message.follower_claims)),
    )


def _hosts_of(message: pb.Hosts) -> dict[str, str]:
    return {one.address.rpartition("/")[0]: one.address for one in message.hosts}


def _doors_of(message: pb.Hosts) -> dict[str, str]:
    return {one.address: one.door for one in message.hosts if one.door}


def _status_of(message: pb.Status) -> dict[str, Any]:
    status: dict[str, Any] = json.loads(message.json)
    # In JSON all keys are text.
    return {**status, "brokers": {int(key): one for key, one in status["brokers"].items()}}


def replace_process_of(message: pb.ReplaceProcess) -> ReplaceProcess:
    """An operator's wish to replace a process, in a message."""
    kind = LeaveNode if message.leaves_node else ReplaceProcess
    return kind(message.host, message.process)


_STEPS = {step: getattr(pb.Replacement, step.name) for step in ReplacementStep}
_STEP_OF = {number: step for step, number in _STEPS.items()}


def replacement_message(told: Replacement) -> pb.Replacement:
    return pb.Replacement(step=_STEPS[told.step], left=told.left)


def replacement_of(message: pb.Replacement) -> Replacement:
    # A step of a newer release is not the end.
    step = _STEP_OF.get(message.step, ReplacementStep.MOVING)
    return Replacement(step, message.left)


def hosts_in(answer: pb.Answer) -> list[pb.Host]:
    """The hosts that an answer names, with their doors."""
    routed = [one for route in answer.routes.routes for one in (route.leader, route.follower)]
    return [*answer.hosts.hosts, *routed]


class Form(NamedTuple):
    """How a client's request to the coordinator travels, and its answer."""

    ask: str
    """The field of a `Call`."""
    message: Callable[[Any], Any]
    result: str
    """The field of an `Answer`."""
    answer_of: Callable[[Any], Any]


def _hosts_question(_: object) -> pb.HostsQuestion:
    return pb.HostsQuestion()


FORMS: dict[type[Any], Form] = {
    RegisterCall: Form("register", register_message, "registered", registered_of),
    Handover: Form(
        "hand_over", handover_message, "owned", lambda one: Owned(one.owner, one.owner_epoch)
    ),
    MoveReport: Form("tell_move", tell_move_message, "move_told", lambda _: None),
    PlaceHold: Form("place_hold", place_hold_message, "hold_told", _late_of),
    ReleaseHold: Form(
        "release_hold", lambda wish: pb.ReleaseHold(**wish._asdict()), "hold_told", _late_of
    ),
    ReleaseKept: Form("release_kept", release_kept_message, "kept_released", lambda _: None),
    CleanUp: Form("clean_up", clean_up_message, "cleaned_up", lambda one: list(one.rows)),
    ReplaceProcess: Form(
        "replace_process",
        lambda wish: pb.ReplaceProcess(**wish._asdict()),
        "replacement",
        replacement_of,
    ),
    LeaveNode: Form(
        "replace_process",
        lambda wish: pb.ReplaceProcess(**wish._asdict(), leaves_node=True),
        "replacement",
        replacement_of,
    ),
    NextPurge: Form("purge", purge_message, "to_purge", to_purge_of),
    Attend: Form("attend", attend_message, "ownership", attended_of),
    Announcement: Form(
        "announce", announce_message, "announced", lambda one: list(map(claim_of, one.claims))
    ),
    RouteCall: Form(
        "route",
        lambda call: pb.RouteQuestion(partitions=map(key_message, call.keys)),
        "routes",
        lambda one: list(map(route_of, one.routes)),
    ),
    HostsCall: Form("hosts", _hosts_question, "hosts", _hosts_of),
    DoorsCall: Form("hosts", _hosts_question, "hosts", _doors_of),
    StatusCall: Form(
        "status",
        lambda _: pb.StatusQuestion(of=pb.StatusQuestion.SERVICE),
        "status",
        _status_of,
    ),
}

"""The contents of a picture of a world that has run: see `timeline`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, Final, NamedTuple

import msgpack

from tierledger.actors.calls import FOLLOWER, LEADER
from tierledger.actors.coordinator.events import COORDINATOR_CODEC
from tierledger.events.errors import DataError
from tierledger.events.event_codec import PARTITION_CODEC, EventCodec
from tierledger.simulation.checkers.content import content
from tierledger.simulation.checkers.violation import ASKED, Violation
from tierledger.simulation.history.calls import INFO, OK, Operation
from tierledger.simulation.machines.environment.clockwork import S
from tierledger.simulation.machines.environment.medium import COORDINATOR as COORDINATOR_LOG
from tierledger.simulation.machines.environment.medium import FATES
from tierledger.simulation.machines.environment.newer_release import NewerSerDe
from tierledger.simulation.machines.scenario.scenario import SeedDecision
from tierledger.simulation.machines.strikes import KINDS as QUERIES
from tierledger.simulation.machines.strikes import STRIKES, argument_names
from tierledger.simulation.machines.struck import Struck
from tierledger.simulation.timeline import (
    BROKER,
    CALL,
    COORDINATOR,
    CUT_OFF,
    DEAD,
    FOLLOWS,
    HOST,
    LEADS,
    PAUSED,
    STORE,
    Arrow,
    RunLane,
    RunMoment,
    RunTimeline,
    Span,
)

_KINDS: Final = {"coordinator": COORDINATOR, "host": HOST, "store": STORE, "ray": ""}
"""By the first part of a process's name; all others use the service, as brokers do."""

_BEGINS: Final = {"crash": DEAD, "pause": PAUSED, "cut off": CUT_OFF, "follow": FOLLOWS}
_ENDS: Final = {"resume": PAUSED, "unfollow": FOLLOWS}

_OVER: Final = {"gone", "session closed"}
"""Moments that end a session in its lane."""

BOTH: Final = NewerSerDe(writes_newer=False)
"""Reads the formats of all releases."""

CHECKSUM_BYTES: Final = 4
"""Bytes of the checksum that stands before the fields of a stored event."""

_TIME: Final = re.compile(r"([\d,]+\.\d+) ms")
_POSITION: Final = re.compile(r"position (\d+)")
"""Times and positions in a checker's message; the first is where the violation began."""

_OUTCOMES: Final = {OK: "op ok", INFO: "op info"}


def timeline_of(
    world: Struck, *, title: str, command: str, violations: Iterable[Violation]
) -> RunTimeline:
    """The picture of the run of `world`, which was made with `keeps`.

    Each process has a lane of its own, so that a zombie stands beside its successor.
    """
    found = list(violations)
    names = [life.name for life in world.lives]
    lanes = [RunLane(name, _kind(name)) for name in names]
    moments = list(_moments(world))
    lives = _Lives(names, world.clock.now)
    for moment in moments:
        lives.see(moment)
    spans = lives.ended()
    operations = world.recorder.history().operations
    decided = [
        RunMoment(one.at, "", "decision", _decided(one, world.calls_of.get(at, ()), operations))
        for at, one in enumerate(world.scenario.decisions)
    ]
    wrong = [
        RunMoment(
            _when(one, world), "", "violation", violation_text(one), None,
            "" if one.key is None else _key(one.key.partition),
        )
        for one in found
    ]  # fmt: skip
    ends = [end for one in world.recording.arrows for end in (one.source, one.target)]
    lanes += [RunLane(one, _kind(one)) for one in dict.fromkeys(ends) if one not in names]
    return RunTimeline(
        title,
        command,
        lanes,
        [*map(lives.coloured, moments), *_ends(operations), *decided, *wrong],
        list(_arrows(world, spans)),
        [*spans, *_calls(operations, world.clock.now)],
        [one.detail for one in decided],
        [violation_text(one) for one in found],
    )


def _kind(lane: str) -> str:
    return _KINDS.get(re.split("[-/]", lane)[0], BROKER)


def _decided(
    decision: SeedDecision, calls: Iterable[int], operations: Sequence[Operation]
) -> str:
    """A decision as text, with the calls that it made at once."""
    made = [f"call {at} ({operations[at].what} by {operations[at].process})" for at in calls]
    return " -> ".join([decision_text(decision), *([", ".join(made)] if made else [])])


def decision_text(decision: SeedDecision) -> str:
    """A decision as text, with its time and the names of its arguments."""
    if decision.kind not in STRIKES:  # A step of a life.
        return f"{decision.at / S:.0f}  {' '.join([decision.kind, *decision.args])}"
    names = argument_names(decision.kind)
    given = (
        f"{name}={_value_text(decision.kind, name, value)}"
        for name, value in zip_longest(names, decision.args, fillvalue="?")
    )
    return f"{decision.at / 1000:,.3f} ms  {' '.join([decision.kind, *given])}"


_VALUE_TEXTS: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("wire", "fate"): ("lost", "delayed", "sent twice"),
    ("store", "fate"): FATES,
    ("two fates", "first"): FATES,
    ("two fates", "second"): FATES,
    ("bad spell", "loses"): ("no", "yes"),
    ("troubled election", "loses"): ("no", "yes"),
    ("read", "role"): (FOLLOWER, LEADER),
    ("read", "kind"): QUERIES,
    ("depose", "how"): ("killed", "paused", "cut off", "given up"),
    ("elect", "clean"): ("no", "yes"),
    ("restart broker", "kills"): ("no", "yes"),
}
"""By a decision's kind and an argument's name, the texts that its numbers stand for."""


def _value_text(kind: str, name: str, value: object) -> str:
    texts = _VALUE_TEXTS.get((kind, name))
    if texts is not None and isinstance(value, int):
        return texts[value % len(texts)].replace(" ", "-")
    return str(value).replace(" ", "-")


def violation_text(violation: Violation) -> str:
    """A violation as text."""
    key = violation.key
    where = "" if key is None else f"partition {key.partition}: "
    return f"{violation.checker}: {where}{violation.message}"


def _when(violation: Violation, world: Struck) -> int:
    """The time at which the picture shows a violation (us).

    It is the first time in its message. Without one it is the time at which its calls had
    ended, or at which its position became durable. Otherwise, and for questions that were asked
    after the run, it is the run's end.
    """
    if violation.message.startswith(ASKED):
        return world.clock.now
    if found := _TIME.search(violation.message):
        return round(float(found[1].replace(",", "")) * 1000)
    operations = world.recorder.history().operations
    times = [operations[at].completed or operations[at].invoked for at in violation.operations]
    if times:
        return max(times) // 1000
    if found := _POSITION.search(violation.message):
        number = COORDINATOR_LOG if violation.key is None else violation.key.partition
        at = _durable_at(world, number, int(found[1]))
        if at is not None:
            return at
    return world.clock.now


def _durable_at(world: Struck, number: int, position: int) -> int | None:
    """When an event became durable (us), if it did."""
    for batch in range(world.medium.heads.get(number, 0)):
        slot = (number, batch)
        stored = _stored(world, slot)
        if stored is not None and stored[0] <= position < stored[0] + stored[1]:
            return world.medium.durable_at[slot]
    return None


def _stored(world: Struck, slot: tuple[int, int]) -> list[Any] | None:
    """First position, count and events of a batch as it was written."""
    value = world.medium.truth.get(slot)
    if value is None:
        return None
    try:
        return BOTH.deserialize("batch", value)
    except DataError:
        return None


def _batch_text(world: Struck, slot: tuple[int, int]) -> str:
    """A batch as text: its positions and its events."""
    stored = _stored(world, slot)
    if stored is None:
        return ""
    codec = COORDINATOR_CODEC if slot[0] < 0 else PARTITION_CODEC
    first, count, events = stored
    last = f"-{first + count - 1}" if count > 1 else ""
    return f": position {first}{last} " + ", ".join(_event_text(codec, one) for one in events)


def _event_text(codec: EventCodec, stored: bytes) -> str:
    """A stored event as text; it holds the chain hash before it, which decoding needs."""
    position, *_, before, _ = msgpack.unpackb(stored[CHECKSUM_BYTES:], use_list=False)
    (event,), _ = codec.decode([stored], position, before)
    return content((event.body,))


def _key(partition: int | None) -> str:
    return "" if partition is None else f"orders-{partition}"


def _moments(world: Struck) -> Iterator[RunMoment]:
    for time, lane, what, detail, session, partition in world.recording.moments:
        text = detail
        if what == "append" and detail.startswith("batch "):
            slot = (-1 if partition is None else partition, int(detail.split()[1]))
            text = detail + _batch_text(world, slot)
        yield RunMoment(time, _life_of(world, lane), what, text, session, _key(partition))


def _life_of(world: Struck, lane: str) -> str:
    """The lane named `lane`; what is noted of a broker stands in that of its newest process."""
    _, is_broker, number = lane.partition("broker-")
    broker = world.brokers.get(int(number)) if is_broker and number.isdigit() else None
    return lane if broker is None else broker.life.name


def _arrows(world: Struck, spans: Iterable[Span]) -> Iterator[Arrow]:
    """Messages; one reaches a paused process when it resumes, and a dead one never."""
    deaf: dict[str, list[Span]] = {}
    for span in spans:
        if span.what in {DEAD, PAUSED}:
            deaf.setdefault(span.lane, []).append(span)
    for sent, source, target, arrives, what, detail, partition in world.recording.arrows:
        received = arrives
        for span in deaf.get(target, ()):
            if received is not None and span.begin_us <= received < span.end_us:
                received = None if span.what == DEAD else span.end_us
        name = what.removeprefix("take_").replace("_", " ")
        is_lost, key = arrives is None, _key(partition)
        yield Arrow(sent, source, target, received, name, detail, is_lost, None, key)


class _Open(NamedTuple):
    begin_us: int
    session: int | None


class _Lives:
    """Spans from one moment of a process to a later one."""

    def __init__(self, names: Iterable[str], end_us: int) -> None:
        self._end_us = end_us
        self._open: dict[tuple[str, str, str], _Open] = {}
        """Spans that have not ended, by lane, kind and partition."""
        self._spans: list[Span] = []
        self._led: list[Span] = []
        self._unborn = set(names)

    def see(self, moment: RunMoment) -> None:
        """Take the next moment, in the order of their times."""
        lane, what, time = moment.lane, moment.what, moment.time_us
        if what == "start" and lane in self._unborn:
            self._unborn.discard(lane)
            if time:
                self._spans.append(Span(lane, 0, time, DEAD))
        elif what == "claim":
            self._end(lane, LEADS, moment.key, time)
            self._open[lane, LEADS, moment.key] = _Open(time, moment.epoch)
        elif what in _OVER:
            self._end(lane, LEADS, moment.key, time)
        elif what in _ENDS:
            self._end(lane, _ENDS[what], moment.key, time)
        elif what in _BEGINS:
            if what == "crash":
                self._end_all(lane, time)
            self._open.setdefault((lane, _BEGINS[what], moment.key), _Open(time, None))

    def ended(self) -> list[Span]:
        """All spans; one that has not ended lasts until the run's end."""
        for lane, what, key in list(self._open):
            self._end(lane, what, key, self._end_us)
        return [*self._spans, *self._led]

    def coloured(self, moment: RunMoment) -> RunMoment:
        """`moment` with the session in which its lane then led, if it names none itself."""
        if moment.epoch is not None or not moment.key:
            return moment
        for span in self._led:
            is_then = span.begin_us <= moment.time_us <= span.end_us
            if is_then and (span.lane, span.key) == (moment.lane, moment.key):
                return moment._replace(epoch=span.epoch)
        return moment

    def _end(self, lane: str, what: str, key: str, time: int) -> None:
        begun = self._open.pop((lane, what, key), None)
        if begun is not None:
            spans = self._led if what == LEADS else self._spans
            spans.append(Span(lane, begun.begin_us, time, what, begun.session, key))

    def _end_all(self, lane: str, time: int) -> None:
        for one, what, key in list(self._open):
            if one == lane:
                self._end(lane, what, key, time)


def _lane_of(operation: Operation) -> str:
    """The process of the broker that made a call; in the history it has a name per lane."""
    return "/".join(operation.process.split("/")[:2])


def _calls(operations: Iterable[Operation], end_us: int) -> Iterator[Span]:
    for one in operations:
        end = end_us if one.completed is None else one.completed // 1000
        key, text = _key(one.key.partition), f"call {one.number}: {one.what}"
        yield Span(_lane_of(one), one.invoked // 1000, end, CALL, None, key, text)


def _ends(operations: Iterable[Operation]) -> Iterator[RunMoment]:
    for one in operations:
        if one.completed is None:
            continue
        result = one.error if one.position is None else f"position {one.position}"
        yield RunMoment(
            one.completed // 1000, _lane_of(one), _OUTCOMES.get(one.outcome, "op fail"),
            f"{one.what} (call {one.number}): {result}", None, _key(one.key.partition),
        )  # fmt: skip

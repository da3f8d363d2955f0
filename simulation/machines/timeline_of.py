"""A world that has run, as a picture's contents: see `timeline`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tierledger.simulation.history import INFO, OK
from tierledger.simulation.timeline import (
    BROKER,
    CALL,
    COORDINATOR,
    CUT_OFF,
    DEAD,
    HOST,
    LEADS,
    PAUSED,
    STORE,
    Arrow,
    Lane,
    Moment,
    Span,
    Timeline,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tierledger.simulation.history import Operation
    from tierledger.simulation.machines.scenario import Decision
    from tierledger.simulation.machines.world import World

_KINDS: Final = {"broker": BROKER, "coordinator": COORDINATOR, "host": HOST, "store": STORE}

_BEGINS: Final = {"crash": DEAD, "pause": PAUSED, "cut off": CUT_OFF}
_ENDS: Final = {"resume": PAUSED}

_OUTCOMES: Final = {OK: "op ok", INFO: "op info"}


def timeline_of(
    world: World, *, title: str, command: str, violations: Iterable[str]
) -> Timeline:
    """What `world` was seen to do; it was run with `keeps`.

    A lane is a process's life, so that a zombie stands beside its successor.
    """
    names = [life.name for life in world.lives]
    lanes = [Lane(name, _KINDS[name.partition("-")[0].partition("/")[0]]) for name in names]
    moments = list(_moments(world))
    lives = _Lives(names, world.clock.now)
    for moment in moments:
        lives.see(moment)
    spans = lives.ended()
    operations = world.recorder.history().operations
    decided = [_decided(one) for one in world.scenario.decisions]
    if any(STORE in {source, target} for _, source, target, *_ in world.recording.arrows):
        lanes.append(Lane(STORE, STORE))
    return Timeline(
        title,
        command,
        lanes,
        [*map(lives.coloured, moments), *_ends(operations), *decided],
        list(_arrows(world, spans)),
        [*spans, *_calls(operations, world.clock.now)],
        [one.detail for one in decided],
        list(violations),
    )


def _decided(decision: Decision) -> Moment:
    return Moment(decision.at, "", "decision", decision_text(decision))


def decision_text(decision: Decision) -> str:
    """A decision as people read it, with its time."""
    words = " ".join(map(str, decision.args))
    return f"{decision.at / 1000:,.3f} ms  {decision.kind} {words}"


def _key(partition: int | None) -> str:
    return "" if partition is None else f"orders-{partition}"


def _moments(world: World) -> Iterator[Moment]:
    for time, lane, what, detail, session, partition in world.recording.moments:
        yield Moment(time, lane, what, detail, session, _key(partition))


def _arrows(world: World, spans: Iterable[Span]) -> Iterator[Arrow]:
    """Messages; one reaches who is paused when he goes on, and who is dead never."""
    deaf: dict[str, list[Span]] = {}
    for span in spans:
        if span.what in {DEAD, PAUSED}:
            deaf.setdefault(span.lane, []).append(span)
    for sent, source, target, arrives, what in world.recording.arrows:
        received = arrives
        for span in deaf.get(target, ()):
            if received is not None and span.begin_us <= received < span.end_us:
                received = None if span.what == DEAD else span.end_us
        said = what.removeprefix("take_").replace("_", " ")
        yield Arrow(sent, source, target, received, said, is_lost=arrives is None)


class _Open(NamedTuple):
    begin_us: int
    session: int | None


class _Lives:
    """What lasts from one moment of a life to a later one."""

    def __init__(self, names: Iterable[str], end_us: int) -> None:
        self._end_us = end_us
        self._open: dict[tuple[str, str, str], _Open] = {}
        """Lane, what, and the partition."""
        self._spans: list[Span] = []
        self._led: list[Span] = []
        self._unborn = set(names)

    def see(self, moment: Moment) -> None:
        """Moments come by their time."""
        lane, what, time = moment.lane, moment.what, moment.time_us
        if what == "start" and lane in self._unborn:
            self._unborn.discard(lane)
            if time:
                self._spans.append(Span(lane, 0, time, DEAD))
        elif what == "claim":
            self._end(lane, LEADS, moment.key, time)
            self._open[lane, LEADS, moment.key] = _Open(time, moment.epoch)
        elif what == "gone":
            self._end(lane, LEADS, moment.key, time)
        elif what in _ENDS:
            self._end(lane, _ENDS[what], "", time)
        elif what in _BEGINS:
            if what == "crash":
                self._end_all(lane, time)
            self._open.setdefault((lane, _BEGINS[what], ""), _Open(time, None))

    def ended(self) -> list[Span]:
        """All that lasted; what did not end lasts until the run's end."""
        for lane, what, key in list(self._open):
            self._end(lane, what, key, self._end_us)
        return [*self._spans, *self._led]

    def coloured(self, moment: Moment) -> Moment:
        """The same, with the session that its lane led the partition in, if it says none."""
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
    """The broker's life: a process of the history is one of its lanes."""
    return "/".join(operation.process.split("/")[:2])


def _calls(operations: Iterable[Operation], end_us: int) -> Iterator[Span]:
    for one in operations:
        end = end_us if one.completed is None else one.completed // 1000
        yield Span(_lane_of(one), one.invoked // 1000, end, CALL, None, _key(one.key.partition))


def _ends(operations: Iterable[Operation]) -> Iterator[Moment]:
    for one in operations:
        if one.completed is None:
            continue
        said = one.error if one.position is None else f"position {one.position}"
        yield Moment(
            one.completed // 1000, _lane_of(one), _OUTCOMES.get(one.outcome, "op fail"),
            f"{one.what} (call {one.number}): {said}", None, _key(one.key.partition),
        )  # fmt: skip

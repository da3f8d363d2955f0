"""Heartbeats of brokers' plugins, which report their state twice a second; nothing is durable.

A coordinator that starts has no report; within a second it has one of each living plugin.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Coroutine, Iterable, Mapping
from typing import Annotated, Any, NamedTuple, Protocol

from msgspec import Meta

from tierledger.actors.calls import PartitionKey
from tierledger.actors.coordinator.events import BrokerId, Item, Owner
from tierledger.actors.coordinator.ownership import Ownership, PluginMode
from tierledger.events.typed_fields import Count, Text, Topic

SILENT_MS = 3000
"""Age (ms) at which a report is out of date: six times the interval between two."""

FORGOTTEN_MS = 3_600_000
"""A broker without a report for so long (ms) counts as having left the cluster."""

REPORTS_MISSED = 20
"""A standby follower takes over after so many reports of its own without one of the chosen
follower. The bound is no time: a coordinator that was paused gets the late reports of both."""

DIFFERENCES_KEPT = 100
"""Newest differences that are kept of each broker."""

LEFT_KEPT = 16
"""Followers that have left and are remembered."""

OTHER_LOGS_MAX = 100
"""Partitions that a report names."""

MOVE_DIFFERENCES_MAX = 20
"""Differences that a command's report names."""

STALE_MS = 600_000
"""Age (ms) of a broker's last verified answer at which nothing is verified any more: a broker
asks about each partition that it leads twice a minute."""


class Attended(NamedTuple):
    """The answer to a plugin's report."""

    ownership: Ownership
    import_rounds: int | None
    """Rounds that the import has finished; it stands still while they do not grow."""
    accepted: tuple[bytes, ...] = ()
    """Segments about which the two managers may differ in this owner epoch, a move."""


class Followed(NamedTuple):
    """The answer to a follower: a process that imports Kafka's topic, or mirrors into it."""

    ownership: Ownership
    is_chosen: bool
    """Whether it is the follower to do so; otherwise it stands by."""


class Difference(NamedTuple):
    """A question that Kafka's own manager and a replica of the ledger answered in two ways."""

    key: PartitionKey
    topic: Topic
    kind: str
    epoch: int
    offset: int
    position: int
    kafka: tuple[bytes, ...]
    """Ids of segments that the other answer lacks, or has with other contents."""
    replica: tuple[bytes, ...]
    kafka_number: int | None
    replica_number: int | None
    contents: str
    """The fields in which segments with the same id differ."""

    @property
    def question(self) -> tuple[PartitionKey, str, int, int]:
        """What was asked, by which a difference that has gone is found again."""
        return (self.key, self.kind, self.epoch, self.offset)

    @property
    def is_recovered(self) -> bool:
        """Whether the replica only has segments that Kafka's own manager lost from its tables.

        As `conformance` judges it: Kafka names no segment and the replica does, or Kafka's size
        is the lower one. Highest offsets have to be equal.
        """
        if self.kind == "size":
            return (self.kafka_number or 0) < (self.replica_number or 0)
        named = self.kind != "highest_offset" and bool(self.replica)
        return named and not self.kafka and not self.contents


class ShadowReport(NamedTuple):
    """The results of comparisons since the last report."""

    equal: Count
    skipped: Count
    differences: tuple[Difference, ...]
    resolved: tuple[Difference, ...] = ()
    """Earlier differences that have gone, by their questions alone."""
    standing: Count | None = None
    """Differences that stand now, without recovered ones; None: an older plugin."""
    verified: Count | None = None
    """Answers that were alike since the plugin began, or since the newest difference."""
    verified_ms_ago: Count | None = None
    """Milliseconds since the last of these; None: there is none."""


class Attend(NamedTuple):
    """A report (heartbeat) of a broker's plugin."""

    broker_id: BrokerId
    incarnation: Count
    """0: the plugin is not registered."""
    mode: PluginMode
    owner_epoch: Count
    """The one that the plugin follows; 0: it knows none."""
    is_idle: bool
    """No write of this broker is under way, and none begins in that owner epoch."""
    shadow: ShadowReport | None = None
    positions: Count = 0
    """Partitions of which the broker remembers how far its replica was fed, by any ledger."""
    seen_epoch: Count = 0
    """The newest owner epoch that the broker has seen, of any ledger; 0: it remembers none."""
    seen_reads: Text = ""
    """By whose manager it read in that owner epoch."""
    other_logs: Annotated[tuple[Item, ...], Meta(max_length=OTHER_LOGS_MAX)] = ()
    """Partitions whose log is not the one that the broker was fed from, or ends before."""
    ran_ms: Count = 0
    """Milliseconds since the plugin began; 0: an older plugin."""
    is_guarded: bool | None = None
    """Whether the broker's storage manager is guarded; None: an older plugin."""
    clock_ms: Count = 0
    """What the broker's clock says (ms); 0: an older plugin."""
    release: Text = ""
    """The plugin's release; empty: an older plugin."""

    def put_to(self, asked: Attending) -> Coroutine[Any, Any, Attended]:
        """Who owns the cluster's metadata."""
        return asked.attend(self)


class MoveReport(NamedTuple):
    """How far the command is that moves the metadata, for people; it decides nothing."""

    to: Text
    """The owner after the move."""
    phase: Text
    owner_epoch: Count = 0
    """The move's newest; 0: it has not begun."""
    comparisons: Count = 0
    """How often both managers were compared."""
    compared_ms_ago: Count | None = None
    """Milliseconds since the last comparison ended."""
    differing: Count = 0
    """Differences that it found,"""
    differences: Annotated[tuple[Text, ...], Meta(max_length=MOVE_DIFFERENCES_MAX)] = ()
    """and the first of them."""
    waits: Text = ""
    """What is waited for."""
    outcome: Text = ""
    """How the move has ended; empty: it goes on."""

    def put_to(self, asked: Attending) -> Coroutine[Any, Any, None]:
        return asked.tell_move(self)


class Attending(Protocol):
    """Takes the reports of plugins, and of the command that moves the metadata."""

    async def attend(self, attend: Attend) -> Attended: ...

    async def tell_move(self, report: MoveReport) -> None: ...


class PluginTrouble(NamedTuple):
    """What is wrong with a broker's plugin: a code for monitors, and words."""

    code: str
    """`silent`, `mode` or `not-registered`."""
    text: str


class _Shadow:
    """The sums of all comparisons that a broker has reported."""

    def __init__(self) -> None:
        self.equal = self.skipped = self.recovered = self.different = self.resolved = 0
        self.standing: int | None = None
        self.verified: int | None = None
        self.verified_at_ms: int | None = None
        self.newest: list[Difference] = []
        """The newest differences that stand, without recovered ones."""

    def compared(self, report: ShadowReport, now_ms: int) -> None:
        gone = {one.question for one in report.resolved}
        different = [one for one in report.differences if not one.is_recovered]
        self.equal += report.equal
        self.skipped += report.skipped
        self.different += len(different)
        self.recovered += len(report.differences) - len(different)
        self.resolved += len(report.resolved)
        # What differed and has gone since the last report is in both.
        newest = [one for one in (*self.newest, *different) if one.question not in gone]
        self.newest = newest[-DIFFERENCES_KEPT:]
        self.standing, self.verified = report.standing, report.verified
        ago_ms = report.verified_ms_ago
        self.verified_at_ms = None if ago_ms is None else now_ms - ago_ms

    def report(self, broker_id: int, now_ms: int) -> dict[str, Any]:
        at_ms = self.verified_at_ms
        ago_ms = None if at_ms is None else now_ms - at_ms
        return {
            "broker_id": broker_id,
            "verification": self._verification(ago_ms),
            "verified": self.verified,
            "verified_ms_ago": ago_ms,
            "standing": self.different if self.standing is None else self.standing,
            "equal": self.equal,
            "skipped": self.skipped,
            "recovered": self.recovered,
            "different": self.different,
            "resolved": self.resolved,
            "differences": [one._asdict() for one in self.newest],
        }

    def _verification(self, ago_ms: int | None) -> str | None:
        """`never`, `verified`, `stale` or `differs`; None: an older plugin does not tell."""
        if self.verified is None:
            return None
        if self.standing:
            return "differs"
        if ago_ms is None or not self.verified:
            return "never"
        return "stale" if ago_ms > STALE_MS else "verified"


class Attendance:
    """The newest reports of plugins and followers, and the comparisons of brokers in shadow."""

    def __init__(self) -> None:
        self._attending: dict[int, tuple[Attend, int]] = {}
        self._clocks_off_ms: dict[int, int] = {}
        """By how much brokers' clocks were ahead of the coordinator's when they reported."""
        self._shadows: dict[int, _Shadow] = {}
        self._following: tuple[dict[str, Any], int] | None = None
        self._failing_since_ms: int | None = None
        """Since when the chosen follower has reported some trouble in every report."""
        self._chosen: str | None = None
        self._waiting: dict[str, int] = {}
        """By standby follower: its reports since the chosen one's last report."""
        self._left: deque[str] = deque(maxlen=LEFT_KEPT)
        """Followers that have left. A report of theirs may still be under way."""
        self._move: tuple[MoveReport, int] | None = None
        self._accepted: tuple[int, tuple[bytes, ...]] = (0, ())
        """A move's owner epoch, and the segments about which managers may differ in it."""

    def attended(self, attend: Attend, now_ms: int, wall_ms: int | None = None) -> None:
        """Note a plugin's report at `now_ms`, by a clock that never goes back.

        `wall_ms` is what the coordinator's own clock says.
        """
        self._attending[attend.broker_id] = (attend, now_ms)
        if attend.clock_ms and wall_ms is not None:
            self._clocks_off_ms[attend.broker_id] = attend.clock_ms - wall_ms
        if attend.shadow is not None:
            shadow = self._shadows.setdefault(attend.broker_id, _Shadow())
            shadow.compared(attend.shadow, now_ms)

    def accept(self, owner_epoch: int, segments: tuple[bytes, ...]) -> None:
        """Note what a move accepts. A coordinator that starts does not know it.

        Then brokers that find a difference are not idle, and the move is given back.
        """
        self._accepted = (owner_epoch, segments)

    def accepted(self, owner_epoch: int) -> tuple[bytes, ...]:
        epoch, segments = self._accepted
        return segments if epoch == owner_epoch else ()

    def move_told(self, report: MoveReport, now_ms: int) -> None:
        self._move = report, now_ms

    def _moving(self, now_ms: int) -> dict[str, Any] | None:
        """The newest report of a command that moves the metadata, with its age."""
        if self._move is None or now_ms - self._move[1] > FORGOTTEN_MS:
            return None
        report, heard_ms = self._move
        ago_ms = now_ms - heard_ms
        compared_ms = report.compared_ms_ago
        return {
            **report._asdict(),
            "compared_ms_ago": None if compared_ms is None else compared_ms + ago_ms,
            "heard_ms_ago": ago_ms,
        }

    @property
    def import_rounds(self) -> int:
        """Rounds that the chosen follower has finished; 0 without one."""
        return 0 if self._following is None else int(self._following[0]["round"])

    def followed(self, report: dict[str, Any], now_ms: int) -> bool:
        """Whether the follower that reports is chosen to import Kafka's topic, or mirror.

        The first follower is chosen, until it leaves or is silent. Only its reports are kept.
        """
        follower = report["follower"]
        if report.get("leaves"):
            self._left.append(follower)
            if follower == self._chosen:
                self._chosen = self._following = self._failing_since_ms = None
            return False
        if follower in self._left:
            return False
        if self._chosen not in {None, follower}:
            self._waiting[follower] = self._waiting.get(follower, 0) + 1
            if self._waiting[follower] < REPORTS_MISSED:
                return False
        # Before it is kept: later looks at a report that lacks these would fail.
        trouble, _ = report["trouble"], int(report["round"])
        self._chosen, self._waiting = follower, {}
        self._following = (report, now_ms)
        if not trouble:
            self._failing_since_ms = None
        elif self._failing_since_ms is None:
            self._failing_since_ms = now_ms
        return True

    def report(
        self, ownership: Ownership, incarnations: Mapping[int, int], now_ms: int
    ) -> dict[str, Any]:
        """The newest reports, with age (ms) and trouble: follower, plugins, comparisons."""
        for broker_id, (_, heard_ms) in list(self._attending.items()):
            if now_ms - heard_ms > FORGOTTEN_MS:
                del self._attending[broker_id]
                self._clocks_off_ms.pop(broker_id, None)
                self._shadows.pop(broker_id, None)
        following = None
        if self._following is not None:
            report, heard_ms = self._following
            silent = "silent" if now_ms - heard_ms > SILENT_MS else None
            failing_ms = self._failing_since_ms
            following = {
                **report,
                "heard_ms_ago": now_ms - heard_ms,
                "trouble_ms_ago": None if failing_ms is None else now_ms - failing_ms,
                "trouble": silent or report["trouble"],
            }
        return {
            "move": self._moving(now_ms),
            "kafka": following,
            "attending": [
                {
                    **_plugin(
                        attend, ownership, incarnations.get(broker_id, 0), now_ms - heard_ms
                    ),
                    "clock_off_ms": self._clocks_off_ms.get(broker_id),
                }
                for broker_id, (attend, heard_ms) in sorted(self._attending.items())
            ],
            "shadows": [
                shadow.report(broker_id, now_ms)
                for broker_id, shadow in sorted(self._shadows.items())
            ],
        }


def owned_elsewhere(attending: Iterable[Mapping[str, Any]]) -> str | None:
    """What plugins tell of another ledger that owns the metadata, of reports as `report` has.

    None: nothing. It is only asked while nobody owns the metadata here.
    """
    fed = {
        one["broker_id"]: (one["positions"], one["seen_epoch"])
        for one in attending
        if one.get("seen_reads") == Owner.TIERLEDGER
    }
    if not fed:
        return None
    brokers = ", ".join(f"{broker} ({count} partitions)" for broker, (count, _) in fed.items())
    epoch = max(epoch for _, epoch in fed.values())
    return (
        f"another ledger, in which tierledger owned it in owner epoch {epoch}, has fed the "
        f"plugins of brokers {brokers}"
    )


def _plugin(
    attend: Attend, ownership: Ownership, newest: int, heard_ms_ago: int
) -> dict[str, Any]:
    found = trouble(attend, ownership, newest, heard_ms_ago)
    return {
        "broker_id": attend.broker_id,
        "incarnation": attend.incarnation,
        "mode": str(attend.mode),
        "owner_epoch": attend.owner_epoch,
        "is_idle": attend.is_idle,
        "is_guarded": attend.is_guarded,
        "release": attend.release or None,
        "positions": attend.positions,
        "seen_epoch": attend.seen_epoch,
        "seen_reads": attend.seen_reads,
        "other_logs": [f"{topic}-{number}" for _, number, topic in attend.other_logs],
        "heard_ms_ago": heard_ms_ago,
        "trouble": None if found is None else found.text,
        "code": None if found is None else found.code,
    }


def trouble(
    attend: Attend, ownership: Ownership, newest: int, silent_ms: int
) -> PluginTrouble | None:
    """What is wrong with a broker, for operators; None if all is well."""
    owner = ownership.owner
    if silent_ms > SILENT_MS:
        has_left = owner == Owner.KAFKA and (
            attend.mode is PluginMode.SHADOW
            or (attend.mode is PluginMode.HANDOVER and attend.owner_epoch == ownership.epoch)
        )
        # Whether it runs without the plugin by now or not: Kafka's own manager decides there.
        return None if has_left else PluginTrouble("silent", "silent")
    if attend.mode is PluginMode.SHADOW and owner in {Owner.TIERLEDGER, Owner.MOVING}:
        return PluginTrouble("mode", f"in shadow, while the owner is {owner}")
    if attend.mode is PluginMode.TIERLEDGER and owner != Owner.TIERLEDGER:
        return PluginTrouble("mode", f"goes by tierledger, while the owner is {owner}")
    if attend.incarnation < newest or not newest:
        return PluginTrouble("not-registered", "not registered")
    return None

"""A host's own part of `status`: its counts, its alarms, and each partition that runs there.

Everything is read on the host's own loop between two steps. So the fields of one partition are
consistent with each other; those of two partitions may be of different moments.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from heapq import nlargest
from importlib.metadata import version
from typing import Any, NamedTuple

from tierledger.actors.calls import FOLLOWER, LEADER, HostLoad, PartitionKey
from tierledger.actors.conditions import NO_STEPS, Conditions
from tierledger.actors.deletion_counts import DeletionCounts
from tierledger.actors.host.call_times import CallTimes, DoorTimes
from tierledger.actors.host.partition_shell import PartitionShell
from tierledger.actors.host.store_queues import Committer
from tierledger.actors.slices import Slices
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.log_events import UNTIL_RELEASED_MS
from tierledger.events.partition.state import PartitionState
from tierledger.storage.process_log import ProcessLog

RELEASE = version("tierledger")
"""Of this process, whatever is installed by now."""

QUARANTINED = "quarantined"
"""The alarm whose message is the reason for a quarantine."""

STEP_S = 30.0
"""How long a leader may make no step though callers wait; a store answers or fails sooner."""

HEARD_S = 5.0
"""How long a broker's client counts that has used the door: brokers reach it, even if
others do not."""

TIERED_S = 5.0
"""How often the bytes of all that is led here are added up, in seconds; 1 ms for 4000."""

BUSIEST_TOLD = 100
"""Partitions of which a host tells the coordinator what they are asked."""

LOAD_S_MIN = 0.1
"""A load is of so long a time at least: two coordinators may ask at once."""

_FINISHED = int(RemoteLogSegmentState.COPY_SEGMENT_FINISHED)
_COPYING = int(RemoteLogSegmentState.COPY_SEGMENT_STARTED)
_DELETING = int(RemoteLogSegmentState.DELETE_SEGMENT_STARTED)

_log = ProcessLog("tierledger.host")


class HeldBack(NamedTuple):
    """The deletions that were refused for one hold, since the process began."""

    times: int
    since_ms: int
    last_ms: int
    last: str
    """The partition of the newest one."""


class HostReport:
    """Counts a host's alarms, and describes the partitions that run there."""

    def __init__(
        self,
        name: str,
        process: str,
        pid: int,
        committer: Committer,
        shells: Mapping[tuple[PartitionKey, str], PartitionShell],
        conditions: Conditions,
        store_times: CallTimes,
    ) -> None:
        self.door: str | None = None
        """Where clients reach this host (HOST:PORT); None if it does not listen."""
        self.doors: tuple[tuple[str, bool], ...] = ()
        """Other hosts' processes, by address, and whether their doors open to this host."""
        self.door_times = DoorTimes()
        """How long calls at the door took."""
        self.checkpointed_ms: int | None = None
        """When a leader here stored a checkpoint last; None: none since the start."""
        self.deletions = DeletionCounts(process)
        self.conditions = conditions
        """What is wrong with this host now; each becomes an entry in the list of troubles."""
        self._name = name
        self._process = process
        self._pid = pid
        self._committer = committer
        self._shells = shells
        self._store_times = store_times
        self._alarms: dict[str, int] = {}
        self._reasons: dict[PartitionKey, str] = {}
        self._held_back: dict[str, HeldBack] = {}
        """By hold: the deletions that were refused for it."""
        self._heard_s = float("-inf")
        self._tiered: dict[bytes, tuple[str, int]] = {}
        """By topic: its name, and its bytes in the tier."""
        self._tiered_s = float("-inf")
        """When they were added up."""
        self._calls: dict[PartitionKey, int] = {}
        """The calls of each leader at the last look,"""
        self._calls_s: float | None = None
        """and when that was."""

    def hear(self) -> None:
        """Note that a broker's client has used the door."""
        self._heard_s = asyncio.get_running_loop().time()

    @property
    def is_heard(self) -> bool:
        """Whether a broker's client has used the door within `HEARD_S`."""
        return asyncio.get_running_loop().time() - self._heard_s < HEARD_S

    def load(self) -> HostLoad | None:
        """What the leaders here are asked, since the call before; None for the first call."""
        now_s = asyncio.get_running_loop().time()
        before, since_s = self._calls, self._calls_s
        self._calls_s = now_s
        self._calls = {
            key: shell.calls for (key, role), shell in self._shells.items() if role == LEADER
        }
        if since_s is None:
            return None
        took_s = max(now_s - since_s, LOAD_S_MIN)
        rates = {
            # A leader that was placed here anew counts from the beginning.
            key: (calls - known if (known := before.get(key, 0)) <= calls else calls) / took_s
            for key, calls in self._calls.items()
        }
        busiest = nlargest(BUSIEST_TOLD, rates.items(), key=lambda one: one[1])
        return HostLoad(sum(rates.values()), tuple(one for one in busiest if one[1]))

    def tiered(self) -> dict[bytes, tuple[str, int]]:
        """By topic: its name, and the bytes of its finished segments that are led here.

        As they were up to `TIERED_S` ago, but for what was let go since.
        """
        now_s = asyncio.get_running_loop().time()
        if now_s - self._tiered_s >= TIERED_S:
            self._tiered_s = now_s
            self._tiered = {}
            for (_, role), shell in self._shells.items():
                if role == LEADER and (state := shell.machine.state) is not None:
                    topic_id = bytes(shell.topic_id_partition.topic_id)
                    _, size = self._tiered.get(topic_id, ("", 0))
                    size += state.bytes_by_state[_FINISHED]
                    self._tiered[topic_id] = (shell.topic_id_partition.topic, size)
        return self._tiered

    def let_go(
        self, tip: TopicIdPartition, size: int, now_ms: int, *, is_expired: bool
    ) -> None:
        """Count finished segments whose deletion has begun; see `DeletionCounts.add`."""
        if size:
            self.deletions.add(tip, size, now_ms, is_expired=is_expired)
            self._tiered_s = float("-inf")  # With an older sum, that could seem to be all.

    def alarm(self, topic_id_partition: TopicIdPartition, kind: str, message: str) -> None:
        """Count an alarm and log it."""
        self._count(kind)
        if kind == QUARANTINED:
            self._reasons[PartitionKey.of(topic_id_partition)] = message
        _log.warning("alarm", kind=kind, partition=str(topic_id_partition), message=message)

    def held_back(self, tip: TopicIdPartition, hold: str, now_ms: int) -> None:
        """Count a deletion that was refused for that hold; empty: for an unowned time."""
        former = self._held_back.get(hold)
        times, since_ms = (0, now_ms) if former is None else (former.times, former.since_ms)
        self._held_back[hold] = HeldBack(times + 1, since_ms, now_ms, str(tip))

    def alarm_of_host(self, kind: str, message: str) -> None:
        """Count and log an alarm that is about no partition."""
        self._count(kind)
        _log.warning("alarm", kind=kind, message=message)

    def look_for_standstill(self, now_s: float) -> None:
        """Hold or clear the condition `NO_STEPS`."""
        still = [
            shell
            for (_, role), shell in self._shells.items()
            if role == LEADER
            and now_s - shell.stepped_s > STEP_S
            and shell.machine.waiting + shell.held
        ]
        if still:
            text = (
                f"{len(still)} leaders have made no step for {STEP_S:g} s though callers wait, "
                f"such as that of {still[0].topic_id_partition}"
            )
            self.conditions.hold(NO_STEPS, text)
        else:
            self.conditions.clear(NO_STEPS)

    def _count(self, kind: str) -> None:
        self._alarms[kind] = self._alarms.get(kind, 0) + 1

    def counts(self) -> dict[str, Any]:
        """The host's names and door, and its counts since its process began."""
        return {
            "host": self._name,
            "process": self._process,
            "pid": self._pid,
            "release": RELEASE,
            "door": self.door,
            "leaders": sum(role == LEADER for _, role in self._shells),
            "followers": sum(role == FOLLOWER for _, role in self._shells),
            "commits": self._committer.commits,
            "batches": self._committer.batches,
            "store_times": self._store_times.plain(),
            "door_times": self.door_times.plain(),
            "alarms": dict(self._alarms),
            "checkpointed_ms": self.checkpointed_ms,
            "held_back": {hold: one._asdict() for hold, one in self._held_back.items()},
            "conditions": self.conditions.plain(),
        }

    async def partitions(self) -> list[dict[str, Any]]:
        """Role, phase, position and session of each leader and follower that runs here."""
        slices = Slices()
        found = []
        for shell in list(self._shells.values()):
            found.append(self._partition(shell))
            await slices.yield_if_due()
        return found

    def _partition(self, shell: PartitionShell) -> dict[str, Any]:
        tip, machine = shell.topic_id_partition, shell.machine
        phase, state = machine.phase.value, machine.state
        run = None if state is None else state.dispute_run
        return {
            "topic": tip.topic,
            "topic_id": str(tip.topic_id),
            "partition": tip.partition,
            "role": shell.role,
            "phase": phase,
            "reason": self._reasons.get(shell.key) if phase == QUARANTINED else None,
            "position": machine.position,
            "remote_log_bytes": 0 if state is None else sum(state.bytes_by_state),
            "copying_bytes": 0 if state is None else state.bytes_by_state[_COPYING],
            "unexplained": None if state is None else _unexplained(state),
            "kept": None if state is None else _kept(state),
            "deleting": 0 if state is None else state.count_by_state[_DELETING],
            "waiting": machine.waiting + shell.held,
            "disputes": 0 if state is None else state.disputes,
            "disputes_in_a_row": 0 if run is None else run.in_a_row,
            "last_dispute_ms": None if run is None else run.log_time_ms,
            "is_deleted": state is not None and state.is_finished,
            "session": None if state is None else _session(state),
        }


def _unexplained(state: PartitionState) -> dict[str, Any] | None:
    """What is kept because no rule of Kafka's explains its deletion; None: nothing."""
    one = state.kept.first_unreleased()
    if one is None:
        return None
    return {
        "segments": len(state.kept.unreleased),
        "since_ms": one.log_time_ms,
        "reason": one.reason,
    }


def _kept(state: PartitionState) -> dict[str, Any] | None:
    """What was deleted and stays in the tier; None: nothing."""
    kept = state.kept
    first = kept.first()
    if first is None:
        return None
    # The one that was kept first is the first whose time is over, unless terms were changed.
    is_unreleased = first.until_ms == UNTIL_RELEASED_MS
    return {
        "segments": len(kept),
        "bytes": kept.bytes,
        "since_ms": first.log_time_ms,
        "until_ms": None if is_unreleased else first.until_ms,
    }


def _session(state: PartitionState) -> dict[str, Any] | None:
    session = state.session
    if session is None:
        return None
    return {**session._asdict(), "log_time_ms": state.log_time_ms}

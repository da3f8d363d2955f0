"""What the service's processes do, noted from outside: they have no switches for it.

Hosts and coordinators are watched from the moment they are made: methods of each are replaced
by ones that call them and note what came of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tierledger.actors import messages as msg
from tierledger.actors.calls import FOLLOWER, HostPing, PartitionKey, PingCall, ReadyCall
from tierledger.actors.coordinator import messages as coordinator_messages
from tierledger.actors.coordinator.events import Announcement
from tierledger.actors.coordinator.machine import DOUBT_S
from tierledger.actors.coordinator.service import CoordinatorService
from tierledger.actors.follower import Follower, FollowerPhase
from tierledger.actors.host import messages as lives
from tierledger.actors.host.host import Host
from tierledger.actors.host.partition_shell import PartitionShell
from tierledger.actors.leader.machine import Leader, LeaderPhase
from tierledger.actors.ports import LeaderOracle
from tierledger.events.commands import Claim, LeaderVerdict
from tierledger.events.errors import Overloaded
from tierledger.events.identifiers import TopicIdPartition
from tierledger.simulation.checkers.violation import Violation, ms_text
from tierledger.simulation.machines.environment.clockwork import Clockwork, ProcessLife
from tierledger.simulation.machines.environment.observer import Observer
from tierledger.simulation.machines.environment.recording import Recording
from tierledger.simulation.machines.laws.coordination_laws import AnnouncedTo
from tierledger.simulation.machines.laws.run_laws import CheckpointTold


class WatchedShell(NamedTuple):
    """A partition's shell, as the observer sees it."""

    life: ProcessLife
    name: str
    role: str
    key: PartitionKey
    machine: Leader | Follower

    @property
    def believes_to_lead(self) -> bool:
        machine = self.machine
        if not isinstance(machine, Leader):
            return False
        return machine.phase is LeaderPhase.LEADING and machine._has_claimed


class ProcessWatch:
    """The notes on all processes of a world."""

    def __init__(self, clock: Clockwork, recording: Recording) -> None:
        self.observer = Observer(clock, recording, self._leading_elsewhere)
        self.suspected: set[str] = set()
        """The names of processes whose pings ever went unanswered."""
        self.well: set[str] = set()
        """The names of processes that were reached and never suspected when they were ended."""
        self.refusals: set[tuple[str, int, int]] = set()
        """Host, partition and assignment of refused claims that hosts have reported."""
        self.fenced: list[tuple[int, int, tuple[int, int]]] = []
        """Of each announcement that was refused as out of date the time (ns), the broker's id,
        and the pair of incarnation and announcement."""
        self.accepted: list[AnnouncedTo] = []
        """The announcements of which clients were told that they are durable."""
        self.checkpoints: list[CheckpointTold] = []
        """The checkpoints of which leaders were told that they are stored."""
        self.forgotten: list[Violation] = []
        """Questions that expired though they could be answered, or had to be refused."""
        self.informed: dict[tuple[Claim, PartitionKey], list[LeaderVerdict | None]] = {}
        """By claim and partition, Kafka's answers about an announcement."""
        self.named: dict[PartitionKey, list[tuple[int, LeaderVerdict]]] = {}
        """By partition, all answers of the leader oracle, and when it was asked (ns)."""
        self.shells: dict[tuple[str, int], WatchedShell] = {}
        """All shells that run, by process and life."""
        self.doors = KnockedDoors()
        self._clock = clock
        self._mark, self._moment = recording.mark, recording.moment

    # Hosts.

    def host(self, process: ProcessLife, host: Host) -> None:
        """Watch a host that was just made."""
        begin, drop, is_ready = host._begin, host._drop, host._is_ready
        self.doors.knocks.setdefault(process.site, []).append(_new_door(self._clock))

        def begun(effect: lives.Begin) -> None:
            begin(effect)
            shell = host._lives[effect.life]
            if shell.role == FOLLOWER:
                self._moment(process.name, "follow", "", None, shell.key.partition)
            elif (shell.key, FOLLOWER) in host._shells:
                self._mark("leader placed beside its follower")
            self._shell(process, shell)

        def dropped(shell: PartitionShell) -> None:
            if shell.role == FOLLOWER:
                self._moment(process.name, "unfollow", "", None, shell.key.partition)
            self.shells.pop((process.name, shell.life), None)
            drop(shell)

        def told(call: ReadyCall) -> bool:
            answer = is_ready(call)
            if answer:
                shell = host._shells[call.key, call.role]
                self.observer.was_ready(self.shells[process.name, shell.life], call.claim)
            return answer

        close_feed = host.feeds._close

        def closed(shell: PartitionShell) -> None:
            self._mark("feed closed")
            close_feed(shell)

        vars(host).update(_begin=begun, _drop=dropped, _is_ready=told)
        vars(host.feeds).update(_close=closed)

    def _shell(self, process: ProcessLife, shell: PartitionShell) -> None:
        name = f"{process.name}/{shell.key.partition}/{shell.role}/{shell.life}"
        watched = WatchedShell(process, name, shell.role, shell.key, shell.machine)
        self.shells[process.name, shell.life] = watched
        guard, observer, loads, frozen_at = shell._guard, self.observer, 0, -1
        handle, failed = guard.handle, guard.failed
        questions = _OpenQuestions(self)

        def handled(stimulus: msg.Stimulus) -> list[msg.Effect]:
            nonlocal frozen_at, loads, watched
            machine = watched.machine
            if type(stimulus) is msg.StateLoaded:
                if loads:  # A log that was forgotten meanwhile is loaded anew.
                    watched = watched._replace(name=f"{name}/{loads}")
                loads += 1
                if stimulus.uncovered is not None:
                    self._mark("began with its follower's state")
                else:
                    self._note_load(shell)
                state = stimulus.state
                observer.entered(watched, state.next_position - 1, state.chain_hash)
            before = machine.position
            had_claimed = isinstance(machine, Leader) and machine._has_claimed
            effects = handle(stimulus)
            questions.note(watched, stimulus, effects)
            if type(stimulus) in _OF_STORE and isinstance(machine, Leader):
                observer.leader_heard(watched, stimulus, before, had_claimed=had_claimed)
            elif type(stimulus) is msg.LogRead and machine.position > before:
                observer.read_on(watched, before)
            if type(stimulus) is msg.CheckpointDone:
                self._note_checkpoint(watched, stimulus, frozen_at)
            elif type(stimulus) is msg.ProbeFailed:
                self._mark("probe failed")
            elif type(stimulus) is msg.LoadFailed:
                self._mark("checkpoint of a newer release")
            if any(type(effect) is msg.WriteCheckpoint for effect in effects):
                frozen_at = machine.position
            self._note(watched, effects)
            return effects

        def failing(error: Exception) -> list[msg.Effect]:
            effects = failed(error)
            observer.failed(watched, guard.failure or "")
            return effects

        vars(guard).update(handle=handled, failed=failing)

    def _note_load(self, shell: PartitionShell) -> None:
        if shell._writer.is_whole:
            self._mark("checkpoint given up for the log")
        elif shell._writer.stored is not None:
            self._mark("loaded from a checkpoint")

    def _note_checkpoint(
        self, shell: WatchedShell, done: msg.CheckpointDone, frozen_at: int
    ) -> None:
        life, partition = shell.life.name, shell.key.partition
        if done.stored:
            now = self._clock.now * 1000
            self.checkpoints.append(CheckpointTold(now, shell.name, shell.key, frozen_at))
            self._mark("checkpoint written")
            text = f"up to position {frozen_at}"
            self._moment(life, "checkpoint", text, None, partition)
            return
        end = "to be replaced" if done.again else "refused"
        found = f"checkpoint of a former leader {end}"
        self._mark(found)
        self._moment(life, found, "", None, partition)

    def crashes(self, life: ProcessLife) -> None:
        """Note that a process is killed, perhaps while it loads."""
        if any(one.machine.phase is LeaderPhase.LOADING for one in self._on(life)):
            self._mark("crash while a partition was loaded")

    def resumes(self, life: ProcessLife) -> None:
        """Note that a process goes on, perhaps behind its successor."""
        if any(
            one.believes_to_lead and self._leading_elsewhere(one.key, life)
            for one in self._on(life)
        ):
            self._mark("resumed after a successor had claimed")

    def _on(self, life: ProcessLife) -> list[WatchedShell]:
        return [one for one in self.shells.values() if one.life is life]

    def forgot(self, shell: WatchedShell, position_min: int) -> None:
        """Note a question that expired, though it could be answered, or had to be refused."""
        machine, now = shell.machine, ms_text(self._clock.now * 1000)
        message = (
            f"{shell.name} has let a question wait for position {position_min} until {now}, "
            f"and is at {machine.position}, {machine.phase.value}"
        )
        self.forgotten.append(Violation("unanswered", shell.key, message))

    def _note(self, shell: WatchedShell, effects: Sequence[msg.Effect]) -> None:
        for effect in effects:
            kind = type(effect)
            if kind is msg.Reply or kind is msg.Answer or kind is msg.Append:
                continue  # The most frequent ones, for speed.
            if isinstance(effect, msg.Alarm):
                self.observer.alarmed(shell, effect)
                if effect.hold:
                    self._mark("deletion refused under a hold")
            elif isinstance(effect, msg.Gone):
                self.observer.left(shell, effect.reason)
            elif isinstance(effect, msg.ReplyError):
                if isinstance(effect.error, Overloaded):
                    self._mark("inbox full")
            elif isinstance(effect, msg.ClaimRefused):
                self._mark("claim refused by the log")

    def _leading_elsewhere(self, key: PartitionKey, life: ProcessLife) -> int:
        return sum(
            shell.key == key and shell.life is not life and shell.believes_to_lead
            for shell in self.shells.values()
            if not shell.life.is_dead
        )

    def unanswered(self, process: ProcessLife, request: object) -> None:
        """Note that a request, perhaps a ping, got no answer of a host, or only an error."""
        if isinstance(request, PingCall):
            self.suspected.add(process.name)

    def answered(self, process: ProcessLife, answer: object) -> None:
        """Note what a host has answered, perhaps a ping with its report."""
        for key, refusal in answer.refused if isinstance(answer, HostPing) else ():
            self.refusals.add((process.site, key.partition, refusal.assignment))

    def ended(self, process: ProcessLife, *, is_given_up: bool) -> None:
        """Note that a process that can be reached is about to be ended by a coordinator.

        That has given it up, or has failed to start it: others may have succeeded meanwhile.
        """
        if not is_given_up:
            self.suspected.add(process.name)
        elif process.name not in self.suspected:
            self.well.add(process.name)

    # Coordinators, and Kafka's answers.

    def coordinator(self, process: ProcessLife, service: CoordinatorService) -> None:
        """Watch a coordinator that was just made."""
        self.doors.coordinators.append((self._clock.now * 1000, process))
        leaders = service._leaders

        async def asked(given: Announcement) -> dict[PartitionKey, LeaderVerdict]:
            found = await leaders(given)
            if given.import_cluster is None:
                self._note_asked(given, found)
                for topic_id, partition, _, epoch, _ in given.leaders:
                    if epoch is None:
                        key = PartitionKey(topic_id, partition)
                        about = self.informed.setdefault((given.claim, key), [])
                        about.append(found.get(key))
            return found

        vars(service).update(_leaders=asked)

    def _note_asked(
        self, given: Announcement, found: dict[PartitionKey, LeaderVerdict]
    ) -> None:
        if any(epoch is None for _, _, _, epoch, _ in given.leaders):
            self._mark("Kafka asked about an announcement")
        if coordinator_messages.informed(given, found).denied:
            self._mark("Kafka named another broker")

    def was_accepted(self, given: object, answer: Any) -> None:  # noqa: ANN401
        """Note what the coordinator has answered to a request, perhaps an announcement."""
        if isinstance(given, Announcement):
            self.accepted.append(AnnouncedTo(self._clock.now * 1000, given, tuple(answer)))

    def was_fenced(self, given: object) -> None:
        """Note that a request, perhaps an announcement, was refused as out of date."""
        if isinstance(given, Announcement):
            pair = given.incarnation, given.number
            self.fenced.append((self._clock.now * 1000, given.broker_id, pair))

    def knocked(self, observer: ProcessLife | None, door: str, *, opens: bool) -> None:
        """Note the result of a knock at a door (HOST:PORT)."""
        assert observer is not None, "hosts and coordinators knock"
        knock = ObservedKnock(self._clock.now * 1000, observer.name, opens=opens)
        self.doors.knocks.setdefault(door.partition(":")[0], []).append(knock)


class _OpenQuestions:
    """The questions to one leader or follower that it has not answered yet."""

    def __init__(self, watch: ProcessWatch) -> None:
        self._watch = watch
        self._open: dict[msg.ReplyTo, int] = {}
        """By where the answer goes, the position that the question waits for."""

    def note(
        self, shell: WatchedShell, stimulus: msg.Stimulus, effects: Sequence[msg.Effect]
    ) -> None:
        """Note a step of the machine; a follower answers in each what it can."""
        if type(stimulus) is msg.QueryArrived:
            self._open[stimulus.reply_to] = stimulus.position_min
        elif type(stimulus) is msg.QueryExpired:
            self._watch._mark("read expired")
            self._expired(shell, self._open.pop(stimulus.reply_to, None))
        if self._open:
            for effect in effects:
                if isinstance(effect, msg.Answer | msg.ReplyError):
                    self._open.pop(effect.reply_to, None)
        if (
            isinstance(stimulus, msg.QueryArrived)
            and shell.role == FOLLOWER
            and stimulus.reply_to in self._open
        ):
            self._watch._mark("read waited for a position")

    def _expired(self, shell: WatchedShell, position_min: int | None) -> None:
        machine = shell.machine
        if position_min is None:
            return
        could_answer = (
            machine.phase is FollowerPhase.FOLLOWING and machine.position >= position_min
        )
        if could_answer or machine.phase in _AT_AN_END:
            self._watch.forgot(shell, position_min)


class ObservedKnock(NamedTuple):
    """One knock at a host's door, or the start of a process with a new door."""

    time: int
    """Nanoseconds, as in histories."""
    observer: str
    """The name of the process that knocked; empty at a start."""
    opens: bool


class KnockedDoors:
    """What observers have seen of hosts' doors."""

    def __init__(self) -> None:
        self.knocks: dict[str, list[ObservedKnock]] = {}
        """By host, in order."""
        self.coordinators: list[tuple[int, ProcessLife]] = []
        """When each coordinator was made (ns)."""

    def may_be_shut(self, host: str, until: int) -> bool:
        """Whether two observers had not come in at the host's door by then (ns)."""
        missed = [one for one in self.knocks.get(host, ()) if not one.opens]
        return len({one.observer for one in missed if one.time <= until}) > 1

    def is_open(self, host: str, until: int) -> bool:
        """Whether what was durable then was decided by one who knew that the door opens."""
        decided, seen = until - int(DOUBT_S * 1e9), set[str]()
        for time, observer, opens in self.knocks.get(host, ()):
            if time > until:
                break
            if not opens:
                return False
            if not observer:
                seen.clear()
            elif time <= decided:
                seen.add(observer)
        begun = [process for time, process in self.coordinators if time <= until]
        return all(one.name in seen for one in begun if one is begun[-1] or not one.is_dead)


def _new_door(clock: Clockwork) -> ObservedKnock:
    return ObservedKnock(clock.now * 1000, "", opens=True)


class WatchedOracle:
    """A leader oracle whose answers are noted."""

    def __init__(self, oracle: LeaderOracle, watch: ProcessWatch, clock: Clockwork) -> None:
        self._oracle, self._watch, self._clock = oracle, watch, clock

    async def leaders_of(
        self, partitions: Sequence[TopicIdPartition]
    ) -> list[LeaderVerdict | None]:
        asked = self._clock.now * 1000
        found = await self._oracle.leaders_of(partitions)
        for tip, verdict in zip(partitions, found, strict=True):
            if verdict is not None:
                self._watch.named.setdefault(PartitionKey.of(tip), []).append((asked, verdict))
        return found


_AT_AN_END = frozenset(
    {FollowerPhase.QUARANTINED, FollowerPhase.GONE, LeaderPhase.QUARANTINED, LeaderPhase.GONE}
)
"""Phases in which no question may wait."""

_OF_STORE: frozenset[type[Any]] = frozenset(
    {msg.AppendAnswered, msg.AppendRefused, msg.SlotRead, msg.ProbeFailed}
)

"""A host on virtual time: takes calls, and sends its shells' requests to the store.

It stands for `Host` of the service. Its machine decides what runs here, and when it loads.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Protocol, assert_never

from typing_extensions import override

from tierledger.actors import messages as msg
from tierledger.actors.calls import FOLLOWER, LEADER, PartitionKey, Placement, Refusal
from tierledger.actors.coordinator.evolve import HostWork
from tierledger.actors.follower import Follower, FollowerPhase
from tierledger.actors.host import messages as lives
from tierledger.actors.host.machine import HostMachine
from tierledger.actors.leader.machine import Leader, LeaderPhase
from tierledger.events import commands as cmd
from tierledger.events.errors import NotLeader, OutcomeUnknown, RemoteStorageError
from tierledger.simulation.machines.environment.clockwork import MS, ProcessLife
from tierledger.simulation.machines.nodes.pending import Op
from tierledger.simulation.machines.nodes.shell import Shell
from tierledger.simulation.machines.nodes.surroundings import Surroundings
from tierledger.simulation.machines.scenario.scenario import Scenario
from tierledger.storage.serde import MetadataSerDe

POLL = 1000 * MS
"""How often followers poll for new batches; hints of a leader on their host come sooner."""

QUERY_TIMEOUT = 900 * MS
"""How long a read waits for a follower to reach its position before it is refused."""

REPORT = 500 * MS
"""How often a host repeats its report of lost leaders and refused claims."""

CLOSE_LOOK, CLOSE_MAX = 20 * MS, 2000 * MS
"""How often a closing host checks whether all has ended, and how long it waits at most."""


class CallerOfHost(Protocol):
    """A broker's client, as hosts see it."""

    life: ProcessLife

    def is_forgotten(self, op: Op, /) -> bool: ...
    def answered(self, op: Op, attempt: int, value: Any, /) -> None: ...  # noqa: ANN401
    def reported_ready(self, number: int, claim: cmd.Claim, /) -> None: ...
    def host_gone(self, op: Op, attempt: int, /) -> None: ...


class CoordinatorOfHost(Protocol):
    """A coordinator, as hosts see it."""

    life: ProcessLife

    def work_taken(self, name: str, number: int, /) -> None: ...
    def take_report(
        self,
        host: HostNode,
        lost: tuple[tuple[PartitionKey, int], ...],
        refused: tuple[tuple[PartitionKey, Refusal], ...],
        /,
    ) -> None: ...


class HostNode:
    """A host's process, from its start to its end."""

    def __init__(
        self, world: HostWorld, life: ProcessLife, name: str, address: str, serde: MetadataSerDe
    ) -> None:
        self.world = world
        self.life = life
        self.name = name
        self.address = address
        self.serde = serde
        self.skew_ms = 0
        self.machine = HostMachine(life.name.encode())
        self.shells: dict[tuple[int, str], Shell] = {}
        self._lives: dict[int, Shell] = {}
        """The same shells, by the number of their life in the machine."""
        self._is_closed = False
        self.waiting: dict[int, tuple[CallerOfHost, Op, int]] = {}
        """Caller, call and attempt that wait for an answer, by the number of the reply."""
        self.waits_since: dict[int, int] = {}
        self._clock, self._medium, self._wires = world.clock, world.medium, world.wires
        self._mark = world.recording.mark
        self._replies = 0
        self._appends: list[tuple[Shell, int, bytes]] = []
        self._is_committing = False
        self._slots: list[tuple[Shell, int]] = []
        self._is_reading = False
        self._is_reporting = False

    def start(self) -> None:
        self._clock.after(POLL, self.life, self._poll)

    def now_ms(self) -> int:
        return self.world.now_ms() + self.skew_ms

    # Calls.

    def take_command(
        self, caller: CallerOfHost, op: Op, attempt: int, number: int, command: cmd.Command
    ) -> None:
        """Take an attempt of a write, unless it has arrived before or is far too late.

        Ray and HTTP/2 deliver a call at most once, and clients rely on that: if an attempt is
        refused for a full inbox, the client may conclude that it was not carried out.
        """
        if attempt in op.arrived or caller.is_forgotten(op):
            return
        op.arrived.add(attempt)
        shell = self.shells.get((number, LEADER))
        if shell is None:
            error = NotLeader(f"{self.name} does not lead partition {number}")
            self._wires.send(self.life, caller.life, caller.answered, op, attempt, error)
            return
        reply_to = self._expect(caller, op, attempt)
        shell.feed(msg.CommandArrived(reply_to, command, self.now_ms()))

    def take_query(
        self,
        caller: CallerOfHost,
        op: Op,
        attempt: int,
        number: int,
        role: str,
        query: msg.Query,
        position_min: int,
    ) -> None:
        shell = self.shells.get((number, role))
        if shell is None:
            error = NotLeader(f"{self.name} has no {role} of partition {number}")
            self._wires.send(self.life, caller.life, caller.answered, op, attempt, error)
            return
        reply_to = self._expect(caller, op, attempt)
        shell.feed(msg.QueryArrived(reply_to, query, position_min))
        if role == FOLLOWER and reply_to in self.waiting:
            self._mark("read waited for a position")
            self._clock.after(QUERY_TIMEOUT, self.life, self._expire, shell, reply_to)

    def take_ready(
        self, caller: CallerOfHost, number: int, role: str, claim: cmd.Claim
    ) -> None:
        """Answer the caller if the replica here is ready for `claim`; see `Host._is_ready`."""
        shell = self.shells.get((number, role))
        if shell is None:
            return
        machine = shell.machine
        if isinstance(machine, Leader):
            is_ready = machine.holds(claim)
        else:
            is_ready = machine.is_ready_for(claim)
        if is_ready:
            self.world.observer.was_ready(shell, claim)
            self._wires.send(self.life, caller.life, caller.reported_ready, number, claim)

    def _expire(self, shell: Shell, reply_to: int) -> None:
        if reply_to in self.waiting:
            self._mark("read expired")
            shell.feed(msg.QueryExpired(reply_to))

    def _expect(self, caller: CallerOfHost, op: Op, attempt: int) -> int:
        self._replies += 1
        self.waiting[self._replies] = (caller, op, attempt)
        self.waits_since[self._replies] = self._clock.now
        return self._replies

    def reply(self, reply_to: msg.ReplyTo, value: object) -> None:
        """Answer the caller that waits under `reply_to`; a second answer is dropped."""
        if reply_to is None:
            return
        self.waits_since.pop(reply_to, None)
        waiting = self.waiting.pop(reply_to, None)
        if waiting is not None:
            caller, op, attempt = waiting
            self._wires.send(self.life, caller.life, caller.answered, op, attempt, value)

    # Placements.

    def take_work(self, coordinator: CoordinatorOfHost, number: int, work: HostWork) -> None:
        """Carry out the coordinator's orders, and acknowledge them."""
        for close in work.closes:
            self.hear(lives.BrokerLeft(close, self.now_ms()))
        for placement in work.placements:
            self.place(placement)
        self._wires.send(self.life, coordinator.life, coordinator.work_taken, self.name, number)

    def place(self, placement: Placement) -> None:
        """Take a partition on, change its claim, or release it."""
        self.hear(lives.Placed(placement, self.now_ms()))

    def close(self) -> None:
        """Stop everything in good order, and end; see `Host.close`."""
        self.hear(lives.CloseArrived(self.now_ms()))
        self._clock.after(CLOSE_LOOK, self.life, self._closed, self._clock.now + CLOSE_MAX)

    def _closed(self, until: int) -> None:
        if not self._is_closed and self._clock.now < until:
            self._clock.after(CLOSE_LOOK, self.life, self._closed, until)
        else:
            self.world.kill(self.life)

    # The machine.

    def hear(self, stimulus: lives.Stimulus) -> None:
        """Let the host's machine handle `stimulus`, and carry out what it calls for."""
        for effect in self.machine.handle(stimulus):
            self._carry_out(effect)
        if self.machine.lost or self.machine.refused:
            self._report()

    def _carry_out(self, effect: lives.Effect) -> None:
        match effect:
            case lives.Begin():
                self._begin(effect)
            case lives.Load(life=number):
                self._lives[number].load()
            case lives.Feed(life=number, stimulus=stimulus):
                self._lives[number].feed(stimulus)
            case lives.Drop(life=number):
                shell = self._lives.pop(number)
                del self.shells[shell.number, shell.role]
                if shell.role == FOLLOWER:
                    self.world.recording.moment(
                        self.life.name, "unfollow", "", None, shell.number
                    )
            case lives.Closed():
                self._is_closed = True
            case msg.ReplyError(reply_to=reply_to, error=error):
                self.reply(reply_to, error)
            case _:
                assert_never(effect)

    def _begin(self, begin: lives.Begin) -> None:
        number, role = begin.topic_id_partition.partition, begin.role
        machine: Leader | Follower = (
            Follower(self.serde)
            if begin.claim is None
            else Leader(self.serde, self.world.limits, begin.claim)
        )
        shell = Shell(self, role, number, machine, begin.life)
        self._lives[begin.life] = self.shells[number, role] = shell
        if role == FOLLOWER:
            self.world.recording.moment(self.life.name, "follow", "", None, number)
        if role == LEADER and (number, FOLLOWER) in self.shells:
            self._mark("leader placed beside its follower")

    # Requests to the store: those that wait are sent together, as one request.

    def append(self, shell: Shell, number: int, value: bytes) -> None:
        """Append a batch, in one commit with all other batches that wait."""
        self.world.passes("append", self.life)
        self._appends.append((shell, number, value))
        if not self._is_committing:
            self._is_committing = True
            self._commit()

    def _commit(self) -> None:
        appends, self._appends = self._appends, []
        if len(appends) > 1:
            self._mark("several partitions in one commit")
        items = [((shell.number, number), value) for shell, number, value in appends]
        self._medium.create(self.life, items, self._committed, appends)

    def _committed(self, result: Any, appends: list[tuple[Shell, int, bytes]]) -> None:  # noqa: ANN401
        for at, (shell, number, _) in enumerate(appends):
            stimulus: msg.Stimulus
            if isinstance(result, OutcomeUnknown):
                stimulus = msg.AppendAnswered(number, msg.AppendOutcome.UNKNOWN)
            elif isinstance(result, RemoteStorageError):
                stimulus = msg.AppendRefused(number, result)
            else:
                stimulus = msg.AppendAnswered(number, msg.AppendOutcome(result[at].value))
            self._outcome(shell, stimulus)
        self._is_committing = bool(self._appends)
        if self._appends:
            self._commit()

    def _outcome(self, shell: Shell, stimulus: msg.Stimulus) -> None:
        leader = shell.machine
        if not isinstance(leader, Leader):
            shell.feed(stimulus)
            return
        before = leader.position
        had_claimed = leader._has_claimed
        shell.feed(stimulus)
        self.world.observer.leader_heard(shell, stimulus, before, had_claimed=had_claimed)

    def look(self, shell: Shell, number: int) -> None:
        """Read a slot, in one request with all other slots that wait."""
        self._slots.append((shell, number))
        if not self._is_reading:
            self._is_reading = True
            self._read_slots()

    def _read_slots(self) -> None:
        slots, self._slots = self._slots, []
        wanted = [(shell.number, number) for shell, number in slots]
        self._medium.read_slots(self.life, wanted, self._slots_read, slots)

    def _slots_read(self, result: Any, slots: list[tuple[Shell, int]]) -> None:  # noqa: ANN401
        for at, (shell, number) in enumerate(slots):
            stimulus: msg.Stimulus
            if isinstance(result, RemoteStorageError):
                stimulus = msg.ProbeFailed(number, result)
                self._mark("probe failed")
            else:
                stimulus = msg.SlotRead(number, result[at])
            self._outcome(shell, stimulus)
        self._is_reading = bool(self._slots)
        if self._slots:
            self._read_slots()

    # Periodic work.

    def _poll(self) -> None:
        followers = [
            shell
            for (_, role), shell in self.shells.items()
            if role == FOLLOWER and shell.machine.state is not None
        ]
        if followers:
            slots = [(shell.number, shell.machine.next_batch) for shell in followers]
            self._medium.read_slots(self.life, slots, self._polled, followers)
        self._clock.after(POLL, self.life, self._poll)

    def _polled(self, result: Any, followers: list[Shell]) -> None:  # noqa: ANN401
        if isinstance(result, RemoteStorageError):
            return
        for shell, value in zip(followers, result, strict=True):
            if value is not None:
                self.hint(shell)

    def hint(self, shell: Shell) -> None:
        """Let a follower read the batches that were appended."""
        shell.feed(msg.HintArrived(shell.machine.position + 1))

    def _report(self) -> None:
        if not self._is_reporting:
            self._is_reporting = True
            self._send_report()

    def _send_report(self) -> None:
        machine = self.machine
        if not (machine.lost or machine.refused):
            self._is_reporting = False
            return
        coordinator = self.world.coordinator
        if coordinator is not None:
            self._wires.send(
                self.life, coordinator.life, coordinator.take_report,
                self, tuple(machine.lost.items()), tuple(machine.refused.items()),
            )  # fmt: skip
        self._clock.after(REPORT, self.life, self._send_report)

    def behind(self) -> list[PartitionKey]:
        """Partitions whose follower here has not caught up yet."""
        return self.machine.behind(
            lambda number: self._lives[number].machine.phase is FollowerPhase.LOADING
        )

    def believes_to_lead(self, number: int) -> bool:
        shell = self.shells.get((number, LEADER))
        if shell is None:
            return False
        machine = shell.machine
        return machine.phase is LeaderPhase.LEADING and machine._has_claimed


class HostWorld(Surroundings):
    """The hosts of a world."""

    def __init__(self, scenario: Scenario, *, keeps: bool) -> None:
        super().__init__(scenario, keeps=keeps)
        self.hosts: dict[str, HostNode] = {}
        """By address; they include hosts that have ended."""
        self.upgraded: set[str] = set(scenario.upgraded)

    @property
    @abstractmethod
    def coordinator(self) -> CoordinatorOfHost | None:
        """The coordinator that a process found last; None if none was started yet."""

    def launch(self, name: str, address: str) -> HostNode | None:
        """The process at `address`, started if there was none; None: it cannot be reached."""
        known = self.hosts.get(address)
        if known is not None:
            return known if known.life.is_reachable else None
        life = self.new_life(name)
        serde = self.newer_serde if name in self.upgraded or self.is_healing else self.serde
        if serde is self.serde and name in self.scenario.outdated:
            serde = self.older_serde
        host = self.hosts[address] = HostNode(self, life, name, address, serde)
        host.skew_ms = self.scenario.skews_ms[life.number % len(self.scenario.skews_ms)]
        host.start()
        return host

    def host_at(self, address: str) -> HostNode | None:
        """The process at `address`, if it can be reached."""
        host = self.hosts.get(address)
        return host if host is not None and host.life.is_reachable else None

    def node_of(self, life: ProcessLife) -> HostNode | None:
        for host in self.hosts.values():
            if host.life is life:
                return host
        return None

    def leading(self, number: int) -> HostNode | None:
        """The newest host that can be reached and believes that it leads the partition."""
        for host in reversed(list(self.hosts.values())):
            if host.life.is_reachable and host.believes_to_lead(number):
                return host
        return None

    @override
    def leading_elsewhere(self, number: int, life: ProcessLife) -> int:
        return sum(
            other.life is not life and not other.life.is_dead and other.believes_to_lead(number)
            for other in self.hosts.values()
        )

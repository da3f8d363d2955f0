"""What decisions strike: a world of processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from tierledger.actors.calls import PartitionKey, Placement
from tierledger.actors.holds import Hold
from tierledger.actors.messages import Query
from tierledger.events.commands import ImportedRecord, LeaderVerdict
from tierledger.events.errors import RemoteStorageError
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.kafka.codec import KafkaValue
from tierledger.simulation.history.calls import Recorder
from tierledger.simulation.machines.environment.clockwork import Clockwork, ProcessLife
from tierledger.simulation.machines.environment.medium import REFUSE, Medium
from tierledger.simulation.machines.environment.recording import Recording
from tierledger.simulation.machines.environment.tier import WorldTier
from tierledger.simulation.machines.environment.wires import Wires
from tierledger.simulation.machines.scenario.scenario import Scenario
from tierledger.storage.keys import MetadataKeyFactory

RECORDED_MS = 1_500_000_000_000
"""The time of the history that importers import (ms): long before any world begins."""

Heard = Callable[[RemoteStorageError | None], None]
"""What is called when a call ends, with its error."""


class StruckCaller(Protocol):
    """One who makes one call after the other."""

    is_busy: bool


class StruckBroker(Protocol):
    """A process of a broker."""

    broker_id: int
    led: dict[int, int]

    @property
    def life(self) -> ProcessLife: ...
    @property
    def import_cluster(self) -> str | None:
        """The cluster whose recorded history this importer imports; None for a broker."""
        ...

    @property
    def has_unannounced(self) -> bool: ...
    def caller(self, partition: int, number: int, what: str) -> StruckCaller: ...
    def write(
        self,
        partition: int,
        caller: Any,  # noqa: ANN401 - One of its own.
        wanted: KafkaValue,
        what: str,
        then: Heard,
        /,
    ) -> None: ...
    def read(
        self,
        partition: int,
        caller: Any,  # noqa: ANN401 - One of its own.
        role: str,
        query: Query,
        then: Heard,
        /,
    ) -> None: ...
    def erase(
        self,
        partition: int,
        caller: Any,  # noqa: ANN401 - One of its own.
        segment_id: bytes,
        then: Heard,
        /,
    ) -> None:
        """Delete the data of a segment whose deletion this broker has begun."""
        ...

    def delete_topic(self, partition: int) -> None:
        """Delete all segments of a partition whose topic is deleted, as far as it goes."""
        ...

    def import_records(
        self,
        partition: int,
        caller: Any,  # noqa: ANN401 - One of its own.
        records: tuple[ImportedRecord, ...],
        then: Heard,
        /,
    ) -> None: ...
    def notify(
        self, leads: dict[int, int], follows: list[int], stops: list[int], carries_epochs: bool
    ) -> None: ...


class StruckCopiers(Protocol):
    """What brokers have copied."""

    def copy_once(
        self,
        broker: Any,  # noqa: ANN401 - One of its own.
        partition: int,
        caller: int,
        operation: str,
        draw: int,
    ) -> None: ...


class StruckController(Protocol):
    """Kafka's controller."""

    leader: dict[int, int]
    epoch: dict[int, int]
    gone: set[int]

    def delete_topic(self, number: int, successor: int | None) -> None: ...
    def elect(
        self, number: int, pick: int, delays: tuple[int, int], *, clean: bool
    ) -> None: ...
    def move(self, number: int, pick: int, back: int) -> None: ...
    def release(self, number: int, back: int) -> None: ...
    def notify(self, broker_id: int, delay: int) -> None: ...


class StruckStreams(Protocol):
    """The streams to hosts' doors."""

    slow_until: dict[str, int]
    """By the site of a client: until when (us) it pauses before each frame it reads."""

    def break_client(self, site: str, *, silently: bool, server_first: bool) -> None: ...
    def shut_out(self, client: str, until: float) -> None: ...
    def before_written(self, client: str, then: Callable[[], None]) -> None: ...
    def close_door(self, host: str) -> None: ...


class StruckOperator(Protocol):
    """One who gives the service's commands."""

    def place(self, hold: Hold, /) -> None: ...
    def release(self, name: str, /) -> None: ...
    def replace(self, host: str, /) -> None: ...


class Struck(Protocol):
    """A world, as decisions strike it; brokers and Kafka's controller live in it, too."""

    scenario: Scenario
    clock: Clockwork
    recording: Recording
    recorder: Recorder
    wires: Wires
    medium: Medium
    verdicts: dict[int, list[LeaderVerdict]]
    """By partition, all leaders that were elected; the last is the true one."""
    written: dict[tuple[int, int], int]
    """By broker and partition, when its last write that succeeded had begun (us)."""
    deletions: dict[int, int]
    """By partition, how many steps of its deletion have succeeded."""
    damaged: set[int]
    fuses: set[tuple[str, str]]
    """Sites and points; the process that next gets there is killed."""
    dozes: dict[tuple[str, str], int]
    """By site and point, how long (us) the process pauses that next gets there."""
    outages: dict[str, int]
    """By point, how long (us) the process that next gets there cannot reach the store."""
    lies: list[int]
    """Indexes of earlier orders that coordinators are to add to their next ones."""
    struck: int | None
    """The index of the decision that strikes now."""
    calls_of: dict[int, list[int]]
    """By a decision's index in the scenario, the numbers of the calls it made at once."""
    is_healing: bool
    is_well: bool

    tier: WorldTier

    @property
    def operator(self) -> StruckOperator: ...
    def wall_ms(self) -> int:
        """The world's time of day (ms)."""
        ...

    def release_kept(self) -> None:
        """Let the operator let go of all that is kept until somebody says so."""

    @property
    def copiers(self) -> StruckCopiers: ...
    @property
    def controller(self) -> StruckController: ...
    @property
    def tips(self) -> Sequence[TopicIdPartition]: ...
    @property
    def keys(self) -> MetadataKeyFactory: ...
    @property
    def keys_of(self) -> Sequence[PartitionKey]: ...
    @property
    def lives(self) -> Sequence[ProcessLife]: ...
    @property
    def brokers(self) -> Mapping[int, StruckBroker]: ...
    @property
    def broker_lives(self) -> Sequence[StruckBroker]: ...
    @property
    def all_brokers(self) -> Sequence[StruckBroker]:
        """All processes that announce roles: the newest one of each broker, and importers."""
        ...

    @property
    def host_lives(self) -> Sequence[ProcessLife]:
        """The processes of hosts that have not ended."""
        ...

    def batches(self, number: int) -> Sequence[bytes]:
        """The batches that were written to a partition's log, as readers get them."""
        ...

    def damage(self, number: int, at: int, value: bytes) -> None:
        """Let readers get `value` in a slot of a partition's log, whatever is there."""

    def settled(self) -> None:
        """Note that from now on every true leader has to be able to write."""

    def at_site(self, site: str) -> ProcessLife | None:
        """The newest life at `site` that can be reached."""
        ...

    def leader_life(self, number: int) -> ProcessLife | None:
        """The newest host that can be reached and believes that it leads the partition."""
        ...

    def following(self, number: int) -> ProcessLife | None:
        """The first host that can be reached and has a follower of the partition."""
        ...

    def kill(self, life: ProcessLife) -> None: ...
    def pause(self, life: ProcessLife, duration: int) -> None: ...
    def cut_off(self, life: ProcessLife) -> bool:
        """Let all others believe a process dead, while it goes on; false if that may not be."""
        ...

    def suspect(self, life: ProcessLife) -> None:
        """Let the coordinators believe that a host is dead."""

    def mute(self, life: ProcessLife, until: int) -> None:
        """Lose what a host sends to brokers until then (us)."""

    def close(self, life: ProcessLife) -> None:
        """Ask a host to end in good order."""

    def step_clock(self, life: ProcessLife, by_ms: int) -> bool: ...
    def hint(self, life: ProcessLife, number: int) -> None:
        """Let a host's follower of the partition read what was appended."""

    def placements(self) -> list[Placement]:
        """The placements that hosts were sent, in order, but for some that may not go wrong."""
        ...

    def place(self, life: ProcessLife, placement: Placement) -> None:
        """Let a host get a placement that no coordinator sends it now."""

    def move_leader(self, number: int, pick: int) -> ProcessLife | None:
        """Let a coordinator place a leader elsewhere without cause; returns the new host.

        The old one is not notified.
        """
        ...

    def restart_broker(self, broker_id: int) -> None:
        """Start a new process of a broker, and let the controller notify it of its roles."""

    def start_importing(self, number: int, cluster: str) -> StruckBroker:
        """Start a process of an importer of that cluster's history; `number`: its broker id."""
        ...

    def start_import(self, partition: int, history: int, count: int) -> None:
        """Start an importer: a further broker that imports recorded history and then stops."""

    @property
    def streams(self) -> StruckStreams: ...
    def serves(self, life: ProcessLife) -> bool:
        """Whether a host has been given any partition."""
        ...

    def freeze(self, life: ProcessLife) -> None:
        """Pause a process for good: it does not go on when all heals."""

    def burn(self, life: ProcessLife, steps: int) -> None:
        """Kill a process after so many of its steps."""


def passes(world: Struck, point: str, life: ProcessLife) -> None:
    """Let a fault that is due at `point` strike a process that has got there."""
    if world.dozes and (length := world.dozes.pop((life.site, point), 0)):
        world.recording.mark(f"doze: {point}")
        world.pause(life, length)
    if world.fuses and (life.site, point) in world.fuses:
        world.fuses.discard((life.site, point))
        world.recording.mark(f"crash: {point}")
        world.kill(life)
    if world.outages and (length := world.outages.pop(point, 0)):
        world.recording.mark(f"store away: {point}")
        world.medium.cut_off(life.site, world.clock.now + length, REFUSE)


def whole(world: Struck) -> list[int]:
    """Partitions that are neither damaged nor being deleted."""
    return [
        number
        for number in world.controller.leader
        if number not in world.damaged
        and number not in world.controller.gone
        and not world.deletions.get(number)
    ]

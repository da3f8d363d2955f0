"""A coordinator on virtual time: its own log, the rules of `actors.coordinator`, and hosts.

What `CoordinatorService`, `CoordinatorLog` and `Fleet` are in the service, without their tasks:
one request after the other is decided, stored, and told to whom it concerns.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from tierledger.actors import coordinator as rules
from tierledger.actors import coordinator_events as ev
from tierledger.actors import coordinator_placement as placement
from tierledger.actors.calls import PartitionKey
from tierledger.actors.coordinator_events import COORDINATOR_CODEC
from tierledger.actors.coordinator_state import CoordinatorState
from tierledger.actors.refusals import Refusal, leader_refused
from tierledger.events.errors import OutcomeUnknown, RemoteStorageError
from tierledger.events.event_codec import chain, genesis
from tierledger.events.log_events import Event
from tierledger.simulation.machines.clockwork import MS, S
from tierledger.simulation.machines.fleet import Fleet
from tierledger.simulation.machines.medium import COORDINATOR
from tierledger.storage.backend import CreateOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tierledger.actors.coordinator import HostWork
    from tierledger.actors.coordinator_events import Announcement, CoordinatorBody
    from tierledger.simulation.machines.broker_node import BrokerNode
    from tierledger.simulation.machines.clockwork import Life
    from tierledger.simulation.machines.host_node import HostNode
    from tierledger.simulation.machines.world import World

RETRY = 50 * MS
DOUBT = 5 * S
"""How long the slot of an append without an answer is looked at before its caller hears so."""

BATCHES_PER_READ = 500

LOG_INTERVAL = 2 * S
"""How often a coordinator looks for what another one has appended."""


class Request:
    """Something to decide on, and who hears of it."""

    __slots__ = ("decide", "done", "doubt_until", "seen_end", "value")

    def __init__(
        self,
        decide: Callable[[CoordinatorState], list[CoordinatorBody]],
        done: Callable[[RemoteStorageError | None], None] | None = None,
    ) -> None:
        self.decide = decide
        self.done = done
        self.value = b""
        self.doubt_until = 0
        self.seen_end = -1
        """The slot that was free when the log was last read for this."""
        """When its caller hears that nobody knows; 0 as long as no append went unanswered."""


class CoordinatorNode:
    """One life of the coordinator. Any number of them may live at a time."""

    def __init__(self, world: World, life: Life) -> None:
        self.world = world
        self.life = life
        self.state = CoordinatorState(genesis(world.cluster_id, b"coordinator", 0))
        self.fleet = Fleet(self)
        self._clock, self._medium, self._wires = world.clock, world.medium, world.wires
        self._mark = world.recording.mark
        self._serde = world.serde
        self._next_batch = 0
        self._is_busy = True
        self._is_started = False
        self._queue: deque[Request] = deque()
        self._works: list[HostWork] = []

    def start(self) -> None:
        """Read the log, and let everybody take up what they had."""
        self._read_on(None)

    # Requests.

    def take_register(
        self, caller: BrokerNode, token: int, broker_id: int, request: bytes, after: int
    ) -> None:
        """A new incarnation for a broker."""

        def decide(state: CoordinatorState) -> list[CoordinatorBody]:
            return rules.register(state, broker_id, request, after)

        def done(error: RemoteStorageError | None) -> None:
            said = error or rules.registered(self.state, broker_id, request)
            self._answer(caller, token, said)

        self._put(Request(decide, done))

    def take_announce(self, caller: BrokerNode, token: int, given: Announcement) -> None:
        """A broker's word on what it leads and follows."""

        def done(error: RemoteStorageError | None) -> None:
            self._answer(caller, token, error or rules.hear(self.state, given))

        self._put(Request(lambda state: rules.announce(state, given), done))

    def take_route(self, caller: BrokerNode, token: int, numbers: Sequence[int]) -> None:
        """Where partitions are served."""
        if not self._is_started:
            return  # Who asked asks again.
        keys = [self.world.keys_of[number] for number in numbers]
        self._answer(caller, token, [self.state.route(key) for key in keys])

    def _answer(self, caller: BrokerNode, token: int, value: object) -> None:
        self._wires.send(self.life, caller.life, caller.coordinated, token, value)

    def take_report(
        self,
        host: str,
        lost: Sequence[tuple[int, int]],
        refused: Sequence[tuple[int, Refusal]],
    ) -> None:
        """A host's word on leaders that ended there and claims that did not get to lead."""
        for number, assignment in lost:
            key = self.world.keys_of[number]
            self._note(partial(_lost_leader, host, key, assignment))
        for number, refusal in refused:
            key = self.world.keys_of[number]
            self.world.refusals.add((host, number, refusal.assignment))
            self._note(partial(_refused_leader, host, key, refusal))
        if self.state.unplaced or self.state.together:
            self.nudge()

    def _note(self, decide: Callable[[CoordinatorState], list[CoordinatorBody]]) -> None:
        if decide(self.state):
            self._put(Request(decide))

    def _put(self, request: Request) -> None:
        self._queue.append(request)
        self.nudge()

    def nudge(self) -> None:
        """See whether there is something to do."""
        if not self._is_busy:
            self._is_busy = True
            self._clock.after(0, self.life, self._next)

    # The log.

    def _next(self) -> None:
        """Decide on the next request, or place what has no place."""
        state = self.state
        while self._queue:
            request = self._queue.popleft()
            refusal: RemoteStorageError | None = None
            try:
                bodies = request.decide(state)
            except RemoteStorageError as error:
                bodies, refusal = [], error
            if bodies:
                self._append(request, bodies)
                return
            if request.done is None:
                continue
            if request.seen_end != self._next_batch:
                # What appends nothing is a read, and is said at the end of the log only.
                self._read_on(request)
                return
            request.done(refusal)
        bodies = self._placements(state)
        if bodies:
            self._append(Request(self._placements), bodies)
            return
        self._is_busy = False
        self.fleet.supply()

    def _placements(self, state: CoordinatorState) -> list[CoordinatorBody]:
        behind = {
            self.world.keys_of[number]
            for host in self.fleet.running.values()
            for number in host.behind()
        }
        return placement.place(state, self.world.scenario.partitions_per_host, behind)

    def _append(self, request: Request, bodies: Sequence[CoordinatorBody]) -> None:
        position, previous = self.state.next_position, self.state.chain_hash
        stored = []
        for offset, body in enumerate(bodies):
            event = Event(
                position + offset,
                0,
                self.world.now_ms(),
                -1,
                self.life.name.encode(),
                body,  # type: ignore[arg-type]
            )
            stored.append(COORDINATOR_CODEC.encode(event, previous))
            previous = chain(stored[-1])
        request.value = self._serde.serialize("batch", [position, len(stored), stored])
        self._send(request)

    def _send(self, request: Request) -> None:
        slot = (COORDINATOR, self._next_batch)
        self._medium.create(self.life, [(slot, request.value)], self._created, request)

    def _created(self, result: Any, request: Request) -> None:  # noqa: ANN401
        if isinstance(result, RemoteStorageError):
            is_unknown = isinstance(result, OutcomeUnknown)
            if not is_unknown and not request.doubt_until:
                self._failed(request, result)
                return
            request.doubt_until = request.doubt_until or self._clock.now + DOUBT
            self._mark("coordinator's append in doubt")
            self._clock.after(RETRY, self.life, self._look, request)
        elif result[0] is CreateOutcome.CREATED:
            self._stored(request)
        elif request.doubt_until:
            self._look(request)
        else:
            self._overtaken(request)

    def _look(self, request: Request) -> None:
        slot = (COORDINATOR, self._next_batch)
        self._medium.read_slots(self.life, [slot], self._looked, request)

    def _looked(self, result: Any, request: Request) -> None:  # noqa: ANN401
        if not isinstance(result, RemoteStorageError):
            if result[0] == request.value:
                self._stored(request)
                return
            if result[0] is not None:
                self._overtaken(request)
                return
        if self._clock.now > request.doubt_until:
            self._failed(request, OutcomeUnknown("the coordinator's append is in doubt"))
        elif isinstance(result, RemoteStorageError):
            self._clock.after(RETRY, self.life, self._look, request)
        else:
            self._send(request)  # The same content, the same slot.

    def _failed(self, request: Request, error: RemoteStorageError) -> None:
        if request.done is not None:
            request.done(error)
        elif request.decide != self._placements:
            self._clock.after(RETRY, self.life, self._put, Request(request.decide))
        self._clock.after(RETRY, self.life, self._next)

    def _stored(self, request: Request) -> None:
        self._evolve(request.value)
        self.world.passes("coordinated", self.life)
        if self.life.is_dead:
            return
        self._tell()
        if request.done is not None:
            request.done(None)
        self._next()

    def _overtaken(self, request: Request) -> None:
        self._mark("coordinator lost a race for its log")
        request.doubt_until = 0
        self._read_on(request)

    def _read_on(self, request: Request | None) -> None:
        slot = (COORDINATOR, self._next_batch)
        self._medium.read_log(self.life, slot, BATCHES_PER_READ, self._read, request)

    def _read(self, result: Any, request: Request | None) -> None:  # noqa: ANN401
        if isinstance(result, RemoteStorageError):
            self._clock.after(RETRY, self.life, self._read_on, request)
            return
        for value in result:
            self._evolve(value)
        slot, waiting = (COORDINATOR, self._next_batch), tuple(self._queue)
        self._medium.read_slots(self.life, [slot], self._end_read, request, waiting)

    def _end_read(
        self,
        result: Any,  # noqa: ANN401
        request: Request | None,
        waiting: Sequence[Request],
    ) -> None:
        """A list may be behind; only a free slot is the end, for all who waited by then."""
        if isinstance(result, RemoteStorageError) or result[0] is not None:
            self._clock.after(RETRY, self.life, self._read_on, request)
            return
        if request is not None:
            for one in (request, *waiting):
                one.seen_end = self._next_batch
            self._tell()
            if request.decide != self._placements:
                self._queue.appendleft(request)
            self._next()
        elif not self._is_started:
            self._works.clear()  # It is repeated as standing work.
            self._is_started = True
            self._clock.after(LOG_INTERVAL, self.life, self._look_on)
            for name in list(self.state.hosts):
                self.fleet.adopt(name)
            self._next()

    def _look_on(self) -> None:
        """See whether another coordinator has appended something; see `CoordinatorService`."""
        if not self._is_busy:
            self._medium.read_slots(
                self.life, [(COORDINATOR, self._next_batch)], self._looked_on
            )
        self._clock.after(LOG_INTERVAL, self.life, self._look_on)

    def _looked_on(self, result: Any) -> None:  # noqa: ANN401
        if isinstance(result, RemoteStorageError) or result[0] is None or self._is_busy:
            return
        self._mark("coordinator read what another had written")
        self._is_busy = True
        self._read_on(Request(_nothing))

    def _evolve(self, value: bytes) -> None:
        state = self.state
        _, _, stored = self._serde.deserialize("batch", value)
        events, state.chain_hash = COORDINATOR_CODEC.decode(
            stored, state.next_position, state.chain_hash
        )
        self._next_batch += 1
        for event in events:
            # Strictly: nothing here writes what would have to be set aside.
            self._works += rules.evolve_strictly(state, event)
            body: object = event.body
            if isinstance(body, ev.LeaderRestored):
                key = PartitionKey(body.topic_id, body.partition)
                if state.partitions[key].formers:
                    self._mark("several claims stood again")

    def move_leader(self, number: int, host: str) -> None:
        """Place a partition's leader elsewhere, for no reason; the one there hears nothing."""
        key = self.world.keys_of[number]

        def decide(state: CoordinatorState) -> list[CoordinatorBody]:
            entry = state.partitions.get(key)
            if entry is None or entry.leadership is None or host not in state.hosts:
                return []
            self.world.moved.add(state.assignment + 1)
            return [ev.LeadersPlaced(host, ((*key, state.assignment + 1),))]

        self._put(Request(decide))

    # Hosts.

    def _tell(self) -> None:
        works, self._works = self._works, []
        for name, process in list(self.state.hosts.items()):
            self.fleet.follow(name, process)
        self.fleet.tell(works)

    def work_taken(self, name: str, number: int) -> None:
        """A host has heard what it was told."""
        self.fleet.taken(name, number)

    def suspect(self, life: Life) -> None:
        """Pings of a process go unanswered: it is replaced, dead or not."""
        if self._is_started:  # Else it finds out when it starts.
            self.fleet.give_up(life)
            self.lost(life.site, life.name)

    def lost(self, name: str, process: str) -> None:
        """A process serves no more."""
        self._note(partial(_lost_host, name, process))

    def joined(self, host: HostNode) -> None:
        """A process serves from now on."""
        name, process, address = host.name, host.life.name, host.address
        self._put(Request(lambda state: rules.host_started(state, name, process, address)))


def _nothing(_: CoordinatorState) -> list[CoordinatorBody]:
    return []


def _lost_leader(
    host: str, key: PartitionKey, assignment: int, state: CoordinatorState
) -> list[CoordinatorBody]:
    return rules.leader_lost(state, key, assignment, host)


def _refused_leader(
    host: str, key: PartitionKey, refusal: Refusal, state: CoordinatorState
) -> list[CoordinatorBody]:
    return leader_refused(state, key, refusal, host)


def _lost_host(name: str, process: str, state: CoordinatorState) -> list[CoordinatorBody]:
    return rules.host_lost(state, name, process)

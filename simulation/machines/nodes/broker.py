"""A broker and its client on virtual time: announcements, calls with retries, seen positions.

It stands for `AsyncRemoteLogMetadataManager`, `Roles` and `Router` of the service, and obeys
their rules of retries, routes and open writes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from typing import Any

from tierledger.actors.calls import FOLLOWER, LEADER
from tierledger.actors.client.open_writes import OpenWrites
from tierledger.actors.coordinator.events import Announcement, LeaderItem, Route
from tierledger.actors.coordinator.ownership import PluginMode
from tierledger.actors.messages import Query
from tierledger.events import commands as cmd
from tierledger.events.errors import (
    Fenced,
    NotReady,
    OutcomeUnknown,
    Overloaded,
    RemoteStorageError,
    RetryableError,
)
from tierledger.events.kafka.codec import KafkaValue
from tierledger.events.log_events import Origin
from tierledger.events.metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)
from tierledger.simulation.history.calls import INFO, READ, WRITE, digest_of, outcome_of
from tierledger.simulation.machines.environment.clockwork import MS, ProcessLife, S
from tierledger.simulation.machines.nodes.coordinator import CoordinatorNode
from tierledger.simulation.machines.nodes.host import HostWorld
from tierledger.simulation.machines.nodes.pending import Asked, Caller, Op
from tierledger.simulation.machines.struck import RECORDED_MS

ATTEMPT = 400 * MS
"""How long a client waits for an answer of the coordinator before it retries."""

DEADLINE = 2 * S
"""Half of the time after which a request to the coordinator is no longer retried."""

HEALED_PATIENCE = 2 * S

READY_FIRST, READY_LAST = 60 * MS, 1000 * MS
"""Pauses before a replica is asked again whether it is ready; they double up to the last."""

AGAIN_FIRST, AGAIN_LAST = 100 * MS, 800 * MS
"""Pauses before a refused claim is announced again; they double up to the last."""


class BrokerWorld(HostWorld):
    """The world, as brokers see it."""

    @abstractmethod
    def coordinator_node(self) -> CoordinatorNode:
        """The coordinator that processes find; a new one if none can be reached."""

    @abstractmethod
    def broker_fenced(self, broker: BrokerNode, pair: tuple[int, int]) -> None:
        """Note that `broker` was fenced, and restart it if it is the newest process.

        The newest process is fenced if an older one has registered after it; an operator would
        restart it. `pair`: its incarnation, and the number of its announcement.
        """


class BrokerNode:
    """A broker's process with its client, from its start to its end."""

    def __init__(
        self,
        world: BrokerWorld,
        life: ProcessLife,
        broker_id: int,
        *,
        import_cluster: str | None = None,
    ) -> None:
        self.world = world
        self.life = life
        self.broker_id = broker_id
        self.import_cluster = import_cluster
        """The cluster whose recorded history this importer imports; None for a broker."""
        self.is_fenced = False
        self.claims: dict[int, tuple[str, cmd.Claim]] = {}
        """By partition, the role and the claim in force, as the coordinator last answered."""
        self.led: dict[int, int] = {}
        """By partition that this broker believes it leads, the epoch it was notified of."""
        self.seen: dict[int, int] = {}
        self.ready: dict[int, tuple[cmd.Claim, int]] = {}
        """By partition, the claim for which its replica last reported ready, and when (us)."""
        self._clock, self._wires = world.clock, world.wires
        self._mark = world.recording.mark
        self._incarnation: int | None = None
        self._newest = 0
        """The newest incarnation of its broker that a refused registration named."""
        self._announcements = 0
        self._notifications: deque[tuple[Any, ...]] = deque()
        self._notified: Counter[int] = Counter()
        """By partition, the number of notifications; a newer one cancels a planned repeat."""
        self._refusals: dict[int, int] = {}
        """By partition, how often in a row its claim was refused."""
        self._is_announcing = True
        self._attempt_us = world.scenario.attempt
        self._routes: dict[int, Route] = {}
        self._asked: dict[int, Asked] = {}
        self._tokens = 0
        self._requests = 0
        self._callers: dict[tuple[int, int, str], Caller] = {}
        self._writes: defaultdict[int, OpenWrites] = defaultdict(OpenWrites)
        self._writes_max = world.requests_kept * 3 // 4

    @property
    def mode(self) -> PluginMode | None:
        """The mode of the broker's plugin; None for a program."""
        return None

    # Registering and announcing, one after the other.

    def start(self) -> None:
        self.coordinate(self._ask_register, self._registered)

    def _ask_register(self, token: int) -> None:
        node = self.world.coordinator_node()
        self._wires.send(
            self.life, node.life, node.take_register,
            self, token, self.broker_id, self.life.name.encode(), self._newest,
        )  # fmt: skip

    def _registered(self, result: Any) -> None:  # noqa: ANN401
        if isinstance(result, RemoteStorageError):
            self._clock.after(200 * MS, self.life, self.start)
            return
        if not result.is_given:
            self._newest = result.incarnation
            self.start()
            return
        self._incarnation = result.incarnation
        self._is_announcing = False
        self._announce_next()

    def notify(
        self,
        leads: dict[int, int],
        follows: list[int],
        stops: list[int],
        carries_epochs: bool,
    ) -> None:
        """Take a notification of Kafka's controller: `leads` has leader epochs by partition.

        `carries_epochs`: whether the announcement passes these epochs on.
        """
        self._notified.update((*leads, *follows, *stops))
        for number in (*follows, *stops):
            self.led.pop(number, None)
        if self.is_fenced:
            return
        if leads or follows:
            self._notifications.append((leads, follows, [], carries_epochs))
        if stops:
            self._notifications.append(({}, [], stops, carries_epochs))
        if not self._is_announcing:
            self._announce_next()

    @property
    def has_unannounced(self) -> bool:
        """Whether it has something to announce, or waits for the answer to an announcement."""
        is_gone = self.is_fenced or self.life.is_dead
        return not is_gone and (self._is_announcing or bool(self._notifications))

    def _announce_next(self) -> None:
        if not self._notifications or self._is_announcing:
            return
        assert self._incarnation is not None, "it announces after it has registered"
        self._is_announcing = True
        leads, follows, stops, carries_epochs = notification = self._notifications.popleft()
        self._announcements += 1
        items = self.world.items
        recorded = None if self.import_cluster is None else RECORDED_MS
        leaders: list[LeaderItem] = [
            (*items[number], epoch if carries_epochs else None, recorded)
            for number, epoch in leads.items()
        ]
        announcement = Announcement(
            self.broker_id,
            self._incarnation,
            self._announcements,
            tuple(leaders),
            tuple(items[number] for number in follows),
            tuple(items[number] for number in stops),
            self.import_cluster,
        )

        def ask(token: int) -> None:
            node = self.world.coordinator_node()
            self._wires.send(
                self.life, node.life, node.take_announce, self, token, announcement
            )

        self.coordinate(ask, lambda result: self._announced(result, notification))

    def _announced(self, result: Any, notification: tuple[Any, ...]) -> None:  # noqa: ANN401
        if isinstance(result, Fenced):
            self.is_fenced = True
            self._mark("broker fenced by its own later life")
            assert self._incarnation is not None, "it announces after it has registered"
            self.world.broker_fenced(self, (self._incarnation, self._announcements))
            return
        leads, follows, stops, _ = notification
        if isinstance(result, RemoteStorageError):
            self._not_announced(notification)
            return
        for number in stops:
            self.claims.pop(number, None)
        for number, claim in zip((*leads, *follows), result, strict=True):
            known = (LEADER if number in leads else FOLLOWER, claim)
            if claim == cmd.NO_CLAIM:
                self._announce_again(number, notification)
            else:
                self._refusals.pop(number, None)
            if self.claims.get(number) != known:
                self.claims[number] = known
                self.ask_ready(number)
        self._lead(leads)
        self._announce_done()

    def _announce_again(self, number: int, notification: tuple[Any, ...]) -> None:
        """Announce a claim again that was refused for another broker's; pauses double."""
        if any(number in one for later in self._notifications for one in later[:3]):
            return  # A newer notification of Kafka has come meanwhile.
        epoch, carries_epochs = notification[0][number], notification[3]
        refusals = self._refusals[number] = self._refusals.get(number, 0) + 1
        pause = min(AGAIN_FIRST << (refusals - 1), AGAIN_LAST)
        notified = self._notified[number]

        def announce() -> None:
            if self._notified[number] == notified:
                self._mark("announced again after a refusal")
                self.notify({number: epoch}, [], [], carries_epochs)

        self._clock.after(pause, self.life, announce)

    def _not_announced(self, notification: tuple[Any, ...]) -> None:
        self._mark("announcement failed")
        if self.world.scenario.repeats:
            self._lead(notification[0])
        else:
            self._notifications.appendleft(notification)  # Kafka does not repeat it.
        self._announce_done()

    def _lead(self, leads: dict[int, int]) -> None:
        for number, epoch in leads.items():
            self.led[number] = epoch

    def _announce_done(self) -> None:
        self._is_announcing = False
        self._announce_next()

    # The coordinator.

    def coordinate(self, ask: Callable[[int], None], then: Any) -> None:  # noqa: ANN401
        asked = Asked(ask, then, self._clock.now + 2 * DEADLINE)
        self._ask(asked)

    def _ask(self, asked: Asked) -> None:
        self._tokens += 1
        asked.token = self._tokens
        self._asked[asked.token] = asked
        asked.ask(asked.token)
        self._clock.after(ATTEMPT, self.life, self._ask_again, asked, asked.token)

    def _ask_again(self, asked: Asked, token: int) -> None:
        if self._asked.pop(token, None) is None:
            return
        self._mark("coordinator asked again")
        self._not_coordinated(asked, OutcomeUnknown("the coordinator did not answer"))

    def coordinated(self, token: int, result: object) -> None:
        """Take the coordinator's answer; an error that may pass is retried after a pause."""
        asked = self._asked.pop(token, None)
        if asked is None:
            return
        if isinstance(result, RemoteStorageError):
            self._not_coordinated(asked, result)
        else:
            asked.then(result)

    def _not_coordinated(self, asked: Asked, error: RemoteStorageError) -> None:
        after = asked.retries.failed(error, (asked.deadline - self._clock.now) / S)
        if isinstance(after, RemoteStorageError):
            asked.then(after)
        else:
            self._clock.after(round(after * S), self.life, self._ask, asked)

    def _ask_route(self, token: int, numbers: list[int]) -> None:
        node = self.world.coordinator_node()
        self._wires.send(self.life, node.life, node.take_route, self, token, tuple(numbers))

    # Readiness, as `Roles.are_ready` asks for it.

    def ask_ready(self, number: int, pause: int = READY_FIRST) -> None:
        """Ask a partition's replica if it is ready for the claim; again a few times if not."""
        known = self.claims.get(number)
        if known is None or self.is_fenced:
            return

        def located(routes: Any) -> None:  # noqa: ANN401
            if self.claims.get(number) == known:
                self._ask_replica(number, known, routes)

        asked = Asked(
            lambda token: self._ask_route(token, [number]), located, self._clock.now + ATTEMPT
        )
        self._ask(asked)
        if pause <= READY_LAST:
            self._clock.after(pause, self.life, self._ask_ready_again, number, known, 2 * pause)

    def _ask_ready_again(self, number: int, known: tuple[str, cmd.Claim], pause: int) -> None:
        is_ready = self.ready.get(number, (None, 0))[0] == known[1]
        if self.claims.get(number) == known and not is_ready:
            self.ask_ready(number, pause)

    def _ask_replica(self, number: int, known: tuple[str, cmd.Claim], routes: Any) -> None:  # noqa: ANN401
        if isinstance(routes, RemoteStorageError):
            return
        role, claim = known
        address = routes[0].host(role)
        host = None if address is None else self.world.host_at(address)
        if host is not None:
            self._wires.send(self.life, host.life, host.take_ready, self, number, role, claim)

    def reported_ready(self, number: int, claim: cmd.Claim) -> None:
        """Take a host's report that its replica of a partition is ready for `claim`."""
        self.ready[number] = (claim, self._clock.now)

    # Calls.

    def is_forgotten(self, op: Op) -> bool:
        """Whether an attempt is so late that the leader would not recognise it as a repeat.

        It has been under way while its client began as many newer writes as a leader remembers
        requests. In the service this cannot be: `Window` holds newer writes back while the
        client waits for this one, and once the client has given up, no connection holds the
        attempt for so long.
        """
        return self._writes[op.partition].begun - op.serial >= self.world.requests_kept

    def _is_full(self, partition: int) -> bool:
        return self._writes[partition].span() >= self._writes_max

    def caller(self, partition: int, number: int, what: str) -> Caller:
        caller = self._callers.get((partition, number, what))
        if caller is None:
            caller = Caller(f"{self.life.name}/{partition}/{what}{number}")
            self._callers[partition, number, what] = caller
        return caller

    def claim_to_lead(self, partition: int) -> cmd.Claim | None:
        role, claim = self.claims.get(partition, (None, None))
        return claim if role == LEADER else None

    def request_id(self) -> bytes:
        self._requests += 1
        return b"%d.%d.%d" % (self.broker_id, self.life.number, self._requests)

    def write(
        self,
        partition: int,
        caller: Caller,
        wanted: KafkaValue,
        what: str,
        then: Any,  # noqa: ANN401
    ) -> None:
        """Begin a write, if there is a claim to lead and room for one more open write.

        When the write ends, `then` is called with its error, or None.
        """
        claim = self.claim_to_lead(partition)
        if claim is None or self._is_full(partition):
            return
        request = self.request_id()
        command = _command(claim, Origin(self.broker_id, request), wanted)
        self._change(partition, caller, claim, command, request, what, wanted, then)

    def import_records(
        self,
        partition: int,
        caller: Caller,
        records: tuple[cmd.ImportedRecord, ...],
        then: Any,  # noqa: ANN401
    ) -> None:
        """Begin an import of recorded history; the leader skips what was imported before."""
        claim = self.claim_to_lead(partition)
        if claim is not None:
            command = cmd.ImportRecords(claim, records)
            self._change(partition, caller, claim, command, b"", "import", None, then)

    def _patience(self) -> int:
        """How long (us) a call that begins now is retried.

        When all has healed no client is impatient: a call whose messages are all slow would
        end in doubt, which counts as a failure of the service then.
        """
        return HEALED_PATIENCE if self.world.is_healing else self.world.scenario.patience

    def _change(
        self,
        partition: int,
        caller: Caller,
        claim: cmd.Claim,
        command: cmd.Command,
        request: bytes,
        what: str,
        wanted: KafkaValue | None,
        then: Any,  # noqa: ANN401
    ) -> None:
        world = self.world
        number = world.recorder.begin(
            caller.process, WRITE, world.keys_of[partition],
            claim=claim, request=request, what=what, wanted=wanted,
        )  # fmt: skip
        deadline = self._clock.now + self._patience()
        op = Op(partition, number, deadline, caller, is_change=True)
        op.command, op.then = command, then
        op.serial = self._writes[partition].begin()
        caller.is_busy = True
        self._attempt(op)

    def read(self, partition: int, caller: Caller, role: str, query: Query, then: Any) -> None:  # noqa: ANN401
        """Begin a read; when it ends, `then` is called with its error, or None."""
        world = self.world
        number = world.recorder.begin(
            caller.process, READ, world.keys_of[partition],
            role=role, what=query.kind, query=query,
        )  # fmt: skip
        deadline = self._clock.now + self._patience()
        op = Op(partition, number, deadline, caller, is_change=False)
        op.role, op.query, op.then = role, query, then
        op.position_min = self.seen.get(partition, -1)
        caller.is_busy = True
        self._attempt(op)

    def _attempt(self, op: Op) -> None:
        if op.is_done:
            return
        route = self._routes.get(op.partition)
        if route is None:
            numbers = [op.partition]
            self._coordinate_once(op, numbers)
            return
        serving = route.serving(op.role)
        if serving is None:
            self._failed(op, NotReady("served nowhere at the moment"))
            return
        address, role = serving
        host = self.world.host_at(address)
        op.attempt += 1
        if host is None:
            self._failed(op, OutcomeUnknown(f"{address} is gone"))
            return
        if op.command is not None:
            self._wires.send(
                self.life, host.life, host.take_command,
                self, op, op.attempt, op.partition, op.command,
            )  # fmt: skip
        else:
            self._wires.send(
                self.life, host.life, host.take_query,
                self, op, op.attempt, op.partition, role, op.query, op.position_min,
            )  # fmt: skip
        self._clock.after(self._attempt_us, self.life, self._unanswered, op, op.attempt)

    def _coordinate_once(self, op: Op, numbers: list[int]) -> None:
        def then(routes: Any) -> None:  # noqa: ANN401
            if op.is_done:
                return
            if isinstance(routes, RemoteStorageError):
                self._failed(op, NotReady(str(routes)))
            else:
                self._routes[op.partition] = routes[0]
                self._attempt(op)

        asked = Asked(lambda token: self._ask_route(token, numbers), then, op.deadline)
        self._ask(asked)

    def _unanswered(self, op: Op, attempt: int) -> None:
        if not op.is_done and op.attempt == attempt:
            self._failed(op, OutcomeUnknown("no answer"))

    def host_gone(self, op: Op, attempt: int) -> None:
        """Note that the host of an attempt has ended, so that the attempt is in doubt."""
        self._unanswered(op, attempt)

    def answered(self, op: Op, attempt: int, value: Any) -> None:  # noqa: ANN401
        """Take a host's answer; one to an earlier attempt is ignored."""
        if op.is_done or attempt != op.attempt:
            self._mark("answer came too late")
            return
        if isinstance(value, RemoteStorageError):
            self._failed(op, value)
        else:
            self._succeed(op, value)

    def _succeed(self, op: Op, value: Any) -> None:  # noqa: ANN401
        recorder = self.world.recorder
        if op.query is None:
            position = value
            recorder.ok(op.number, position, b"")
            if op.retries.doubt is not None:
                self._mark("write succeeded after a doubt")
        else:
            position = value.position
            digest = digest_of(value.value, op.query)
            recorder.ok(op.number, position, digest, stale=value.stale, answer=value.value)
            if value.stale:
                self._mark("stale answer, marked as stale")
        if position > self.seen.get(op.partition, -1):
            self.seen[op.partition] = position
        self._end(op, None)

    def _failed(self, op: Op, error: RemoteStorageError) -> None:
        """Retry the call, or end it, as `Router` does."""
        if isinstance(error, Overloaded):
            self._mark("inbox full")
        if isinstance(error, RetryableError | OutcomeUnknown):
            self._routes.pop(op.partition, None)
            op.attempt += 1  # An answer to the last attempt is too late from now on.
        after = op.retries.failed(error, (op.deadline - self._clock.now) / S)
        if not isinstance(after, RemoteStorageError):
            self._clock.after(round(after * S), self.life, self._attempt, op)
            return
        error = after
        self.world.recorder.failed(op.number, error)
        if op.query is None and outcome_of(error) == INFO:
            op.caller.lives += 1  # The write may yet be carried out, beside later ones.
            self._mark("write ended in doubt")
        self._end(op, error)

    def _end(self, op: Op, error: RemoteStorageError | None) -> None:
        op.is_done = True
        op.caller.is_busy = False
        if op.query is None:
            self._writes[op.partition].end(op.serial)
        op.then(error)


def _command(claim: cmd.Claim, origin: Origin, wanted: KafkaValue) -> cmd.Command:
    match wanted:
        case RemoteLogSegmentMetadata():
            return cmd.AddSegment(claim, origin, wanted)
        case RemoteLogSegmentMetadataUpdate():
            return cmd.UpdateSegment(claim, origin, wanted)
        case RemotePartitionDeleteMetadata():
            return cmd.PutPartitionDelete(claim, origin, wanted)
        case _:
            raise AssertionError(f"no broker writes {wanted!r}")

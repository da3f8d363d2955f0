"""A cluster that moves: the follower of Kafka's metadata topic, and the command."""

from __future__ import annotations

from random import Random
from typing import Any

from tierledger.actors.coordinator.events import Owner
from tierledger.actors.coordinator.ownership import Handover, Owned, Ownership, PluginMode
from tierledger.events.commands import ImportedRecord
from tierledger.events.errors import RemoteStorageError
from tierledger.events.identifiers import RemoteLogSegmentId
from tierledger.events.kafka.codec import KafkaRecord
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.moving import procedure as steps
from tierledger.moving.procedure import Procedure
from tierledger.simulation.machines.environment.clockwork import MS, ProcessLife
from tierledger.simulation.machines.moving.plugin import Client, PluginNode
from tierledger.simulation.machines.moving.segments import Segments
from tierledger.simulation.machines.nodes.feeding import Feeding
from tierledger.simulation.machines.nodes.processes import Processes

FOLLOWER, COMMAND = 95, 96
"""Broker ids of the follower and of the command; brokers have lower ones."""

RECORDED_MS = 1_600_000_000_000

LOOK, PAUSE, AGAIN = 25 * MS, 60 * MS, 40 * MS
"""Pauses before the command looks, before it starts again, and before an import is retried."""

REPORT_EVERY = (40 * MS, 200 * MS)
"""How often the follower reports; a world has one of these."""

PATIENCE, GIVE_UP_MS = 1300 * MS, 1500
"""How long a move may take until the command, or the coordinator, gives it up."""

PACES = ((5 * MS, 30 * MS), (60 * MS, 200 * MS), (30 * MS, 120 * MS))
"""Bounds of the pause in each round of the follower; a world has one pair."""


class Moving:
    """The move of one world's cluster: its segments, the follower and the command."""

    def __init__(self, world: Processes, feeding: Feeding) -> None:
        self.world = world
        self._feeding = feeding
        self.latecomers = 0
        """Stock brokers that are to start while a move compares and brokers hold writes."""
        self._random = random = Random(f"moving/{world.scenario.seed}")
        self.segments = Segments(world, random)
        self.is_fresh = random.random() < 0.3
        """Whether tierledger owns the metadata from the beginning."""
        self._are_mixed = random.random() < 0.2
        """Whether brokers may start in a mode other than handover."""
        self.follower = KafkaFollower(self)
        self.command = Command(self)

    def start(self) -> None:
        self.command.found()
        self.follower.start()

    def heal(self) -> None:
        """Restart brokers that run in shadow mode, now in handover, and move to tierledger."""
        self._are_mixed = False
        for broker_id, broker in list(self.world.brokers.items()):
            if isinstance(broker, PluginNode) and broker.mode == PluginMode.SHADOW:
                self.world.kill(broker.life)
                self.world.restart_broker(broker_id)
        self.command.move()

    def broker(self, life: ProcessLife, broker_id: int) -> PluginNode:
        """A new broker with the plugin: in handover, or in the owner's mode.

        The owner is the newest that coordinators have read, so that the mode is seldom wrong.
        """
        mode = PluginMode.HANDOVER
        if self._are_mixed and self._random.random() < 0.4:
            known = [node.state.ownership for node in self.world.coordinators]
            ownership = max(known, key=lambda one: one.epoch)
            first = Owner.TIERLEDGER if self.is_fresh else Owner.KAFKA
            modes = {Owner.TIERLEDGER: PluginMode.TIERLEDGER, Owner.KAFKA: PluginMode.SHADOW}
            mode = modes.get(Owner(ownership.owner) if ownership.epoch else first, mode)
        broker = PluginNode(self.world, life, broker_id, mode, self.segments, self._feeding)
        self.world.clock.after(MS, life, broker.begin)
        return broker

    def comes_late(self) -> None:
        """Let a stock broker write by Kafka's own manager, and restart it in handover."""
        broker_id = max(self.world.brokers) + 1
        self.segments.write_late(broker_id)
        self.world.recording.mark("stock broker came late")
        self.world.start_broker(broker_id)


class KafkaFollower:
    """`serve --kafka`: imports the topic, or mirrors into it, round after round."""

    def __init__(self, moving: Moving) -> None:
        world = moving.world
        self.cluster = "kafka"
        self.records: list[ImportedRecord] = []
        """The records that it has imported, or is to import."""
        self._is_careless = world.scenario.seed // 16 % 4 == 3
        """Whether it leaves out some records, which comparisons have to find."""
        self._segments, self._world = moving.segments, world
        life = world.new_life(f"broker-{FOLLOWER}")
        self.broker = Client(world, life, FOLLOWER, import_cluster=self.cluster)
        self._random = Random(f"follower/{world.scenario.seed}")
        self._pace = self._random.choice(PACES)
        self._report_every = self._random.choice(REPORT_EVERY)
        self._counts = self._random.random() < 0.3
        """Whether its reports name the number of records that it has written."""
        self._task = "nothing"
        self._ownership = Ownership()
        self._reports = self._rounds = self._taken = 0
        self._read = 0
        """Records of the topic that it has looked at."""
        self._left_out: list[RemoteLogSegmentMetadata] = []
        self._imported = 0
        """Records whose import was acknowledged."""

    def start(self) -> None:
        self.broker.start()
        self._report()
        self._go_on()

    def stop(self) -> None:
        """Import what was left out, and leave out nothing any more; it goes on following."""
        self._is_careless = False
        self._take(self._left_out)

    def _report(self) -> None:
        world, node = self._world, self._world.coordinator_node()
        self._reports += 1
        report = {
            "follower": self.life.name,
            "task": self._task,
            "reports": self._reports,
            "round": self._rounds,
            "records": self._taken if self._counts else 0,
            "trouble": None,
        }
        world.wires.send(self.broker.life, node.life, node.take_following, self, report)
        world.clock.after(self._report_every, self.broker.life, self._report)

    @property
    def life(self) -> ProcessLife:
        return self.broker.life

    def hear(self, ownership: Ownership, as_of: int) -> None:  # noqa: ARG002
        """Take up the task that the owner calls for; an older answer changes nothing."""
        if ownership.epoch <= self._ownership.epoch:
            return
        self._ownership = ownership
        task = {Owner.KAFKA: "import", Owner.TIERLEDGER: "mirror"}.get(
            Owner(ownership.decider), "nothing"
        )
        if task != self._task:
            self._task = task
            self.broker.notify(
                *(({0: 0}, [], []) if task == "import" else ({}, [], [0])), False
            )

    def _go_on(self) -> None:
        delay = self._random.randrange(*self._pace)
        if self._task == "import":
            self._world.clock.after(delay, self.life, self._import, len(self._segments.topic))
        elif self._task == "mirror" and not self.broker.caller(0, 0, "list").is_busy:
            self.broker.list_ids(0, lambda ids: self._mirror(ids, delay))
        else:
            self._world.clock.after(delay, self.life, self._go_on)

    def _import(self, until: int) -> None:
        """Import the records that the topic held when the round began, the first `until`."""
        for metadata in self._segments.topic[self._read : until]:
            if self._is_careless and self._leaves_out(metadata.remote_log_segment_id):
                self._left_out.append(metadata)
            else:
                self._take([metadata])
        self._read = max(self._read, until)
        chunk = tuple(self.records[self._imported :])
        if self._task != "import" or not chunk:
            self._round()
        elif self.broker.claim_to_lead(0) is None or self.broker.caller(0, 0, "take").is_busy:
            self._world.clock.after(AGAIN, self.life, self._import, until)
        else:
            end = self._imported + len(chunk)

            def heard(error: RemoteStorageError | None) -> None:
                if error is None:
                    self._taken += end - self._imported
                    self._imported = end
                    self._round()
                else:
                    if self._task == "import":  # Another broker's claim may be in force.
                        self.broker.notify({0: 0}, [], [], False)
                    self._world.clock.after(AGAIN, self.life, self._import, until)

            self.broker.import_records(0, self.broker.caller(0, 0, "take"), chunk, heard)

    def _mirror(self, ids: frozenset[bytes] | None, delay: int) -> None:
        known = self._segments.ids_until(len(self._segments.topic))
        missing = sorted((ids or frozenset()) - known)

        def land() -> None:
            for one in missing:
                if self._task == "mirror":
                    self._segments.mirror(one)
                    self._taken += 1
            if ids is not None:
                self._round()
            else:
                self._go_on()

        self._world.clock.after(delay, self.life, land)

    def _round(self) -> None:
        self._rounds += 1
        self._world.recording.mark(f"follower's round: {self._task}")
        self._go_on()

    def _leaves_out(self, segment: RemoteLogSegmentId) -> bool:
        return bytes(segment.id) not in self._segments.silent and self._random.random() < 0.05

    def _take(self, some: list[RemoteLogSegmentMetadata]) -> None:
        for at, metadata in enumerate(some, len(self.records)):
            record = KafkaRecord(metadata)
            self.records.append(ImportedRecord(0, at, RECORDED_MS + at, record))


class Command:
    """`tierledger handover`: carries out the service's own procedure, again and again."""

    def __init__(self, moving: Moving) -> None:
        self._moving, self._world = moving, moving.world
        self._clock = moving.world.clock
        self.client = Client(moving.world, moving.world.new_life(f"broker-{COMMAND}"), COMMAND)
        self._procedure: Procedure | None = None
        self._turn = 0
        """The number of the newest effects; an answer to earlier ones is late."""

    @property
    def life(self) -> ProcessLife:
        return self.client.life

    def found(self) -> None:
        """Ask for the cluster's first owner, until the coordinator has recorded it."""
        owner = Owner.TIERLEDGER if self._moving.is_fresh else Owner.KAFKA

        def heard(result: Any) -> None:  # noqa: ANN401
            if isinstance(result, RemoteStorageError):
                self._clock.after(PAUSE, self.life, self.found)

        self._hand_over(Handover(owner, Owner.NOBODY), heard)

    def move(self) -> None:
        """Move the cluster to the other owner; once all has healed, to tierledger alone."""
        if self._procedure is None:
            self._ask_how_it_stands(self._begin)
        elif self._world.is_healing and self._procedure.task == steps.TASKS[Owner.KAFKA]:
            self.interrupt()

    def interrupt(self) -> None:
        """Interrupt the move, as an operator's Ctrl-C does."""
        if self._procedure is not None:
            self._hears(steps.Failed("it was interrupted"), self._turn)

    def _begin(self, looked: Any) -> None:  # noqa: ANN401
        if self._procedure is not None:
            return
        owner = looked.owner if isinstance(looked, steps.Looked) else ""
        is_healing = self._world.is_healing
        if is_healing and owner == Owner.TIERLEDGER:
            return
        if owner in steps.TASKS:
            to = Owner.KAFKA if owner == Owner.TIERLEDGER else Owner.TIERLEDGER
            self._procedure = Procedure(to, give_up_after_ms=GIVE_UP_MS)
            self._carry_out(self._procedure.handle(steps.Begun()))
        elif is_healing:
            self._clock.after(PAUSE, self.life, self.move)

    def _hears(self, stimulus: steps.Stimulus, turn: int) -> None:
        procedure = self._procedure
        if procedure is None or turn != self._turn:
            return
        if type(stimulus) in steps.HEARS[procedure.phase]:
            self._carry_out(procedure.handle(stimulus))

    def _carry_out(self, effects: list[steps.Effect]) -> None:
        assert self._procedure is not None, "it has begun"
        self._turn += 1
        turn, note = self._turn, self._world.recording.moment
        for effect in effects:
            match effect:
                case steps.PrintLine(line=line):
                    note(self.life.name, "move", line)
                case steps.EndMove(trouble=trouble):
                    note(self.life.name, "move", f"it ends: {trouble or 'done'}")
                    self._world.recording.mark("move refused" if trouble else "cluster moved")
                    self._procedure = None
                    if self._world.is_healing:
                        self._clock.after(PAUSE, self.life, self.move)
                case steps.ReadStatus():
                    self._clock.after(LOOK, self.life, self._look, turn)
                case steps.Compare(is_all=is_all):
                    self._compare(turn, is_all=is_all)
                case steps.ChangeOwner(wish=wish):
                    self._hand_over(wish, lambda result: self._handed_over(result, turn))

    def _handed_over(self, result: Any, turn: int) -> None:  # noqa: ANN401
        procedure = self._procedure
        if not isinstance(result, Owned):
            self._hears(steps.Failed(str(result)), turn)
            return
        if procedure is not None and procedure.phase is steps.MovePhase.BEGINNING:
            self._clock.after(PATIENCE, self.life, self._time_is_up, procedure)
        self._hears(steps.HandedOver(result), turn)

    def _time_is_up(self, procedure: Procedure) -> None:
        if self._procedure is procedure:
            self._hears(steps.TimeIsUp(), self._turn)

    def _compare(self, turn: int, *, is_all: bool) -> None:
        procedure, moving, segments = self._procedure, self._moving, self._moving.segments
        assert procedure is not None, "it has begun"
        is_settling = procedure.phase is steps.MovePhase.SETTLING and procedure.task == "import"
        if is_settling and moving.latecomers:
            moving.latecomers -= 1
            moving.comes_late()

        def heard(ids: frozenset[bytes] | None) -> None:
            if ids is None:
                self._hears(steps.Failed("no leader answers"), turn)
                return
            # Brokers write during the comparison of all, so here it finds no difference; the
            # service repeats it until only differences that stay are left.
            shown = ids - segments.silent
            known = segments.ids_until(len(segments.topic)) - segments.silent
            differs = not is_all and shown != known
            self._hears(steps.Compared(("orders-0",) if differs else ()), turn)

        if self.client.caller(0, 0, "list").is_busy:
            self._hears(steps.Failed("it still waits for a list"), turn)
        else:
            self.client.list_ids(0, heard)

    # The coordinator.

    def _look(self, turn: int) -> None:
        def heard(looked: Any) -> None:  # noqa: ANN401
            is_looked = isinstance(looked, steps.Looked)
            self._hears(looked if is_looked else steps.Failed(str(looked)), turn)

        self._ask_how_it_stands(heard)

    def _ask_how_it_stands(self, then: Any) -> None:  # noqa: ANN401
        def ask(token: int) -> None:
            node = self._world.coordinator_node()
            self._world.wires.send(self.life, node.life, node.take_stand, self.client, token)

        def heard(stands: Any) -> None:  # noqa: ANN401
            if isinstance(stands, RemoteStorageError):
                then(stands)
                return
            alive = [
                one.broker_id for one in self._world.brokers.values() if not one.life.is_dead
            ]
            ownership, attending, following = stands
            then(
                steps.Looked(
                    ownership.epoch,
                    ownership.owner,
                    frozenset(alive),
                    tuple(attending),
                    following,
                )
            )

        self.client.coordinate(ask, heard)

    def _hand_over(self, wish: Handover, then: Any) -> None:  # noqa: ANN401
        def ask(token: int) -> None:
            node = self._world.coordinator_node()
            self._world.wires.send(
                self.life, node.life, node.take_hand_over, self.client, token, wish
            )

        self.client.coordinate(ask, then)

"""A cluster that moves: Kafka's topic, who imports or mirrors it, and the command.

All records are of one partition and add a segment each: what one broker has written and
another does not know is lost.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from tierledger.actors.coordinator import procedure as steps
from tierledger.actors.coordinator.events import Owner
from tierledger.actors.coordinator.ownership import Handover, Owned, OwnerWord, PluginMode
from tierledger.actors.coordinator.procedure import Procedure
from tierledger.events.commands import ImportedRecord
from tierledger.events.errors import RemoteStorageError
from tierledger.events.identifiers import RemoteLogSegmentId, Uuid
from tierledger.events.kafka.codec import KafkaRecord
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.simulation.checkers.violation import Violation, ms_text
from tierledger.simulation.machines.clockwork import MS, Life
from tierledger.simulation.machines.moving.plugin import Client, PluginNode

if TYPE_CHECKING:
    from tierledger.simulation.machines.world import World

FOLLOWER, COMMAND = 95, 96
"""Broker ids of who imports or mirrors, and of the command; brokers have lower ones."""

RECORDED_MS = 1_600_000_000_000

LOOK, PAUSE, AGAIN = 25 * MS, 60 * MS, 40 * MS
"""How often the command looks; before it, or the follower, begins anew."""

SAYS = (40 * MS, 200 * MS)
"""How often the follower says how it stands."""

PATIENCE, GIVE_UP_MS = 1300 * MS, 1500
"""How long a move may take, for the command and for the coordinator."""

WAITS, SENT = (100 * MS, 100 * MS, 1200 * MS), (MS, 20 * MS)
"""How long a record waits in its broker at most; how long one is on its way that is sent."""

PACES = ((5 * MS, 30 * MS), (60 * MS, 200 * MS), (30 * MS, 120 * MS))
"""How long a round of who follows takes, about."""


class Moving:
    """Of one world: what was written by which manager, and what came of it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.topic: list[RemoteLogSegmentMetadata] = []
        self.silent: set[bytes] = set()
        """Ids that no comparison shows."""
        self._told: set[tuple[str, str]] = set()
        """Checker and life of what was found; once is enough."""
        self.latecomers = 0
        """Stock brokers that are to come while what was written is compared."""
        self._written: dict[str, set[bytes]] = {Owner.KAFKA: set(), Owner.TIERLEDGER: set()}
        self._made: dict[bytes, RemoteLogSegmentMetadata] = {}
        self._known = [frozenset[bytes]()]
        """The ids that the topic holds up to each record."""
        self._segments = 0
        self._random = random = Random(f"moving/{world.scenario.seed}")
        self.is_fresh = random.random() < 0.3
        """Whether tierledger owns the metadata from the beginning."""
        self._are_mixed = random.random() < 0.2
        """Whether brokers start in other modes, too."""
        self.follower = KafkaFollower(self)
        self.command = Command(self)

    def start(self) -> None:
        self.command.found()
        self.follower.start()

    def heal(self) -> None:
        """All brokers are in handover, and the cluster has to move to tierledger."""
        self._are_mixed = False
        for broker_id, broker in list(self.world.brokers.items()):
            if isinstance(broker, PluginNode) and broker.mode == PluginMode.SHADOW:
                self.world.kill(broker.life)
                self.world.restart_broker(broker_id)
        self.command.move()

    def broker(self, life: Life, broker_id: int) -> PluginNode:
        """A broker whose plugin begins; in a mode that suits the owner, or seldom not."""
        mode = PluginMode.HANDOVER
        if self._are_mixed and self._random.random() < 0.4:
            words = [node.state.word for node in self.world.coordinators]
            word = max(words, key=lambda one: one.number)
            first = Owner.TIERLEDGER if self.is_fresh else Owner.KAFKA
            modes = {Owner.TIERLEDGER: PluginMode.TIERLEDGER, Owner.KAFKA: PluginMode.SHADOW}
            mode = modes.get(Owner(word.owner) if word.number else first, mode)
        broker = PluginNode(self.world, life, broker_id, mode)
        self.world.clock.after(MS, life, broker.begin)
        return broker

    # Records.

    def segment(self, number: int, broker_id: int, epoch: int) -> RemoteLogSegmentMetadata:
        """A segment that nobody has written yet."""
        self._segments += 1
        name = Uuid(self._segments.to_bytes(16, "big"))
        if self._random.random() < 0.5:
            self.silent.add(bytes(name))
        start = 10 * self._segments
        metadata = self._made[bytes(name)] = RemoteLogSegmentMetadata(
            remote_log_segment_id=RemoteLogSegmentId(self.world.tips[number], name),
            start_offset=start,
            end_offset=start + 9,
            max_timestamp_ms=start,
            broker_id=broker_id,
            event_timestamp_ms=start,
            segment_size_in_bytes=100,
            state=RemoteLogSegmentState.COPY_SEGMENT_STARTED,
            segment_leader_epochs={epoch: start},
            txn_index_empty=True,
        )
        return metadata

    def ids_until(self, consumed: int) -> frozenset[bytes]:
        """What Kafka's own manager lists that has read so far."""
        return self._known[consumed]

    def append(self, metadata: RemoteLogSegmentMetadata) -> None:
        self.topic.append(metadata)
        self._known.append(self._known[-1] | {_id(metadata)})

    def mirror(self, name: bytes) -> None:
        """A segment of the ledger's is written into the topic."""
        if name in self._made:
            self.append(self._made[name])

    def comes_late(self) -> None:
        """A stock broker writes by Kafka's own manager, and is one in handover from then on."""
        broker_id = max(self.world.brokers) + 1
        metadata = self.segment(0, broker_id, 0)
        self.silent.add(_id(metadata))
        self.append(metadata)
        self._written[Owner.KAFKA].add(_id(metadata))
        self.world.recording.mark("stock broker came late")
        self.world.start_broker(broker_id)

    def write_by_kafka(self, plugin: PluginNode, metadata: RemoteLogSegmentMetadata) -> None:
        """It waits in its broker for a while; once it is sent it lands, whoever dies."""
        after, random = self.world.clock.after, self._random

        def landed() -> None:
            plugin.under_way -= 1

        def land() -> None:
            self.append(metadata)
            self._written[Owner.KAFKA].add(_id(metadata))
            self.world.recording.mark("written by Kafka's own manager")
            self.world.recording.event("kafka", plugin.life.name, _id(metadata))
            after(random.randrange(*SENT), plugin.life, landed)

        def send() -> None:
            if not plugin.life.is_dead:
                after(random.randrange(*SENT), None, land)

        after(random.randrange(random.choice(WAITS)), None, send)

    def written_by_ledger(self, metadata: RemoteLogSegmentMetadata) -> None:
        self._written[Owner.TIERLEDGER].add(_id(metadata))
        self.world.recording.mark("written by tierledger")

    # Laws.

    def decides(
        self, plugin: PluginNode, number: int, manager: str, known: frozenset[bytes]
    ) -> None:
        """Who decides by a manager has to see what was written by the other."""
        other = Owner.KAFKA if manager == Owner.TIERLEDGER else Owner.TIERLEDGER
        missing = self._written[other] - known
        if missing:
            what = f"{len(missing)} segments that were written by {other}'s manager"
            message = self._wrong(plugin, f"decides by {manager}'s without {what}")
            found = Violation("lost_record", self.world.keys_of[number], message)
            self._found(plugin, found)

    def finished(
        self, plugin: PluginNode, number: int, metadata: RemoteLogSegmentMetadata
    ) -> None:
        """A write is done: its broker's own answers have it."""
        self.world.recording.mark("plugin's write applied")
        known = plugin.known(number, Owner.TIERLEDGER)
        if known is not None and _id(metadata) not in known:
            message = self._wrong(plugin, "does not find what it has written")
            found = Violation("unread_write", self.world.keys_of[number], message)
            self._found(plugin, found)

    def _wrong(self, plugin: PluginNode, what: str) -> str:
        now = ms_text(self.world.clock.now * 1000)
        return f"{plugin.life.name}, by word {plugin.word.number}, {what}, at {now}"

    def _found(self, plugin: PluginNode, violation: Violation) -> None:
        told = violation.checker, plugin.life.name
        if told not in self._told:
            self._told.add(told)
            self.world.observer.failures.append(violation)


class KafkaFollower:
    """`serve --kafka`: imports the topic, or mirrors into it, round after round."""

    def __init__(self, moving: Moving) -> None:
        world = moving.world
        self.cluster = "kafka"
        self.records: list[ImportedRecord] = []
        """What it has taken over, or begun to."""
        self._is_careless = world.scenario.seed // 16 % 4 == 3
        """Whether it leaves out a record that comparisons show."""
        self._moving, self._world = moving, world
        life = world.new_life(f"broker-{FOLLOWER}")
        self.broker = Client(world, life, FOLLOWER, import_cluster=self.cluster)
        self._random = Random(f"follower/{world.scenario.seed}")
        self._pace = self._random.choice(PACES)
        self._says = self._random.choice(SAYS)
        self._counts = self._random.random() < 0.3
        """Whether it says how many records it has written."""
        self._task = "nothing"
        self._word = OwnerWord()
        self._said = self._rounds = self._taken = 0
        self._read = 0
        """Records of the topic that it has looked at."""
        self._left_out: list[RemoteLogSegmentMetadata] = []
        self._imported = 0
        """Records that are taken over for certain."""

    def start(self) -> None:
        self.broker.start()
        self._say()
        self._go_on()

    def stop(self) -> None:
        """Leave out nothing any more: all has healed, and it goes on."""
        self._is_careless = False
        self._take(self._left_out)

    def _say(self) -> None:
        world, node = self._world, self._world.coordinator_node()
        self._said += 1
        said = {
            "follower": self.life.name,
            "task": self._task,
            "said": self._said,
            "round": self._rounds,
            "records": self._taken if self._counts else 0,
            "trouble": None,
        }
        world.wires.send(self.broker.life, node.life, node.take_following, self, said)
        world.clock.after(self._says, self.broker.life, self._say)

    @property
    def life(self) -> Life:
        return self.broker.life

    def hear(self, word: OwnerWord) -> None:
        """Do what the word asks for."""
        if word.number <= self._word.number:
            return
        self._word = word
        task = {Owner.KAFKA: "import", Owner.TIERLEDGER: "mirror"}.get(
            Owner(word.decider), "nothing"
        )
        if task != self._task:
            self._task = task
            self.broker.told(*(({0: 0}, [], []) if task == "import" else ({}, [], [0])), False)

    def _go_on(self) -> None:
        delay = self._random.randrange(*self._pace)
        if self._task == "import":
            self._world.clock.after(delay, self.life, self._import, len(self._moving.topic))
        elif self._task == "mirror" and not self.broker.lane(0, 0, "list").is_busy:
            self.broker.list_ids(0, lambda ids: self._mirror(ids, delay))
        else:
            self._world.clock.after(delay, self.life, self._go_on)

    def _import(self, until: int) -> None:
        """What the topic held when the round began."""
        for metadata in self._moving.topic[self._read : until]:
            if self._is_careless and self._leaves_out(_id(metadata)):
                self._left_out.append(metadata)
            else:
                self._take([metadata])
        self._read = max(self._read, until)
        chunk = tuple(self.records[self._imported :])
        if self._task != "import" or not chunk:
            self._round()
        elif self.broker.claim_to_lead(0) is None or self.broker.lane(0, 0, "take").is_busy:
            self._world.clock.after(AGAIN, self.life, self._import, until)
        else:
            end = self._imported + len(chunk)

            def heard(error: RemoteStorageError | None) -> None:
                if error is None:
                    self._taken += end - self._imported
                    self._imported = end
                    self._round()
                else:
                    if self._task == "import":  # Perhaps another's claim was let in.
                        self.broker.told({0: 0}, [], [], False)
                    self._world.clock.after(AGAIN, self.life, self._import, until)

            self.broker.import_records(0, self.broker.lane(0, 0, "take"), chunk, heard)

    def _mirror(self, ids: frozenset[bytes] | None, delay: int) -> None:
        known = self._moving.ids_until(len(self._moving.topic))
        missing = sorted((ids or frozenset()) - known)

        def land() -> None:
            for one in missing:
                if self._task == "mirror":
                    self._moving.mirror(one)
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

    def _leaves_out(self, name: bytes) -> bool:
        return name not in self._moving.silent and self._random.random() < 0.05

    def _take(self, some: list[RemoteLogSegmentMetadata]) -> None:
        for at, metadata in enumerate(some, len(self.records)):
            record = KafkaRecord(metadata)
            self.records.append(ImportedRecord(0, at, RECORDED_MS + at, record))


class Command:
    """`tierledger handover`: the service's own procedure, again and again."""

    def __init__(self, moving: Moving) -> None:
        self._moving, self._world = moving, moving.world
        self._clock = moving.world.clock
        self.client = Client(moving.world, moving.world.new_life(f"broker-{COMMAND}"), COMMAND)
        self._procedure: Procedure | None = None
        self._turn = 0
        """Of what was called for last; whatever answers another is late."""

    @property
    def life(self) -> Life:
        return self.client.life

    def found(self) -> None:
        """Say whose the cluster is from the beginning, until it is."""
        owner = Owner.TIERLEDGER if self._moving.is_fresh else Owner.KAFKA

        def heard(result: Any) -> None:  # noqa: ANN401
            if isinstance(result, RemoteStorageError):
                self._clock.after(PAUSE, self.life, self.found)

        self._say(Handover(owner, Owner.NOBODY), heard)

    def move(self) -> None:
        """Move the cluster to whom it does not belong; once all has healed to tierledger."""
        if self._procedure is None:
            self._ask_how_it_stands(self._begin)
        elif self._world.is_healing and self._procedure.task == steps.TASKS[Owner.KAFKA]:
            self.interrupt()

    def interrupt(self) -> None:
        """Somebody presses Ctrl-C."""
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
        turn, told = self._turn, self._world.recording.moment
        for effect in effects:
            match effect:
                case steps.Tell(line=line):
                    told(self.life.name, "move", line)
                case steps.End(trouble=trouble):
                    told(self.life.name, "move", f"it ends: {trouble or 'done'}")
                    self._world.recording.mark("move refused" if trouble else "cluster moved")
                    self._procedure = None
                    if self._world.is_healing:
                        self._clock.after(PAUSE, self.life, self.move)
                case steps.Look():
                    self._clock.after(LOOK, self.life, self._look, turn)
                case steps.Compare(is_all=is_all):
                    self._compare(turn, is_all=is_all)
                case steps.Say(wish=wish):
                    self._say(wish, lambda result: self._said(result, turn))

    def _said(self, result: Any, turn: int) -> None:  # noqa: ANN401
        procedure = self._procedure
        if not isinstance(result, Owned):
            self._hears(steps.Failed(str(result)), turn)
            return
        if procedure is not None and procedure.phase is steps.Phase.BEGINNING:
            self._clock.after(PATIENCE, self.life, self._time_is_up, procedure)
        self._hears(steps.Said(result), turn)

    def _time_is_up(self, procedure: Procedure) -> None:
        if self._procedure is procedure:
            self._hears(steps.TimeIsUp(), self._turn)

    def _compare(self, turn: int, *, is_all: bool) -> None:
        procedure, moving = self._procedure, self._moving
        assert procedure is not None, "it has begun"
        is_settling = procedure.phase is steps.Phase.SETTLING and procedure.task == "import"
        if is_settling and moving.latecomers:
            moving.latecomers -= 1
            moving.comes_late()

        def heard(ids: frozenset[bytes] | None) -> None:
            if ids is None:
                self._hears(steps.Failed("no leader answers"), turn)
                return
            # Brokers write meanwhile; the service looks again until what is new is equal.
            shown = ids - moving.silent
            differs = (
                not is_all and shown != moving.ids_until(len(moving.topic)) - moving.silent
            )
            self._hears(steps.Compared(("orders-0",) if differs else ()), turn)

        if self.client.lane(0, 0, "list").is_busy:
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
            word, attending, following = stands
            then(
                steps.Looked(
                    word.number, word.owner, frozenset(alive), tuple(attending), following
                )
            )

        self.client.coordinate(ask, heard)

    def _say(self, wish: Handover, then: Any) -> None:  # noqa: ANN401
        def ask(token: int) -> None:
            node = self._world.coordinator_node()
            self._world.wires.send(
                self.life, node.life, node.take_hand_over, self.client, token, wish
            )

        self.client.coordinate(ask, then)


def _id(metadata: RemoteLogSegmentMetadata) -> bytes:
    return bytes(metadata.remote_log_segment_id.id)

"""Whatever a step raises quarantines its partition, and nobody is told what is not true."""

from typing import Any

import pytest
from typing_extensions import override

from tests.models.actors.harness import (
    CREATED,
    SERDE,
    UNKNOWN,
    Harness,
    SlotStore,
    added,
    following,
    leading,
)
from tests.models.events.driven_partition import CLAIM, NO_REQUEST, TIP
from tierledger.actors import messages as msg
from tierledger.actors.follower import Follower
from tierledger.actors.host.machine_guard import MachineGuard
from tierledger.actors.leader.machine import Leader
from tierledger.actors.story import STORY_STEPS
from tierledger.events import commands as cmd
from tierledger.events.errors import OutcomeUnknown, Quarantined
from tierledger.events.partition.decide import Limits
from tierledger.events.partition.state import PartitionState
from tierledger.storage.partition.event_log import StoredBatch


@pytest.fixture
def store() -> SlotStore:
    return SlotStore()


class Guarded(Harness):
    """A harness whose machine stands behind its guard."""

    def __init__(self, harness: Harness) -> None:
        super().__init__(harness.machine, harness.store)
        self.guard = MachineGuard(harness.machine)

    @override
    def feed(self, stimulus: msg.Stimulus) -> None:
        self.take(self.guard.handle(stimulus))

    def take(self, effects: list[msg.Effect]) -> None:
        machine, self.machine = self.machine, _Said(effects)  # type: ignore[assignment]
        try:
            super().feed(msg.HintArrived(0))
        finally:
            self.machine = machine


class _Said:
    def __init__(self, effects: list[msg.Effect]) -> None:
        self._effects = effects
        self.position = -1

    def handle(self, _: msg.Stimulus) -> list[msg.Effect]:
        return self._effects


class Unevolvable(dict[Any, Any]):
    """A table of a state that cannot be changed: `evolve` fails half way."""

    @override
    def __getitem__(self, key: object) -> object:
        raise RuntimeError("a table that is broken")

    get = __getitem__  # type: ignore[assignment]


def state_of(harness: Harness) -> PartitionState:
    assert harness.machine.state is not None
    return harness.machine.state


def break_evolve(harness: Harness) -> None:
    state_of(harness).epochs = Unevolvable()


BROKEN: Any = cmd.AddSegment(CLAIM, NO_REQUEST, None)  # type: ignore[arg-type]


def test_a_command_that_breaks_the_rules_quarantines_and_serves_on(store: SlotStore) -> None:
    harness = Guarded(leading(store))
    harness.settle()
    before = state_of(harness).digest()

    write, read = harness.command(BROKEN), harness.ask()

    assert isinstance(harness.error_for(write), OutcomeUnknown)
    answer = harness.heard(read)
    assert isinstance(answer, msg.Answer)
    assert answer.stale
    assert state_of(harness).digest() == before
    assert isinstance(harness.error_for(harness.write(added(1))), Quarantined)
    (alarm,) = harness.alarms
    assert alarm.kind == "quarantined"
    assert "AttributeError" in alarm.message
    assert "decide.py" in alarm.message


def test_commands_that_are_decided_on_together_hear_of_a_failure_one_by_one(
    store: SlotStore,
) -> None:
    harness = Guarded(leading(store))
    harness.settle()
    commands = [msg.CommandArrived(100 + number, BROKEN, 0) for number in range(3)]

    harness.feed(msg.CommandsArrived(tuple(commands)))

    for one in commands:
        assert one.reply_to is not None
        assert isinstance(harness.error_for(one.reply_to), OutcomeUnknown | Quarantined)


def test_whoever_waits_for_a_batch_that_is_stored_is_told_that_it_may_be(
    store: SlotStore,
) -> None:
    harness = Guarded(leading(store))
    write, read = harness.write(added(1)), harness.ask()
    append = harness.expect_append()
    late = harness.write(added(2))
    break_evolve(harness)
    store.create(append.number, append.value)
    harness.feed(msg.AppendAnswered(append.number, CREATED))

    assert isinstance(harness.error_for(write), OutcomeUnknown)
    assert isinstance(harness.error_for(late), Quarantined)
    assert isinstance(harness.error_for(read), Quarantined), "the state may be half changed"
    assert isinstance(harness.error_for(harness.ask()), Quarantined)
    assert not harness.gone


def test_a_failure_while_a_batch_is_on_its_way_leaves_its_writers_in_doubt(
    store: SlotStore,
) -> None:
    harness = Guarded(leading(store))
    write = harness.write(added(1))
    append = harness.expect_append()
    late = harness.write(added(2))

    harness.take(harness.guard.failed(RuntimeError("a checkpoint that cannot be planned")))
    harness.feed(msg.AppendAnswered(append.number, UNKNOWN))
    harness.feed(msg.SlotRead(append.number, append.value))

    assert isinstance(harness.error_for(write), OutcomeUnknown)
    assert isinstance(harness.error_for(late), Quarantined)
    assert not harness.asked
    assert isinstance(harness.heard(harness.ask()), msg.Answer)


def test_a_follower_whose_fold_fails_answers_nothing_from_it(store: SlotStore) -> None:
    harness = Guarded(following(SlotStore()))
    leader = leading(store)
    leader.write(added(1))
    leader.settle()
    break_evolve(harness)
    waits = harness.ask(position_min=1)
    batches = tuple(StoredBatch(*one) for one in enumerate(store.slots))

    harness.feed(msg.LogRead(0, batches, is_end=True))

    assert isinstance(harness.error_for(waits), Quarantined)
    assert isinstance(harness.error_for(harness.ask()), Quarantined)
    assert harness.machine.phase.value == "quarantined"
    assert [alarm.kind for alarm in harness.alarms] == ["quarantined"]


@pytest.mark.parametrize("waits", [False, True])
def test_a_leader_that_fails_while_it_stops_is_gone(store: SlotStore, waits: bool) -> None:
    harness = Guarded(leading(store))
    harness.write(added(1))
    append = harness.expect_append()
    stop = harness.stop(waits=waits)
    break_evolve(harness)

    harness.feed(msg.AppendAnswered(append.number, CREATED))

    assert [gone.reply_to for gone in harness.gone] == [stop]


def test_an_alarm_tells_the_last_steps_and_no_more(store: SlotStore) -> None:
    harness = Guarded(leading(store))
    for number in range(STORY_STEPS):
        harness.write(added(number + 1))
        harness.settle()
    harness.command(BROKEN)

    (alarm,) = harness.alarms

    assert "CommandArrived AddSegment: Append" in alarm.message
    assert alarm.message.count(";") <= STORY_STEPS
    assert len(alarm.message) < 2000


@pytest.mark.parametrize("machine", [Leader, Follower])
def test_a_failure_before_anything_is_loaded_answers_nothing(
    machine: type[Leader] | type[Follower],
) -> None:
    first = msg.Assigned(msg.Assignment(1, CLAIM, None, TIP.topic), None, 0)
    made = Follower(SERDE) if machine is Follower else _leader(first)
    harness = Guarded(Harness(made, SlotStore()))

    harness.take(harness.guard.failed(KeyError("checkpoint")))

    assert isinstance(harness.error_for(harness.ask()), Quarantined)
    assert harness.machine.phase.value == "quarantined"


def _leader(first: msg.Assigned) -> Leader:
    return Leader(SERDE, Limits(), first)


def test_an_error_that_cannot_be_shown_is_told_all_the_same(store: SlotStore) -> None:
    class Mute(Exception):
        @override
        def __str__(self) -> str:
            raise RuntimeError("mute")

    harness = Guarded(leading(store))
    harness.take(harness.guard.failed(Mute()))

    assert "Mute" in harness.alarms[0].message


def test_a_step_that_breaks_an_invariant_is_told_as_a_failure_of_its_partition() -> None:
    guard = MachineGuard(Follower(SERDE))

    effects = guard.handle(msg.AppendAnswered(0, msg.AppendOutcome.CREATED))

    assert guard.failure is not None
    assert "AppendAnswered while loading" in guard.failure
    assert [type(effect) for effect in effects] == [msg.Alarm]

"""Leaders and followers as values: what a machine does with a stimulus is worked out once.

The machines are pure, so a state and a stimulus always lead to the same state and effects.
States are numbered; equal numbers mean that everything a machine holds is equal.
"""

from __future__ import annotations

import marshal
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, assert_never

from tierledger.actors import messages as msg
from tierledger.actors.calls import Answered, PartitionKey
from tierledger.actors.follower import Follower
from tierledger.actors.host.answering import answer_now
from tierledger.actors.leader.machine import Leader
from tierledger.events.errors import RemoteStorageError
from tierledger.events.event_codec import genesis
from tierledger.events.partition.decide import Limits
from tierledger.events.partition.state import PartitionState
from tierledger.simulation.checkers.fold import answer_of
from tierledger.simulation.exhaust.script import TIP
from tierledger.simulation.exhaust.values import copied, plain_of
from tierledger.simulation.history.calls import digest_of
from tierledger.storage.partition.event_log import StoredBatch
from tierledger.storage.serde import MsgpackSerDe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tierledger.simulation.exhaust.script import Call, Term

CLUSTER_ID = "exhaust"
KEY = PartitionKey.of(TIP)
GENESIS = genesis(CLUSTER_ID, TIP.topic_id, TIP.partition)
CUSTOM_BYTES_MAX = 128
NOW_MS = 1_700_000_000_000
"""Clocks stand still, so that logs do not differ by when they were written; only each attempt
of a call has its own time, or two batches that say the same would be one."""

ATTEMPTS_PER_CALL = 16
"""More than a client makes; a caller is named by call and attempt."""

EVOLVING = frozenset({"loaded", "log", "created", "looked"})
"""Stimuli after which a machine may take events in; all others leave its state as it is."""

NONE = -1
"""Stands for a slot that is free."""

Plain: TypeAlias = "tuple[Any, ...]"
"""A stimulus, an effect or a message, of text, numbers and tuples only."""


class Turn(NamedTuple):
    """What a machine made of a stimulus."""

    machine: int
    effects: tuple[Plain, ...]
    position: int
    """The last that is applied; -1 before the first."""
    chain_hash: bytes
    moved_from: int | None
    """The position before, if events were taken in."""
    session: int | None
    """Of a leader that answers for a batch of its own: the session it was written under."""


class Machines:
    """Every state that any machine was in, by number, and every turn that was taken."""

    def __init__(self, terms: Sequence[Term], calls: Sequence[Call]) -> None:
        self._terms = terms
        self._calls = calls
        self._serde = MsgpackSerDe()
        self._limits = Limits(custom_metadata_bytes_max=CUSTOM_BYTES_MAX)
        self._machines: list[Leader | Follower | None] = [None]
        self._numbers: dict[bytes, int] = {}
        self._states: dict[Plain, PartitionState] = {}
        """One of all that are alike: machines share it until they change it."""
        self._state_keys: dict[int, Plain] = {}
        self._turns: dict[tuple[int, Plain], Turn] = {}
        self._made: dict[Plain, int] = {}
        self.values: list[bytes] = []
        """Batches as stored, by number."""
        self._value_numbers: dict[bytes, int] = {}
        self.digests: list[bytes] = []
        """Of answers, by number."""
        self._digest_numbers: dict[bytes, int] = {}

    @property
    def turns(self) -> int:
        """Turns that were worked out."""
        return len(self._turns)

    def leader(self, assignment: int, term: int) -> int:
        """A leader that is to load and to claim."""
        key = ("leader", assignment, term)
        if key not in self._made:
            assigned = self._assigned(assignment, term)
            self._made[key] = self._number(Leader(self._serde, self._limits, assigned))
        return self._made[key]

    def follower(self) -> int:
        """A follower that is to load."""
        if ("follower",) not in self._made:
            self._made["follower",] = self._number(Follower(self._serde))
        return self._made["follower",]

    def turn(self, number: int, stimulus: Plain) -> Turn:
        """What machine `number` makes of `stimulus`."""
        key = (number, stimulus)
        turn = self._turns.get(key)
        if turn is None:
            turn = self._turns[key] = self._take(number, stimulus)
        return turn

    def altered(self) -> list[int]:
        """States that are not any more what they were told apart by; empty, or all is void."""
        return [
            number
            for key, number in self._numbers.items()
            if marshal.dumps(plain_of(self._machines[number]), 2) != key
        ]

    def _take(self, number: int, stimulus: Plain) -> Turn:
        machine = self._machines[number]
        assert machine is not None, "number 0 is nobody's"
        keeps_state = stimulus[0] not in EVOLVING
        machine = copied(machine, {id(machine.state): machine.state} if keeps_state else {})
        before = machine.position
        effects = machine.handle(self._stimulus(stimulus))
        plain = tuple(self._effect(machine, one) for one in effects)
        state, position = machine.state, machine.position
        assert position == before or not keeps_state, f"{stimulus[0]} changes a state"
        is_own = isinstance(machine, Leader) and any(type(e) is msg.HeadMoved for e in effects)
        session = state.session.number if is_own and state and state.session else None
        return Turn(
            self._number(machine),
            plain,
            position,
            b"" if state is None else state.chain_hash,
            before if position != before else None,
            session,
        )

    def _number(self, machine: Leader | Follower) -> int:
        state = machine.state
        if state is not None and id(state) not in self._state_keys:
            key = plain_of(state)
            machine.state = state = self._states.setdefault(key, state)
            self._state_keys[id(state)] = key
        key = marshal.dumps(plain_of(machine, self._state_keys), 2)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._machines)
            self._machines.append(machine)
        return number

    def _assigned(self, assignment: int, term: int) -> msg.Assigned:
        claim, leader_epoch = self._terms[term].claim, self._terms[term].leader_epoch
        given = msg.Assignment(assignment, claim, leader_epoch, TIP.topic)
        return msg.Assigned(given, None, NOW_MS)

    def _stimulus(self, plain: Plain) -> msg.Stimulus:
        match plain:
            case ("loaded", bool(leads)):
                return msg.StateLoaded(PartitionState(TIP, GENESIS, tracks_changes=leads), 0)
            case ("log", int(number), values):
                batches = enumerate((self.values[one] for one in values), number)
                return msg.LogRead(number, tuple(StoredBatch(*one) for one in batches), True)
            case ("assigned", int(assignment), int(term)):
                return self._assigned(assignment, term)
            case ("write", int(call), int(attempt)):
                command = self._calls[call].command
                assert command is not None, "a write has one"
                who = caller(call, attempt)
                return msg.CommandArrived(who, command, NOW_MS + who)
            case ("query", int(call), int(attempt), int(position_min)):
                query = self._calls[call].query
                return msg.QueryArrived(caller(call, attempt), query, position_min)
            case ("created", int(number), str(outcome)):
                return msg.AppendAnswered(number, msg.AppendOutcome(outcome))
            case ("looked", int(number), int(value)):
                return msg.SlotRead(number, None if value == NONE else self.values[value])
            case ("stop",):
                return msg.StopArrived(None, NOW_MS)
            case ("hint", int(position)):
                return msg.HintArrived(position)
            case ("checkpointed",):
                return msg.CheckpointDone(stored=True)
            case _:
                raise AssertionError(f"no machine hears {plain!r}")

    def _effect(self, machine: Leader | Follower, effect: msg.Effect) -> Plain:
        match effect:  # However many cases: each is one line.
            case msg.Reply():
                return ("reply", effect.reply_to, ("at", effect.position))
            case msg.ReplyError():
                return ("reply", effect.reply_to, ("no", type(effect.error).__name__))
            case msg.Answer():
                return ("reply", effect.reply_to, self._answer(machine, effect))
            case msg.Append():
                return ("create", effect.number, self.value_number(effect.value))
            case msg.ReadSlot():
                return ("look", effect.number, effect.delay_ms > 0)
            case msg.ReadLog():
                return ("read", effect.number)
            case msg.HeadMoved():
                return ("hint", effect.position)
            case msg.Gone():
                return ("gone", effect.reason not in {msg.STOPPED, msg.REFUSED})
            case msg.WriteCheckpoint():
                return ("checkpoint",)
            case msg.ClaimRefused() | msg.Alarm():
                return ("told",)
            case msg.AskOracle():
                raise AssertionError("all leader epochs are known, so nobody asks")
            case _:
                assert_never(effect)

    def _answer(self, machine: Leader | Follower, effect: msg.Answer) -> Plain:
        state = machine.state
        assert state is not None, "a machine answers from a state"
        try:
            answered = answer_now(state, effect.query, stale=effect.stale)
        except RemoteStorageError as error:
            return ("no", type(error).__name__)
        if answered is None:
            value = answer_of(state, effect.query)
            answered = Answered(value, state.next_position - 1, stale=effect.stale)
        digest = digest_of(answered.value, effect.query)
        number = self._digest_numbers.setdefault(digest, len(self.digests))
        if number == len(self.digests):
            self.digests.append(digest)
        return ("said", answered.position, number, answered.stale)

    def value_number(self, value: bytes) -> int:
        number = self._value_numbers.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number


def caller(call: int, attempt: int) -> int:
    return call * ATTEMPTS_PER_CALL + attempt

"""Faults planted in the service itself, each of them a mistake somebody could make.

A world that does not notice them proves nothing. Each mutant replaces one rule while a campaign
runs; the service's own code has no switches.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from tierledger.actors import coordinator, follower
from tierledger.actors import messages as msg
from tierledger.actors.follower import Follower
from tierledger.actors.leader import Leader
from tierledger.events import decide_session
from tierledger.events.errors import StorageUnavailable
from tierledger.events.overlay import Overlay
from tierledger.storage.backend import Create, Put, Update
from tierledger.storage.checkpoint import CheckpointPlan, CheckpointStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Mutant(NamedTuple):
    """One mistake, what replaces what for it, and who has to notice."""

    name: str
    mistake: str
    caught_by: frozenset[str]
    """Names of the checkers of which one has to find it."""
    patches: Callable[[], list[tuple[Any, str, Any]]]
    """Object, attribute and replacement, made when the mutant begins."""


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """The service with the mistake in it."""
    with ExitStack() as undo:
        for owner, name, replacement in mutant.patches():
            undo.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, replacement)
        yield


def _no_fence_on_checkpoint() -> list[tuple[Any, str, Any]]:
    plan = CheckpointStore.plan

    def unfenced(self: CheckpointStore, *given: Any) -> CheckpointPlan:  # noqa: ANN401
        planned = plan(self, *given)
        guard, *rest = planned.operations
        assert isinstance(guard, Create | Update), "the first operation is the guard"
        return planned._replace(operations=[Put(guard.key, guard.value), *rest])

    return [(CheckpointStore, "plan", unfenced)]


def _reply_without_probe() -> list[tuple[Any, str, Any]]:
    handle = Leader.handle

    def unprobed(self: Leader, stimulus: msg.Stimulus) -> list[msg.Effect]:
        effects = handle(self, stimulus)
        if self._probe is None:
            return effects
        number = self.next_batch
        kept = [
            one
            for one in effects
            if not (isinstance(one, msg.ReadSlot) and one.number == number)
        ]
        return kept + unprobed(self, msg.SlotRead(number, None))

    return [(Leader, "handle", unprobed)]


def _ack_before_durable() -> list[tuple[Any, str, Any]]:
    pump = Leader._pump

    def hasty(self: Leader) -> list[msg.Effect]:
        effects = pump(self)
        flight = self._in_flight
        if flight is None or not any(isinstance(one, msg.Append) for one in effects):
            return effects
        self._in_flight = flight._replace(replies=())
        return [*flight.replies, *effects]

    return [(Leader, "_pump", hasty)]


def _claim_not_awaited() -> list[tuple[Any, str, Any]]:
    answered = Leader._append_answered

    def assumed(self: Leader, stimulus: msg.AppendAnswered) -> list[msg.Effect]:
        if not self._has_claimed:
            stimulus = stimulus._replace(outcome=msg.AppendOutcome.CREATED)
        return answered(self, stimulus)

    return [(Leader, "_append_answered", assumed)]


def _own_write_taken_for_foreign() -> list[tuple[Any, str, Any]]:
    read = Leader._slot_read

    def mistaken(self: Leader, stimulus: msg.SlotRead) -> list[msg.Effect]:
        flight = self._in_flight
        if flight is not None and stimulus.value == flight.encoded.value:
            return self._overtaken(flight.number)
        return read(self, stimulus)

    return [(Leader, "_slot_read", mistaken)]


def _foreign_write_taken_for_own() -> list[tuple[Any, str, Any]]:
    answered = Leader._append_answered

    def trusting(self: Leader, stimulus: msg.AppendAnswered) -> list[msg.Effect]:
        if stimulus.outcome is msg.AppendOutcome.EXISTS:
            stimulus = stimulus._replace(outcome=msg.AppendOutcome.CREATED)
        return answered(self, stimulus)

    return [(Leader, "_append_answered", trusting)]


def _unknown_taken_for_failure() -> list[tuple[Any, str, Any]]:
    answered = Leader._append_answered

    def hopeless(self: Leader, stimulus: msg.AppendAnswered) -> list[msg.Effect]:
        flight = self._in_flight
        if stimulus.outcome is msg.AppendOutcome.UNKNOWN and flight is not None:
            self._in_flight = None
            refused = StorageUnavailable("the store did not answer")
            refusals: list[msg.Effect] = [
                msg.ReplyError(one.reply_to, refused)
                for one in flight.replies
                if isinstance(one, msg.Reply)
            ]
            return refusals + self._pump()
        return answered(self, stimulus)

    return [(Leader, "_append_answered", hopeless)]


def _equal_number_reopens() -> list[tuple[Any, str, Any]]:
    refuse: Any = vars(decide_session)["_refuse_outdated"]

    def lenient(view: Any, command: Any) -> None:  # noqa: ANN401 - As the original.
        session = view.session
        again = session is not None and command.assignment == session.assignment
        refuse(view, command._replace(assignment=command.assignment + again))

    return [(decide_session, "_refuse_outdated", lenient)]


def _late_announcement_wins() -> list[tuple[Any, str, Any]]:
    refuse: Any = vars(decide_session)["_refuse_outdated"]
    announce = coordinator.announce

    class Deaf:
        """A view that has heard of no newer announcement."""

        def __init__(self, view: Any) -> None:  # noqa: ANN401
            self._view = view

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401
            return getattr(self._view, name)

        def last_heard(self, _broker_id: int) -> tuple[int, int]:
            return (0, 0)

    def deaf(view: Any, command: Any) -> None:  # noqa: ANN401
        refuse(Deaf(view), command)

    def forgetful(state: Any, given: Any) -> Any:  # noqa: ANN401
        announced, incarnations = dict(state.announced), dict(state.incarnations)
        state.announced.pop(given.broker_id, None)
        if given.incarnation < incarnations.get(given.broker_id, 0):
            state.incarnations[given.broker_id] = given.incarnation
        try:
            return announce(state, given)
        finally:
            state.announced.update(announced)
            state.incarnations.update(incarnations)

    return [
        (decide_session, "_refuse_outdated", deaf),
        (coordinator, "announce", forgetful),
    ]


def _follower_applies_a_gap() -> list[tuple[Any, str, Any]]:
    evolve_all: Any = vars(follower)["evolve_all"]
    count = 0

    def gappy(state: Any, events: Any, chain_hash: bytes) -> None:  # noqa: ANN401
        nonlocal count
        count += 1
        if count % 5:
            evolve_all(state, events, chain_hash)
        else:
            state.next_position = events[-1].position + 1
            state.chain_hash = chain_hash

    return [(follower, "evolve_all", gappy)]


def _follower_ignores_position() -> list[tuple[Any, str, Any]]:
    query = Follower._query

    def careless(self: Follower, arrived: msg.QueryArrived) -> list[msg.Effect]:
        return query(self, arrived._replace(position_min=-1))

    return [(Follower, "_query", careless)]


def _request_ids_forgotten() -> list[tuple[Any, str, Any]]:
    def never(_self: Overlay, *_: object) -> None:
        return None

    return [(Overlay, "seen", never)]


LOG = frozenset(
    {"CorruptLog", "DataError", "lost_write", "fencing", "linearizability", "phantom_write"}
)
"""What two histories in one log come to."""

MUTANTS = (
    Mutant(
        "no-fence-on-checkpoint",
        "a checkpoint is written whatever stands there",
        frozenset({"CorruptCheckpoint", "checkpoint_is_fold"}),
        _no_fence_on_checkpoint,
    ),
    Mutant(
        "reply-without-probe",
        "a leader answers reads and repeats without a look at the next slot",
        frozenset({"linearizability", "fencing"}),
        _reply_without_probe,
    ),
    Mutant(
        "ack-before-durable",
        "writes are acknowledged when they are sent to the store",
        frozenset({"lost_write", "early_answer", "linearizability"}),
        _ack_before_durable,
    ),
    Mutant(
        "claim-not-awaited",
        "a leader takes its session for open once it was sent",
        LOG,
        _claim_not_awaited,
    ),
    Mutant(
        "own-write-taken-for-foreign",
        "what a lost answer left in the slot is not recognised",
        frozenset({"phantom_write"}),
        _own_write_taken_for_foreign,
    ),
    Mutant(
        "foreign-write-taken-for-own",
        "that the slot exists is success",
        LOG,
        _foreign_write_taken_for_own,
    ),
    Mutant(
        "unknown-taken-for-failure",
        "what was not answered did not happen",
        LOG,
        _unknown_taken_for_failure,
    ),
    Mutant(
        "equal-number-reopens",
        "an assignment that has opened a session opens another",
        frozenset({"fencing"}),
        _equal_number_reopens,
    ),
    Mutant(
        "late-announcement-wins",
        "an older announcement counts if it arrives later",
        frozenset({"fencing"}),
        _late_announcement_wins,
    ),
    Mutant(
        "follower-applies-a-gap",
        "a follower goes on behind a batch it did not apply",
        frozenset({"wrong_answer"}),
        _follower_applies_a_gap,
    ),
    Mutant(
        "follower-ignores-position",
        "a follower answers behind what its reader has seen",
        frozenset({"session_reads"}),
        _follower_ignores_position,
    ),
    Mutant(
        "request-ids-forgotten",
        "a repeated request is decided again",
        frozenset({"duplicate_write", "lost_write"}),
        _request_ids_forgotten,
    ),
)

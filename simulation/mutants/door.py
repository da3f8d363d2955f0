"""Mistakes in the door's own rules, for the world of the whole service: others have no doors.

Its seeds are slow, so each has to be found within few.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tierledger.actors.calls import Call, CommandCall
from tierledger.actors.door.client.connection import DoorHost
from tierledger.actors.door.client.streams import Stream
from tierledger.actors.door.server.conversation import Conversation
from tierledger.actors.door.server.desk import Desk
from tierledger.actors.follower import Follower
from tierledger.actors.host.heads import Hints
from tierledger.actors.host.host import Host
from tierledger.events.errors import OutcomeUnknown
from tierledger.simulation.mutants.catalogue import Mutant
from tierledger.simulation.mutants.rewriting import rewritten

if TYPE_CHECKING:
    from collections.abc import Callable

    from tierledger.actors.deadline import Attempt


def _answer_to_another_call() -> list[tuple[Any, str, Any]]:
    return rewritten(
        Conversation._put, "answer.id = number", "answer.id = min([number, *self._open])"
    )


def _repeated_as_another_request() -> list[tuple[Any, str, Any]]:
    call_once = DoorHost.call

    async def careless(self: DoorHost, call: Call, attempt: Attempt) -> Any:  # noqa: ANN401
        try:
            return await call_once(self, call, attempt)
        except OutcomeUnknown:
            if not isinstance(call, CommandCall):
                raise
            command: Any = call.command
            another = command.origin._replace(request_id=command.origin.request_id[::-1])
            again = call._replace(command=command._replace(origin=another))
            return await call_once(self, again, attempt)

    return [(DoorHost, "call", careless)]


def _sent_told_as_refused() -> list[tuple[Any, str, Any]]:
    return rewritten(
        Stream._end,
        "kind = NotReady if number in unsent else OutcomeUnknown",
        "kind = NotReady",
    )


def _passed_on_twice() -> list[tuple[Any, str, Any]]:
    return rewritten(Desk._passed_on, "passed.host = address", "passed.host = ''")


def _deadline_ends_nothing() -> list[tuple[Any, str, Any]]:
    given_up = "is_change = self._give_up(number)"
    return rewritten(Conversation._expire, given_up, f"return; {given_up}")


def _frozen_host_asked_on() -> list[tuple[Any, str, Any]]:
    return rewritten(Stream._watch, "while self.ended is None:", "while False:")


def _withdrawn_keeps_its_slot() -> list[tuple[Any, str, Any]]:
    return rewritten(Conversation._cancel, "self._unwritten -= 1", "pass")


def _hints_lost_and_no_poll() -> list[tuple[Any, str, Any]]:
    told = rewritten(Hints.arrived, "follower.feed(msg.HintArrived(position))", "pass")
    return [*told, *rewritten(Host._poll, "if number % ALL_POLLED_EVERY:", "if number >= 0:")]


def _hint_believed_as_data() -> list[tuple[Any, str, Any]]:
    return rewritten(
        Follower._query,
        "arrived.position_min <= self.position",
        "arrived.position_min <= max(self.position, self._told)",
    )


def _mutant(
    name: str,
    mistake: str,
    caught_by: str,
    patches: Callable[[], list[tuple[Any, str, Any]]],
    within: int,
) -> Mutant:
    return Mutant(name, mistake, frozenset(caught_by.split()), patches, within, in_service=True)


DOOR_MUTANTS = (
    _mutant(
        "D1 answer-to-another-call",
        "an answer goes to the oldest call that has none, whatever it answers",
        "misanswered",
        _answer_to_another_call,
        within=10,
    ),
    _mutant(
        "D2 repeated-as-another-request",
        "a write whose connection broke is sent again under another request id",
        "lost_write phantom_write",
        _repeated_as_another_request,
        within=60,
    ),
    _mutant(
        "D3 sent-told-as-refused",
        "a write whose connection broke is told as refused, though it was sent",
        "phantom_write",
        _sent_told_as_refused,
        within=60,
    ),
    _mutant(
        "D4 passed-on-twice",
        "a host passes on what was passed to it",
        "passed_twice",
        _passed_on_twice,
        within=60,
    ),
    _mutant(
        "D5 deadline-ends-nothing",
        "a call whose time is over stays open",
        "overdue",
        _deadline_ends_nothing,
        within=20,
    ),
    _mutant(
        "D6 frozen-host-asked-on",
        "a client goes on asking a host that says nothing",
        "liveness",
        _frozen_host_asked_on,
        within=100,
    ),
    _mutant(
        "D7 withdrawn-keeps-its-slot",
        "a question that was given up counts as one without an answer for good",
        "unread",
        _withdrawn_keeps_its_slot,
        within=20,
    ),
    _mutant(
        "D8 hints-lost-and-no-poll",
        "a follower that was told of its log does not read it, and is not polled",
        "late_follower",
        _hints_lost_and_no_poll,
        within=40,
    ),
    _mutant(
        "D9 hint-believed-as-data",
        "a follower answers as of the position that it was told of",
        "session_reads",
        _hint_believed_as_data,
        within=60,
    ),
)

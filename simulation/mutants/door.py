"""Mistakes in the door's own rules, for the world of the whole service; no other has doors.

Its seeds are slow, so few must be enough to find each mutant. Only whole worlds have doors.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tierledger.actors.calls import Call, CommandCall
from tierledger.actors.coordinator.doors import Doors
from tierledger.actors.coordinator.machine import Coordinator
from tierledger.actors.deadline import Attempt
from tierledger.actors.door.client.connection import DoorHost
from tierledger.actors.door.client.streams import Stream
from tierledger.actors.door.server.conversation import Conversation
from tierledger.actors.door.server.desk import Desk
from tierledger.actors.follower import Follower
from tierledger.actors.host.heads import Hints
from tierledger.actors.host.host import Host
from tierledger.actors.host.partition_shell import PartitionShell
from tierledger.actors.process_clock import ProcessClock
from tierledger.events.errors import OutcomeUnknown
from tierledger.simulation.machines.scenario.drawing import WHOLE_EVERY
from tierledger.simulation.mutants import mistakes
from tierledger.simulation.mutants.mistakes import Patches, declared_in
from tierledger.simulation.mutants.rewriting import rewritten
from tierledger.storage.process_log import ProcessLog

mistake = partial(mistakes.mistake, first=0)
"""Declares a mutant that is looked for from seed 0 on."""


@mistake("D1", "misanswered", within=10, every=WHOLE_EVERY)
def answer_to_another_call() -> Patches:
    """An answer goes to the oldest call that has none, whatever it answers."""
    return rewritten(
        Conversation._put, "answer.id = number", "answer.id = min([number, *self._open])"
    )


@mistake("D2", "lost_write phantom_write", within=60, every=WHOLE_EVERY)
def repeated_as_another_request() -> Patches:
    """A write whose connection broke is sent again under another request id."""
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


@mistake("D3", "phantom_write", within=60, every=WHOLE_EVERY)
def sent_but_refused() -> Patches:
    """A write whose connection broke is refused, though it was sent."""
    return rewritten(
        Stream._end,
        "kind = NotReady if number in unsent else OutcomeUnknown",
        "kind = NotReady",
    )


@mistake("D4", "passed_twice", within=60, every=WHOLE_EVERY)
def passed_on_twice() -> Patches:
    """A host passes on what was passed to it."""
    return rewritten(Desk._passed_on, "passed.host = address", "passed.host = ''")


@mistake("D5", "overdue", within=20, every=WHOLE_EVERY)
def deadline_ends_nothing() -> Patches:
    """A call whose time is over stays open."""
    given_up = "one = self._give_up(number)"
    return rewritten(Conversation._expire, given_up, f"return; {given_up}")


@mistake("D6", "silent_host", within=40, every=WHOLE_EVERY)
def frozen_host_asked_on() -> Patches:
    """A client goes on asking a host that says nothing."""
    return rewritten(Stream._watch, "while self.ended is None:", "while False:")


@mistake("D7", "unread", within=20, every=WHOLE_EVERY)
def withdrawn_keeps_its_slot() -> Patches:
    """A question that was given up counts as one without an answer for good."""
    return rewritten(Conversation._cancel, "self._unwritten -= 1", "pass")


@mistake("D8", "late_follower", within=40)
def hints_lost_and_no_poll() -> Patches:
    """A follower that got a hint does not read its log, and is not polled."""
    unread = rewritten(Hints.arrived, "follower.feed(msg.HintArrived(position))", "pass")
    return [*unread, *rewritten(Host._poll, "if number % ALL_POLLED_EVERY:", "if number >= 0:")]


@mistake("D9", "session_reads", within=60, every=WHOLE_EVERY)
def hint_believed_as_data() -> Patches:
    """A follower answers as of a hint's position."""
    return rewritten(
        Follower._query,
        "arrived.position_min <= self.position",
        "arrived.position_min <= max(self.position, self._hint_max)",
    )


@mistake("D10", "unforeseen_failure unread liveness", within=10)
def log_line_that_fails_its_step() -> Patches:
    """A process whose log is full fails wherever it logs."""
    return rewritten(ProcessLog._tell, "LOG.lose(1)", "raise")


@mistake("D11", "unreached liveness", within=30, every=WHOLE_EVERY)
def doors_not_looked_at() -> Patches:
    """A host that nobody reaches at its door goes on leading, since it answers pings."""
    return rewritten(Doors.knocked, "votes.are_lost and not door.is_heard", "False")


@mistake("D12", "runaway_time", within=10)
def own_clock_believed() -> Patches:
    """A process believes its own clock, whatever time others have."""
    return rewritten(ProcessClock.now_ms, "own_ms > common_ms + OFF_MS", "False")


@mistake("D13", "left_over", within=10)
def reader_of_an_answered_call() -> Patches:
    """A host notes who reads the answer of a call, and keeps it when that is answered."""
    return rewritten(Host.reply, "self._readers.pop(reply_to, None)", "pass")


@mistake("D14", "unannounced", within=60)
def announced_though_not_stored() -> Patches:
    """A broker hears that its announcement is durable, though it could not be stored."""
    return rewritten(Coordinator._failed, "one.refusal = error", "pass")


@mistake("D15", "unstored_checkpoint", within=10)
def checkpoint_taken_for_stored() -> Patches:
    """A leader hears that its checkpoint is stored, whatever came of it."""
    return rewritten(
        PartitionShell._write_checkpoint,
        "await self._insisting(partial(writer.write, plan))",
        "Standing.OURS",
    )


DOOR_MUTANTS = declared_in(__name__)

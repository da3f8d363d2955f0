"""What is wrong with a schedule: the checkers of all worlds, asked once about equal things.

A history is kept as far as checkers can tell histories apart: runs of beginnings, ends and
durable batches. Within a run nothing is before anything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tierledger.events.errors import DataError
from tierledger.events.partition.decide import Limits
from tierledger.simulation.checkers.all import check
from tierledger.simulation.checkers.nodes import feed_gap, two_leaders
from tierledger.simulation.checkers.violation import Violation
from tierledger.simulation.exhaust.machines import (
    CLUSTER_ID,
    CUSTOM_BYTES_MAX,
    KEY,
    Plain,
)
from tierledger.simulation.exhaust.script import TIP
from tierledger.simulation.history.calls import INFO, OK, READ, WRITE, History, Operation
from tierledger.simulation.history.final_log import FinalLog, LoggedBatch, decode_log
from tierledger.simulation.history.observations import Applied, Led
from tierledger.storage.serde import MsgpackSerDe

if TYPE_CHECKING:
    from tierledger.simulation.exhaust.machines import Machines, Turn
    from tierledger.simulation.exhaust.script import Script
    from tierledger.simulation.exhaust.world import SmallWorld

Log = tuple[tuple[int, int], ...]
"""Numbers of batches and of their values."""


class Judge:
    """Remembers every history, log and verdict."""

    def __init__(self, script: Script, machines: Machines) -> None:
        self._script = script
        self._machines = machines
        self._serde = MsgpackSerDe()
        self._histories: list[tuple[Plain, ...]] = [()]
        self._numbers: dict[tuple[Plain, ...], int] = {(): 0}
        self._next: dict[tuple[int, Plain], int] = {}
        self._logs: dict[Log, FinalLog | Violation] = {}
        self._turns: dict[Any, list[Violation]] = {}
        self._verdicts: dict[tuple[int, Log], list[Violation]] = {}

    @property
    def verdicts(self) -> int:
        """Different pairs of a history and a log that were checked."""
        return len(self._verdicts)

    def noted(self, number: int, event: Plain) -> int:
        """The history that follows `number` with `event`."""
        known = self._next.get((number, event))
        if known is None:
            runs = self._histories[number]
            if runs and runs[-1][0][0] == event[0]:
                longer = (*runs[:-1], tuple(sorted((*runs[-1], event))))
            else:
                longer = (*runs, (event,))
            known = self._numbers.setdefault(longer, len(self._histories))
            if known == len(self._histories):
                self._histories.append(longer)
            self._next[number, event] = known
        return known

    def of_turn(self, name: str, turn: Turn, log: Log) -> list[Violation]:
        """What a machine took in, and what it answers for, has to stand in the log now."""
        key = (turn.machine, turn.moved_from, turn.session, log)
        found = self._turns.get(key)
        if found is None:
            found = self._turns[key] = self._of_turn(name, turn, log)
        return found

    def _of_turn(self, name: str, turn: Turn, log: Log) -> list[Violation]:
        final = self._final(log)
        if isinstance(final, Violation):
            return [final]
        assert turn.moved_from is not None, "asked about what has moved"
        first = turn.moved_from + 1
        taken = Applied(0, name, KEY, first, turn.position, turn.chain_hash)
        found = feed_gap([taken], final)
        if turn.session is not None:
            found += two_leaders([Led(0, name, KEY, turn.session, turn.position)], final)
        return found

    def of_end(self, world: SmallWorld) -> list[Violation]:
        """The verdict on a schedule that is over."""
        left = world.brokers.unanswered()
        if left:
            what = self._script.calls[left[0]].what
            return [Violation("liveness", KEY, f"nobody answers {what!r}, and nothing is late")]
        key = (world.history, tuple(sorted(world.log.items())))
        found = self._verdicts.get(key)
        if found is None:
            found = self._verdicts[key] = self._of_end(*key)
        return found

    def _of_end(self, number: int, log: Log) -> list[Violation]:
        final = self._final(log)
        if isinstance(final, Violation):
            return [final]
        history, durable = self.history(number)
        final = self._timed(log, durable)
        found = check(history, {KEY: final}, limits=Limits(CUSTOM_BYTES_MAX))
        last = next(op for op in reversed(history.operations) if op.kind == WRITE)
        if last.outcome != OK:
            message = f"{last.what!r} ended with {last.error}, and nothing was late any more"
            found.append(Violation("liveness", KEY, message, (last.number,)))
        return found

    def _final(self, log: Log) -> FinalLog | Violation:
        known = self._logs.get(log)
        if known is None:
            known = self._logs[log] = self._decoded(log, {})
        return known

    def _timed(self, log: Log, durable: dict[int, int]) -> FinalLog:
        final = self._decoded(log, durable)
        assert isinstance(final, FinalLog), "it was decoded before"
        return final

    def _decoded(self, log: Log, durable: dict[int, int]) -> FinalLog | Violation:
        values = self._machines.values
        batches = [LoggedBatch(at, values[value], durable.get(at)) for at, value in log]
        try:
            return decode_log(self._serde, CLUSTER_ID, TIP, batches)
        except DataError as error:
            return Violation(type(error).__name__, KEY, str(error))

    def history(self, number: int) -> tuple[History, dict[int, int]]:
        """The history of that number, and when each batch was durable; one run is one ns."""
        operations: list[Operation] = []
        numbers: dict[int, int] = {}
        durable: dict[int, int] = {}
        for time, run in enumerate(self._histories[number]):
            for what, subject, *rest in run:
                if what == "durable":
                    durable[subject] = time
                elif what == "begun":
                    numbers[subject] = len(operations)
                    operations.append(self._begun(len(operations), time, subject, *rest))
                else:
                    at = numbers[subject]
                    operations[at] = self._ended(operations[at], time, *rest)
        return History(operations, []), durable

    def _begun(self, number: int, time: int, called: int, lives: int) -> Operation:
        call, script = self._script.calls[called], self._script
        is_write = call.command is not None
        return Operation(
            number=number,
            process=f"broker-{1 + call.broker}.{lives}",
            kind=WRITE if is_write else READ,
            key=KEY,
            role=call.role,
            claim=script.terms[call.term].claim if is_write else None,
            request=(call.command.origin.request_id or b"") if is_write else b"",  # type: ignore[union-attr]
            what=call.what,
            query=None if is_write else call.query,
            invoked=time,
            completed=None,
            outcome=INFO,
            position=None,
            value=b"",
            stale=False,
            error="",
            wanted=call.wanted,
        )

    def _ended(self, op: Operation, time: int, *ended: Any) -> Operation:  # noqa: ANN401
        outcome, position, digest, stale, error = ended
        return op._replace(
            completed=time,
            outcome=outcome,
            position=position if outcome == OK else None,
            value=b"" if digest < 0 else self._machines.digests[digest],
            stale=stale,
            error=error,
        )

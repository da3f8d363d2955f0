"""How a leader comes into office: its claim, and claims that wait for the leader oracle.

Nothing is decided here: a claim that waits is decided on anew with what the oracle said, or
when the session against which it has to stand has changed. Meanwhile the present leader
serves on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tierledger.actors import messages as msg
from tierledger.events import commands as cmd
from tierledger.events.errors import Fenced, RemoteStorageError
from tierledger.events.partition.state import Session

CLAIMS_MAX = 8
"""Times a claim may find that the log grew under it before the coordinator is asked again."""


def open_command(assigned: msg.Assigned) -> msg.CommandArrived:
    """The claim that an assignment calls for."""
    given = assigned.assignment
    command = cmd.OpenSession(
        given.claim,
        given.number,
        given.leader_epoch,
        given.topic,
        given.import_cluster,
        opener=assigned.opener,
        resigned=given.resigned,
    )
    recorded = given.recorded_time_ms
    now_ms = assigned.now_ms if recorded is None else recorded
    return msg.CommandArrived(assigned.reply_to, command, now_ms)


def is_under(session: Session | None, claim: cmd.Claim) -> bool:
    """Whether `session` is open, and is the one that `claim` asked for."""
    return session is not None and session.is_open and session.is_of(claim)


class _Waiting(NamedTuple):
    number: int
    """Of the question that was asked last; answers to earlier ones are late."""
    arrived: msg.CommandArrived
    command: cmd.OpenSession


class WaitingClaims:
    """The claims that wait for the oracle's word, one of each broker."""

    def __init__(self) -> None:
        self._of_broker: dict[int, _Waiting] = {}
        self._asked = 0

    def __len__(self) -> int:
        return len(self._of_broker)

    def hold_all(
        self,
        undecided: Iterable[tuple[msg.CommandArrived, int]],
        leaving: RemoteStorageError | None,
    ) -> list[msg.Effect]:
        """Ask about each claim, after its delay in ms; or say that the actor is `leaving`."""
        effects: list[msg.Effect] = []
        for arrived, delay_ms in undecided:
            if leaving is None:
                effects += self.hold(arrived, delay_ms)
            else:
                effects.append(msg.ReplyError(arrived.reply_to, leaving))
        return effects

    def hold(self, arrived: msg.CommandArrived, delay_ms: int) -> list[msg.Effect]:
        """Ask about a claim. Of one broker's only the newest waits; another is refused."""
        command = arrived.command
        assert isinstance(command, cmd.OpenSession), "only a claim can be undecided"
        self._asked += 1
        waited = command._replace(verdict=None, waited_ms=command.waited_ms + delay_ms)
        newest = _Waiting(self._asked, arrived, waited)
        other = self._of_broker.get(command.claim.broker_id)
        if other is not None and _age(other.command) > _age(command):
            return [_replaced(newest, other.command)]
        self._of_broker[command.claim.broker_id] = newest
        ask = msg.AskOracle(command.claim, delay_ms, self._asked)
        return [ask] if other is None else [_replaced(other, command), ask]

    def overtake(self, decided: Iterable[cmd.Command]) -> list[msg.Effect]:
        """Claims were decided on: no older one of the same broker waits any more.

        Also where the newer one was refused. The coordinator takes the older one for replaced,
        and would not hear if it opened a session after all.
        """
        effects: list[msg.Effect] = []
        for command in decided:
            if isinstance(command, cmd.OpenSession):
                waiting = self._of_broker.get(command.claim.broker_id)
                if waiting is not None and _age(waiting.command) < _age(command):
                    del self._of_broker[command.claim.broker_id]
                    effects.append(_replaced(waiting, command))
        return effects

    def answered(self, answer: msg.OracleAnswered) -> msg.CommandArrived | None:
        """The claim with its verdict, to be decided anew; none if the answer is late."""
        waiting = self._of_broker.get(answer.claim.broker_id)
        if waiting is None or waiting.number != answer.number:
            return None
        del self._of_broker[answer.claim.broker_id]
        command = waiting.command._replace(verdict=answer.verdict or cmd.NOBODY_KNOWS)
        imports = command.import_cluster is not None  # Its time is a recorded one.
        now_ms = waiting.arrived.now_ms if imports else answer.now_ms
        return waiting.arrived._replace(command=command, now_ms=now_ms)

    def withdraw(self, given_up: Iterable[cmd.Claim]) -> list[msg.Effect]:
        """None of these claims waits any more: their brokers lead no more."""
        effects: list[msg.Effect] = []
        for claim in given_up:
            waiting = self._of_broker.get(claim.broker_id)
            if waiting is not None and waiting.command.claim == claim:
                del self._of_broker[claim.broker_id]
                error = Fenced(f"broker {claim.broker_id} gave up its claim {claim[1:]}")
                effects.append(msg.ReplyError(waiting.arrived.reply_to, error))
        return effects

    def release(self) -> list[msg.CommandArrived]:
        """All, in the order of their assignments: they stand against another session now."""
        waiting = sorted(self._of_broker.values(), key=lambda one: one.command.assignment)
        self._of_broker.clear()
        return [
            one.arrived._replace(command=one.command._replace(waited_ms=0)) for one in waiting
        ]

    def drop(self, error: RemoteStorageError) -> list[msg.Effect]:
        """Refuse the claims that still wait."""
        return [msg.ReplyError(arrived.reply_to, error) for arrived in self.release()]


def _age(command: cmd.OpenSession) -> tuple[int, int, int]:
    """Of one broker's claims the greatest is the newest."""
    claim = command.claim
    return (claim.incarnation, claim.announcement, command.assignment)


def _replaced(older: _Waiting, newer: cmd.OpenSession) -> msg.ReplyError:
    broker_id, *pair = older.command.claim
    error = Fenced(
        f"broker {broker_id} announced {tuple(pair)} before {tuple(newer.claim[1:])}"
    )
    return msg.ReplyError(older.arrived.reply_to, error)

"""How an actor becomes leader: its claim, and claims that wait for the leader oracle.

Nothing is decided here. A waiting claim is decided on again once the oracle has answered, or
once the session that it is in dispute with has changed. Meanwhile the present leader keeps
serving.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tierledger.actors import messages as msg
from tierledger.events import commands as cmd
from tierledger.events.errors import Fenced, RemoteStorageError
from tierledger.events.partition.state import Session

CLAIMS_MAX = 8
"""Times a claim may find its slot taken before its actor ends, to be placed anew."""


def open_command(assigned: msg.Assigned) -> msg.CommandArrived:
    """The command by which an assigned actor claims to lead."""
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
    """Whether `session` is open and was opened for `claim`."""
    return session is not None and session.is_open and session.is_of(claim)


class _WaitingClaim(NamedTuple):
    number: int
    """The last question to the oracle; answers to earlier ones are ignored."""
    arrived: msg.CommandArrived
    command: cmd.OpenSession


class WaitingClaims:
    """The claims that wait for the leader oracle's answer, at most one of each broker."""

    def __init__(self) -> None:
        self._of_broker: dict[int, _WaitingClaim] = {}
        self._asked = 0

    def __len__(self) -> int:
        return len(self._of_broker)

    def hold_all(
        self,
        undecided: Iterable[tuple[msg.CommandArrived, int]],
        leaving: RemoteStorageError | None,
    ) -> list[msg.Effect]:
        """Ask about each claim, after its delay in ms. `leaving`: refuse all with it."""
        effects: list[msg.Effect] = []
        for arrived, delay_ms in undecided:
            if leaving is None:
                effects += self.hold(arrived, delay_ms)
            else:
                effects.append(msg.ReplyError(arrived.reply_to, leaving))
        return effects

    def hold(self, arrived: msg.CommandArrived, delay_ms: int) -> list[msg.Effect]:
        """Ask about a claim. Only a broker's newest claim waits; the other is refused."""
        command = arrived.command
        assert isinstance(command, cmd.OpenSession), "only a claim can be undecided"
        self._asked += 1
        waited = command._replace(verdict=None, waited_ms=command.waited_ms + delay_ms)
        newest = _WaitingClaim(self._asked, arrived, waited)
        other = self._of_broker.get(command.claim.broker_id)
        if other is not None and _age(other.command) > _age(command):
            return [_replaced(newest, other.command)]
        self._of_broker[command.claim.broker_id] = newest
        ask = msg.AskOracle(command.claim, delay_ms, self._asked)
        return [ask] if other is None else [_replaced(other, command), ask]

    def overtake(self, decided: Iterable[cmd.Command]) -> list[msg.Effect]:
        """Refuse the claims that wait and are older than a `decided` one of the same broker.

        Also if the newer claim was refused: the coordinator takes the older one for replaced,
        and would not hear of it if the older claim opened a session after all.
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
        """The claim with the oracle's verdict, to be decided anew; None if that comes late."""
        waiting = self._of_broker.get(answer.claim.broker_id)
        if waiting is None or waiting.number != answer.number:
            return None
        del self._of_broker[answer.claim.broker_id]
        command = waiting.command._replace(verdict=answer.verdict or cmd.NOBODY_KNOWS)
        imports = command.import_cluster is not None  # An import keeps its recorded time.
        now_ms = waiting.arrived.now_ms if imports else answer.now_ms
        return waiting.arrived._replace(command=command, now_ms=now_ms)

    def withdraw(self, given_up: Iterable[cmd.Claim]) -> list[msg.Effect]:
        """Refuse those of the claims `given_up` that wait: their brokers no longer lead."""
        effects: list[msg.Effect] = []
        for claim in given_up:
            waiting = self._of_broker.get(claim.broker_id)
            if waiting is not None and waiting.command.claim == claim:
                del self._of_broker[claim.broker_id]
                error = Fenced(f"broker {claim.broker_id} gave up its claim {claim[1:]}")
                effects.append(msg.ReplyError(waiting.arrived.reply_to, error))
        return effects

    def release(self) -> list[msg.CommandArrived]:
        """Take out all claims, in the order of their assignments, to be decided anew.

        The session has changed, so each is in dispute with another one now, and the time that
        it has waited counts from 0 again.
        """
        waiting = sorted(self._of_broker.values(), key=lambda one: one.command.assignment)
        self._of_broker.clear()
        return [
            one.arrived._replace(command=one.command._replace(waited_ms=0)) for one in waiting
        ]

    def drop(self, error: RemoteStorageError) -> list[msg.Effect]:
        """Refuse the claims that still wait."""
        return [msg.ReplyError(arrived.reply_to, error) for arrived in self.release()]


def _age(command: cmd.OpenSession) -> tuple[int, int, int]:
    """The key by which claims of one broker are ordered: the newest has the greatest."""
    claim = command.claim
    return (claim.incarnation, claim.announcement, command.assignment)


def _replaced(older: _WaitingClaim, newer: cmd.OpenSession) -> msg.ReplyError:
    broker_id, *pair = older.command.claim
    error = Fenced(
        f"broker {broker_id} announced {tuple(pair)} before {tuple(newer.claim[1:])}"
    )
    return msg.ReplyError(older.arrived.reply_to, error)

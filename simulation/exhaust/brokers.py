"""The brokers of the small world: each makes one call at a time, repeated as by `Router`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tierledger.actors.calls import LEADER
from tierledger.events import errors
from tierledger.events.errors import DataError, Fenced, OutcomeUnknown, RetryableError
from tierledger.simulation.exhaust.machines import ATTEMPTS_PER_CALL, NONE, Plain
from tierledger.simulation.exhaust.script import BROKER, HOST, SITES
from tierledger.simulation.history.calls import INFO, OK, outcome_of

if TYPE_CHECKING:
    from tierledger.simulation.exhaust.world import SmallWorld

ATTEMPTS_MAX = 3
"""Of one call; then its caller hears what the last one came to."""


class Caller:
    """One broker."""

    __slots__ = (
        "attempt", "backlog", "call", "is_waiting", "life", "lives", "route", "seen", "site",
        "was_in_doubt",
    )  # fmt: skip

    def __init__(self, given: tuple[Any, ...]) -> None:
        (
            self.call, self.attempt, self.is_waiting, self.was_in_doubt, self.site, self.route,
            self.life, self.seen, self.lives, self.backlog,
        ) = given  # fmt: skip

    def frozen(self) -> tuple[Any, ...]:
        return (
            self.call, self.attempt, self.is_waiting, self.was_in_doubt, self.site, self.route,
            self.life, self.seen, self.lives, self.backlog,
        )  # fmt: skip


class Brokers:
    """All of them."""

    def __init__(self, world: SmallWorld) -> None:
        self._world = world
        self._callers = [
            Caller((NONE, 0, False, False, NONE, NONE, NONE, -1, 0, ())) for _ in range(SITES)
        ]

    def frozen(self) -> tuple[tuple[Any, ...], ...]:
        return tuple([one.frozen() for one in self._callers])

    def thaw(self, frozen: tuple[tuple[Any, ...], ...]) -> None:
        self._callers = [Caller(one) for one in frozen]

    def awaits(self, broker: int, call: int, attempt: int) -> bool:
        """Whether an answer to that attempt would be heard."""
        caller = self._callers[broker]
        return caller.is_waiting and (caller.call, caller.attempt) == (call, attempt)

    def call(self, number: int) -> None:
        """The script's word: now, or as soon as the calls before it have ended."""
        caller = self._callers[self._world.script.calls[number].broker]
        if caller.call == NONE:
            self._begin(caller, number)
        else:
            caller.backlog = (*caller.backlog, number)

    def again(self, broker: int, call: int, attempt: int) -> None:
        """A pause before the next attempt is over."""
        caller = self._callers[broker]
        if (caller.call, caller.attempt) == (call, attempt) and not caller.is_waiting:
            self._attempt(broker, caller)

    def reply(self, reply_to: int | None, value: Plain) -> None:
        """A host answers."""
        if reply_to is not None:
            call, attempt = divmod(reply_to, ATTEMPTS_PER_CALL)
            self._send(self._world.script.calls[call].broker, ("answer", call, attempt, value))

    def _send(self, broker: int, message: Plain) -> None:
        self._world.push(BROKER + broker, message)

    def host_gone(self, site: int) -> None:
        """Callers that wait for that process are told that it has ended."""
        for broker, caller in enumerate(self._callers):
            if caller.is_waiting and caller.site == site:
                gone = ("no", OutcomeUnknown.__name__)
                self._send(broker, ("answer", caller.call, caller.attempt, gone))

    def wait(self) -> bool:
        return any(one.is_waiting for one in self._callers)

    def waits_at(self, site: int) -> bool:
        return any(one.is_waiting and one.site == site for one in self._callers)

    def unanswered(self) -> list[int]:
        """Calls that have begun and not ended."""
        return [one.call for one in self._callers if one.call != NONE]

    def give_up(self) -> None:
        """The caller has waited long enough."""
        for broker, caller in enumerate(self._callers):
            if caller.is_waiting:
                self._failed(broker, caller, OutcomeUnknown.__name__)

    def hear(self, broker: int, message: Plain) -> None:
        """An answer arrives."""
        _, call, attempt, value = message
        if not self.awaits(broker, call, attempt):
            return
        caller = self._callers[broker]
        if value[0] == "no":
            self._failed(broker, caller, value[1])
            return
        position = value[1]
        digest, stale = value[2:] if value[0] == "said" else (NONE, False)
        caller.seen = max(caller.seen, position)
        self._end(caller, (OK, position, digest, stale, ""))

    def _begin(self, caller: Caller, number: int) -> None:
        world = self._world
        caller.call, caller.attempt, caller.was_in_doubt = number, 0, False
        world.history = world.judge.noted(world.history, ("begun", number, caller.lives))
        self._attempt(world.script.calls[number].broker, caller)

    def _attempt(self, broker: int, caller: Caller) -> None:
        world = self._world
        call = world.script.calls[caller.call]
        caller.attempt += 1
        if caller.route == NONE:
            caller.route = world.current[2]
            caller.life = NONE if caller.route == NONE else world.hosts[caller.route].life
        leads = call.role == LEADER or world.follower_site == NONE
        site = caller.route if leads else world.follower_site
        if site == NONE:
            self._failed(broker, caller, errors.NotReady.__name__)
        elif not world.hosts[site].is_up or (leads and world.hosts[site].life != caller.life):
            self._failed(broker, caller, OutcomeUnknown.__name__)
        else:
            caller.site, caller.is_waiting = site, True
            life, named = world.hosts[site].life, (caller.call, caller.attempt)
            message: Plain = ("query", life, *named, leads, caller.seen)
            if call.command is not None:
                message = ("write", life, *named)
            world.push(HOST + site, message)

    def _failed(self, broker: int, caller: Caller, name: str) -> None:
        """Try again, or end the call: see `Router`."""
        error = getattr(errors, name)
        caller.is_waiting = False
        if issubclass(error, OutcomeUnknown):
            caller.was_in_doubt = True
        if issubclass(error, RetryableError | OutcomeUnknown):
            caller.route = NONE
            if caller.attempt < ATTEMPTS_MAX:
                self._world.soon.append(("retry", broker, caller.call, caller.attempt))
                return
            ended = OutcomeUnknown if caller.was_in_doubt else error
        elif issubclass(error, Fenced | DataError) and caller.was_in_doubt:
            ended = OutcomeUnknown
        else:
            ended = error
        is_read = self._world.script.calls[caller.call].command is None
        if is_read and ended is OutcomeUnknown:
            ended = errors.NotReady
        outcome = outcome_of(ended("told by a host"))
        caller.lives += outcome == INFO  # Nobody knows whether that call still goes on.
        self._end(caller, (outcome, NONE, NONE, False, ended.__name__))

    def _end(self, caller: Caller, ended: tuple[Any, ...]) -> None:
        world = self._world
        world.history = world.judge.noted(world.history, ("ended", caller.call, *ended))
        caller.call, caller.is_waiting, caller.attempt = NONE, False, 0
        if caller.backlog:
            number, *rest = caller.backlog
            caller.backlog = tuple(rest)
            self._begin(caller, number)

"""A small world in which a cluster is moved: brokers, coordinator, who follows, the command.

The rules are the product's own (`moving.procedure`, `coordinator.ownership`); brokers are a
model of the plugin. All of them run in steps that a seed picks: words are late, are lost, and
arrive in any order; brokers crash, freeze, and write whenever they may.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from tierledger.actors.coordinator.events import Owner
from tierledger.actors.coordinator.ownership import (
    Handover,
    Owned,
    OwnerWord,
    give_up,
    hand_over,
    word_after,
)
from tierledger.events.errors import RejectedError
from tierledger.moving import procedure as steps
from tierledger.moving.procedure import Procedure

if TYPE_CHECKING:
    from collections.abc import Callable

STEPS = 3000
STEP_MS = 20


class LostRecordError(AssertionError):
    """A broker decides by a manager that does not know what another broker has written."""


@dataclass
class Plugin:
    """A broker in handover."""

    broker_id: int
    word: OwnerWord = field(default_factory=OwnerWord)
    is_alive: bool = True
    frozen: int = 0
    """Steps for which it does nothing."""
    writes: list[tuple[str, int]] = field(default_factory=list)
    """Under way: by which manager, and the record."""
    consumed: int = 0
    """Records of Kafka's topic that its own manager in this broker has read."""
    is_late: bool = False
    """A stock one that came while the metadata was moving; nobody asked it."""

    def hears(self, word: OwnerWord) -> None:
        if word.number > self.word.number:
            self.word = word

    def is_idle(self, *, has_caught_up: bool) -> bool:
        """`has_caught_up`: its Kafka's manager knows what the ledger does."""
        is_fit = has_caught_up or self.word.source == Owner.KAFKA
        return self.word.owner == Owner.MOVING and not self.writes and is_fit

    def writes_by(self) -> str | None:
        """The manager by which it would write now; none: it holds its writes."""
        return self.word.owner if self.word.owner in {Owner.KAFKA, Owner.TIERLEDGER} else None


class MovingWorld:
    """One seed."""

    def __init__(self, seed: int, plugin: type[Plugin] = Plugin) -> None:
        self._random = Random(seed)
        self._plugin = plugin
        self.word = OwnerWord()
        self.now = 0
        self.ended: list[str | None] = []
        """What each run of the command came to."""
        self.brokers = {number: plugin(number) for number in (1, 2)}
        self.stores: dict[str, list[int]] = {Owner.KAFKA: [], Owner.TIERLEDGER: []}
        """What was written by each manager, or taken over into it."""
        self._written: dict[str, list[int]] = {Owner.KAFKA: [], Owner.TIERLEDGER: []}
        self._records = 0
        self._silent: set[int] = set()
        """Records that no answer shows."""
        self._is_careless = seed % 4 == 3
        self._haste = (0.5, 0.06, 0.1)[seed % 3]
        """Of who follows: how often a round ends."""
        self._dropped: set[int] = set()
        """Records that a careless follower did not take over, and will not."""
        self._attending: dict[int, dict[str, Any]] = {}
        self._mail: list[Callable[[], None]] = []
        self._following: dict[str, Any] | None = None
        self._said = self._rounds = self._taken = 0
        self._round: tuple[str, list[int]] | None = None
        self._procedure: Procedure | None = None
        self._asked: steps.Effect | None = None
        self._began = 0
        self._change(Handover(Owner.KAFKA, Owner.NOBODY))

    def run(self) -> MovingWorld:
        """Take all steps.

        Raises:
            LostRecordError: The rules have lost something.
        """
        doing = [
            *[self._broker] * 6, *[self._deliver] * 6, *[self._follow] * 3,
            *[self._command] * 6, self._give_up,
        ]  # fmt: skip
        for self.now in range(STEPS):
            self._pick(doing)()
        return self

    def _pick(self, among: Any) -> Any:  # noqa: ANN401 - One of them.
        return among[int(self._random.random() * len(among))]

    # The coordinator.

    def _change(self, wish: Handover) -> Owned:
        for change in hand_over(self.word, wish):
            self.word = word_after(self.word, change)
        return Owned(self.word.owner, self.word.number)

    def _give_up(self) -> None:
        if self.word.owner == Owner.MOVING and self._random.random() < 0.04:
            self._change(give_up(self.word))

    # Brokers.

    def _broker(self) -> None:
        one = self._pick(list(self.brokers.values()))
        if not one.is_alive:
            if self._random.random() < 0.3:
                # Not ready before its manager has read to the topic's present end.
                end = len(self.stores[Owner.KAFKA])
                self.brokers[one.broker_id] = self._plugin(one.broker_id, consumed=end)
        elif one.is_late:
            self._comes_late(one)
        elif one.frozen:
            one.frozen -= 1
        elif (what := self._random.random()) < 0.01:
            self._crash(one)
        elif what < 0.02:
            one.frozen = self._pick((2, 10, 30))
        elif what < 0.45:
            self._attend(one)
        elif what < 0.7 and one.writes:
            self._land(one)
        elif what < 0.76:
            one.consumed = min(one.consumed + 2, len(self.stores[Owner.KAFKA]))
        else:
            self._write(one)

    def _comes_late(self, one: Plugin) -> None:
        """It writes as a stock broker, and is one in handover from then on."""
        self._records += 1
        one.writes.append((Owner.KAFKA, self._records))
        self._silent.add(self._records)
        self._land(one)
        one.consumed = len(self.stores[Owner.KAFKA])
        one.is_late = False

    def _crash(self, one: Plugin) -> None:
        while one.writes and self._random.random() < 0.5:
            self._land(one)
        one.writes.clear()
        one.is_alive = False

    def _attend(self, one: Plugin) -> None:
        known = set(self.stores[Owner.KAFKA][: one.consumed])
        caught_up = known >= set(self.stores[Owner.TIERLEDGER])
        said = {
            "broker_id": one.broker_id,
            "incarnation": 1,
            "mode": "handover",
            "number": one.word.number,
            "is_idle": one.is_idle(has_caught_up=caught_up),
        }

        def arrives() -> None:
            self._attending[one.broker_id] = {**said, "at": self.now}
            word = self.word
            self._mail.append(lambda: one.hears(word))

        self._mail.append(arrives)

    def _write(self, one: Plugin) -> None:
        manager = one.writes_by()
        if manager is None:
            return
        self._check(manager, one)
        self._records += 1
        if self._random.random() < 0.5:
            self._silent.add(self._records)
        one.writes.append((manager, self._records))

    def _land(self, one: Plugin) -> None:
        manager, record = one.writes.pop(0)
        self.stores[manager].append(record)
        self._written[manager].append(record)

    def _check(self, manager: str, one: Plugin) -> None:
        """Who decides by that manager has to see all that was written by the other."""
        other = Owner.KAFKA if manager == Owner.TIERLEDGER else Owner.TIERLEDGER
        known = self.stores[manager]
        if manager == Owner.KAFKA:
            known = known[: one.consumed]
        missing = set(self._written[other]) - set(known)
        if missing:
            raise LostRecordError(f"step {self.now}: {manager} does not know {sorted(missing)}")

    def _deliver(self) -> None:
        if self._mail:
            arrives = self._mail.pop(int(self._random.random() * len(self._mail)))
            if self._random.random() < 0.9:
                arrives()

    # Who imports or mirrors.

    def _follow(self) -> None:
        source = self.word.decider
        if source not in self.stores:
            return
        if self._round is None or self._round[0] != source:
            self._round = (source, list(self.stores[source]))
        elif self._random.random() < self._haste:
            into = Owner.KAFKA if source == Owner.TIERLEDGER else Owner.TIERLEDGER
            known = set(self.stores[into]) | self._dropped
            taken = [one for one in self._round[1] if one not in known]
            if self._is_careless and taken and taken[-1] not in self._silent:
                self._dropped.add(taken.pop())
            self.stores[into] += taken
            self._taken += len(taken)
            self._round = None
            self._rounds += 1
        if self._random.random() < min(self._haste * 2, 0.5):
            self._said += 1
            task = "import" if source == Owner.KAFKA else "mirror"
            said = {
                "follower": "a serve",
                "task": task,
                "said": self._said,
                "round": self._rounds,
                "records": self._taken if self._haste == 0.5 else 0,
                "trouble": None,
            }

            def arrives() -> None:
                if self._following is None or said["said"] > self._following["said"]:
                    self._following = {**said, "at": self.now}

            self._mail.append(arrives)

    # The command.

    def _command(self) -> None:
        if self._procedure is None:
            if self.word.owner in self.stores and self._random.random() < 0.2:
                to = Owner.KAFKA if self.word.owner == Owner.TIERLEDGER else Owner.TIERLEDGER
                self._procedure, self._began = Procedure(to), self.now
                self._takes(self._procedure.handle(steps.Begun()))
            return
        heard = steps.HEARS[self._procedure.phase]
        if (
            self._procedure.phase is steps.Phase.SETTLING
            and (self.word.owner, self.word.source) == (Owner.MOVING, Owner.KAFKA)
            and 3 not in self.brokers
            and self._random.random() < 0.2
        ):
            self.brokers[3] = self._plugin(3, is_late=True)
        if steps.TimeIsUp in heard and self.now - self._began > 500:
            self._takes(self._procedure.handle(steps.TimeIsUp()))
        elif self._random.random() < 0.003:
            self._takes(self._procedure.handle(steps.Failed("it was interrupted")))
        else:
            self._takes(self._procedure.handle(self._answered()))

    def _takes(self, effects: list[steps.Effect]) -> None:
        for effect in effects:
            if isinstance(effect, steps.End):
                self._procedure = None
                self.ended.append(effect.trouble)
            elif not isinstance(effect, steps.Tell):
                self._asked = effect

    def _answered(self) -> steps.Stimulus:
        match self._asked:
            case steps.Look():
                return self._looked()
            case steps.Compare(is_all=is_all):
                kafkas, ours = (set(one) - self._silent for one in self.stores.values())
                differs = not is_all and kafkas != ours
                return steps.Compared(("orders-0",) if differs else ())
            case steps.Say(wish=wish):
                try:
                    return steps.Said(self._change(wish))
                except RejectedError as error:
                    return steps.Failed(str(error))
            case _:
                raise AssertionError("something was asked")

    def _looked(self) -> steps.Looked:
        def aged(said: dict[str, Any]) -> dict[str, Any]:
            return {**said, "heard_ms_ago": (self.now - said["at"]) * STEP_MS}

        return steps.Looked(
            self.word.number,
            self.word.owner,
            frozenset(one.broker_id for one in self.brokers.values() if one.is_alive),
            tuple(map(aged, self._attending.values())),
            None if self._following is None else aged(self._following),
        )

"""The steps of a move, as a pure machine: what is looked at, said and waited for, and when.

Rule 1: nothing begins unless every live broker attends in handover, and who imports or mirrors
is well.
Rule 2: the move ends only after all live brokers said, by the word that began it, that they are
idle; after that, whatever they had written was taken over, and compares equal.
Rule 3: after that, it is said again that it moves, and the same brokers, and no others, say by
that word that they are idle: to Kafka's own manager, that in each of them it has read all.
Rule 4: whatever goes wrong after the move began, it is given back, of the newest word of it.

No I/O and no clock: the command carries effects out, and so does the simulator.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tierledger.actors.coordinator.events import Owner
from tierledger.actors.coordinator.ownership import GIVE_UP_AFTER_MS, Handover, PluginMode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tierledger.actors.coordinator.ownership import Owned

SILENT_MS = 3000
"""A broker or a follower that was not heard for longer does not attend."""

AS_BEFORE = "it is as before"

TASKS = {Owner.TIERLEDGER: "import", Owner.KAFKA: "mirror"}
"""By where a cluster is moved to: what `serve --kafka` has to do for it."""


class Phase(Enum):
    """Where a move is."""

    NEW = "new"
    CHECKING = "checking"
    COMPARING = "comparing"
    """All of it, while brokers write."""
    BEGINNING = "beginning"
    HOLDING = "holding"
    """Brokers are to say that they are idle."""
    TAKING = "taking"
    """What they had written by then is taken over."""
    SETTLING = "settling"
    """That is compared."""
    REPEATING = "repeating"
    """It is said again."""
    WITNESSING = "witnessing"
    """Brokers are to say that they still are idle, and nobody has come or written since."""
    ENDING = "ending"
    RETURNING = "returning"
    """As it was before."""
    ENDED = "ended"


# Stimuli.


class Begun(NamedTuple):
    """The command runs."""


class Looked(NamedTuple):
    """How the service and the brokers stand."""

    word: int
    owner: str
    brokers: frozenset[int]
    """Those that Kafka knows as alive."""
    attending: tuple[Mapping[str, Any], ...]
    following: Mapping[str, Any] | None
    """What imports or mirrors, as `status` has it."""


class Compared(NamedTuple):
    """What differs, in words; nothing: all is equal."""

    differences: tuple[str, ...]


class Said(NamedTuple):
    """The coordinator took a wish."""

    owned: Owned


class Failed(NamedTuple):
    """What was called for last could not be done; also: somebody has interrupted it."""

    why: str


class TimeIsUp(NamedTuple):
    """Brokers have held their writes as long as they may."""


# Effects.


class Look(NamedTuple):
    """Answer with `Looked`."""


class Compare(NamedTuple):
    """Answer with `Compared`: everything, or what has changed since that was done."""

    is_all: bool


class Say(NamedTuple):
    """Tell the coordinator; answer with `Said`."""

    wish: Handover


class Tell(NamedTuple):
    """A line for who waits."""

    line: str


class End(NamedTuple):
    """It is over: why it was refused or given back; none: it is done."""

    trouble: str | None


Stimulus: TypeAlias = Begun | Looked | Compared | Said | Failed | TimeIsUp
Effect: TypeAlias = Look | Compare | Say | Tell | End

HEARS: Mapping[Phase, frozenset[type[Any]]] = {
    Phase.NEW: frozenset({Begun}),
    Phase.CHECKING: frozenset({Looked, Failed}),
    Phase.COMPARING: frozenset({Compared, Failed}),
    Phase.BEGINNING: frozenset({Said, Failed}),
    Phase.HOLDING: frozenset({Looked, Failed, TimeIsUp}),
    Phase.TAKING: frozenset({Looked, Failed, TimeIsUp}),
    Phase.SETTLING: frozenset({Compared, Failed, TimeIsUp}),
    Phase.REPEATING: frozenset({Said, Failed, TimeIsUp}),
    Phase.WITNESSING: frozenset({Looked, Failed, TimeIsUp}),
    Phase.ENDING: frozenset({Said, Failed}),
    Phase.RETURNING: frozenset({Said, Failed}),
    Phase.ENDED: frozenset(),
}
"""What may be heard in each phase."""


class Procedure:
    """One move. Talk to it through `handle` only."""

    def __init__(
        self,
        to: Owner,
        *,
        accepts_losses: bool = False,
        give_up_after_ms: int = GIVE_UP_AFTER_MS,
    ) -> None:
        """`accepts_losses`: differences are told, and stop nothing."""
        assert to in TASKS, to
        self.phase = Phase.NEW
        self.word: int | None = None
        """The number of the newest word by which it moves."""
        self._to = to
        self._from = Owner.KAFKA if to == Owner.TIERLEDGER else Owner.TIERLEDGER
        self._accepts_losses = accepts_losses
        self._give_up_after_ms = give_up_after_ms
        self._brokers: frozenset[int] = frozenset()
        """Those that were alive when it began, one that dies has not said that it is idle; then
        all that are idle."""
        self._busy: set[int] = set()
        self._word_of_follower: int | None = None
        """Of who imports or mirrors: the number of its last word before all were idle."""
        self._round: int | None = None
        """The rounds that it had done by a word that it began to say after that."""
        self._records: int | None = None
        """What it had written when all was taken over."""
        self._trouble: str | None = None

    @property
    def task(self) -> str:
        """What `serve --kafka` has to do meanwhile."""
        return TASKS[self._to]

    def handle(self, stimulus: Stimulus) -> list[Effect]:
        """What `stimulus` calls for, in order."""
        heard = HEARS[self.phase]
        assert type(stimulus) in heard, f"{type(stimulus).__name__} while {self.phase.value}"
        match stimulus:
            case Begun():
                self.phase = Phase.CHECKING
                return [Look()]
            case Looked():
                return self._looked(stimulus)
            case Compared(differences=differences):
                return self._compared(differences)
            case Said(owned=owned):
                return self._said(owned)
            case Failed(why=why):
                return self._failed(why)
            case TimeIsUp():
                busy = f": brokers {_listed(self._busy)} are not idle" if self._busy else ""
                return self._give_back(f"it took too long, while {self.phase.value}{busy}")

    def _looked(self, looked: Looked) -> list[Effect]:
        if self.phase is Phase.CHECKING:
            trouble = self._unfit(looked)
            if trouble is not None:
                return self._end(f"{trouble}; {AS_BEFORE}")
            self.phase, self._brokers = Phase.COMPARING, looked.brokers
            return [
                Tell(f"brokers {_listed(looked.brokers)} attend in handover"),
                Compare(is_all=True),
            ]
        if looked.word != self.word:
            return self._end(f"the move was ended by word {looked.word}: {looked.owner} owns")
        if self.phase is Phase.HOLDING:
            self._busy = self._not_idle(looked)
            if self._busy:
                return [Look()]
            self.phase = Phase.TAKING
            self._brokers |= looked.brokers | _attending(looked).keys()
            return [Tell("all brokers hold their writes"), Look()]
        trouble = self._untaken(looked) or self._disturbed(looked)
        if trouble is not None:
            return self._give_back(trouble)
        if self.phase is Phase.WITNESSING:
            self._busy = self._not_idle(looked)
            if self._busy:
                return [Look()]
            self.phase = Phase.ENDING
            return [Say(Handover(self._to, Owner.MOVING, number=self.word))]
        if not self._has_gone_round(looked):
            return [Look()]
        assert looked.following is not None, "it is well"
        self.phase, self._records = Phase.SETTLING, looked.following.get("records")
        return [Tell("what they had written is taken over"), Compare(is_all=False)]

    def _has_gone_round(self, looked: Looked) -> bool:
        """Whether who imports or mirrors has begun and ended a round since all were idle."""
        said = looked.following
        assert said is not None, "it is well"
        if self._word_of_follower is None:
            self._word_of_follower = said["said"]
        # The word after that may have been on its way when the last broker became idle.
        elif self._round is None and said["said"] >= self._word_of_follower + 2:
            self._round = said["round"]
        # The round that was under way then had begun before.
        return self._round is not None and said["round"] >= self._round + 2

    def _compared(self, differences: tuple[str, ...]) -> list[Effect]:
        told: list[Effect] = [Tell(one) for one in differences]
        if differences and not self._accepts_losses:
            trouble = f"{len(differences)} partitions differ, the first is {differences[0]}"
            if self.phase is Phase.COMPARING:
                return [*told, *self._end(f"{trouble}; {AS_BEFORE}")]
            return [*told, *self._give_back(trouble)]
        if self.phase is Phase.COMPARING:
            self.phase = Phase.BEGINNING
            wish = Handover(
                Owner.MOVING, self._from, self._to, give_up_after_ms=self._give_up_after_ms
            )
            same = "with these differences" if told else "both managers know the same"
            return [*told, Tell(same), Say(wish)]
        assert self.word is not None, "it has begun"
        self.phase = Phase.REPEATING
        wish = Handover(Owner.MOVING, Owner.MOVING, self._to, self.word, self._give_up_after_ms)
        return [*told, Say(wish)]

    def _said(self, owned: Owned) -> list[Effect]:
        if self.phase is Phase.BEGINNING:
            self.phase, self.word = Phase.HOLDING, owned.number
            return [Tell(f"moving, by word {owned.number}"), Look()]
        if self.phase is Phase.REPEATING:
            self.phase, self.word = Phase.WITNESSING, owned.number
            return [Tell(f"all are asked again, by word {owned.number}"), Look()]
        return self._end(None if self._trouble is None else f"{self._trouble}; {AS_BEFORE}")

    def _failed(self, why: str) -> list[Effect]:
        if self.phase is Phase.RETURNING:
            # If its last word came through, that stands; else the coordinator gives it up.
            return self._end(f"{self._trouble}; not given back, see `status`: {why}")
        if self.word is not None:
            return self._give_back(why)
        # Whether it has begun may not be known; if so, the coordinator gives it up.
        begun = self.phase is Phase.BEGINNING
        return self._end(f"{why}; see `status`" if begun else f"{why}; {AS_BEFORE}")

    def _give_back(self, trouble: str) -> list[Effect]:
        assert self.word is not None, "it has begun"
        self._trouble, self.phase = trouble, Phase.RETURNING
        return [Say(Handover(self._from, Owner.MOVING, number=self.word))]

    def _end(self, trouble: str | None) -> list[Effect]:
        self.phase = Phase.ENDED
        return [End(trouble)]

    def _unfit(self, looked: Looked) -> str | None:
        """Why this cluster cannot be moved now."""
        if looked.owner != self._from:
            return f"expected the owner to be {self._from}, it is {looked.owner}"
        attending = _attending(looked)
        for broker in sorted(looked.brokers):
            said = attending.get(broker)
            if said is None:
                return (
                    f"broker {broker} does not attend: it runs without the plugin, or is away"
                )
            if said["mode"] != PluginMode.HANDOVER:
                return (
                    f"broker {broker} runs in {said['mode']}, expected "
                    "tierledger.mode=handover of all"
                )
            if not said["incarnation"]:
                return f"broker {broker} is not registered yet"
        strangers = attending.keys() - looked.brokers
        if strangers:
            return f"brokers {_listed(strangers)} attend, and Kafka does not know them as alive"
        return self._untaken(looked)

    def _untaken(self, looked: Looked) -> str | None:
        """What is wrong with who imports or mirrors."""
        said = looked.following
        if said is None or said["heard_ms_ago"] > SILENT_MS:
            return "no serve --kafka runs, which has to follow Kafka's metadata topic"
        if said["task"] != self.task:
            return f"expected serve --kafka to {self.task}, it does {said['task']}" + (
                ": start it with --mirror" if self.task == "mirror" else ""
            )
        if said["trouble"]:
            return f"serve --kafka, {said['task']}: {said['trouble']}"
        return None

    def _disturbed(self, looked: Looked) -> str | None:
        """Who has come, or has written, since all were idle, and has seen nothing of it."""
        late = (looked.brokers | _attending(looked).keys()) - self._brokers
        if late:
            return f"brokers {_listed(late)} have come meanwhile"
        settled = self.phase is Phase.WITNESSING
        if settled and (looked.following or {}).get("records") != self._records:
            return f"somebody writes by the manager of {self._from} meanwhile"
        return None

    def _not_idle(self, looked: Looked) -> set[int]:
        attending = _attending(looked)
        return {
            broker
            for broker in self._brokers | looked.brokers | attending.keys()
            if broker not in attending
            or attending[broker]["number"] != self.word
            or attending[broker]["mode"] != PluginMode.HANDOVER
            or not attending[broker]["is_idle"]
        }


def _attending(looked: Looked) -> dict[int, Mapping[str, Any]]:
    """By broker, what it said within the last seconds."""
    return {
        one["broker_id"]: one for one in looked.attending if one["heard_ms_ago"] <= SILENT_MS
    }


def _listed(brokers: frozenset[int] | set[int]) -> str:
    return ", ".join(map(str, sorted(brokers)))

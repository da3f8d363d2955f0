"""The steps of a move of a cluster's metadata, as a pure machine.

Rule 1: a move begins only if every live broker attends in handover, and the follower (the
`serve --kafka` that imports or mirrors) has no trouble. Until then trouble is waited for, since
brokers may just have been restarted.
Rule 2: it goes on only after every live broker has reported itself idle in the owner epoch that
began it; then the follower takes over what they had written, and both managers compare equal.
Rule 3: then the coordinator begins a second owner epoch of the same move, and the same brokers,
and no others, report themselves idle in it. On the way to Kafka's own manager a broker is idle
only once that manager has read everything.
With `--accept-losses` the managers may differ about the segments that the comparison has named.
Rule 4: if anything fails once the move has begun, the owner before it is restored, by a request
that names the move's newest owner epoch.

No I/O and no clock: the command carries effects out, and so does the simulator.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from tierledger.actors.coordinator.attendance import MOVE_DIFFERENCES_MAX, MoveReport
from tierledger.actors.coordinator.events import Owner
from tierledger.actors.coordinator.ownership import (
    ACCEPTED_MAX,
    GIVE_UP_AFTER_MS,
    Handover,
    Owned,
    PluginMode,
)

SILENT_MS = 3000
"""A broker or follower whose last report is older (ms) does not attend."""

COMPARISONS = 5
"""While brokers write, a difference counts if so many comparisons find it unchanged, and the
follower has begun and ended a round between each two."""

SETTLED_COMPARISONS = 3

LOOKS = 600
"""Most looks, before writes are held, that wait for a follower in trouble or for its round."""

TOLD_MAX = 500
"""Characters of a difference that are told to the service."""

AS_BEFORE = "the owner is as before"

TASKS = {Owner.TIERLEDGER: "import", Owner.KAFKA: "mirror"}
"""The follower's task, by the new owner."""


SAME = "both managers know the same"

WHAT_COUNTS = {
    Owner.KAFKA: "what Kafka's metadata topic says counts",
    Owner.TIERLEDGER: "what tierledger says counts",
}
"""By the new owner."""


class MovePhase(Enum):
    """The step that a move is at."""

    NEW = "new"
    CHECKING = "checking"
    COMPARING = "comparing"
    """Compares both managers while brokers write; waits for the follower before it repeats."""
    BEGINNING = "beginning"
    HOLDING = "holding"
    """Waits until all brokers are idle."""
    TAKING = "taking"
    """Waits until the follower has taken over all that brokers had written by then."""
    SETTLING = "settling"
    """Compares both managers once more, while brokers hold their writes."""
    REPEATING = "repeating"
    """The second owner epoch of the move is being begun."""
    WITNESSING = "witnessing"
    """Waits until the same brokers are idle in the second owner epoch and none has written."""
    ENDING = "ending"
    RETURNING = "returning"
    """The owner before the move is being restored."""
    ENDED = "ended"


# Stimuli.


class Begun(NamedTuple):
    """The command has started."""


class Looked(NamedTuple):
    """The state of service and brokers."""

    owner_epoch: int
    owner: str
    brokers: frozenset[int]
    """The living brokers, by Kafka's metadata."""
    attending: tuple[Mapping[str, Any], ...]
    following: Mapping[str, Any] | None
    """The follower, as `status` shows it."""


class Compared(NamedTuple):
    """The differences as text; none if both managers know the same."""

    differences: tuple[str, ...]
    segments: Mapping[str, bytes] = {}
    """By difference: the segment that it is about, if it is about one."""


class HandedOver(NamedTuple):
    """The coordinator has begun the next owner epoch."""

    owned: Owned


class Failed(NamedTuple):
    """The last effect could not be carried out, or the command was interrupted."""

    why: str


class TimeIsUp(NamedTuple):
    """Brokers have held their writes as long as they may."""


# Effects.


class ReadStatus(NamedTuple):
    """Read the state of service and brokers; answer with `Looked`."""


class Compare(NamedTuple):
    """Compare all partitions, or those that changed or differed; answer with `Compared`."""

    is_all: bool
    is_again: bool = False
    """After a pause."""


class ChangeOwner(NamedTuple):
    """Ask the coordinator for this change; answer with `HandedOver`."""

    wish: Handover


class PrintLine(NamedTuple):
    """A line of progress for the user."""

    line: str


class EndMove(NamedTuple):
    """The move is over. `trouble`: why it was refused or given back; None: it succeeded."""

    trouble: str | None


Stimulus: TypeAlias = Begun | Looked | Compared | HandedOver | Failed | TimeIsUp
Effect: TypeAlias = ReadStatus | Compare | ChangeOwner | PrintLine | EndMove

HEARS: Mapping[MovePhase, frozenset[type[Any]]] = {
    MovePhase.NEW: frozenset({Begun}),
    MovePhase.CHECKING: frozenset({Looked, Failed}),
    MovePhase.COMPARING: frozenset({Compared, Looked, Failed}),
    MovePhase.BEGINNING: frozenset({HandedOver, Failed}),
    MovePhase.HOLDING: frozenset({Looked, Failed, TimeIsUp}),
    MovePhase.TAKING: frozenset({Looked, Failed, TimeIsUp}),
    MovePhase.SETTLING: frozenset({Compared, Failed, TimeIsUp}),
    MovePhase.REPEATING: frozenset({HandedOver, Failed, TimeIsUp}),
    MovePhase.WITNESSING: frozenset({Looked, Failed, TimeIsUp}),
    MovePhase.ENDING: frozenset({HandedOver, Failed}),
    MovePhase.RETURNING: frozenset({HandedOver, Failed}),
    MovePhase.ENDED: frozenset(),
}
"""Stimuli that may arrive in each phase."""


class Procedure:
    """One move. Talk to it through `handle` only."""

    def __init__(
        self,
        to: Owner,
        *,
        accepts_losses: bool = False,
        give_up_after_ms: int = GIVE_UP_AFTER_MS,
        is_rehearsal: bool = False,
    ) -> None:
        """`accepts_losses`: differences are printed, and stop nothing.

        A rehearsal ends where the move would begin.
        """
        assert to in TASKS, to
        self.phase = MovePhase.NEW
        self.owner_epoch: int | None = None
        """The move's newest owner epoch; None before it has begun."""
        self._to = to
        self._from = Owner.KAFKA if to == Owner.TIERLEDGER else Owner.TIERLEDGER
        self._accepts_losses = accepts_losses
        self._give_up_after_ms = give_up_after_ms
        self._is_rehearsal = is_rehearsal
        self._brokers: frozenset[int] = frozenset()
        """The brokers alive at the start: one that has died since is not known to be idle. From
        `TAKING` on also all others that were idle."""
        self._busy: set[int] = set()
        self._follower: str | None = None
        """The follower whose round is awaited: another one counts reports and rounds anew."""
        self._last_report: int | None = None
        """The number of the follower's newest report when its round was first awaited."""
        self._round: int | None = None
        """The follower's rounds, by the first report that it began after that."""
        self._looks = 0
        """Looks since the follower was last as the move needs it, before writes are held."""
        self._waits: str | None = None
        """The trouble of the follower that the user was last told of."""
        self._differences: tuple[str, ...] | None = None
        """The differences of this phase that count so far; None: nothing was compared yet."""
        self._comparisons = 0
        """Comparisons in this phase."""
        self._told = MoveReport(to, self.phase.value)
        """What the last comparisons found, for people."""
        self._records: tuple[int | None, ...] = ()
        """The follower's counts of records when everything was taken over."""
        self._trouble: str | None = None

    @property
    def task(self) -> str:
        """What the follower has to do during the move."""
        return TASKS[self._to]

    @property
    def report(self) -> MoveReport:
        """How far the move is, for people."""
        busy = f"brokers {_listed(self._busy)} are not idle" if self._busy else ""
        return self._told._replace(
            phase=self.phase.value,
            owner_epoch=self.owner_epoch or 0,
            waits=busy or self._waits or "",
        )

    def handle(self, stimulus: Stimulus) -> list[Effect]:
        """The effects that `stimulus` calls for, in order."""
        heard = HEARS[self.phase]
        assert type(stimulus) in heard, f"{type(stimulus).__name__} while {self.phase.value}"
        match stimulus:
            case Begun():
                self.phase = MovePhase.CHECKING
                return [ReadStatus()]
            case Looked():
                return self._looked(stimulus)
            case Compared():
                return self._compared(stimulus)
            case HandedOver(owned=owned):
                return self._handed_over(owned)
            case Failed(why=why):
                return self._failed(why)
            case TimeIsUp():
                busy = f": brokers {_listed(self._busy)} are not idle" if self._busy else ""
                return self._give_back(f"it took too long, while {self.phase.value}{busy}")

    def _looked(self, looked: Looked) -> list[Effect]:
        if self.phase in {MovePhase.CHECKING, MovePhase.COMPARING}:
            return self._looked_before(looked)
        if looked.owner_epoch != self.owner_epoch:
            later = f"{looked.owner} owns the metadata, owner epoch {looked.owner_epoch}"
            return self._end(f"the move was ended: {later}")
        if self.phase is MovePhase.HOLDING:
            self._busy = self._not_idle(looked)
            if self._busy:
                return [ReadStatus()]
            self.phase = MovePhase.TAKING
            self._brokers |= looked.brokers | _attending(looked).keys()
            self._await_round(looked)
            return [PrintLine("all brokers hold their writes"), ReadStatus()]
        trouble = self._unfollowed(looked) or self._troubled(looked) or self._disturbed(looked)
        if trouble is not None:
            return self._give_back(trouble)
        if self.phase is MovePhase.WITNESSING:
            self._busy = self._not_idle(looked)
            if self._busy:
                return [ReadStatus()]
            self.phase = MovePhase.ENDING
            return [ChangeOwner(Handover(self._to, Owner.MOVING, owner_epoch=self.owner_epoch))]
        if not self._has_gone_round(looked):
            return [ReadStatus()]
        assert looked.following is not None, "`_unfollowed` found no trouble"
        self.phase, self._records = MovePhase.SETTLING, _records(looked)
        return [PrintLine("what they had written is taken over"), Compare(is_all=False)]

    def _looked_before(self, looked: Looked) -> list[Effect]:
        """Before the move begins: nothing is held, so the follower's trouble is waited for."""
        is_new = self.phase is MovePhase.CHECKING
        unfit = self._unfit(looked) if is_new else self._unfollowed(looked)
        if unfit is not None:
            return self._end(f"{unfit}; {AS_BEFORE}")
        if trouble := self._troubled(looked):
            return self._look_again(trouble)
        if is_new:
            self.phase, self._brokers, self._looks = MovePhase.COMPARING, looked.brokers, 0
            note = f"brokers {_listed(looked.brokers)} attend in handover"
            return [PrintLine(note), Compare(is_all=True)]
        # Until the follower has gone round, it may lack what was written long ago.
        if _follower(looked) != self._follower:
            self._await_round(looked)
        if not self._has_gone_round(looked):
            return self._look_again(None)
        self._follower, self._looks = None, 0
        return [Compare(is_all=False)]

    def _look_again(self, trouble: str | None) -> list[Effect]:
        """`trouble`: of the follower; None if it has to end a round."""
        self._looks += 1
        if self._looks > LOOKS:
            why = trouble or f"serve --kafka, {self.task}: no round has ended, see `status`"
            return self._end(f"{why}; {AS_BEFORE}")
        if trouble is None or trouble == self._waits:
            return [ReadStatus()]
        self._waits = trouble
        return [PrintLine(f"waiting: {trouble}"), ReadStatus()]

    def _await_round(self, looked: Looked) -> None:
        self._follower, self._last_report, self._round = _follower(looked), None, None

    def _has_gone_round(self, looked: Looked) -> bool:
        """Whether the follower has begun and ended a round since `_await_round`."""
        report = looked.following
        assert report is not None, "`_unfollowed` found no trouble"
        if self._last_report is None:
            self._last_report = report["reports"]
        # The follower's next report may have been under way at that moment.
        elif self._round is None and report["reports"] >= self._last_report + 2:
            self._round = report["round"]
        # The round that was under way at that report may have begun before it.
        return self._round is not None and report["round"] >= self._round + 2

    def _compared(self, compared: Compared) -> list[Effect]:
        found = compared.differences
        is_written = self.phase is MovePhase.COMPARING
        before = self._differences
        # While brokers write, one manager is always behind the other: only differences that
        # stay count. All partitions that differed are compared again once writes are held.
        differences = found
        if is_written and before is not None:
            still = set(found)
            differences = tuple(one for one in before if one in still)
        self._differences, self._comparisons = differences, self._comparisons + 1
        self._told = self._told._replace(
            comparisons=self._told.comparisons + 1,
            differing=len(differences),
            differences=tuple(one[:TOLD_MAX] for one in differences[:MOVE_DIFFERENCES_MAX]),
        )
        if differences and self._comparisons < (
            COMPARISONS if is_written else SETTLED_COMPARISONS
        ):
            return [ReadStatus() if is_written else Compare(is_all=False, is_again=True)]
        self._differences, self._comparisons = None, 0
        named = compared.segments
        accepted = tuple(sorted({named[one] for one in differences if one in named}))
        return [*map(PrintLine, differences), *self._go_on_with(differences, accepted)]

    def _go_on_with(
        self, differences: tuple[str, ...], accepted: tuple[bytes, ...]
    ) -> list[Effect]:
        """Take the move's next step with these differences, or end it because of them."""
        is_written = self.phase is MovePhase.COMPARING
        refused = self._refused(differences, len(accepted))
        if refused is not None:
            return (
                self._end(f"{refused}; {AS_BEFORE}") if is_written else self._give_back(refused)
            )
        if not is_written:
            assert self.owner_epoch is not None, "it has begun"
            self.phase = MovePhase.REPEATING
            wish = Handover(
                Owner.MOVING,
                Owner.MOVING,
                self._to,
                self.owner_epoch,
                self._give_up_after_ms,
                accepted,
            )
            return [ChangeOwner(wish)]
        counts = f"these differences are accepted: {WHAT_COUNTS[self._to]} from now on"
        told = PrintLine(counts if differences else SAME)
        if self._is_rehearsal:
            return [told, *self._end(None)]
        self.phase = MovePhase.BEGINNING
        wish = Handover(
            Owner.MOVING,
            self._from,
            self._to,
            give_up_after_ms=self._give_up_after_ms,
            accepted=accepted,
        )
        return [told, ChangeOwner(wish)]

    def _refused(self, differences: tuple[str, ...], segments: int) -> str | None:
        """Why these differences end the move; None if they do not."""
        if not differences:
            return None
        if not self._accepts_losses:
            counts = WHAT_COUNTS[self._to]
            return (
                f"{len(differences)} differences, the first is {differences[0]}; with "
                f"--accept-losses {counts} from then on"
            )
        if segments > ACCEPTED_MAX:
            return f"{segments} segments differ; at most {ACCEPTED_MAX} can be accepted"
        return None

    def _handed_over(self, owned: Owned) -> list[Effect]:
        if self.phase is MovePhase.BEGINNING:
            self.phase, self.owner_epoch = MovePhase.HOLDING, owned.owner_epoch
            return [PrintLine(f"moving, owner epoch {owned.owner_epoch}"), ReadStatus()]
        if self.phase is MovePhase.REPEATING:
            self.phase, self.owner_epoch = MovePhase.WITNESSING, owned.owner_epoch
            return [
                PrintLine(f"all brokers are asked again, owner epoch {owned.owner_epoch}"),
                ReadStatus(),
            ]
        return self._end(None if self._trouble is None else f"{self._trouble}; {AS_BEFORE}")

    def _failed(self, why: str) -> list[Effect]:
        if self.phase is MovePhase.RETURNING:
            # Whether the owner is restored is in doubt. If it is not, the coordinator gives the
            # move up when its time is over.
            return self._end(f"{self._trouble}; not given back, see `status`: {why}")
        if self.owner_epoch is not None:
            return self._give_back(why)
        # Whether the move has begun may be in doubt; if it has, the coordinator gives it up.
        begun = self.phase is MovePhase.BEGINNING
        return self._end(f"{why}; see `status`" if begun else f"{why}; {AS_BEFORE}")

    def _give_back(self, trouble: str) -> list[Effect]:
        assert self.owner_epoch is not None, "it has begun"
        self._trouble, self.phase = trouble, MovePhase.RETURNING
        return [ChangeOwner(Handover(self._from, Owner.MOVING, owner_epoch=self.owner_epoch))]

    def _end(self, trouble: str | None) -> list[Effect]:
        self.phase = MovePhase.ENDED
        return [EndMove(trouble)]

    def _unfit(self, looked: Looked) -> str | None:
        """Why this cluster cannot be moved now; None if it can."""
        if looked.owner != self._from:
            return f"expected the owner to be {self._from}, it is {looked.owner}"
        attending = _attending(looked)
        for broker in sorted(looked.brokers):
            report = attending.get(broker)
            if report is None:
                return (
                    f"broker {broker} does not attend: it runs without the plugin, or is away"
                )
            if report["mode"] != PluginMode.HANDOVER:
                return (
                    f"broker {broker} runs in {report['mode']}, expected "
                    "tierledger.mode=handover of all"
                )
            if not report["incarnation"]:
                return f"broker {broker} is not registered yet"
        strangers = attending.keys() - looked.brokers
        if strangers:
            return f"brokers {_listed(strangers)} attend, and Kafka does not know them as alive"
        return self._unfollowed(looked)

    def _unfollowed(self, looked: Looked) -> str | None:
        """Why no follower does the move's task; None if one does."""
        report = looked.following
        if report is None or report["heard_ms_ago"] > SILENT_MS:
            return "no serve --kafka runs, which has to follow Kafka's metadata topic"
        if report["task"] != self.task:
            return f"expected serve --kafka to {self.task}, it does {report['task']}" + (
                ": start it with --mirror" if self.task == "mirror" else ""
            )
        return None

    def _troubled(self, looked: Looked) -> str | None:
        """The trouble of the follower, if there is one; None without."""
        trouble = (looked.following or {}).get("trouble")
        return f"serve --kafka, {self.task}: {trouble}" if trouble else None

    def _disturbed(self, looked: Looked) -> str | None:
        """Whether brokers have come or have written since all were idle; None if neither."""
        late = (looked.brokers | _attending(looked).keys()) - self._brokers
        if late:
            return f"brokers {_listed(late)} have joined meanwhile"
        if _follower(looked) != self._follower:
            return "another serve --kafka follows Kafka's metadata topic meanwhile"
        settled = self.phase is MovePhase.WITNESSING
        if settled and _records(looked) != self._records:
            return f"the manager of {self._from} was written to meanwhile"
        return None

    def _not_idle(self, looked: Looked) -> set[int]:
        attending = _attending(looked)
        return {
            broker
            for broker in self._brokers | looked.brokers | attending.keys()
            if broker not in attending
            or attending[broker]["owner_epoch"] != self.owner_epoch
            or attending[broker]["mode"] != PluginMode.HANDOVER
            or not attending[broker]["is_idle"]
        }


def _attending(looked: Looked) -> dict[int, Mapping[str, Any]]:
    """The reports of plugins that are recent enough, by broker."""
    return {
        one["broker_id"]: one for one in looked.attending if one["heard_ms_ago"] <= SILENT_MS
    }


def _follower(looked: Looked) -> str | None:
    return None if looked.following is None else looked.following["follower"]


def _records(looked: Looked) -> tuple[int | None, ...]:
    """How many records the follower has transferred, and how many it found of others."""
    report = looked.following or {}
    return report.get("records"), report.get("foreign")


def _listed(brokers: frozenset[int] | set[int]) -> str:
    return ", ".join(map(str, sorted(brokers)))

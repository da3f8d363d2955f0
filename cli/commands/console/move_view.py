"""A move of the metadata as it goes: its steps, what is held, and what was compared.

Pure: from the coordinator's status, and the changes of the owner in its log. The command
`handover` carries a move out (`moving/procedure.py`), and tells the coordinator how far it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tierledger.actors.coordinator.events import Owner
from tierledger.actors.coordinator.ownership import PluginMode
from tierledger.events.typed_fields import time_text
from tierledger.moving.guide import moving_steps
from tierledger.pages.texts import count_text, many, span_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tierledger.cli.commands.console.owners import OwnerSince

DIFFERENCES: Final = 20
"""Differences that a page names, the newest."""

TASKS: Final = {Owner.TIERLEDGER: "import", Owner.KAFKA: "mirror"}
"""What `serve --kafka` has to do with Kafka's topic, by the owner after the move."""

BEFORE_IT_BEGINS: Final = {"checking", "comparing", "beginning"}
"""Phases of the command in which nothing is held yet."""

GONE_MS: Final = 5000
"""A command that has told nothing for so long is taken for gone."""

DONE, UNDER_WAY, TO_COME = "done", "under_way", "to_come"


class MoveStep(NamedTuple):
    """A step of a move, with a word of the vocabulary for how far it is."""

    text: str
    word: str
    note: str = ""


class HeldThing(NamedTuple):
    """What brokers may not do at the moment: write, or delete."""

    what: str
    since_ms: int | None
    text: str


class ComparedAnswers(NamedTuple):
    """What a broker in shadow has compared."""

    broker_id: int
    word: str
    """Of the vocabulary."""
    age: str
    """When an answer was last found to be equal."""
    counts: Mapping[str, int]


class ToldMove(NamedTuple):
    """What the command that moves the metadata has told last."""

    facts: Mapping[str, str]
    differences: Sequence[str]
    """Of its last comparison, the first."""
    differing: int


class MoveView(NamedTuple):
    """What the page "Owner and moves" shows."""

    owner: str
    verdict: tuple[str, str, str]
    """Look, word and text."""
    steps: Sequence[MoveStep]
    told: ToldMove | None
    held: Sequence[HeldThing]
    compared: Sequence[ComparedAnswers]
    differences: Sequence[str]
    differing: int
    """How many differences there are; of each broker the newest are known."""


def move_view(known: Mapping[str, Any] | None, changes: Sequence[OwnerSince]) -> MoveView:
    """The view of a coordinator's status, None: it does not answer; `changes`: of the owner."""
    if known is None:
        owner = changes[-1].owner if changes else Owner.NOBODY
        verdict = ("idle", str(owner), f"owned the metadata when the log ended: {_NO_SERVICE}")
        return MoveView(owner, verdict, [], None, [], [], [], 0)
    differences = [
        f"broker {one['broker_id']}: {_difference_text(difference)}"
        for one in known["shadows"]
        for difference in reversed(one["differences"])
    ]
    return MoveView(
        known["owner"],
        _verdict(known, changes),
        _steps(known, _epochs_of_move(changes, known["owner_epoch"])),
        _told(known),
        _held(known),
        [_compared(one) for one in known["shadows"]],
        differences[:DIFFERENCES],
        sum(one["standing"] or 0 for one in known["shadows"]),
    )


_NO_SERVICE = "no service runs that could move it"


def _verdict(known: Mapping[str, Any], changes: Sequence[OwnerSince]) -> tuple[str, str, str]:
    owner, epoch = known["owner"], known["owner_epoch"]
    if owner == Owner.MOVING:
        left_ms = known["owner_since_ms"] + known["give_up_after_ms"] - known["now_ms"]
        ends = (
            f"it is given back in {span_text(left_ms)} unless it goes on"
            if left_ms > 0
            else "its time is over"
        )
        moves = f"the metadata moves from {known['source']} to {known['heading']}"
        return "open", "moving", f"{moves}, owner epoch {epoch}; {ends}"
    if owner == Owner.NOBODY:
        return "idle", "nobody", "owns the metadata: `tierledger handover` says who does"
    back = _given_back(changes)
    if back is not None:
        text = f"owns the metadata: a move to {back.heading} was given back"
        return "warn", owner, f"{text} at {time_text(changes[-1].since_ms)}"
    return "good", owner, f"owns the metadata, owner epoch {epoch}"


def _given_back(changes: Sequence[OwnerSince]) -> OwnerSince | None:
    """The move that the newest change has ended without success; None: it has not."""
    if len(changes) < 2 or changes[-1].is_moving or not changes[-2].is_moving:
        return None
    return None if changes[-1].owner == changes[-2].heading else changes[-2]


def _epochs_of_move(changes: Sequence[OwnerSince], owner_epoch: int) -> list[OwnerSince]:
    """The owner epochs of the move under way; none if the log was not read that far."""
    found: list[OwnerSince] = []
    for one in reversed(changes):
        if not one.is_moving:
            break
        found.insert(0, one)
    return found if found and found[-1].owner_epoch == owner_epoch else []


def _steps(known: Mapping[str, Any], epochs: Sequence[OwnerSince]) -> list[MoveStep]:
    """The steps of the move under way, of the next one, or of the one that has led here."""
    match known["owner"]:
        case Owner.MOVING:
            to = known["heading"]
            return [*(one._replace(word=DONE) for one in _prepared(known, to)),
                    *_moving(known, to, epochs)]  # fmt: skip
        case Owner.KAFKA:
            return [*_prepared(known, Owner.TIERLEDGER), *_written(Owner.TIERLEDGER, TO_COME)]
        case Owner.TIERLEDGER if known["owner_epoch"] > 1:
            to = Owner.TIERLEDGER
            return [*(one._replace(word=DONE, note="") for one in _prepared(known, to)),
                    *_written(to, DONE)]  # fmt: skip
        case _:
            return []


def _prepared(known: Mapping[str, Any], to: str) -> list[MoveStep]:
    """What has to be before a move begins."""
    task = TASKS[Owner(to)]
    following = known["kafka"] or {}
    follows = following.get("task") == task and not following.get("trouble")
    is_gone_round = bool(follows and following.get("round"))
    steps = [
        MoveStep(
            f"`serve --kafka` does its {task} of Kafka's metadata topic",
            DONE if is_gone_round else UNDER_WAY,
            _follower_text(following),
        )
    ]
    attending = known["attending"]
    in_handover = [one for one in attending if one["mode"] == PluginMode.HANDOVER]
    are_all = bool(attending) and len(in_handover) == len(attending)
    if to == Owner.TIERLEDGER:
        steps.append(_shadowed(known, are_all))
    word = DONE if are_all else UNDER_WAY if in_handover else TO_COME
    note = f"{len(in_handover)} of {many(len(attending), 'broker')} that attend"
    steps.append(MoveStep("all brokers run in handover", word, note))
    return [*steps, _comparing(known)]


def _comparing(known: Mapping[str, Any]) -> MoveStep:
    """Whether the command compares both managers at the moment, before anything is held."""
    text = "`tierledger handover` compares both managers while brokers write"
    told = known.get("move")  # None of an older service.
    if (
        told is None
        or told["outcome"]
        or told["heard_ms_ago"] > GONE_MS
        or told["phase"] not in BEFORE_IT_BEGINS
    ):
        return MoveStep(text, TO_COME)
    found = many(told["differing"], "difference") if told["comparisons"] else ""
    return MoveStep(text, UNDER_WAY, told["waits"] or found)


def _told(known: Mapping[str, Any]) -> ToldMove | None:
    told = known.get("move")
    if told is None:
        return None
    ago_ms = told["compared_ms_ago"]
    last = "" if ago_ms is None else f", the last {span_text(ago_ms)} ago"
    facts = {
        "to": told["to"],
        "phase": told["phase"],
        "told": f"{span_text(told['heard_ms_ago'])} ago",
        "compared": f"{many(told['comparisons'], 'time')}{last}",
        "differences": count_text(told["differing"]),
        "waits for": told["waits"],
        "ended": told["outcome"],
    }
    is_gone = not told["outcome"] and told["heard_ms_ago"] > GONE_MS
    if is_gone:
        facts["ended"] = "it tells nothing any more"
    shown = {name: text for name, text in facts.items() if text}
    return ToldMove(shown, told["differences"], told["differing"])


def _shadowed(known: Mapping[str, Any], are_in_handover: bool) -> MoveStep:
    """Whether brokers in shadow have compared enough."""
    text = "brokers in shadow compare both managers, and no difference stands"
    shadows = [one for one in known["attending"] if one["mode"] == PluginMode.SHADOW]
    words = {one["broker_id"]: _verified_word(one) for one in known["shadows"]}
    open_ones = [one["broker_id"] for one in shadows if words.get(one["broker_id"]) != "equal"]
    if are_in_handover or (shadows and not open_ones):
        return MoveStep(text, DONE)
    if not shadows:
        return MoveStep(text, TO_COME)
    return MoveStep(text, UNDER_WAY, f"not yet: {_brokers(open_ones)}")


def _moving(known: Mapping[str, Any], to: str, epochs: Sequence[OwnerSince]) -> list[MoveStep]:
    """How far a move is that has begun."""
    steps = _written(to, TO_COME)
    busy = [
        one["broker_id"]
        for one in known["attending"]
        if not (one["is_idle"] and one["owner_epoch"] == known["owner_epoch"])
    ]
    waits = f"not yet: {_brokers(busy)}" if busy else ""
    is_second = len(epochs) > 1
    now = 2 if is_second else 0 if busy or not known["attending"] else 1
    return [
        one._replace(
            word=DONE if at < now else UNDER_WAY if at == now else TO_COME,
            note=waits if at == now else "",
        )
        for at, one in enumerate(steps)
    ]


def _written(to: str, word: str) -> list[MoveStep]:
    """What a move consists of once it has begun."""
    return [MoveStep(text, word) for text in moving_steps(to)]


def _held(known: Mapping[str, Any]) -> list[HeldThing]:
    found: list[HeldThing] = []
    if known["owner"] == Owner.MOVING:
        text = "brokers hold their writes while the metadata moves; reads go on"
        found.append(HeldThing("writes", known["owner_since_ms"], text))
    if held := known["deletions_held"]:
        since_ms = min(one["since_ms"] for one in held)
        found.append(HeldThing("deletions", since_ms, known["deletions_held_text"]))
    if holds := known["holds"]:
        found.append(HeldThing("some deletions", None, f"{many(len(holds), 'hold')} placed"))
    return found


def _compared(shadow: Mapping[str, Any]) -> ComparedAnswers:
    ago_ms = shadow["verified_ms_ago"]
    age = "never" if ago_ms is None else f"{span_text(ago_ms)} ago"
    names = ("verified", "standing", "equal", "recovered", "different", "resolved", "skipped")
    counts = {name: shadow[name] or 0 for name in names}
    return ComparedAnswers(shadow["broker_id"], _verified_word(shadow), age, counts)


def _verified_word(shadow: Mapping[str, Any]) -> str:
    """The state of a broker's comparison, as a word of the vocabulary."""
    match shadow["verification"]:
        case "differs":
            return "standing"
        case "verified":
            return "equal"
        case _:
            return "skipped"  # Never, or too long ago, or an older plugin does not tell.


def _difference_text(one: Mapping[str, Any]) -> str:
    """A question, and what either manager answers."""
    asked = f"{one['kind']} of {one['topic']}-{one['key'][1]}"
    where = f"epoch {one['epoch']}, offset {one['offset']}, position {one['position']}"
    numbers = [
        f"{who} says {count_text(one[f'{who}_number'])}"
        for who in ("kafka", "replica")
        if one[f"{who}_number"] is not None
    ]
    segments = [
        f"{many(len(one[who]), 'segment')} of {who} alone or other"
        for who in ("kafka", "replica")
        if one[who]
    ]
    contents = [f"fields {one['contents']}"] if one["contents"] else []
    return f"{asked} ({where}): {', '.join([*numbers, *segments, *contents]) or 'differs'}"


def _follower_text(following: Mapping[str, Any]) -> str:
    if not following:
        return "none reports"
    facts = [f"{following['task']}, round {following['round']}"]
    facts += [
        f"{count_text(following[name])} {text}"
        for name, text in (("lag", "records behind"), ("records", "records so far"))
        if following.get(name) is not None
    ]
    facts += [str(following["trouble"])] if following.get("trouble") else []
    return ", ".join(facts)


def _brokers(ids: Sequence[int]) -> str:
    return f"broker{'' if len(ids) == 1 else 's'} {', '.join(map(str, sorted(ids)))}"

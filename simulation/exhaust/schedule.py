"""A schedule as a line that repeats it, and as the list of what happens in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierledger.events.errors import InvalidArgument
from tierledger.simulation.exhaust.machines import NONE, Plain
from tierledger.simulation.exhaust.script import SITES, Bounds, Variant
from tierledger.simulation.exhaust.search import (
    STEPS_MAX,
    Choices,
    Found,
    Part,
    Search,
)

if TYPE_CHECKING:
    from tierledger.simulation.checkers.violation import Violation
    from tierledger.simulation.exhaust.world import SmallWorld

LETTERS = {"hold": "h", "release": "r", "crash": "c", "give up": "g"}
"""Of each choice in a schedule's line; a crash that takes its writes along is a `d`."""

QUEUES = (
    "store",
    *(f"host {'AB'[site]}" for site in range(SITES)),
    *(f"broker {1 + site}" for site in range(SITES)),
    "coordinator",
)


def line_of(variant: Variant, choices: Choices) -> str:
    """The schedule as one word, which `schedule_of` reads back: `untold:h23,r65.0,c70.1`."""
    return f"{variant.name}:" + ",".join(
        f"{_letter(choice)}{'.'.join(map(str, (step, *choice[1:2])))}"
        for step, choice in choices
    )


def schedule_of(line: str) -> tuple[Variant, Choices]:
    """What `line_of` wrote.

    Raises:
        InvalidArgument: It is not such a line.
    """
    name, _, rest = line.partition(":")
    variant = {one.name: one for one in (Variant(tells=False), Variant(tells=True))}.get(name)
    if variant is None:
        raise InvalidArgument(f"expected a schedule told:... or untold:..., found {line!r:.80}")
    try:
        return variant, tuple(_choice_of(word) for word in rest.split(",") if word)
    except (ValueError, KeyError) as error:
        raise InvalidArgument(
            f"expected choices like h23, r65.0 or c70.1, found {rest!r:.80}"
        ) from error


def _letter(choice: Plain) -> str:
    return "d" if choice[0] == "crash" and choice[2] else LETTERS[choice[0]]


def _choice_of(word: str) -> tuple[int, Plain]:
    letter, (step, *given) = word[0], (int(number) for number in word[1:].split("."))
    if letter in {"c", "d"}:
        (site,) = given
        return step, ("crash", site, letter == "d")
    kind = {short: long for long, short in LETTERS.items()}[letter]
    return step, (kind, *given)


def again_with(bounds: Bounds, found: Found, mutant: str | None) -> str:
    """The command that repeats a schedule."""
    line = line_of(found.variant, found.choices)
    planted = "" if mutant is None else f"--mutant {mutant} "
    return f"tierledger simulate exhaust {_options(bounds)}{planted}--schedule {line}"


def _options(bounds: Bounds) -> str:
    """What the schedule's world depends on, where it is not as usual."""
    usual = Bounds()
    return "".join(
        f"--{name} {getattr(bounds, name)} "
        for name in ("appends", "changes", "reads")
        if getattr(bounds, name) != getattr(usual, name)
    )


def repeated(
    bounds: Bounds, variant: Variant, choices: Choices
) -> tuple[list[str], list[Violation]]:
    """One schedule, once more: what happened, a line per step, and what is wrong with it.

    Raises:
        InvalidArgument: What is chosen at some step cannot be chosen there.
    """
    search = Search(Part(bounds, variant, NONE, counts_crashless=True))
    world, chosen = search.world, dict(choices)
    world.settle()
    lines = []
    for step in range(STEPS_MAX):
        choice = chosen.pop(step, None) or world.next()
        if choice is None or world.violations:
            break
        lines.append(f"{step:4d}  {_told(world, choice)}")
        try:
            world.apply(choice)
        except IndexError as error:
            raise InvalidArgument(f"nobody can {choice[0]} at step {step}") from error
    if chosen and not world.violations:
        raise InvalidArgument(f"the schedule is over before step {min(chosen)}")
    return lines, world.violations or search.judge.of_end(world)


def _told(world: SmallWorld, choice: Plain) -> str:
    """What is about to happen."""
    match choice:
        case ("release", int(at)) if at < len(world.held):
            queue, message = world.held[at]
            return f"late at {QUEUES[queue]}: {_message(world, message)}"
        case ("crash", int(site), bool(drops)):
            return f"CRASH of {QUEUES[1 + site]}" + (", its writes are lost" if drops else "")
        case ("give up",):
            return "who waits for an answer gives up"
        case ("poll",):
            return "the follower looks for more"
        case _:
            return _told_by_default(world, choice)


def _told_by_default(world: SmallWorld, choice: Plain) -> str:
    if world.head != NONE:
        message = world.queues[world.head][0]
        delayed = "  HELD BACK" if choice[0] == "hold" else ""
        return f"{QUEUES[world.head]}: {_message(world, message)}{delayed}"
    if world.soon:
        return f"after a pause: {' '.join(map(str, world.soon[0]))}"
    what, number = world.script.items[min(world.item, len(world.script.items) - 1)]
    if what == "call":
        call = world.script.calls[number]
        return f"broker {1 + call.broker} begins call {number}: {call.what}"
    if what == "lead":
        claim, site = world.script.terms[number].claim, world.script.terms[number].site
        return f"broker {claim.broker_id} is elected, and gets {QUEUES[1 + site]}"
    return "nothing fails any more" if what == "rest" else f"{what} {number}"


def _message(world: SmallWorld, message: Plain) -> str:
    match message:
        case ("create", int(site), int(life), _, int(number), _, _):
            return f"{QUEUES[1 + site]}/{life} creates batch {number}"
        case ("created", _, _, int(number), str(outcome)):
            return f"batch {number}: {outcome}"
        case ("looked", _, _, int(number), int(value)):
            return f"slot {number} is {'free' if value == NONE else 'taken'}"
        case ("log", _, _, _, int(number), values):
            return f"the log from batch {number} on: {len(values)} batches"
        case ("place", _, int(assignment), int(term)):
            broker = world.script.terms[term].claim.broker_id
            return f"lead for broker {broker}, assignment {assignment}"
        case (("write" | "query"), _, int(call), int(attempt), *_):
            return f"call {call}, attempt {attempt}: {world.script.calls[call].what}"
        case ("answer", int(call), int(attempt), value):
            return f"call {call}, attempt {attempt}: {' '.join(map(str, value))}"
        case ("ended", int(site)):
            return f"{QUEUES[1 + site]} has ended"
        case _:
            return " ".join(map(str, message))

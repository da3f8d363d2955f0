"""A schedule as a line that repeats it, and as a list of its steps."""

from __future__ import annotations

from tierledger.events.errors import InvalidArgument
from tierledger.simulation.checkers.violation import Violation
from tierledger.simulation.exhaust.orders import Choice, Orders
from tierledger.simulation.exhaust.script import VARIANTS, Bounds, Variant
from tierledger.simulation.exhaust.search import Choices, Found, violations_of
from tierledger.simulation.mutants.catalogue import Mutant

KINDS = {"h": "hold", "r": "release", "c": "crash", "d": "crash", "g": "give up"}
"""Letters of choices in a schedule's line; `d` is a crash that loses the process's writes."""


def line_of(variant: Variant, choices: Choices) -> str:
    """The schedule as text, which `schedule_of` reads: `moved:h23,r65.0,c70.host-1`."""
    parts = []
    for step, (kind, *given) in choices:
        letter = "d" if given[1:] == [True] else kind[0]
        parts.append(letter + ".".join(map(str, (step, *given[:1]))))
    return f"{variant.name}:{','.join(parts)}"


def schedule_of(line: str) -> tuple[Variant, Choices]:
    """The variant and choices of a line that `line_of` wrote.

    Raises:
        InvalidArgument: It is not such a line.
    """
    name, _, rest = line.partition(":")
    variant = {one.name: one for one in VARIANTS}.get(name)
    if variant is None:
        raise InvalidArgument(
            f"expected a schedule stayed:... or moved:..., found {line!r:.80}"
        )
    try:
        return variant, tuple(_choice_of(item) for item in rest.split(",") if item)
    except (ValueError, KeyError) as error:
        raise InvalidArgument(
            f"expected choices like h23, r65.0 or c70.host-1, found {rest!r:.80}"
        ) from error


def _choice_of(item: str) -> tuple[int, Choice]:
    kind, (step, *given) = KINDS[item[0]], item[1:].split(".")
    if kind == "crash":
        (site,) = given
        return int(step), (kind, site, item[0] == "d")
    if kind == "release":
        (at,) = given
        return int(step), (kind, int(at))
    if given:
        raise ValueError(item)
    return int(step), (kind,)


def again_with(bounds: Bounds, found: Found, mutant: str | None) -> str:
    """The command that repeats a schedule."""
    usual = Bounds()
    options = "".join(  # Those that change the world, where they are not the defaults.
        f"--{name} {getattr(bounds, name)} "
        for name in ("appends", "changes", "reads")
        if getattr(bounds, name) != getattr(usual, name)
    )
    planted = "" if mutant is None else f"--mutant {mutant} "
    line = line_of(found.variant, found.choices)
    return f"tierledger simulate exhaust {options}{planted}--schedule {line}"


def repeated(
    bounds: Bounds, variant: Variant, choices: Choices, mutant: Mutant | None = None
) -> tuple[list[str], list[Violation]]:
    """Run one schedule again; returns a line per step, and all violations.

    Raises:
        InvalidArgument: A choice is not possible at its step.
    """
    lines: list[str] = []
    left = dict(choices)

    def decide(orders: Orders) -> Choice | None:
        return left.pop(orders.asked, None)

    violations = violations_of(bounds, variant, decide, mutant, lines)
    if left:
        raise InvalidArgument(f"nothing is chosen at step {min(left)} of this schedule")
    return lines, violations

"""The arguments `--shape` and `--keep`: words that simplify a world, and numbers of decisions.

A failing run is named by its seed, the decisions that it needs, and such words, which all fit
on a command line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Final

from tierledger.events.errors import InvalidArgument
from tierledger.simulation.machines.clockwork import MS
from tierledger.simulation.machines.scenario import RETENTIONS_MS, Scenario, drawn

EVEN_DELAY: Final = 1 * MS

_COUNTED: Final[dict[str, tuple[str, int, int]]] = {
    "brokers": ("brokers", 1, 100),
    "hosts": ("hosts", 1, 100),
    "partitions": ("partitions", 1, 100),
    "duration": ("duration", MS, 3_600_000),
}
"""By the name of a word, the field of a scenario that it sets, its unit and its maximum."""

DECISIONS_MAX: Final = 1_000_000
"""More decisions than any seed has."""

_NAMED: Final[dict[str, dict[str, Any]]] = {
    "delays=even": {"delays": (EVEN_DELAY,)},
    "skews=none": {"skews_ms": (0,)},
    "epochs=known": {"known_epochs": 100},
    "oracle=knows": {"oracle_knows": 100, "oracle_behind": 0, "oracle_delay": 0},
    "limits=default": {"retention_ms": RETENTIONS_MS[-1], "rows_kept": 3},
    "knobs=default": {"knobs": ()},
    "room=enough": {"partitions_per_host": 64},
    "replicas=none": {"has_replicas": False},
    "release=same": {"upgraded": (), "writes_newer": False},
}
"""By a whole word, the fields of a scenario that it sets."""


def shaped(scenario: Scenario, words: Iterable[str]) -> Scenario:
    """`scenario` with the changes that `words` name.

    Raises:
        InvalidArgument: There is no such word.
    """
    for word in words:
        name, _, value = word.partition("=")
        if word in _NAMED:
            scenario = scenario._replace(**_NAMED[word], is_part=True)
        elif name in _COUNTED and (count := _number(value, _COUNTED[name][2])):
            field, unit, _ = _COUNTED[name]
            changed: dict[str, Any] = {field: count * unit}
            scenario = scenario._replace(**changed, is_part=True)
        else:
            known = ", ".join([*(f"{one}=NUMBER" for one in _COUNTED), *_NAMED])
            raise InvalidArgument(f"no shape {word!r:.80}; there are {known}")
    return scenario


def _number(text: str, most: int) -> int | None:
    """The number in `text`; None if there is none, or if it is more than `most`."""
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(most))
    return int(text) if is_number and int(text) <= most else None


def simpler(scenario: Scenario) -> list[str]:
    """Words that would make `scenario` simpler, the greatest step first."""
    words = [
        f"{name}={count}"
        for name in ("partitions", "brokers", "hosts")
        for count in range(1, getattr(scenario, name))
    ]
    words += [
        word for word in _NAMED if shaped(scenario, (word,)) != scenario._replace(is_part=True)
    ]
    return words


def scenario_of(
    seed: int, keep: Iterable[int] | None = None, words: Iterable[str] = ()
) -> Scenario:
    """The scenario of a seed, changed by `words`; with only the decisions `keep`, if given.

    Raises:
        InvalidArgument: The seed has no such decision, or there is no such word.
    """
    scenario = drawn(seed)
    if keep is not None:
        kept = frozenset(keep)
        count = len(scenario.decisions)
        if kept and max(kept) >= count:
            raise InvalidArgument(f"seed {seed} has no decision {max(kept)}; it has {count}")
        scenario = scenario.kept(kept)
    return shaped(scenario, words)


def numbers_text(numbers: Sequence[int]) -> str:
    """Ascending numbers as text, with runs in short: "3,8,19-22"; "none" if there are none."""
    if not numbers:
        return "none"
    ends = [at for at, (one, other) in enumerate(pairwise(numbers)) if other != one + 1]
    firsts = [numbers[0], *(numbers[at + 1] for at in ends)]
    lasts = [*(numbers[at] for at in ends), numbers[-1]]
    return ",".join(
        str(first) if first == last else f"{first}-{last}"
        for first, last in zip(firsts, lasts, strict=True)
    )


def numbers_of(text: str) -> list[int]:
    """The numbers in a text like those of `numbers_text`, in ascending order.

    Raises:
        InvalidArgument: The text is another one.
    """
    if text == "none":
        return []
    numbers: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        begin = _number(first, DECISIONS_MAX)
        end = _number(last, DECISIONS_MAX) if dash else begin
        if begin is None or end is None:
            raise InvalidArgument(f"expected numbers like 3,8,19-22 or none, got {text!r:.80}")
        numbers.update(range(begin, end + 1))
    return sorted(numbers)

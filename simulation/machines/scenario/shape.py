"""The arguments `--shape` and `--keep`: settings that simplify a world, and decisions' numbers.

A failing run is named by its seed, the decisions that it needs, and such settings. They fit on
a command line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Final

from tierledger.events.errors import InvalidArgument
from tierledger.simulation.machines.environment.clockwork import MS
from tierledger.simulation.machines.scenario.doors import DoorPlan
from tierledger.simulation.machines.scenario.scenario import RETENTIONS_MS, Scenario

EVEN_DELAY: Final = 1 * MS

_COUNTED: Final[dict[str, tuple[str, int, int]]] = {
    "brokers": ("brokers", 1, 100),
    "hosts": ("hosts", 1, 100),
    "partitions": ("partitions", 1, 100),
    "duration": ("duration", MS, 3_600_000),
}
"""By the name of a setting, the field of a scenario that it sets, its unit and its maximum."""

DECISIONS_MAX: Final = 1_000_000
"""More decisions than any seed has."""

_NAMED: Final[dict[str, dict[str, Any]]] = {
    "delays=even": {"delays": (EVEN_DELAY,)},
    "transport=direct": {"is_direct": True, "doors": DoorPlan()},
    "doors=plain": {"doors": DoorPlan()},
    "writers=all": {"one_writer": False},
    "skews=none": {"skews_ms": (0,), "clock_off": None},
    "epochs=known": {"known_epochs": 100},
    "oracle=knows": {"oracle_knows": 100, "oracle_behind": 0, "oracle_delay": 0},
    "limits=default": {"retention_ms": RETENTIONS_MS[-1], "rows_kept": 3},
    "knobs=default": {"knobs": ()},
    "room=enough": {"partitions_per_host": 64},
    "replicas=none": {"has_replicas": False},
    "guards=all": {"guarded": (True,), "unexplained": 0},
    "release=same": {"upgraded": (), "writes_newer": False, "outdated": ()},
}
"""By a whole setting, the fields of a scenario that it sets."""


def shaped(scenario: Scenario, settings: Iterable[str]) -> Scenario:
    """`scenario` with the changes that `settings` name.

    Raises:
        InvalidArgument: There is no such setting.
    """
    for setting in settings:
        name, _, value = setting.partition("=")
        if setting in _NAMED:
            scenario = scenario._replace(**_NAMED[setting], is_part=True)
        elif name in _COUNTED and (count := _number(value, _COUNTED[name][2])):
            field, unit, _ = _COUNTED[name]
            changed: dict[str, Any] = {field: count * unit}
            scenario = scenario._replace(**changed, is_part=True)
        else:
            known = ", ".join([*(f"{one}=NUMBER" for one in _COUNTED), *_NAMED])
            raise InvalidArgument(f"no shape {setting!r:.80}; there are {known}")
    return scenario


def _number(text: str, most: int) -> int | None:
    """The number in `text`; None if there is none, or if it is more than `most`."""
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(most))
    return int(text) if is_number and int(text) <= most else None


def simpler(scenario: Scenario) -> list[str]:
    """Settings that would make `scenario` simpler, the greatest step first."""
    settings = [
        f"{name}={count}"
        for name in ("partitions", "brokers", "hosts")
        for count in range(1, getattr(scenario, name))
    ]
    settings += [
        setting
        for setting in _NAMED
        if shaped(scenario, (setting,)) != scenario._replace(is_part=True)
    ]
    return settings


def scenario_of(
    scenario: Scenario, keep: Iterable[int] | None = None, settings: Iterable[str] = ()
) -> Scenario:
    """A seed's scenario, changed by `settings`; with only the decisions `keep`, if given.

    Raises:
        InvalidArgument: The seed has no such decision, or there is no such setting.
    """
    if keep is not None:
        kept = frozenset(keep)
        count = len(scenario.decisions)
        if kept and max(kept) >= count:
            raise InvalidArgument(
                f"seed {scenario.seed} has no decision {max(kept)}; it has {count}"
            )
        scenario = scenario.kept(kept)
    return shaped(scenario, settings)


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

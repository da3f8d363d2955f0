"""How mutants are declared: functions make the patches, checkers are named to find them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple, TypeAlias, TypeVar

from tierledger.simulation.worlds import SERVICE

Patches: TypeAlias = list[tuple[Any, str, Any]]
"""Object, attribute and replacement."""

Made = TypeVar("Made", bound=Callable[[], Patches])

FIRST = 251
"""The first seed of most searches: runs without mistakes begin at 0."""

TWO_HISTORIES = (
    "CorruptLog lost_write fencing linearizability phantom_write feed_gap two_leaders"
)
"""Checkers that notice two histories in one log."""


class Mutant(NamedTuple):
    """A mutant: one mistake, its patches, and the checkers that must find it."""

    name: str
    """A number, which is enough to call it by, and a few words."""
    mistake: str
    caught_by: frozenset[str]
    """Checkers, one of which must find the mutant; any checker may if none is named."""
    patches: Callable[[], Patches]
    """Makes the patches, anew each time the mutant is planted."""
    within: int = 100
    """The number of seeds within which it must be found."""
    first: int = 0
    every: int = 1
    """The seeds to try: one in `every`, from `first` on."""
    world: str = SERVICE
    """The world in which it shows."""

    def seeds(self, count: int | None = None) -> range:
        """The seeds in which the mutant may show: `count` of them, or `within`."""
        count = self.within if count is None else count
        return range(self.first, self.first + count * self.every, self.every)


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """Plant the mutant in the service while the block lasts."""
    with ExitStack() as undo:
        for owner, name, replacement in mutant.patches():
            undo.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, replacement)
        yield


_DECLARED: dict[str, Mutant] = {}


def mistake(
    number: str,
    caught_by: str,
    *,
    within: int = 100,
    first: int = FIRST,
    every: int = 1,
    world: str = SERVICE,
) -> Callable[[Made], Made]:
    """Declare the mutant that a function makes; its name and docstring become the mutant's."""

    def declared(make: Made) -> Made:
        text = make.__doc__ or ""
        _DECLARED[number] = Mutant(
            f"{number} {make.__name__.replace('_', '-')}", text[:1].lower() + text[1:-1],
            frozenset(caught_by.split()), make, within,
            first, every, world,
        )  # fmt: skip
        return make

    return declared


def declared_in(*modules: str) -> tuple[Mutant, ...]:
    """The mutants that those modules declare, in the order of their numbers."""
    found = [one for one in _DECLARED.items() if one[1].patches.__module__ in modules]
    return tuple(mutant for _, mutant in sorted(found, key=lambda one: int(one[0][1:])))

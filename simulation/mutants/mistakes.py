"""How mistakes are declared: functions that give what to replace, with who has to notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple, TypeAlias, TypeVar

Patches: TypeAlias = list[tuple[Any, str, Any]]
"""Object, attribute and replacement."""

Made = TypeVar("Made", bound=Callable[[], Patches])

TWO_HISTORIES = (
    "CorruptLog lost_write fencing linearizability phantom_write feed_gap two_leaders"
)
"""What two histories in one log come to."""


class Mutant(NamedTuple):
    """One mistake, what replaces what for it, and who has to notice."""

    name: str
    """A number, by which it can be called, and a few words."""
    mistake: str
    caught_by: frozenset[str]
    """Names of the checkers of which one has to find it; any may, if none is named."""
    patches: Callable[[], Patches]
    """Called when the mutant begins."""
    within: int = 100
    """Seeds of which one has to find it."""
    first: int = 0
    every: int = 1
    """Which seeds those are: from the first on, one in so many."""
    in_service: bool = False
    """Whether it shows in the world of the whole service, and not in that of the machines."""

    def seeds(self, count: int | None = None) -> range:
        """As many as that in which it may show, or those within which it has to."""
        count = self.within if count is None else count
        return range(self.first, self.first + count * self.every, self.every)


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """The service with the mistake in it."""
    with ExitStack() as undo:
        for owner, name, replacement in mutant.patches():
            undo.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, replacement)
        yield


_DECLARED: dict[str, Mutant] = {}


def mistake(
    number: str, caught_by: str, *, within: int = 100, in_service: bool = False
) -> Callable[[Made], Made]:
    """Declare the mutant that a function makes: its name is in the mutant's, its text tells."""

    def declared(make: Made) -> Made:
        text = make.__doc__ or ""
        _DECLARED[number] = Mutant(
            f"{number} {make.__name__.replace('_', '-')}", text[:1].lower() + text[1:-1],
            frozenset(caught_by.split()), make, within, in_service=in_service,
        )  # fmt: skip
        return make

    return declared


def declared_in(*modules: str) -> tuple[Mutant, ...]:
    """What those modules declare, in the order of their numbers."""
    found = [one for one in _DECLARED.items() if one[1].patches.__module__ in modules]
    return tuple(mutant for _, mutant in sorted(found))

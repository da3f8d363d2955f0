"""A move in a small world: nothing is lost, and each mistake in its rules loses something."""

from collections.abc import Callable

import pytest
from typing_extensions import override

from tests.models.moving_world import LostRecordError, MovingWorld, Plugin
from tierledger.actors.coordinator import ownership
from tierledger.moving.procedure import Procedure
from tierledger.simulation.mutants.rewriting import rewritten

SEEDS = 600


def lost_at(seeds: int, plugin: type[Plugin] = Plugin) -> int | None:
    """The first seed in which something is lost."""
    for seed in range(seeds):
        try:
            MovingWorld(seed, plugin).run()
        except LostRecordError:
            return seed
    return None


def test_nothing_is_lost_and_clusters_do_move() -> None:
    ended = [end for seed in range(SEEDS) for end in MovingWorld(seed).run().ended]

    moved = sum(end is None for end in ended)
    refused = {end.split(":")[0].split(",")[0] for end in ended if end is not None}
    assert moved > SEEDS // 4
    assert len(ended) - moved > SEEDS // 4
    assert any("it took too long" in one for one in refused)
    assert any("the move was ended by word" in one for one in refused)


class Impatient(Plugin):
    """Lets go by itself: no newer word has come."""

    @override
    def writes_by(self) -> str | None:
        return self.word.decider if self.word.number else None


class Forgetful(Plugin):
    """Goes by the last word that arrives, whatever its number."""

    @override
    def hears(self, word: ownership.OwnerWord) -> None:
        self.word = word


class Hasty(Plugin):
    """Says that it is idle while its writes are under way."""

    @override
    def is_idle(self, *, has_caught_up: bool) -> bool:
        return self.word.owner == "moving" and has_caught_up


class Unread(Plugin):
    """Says that it is idle before its Kafka's manager has read what was mirrored."""

    @override
    def is_idle(self, *, has_caught_up: bool) -> bool:
        return super().is_idle(has_caught_up=True)


@pytest.mark.parametrize("plugin", [Impatient, Forgetful, Hasty, Unread])
def test_a_plugin_with_a_mistake_loses_something(plugin: type[Plugin]) -> None:
    assert lost_at(SEEDS, plugin) is not None


MISTAKES: dict[str, tuple[Callable[..., object], str, str]] = {
    "begins-without-all": (
        Procedure._not_idle,
        "self._brokers | looked.brokers | ",
        "set() & ",
    ),
    "any-word-will-do": (
        Procedure._not_idle,
        'attending[broker]["number"] != self.word',
        "False",
    ),
    "nobody-need-be-idle": (
        Procedure._not_idle,
        'or not attending[broker]["is_idle"]',
        "or False",
    ),
    "the-round-under-way-will-do": (
        Procedure._has_gone_round,
        'report["round"] >= self._round + 2',
        'report["round"] >= self._round',
    ),
    "who-comes-late-may-stay": (Procedure._disturbed, "if late:", "if False:"),
    "any-word-of-the-follower": (Procedure._has_gone_round, "self._last_report + 2", "0"),
    "differences-do-not-matter": (
        Procedure._compared,
        "if differences and not",
        "if False and",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_procedure_with_a_mistake_loses_something(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    function, old, new = MISTAKES[name]
    for owner, attribute, value in rewritten(function, old, new):
        monkeypatch.setattr(owner, attribute, value)

    assert lost_at(SEEDS) is not None

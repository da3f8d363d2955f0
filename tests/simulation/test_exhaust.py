"""No order of a small world breaks the service, and each planted mistake breaks in one."""

import pytest
from typing_extensions import override

from tests.models.simulation.mutant_hunts import JOBS
from tierledger.events.errors import InvalidArgument
from tierledger.simulation.campaign.campaign import mutant_named
from tierledger.simulation.checkers.verdict import Verdict
from tierledger.simulation.exhaust.run import PARTS, explore, lines_of
from tierledger.simulation.exhaust.schedule import line_of, repeated, schedule_of
from tierledger.simulation.exhaust.script import VARIANTS, Bounds
from tierledger.simulation.exhaust.search import SHARES, Part, Search
from tierledger.simulation.machines.verdict import verdict_of
from tierledger.simulation.machines.world import World

CRASHES = Bounds(delays=0, crashes=1, appends=2, changes=1, reads=2)
"""Every crash point of a world in which nothing is late."""

LATE = Bounds(delays=1, crashes=0, appends=2, changes=1, reads=0)
"""Every message late once, by as much as it may be."""


BOTH = Bounds(delays=1, crashes=1, appends=1, changes=0, reads=0)
"""A late message and a crash, while one leader makes one write."""


@pytest.mark.parametrize(
    "bounds",
    [
        CRASHES,
        pytest.param(LATE, marks=pytest.mark.long),
        pytest.param(BOTH, marks=pytest.mark.long),
        LATE._replace(appends=1, changes=0),
    ],
    ids=lambda bounds: ".".join(map(str, bounds)),
)
def test_no_order_breaks_anything(bounds: Bounds) -> None:
    told: list[None] = []

    explored = explore(bounds, lambda: told.append(None), jobs=JOBS)

    assert explored.found is None, "\n".join(lines_of(explored, 0.0))
    assert explored.schedules > 100
    assert explored.states > 200
    assert len(told) == PARTS


@pytest.mark.parametrize(
    ("name", "bounds", "checker"),
    [
        ("M09", CRASHES, "lost_write"),
        ("M24", CRASHES, "lifecycle"),
        ("M05", CRASHES, "CorruptLog"),
        ("M17", CRASHES, "linearizability"),
        ("M18", CRASHES, "session_reads"),
        ("M08", CRASHES, "hollow_write"),
        pytest.param("M37", LATE, "fencing", marks=pytest.mark.long),
        pytest.param("M03", LATE, "two_leaders", marks=pytest.mark.long),
        pytest.param("M33", BOTH, "phantom_write", marks=pytest.mark.long),
    ],
)
def test_a_planted_mistake_is_found_and_its_schedule_shows_it_again(
    name: str, bounds: Bounds, checker: str
) -> None:
    mutant = mutant_named(name)

    found = explore(bounds, mutant=mutant).found

    assert found is not None
    assert checker in {one.checker for one in found.violations}
    line = line_of(found.variant, found.choices)
    told, violations = repeated(bounds, *schedule_of(line), mutant)
    assert violations == found.violations
    assert len(told) >= 10
    assert repeated(bounds, *schedule_of(line))[1] == []


def test_the_numbers_do_not_depend_on_how_the_work_is_shared() -> None:
    bounds = CRASHES._replace(appends=1, reads=0)

    alone, together = explore(bounds), explore(bounds, jobs=2)

    assert alone == together
    parts = [explore(bounds, variants=(one,)).schedules for one in VARIANTS]
    assert sum(parts) == alone.schedules


class Forgetful(dict[bytes, int]):
    """States none of which is ever met again."""

    @override
    def get(self, _: bytes, default: int) -> int:  # type: ignore[override]
        return default


def test_what_is_cut_would_have_come_to_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes: set[object] = set()

    def noted(world: World) -> Verdict:
        calls = world.recorder.history().operations
        results = tuple((one.what, one.outcome, one.position, one.value) for one in calls)
        outcomes.add((tuple(sorted(world.medium.log.items())), results))
        return verdict_of(world)

    def searched(states: type[dict[bytes, int]]) -> tuple[int, set[object]]:
        schedules = 0
        outcomes.clear()
        for share in range(SHARES):
            search = Search(Part(LATE._replace(appends=1, changes=0), VARIANTS[0], share))
            search._states = states()
            schedules += search.run().schedules
        return schedules, set(outcomes)

    monkeypatch.setattr("tierledger.simulation.exhaust.search.verdict_of", noted)
    few, pruned = searched(dict)
    many, whole = searched(Forgetful)

    assert many > few
    assert pruned == whole
    assert len(whole) > 1


@pytest.mark.parametrize(
    "line",
    [
        "",
        "somehow:h1",
        "moved:x1",
        "moved:h",
        "moved:c3",
        "moved:c3.a.b",
        "moved:hh",
        "moved:r1",
    ],
)
def test_what_is_no_schedule_is_refused(line: str) -> None:
    with pytest.raises(InvalidArgument, match="expected"):
        schedule_of(line)


@pytest.mark.parametrize(
    "line", ["moved:r120.0", "moved:h1", "moved:h90000", "moved:c120.host-9"]
)
def test_a_schedule_of_another_world_is_refused(line: str) -> None:
    with pytest.raises(InvalidArgument, match="at step"):
        repeated(LATE, *schedule_of(line))


def test_bounds_are_not_negative() -> None:
    with pytest.raises(InvalidArgument, match="at least 0"):
        explore(Bounds(delays=-1))

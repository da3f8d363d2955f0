"""The benchmarks on Ray run, at sizes that measure nothing."""

from pathlib import Path

import pytest

from tests.benchmarks.test_benchmarks import ON_RAY, TINY
from tierledger.benchmarks.__main__ import measured
from tierledger.benchmarks.bench import Bench

MAY_BE_NONE = {"MB more", "% of a core", "failed"}
"""Units of what a few idle connections cost, which is less than a process varies by; and of
writes that failed."""


IN_SHORT = {"announce"}
"""Part that is not `long`: the others start a service of the same kind."""


@pytest.mark.parametrize(
    ("part", "stores", "goals"),
    [
        pytest.param(*one, marks=[] if one[0] in IN_SHORT else [pytest.mark.long])
        for one in ON_RAY
    ],
)
def test_a_part_on_ray_gives_figures_of_each_store(
    part: str, stores: tuple[str, ...], goals: int, tmp_path: Path
) -> None:
    bench = Bench(TINY, tmp_path, lambda _: None, stores)

    figures = list(measured(bench, [part]))

    assert sum(figure.goal is not None for figure in figures) == goals
    assert all(figure.value > 0 for figure in figures if figure.unit not in MAY_BE_NONE)
    assert {kind for kind in stores for one in figures if kind in one.name} == {*stores}

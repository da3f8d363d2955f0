"""The benchmarks beside Kafka's own manager run, and both managers give the same answers."""

from pathlib import Path

import pytest

from tests.benchmarks.test_benchmarks import ON_KAFKA, TINY, rendered
from tierledger.benchmarks.__main__ import measured
from tierledger.benchmarks.bench import Bench
from tierledger.benchmarks.report import at_most

pytestmark = pytest.mark.ray


@pytest.mark.long  # Each part has a broker and a service of its own.
@pytest.mark.parametrize("part", ON_KAFKA)
def test_a_part_gives_its_figures_and_shows_each(part: str, tmp_path: Path) -> None:
    figures = list(measured(Bench(TINY, tmp_path, lambda _: None), [part]))

    assert sum(figure.goal is not None for figure in figures) == ON_KAFKA[part]
    assert all(figure.value > 0 or figure.goal == at_most(0) for figure in figures)
    text = rendered(figures)
    assert all(figure.name in text for figure in figures)

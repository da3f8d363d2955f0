"""The benchmarks of the pipeline run, at sizes that measure nothing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.test_benchmarks import ON_SPARK

# In a process of its own: it starts and stops sessions, and the tests here share one.
PROGRAM = """
import sys
from pathlib import Path
from tierledger.benchmarks.__main__ import measured
from tierledger.benchmarks.report import json_line
from tierledger.benchmarks.bench import Bench
from tests.benchmarks.test_benchmarks import TINY

figures = list(measured(Bench(TINY, Path(sys.argv[1]), lambda _: None), sys.argv[2:]))
print(*map(json_line, figures), sep="\\n")
"""


@pytest.mark.long
def test_each_part_gives_its_figures(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), *ON_SPARK],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert ran.returncode == 0, ran.stderr
    figures = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]

    assert sum(one["goal"] is not None for one in figures) == sum(ON_SPARK.values())
    assert all(one["value"] > 0 for one in figures)
    assert sum("PostgreSQL" in one["name"] for one in figures) == 2

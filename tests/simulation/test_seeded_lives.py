"""A life is one seed's, in every process, and can be repeated, shortened and drawn."""

import subprocess
import sys
from pathlib import Path

from tests.models.cli.simulate_command import simulate
from tierledger.simulation.campaign.campaign import outcome
from tierledger.simulation.worlds import LIVES


def test_a_seed_is_the_same_life_in_every_process() -> None:
    seeds = range(7, 9)
    here = [f"{seed} {outcome(seed, LIVES).trace_hash}" for seed in seeds]

    assert _hashes_elsewhere(seeds) == here
    assert len(set(here)) == len(seeds)


def _hashes_elsewhere(seeds: range) -> list[str]:
    command = [sys.executable, "-m", "tierledger.cli.main", "simulate", "run", "--hash-only"]
    chosen = ["--world", LIVES, "--seeds", f"{seeds.start}:{seeds.stop}", "--jobs", "1"]
    done = subprocess.run(
        [*command, *chosen],
        env={"PYTHONHASHSEED": "77"},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return done.stdout.splitlines()


def test_a_part_of_a_life_is_repeated_and_drawn_with_its_moves(tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    some = ["--seed", "3", "--world", "lives", "--keep", "0-8,24"]

    result = simulate("explain", *some, "--out", str(path))

    assert result.stdout.endswith(f" decisions, 0 violations: {path}\n")
    page = path.read_text()
    assert "tierledger simulate replay --seed 3 --world lives --keep 0-8,24</" in page
    assert "both managers know the same" in page
    assert "serve/" in page


def test_a_life_has_no_history() -> None:
    result = simulate("replay", "--seed", "3", "--world", "lives", "--history", "x")

    assert result.exit_code == 2
    assert result.stderr.startswith("error: --history: a life has none")

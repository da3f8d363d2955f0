"""A cluster of one's own, on a machine that may be too busy for Ray's own patience."""

import subprocess
import sys

import pytest

from tierledger.actors.ray import cluster as ray_cluster
from tierledger.actors.ray.cluster import HEAD, away_from_head, tried_twice
from tierledger.events.errors import NotReady


class Starter:
    """Starts a process, and fails so many times."""

    def __init__(self, failures: int, error: type[Exception] = RuntimeError) -> None:
        self.failures = failures
        self.error = error
        self.processes: list[subprocess.Popen[bytes]] = []

    def __call__(self) -> str:
        program = "import sys; sys.stdin.read()"
        self.processes.append(
            subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
        )
        if len(self.processes) <= self.failures:
            raise self.error("timed out waiting for a file")
        return "started"

    def end(self) -> list[int]:
        """End all that still run; what each of them ended with."""
        for one in self.processes:
            one.communicate()
        return [one.returncode for one in self.processes]


@pytest.mark.parametrize("error", [RuntimeError, Exception, TimeoutError])
def test_what_did_not_start_in_time_is_ended_and_started_again(error: type[Exception]) -> None:
    """Ray raises errors of all these classes for it."""
    starter = Starter(1, error)

    assert tried_twice(starter) == "started"

    assert starter.end() == [-9, 0]


def test_what_does_not_start_twice_is_not_ready_and_leaves_nothing() -> None:
    starter = Starter(2)

    with pytest.raises(NotReady, match="did not start on this machine: timed out"):
        tried_twice(starter)

    assert starter.end() == [-9, -9]


def test_the_coordinator_keeps_away_from_the_head_and_from_where_the_former_one_ran(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    head, gone, first, second = (str(digit) * 56 for digit in range(4))

    def chosen(own: str, avoid: str | None, *others: str) -> str:
        found = [{"NodeID": one, "Alive": True, "Resources": {"CPU": 1.0}} for one in others]
        found.append({"NodeID": head, "Alive": True, "Resources": {HEAD: 1.0}})
        found.append({"NodeID": gone, "Alive": False, "Resources": {}})
        monkeypatch.setattr(ray_cluster, "own_node", lambda: own)
        monkeypatch.setattr(ray_cluster.ray, "nodes", lambda: found)
        strategy = away_from_head(avoid)
        return strategy if isinstance(strategy, str) else str(strategy.node_id)

    assert chosen(head, None, first, second) == first
    assert chosen(head, first, first, second) == second
    assert chosen(second, None, first, second) == second
    assert chosen(head, first, first) == first
    assert chosen(head, None) == "DEFAULT"

"""Invariants that hold between any two steps of a host."""

from __future__ import annotations

from tierledger.actors.calls import LEADER, STORAGE
from tierledger.actors.host import machine as rules
from tierledger.actors.host.machine import HostMachine, LifePhase

LIVES_MAX = 500
"""A host with more lives takes too long to be checked after each step."""


def check(machine: HostMachine) -> None:
    """Check a machine's invariants.

    Raises:
        AssertionError: One is broken; the message has the last steps.
    """
    if len(machine.lives) > LIVES_MAX:
        return
    story, lives = machine.story, list(machine.lives.values())
    seats = {(life.key, life.role): life for life in lives}
    assert machine.seats == seats, f"lives and seats differ; {story}"
    loading = {life.number for life in lives if life.phase is LifePhase.LOADING}
    assert machine.loading.keys() == loading, f"{loading} load; {story}"
    for waiting, leads in ((machine.leaders, True), (machine.others, False)):
        same = [life for life in lives if (life.role == LEADER) is leads]
        queued = [life for life in same if life.phase is LifePhase.QUEUED]
        in_turn = [life for life in waiting if life.phase is LifePhase.QUEUED]
        assert in_turn == queued, f"a load waits twice, not at all, or out of turn; {story}"
        count = sum(life.phase is LifePhase.LOADING for life in same)
        assert count <= rules.LOADS_AT_ONCE, f"{count} load at once; {story}"
        in_the_way = count if leads else len(loading)
        is_full = in_the_way >= rules.LOADS_AT_ONCE
        assert is_full or not queued, f"loads wait for nothing; {story}"
    _check_lives(machine)
    _check_reads(machine)
    if machine.is_closing:
        stays = [life.number for life in lives if life.phase is not LifePhase.LEAVING]
        assert not stays, f"{stays} stay on a host that closes; {story}"


def _check_lives(machine: HostMachine) -> None:
    """Released lives have ended or are leaving; no leader is both lost and refused."""
    story = machine.story
    for life in machine.lives.values():
        if life.role != STORAGE and life.phase is not LifePhase.LEAVING:
            until = machine.order.passed(life.key, life.role)
            assert life.assignment > until, f"{life.key} was released; {story}"
    assert not machine.lost.keys() & machine.refused.keys(), f"lost and refused; {story}"
    led = {key for key, role in machine.seats if role == LEADER}
    assert not led & machine.lost.keys(), f"what is led here is lost; {story}"


def _check_reads(machine: HostMachine) -> None:
    """Each waiting read waits for one load, and each load for reads has a waiting read."""
    story, readers = machine.story, dict[int, int]()
    for life in machine.lives.values():
        if life.role == STORAGE:
            assert life.calls, f"a load for nobody; {story}"
            assert life.phase is LifePhase.LOADING or not life.later, f"waits too long; {story}"
            readers.update(dict.fromkeys((*life.calls, *life.later), life.number))
        else:
            assert not {*life.calls, *life.later}, f"{life.key} is hosted; {story}"
    known = {caller: life.number for caller, life in machine.readers.items()}
    assert known == readers, f"reads wait nowhere; {story}"

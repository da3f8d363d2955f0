"""Invariants that hold between any two steps of a leader or a follower."""

from __future__ import annotations

from enum import Enum

from tierledger.actors import follower, messages
from tierledger.actors.leader import machine as leader


def check(
    machine: leader.Leader | follower.Follower, before: Enum, stimulus: messages.Stimulus
) -> None:
    """Check the invariants of a machine that has handled `stimulus` in the phase `before`.

    Raises:
        AssertionError: One is broken.
    """
    heard = f"{type(stimulus).__name__} while {before.value}"
    if isinstance(machine, leader.Leader):
        hears = leader.HEARS.get(leader.Phase(before))
        assert hears is None or type(stimulus) in hears, heard
        _check_leader(machine, heard)
    else:
        assert type(stimulus) not in follower.NEVER_HEARD, heard
        _check_follower(machine, heard)


def _check_leader(machine: leader.Leader, heard: str) -> None:
    phase = machine.phase
    flight, probe = machine._in_flight, machine._probe
    assert flight is None or probe is None, f"an append and a look at once; {heard}"
    if flight is not None:
        assert flight.number == machine.next_batch, f"{flight.number} is appended; {heard}"
    if phase is leader.Phase.LEADING:
        assert machine.state is not None, f"leads without a state; {heard}"
        is_busy = flight is not None or probe is not None
        assert is_busy or not machine.waiting, f"{machine.waiting} calls lie idle; {heard}"
        return
    assert flight is None, f"appends while {phase.value}; {heard}"
    assert probe is None, f"looks while {phase.value}; {heard}"
    assert not machine._queries, f"questions wait while {phase.value}; {heard}"
    if phase is leader.Phase.LOADING:
        assert not machine._is_held or machine._checkpoints.is_writing, f"held; {heard}"
        return
    assert not machine.waiting, f"{machine.waiting} calls wait while {phase.value}; {heard}"
    assert not machine._undecided, f"claims wait while {phase.value}; {heard}"


def _check_follower(machine: follower.Follower, heard: str) -> None:
    claims = set(machine._claims.values())
    assert machine._ready <= claims, f"ready for a claim that was replaced; {heard}"
    for query in machine._waiting:
        assert query.position_min > machine.position, f"a reader is not served; {heard}"
    if machine.phase in {follower.Phase.QUARANTINED, follower.Phase.GONE}:
        assert not machine._waiting, f"readers wait while {machine.phase.value}; {heard}"
        return
    if machine.phase is follower.Phase.FOLLOWING and not machine._reading:
        is_looked_for = bool(machine._looking) or not machine._awaiting_end
        assert is_looked_for, f"nobody looks whether the log ends; {heard}"

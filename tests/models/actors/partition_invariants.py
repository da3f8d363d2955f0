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
    step = f"{type(stimulus).__name__} while {before.value}"
    if isinstance(machine, leader.Leader):
        hears = leader.HEARS.get(leader.LeaderPhase(before))
        assert hears is None or type(stimulus) in hears, step
        _check_leader(machine, step)
    else:
        assert type(stimulus) not in follower.NEVER_HEARD, step
        _check_follower(machine, step)


def _check_leader(machine: leader.Leader, step: str) -> None:
    phase = machine.phase
    flight, probe = machine._in_flight, machine._probe
    assert flight is None or probe is None, f"an append and a look at once; {step}"
    if flight is not None:
        number = flight.sent.number
        assert number == machine.next_batch, f"{number} is appended; {step}"
    if phase is leader.LeaderPhase.LEADING:
        assert machine.state is not None, f"leads without a state; {step}"
        is_busy = flight is not None or probe is not None
        assert is_busy or not machine.waiting, f"{machine.waiting} calls lie idle; {step}"
        return
    assert flight is None, f"appends while {phase.value}; {step}"
    assert probe is None, f"looks while {phase.value}; {step}"
    assert not machine._queries, f"questions wait while {phase.value}; {step}"
    if phase is leader.LeaderPhase.LOADING:
        assert not machine._is_held or machine._checkpoints.is_writing, f"held; {step}"
        return
    assert not machine.waiting, f"{machine.waiting} calls wait while {phase.value}; {step}"
    assert not machine.undecided, f"claims wait while {phase.value}; {step}"


def _check_follower(machine: follower.Follower, step: str) -> None:
    claims = set(machine._claims.values())
    assert machine._ready <= claims, f"ready for a claim that was replaced; {step}"
    for query in machine._waiting:
        assert query.position_min > machine.position, f"a reader is not served; {step}"
    if machine.phase in {follower.FollowerPhase.QUARANTINED, follower.FollowerPhase.GONE}:
        assert not machine._waiting, f"readers wait while {machine.phase.value}; {step}"
        return
    if machine.phase is follower.FollowerPhase.FOLLOWING and not machine._reading:
        is_looked_for = bool(machine._looking) or not machine._awaiting_end
        assert is_looked_for, f"nobody looks whether the log ends; {step}"

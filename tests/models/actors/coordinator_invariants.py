"""Invariants that hold between any two steps of a coordinator."""

from __future__ import annotations

from tierledger.actors.calls import FOLLOWER, LEADER
from tierledger.actors.coordinator.hosts import LAUNCHES_AT_ONCE, Hosts
from tierledger.actors.coordinator.machine import Coordinator
from tierledger.actors.coordinator.state import CoordinatorState
from tierledger.actors.story import Story

PARTITIONS_MAX = 500
"""A state with more partitions takes too long to be checked after each change."""


def check(machine: Coordinator, changed: bool) -> None:
    """Check a machine's invariants; if it has `changed`, also those of its state.

    Raises:
        AssertionError: One is broken; the message has the last steps.
    """
    story = machine.story
    phase = machine.phase.value
    is_sent = phase in {"appending", "doubting"}
    assert is_sent == (machine.batch is not None), f"{phase} with {machine.batch}; {story}"
    assert machine.doubt_until_s is None or is_sent, f"{phase} in doubt; {story}"
    if phase in {"new", "idle"}:
        assert machine.taken is None, f"{phase} with work in hand; {story}"
    if not machine.is_started:
        assert machine.taken is None, f"decides before it has read its log; {story}"
    _check_hosts(machine.hosts, story)
    if changed:
        waiting = [one.reply_to for one in (*(machine.taken or ()), *machine.waiting)]
        callers = [one for one in waiting if one is not None]
        assert len(callers) == len(set(callers)), f"a caller waits twice; {story}"
        if len(machine.state.partitions) <= PARTITIONS_MAX:
            _check_state(machine.state, story)


def _check_hosts(hosts: Hosts, story: Story) -> None:
    rooms = [*hosts.running, *hosts.starting, *hosts.looking]
    assert len(rooms) == len(set(rooms)), f"a host is in two states: {rooms}; {story}"
    assert hosts.launching <= LAUNCHES_AT_ONCE, f"{hosts.launching} start at once; {story}"
    watches = [one.watch for one in hosts.running.values()]
    watches += [look.watch for look in hosts.looking.values()]
    assert len(watches) == len(set(watches)), f"two have one watch; {story}"
    for host in hosts.running.values():
        pieces, unsent = len(host.sending), len(host.unsent)
        assert host.is_sending == (pieces > 0), f"{host.name}: {pieces} pieces wait; {story}"
        assert pieces or not unsent, f"{host.name}: {unsent} works are not sent; {story}"


def _check_state(state: CoordinatorState, story: Story) -> None:
    assert state.hosts.keys() == state.addresses.keys(), f"a host without address; {story}"
    seats = {(host, key, role) for host, taken in state.seats.items() for key, role in taken}
    loads = {host: len(taken) for host, taken in state.seats.items() if taken}
    assert {host: load for host, load in state.loads.items() if load} == loads, story
    wanted = set()
    for key, entry in state.partitions.items():
        for host, role in ((entry.leader_host, LEADER), (entry.follower_host, FOLLOWER)):
            if host is not None:
                wanted.add((host, key, role))
        led = entry.leadership
        lacks = led is not None and led.assignment == 0
        assert ((key, LEADER) in state.unplaced) == lacks, f"{key} to lead; {story}"
        lacks = bool(entry.followers) and entry.follower_host is None
        assert ((key, FOLLOWER) in state.unplaced) == lacks, f"{key} to follow; {story}"
    assert seats == wanted, f"seats and entries differ: {seats ^ wanted}; {story}"

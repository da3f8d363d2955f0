"""The hosts as one coordinator on virtual time knows them: started, told, replaced."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from tierledger.actors import coordinator as rules
from tierledger.actors import coordinator_placement as placement
from tierledger.simulation.machines.clockwork import MS

if TYPE_CHECKING:
    from tierledger.actors.coordinator import HostWork
    from tierledger.simulation.machines.clockwork import Life
    from tierledger.simulation.machines.coordinator_node import CoordinatorNode
    from tierledger.simulation.machines.host_node import HostNode

TELL_AGAIN = 300 * MS
UNHEARD_MAX = 3
"""Words without an answer after which a host counts as out of reach."""
FIND_AGAIN = 1000 * MS


class Fleet:
    """Each host is told one thing after the other, and again until it has heard."""

    def __init__(self, owner: CoordinatorNode) -> None:
        self.running: dict[str, HostNode] = {}
        self._owner = owner
        self._world = owner.world
        self._clock = owner.world.clock
        self._untold: dict[str, deque[HostWork]] = {}
        self._told = 0
        self._telling: dict[str, int] = {}
        self._unheard: dict[str, int] = {}
        """Host to how often in a row it did not answer."""
        self._starting: set[str] = set()
        self._failures: dict[str, int] = {}
        """Host to how many addresses in a row were of processes that had ended."""

    # Telling.

    def tell(self, works: list[HostWork]) -> None:
        """Let hosts know, each in order; a slow one holds up no other."""
        for work in works:
            if work.host in self.running:
                self._untold.setdefault(work.host, deque()).append(work)
                self._tell_next(work.host)

    def _tell_next(self, name: str) -> None:
        untold, running = self._untold.get(name), self.running.get(name)
        if not untold or running is None or name in self._telling:
            return
        owner, life = self._owner, self._owner.life
        self._told += 1
        self._telling[name] = self._told
        work = self._world.distorted(untold[0])
        self._world.wires.send(life, running.life, running.take_work, owner, self._told, work)
        self._clock.after(TELL_AGAIN, life, self._tell_again, name, self._told)

    def taken(self, name: str, number: int) -> None:
        """A host has heard what it was told."""
        if self._telling.get(name) == number:
            del self._telling[name]
            self._unheard.pop(name, None)
            if self._untold.get(name):
                self._untold[name].popleft()
            self._tell_next(name)

    def _tell_again(self, name: str, number: int) -> None:
        if self._telling.get(name) != number:
            return
        self._world.recording.mark("host told again")
        del self._telling[name]
        self._unheard[name] = self._unheard.get(name, 0) + 1
        if self._unheard[name] == UNHEARD_MAX:
            # Its pings go unanswered, too. Who finds it again begins with what the log says
            # then, and not with what was to be told.
            self._drop(name)
            self._clock.after(FIND_AGAIN, self._owner.life, self._find_again, name)
            return
        self._tell_next(name)

    def _find_again(self, name: str) -> None:
        if name in self._owner.state.hosts and name not in self.running:
            self.adopt(name)

    # Processes.

    def follow(self, name: str, process: str) -> None:
        """Another coordinator may have replaced a host; use what it started."""
        running = self.running.get(name)
        if running is None or running.life.name != process:
            self.adopt(name)

    def adopt(self, name: str) -> None:
        """Use the host that the log names, or note that it is gone."""
        state = self._owner.state
        process = state.hosts[name]
        found = self._world.host_at(state.addresses[name])
        if found is None or found.life.name != process:
            self._drop(name)
            self._owner.lost(name, process)
        elif self.running.get(name) is not found:
            self._drop(name)
            self.running[name] = found
            self._untold[name] = deque([rules.standing_work(state, name)])
            self._tell_next(name)

    def give_up(self, life: Life) -> None:
        """A process is to be replaced; it is ended, as far as that can be done."""
        running = self.running.get(life.site)
        if running is not None and running.life is life:
            self._drop(life.site)
        self._world.end(life)

    def _drop(self, name: str) -> None:
        self.running.pop(name, None)
        self._untold.pop(name, None)
        self._telling.pop(name, None)
        self._unheard.pop(name, None)

    def supply(self) -> None:
        """Start the hosts that should be there and are not."""
        scenario, state = self._world.scenario, self._owner.state
        if len(state.hosts) + len(self._starting) >= scenario.hosts and not state.unplaced:
            return
        for name in placement.hosts_wanted(
            state, scenario.hosts, scenario.partitions_per_host, sorted(self._starting)
        ):
            self._starting.add(name)
            delay = self._world.start_delay(name)
            self._clock.after(delay, self._owner.life, self._launch, name)

    def _launch(self, name: str) -> None:
        failures = self._failures.get(name, 0)
        address = placement.next_address(self._owner.state, name, failures)
        host = self._world.launch(name, address)
        self._starting.discard(name)
        if host is None:  # Under that address there was one that has ended since.
            self._failures[name] = failures + 1
            self._owner.nudge()
            return
        self._failures.pop(name, None)
        self._drop(name)
        self.running[name] = host
        self._owner.joined(host)

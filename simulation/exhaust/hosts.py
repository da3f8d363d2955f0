"""The hosts of the small world: they carry out what their machines call for, as `Host` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierledger.simulation.exhaust.script import (
    BROKER,
    COORDINATOR,
    HOST,
    SITES,
    STORE,
)

if TYPE_CHECKING:
    from tierledger.simulation.exhaust.machines import Plain, Turn
    from tierledger.simulation.exhaust.world import SmallWorld


class Hosted:
    """One host: its life, and the numbers of the machines that it runs."""

    __slots__ = ("assignment", "follower", "is_up", "leader", "life", "serial")

    def __init__(self, given: tuple[int, bool, int, int, int, int]) -> None:
        self.life, self.is_up, self.leader, self.assignment, self.serial, self.follower = given

    def frozen(self) -> tuple[int, bool, int, int, int, int]:
        return (
            self.life, self.is_up, self.leader, self.assignment, self.serial, self.follower,
        )  # fmt: skip


class Hosts:
    """All of them, by site."""

    def __init__(self, world: SmallWorld) -> None:
        self._world = world
        self._machines = world.machines
        self._hosts = [Hosted((0, True, 0, 0, 0, 0)) for _ in range(SITES)]

    def __getitem__(self, site: int) -> Hosted:
        return self._hosts[site]

    def frozen(self) -> tuple[tuple[int, bool, int, int, int, int], ...]:
        return tuple([one.frozen() for one in self._hosts])

    def thaw(self, frozen: tuple[tuple[int, bool, int, int, int, int], ...]) -> None:
        self._hosts = [Hosted(one) for one in frozen]

    def hear(self, site: int, message: Plain) -> None:
        """A message arrives at the life that it was sent to."""
        host = self[site]
        match message:
            case ("place", _, int(assignment), int(term)):
                self._place(site, assignment, term)
            case ("stop", _, int(until)):
                if host.leader and host.assignment <= until:
                    self.feed(site, ("stop",), leads=True)
            case ("follow", _):
                host.follower = self._machines.follower()
                self.feed(site, ("loaded", False), leads=False)
                self.feed(site, ("assigned", 0, 0), leads=False)
            case ("write", _, int(call), int(attempt)):
                self._take(site, ("write", call, attempt), leads=True)
            case ("query", _, int(call), int(attempt), bool(leads), int(position_min)):
                self._take(site, ("query", call, attempt, position_min), leads=leads)
            case ("log", _, _, bool(leads), int(number), values):
                self.feed(site, ("log", number, values), leads=leads)
            case (("created" | "looked") as what, _, _, int(number), answer):
                self.feed(site, (what, number, answer), leads=True)
            case _:
                raise AssertionError(f"no host hears {message!r}")

    def _place(self, site: int, assignment: int, term: int) -> None:
        """As `Host.place` does it."""
        host = self[site]
        if host.leader == 0:
            host.serial += 1
            host.assignment = assignment
            host.leader = self._machines.leader(assignment, term)
            self.feed(site, ("loaded", True), leads=True)
        elif assignment > host.assignment:
            self.feed(site, ("assigned", assignment, term), leads=True)
            host.assignment = assignment

    def _take(self, site: int, stimulus: Plain, *, leads: bool) -> None:
        host = self[site]
        if (host.leader if leads else host.follower) == 0:
            call, attempt = stimulus[1:3]
            broker = self._world.script.calls[call].broker
            self._world.push(BROKER + broker, ("answer", call, attempt, ("no", "NotLeader")))
        else:
            self.feed(site, stimulus, leads=leads)

    def feed(self, site: int, stimulus: Plain, *, leads: bool) -> None:
        """Let a machine handle `stimulus`, and carry out what it calls for."""
        host = self[site]
        number = host.leader if leads else host.follower
        if number == 0:
            return
        turn = self._machines.turn(number, stimulus)
        if leads:
            host.leader = turn.machine
        else:
            host.follower = turn.machine
        if turn.moved_from is not None:
            self._observe(site, turn)
        self._carry_out(site, turn.effects, leads=leads)

    def _carry_out(self, site: int, effects: tuple[Plain, ...], *, leads: bool) -> None:
        host = self[site]
        behind: list[tuple[Plain, bool]] = []
        for effect in effects:
            match effect:
                case ("reply", reply_to, value):
                    self._world.brokers.reply(reply_to, value)
                case ("create", int(number), int(value)):
                    create = ("create", site, host.life, host.serial, number, value, True)
                    self._world.queues[STORE].append(create)
                case ("look", int(number), bool(later)):
                    look = (site, host.life, host.serial, number)
                    if later:
                        self._world.soon.append(("look", *look))
                    else:
                        self._world.look(*look)
                case ("read", int(number)):
                    self._world.read(site, leads, number)
                case ("checkpoint",):
                    behind.append((("checkpointed",), True))
                case ("gone", bool(is_lost)):
                    host.leader = 0
                    if is_lost:
                        self._world.queues[COORDINATOR].append(("lost", host.assignment))
                case _:
                    continue  # Alarms, refusals, and hints, which only make followers prompt.
        for stimulus, of_leader in behind:
            self.feed(site, stimulus, leads=of_leader)

    def _observe(self, site: int, turn: Turn) -> None:
        world, name = self._world, f"host {'AB'[site]}/{self[site].life}"
        world.violations += world.judge.of_turn(name, turn, tuple(sorted(world.log.items())))

    def crash(self, site: int, *, drops: bool) -> None:
        """End a process; `drops`: what it was writing never lands."""
        world, host = self._world, self[site]
        world.crashes += 1
        host.is_up = False
        host.leader = host.assignment = host.serial = host.follower = 0
        world.queues[HOST + site].clear()
        if drops:
            world.drop_creates(site)
        world.soon = [one for one in world.soon if one[0] == "retry" or one[1] != site]
        world.brokers.host_gone(site)
        world.queues[COORDINATOR].append(("ended", site))

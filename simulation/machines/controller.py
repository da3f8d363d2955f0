"""Kafka's controller: it elects leaders, and notifies brokers, perhaps out of order."""

from __future__ import annotations

from tierledger.events.commands import LeaderVerdict
from tierledger.simulation.machines.environment.clockwork import MS, S
from tierledger.simulation.machines.struck import Struck

REPEAT = 2 * S
"""How often brokers are notified of unchanged roles, as after every change of an ISR."""

LOOK = 100 * MS

LATE_NOTIFICATIONS = 1600 * MS
"""The time after which every notification has arrived at its broker."""


class Controller:
    """Who leads which partition, and who replicates it."""

    def __init__(self, world: Struck) -> None:
        self.world = world
        self.leader: dict[int, int] = {}
        self.epoch: dict[int, int] = {}
        self.replicas: dict[int, list[int]] = {}
        self.changes = 0
        self.gone: set[int] = set()
        """Partitions of topics that are deleted."""
        self._released: set[int] = set()
        """Partitions that no broker hosts for the moment."""
        self._healed_at = 0

    def start(self) -> None:
        """Choose the first leaders, and notify brokers; repeat that if the scenario does so."""
        scenario = self.world.scenario
        ids = list(range(1, scenario.brokers + 1))
        for number in range(scenario.partitions):
            self._make(number)
        for broker_id in ids:
            self.notify(broker_id, MS)
        self._repeat()

    def _make(self, number: int) -> None:
        scenario = self.world.scenario
        ids = list(range(1, scenario.brokers + 1))
        turn = (scenario.seed + number) % len(ids)
        self.replicas[number] = ids[turn:] + ids[:turn]
        self.leader[number] = self.replicas[number][0]
        self.epoch[number] = 0
        self.world.verdicts[number] = [LeaderVerdict(self.leader[number], 0)]

    def delete_topic(self, number: int, successor: int | None) -> None:
        """No broker hosts the partition any more; `successor` is made under its name."""
        if number in self.gone:
            return
        self.gone.add(number)
        self.world.recording.mark("topic deleted")
        if successor is not None and successor not in self.leader:
            self._make(successor)
            self.world.recording.mark("topic made again under its name")
            self._notify_all(successor)
        self._notify_all(number)

    def elect(self, number: int, pick: int, delays: tuple[int, int], *, clean: bool) -> None:
        """Elect another replica in the next leader epoch; both brokers are notified of that.

        `delays`: of the notifications to the new leader and to the former one (us).
        """
        former = self.leader[number]
        others = [one for one in self.replicas[number] if one != former] or [former]
        self.leader[number] = others[pick % len(others)]
        self.epoch[number] += 1
        self.changes += 1
        world = self.world
        world.verdicts[number].append(LeaderVerdict(self.leader[number], self.epoch[number]))
        world.recording.event("elected", number, self.leader[number])
        world.recording.moment(
            f"broker-{self.leader[number]}", "elect", "", self.epoch[number], number
        )
        world.recorder.note(
            world.clock.now * 1000, f"broker-{self.leader[number]}", "leader elected",
            world.keys_of[number],
        )  # fmt: skip
        if not clean:
            world.recording.mark("unclean election")
            world.recorder.note(world.clock.now * 1000, "controller", "unclean", None)
        self.notify(self.leader[number], delays[0], (number,))
        if former != self.leader[number]:
            self.notify(former, delays[1], (number,))

    def move(self, number: int, pick: int, back: int) -> None:
        """Take a replica that does not lead from its broker, and return it `back` us later."""
        others = [one for one in self.replicas[number] if one != self.leader[number]]
        if not others:
            return
        leaving = others[pick % len(others)]
        self.replicas[number].remove(leaving)
        self.world.recording.mark("replica moved away")
        self.notify(leaving, 5 * MS, (number,))
        self.world.clock.after(back, None, self._return, number, leaving)

    def _return(self, number: int, broker_id: int) -> None:
        if broker_id not in self.replicas[number]:
            self.replicas[number].append(broker_id)
            self.notify(broker_id, 5 * MS, (number,))

    def release(self, number: int, back: int) -> None:
        """Take all replicas from their brokers, and return them `back` us later."""
        self._released.add(number)
        self.world.recording.mark("partition released")
        self._notify_all(number)
        self.world.clock.after(back, None, self._take_back, number)

    def _take_back(self, number: int) -> None:
        if number in self._released:
            self._released.discard(number)
            self._notify_all(number)

    def _notify_all(self, number: int) -> None:
        for broker_id in range(1, self.world.scenario.brokers + 1):
            self.notify(broker_id, 5 * MS, (number,))

    def _repeat(self) -> None:
        for broker_id in range(1, self.world.scenario.brokers + 1):
            self.notify(broker_id, 3 * MS)
        self.world.clock.after(REPEAT, None, self._repeat)

    def notify(
        self, broker_id: int, delay: int, numbers: tuple[int, ...] | None = None
    ) -> None:
        """Notify a broker of its present roles; a later notification may arrive earlier."""
        leads: dict[int, int] = {}
        follows: list[int] = []
        stops: list[int] = []
        for number in list(self.leader) if numbers is None else numbers:
            if number in self._released or number in self.gone:
                stops.append(number)
            elif self.leader[number] == broker_id:
                leads[number] = self.epoch[number]
            elif broker_id in self.replicas[number]:
                follows.append(number)
            else:
                stops.append(number)
        broker = self.world.brokers.get(broker_id)
        if broker is not None:
            carries = self._carries_epochs(broker_id)
            arrives = self.world.clock.now + delay
            self.world.clock.at(
                arrives, broker.life, broker.notify, leads, follows, stops, carries
            )

    def _carries_epochs(self, broker_id: int) -> bool:
        share = self.world.scenario.known_epochs
        return (self.world.clock.now // MS * 31 + broker_id * 7) % 100 < share

    # After healing.

    def heal(self) -> None:
        """Return released partitions; see if all is well once late notifications are in."""
        for number in list(self._released):
            self._take_back(number)
        self.world.clock.after(LATE_NOTIFICATIONS, None, self._settled)

    def _settled(self) -> None:
        """Notify all brokers, and let true leaders write until each has succeeded.

        Before that, every announcement has to be answered. While the store is unavailable they
        wait for seconds, and until the true leader's one is accepted, an earlier leader's claim
        is rightly in force.
        """
        if any(broker.has_unannounced for broker in self.world.all_brokers):
            self.world.clock.after(LOOK, None, self._settled)
            return
        self._healed_at = self.world.clock.now
        self.world.settled()
        for broker_id in range(1, self.world.scenario.brokers + 1):
            self.notify(broker_id, MS)
        self._look()

    def _look(self) -> None:
        world = self.world
        waiting = [number for number in self.leader if not self.is_well(number)]
        if not waiting and not world.is_well:
            world.is_well = True
            world.recording.event("well")
            world.recording.moment("", "well", "each true leader has written")
            world.clock.is_stopped = True
            return
        for number in waiting:
            broker = world.brokers[self.leader[number]]
            copy_once = world.copiers.copy_once
            world.clock.step(broker.life, copy_once, broker, number, 9, "go on", 0)
        world.clock.after(LOOK, None, self._look)

    def is_well(self, number: int) -> bool:
        """Whether the true leader has completed a write that began after all had healed.

        A damaged partition counts as well: an operator has to repair it. So does one whose
        topic is deleted.
        """
        if number in self.world.damaged or number in self.gone:
            return True
        written = self.world.written.get((self.leader[number], number), -1)
        return written >= self._healed_at

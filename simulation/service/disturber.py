"""Injects faults into the processes, connections and store of a world."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from tierledger.actors.calls import PlaceCall
from tierledger.events.errors import OutcomeUnknown
from tierledger.simulation.machines.environment.clockwork import ProcessLife, S
from tierledger.simulation.service.brokers import Broker
from tierledger.simulation.service.cluster import Cluster, HostProcess, HostWay
from tierledger.simulation.service.network import WORLD_CONTEXT
from tierledger.simulation.service.plan import stream
from tierledger.simulation.service.stage import Stage
from tierledger.simulation.service.streams import StreamNetwork
from tierledger.simulation.service.virtual_loop import VirtualProcess


class Disturber:
    """Injects a fault at random times, each time one of those that the plan switches on."""

    def __init__(
        self,
        world: Stage,
        cluster: Cluster,
        brokers: Mapping[int, Broker],
        restart_broker: Callable[[int], None],
    ) -> None:
        self._world = world
        self._cluster = cluster
        self._brokers = brokers
        self._restart_broker = restart_broker
        self._random = stream(world.plan.seed, "faults")
        self._stopped = False

    def start(self) -> None:
        if self._world.plan.crash_after_create:
            self._world.medium.on_created = self._after_create
        if self._world.plan.faults:
            self._next()

    def stop(self) -> None:
        self._stopped = True
        self._world.medium.on_created = None

    def _next(self) -> None:
        pause = self._random.expovariate(1 / self._world.plan.fault_every_s)
        self._world.loop.call_later(pause, self._strike, context=WORLD_CONTEXT)

    def _strike(self) -> None:
        if self._stopped:
            return
        fault = self._random.choice(self._world.plan.faults)
        if STRIKES[fault](self):
            self._world.recording.mark(fault)
            self._world.note(fault, "world")
        self._next()

    def _after_create(self, life: ProcessLife) -> None:
        if self._random.random() < self._world.plan.crash_after_create:
            self._world.recording.mark("crash after durable, before acknowledged")
            assert isinstance(life, VirtualProcess), "all lives here are"
            self._world.loop.kill(life)

    # The faults. Each returns whether it was injected; without a fitting process it is not.

    def _host(self) -> HostProcess | None:
        hosts = [one for one in self._cluster.hosts.values() if one.is_reachable]
        return self._random.choice(hosts) if hosts else None

    def _pause(self, process: VirtualProcess | None) -> bool:
        if process is None or process.is_dead or process.is_paused:
            return False
        world = self._world
        world.loop.pause(process)

        def resume() -> None:
            if process.is_paused and not process.is_dead:
                world.recording.event("resume", process.name)
                world.loop.resume(process)

        pause = self._random.choice((0.2, 3.0, 8.0)) * self._random.uniform(0.5, 1.5)
        world.loop.call_later(pause, resume, context=WORLD_CONTEXT)
        return True

    def _kill(self, process: VirtualProcess | None) -> bool:
        if process is None or process.is_dead:
            return False
        self._world.loop.kill(process)
        return True

    def kill_host(self) -> bool:
        return self._kill(self._host())

    def pause_host(self) -> bool:
        return self._pause(self._host())

    def fuse_host(self) -> bool:
        """Kill a host at one of its next 200 steps, whatever it does there."""
        process = self._host()
        if process is None:
            return False
        process.fuse = process.steps + self._random.randint(1, 200)
        return True

    def kill_coordinator(self) -> bool:
        return self._kill(self._cluster.coordinator)

    def pause_coordinator(self) -> bool:
        return self._pause(self._cluster.coordinator)

    def cut_off_coordinator(self) -> bool:
        """Let all others believe the coordinator dead: a successor starts while it goes on."""
        return self._cut_off(self._cluster.coordinator)

    def cut_off_host(self) -> bool:
        """Have a host replaced while it goes on; never the only writer of a file."""
        process = self._host()
        if process is None or (self._world.plan.one_writer and process.writes):
            return False
        return self._cut_off(process)

    def _cut_off(self, process: VirtualProcess | None) -> bool:
        if process is None or not process.is_reachable:
            return False
        self._world.loop.cut_off(process)
        return True

    def cut_message_path(self) -> bool:
        """Cut one direction between two processes for up to 5 s."""
        alive = [one.site for one in self._cluster.processes if not one.is_dead]
        if len(alive) < 2:
            return False
        source, target = self._random.sample(alive, 2)
        until = self._world.loop.clock.now + int(self._random.uniform(0.1, 5.0) * S)
        self._world.network.wires.cut((source, target), until)
        return True

    def kill_broker(self) -> bool:
        """Kill a broker; it restarts within 2 s under its old id, in a new incarnation."""
        broker_id = self._random.choice(sorted(self._brokers))
        if not self._kill(self._brokers[broker_id].process):
            return False
        self._restart_later(broker_id)
        return True

    def pause_broker(self) -> bool:
        """Pause a broker; every other time a new process replaces it: the old is a zombie."""
        broker_id = self._random.choice(sorted(self._brokers))
        if not self._pause(self._brokers[broker_id].process):
            return False
        if self._random.random() < 0.5:
            self._restart_later(broker_id)
        return True

    def _restart_later(self, broker_id: int) -> None:
        pause = self._random.uniform(0.1, 2.0)
        self._world.loop.call_later(
            pause, self._restart_broker, broker_id, context=WORLD_CONTEXT
        )

    def assign_twice(self) -> bool:
        """Repeat a host's placement to the same or another host, perhaps long after it."""
        cluster, host = self._cluster, self._host()
        if not cluster.placed or host is None:
            return False
        newest = self._random.random() < 0.5
        placement = cluster.placed[-1] if newest else self._random.choice(cluster.placed)

        async def place_again() -> None:
            with suppress(OutcomeUnknown):
                await HostWay(cluster, host).ask(PlaceCall([placement]))

        self._world.loop.create_task(place_again(), context=WORLD_CONTEXT.copy())
        return True

    def store_away(self) -> bool:
        """Have the store refuse all requests for up to 2 s."""
        length = int(self._random.uniform(0.1, 2.0) * S)
        self._world.medium.away_until = self._world.loop.clock.now + length
        return True


class StreamDisturber:
    """Injects faults into connections to doors. Its random numbers are its own."""

    def __init__(self, world: Stage, cluster: Cluster, brokers: Mapping[int, Broker]) -> None:
        self._world = world
        self._cluster = cluster
        self._brokers = brokers
        self._random = stream(world.plan.seed, "stream faults")
        self._shut_outs = stream(world.plan.seed, "whom and when doors shut out")
        self._closings = stream(world.plan.seed, "which door is closed and when")

    def start(self, streams: StreamNetwork) -> None:
        if streams.plan.freezes:
            at = self._random.uniform(0.5, self._world.plan.duration_s)
            self._world.loop.call_later(at, self._freeze, context=WORLD_CONTEXT)
        if streams.plan.closes:
            at = self._closings.uniform(0.5, self._world.plan.duration_s)
            self._world.loop.call_later(at, self._close, streams, context=WORLD_CONTEXT)
        if streams.plan.break_every_s:
            self._next(streams)
        if streams.plan.shut_out_every_s:
            self._next_shut_out(streams)

    def _next(self, streams: StreamNetwork) -> None:
        pause = self._random.expovariate(1 / streams.plan.break_every_s)
        self._world.loop.call_later(pause, self._break, streams, context=WORLD_CONTEXT)

    def _break(self, streams: StreamNetwork) -> None:
        if self._world.is_healing:
            return
        connection = streams.chosen(self._random)
        if connection is not None:
            silently = self._random.random() < streams.plan.silent_end_chance
            connection.break_(silently=silently)
            self._world.note("connection broken", "world")
        self._next(streams)

    def _next_shut_out(self, streams: StreamNetwork) -> None:
        pause = self._shut_outs.expovariate(1 / streams.plan.shut_out_every_s)
        self._world.loop.call_later(pause, self._shut_out, streams, context=WORLD_CONTEXT)

    def _shut_out(self, streams: StreamNetwork) -> None:
        """Cut a client off from all doors for longer than a call may take.

        Its writes are then in doubt: no answer comes, and no retry can be in time. Every other
        time the fault waits until a write of the client is durable, and takes its answer.
        """
        if self._world.is_healing:
            return
        broker = self._brokers[self._shut_outs.choice(sorted(self._brokers))]
        client = broker.process.name

        def shut_out() -> None:
            call_s = self._world.plan.network.timeout_s * 2
            streams.shut_out(client, self._world.loop.time() + 1.2 * call_s)
            self._world.recording.mark("client shut out")
            self._world.note("client shut out", "world")

        if self._shut_outs.random() < 0.5:
            streams.before_written(client, shut_out)
        else:
            shut_out()
        self._next_shut_out(streams)

    def _freeze(self) -> None:
        """Freeze a host for good; the kernel still accepts connections for it."""
        hosts = [
            one
            for one in self._cluster.hosts.values()
            if one.is_reachable and not one.is_paused
        ]
        # The launcher gives up on a host that freezes before its first answer, but only after
        # a time that is longer than this world's calls take.
        has_come_up = bool(self._cluster.placed)
        if hosts and has_come_up and not self._world.is_healing:
            process = self._random.choice(hosts)
            process.is_frozen = True
            self._world.loop.pause(process)
            self._world.recording.mark("host frozen for good")
            self._world.note("host frozen for good", "world")

    def _close(self, streams: StreamNetwork) -> None:
        """Keep everybody from one host's door, whichever process serves there."""
        hosts = {one.site for one in self._cluster.hosts.values() if one.is_reachable}
        if len(hosts) > 1 and not self._world.is_healing:
            streams.close_door(self._closings.choice(sorted(hosts)))
            self._world.recording.mark("door closed for good")
            self._world.note("door closed for good", "world")


STRIKES = {
    "kill host": Disturber.kill_host,
    "pause host": Disturber.pause_host,
    "fuse host": Disturber.fuse_host,
    "kill coordinator": Disturber.kill_coordinator,
    "pause coordinator": Disturber.pause_coordinator,
    "cut off coordinator": Disturber.cut_off_coordinator,
    "cut off host": Disturber.cut_off_host,
    "cut message path": Disturber.cut_message_path,
    "kill broker": Disturber.kill_broker,
    "pause broker": Disturber.pause_broker,
    "assign twice": Disturber.assign_twice,
    "store away": Disturber.store_away,
}

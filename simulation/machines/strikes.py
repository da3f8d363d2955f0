"""What each kind of decision does to a world. A decision that finds no victim does nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from tierledger.actors.calls import FOLLOWER, LEADER
from tierledger.actors.holds import Hold
from tierledger.actors.messages import Query
from tierledger.events.lifecycle import DeletionCause
from tierledger.simulation.machines.copier import Copier
from tierledger.simulation.machines.environment.clockwork import MS, S
from tierledger.simulation.machines.environment.medium import LOSE, REFUSE, SLOW, SLOW_ANSWER
from tierledger.simulation.machines.scenario.scenario import SeedDecision
from tierledger.simulation.machines.struck import Struck, StruckBroker

KINDS = ("lookup", "lookup", "highest_offset", "size", "list_epoch", "next_txn", "list")

STRIDE = 9 * MS
"""The time between two writes of a long run."""

RETENTION = ("start", "go on", "retire", "go on", "go on")
RETENTION_STRIDE = 20 * MS
"""Operations on a segment: it is added, finished, deleted, and its data goes before its row."""

IN_FLIGHT = 4
"""Segments whose deletions are under way when a hold is placed."""

BURIED, BURY_STRIDE = 8, 25 * MS
BURIAL = ("start", "go on", "retire", "go on")
"""Operations on segments that are deleted together: each is added, finished and deleted."""

HOLD_OF_ID = 2
"""The hold that is about a topic by its id; those after it are about a partition."""

DELETED = 2
"""The last step of a partition's deletion."""

_Strike = TypeVar("_Strike", bound="Callable[..., object]")

_STRIKES: dict[str, Callable[..., object]] = {}


def _strike(name: str) -> Callable[[_Strike], _Strike]:
    def named(function: _Strike) -> _Strike:
        _STRIKES[name] = function
        return function

    return named


# Work.


@_strike("copy")
def _copy(world: Struck, partition: int, caller: int, operation: str, draw: int) -> None:
    """Every broker that believes it leads makes a write; there may be two such, or none."""
    for broker in world.brokers.values():
        if partition in broker.led:
            copy_once = world.copiers.copy_once
            world.clock.step(broker.life, copy_once, broker, partition, caller, operation, draw)


@_strike("copy run")
def _copy_run(world: Struck, partition: int, count: int) -> None:
    """One write follows the other, so that the log grows long."""
    for at in range(count):
        if world.clock.now + at * STRIDE > world.scenario.duration:
            return
        operation = ("go on", "start", "go on")[at % 3]
        world.clock.after(at * STRIDE, None, _copy, world, partition, 2 + at % 3, operation, at)


@_strike("bury")
def _bury(world: Struck, partition: int, waves: int) -> None:
    """Segments are deleted together, and added again while their ids are being forgotten."""
    world.recording.mark("deleted together, and added again")
    for wave in range(waves):
        at = wave * BURY_STRIDE
        if world.clock.now + at > world.scenario.duration:
            return
        for caller in range(BURIED):
            works = caller % 2 or wave < len(BURIAL)
            operation = BURIAL[wave % len(BURIAL)] if works else "add what was deleted"
            world.clock.after(at, None, _copy, world, partition, 20 + caller, operation, wave)


@_strike("zombie copy")
def _zombie_copy(world: Struck, pick: int, partition: int, operation: str, draw: int) -> None:
    """A broker's process writes that wrongly believes it leads; if none does, the leader's."""
    believers = [
        one
        for one in world.broker_lives
        if not one.life.is_dead and partition in one.led and one.import_cluster is None
    ]
    if believers:
        leader = world.brokers[world.controller.leader[partition]]
        believers = [one for one in believers if one is not leader] or believers
        broker = believers[pick % len(believers)]
        if world.brokers.get(broker.broker_id) is not broker:
            world.recording.mark("zombie broker wrote")
        copy_once = world.copiers.copy_once
        world.clock.step(broker.life, copy_once, broker, partition, 7, operation, draw)


@_strike("read")
def _read(
    world: Struck, broker_id: int, partition: int, caller: int, role: int, kind: int, draw: int
) -> None:
    broker = world.brokers[broker_id]
    world.clock.step(broker.life, _read_once, world, broker, partition, caller, role, kind,
        draw,
    )  # fmt: skip


def _read_once(
    world: Struck,
    broker: StruckBroker,
    partition: int,
    caller: int,
    role: int,
    kind: int,
    draw: int,
) -> None:
    one = broker.caller(partition, caller, "read")
    if one.is_busy:
        return
    epoch = max(0, world.controller.epoch[partition] - draw % 3)
    reach = 60 if draw % 2 else 400  # Covers the segments of most worlds, or of all.
    query = Query(KINDS[kind % len(KINDS)], epoch, epoch * 100 + draw % reach)
    broker.read(partition, one, LEADER if role else FOLLOWER, query, _ignored)


def _ignored(_: object) -> None:
    """Ignore the outcome: the history holds it."""


@_strike("delete partition")
def _delete_partition(world: Struck, partition: int) -> None:
    broker = world.brokers[world.controller.leader[partition]]
    world.clock.step(broker.life, _delete_once, world, broker, partition)


def _delete_once(world: Struck, broker: StruckBroker, partition: int) -> None:
    """Take the step that is due, if this broker believes it leads; look again soon."""
    epoch = broker.led.get(partition)
    caller = broker.caller(partition, 8, "delete")
    if world.deletions.get(partition, 0) > DELETED:
        return
    if epoch is not None and not caller.is_busy:
        Copier(world, broker, partition, epoch).delete_partition(caller)
    if world.clock.now < world.scenario.duration:
        world.clock.after(100 * MS, broker.life, _delete_once, world, broker, partition)


# Leaders.


@_strike("elect")
def _elect(
    world: Struck, partition: int, pick: int, delay: int, former_delay: int, clean: int
) -> None:
    world.controller.elect(partition, pick, (delay * MS, former_delay * MS), clean=bool(clean))


@_strike("rival elections")
def _rival_elections(
    world: Struck, partition: int, pick: int, gap: int, first: int, second: int, third: int
) -> None:
    """Three elections follow each other soon, so that several brokers' claims stand at a time.

    `first` to `third`: ms until each new leader is notified; former leaders are later.
    """
    _burst(world, partition)
    for at, heard in enumerate((first, second, third)):
        delays = (heard * MS, (heard + gap * (4 - at)) * MS)
        elect = partial(world.controller.elect, clean=True)
        world.clock.after(at * gap * MS, None, elect, partition, pick + at, delays)


@_strike("move replica")
def _move(world: Struck, partition: int, pick: int, back: int) -> None:
    world.controller.move(partition, pick, back * MS)


@_strike("tell all")
def _notify_all(world: Struck, broker_id: int, delay: int) -> None:
    world.recording.mark("announcement repeated")
    world.controller.notify(broker_id, delay * MS)


# Processes.


@_strike("kill")
def _kill(world: Struck, site: str) -> None:
    life = world.at_site(site)
    if life is not None:
        world.recording.mark(f"kill {site.partition('-')[0]}")
        world.kill(life)


@_strike("pause")
def _pause(world: Struck, site: str, duration: int) -> None:
    life = world.at_site(site)
    if life is not None and not life.is_paused:
        world.recording.mark(f"pause {site.partition('-')[0]}")
        world.pause(life, duration * MS)


@_strike("cut off")
def _cut_off(world: Struck, site: str) -> None:
    """A process is believed dead and replaced, while it goes on."""
    life = world.at_site(site)
    if life is not None and world.cut_off(life):
        world.recording.mark(f"cut off {site.partition('-')[0]}")


@_strike("depose")
def _depose(world: Struck, partition: int, how: int) -> None:
    """The host that leads a partition dies, freezes, or is replaced while it goes on."""
    host = world.leader_life(partition)
    if host is not None:
        site = host.site
        if how == 0:
            _kill(world, site)
        elif how == 1:
            _pause(world, site, 2500)
        elif how == 2:
            _cut_off(world, site)
        else:
            world.recording.mark("host given up by the coordinator")
            world.suspect(host)


@_strike("mute")
def _mute(world: Struck, partition: int, duration: int) -> None:
    """A leader's host dies, and the answers that it sent to brokers shortly before are lost."""
    host = world.leader_life(partition)
    if host is not None:
        world.recording.mark("mute host died")
        world.mute(host, world.clock.now + duration * MS)
        world.clock.after(duration * MS, None, world.kill, host)


@_strike("fuse")
def _fuse(world: Struck, site: str, point: str) -> None:
    world.fuses.add((site, point))


@_strike("doze")
def _doze(world: Struck, partition: int, duration: int) -> None:
    host = world.leader_life(partition)
    if host is not None:
        world.dozes[host.site, "durable"] = duration * MS


@_strike("restart broker")
def _restart_broker(world: Struck, broker_id: int, kills: int) -> None:
    """A new life of a broker; the old one ends, or goes on as a zombie."""
    broker = world.brokers[broker_id]
    if kills:
        world.recording.mark("kill broker")
        world.kill(broker.life)
    world.restart_broker(broker_id)


@_strike("zombie announces")
def _zombie_announces(world: Struck, broker_id: int, partition: int, delay: int) -> None:
    """A broker's process goes on after its replacement, and is notified that it leads."""
    former = world.brokers[broker_id]
    world.restart_broker(broker_id)
    leads = {partition: world.controller.epoch[partition]}
    world.recording.mark("zombie broker announced")
    world.clock.after(delay * MS, former.life, former.notify, leads, [], [], False)


@_strike("power cut")
def _power_cut(world: Struck, keeps: int) -> None:
    """Every process ends; each write under way becomes durable or is lost."""
    world.recording.mark("power cut")
    world.medium.cut_power(keeps)
    for life in list(world.lives):
        world.kill(life)
    for broker_id in sorted(world.brokers):
        world.clock.after(200 * MS, None, world.restart_broker, broker_id)


@_strike("bad spell")
def _bad_spell(world: Struck, site: str, duration: int, loses: int) -> None:
    """One process cannot reach the store for a while; its writes are refused or lost."""
    world.recording.mark("store away from one")
    fate = LOSE if loses else REFUSE
    world.medium.cut_off(site, world.clock.now + duration * MS, fate)


@_strike("outage")
def _outage(world: Struck, point: str, duration: int) -> None:
    """The process that next gets to `point` cannot reach the store for a while after that."""
    world.outages[point] = duration * MS


@_strike("two fates")
def _two_fates(
    world: Struck, partition: int, first: int, second: int, by: int, count: int
) -> None:
    """A leader's next write to the store suffers one fate, and its repeat another.

    `count` writes follow. If it is only one, the slot stays free for an append that is late.
    """
    host = world.leader_life(partition)
    if host is not None:
        for fate in (first, second):
            world.medium.arm(host.site, fate, by, of_writes=True)
        _burst(world, partition, count)


@_strike("troubled election")
def _troubled_election(
    world: Struck, partition: int, pick: int, duration: int, loses: int
) -> None:
    """Another broker is elected while the leader's host cannot reach the store."""
    host = world.leader_life(partition)
    if host is not None:
        _bad_spell(world, host.site, duration, loses)
        world.controller.elect(partition, pick, (2 * MS, 4 * MS), clean=True)
        _burst(world, partition)


def _burst(world: Struck, partition: int, count: int = 12) -> None:
    """Brokers make writes in quick succession."""
    for at in range(count):
        world.clock.after(at * 2 * MS, None, _copy, world, partition, at % 5, "go on", at)


@_strike("close host")
def _close_host(world: Struck, site: str) -> None:
    """A host is asked to end: it stores what it has begun, and releases its partitions."""
    life = world.at_site(site)
    if life is not None:
        world.recording.mark("host closed")
        world.close(life)


@_strike("replace")
def _replace(world: Struck, site: str) -> None:
    """The operator has a host's process replaced by a new one, as for an upgrade."""
    world.operator.replace(site)


@_strike("release")
def _release(world: Struck, partition: int, back: int) -> None:
    """No broker hosts the partition for a while; then all do again."""
    _burst(world, partition, 40)
    world.clock.after(3 * MS, None, world.controller.release, partition, back * MS)


@_strike("import")
def _import(world: Struck, partition: int, history: int, count: int) -> None:
    """An importer imports recorded history: it leads the partition as a further broker."""
    world.start_import(partition, history, count)


@_strike("import, then delete")
def _import_then_delete(
    world: Struck, partition: int, history: int, count: int, after: int
) -> None:
    """An importer imports recorded history, and the partition is deleted soon after."""
    world.start_import(partition, history, count)
    world.clock.after(after * MS, None, _delete_partition, world, partition)


@_strike("clock steps")
def _clock_steps(world: Struck, site: str, by_ms: int) -> None:
    life = world.at_site(site)
    if life is not None and world.step_clock(life, by_ms):
        world.recording.mark("clock stepped back" if by_ms < 0 else "clock stepped")


# Network and store.


@_strike("wire")
def _wire(world: Struck, source: str, target: str, fate: int, by: int) -> None:
    world.wires.arm((source, target), fate, by)


@_strike("cut")
def _cut(world: Struck, source: str, target: str, duration: int) -> None:
    world.wires.cut((source, target), world.clock.now + duration * MS)


@_strike("clog")
def _clog(world: Struck, source: str, target: str, duration: int) -> None:
    world.wires.clog((source, target), world.clock.now + duration * MS)


@_strike("store")
def _store(world: Struck, site: str, fate: int, by: int) -> None:
    world.medium.arm(site, fate, by)


@_strike("store away")
def _store_away(world: Struck, duration: int) -> None:
    world.recording.mark("store away")
    world.medium.away_until = world.clock.now + duration * MS


# The coordinator.


@_strike("lie")
def _lie(world: Struck, which: int) -> None:
    """A coordinator's next orders to a host are joined by placements of earlier orders."""
    world.lies.append(which)


@_strike("assign")
def _assign(world: Struck, host: int, which: int) -> None:
    """A host gets a placement that some host was sent, just now or long ago."""
    hosts, sent = world.host_lives, world.placements()
    if hosts and sent:
        world.recording.mark("assigned by nobody")
        world.place(hosts[host % len(hosts)], sent[which % len(sent)])


@_strike("contend")
def _contend(world: Struck, partition: int, host: int, slow: int) -> None:
    """A leader is placed on a slow host while the old one goes on writing as fast as it can."""
    life = world.move_leader(partition, host)
    if life is None:
        return
    world.recording.mark("leader made beside the one in office")
    for _ in range(30):
        world.medium.arm(life.site, SLOW, slow * MS)
    for at in range(40):
        world.clock.after(
            at * slow * MS // 3, None, _copy, world, partition, at % 2, "go on", at
        )


@_strike("slow follower")
def _slow_follower(world: Struck, partition: int, slow: int, broker_id: int) -> None:
    """Writes and an announcement come while the store's answer to a follower is under way."""
    life = world.following(partition)
    if life is None:
        return
    world.recording.mark("follower asked while it reads")
    for _ in range(2):
        world.medium.arm(life.site, SLOW_ANSWER, slow * MS)
    world.hint(life, partition)
    for at in range(3):
        world.clock.after((1 + at) * STRIDE, None, _copy, world, partition, at, "start", at)
    world.clock.after(4 * STRIDE, None, world.restart_broker, broker_id)


@_strike("second coordinator")
def _second_coordinator(world: Struck) -> None:
    """A second coordinator starts, while the first is believed dead and goes on."""
    life = world.at_site("coordinator")
    if life is not None and world.cut_off(life):
        world.recording.mark("two coordinators")


# Holds, deletions and the trash. Only worlds whose brokers have storage managers are struck so.


@_strike("retention")
def _retention(world: Struck, partition: int, count: int, caller: int) -> None:
    """A broker copies segments, and deletes the oldest as soon as it has copied them."""
    for at in range(count):
        if world.clock.now + at * RETENTION_STRIDE > world.scenario.duration:
            return
        operation = RETENTION[at % len(RETENTION)]
        world.clock.after(
            at * RETENTION_STRIDE, None, _copy, world, partition, 30 + caller, operation, at
        )


@_strike("hold")
def _hold(  # noqa: PLR0913, PLR0917 - The arguments of a decision.
    world: Struck,
    number: int,
    of: int,
    partition: int,
    first_offset: int,
    term: int,
    cause: int,
    until: int,
    length: int,
) -> None:
    """An operator places a hold, and releases it after `length` ms; -1: when all has healed.

    `of`: all topics, those of a pattern, the topic of the partition by its id, the partition
    alone, or some of its offsets. `term` (ms): how long it keeps what is deleted; -1: it is
    none. `until` (ms): it ends by itself after that time; -1: it does not.
    """
    name, tip = f"hold-{number}", world.tips[partition]
    pattern = ("*", "ord*", "*", "orders", "orders")[of]
    hold = Hold(name, pattern, reason="struck", by="operator")
    if of == HOLD_OF_ID:
        hold = hold._replace(topic_id=bytes(tip.topic_id))
    if of > HOLD_OF_ID:
        hold = hold._replace(partition=tip.partition)
    if of > HOLD_OF_ID + 1:
        hold = hold._replace(first_offset=first_offset, last_offset=first_offset + 20)
    if term >= 0:
        hold = hold._replace(term_ms=term, cause=DeletionCause(cause))
        world.recording.mark("term placed")
    elif until >= 0:
        until_ms = world.wall_ms() + until
        hold = hold._replace(until_ms=until_ms)
    world.operator.place(hold)
    if length >= 0:
        world.clock.after(length * MS, None, world.operator.release, name)


@_strike("lower term")
def _lower_term(
    world: Struck, number: int, partition: int, long: int, short: int, after: int
) -> None:
    """A term is replaced by a shorter one; what was deleted before keeps its own."""
    _hold(world, number, 1, partition, 0, long, 0, -1, after)
    world.clock.after(
        after * MS, None, _hold, world, number + 1, 1, partition, 0, short, 0, -1, -1
    )
    world.recording.mark("term changed downwards")


@_strike("hold in flight")
def _hold_in_flight(
    world: Struck, number: int, partition: int, of: int, delay: int, slow: int, depose: int
) -> None:
    """A hold is placed while deletions are being stored, perhaps by a host that is given up.

    `delay` (ms): how long after the deletions. `slow` (ms): how late their batch is; the next
    requests of other hosts are twice as late. `depose`: see `_depose`; 0: the host goes on.
    """
    for caller in range(4, 4 + IN_FLIGHT):
        _retention(world, partition, 2, caller)  # They are copied.
    world.clock.after(
        150 * MS, None, _held_in_flight, world, number, partition, of, delay, slow, depose
    )


def _held_in_flight(
    world: Struck, number: int, partition: int, of: int, delay: int, slow: int, depose: int
) -> None:
    host = world.leader_life(partition)
    if host is not None and slow:
        world.medium.arm(host.site, SLOW, slow * MS, of_writes=True)
        for other in world.host_lives:
            if other is not host:
                world.medium.arm(other.site, SLOW, 2 * slow * MS)
    for caller in range(34, 34 + IN_FLIGHT):
        _copy(world, partition, caller, "retire", 0)
    judged = world.scenario.oracle_delay  # Kafka is asked before a deletion is decided on.
    if depose:
        world.clock.after(judged + 8 * MS, None, _depose, world, partition, depose - 1)
    world.clock.after(
        judged + delay * MS, None, _hold, world, number, of, partition, 0, -1, 0, -1, 2000
    )


@_strike("release kept")
def _release_kept(world: Struck) -> None:
    """The operator lets go of all that is kept until somebody says so."""
    world.release_kept()


@_strike("delete topic")
def _delete_topic(world: Struck, partition: int, remakes: int, after: int) -> None:
    """A topic is deleted, with all that its brokers still find; perhaps it is made again."""
    broker = world.brokers[world.controller.leader[partition]]
    world.clock.step(broker.life, broker.delete_topic, partition)
    successor = world.scenario.partitions if remakes else None
    world.clock.after(after * MS, None, world.controller.delete_topic, partition, successor)
    if successor is not None:
        world.clock.after((after + 200) * MS, None, _retention, world, successor, 16, 0)


@_strike("tier away")
def _tier_away(world: Struck, duration: int) -> None:
    world.tier.away_until = world.clock.now + duration * MS


@_strike("guard dies")
def _guard_dies(world: Struck, broker_id: int, point: str, back: int) -> None:
    """A broker ends while it deletes data, and comes back after a while."""
    world.fuses.add((f"broker-{broker_id}", point))
    world.clock.after(back * MS, None, _come_back, world, broker_id)


def _come_back(world: Struck, broker_id: int) -> None:
    if world.brokers[broker_id].life.is_dead:
        world.restart_broker(broker_id)


@_strike("guard hangs")
def _guard_hangs(world: Struck, broker_id: int, point: str, duration: int) -> None:
    """A broker's deletion takes longer than its lease may last."""
    world.dozes[f"broker-{broker_id}", point] = duration * MS


# Damage: a store must never do this, and the service has to notice if one does.


def _damaged(world: Struck, partition: int, at: int, value: bytes) -> None:
    world.damage(partition, at, value)
    world.damaged.add(partition)
    world.recording.event("damaged", partition, at)


@_strike("rot")
def _rot(world: Struck, partition: int, which: int, bit: int) -> None:
    """One bit of a stored batch is flipped."""
    batches = world.batches(partition)
    if batches:
        at = which % len(batches)
        value = bytearray(batches[at])
        if value:  # A batch that was torn at its first byte has no bits left.
            value[bit // 8 % len(value)] ^= 1 << bit % 8
            world.recording.mark("bit rot in the log")
            _damaged(world, partition, at, bytes(value))


@_strike("tear")
def _tear(world: Struck, partition: int, which: int, length: int) -> None:
    """Only the beginning of a batch is left."""
    batches = world.batches(partition)
    if batches:
        at = which % len(batches)
        value = batches[at]
        if value:
            world.recording.mark("torn batch")
            _damaged(world, partition, at, value[: length % len(value)])


@_strike("stray")
def _stray(world: Struck, partition: int, victim: int) -> None:
    """A batch also lands in the next slot of another partition's log."""
    batches = world.batches(partition)
    if batches and victim != partition:
        world.recording.mark("misdirected write")
        _damaged(world, victim, len(world.batches(victim)), batches[-1])


@_strike("rot checkpoint")
def _rot_checkpoint(world: Struck, partition: int, which: int, bit: int) -> None:
    """One bit of a checkpoint's value is flipped; the log still has everything."""
    prefix = world.keys.state(world.tips[partition % len(world.tips)])
    keys = list(world.medium.state.irange(prefix, prefix + "\uffff"))
    if keys:
        key = keys[which % len(keys)]
        value = bytearray(world.medium.state[key])
        if value:
            value[bit // 8 % len(value)] ^= 1 << bit % 8
            world.medium.state[key] = bytes(value)
            world.recording.mark("bit rot in a checkpoint")


# Streams to doors, and hosts that freeze.


@_strike("break connections")
def _break_connections(world: Struck, site: str, silently: int, first: int) -> None:
    """All streams of a client break; one end does not learn of it, if `silently`."""
    world.streams.break_client(site, silently=bool(silently), server_first=bool(first))


@_strike("slow reader")
def _slow_reader(world: Struck, site: str, duration: int) -> None:
    """A client pauses before each frame that it reads, for a while."""
    world.streams.slow_until[site] = world.clock.now + duration * MS


@_strike("shut out")
def _shut_out(world: Struck, broker_id: int, waits: int) -> None:
    """A client is cut off from all doors for longer than a call may take.

    Its writes are then in doubt: no answer comes, and no retry can be in time. If it `waits`,
    the fault comes when a write of the client is durable, and takes its answer.
    """
    client = world.brokers[broker_id].life.name

    def shut_out() -> None:
        until = world.clock.now + world.scenario.patience * 6 // 5
        world.streams.shut_out(client, until / S)
        world.recording.mark("client shut out")

    if waits:
        world.streams.before_written(client, shut_out)
    else:
        shut_out()


@_strike("freeze")
def _freeze(world: Struck, site: str) -> None:
    """A host freezes for good; the kernel still accepts connections for it."""
    life = world.at_site(site)
    # The launcher gives up on a host that freezes before its first answer, but only after
    # a time that is longer than this world's calls take.
    if life is not None and not life.is_paused and world.serves(life):
        world.freeze(life)
        world.recording.mark("host frozen for good")


@_strike("close door")
def _close_door(world: Struck, site: str) -> None:
    """Nobody reaches a host's door any more, whichever process serves there."""
    if len({one.site for one in world.host_lives if one.is_reachable}) > 1:
        world.streams.close_door(site)
        world.recording.mark("door closed for good")


@_strike("burn")
def _burn(world: Struck, site: str, steps: int) -> None:
    """A process is killed at its next step but so many, whatever it does there."""
    life = world.at_site(site)
    if life is not None:
        world.burn(life, steps)
        world.recording.mark("crash at any step")


STRIKES = dict(_STRIKES)
"""By the kind of a decision, the function that carries it out."""


def argument_names(kind: str) -> list[str]:
    """The names of a decision's arguments, in their order."""
    strike = STRIKES[kind]
    code = strike.__code__
    return list(code.co_varnames[1 : code.co_argcount])


def plan(world: Struck) -> None:
    """Let each decision of the world's scenario strike at its time."""
    for at, decision in enumerate(world.scenario.decisions):
        world.clock.at(decision.at, None, _carry_out, world, at, decision)


def _carry_out(world: Struck, at: int, decision: SeedDecision) -> None:
    world.struck = at
    STRIKES[decision.kind](world, *decision.args)
    world.struck = None

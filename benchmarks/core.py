"""The core without a service: a log, a state, a checkpoint, and a process that starts on them.

Run as a program on a store, this module is the fresh process of a cold start.
"""

import asyncio
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from tierledger.benchmarks.bench import COMMANDS_PER_COMMIT, Bench
from tierledger.benchmarks.ledger import (
    CLAIM,
    SERDE,
    Ledger,
    blank,
    opened,
    partition_reader,
    prepared,
    url_of,
)
from tierledger.benchmarks.workload import (
    CLUSTER,
    LEADER_EPOCHS,
    OFFSETS_PER_SEGMENT,
    PARTITION,
    Workload,
)
from tierledger.events import commands as cmd
from tierledger.events.event_codec import decode_events
from tierledger.events.partition import answers
from tierledger.events.partition.evolve import evolve_all
from tierledger.events.tables.spilled_map import Spill
from tierledger.storage.spill_file import SpillFile

EVENTS_PER_BATCH = 100
DELETED_ONE_IN = 10
COPIES_AT_A_TIME = 3
"""How many copies a broker has under way: their adds and finishes interleave."""

SEED = 20261121

COMMITS = ("add", "finish", "delete at the head", "overlap in the middle")

MEMORY_FILE = Path("/proc/self/status")
"""Where Linux lists a process's memory; elsewhere the figure is left out."""

TRASH = MEMORY, FILE = "memory", "file"
"""Where kept segments are."""

NOTHING = ("-c", "pass")
COMMAND = ("-m", "tierledger.cli.main")


async def replay(bench: Bench) -> None:
    """Decode a log, verify its chain, and fold it into a state; or only decode it, verified."""
    bench.say("replay: writing the log")
    batches = list(recorded(bench["replayed"]))
    events = sum(len(batch) for batch in batches)
    bench.note(events=events)
    for _ in bench.turns("replay"):
        for name in ("folded", "decoded"):
            state = blank()
            position, previous = state.next_position, state.chain_hash
            with bench.rated(name, events, time.process_time):
                for stored in batches:
                    found, previous = decode_events(stored, position, previous)
                    position += len(found)
                    if name == "folded":
                        evolve_all(state, found, previous)


def recorded(segments: int) -> Iterator[Sequence[bytes]]:
    """The log of a partition whose segments are copied, and a tenth deleted, as it is read."""
    state, commands = blank(), life(segments)
    while some := list(itertools.islice(commands, EVENTS_PER_BATCH)):
        events, encoded = prepared(state, some)
        evolve_all(state, events, encoded.chain_hash)
        _, _, stored = SERDE.deserialize("batch", encoded.value)
        yield stored


def life(segments: int) -> Iterator[cmd.Command]:
    """Copies at the tail, a few at a time; for every ten of them a deletion at the head."""
    workload = Workload(segments, CLAIM)
    yield cmd.OpenSession(CLAIM, 0, None, PARTITION.topic)
    deleted = itertools.count()
    for first in range(0, segments, COPIES_AT_A_TIME):
        numbers = range(first, min(first + COPIES_AT_A_TIME, segments))
        yield from (workload.add(number) for number in numbers)
        yield from (workload.finish(number) for number in numbers)
        for number in numbers:
            if number % DELETED_ONE_IN == DELETED_ONE_IN - 1:
                yield from workload.delete(next(deleted))


async def lookup(bench: Bench) -> None:
    """A lookup in a loaded state, and whether a size costs more in a large one."""
    for name in ("segments", "small"):
        bench.say(f"lookup: {bench[name]:,} segments")
        async with await bench.ledger(bench[name]) as ledger:
            places = random_places(ledger, bench["lookups"])
            looked_up(ledger, places)  # Unpacks the pages, as first reads do.
            rounds = bench["lookups"] // LEADER_EPOCHS
            epochs = sorted(ledger.state.epochs)
            for _ in range(bench["repetitions"]):
                per_us = 1e6 / len(places)
                with bench.timed(f"lookup_{name}", per_us, time.process_time):
                    looked_up(ledger, places)
                per_us = 1e6 / (rounds * len(epochs))
                with bench.timed(f"size_{name}", per_us, time.process_time):
                    for _, epoch in itertools.product(range(rounds), epochs):
                        answers.remote_log_size(ledger.state, epoch)


def random_places(ledger: Ledger, count: int) -> list[tuple[int, int]]:
    """Leader epochs and offsets, each held by some segment."""
    random = Random(SEED)
    first, end = ledger.head * OFFSETS_PER_SEGMENT, ledger.tail * OFFSETS_PER_SEGMENT
    offsets = (random.randrange(first, end) for _ in range(count))
    return [(ledger.workload.epoch_at(offset), offset) for offset in offsets]


def looked_up(ledger: Ledger, places: list[tuple[int, int]]) -> None:
    state, found = ledger.state, answers.lookup
    assert None not in [found(state, *place) for place in places], "some segment holds each"


async def commit(bench: Bench) -> None:
    """Commits in a large partition and in a small one: whole, and all but the store."""
    bench.say(f"commit: {bench['commits']} of each kind and size")
    async with (
        await bench.ledger(bench["segments"]) as large,
        await bench.ledger(bench["small"]) as small,
    ):
        for turn in range(bench["commits"]):  # In turns, so that both use the same disk.
            for size, ledger in (("large", large), ("small", small)):
                for kind, commands in zip(COMMITS, commits(ledger, turn), strict=True):
                    begun = time.perf_counter()
                    events, encoded = prepared(ledger.state, commands)
                    encoding = time.perf_counter() - begun
                    await ledger.store(encoded)
                    stored = time.perf_counter()
                    ledger.apply(events, encoded)
                    applied = time.perf_counter()
                    rules = (encoding + applied - stored) * 1e6
                    bench.note(**{
                        f"{kind} {size}": (applied - begun) * 1e6,
                        f"{kind} {size} rules": rules,
                    })  # fmt: skip


def commits(ledger: Ledger, turn: int) -> list[Sequence[cmd.Command]]:
    """One commit of each kind; they do not change the partition's size, but for overlaps."""
    workload, head, tail = ledger.workload, ledger.head, ledger.tail
    middle = (head + tail) // 2 + turn
    return [
        [workload.add(tail)],
        [workload.finish(tail)],
        workload.delete(head),
        [workload.add_overlapping(middle), workload.finish_overlapping(middle)],
    ]


async def checkpoint(bench: Bench) -> None:
    """A checkpoint after the same changes in a large and in a smaller partition."""
    async with (
        await bench.ledger(bench["segments"]) as large,
        await bench.ledger(bench["medium"]) as smaller,
    ):
        sides = {"large": large, "smaller": smaller}
        for ledger in sides.values():
            await ledger.checkpoint()
        for _ in bench.turns("checkpoint"):
            for size, ledger in sides.items():
                await ledger.turn_over(bench["tail"])
                with bench.timed(size, 1e3):
                    await ledger.checkpoint()


async def cold_start(bench: Bench) -> None:
    """Seconds until a large partition serves in a fresh process, and its memory."""
    path = await store_with_tail(bench)
    for _ in bench.turns("cold start"):
        program = ["-m", "tierledger.benchmarks.core", str(path)]
        bench.note(**json.loads(await asyncio.to_thread(python, *program)))


async def cli_lookup(bench: Bench) -> None:
    """`tierledger lookup` on a large partition without a service; and a process that idles."""
    path = await store_with_tail(bench)
    workload = Workload(bench["segments"], CLAIM)
    for turn in bench.turns("command line"):
        offset = (bench["segments"] // 2 + 1000 * turn) * OFFSETS_PER_SEGMENT
        where = [PARTITION.topic, PARTITION.partition, workload.epoch_at(offset), offset]
        options = ["--store", url_of(path), "--cluster", CLUSTER]
        with bench.timed("lookup"):
            await asyncio.to_thread(python, *COMMAND, "lookup", *map(str, where), *options)
        with bench.timed("idle"):
            await asyncio.to_thread(python, *NOTHING)


async def store_with_tail(bench: Bench) -> Path:
    """The large partition's store: a checkpoint, and events behind it."""
    async with await bench.ledger(bench["segments"]) as ledger:
        await ledger.checkpoint()
        await ledger.turn_over(bench["tail"])
    return await bench.store(bench["segments"])


async def trash(bench: Bench) -> None:
    """The memory of a leader's kept segments, in a spill file and without one."""
    path, count = bench.new_store("trash"), bench["kept"]
    async with await Ledger.open(path, count) as ledger:
        step, workload = COMMANDS_PER_COMMIT // 4, ledger.workload
        for first in range(0, count, step):
            if first % (step * 400) == 0:
                bench.say(f"building {count:,} kept segments: {first * 100 // count} %")
            commands: list[cmd.Command] = []
            for number in range(first, min(first + step, count)):
                commands += [workload.add(number), workload.finish(number)]
                commands.append(workload.keep(number))
            await ledger.commit(commands)
        await ledger.checkpoint()
    for _ in bench.turns("trash"):
        for where in TRASH:
            program = ["-m", "tierledger.benchmarks.core", str(path), where]
            found = json.loads(await asyncio.to_thread(python, *program))
            each = found["bytes"] / count
            bench.note(**{f"{where}_each": each, f"{where}_s": found["seconds"]})


def python(*arguments: str) -> bytes:
    """What a Python process prints, which must succeed."""
    done = subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.PIPE)
    return done.stdout


async def start(path: Path, where: str = MEMORY) -> dict[str, float]:
    """Load the partition in the store at `path`: checkpoint and tail, both verified."""
    spill = None if where == MEMORY else Spill(SpillFile())
    before = resident_bytes()
    begun = time.perf_counter()
    reader = partition_reader(await opened(path), spill=spill)
    stored = await reader.checkpoints.read_partition()
    assert stored is not None, "the store was given a checkpoint"
    state = (await reader.state()).state
    seconds = time.perf_counter() - begun
    grown = resident_bytes() - before
    assert not reader.notes, "the checkpoint verified"
    await reader.backend.close()
    behind = state.next_position - stored[1].next_position
    found = {"seconds": seconds, "rows_there": len(state.rows), "behind": behind}
    if not before:
        return found
    return found | {"bytes": grown, "bytes_each": grown / max(len(state.rows), 1)}


def resident_bytes() -> int:
    """The resident memory of this process in bytes; 0 where it is unknown."""
    if not MEMORY_FILE.exists():
        return 0
    lines = MEMORY_FILE.read_text().splitlines()
    kibibytes = next(line.split()[1] for line in lines if line.startswith("VmRSS:"))
    return int(kibibytes) * 1024


if __name__ == "__main__":
    print(json.dumps(asyncio.run(start(Path(sys.argv[1]), *sys.argv[2:]))))

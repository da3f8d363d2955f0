"""The size of a run, and what its parts share."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tierledger.benchmarks.ledger import Ledger
from tierledger.benchmarks.workload import PARTITION, build_commands
from tierledger.events.identifiers import TopicIdPartition

SQLITE = "SQLite"
POSTGRESQL = "PostgreSQL"


@dataclass(frozen=True, slots=True)
class Scale:
    """Sizes and repetitions; medians are taken over the repetitions.

    Attributes:
        segments: Segments of the large partition.
        rows: Segments of the partition whose longest step on a loop is looked for.
        small: Segments of the partition it is compared with.
        medium: Segments of the one that checkpoints are compared with.
        replayed: Segments whose life cycle is replayed.
        lookups: Lookups of one repetition.
        tail: Events behind the checkpoint at a cold start, and between two checkpoints.
        repetitions: Of each part.
        commits: Commits of each kind and size.
        calls: Calls to the service in one process, in one repetition.
        ray_calls: Calls to the service on Ray, in one repetition.
        idle: Connections to a host on which nothing is asked.
        lags: Looks at how far a follower is behind, in one repetition.
        announced: Partitions that are announced at once.
        coordinated: Partitions of the service whose longest steps are looked for.
        failover_segments: Segments of each partition whose host is lost.
        failovers: Hosts that are lost in each way.
        simulated: Calls of one simulated world, at least.
        worlds: Large worlds of state machines in one repetition, and five times as many small.
        tier_segments: Segments of the partition that retention looks at.
        tier_entries: Segments that the index cache holds.
        tier_bytes: Bytes of the log that is read from the tier.
        kafka_calls: Calls of a broker's plugin, one at a time; of Kafka's manager a tenth.
        kafka_many: Such calls, many at a time; of both.
        kafka_partitions: Partitions that a broker's segments are divided among.
        spark_events: Events of the store that Spark reads.
        spark_partitions: Partitions that they are divided among.
        spark_large: Events of the one partition whose fold is watched for memory.
        spark_imported: Records of a topic that Spark imports; no more than `spark_events`.
        spark_sizes: Events of stores on which Spark is compared with plain Python.
        spark_repetitions: Of each look at a store through Spark.
        stores: Kinds of stores that the service on Ray is measured on.
    """

    segments: int = 1_000_000
    rows: int = 600_000
    small: int = 1_000
    medium: int = 10_000
    replayed: int = 50_000
    lookups: int = 200_000
    tail: int = 1_000
    repetitions: int = 5
    commits: int = 300
    calls: int = 2_000
    ray_calls: int = 8_000
    idle: int = 1_000
    lags: int = 400
    announced: int = 1_000
    coordinated: int = 10_000
    failover_segments: int = 10_000
    failovers: int = 3
    simulated: int = 5_000
    worlds: int = 60
    tier_segments: int = 100_000
    tier_entries: int = 10_000
    tier_bytes: int = 1 << 30
    kafka_calls: int = 2_000
    kafka_many: int = 20_000
    kafka_partitions: int = 1_000
    spark_events: int = 10_000_000
    spark_partitions: int = 1_000
    spark_large: int = 5_000_000
    spark_imported: int = 5_000_000
    spark_sizes: tuple[int, ...] = (100_000, 1_000_000)
    spark_repetitions: int = 3
    stores: tuple[str, ...] = (SQLITE, POSTGRESQL)


QUICK = Scale(
    segments=100_000,
    rows=200_000,
    replayed=10_000,
    lookups=50_000,
    repetitions=3,
    commits=60,
    calls=500,
    ray_calls=2_000,
    lags=100,
    announced=200,
    coordinated=1_000,
    failover_segments=1_000,
    failovers=1,
    simulated=1_000,
    worlds=20,
    tier_entries=1_000,
    tier_bytes=1 << 26,
    kafka_calls=400,
    kafka_many=2_000,
    kafka_partitions=50,
    spark_events=200_000,
    spark_partitions=100,
    spark_large=200_000,
    spark_imported=100_000,
    spark_sizes=(20_000, 100_000),
    spark_repetitions=1,
)
"""Touches every part in less than a minute; its figures are not comparable."""

COMMANDS_PER_COMMIT = 256
"""A leader's largest batch."""

SEGMENTS_PER_CHECKPOINT = 250_000
"""Bounds the memory of a checkpoint, which is one atomic step."""


class Bench:
    """One run: its scale, its folder, and the stores that were built in it."""

    def __init__(self, scale: Scale, folder: Path, say: Callable[[str], None]) -> None:
        """`say` reports progress where something takes long."""
        self.scale = scale
        self.say = say
        self._folder = folder
        self._built: dict[int, Path] = {}

    def turns(self, what: str, count: int = 0) -> Iterator[int]:
        """The number of each repetition (by default `repetitions`), reported when it begins."""
        count = count or self.scale.repetitions
        for turn in range(count):
            self.say(f"{what} {turn + 1} of {count}")
            yield turn

    def new_store(self, name: str) -> Path:
        """The path of a new store that a part may make for itself."""
        return self._folder / f"{name}.sqlite"

    async def store(self, segments: int) -> Path:
        """A store with one partition of so many finished segments, built at its first use."""
        if segments not in self._built:
            path = self.new_store(f"partition-{segments}")
            await self.build(path, segments)
            self._built[segments] = path
        return self._built[segments]

    async def ledger(self, segments: int) -> Ledger:
        """The partition of that store, loaded and open for writing; the caller closes it."""
        return await Ledger.open(await self.store(segments), segments)

    async def build(self, path: Path, segments: int, tip: TopicIdPartition = PARTITION) -> None:
        """Give the store at `path` a partition of so many finished segments, checkpointed."""
        ledger = await Ledger.open(path, segments, tip)
        step = COMMANDS_PER_COMMIT // 2
        for first in range(0, segments, step):
            if first % (step * 200) == 0 and segments > self.scale.medium:
                self.say(f"building {segments:,} segments: {first * 100 // segments} %")
            until = min(first + step, segments)
            await ledger.commit(build_commands(ledger.workload, range(first, until)))
            if first % SEGMENTS_PER_CHECKPOINT < step:
                await ledger.checkpoint()
        await ledger.checkpoint()
        await ledger.close()

"""A broker's replica of a large partition, or a thousand: start, heap, and reads."""

from __future__ import annotations

from collections.abc import Mapping

from tierledger.benchmarks.kafka.managers import Compared, Managers, managers
from tierledger.benchmarks.report import Figure
from tierledger.benchmarks.scale import Bench
from tierledger.benchmarks.served import new_partition
from tierledger.benchmarks.workload import LEADER_EPOCHS

LIST_EPOCH = LEADER_EPOCHS // 2
"""A leader epoch with a tenth of the segments."""

LOOKUP_SHARES = {1_000: 1.2, 100_000: 0.8}
LARGE_SHARE = 0.8


async def measure_one(bench: Bench) -> list[Figure]:
    """One large partition, and two smaller ones for the same lookups."""
    large = bench.scale.segments
    sizes = [size for size in LOOKUP_SHARES if size < large]
    topics = {f"one{size}": size for size in (*sizes, large)}
    path = bench.new_store("kafka-one")
    for topic, size in topics.items():
        await bench.build(path, size, new_partition(topic))
    async with managers(f"sqlite:{path}") as both:
        await _copy(both, dict.fromkeys(topics, 1))
        bench.say("Kafka's manager: one large partition")
        kafkas = await _held(both, "kafkas", bench, topics)
        bench.say("tierledger: the same")
        ours = await _held(both, "ours", bench, topics)
    return _figures(ours, kafkas, topics)


async def measure_many(bench: Bench) -> list[Figure]:
    """The same number of segments, spread over many partitions."""
    count = bench.scale.kafka_partitions
    each = bench.scale.segments // count
    path = bench.new_store("kafka-many")
    for number in range(count):
        if number % 100 == 0:
            bench.say(f"building {count:,} partitions: {number * 100 // count} %")
        await bench.build(path, each, new_partition("many", number))
    async with managers(f"sqlite:{path}") as both:
        await _copy(both, {"many": count})
        ready = {}
        for name in ("kafkas", "ours"):
            bench.say(f"{name}: {count:,} partitions")
            await _open(both, name)
            ready[name] = await both.lead(name, "many", count=count)
            await both.ask(name, "forget")
    compared = Compared(ready["ours"], ready["kafkas"], "s")
    return [compared.times_faster(f"ready: {count:,} partitions of {each:,} segments", 5)]


async def _open(both: Managers, name: str) -> None:
    await (both.open_ours() if name == "ours" else both.open_kafkas())
    await both.lead(name, "warm")


async def _copy(both: Managers, topics: Mapping[str, int]) -> None:
    """Copy the service's history to Kafka's topic."""
    await both.open_kafkas()  # Creates the topic.
    await both.lead("kafkas", "warm")
    await both.ask("kafkas", "forget")
    await both.open_ours()
    for topic, partitions in topics.items():
        await both.lead("ours", topic, count=partitions)
        await both.copy(topic, partitions)
    await both.ask("ours", "forget")


async def _held(
    both: Managers, name: str, bench: Bench, topics: Mapping[str, int]
) -> dict[str, float]:
    """The figures of one manager, by the names that `_figures` uses."""
    large = list(topics)[-1]
    size = topics[large]
    await _open(both, name)
    took: dict[str, float] = {}
    [empty] = await both.figures(name, "heap")
    took["ready"] = await both.lead(name, large)
    [full] = await both.figures(name, "heap")
    took["heap"] = (full - empty) / size
    for topic in topics:
        if topic != large:
            await both.lead(name, topic)
    for topic in topics:
        seconds, _ = await both.figures(name, "lookups", topic, 0, bench.scale.lookups)
        took[topic] = seconds * 1e9
    asked = {
        "list": ("lists", (LIST_EPOCH,)),
        "all": ("lists", ()),
        "size": ("sizes", (LIST_EPOCH,)),
    }
    for key, (question, epoch) in asked.items():
        seconds, took[f"{key}_of"] = await both.figures(name, question, large, 0, *epoch)
        took[key] = seconds * 1e6
    beside = int(await both.ask(name, "beside", large, 0))
    took["added"] = await both.lead(name, large, beside)
    await both.ask(name, "forget")
    return took


def _figures(
    ours: Mapping[str, float], kafkas: Mapping[str, float], topics: Mapping[str, int]
) -> list[Figure]:
    def both(name: str, unit: str) -> Compared:
        return Compared(ours[name], kafkas[name], unit)

    for same in ("list_of", "all_of", "size_of"):
        assert ours[same] == kafkas[same], f"{same}: {ours[same]}, Kafka's {kafkas[same]}"
    size = list(topics.values())[-1]
    return [
        both("ready", "s").times_faster(f"ready: one partition of {size:,}", 10),
        both("heap", "bytes").share(f"heap per segment, {size:,}", 0.4),
        *(
            both(topic, "ns").share(
                f"lookup among {segments:,}", LOOKUP_SHARES.get(segments, LARGE_SHARE)
            )
            for topic, segments in topics.items()
        ),
        both("list", "us").share(f"list of an epoch, {ours['list_of']:,.0f} segments", 1.2),
        # From 4.3 on, once for each led partition and run of retention.
        both("all", "us").share(f"list of all segments, {ours['all_of']:,.0f}", 1.2),
        both("size", "us").times_faster(f"size of an epoch among {size:,}", 10_000),
        both("added", "s").times_faster(f"a partition added beside {size:,}: ready", 100),
    ]

"""The table of scenarios: each one's figures with their goals, and what measures them."""

from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from tierledger.benchmarks import (
    backup,
    bucket,
    columns,
    console,
    core,
    guard,
    imports,
    kafka,
    service,
    simulated,
    spark,
)
from tierledger.benchmarks.bench import BUCKET, POSTGRESQL, SQLITE, Bench
from tierledger.benchmarks.failover import LOSSES, failover
from tierledger.benchmarks.feed.source import BATCHES, feed
from tierledger.benchmarks.path import path
from tierledger.benchmarks.report import Row, at_least, at_most
from tierledger.benchmarks.restart import restart
from tierledger.benchmarks.steps import steps
from tierledger.benchmarks.tier import measures as tier
from tierledger.benchmarks.tier.requests import requests

Measure = Callable[[Bench], Coroutine[Any, Any, None]]

# fmt: off
_OUTSTANDING = "64 outstanding, 16 partitions"
_BEHIND = "{segments:,} segments, {tail:,} events behind the checkpoint"
_DOOR, _RAY, _LOST = "door, {store}: ", "ray, {store}: ", "failover, {store}: "
_IDLE = "door, {store}: {idle:,} idle connections: the host's "
_FED = "feed: an event applied, "


def _commits() -> Iterable[Row]:
    for kind in core.COMMITS:
        for name, rules, goal in (("large to small", "", at_most(1.5)),
                                  ("all but the store", " rules", None)):
            sides = (f"{kind} large{rules}", f"{kind} small{rules}")
            yield Row(f"commit: {kind}, {name}", "x", " / ".join(sides), goal,
                      f"{{{sides[0]}}} µs at {{segments:,}}; {{{sides[1]}}} µs at {{small:,}}")


def _losses() -> Iterable[Row]:
    for one in LOSSES:
        goal = at_most(1.0 if one.number.name == "SIGKILL" else 3.0)
        yield Row(_LOST + f"{one.what}, last of all", "s", f"{one.what}, last", goal,
                  "16 partitions of {failover_segments:,} segments")
        yield Row(_LOST + f"{one.what}, median", "s", f"{one.what}, median")


def _beside(title: str, unit: str, what: str, bound: float, ours: str = "ours") -> Row:
    """How many times as long Kafka's manager takes."""
    return Row(title, "x", f"kafkas_{what} / {ours}_{what}", at_least(bound),
               f"{{{ours}_{what}}} {unit}; Kafka's {{kafkas_{what}}}")


def _share(title: str, unit: str, what: str, bound: float) -> Row:
    """Our cost as a share of that of Kafka's manager."""
    return _beside(title, unit, what, bound)._replace(
        value=f"ours_{what} / kafkas_{what}", goal=at_most(bound))


def _written(ours: str, where: str) -> Iterable[Row]:
    yield _beside(f"durable add, mean{where}", "ms", "mean", 20, ours)
    yield _beside(f"durable add, p99{where}", "ms", "p99", 10, ours)
    yield _beside(f"64 outstanding{where}", "us each", "many", 5, ours)
    yield _beside(f"add and finish, one worker{where}", "ms", "life", 20, ours)


ON_STORES = {
    **dict.fromkeys(
        ("door", "followers", "announce", "announce-all", "spark-scan"), (SQLITE, POSTGRESQL)
    ),
    **dict.fromkeys(("failover", "restart"), (SQLITE, POSTGRESQL, BUCKET)),
}
"""Scenarios that are measured once for each of some kinds of store."""

SCENARIOS: dict[str, tuple[Measure, list[Row]]] = {
    "replay": (core.replay, [
        Row("replay: decode and evolve", "events/s", "folded", at_least(200_000),
            "{events:,.0f} events in batches of 100"),
        Row("replay: decode alone", "events/s", "decoded"),
    ]),
    "lookup": (core.lookup, [
        Row("lookup", "µs", "lookup_segments", at_most(5.0),
            "random offsets of {segments:,} segments"),
        Row("remote_log_size, large to small", "x", "size_segments / size_small", at_most(1.5),
            "{size_segments} µs at {segments:,}; {size_small} µs at {small:,}"),
    ]),
    "commit": (core.commit, [*_commits()]),
    "checkpoint": (core.checkpoint, [
        Row("checkpoint after {tail:,} changes, large to smaller", "x", "large / smaller",
            at_most(3.0), "{large} ms at {segments:,}; {smaller} ms at {medium:,}"),
    ]),
    "cold-start": (core.cold_start, [
        Row("cold start", "s", "seconds", at_most(3.0),
            "{rows_there:,.0f} segments, {behind:,.0f} events behind"),
        Row("cold start: memory per segment", "bytes", "bytes_each", at_most(400)),
    ]),
    "trash": (core.trash, [
        Row("trash of {kept:,} segments: a leader's memory per kept segment", "bytes",
            "file_each", at_most(64), "{memory_each:,.0f} bytes without a spill file"),
        Row("trash: from process start until it is read", "s", "file_s",
            detail="{memory_s} s without a spill file"),
    ]),
    "cli-lookup": (core.cli_lookup, [
        Row("tierledger lookup, a new process", "s", "lookup", at_most(0.5), _BEHIND),
        Row("a Python process that does nothing", "s", "idle"),
    ]),
    "neighbour": (service.neighbour, [
        Row("neighbour: p99 of an add", "ms", "p99", at_most(20.0),
            "{adds:.0f} adds while {segments:,} segments load"),
        Row("neighbour: p50 of an add", "ms", "p50"),
    ]),
    "console": (console.console, [
        Row("console, SQLite: {console_partitions:,} partitions listed after its begin", "s",
            "listed_s", at_most(1.0), "{read_s:.0f} s until they are read"),
        Row("console, SQLite: page of {console_partitions:,} partitions", "s", "list_s",
            at_most(1.0), "{early_s} s while they are read"),
        Row("console, SQLite: a partition of {console_segments:,} segments, first picture",
            "s", "first_s", at_most(1.0),
            "{first_cpu} s of CPU; {whole_s:.1f} s until it is whole"),
        Row("console, SQLite, {viewers} viewers: p99 of a host's add", "ms", "viewed_p99",
            at_most(20.0), "{alone_p99} ms without them; p50 {viewed_p50} ms and {alone_p50}"),
        Row("console, SQLite, {viewers} viewers: CPU of the console for each", "% of a core",
            "console", at_most(1.0), "{alone} % without any"),
        Row("console, SQLite, {viewers} viewers: more CPU of the host for each",
            "% of a core", "host", at_most(1.0)),
    ]),
    "backup": (backup.backup, [
        Row("backup of {segments:,} segments: p99 of a neighbour's add", "ms", "p99",
            at_most(20.0), "{adds:.0f} adds"),
        Row("the same: p50", "ms", "p50"),
        Row("the same before that: p99", "ms", "alone_p99"),
        Row("backup made beside them", "events/s", "made_per_s"),
        Row("a backup with nothing new", "s", "again_s"),
        Row("backup restored", "events/s", "restored_per_s", at_least(100_000)),
        Row("the same, for each second of processor time", "events", "restored_per_cpu_s"),
    ]),
    "steps": (steps, [Row("longest step: {sample}", "ms", "*", at_most(10.0))]),
    "feed": (feed, [
        Row("feed: rows of a snapshot made", "rows/s", "made", at_least(300_000)),
        Row("feed: longest step of it", "ms", "longest_ms", at_most(10.0)),
        Row("feed: rows taken by the model", "rows/s", "taken"),
        Row("feed: a snapshot given up", "ms", "given_up_ms", at_most(10.0)),
        *(Row(f"{_FED}{events} in a batch, and {where}", "us", f"{way}_{events}", None,
              f"{{alone_{events}}} us without a feed")
          for events in BATCHES
          for way, where in (("kept", "into the ring"), ("fed", "to one replica"))),
        Row("feed: rows sent, and counted", "rows/s", "counted", at_least(300_000),
            "{segments:,} segments"),
        Row("feed: rows sent, and counted: p99 of an add", "ms", "counted_p99", at_most(20.0),
            "p50 {counted_p50} ms, {counted_adds:,.0f} adds"),
        Row("feed: rows sent, and kept by the model", "rows/s", "kept", None,
            "{segments:,} segments"),
        Row("feed: rows sent, and kept by the model: p99 of an add", "ms", "kept_p99",
            at_most(20.0), "p50 {kept_p50} ms, {kept_adds:,.0f} adds"),
        Row("feed: a change at a replica, p99", "ms", "late_p99", at_most(20.0),
            "{rate} events/s, " + _OUTSTANDING),
    ]),
    "service": (service.throughput, [
        Row("service: durable add, one at a time", "ms", "add_ms"),
        Row("service: " + _OUTSTANDING, "events/s", "events_per_s"),
        Row("service: linearizable lookups, 64 outstanding", "reads/s", "reads_per_s"),
    ]),
    "path": (path, [
        Row("functions that a durable write through a door passes, without its rules", "",
            "handing", at_most(40), "{rules} more in `events` decide, encode and apply it"),
    ]),
    "door": (service.door, [
        Row(_DOOR + "durable add, one at a time: p50", "ms", "p50_ms", at_most(1.0)),
        Row(_DOOR + "durable add, one at a time: p99", "ms", "p99_ms", at_most(4.0)),
        Row(_DOOR + _OUTSTANDING, "events/s", "writes_per_s", at_least(15_000)),
        Row(_DOOR + "256 outstanding, 16 partitions", "events/s", "many_per_s",
            at_least(20_000)),
        Row(_DOOR + "linearizable lookups, 64 outstanding", "reads/s", "reads_per_s",
            at_least(20_000)),
        Row(_DOOR + "the host's CPU per write, 64 outstanding", "us", "host_us", at_most(60)),
        Row(_DOOR + "the client's CPU per write, 64 outstanding", "us", "client_us"),
        Row(_IDLE + "memory", "MB more", "more_mb", at_most(50.0)),
        # A busy loop takes all of a core.
        Row(_IDLE + "CPU", "% of a core", "used", at_most(10.0), "{alone:.1f} % without"),
    ]),
    "bucket": (bucket.bucket, [
        Row("bucket: durable add, one at a time, to a plain request", "x",
            "add_ms / request_ms", at_most(1.5), "{add_ms} ms; a request {request_ms} ms"),
        Row("bucket: " + _OUTSTANDING, "events/s", "many_per_s", at_least(2_000)),
        Row("bucket: events for each request, 64 outstanding", "", "events_per_request",
            at_least(50)),
        Row("bucket: requests while nobody calls", "1/s", "idle_per_s"),
        Row("bucket: a successor opens the store", "s", "successor_s", at_most(1.0)),
    ]),
    "bucket-reads": (bucket.bucket_reads, [
        row for name in bucket.READING for row in (
            Row(f"bucket: {name} of {{bucket_events:,}} batches at rest", "s", f"{name}_rest",
                at_most(30.0)),
            Row(f"bucket: {name} beside a service that writes", "x",
                f"{name}_live / {name}_rest", at_most(2.0),
                f"{{{name}_live}} s; {{{name}_live_requests:,.0f}} requests, the service's "
                f"among them; {{{name}_rest_requests:,.0f}} at rest"),
        )
    ]),
    "followers": (service.followers, [
        Row(_RAY + "p99 of a follower's lag", "ms", "p99", at_most(100),
            "under {load} events/s"),
        Row(_RAY + "p50 of a follower's lag", "ms", "p50"),
        Row(_RAY + "p99 of a follower's replica", "ms", "replica_p99"),
        Row(_RAY + "p50 of a follower's replica", "ms", "replica_p50"),
    ]),
    "announce": (service.announce, [
        Row(_RAY + "{announced:,} partitions until ready", "s", "ready", at_most(5.0)),
    ]),
    "announce-all": (service.all_at_once, [
        Row(_RAY + "{announced_all:,} partitions at once, until all are ready", "s",
            "all_ready", at_most(30.0)),
        Row(_RAY + "{announced_all:,} partitions: memory of all hosts", "GiB", "gib",
            at_most(4.0), "{hosts:.0f} hosts"),
    ]),
    "failover": (failover, [*_losses()]),
    "restart": (restart, [
        Row("restart, {store}: longest write while all processes are replaced", "s", "longest",
            at_most(1.0), "{writes:,.0f} writes to 16 partitions, in {took_s:.0f} s"),
        Row("restart, {store}: writes that failed", "failed", "failed", at_most(0)),
    ]),
    "world": (simulated.world, [
        Row("world: simulated calls", "calls/s", "rate", at_least(10_000),
            "{checking:.0%} of it checking"),
    ]),
    "worlds": (simulated.worlds, [
        row
        for size, rate in (("small", 3), ("large", 0.5))
        for row in (
            Row(f"worlds: {size}", "seeds/s", size, at_least(rate),
                f"median of {{{size}_calls:.0f}} calls, "
                f"{{{size}_changes:.0f}} leadership changes"),
            Row(f"worlds: {size}, virtual to real time", ": 1", f"{size}_pace",
                at_least(10)),
        )
    ]),
    "kafka-calls": (kafka.calls, [
        *_written("ours", ""),
        _beside("deleting a topic of {medium:,} segments", "s", "deleted", 1.5),
        Row("{announced:,} leaders: ready", "s", "ours_leaders", at_most(2.0),
            "Kafka's {kafkas_leaders} s"),
        *_written("unsynced", " (a store that does not fsync)"),
    ]),
    "kafka-one": (kafka.one, [
        _beside("ready: one partition of {segments:,}", "s", "ready", 10),
        _share("heap per segment, {segments:,}", "bytes", "heap", 0.4),
        _share("lookup among 1,000", "ns", "lookup_small", 1.2),
        _share("lookup among 100,000", "ns", "lookup_middle", 0.8),
        _share("lookup among {segments:,}", "ns", "lookup_large", 0.8),
        _share("list of an epoch, {list_of:,.0f} segments", "us", "list", 1.2),
        # From 4.3 on, once for each led partition and run of retention.
        _share("list of all segments, {all_of:,.0f}", "us", "all", 1.2),
        _beside("size of an epoch among {segments:,}", "us", "size", 10_000),
        _beside("a partition added beside {segments:,}: ready", "s", "added", 100),
    ]),
    "kafka-many": (kafka.many, [
        _beside("ready: {kafka_partitions:,} partitions of {each:,.0f} segments", "s",
                "ready", 5),
    ]),
    "guard-calls": (guard.calls, [
        *(Row(f"guard: a kept deletion takes longer, {name}", "ms", f"added_{name}",
              at_most(bound), f"{{kept_{name}}} ms; {{bare_{name}}} ms without the guard, "
              f"whose call takes {{guard_{name}}} ms")
          for name, bound in (("p50", 1.0), ("p99", 5.0))),
        *(Row(f"guard: a {what} of 1 MiB, with to without", "x",
              f"guarded_{what} / bare_{what}", at_most(1.01), f"{{guarded_{what}}} µs")
          for what in ("copy", "fetch")),
    ]),
    "guard-topics": (guard.topics, [
        Row("guard: a topic of {guard_segments:,} segments is deleted: not read back", "bytes",
            "unread", at_most(0), "{read:,.0f} bytes"),
        Row("guard: the same, its term over: until the tier is empty", "s", "purged"),
        Row("guard: the broker's warnings and errors", "lines", "complaints", at_most(0)),
        Row("undelete: records of 1,000 bytes", "MiB/CPU s", "brought_back", at_least(50),
            "{with_start} with the command's start, as long as a plan's"),
        Row("undelete: records lost", "records", "lost", at_most(0)),
    ]),
    "import": (imports.batches, [
        Row("import: {imported:,} records turned into batches, in one process",
            "records/s of CPU", "rate", at_least(100_000), "{each} µs of CPU each"),
    ]),
    "spark-scan": (spark.scan, [
        Row("scan, {store}, local[2]: {spark_events:,} events, " + what, "rows/s", sample,
            goal)
        for kind, goal_of_all in ((SQLITE, 500_000), (POSTGRESQL, 300_000))
        for what, sample, goal in (("28 columns", f"{kind}_all", at_least(goal_of_all)),
                                   ("4 columns", f"{kind}_few", None))
    ]),
    "tables-columns": (columns.columns, [
        Row("columns of {columns_events:,} events, written to files", "µs of CPU each", "write",
            at_most(2.0), "{bytes_each} bytes each"),
        Row("the same beside a service: p99 of a neighbour's add", "ms", "p99", at_most(20.0),
            "{alone_p99} ms before; {adds:.0f} adds in {written_s:.1f} s"),
        *(Row(f"scan in one process, {what}", "µs of CPU each", f"here_{name}_files", None,
              f"{{here_{name}_logs}} from the logs")
          for name, what in (("all", "28 columns"), ("few", "4 columns"))),
        *(Row(f"{table} of {{columns_events:,}} events in one process", "s of CPU",
              f"{table}_files", at_most(goal),
              f"{{{table}_logs}} without files; {{{table}_folded}} folded")
          for table, goal in (("segments", 3.0), ("sizes", 0.5))),
        *(Row(f"scan, column files, local[2]: {{columns_events:,}} events, {what}", "rows/s",
              f"spark_{name}_files", at_least(goal),
              f"{{spark_{name}_files_cpu}} µs of CPU each; {{spark_{name}_logs}} from the "
              f"logs, {{spark_{name}_logs_cpu}} µs")
          for name, what, goal in (("all", "28 columns", 500_000),
                                   ("few", "4 columns", 1_500_000))),
        *(Row(f"the same by the format, {what}", "rows/s", f"format_{name}_files", None,
              f"{{format_{name}_files_cpu}} µs of CPU each; {{format_{name}_logs}} from the "
              f"logs, {{format_{name}_logs_cpu}} µs")
          for name, what in (("all", "28 columns"), ("few", "4 columns"))),
        Row("tierledger sql on {columns_small:,} events, a new process", "s of CPU", "cold",
            at_most(0.8)),
    ]),
    "spark-tables": (spark.tables, [
        Row("segments of {spark_events:,} events, {spark_partitions:,} partitions, local[2], "
            "to Parquet", "events/s", "rate_2", at_least(200_000)),
        Row("segments of {spark_events:,} events, {spark_partitions:,} partitions: "
            "two cores to one", "x", "cores_1 / cores_2", at_least(1.4),
            "{cores_1:.1f} s; {cores_2:.1f} s"),
        Row("segments of one partition with {spark_large:,} events: memory of its worker",
            "GiB", "peak_gib", at_most(2.0), "{large_rate} events/s on its one core"),
        *(Row(f"segments of {{{size}:,.0f}} events, Spark to Python", "x",
              f"spark_{size} / python_{size}", None,
              f"{{spark_{size}}} s with Spark, its start included; "
              f"{{python_{size}}} s on one core of plain Python")
          for size in ("fewer", "more")),
    ]),
    "spark-import": (spark.imports, [
        Row("import of {records:,.0f} records into SQLite, local[2]", "records/s", "first",
            at_least(100_000)),
        Row("import of {records:,.0f} records into SQLite, local[2], all there already",
            "records/s", "again"),
    ]),
    "spark-retention": (spark.retention, [
        Row(f"what-if {name.replace('_', ' ')}, local[2]: seconds per million segments, of "
            "{segments_there:,.0f}", "s", name, at_most(60))
        for name in ("by_size", "by_time")
    ]),
    "tier-index-cache": (tier.index_cache, [
        Row("index cache: offset lookup, hit", "µs", "hit", at_most(20)),
        Row("index cache: restart with {tier_entries:,} entries", "s", "restart", at_most(2)),
    ]),
    "tier-read": (tier.read, [
        Row("tier: copied by the copy task, directory", "MiB/s", "copied", None,
            "{mib:,.0f} MiB of log, {records:,.0f} records"),
        Row("tier: sequential read, raw", "MiB/s", "raw", at_least(300)),
        Row("tier: the same decoded, values of 1 KiB", "MiB/s", "decoded", at_least(100)),
    ]),
    "tier-requests": (requests, [
        Row("tier: first read, requests, our layout", "requests", "ours", at_most(2)),
        Row("tier: the same, three-object layout", "requests", "three", at_most(3)),
        Row("tier: the same, its manifest cached", "requests", "three_again", at_most(2)),
        Row("tier: the same, index by index (LocalTieredStorage)", "requests", "single"),
        Row("tier: first read, all indexes at once to one by one", "x", "ours_ms / single_ms",
            at_most(0.6), "{ours_ms:.0f} ms to {single_ms:.0f} ms, 20 ms each"),
    ]),
    "tier-retention": (tier.retention, [
        *(Row("retention, SQLite: {tier_segments:,} segments, nothing due "
              + name.replace("_", " "), "ms", name, at_most(50))
          for name in ("by_size_and_time", "by_time")),
        Row("retention, SQLite: the same partition listed whole, once", "ms", "listed"),
    ]),
    "tier-scrub": (tier.scrub, [
        Row("tier: scrubbed, directory", "MiB/s", "scrubbed", None,
            "{mib:,.0f} MiB of log in batches of 16 KiB, our own layout"),
    ]),
}
"""They run in this order, whichever are asked for: the service keeps the partition for good."""
# fmt: on

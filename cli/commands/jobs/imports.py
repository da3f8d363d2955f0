"""`jobs import`: recorded `__remote_log_metadata` into logs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tierledger.cli.commands.jobs.job import Job, kept, session_of, shown, write_table
from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.given_file import is_standard_input, readable
from tierledger.cli.options import KafkaConfigOption
from tierledger.cli.output import print_json, print_note, print_pairs
from tierledger.events.errors import InvalidArgument

if TYPE_CHECKING:
    from tierledger.pipeline.imports.task import Outcome

NAMED_MAX = 20
"""How many refused records are named; `--out` names more, and all are counted."""


def import_metadata(
    job: Job,
    source: Annotated[
        str,
        typer.Argument(
            help="Source of the records: a file of JSON lines or a folder of such files, a "
            "folder of Kafka's log segments, - for JSON lines from standard input, or "
            "kafka:HOST:PORT[,…]."
        ),
    ],
    topic: Annotated[
        str, typer.Option(help="Name of the metadata topic.")
    ] = "__remote_log_metadata",
    recorded_cluster: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Name of the recorded cluster; by default the name of the source.",
        ),
    ] = None,
    kafka_config: KafkaConfigOption = None,
) -> None:
    """Import recorded metadata of Kafka's own manager into the logs of a store, with Spark.

    A SQLite file has one writer, so no service may run on it meanwhile. The import may be
    repeated, also after it was killed: it does not write again what the logs have already.
    Exit code 3: imported, except for partitions whose logs have gone on since, and records
    that cannot be decoded; they are named.
    """
    job.check()
    config = None if kafka_config is None else str(kafka_config)
    if is_standard_input(source):
        if recorded_cluster is None:
            raise InvalidArgument("-: expected --recorded-cluster with standard input")
        source = str(readable(Path(source), "jsonl"))
    _report(job, _imported(job, source, topic, recorded_cluster, config))


def _imported(
    job: Job, text: str, topic: str, recorded_cluster: str | None, kafka_config: str | None
) -> list[Outcome]:
    """Import; returns the outcome of each partition, and last those without a partition."""
    from tierledger.pipeline.imports.job import import_into, outcomes
    from tierledger.pipeline.imports.source import planned_source
    from tierledger.pipeline.imports.task import Outcome

    store = job.job_store()
    source = planned_source(text, topic, kafka_config)
    name = recorded_cluster or source.name
    with (
        import_into(store) as socket,
        session_of(job) as session,
        # Kept, since reading it twice would import twice.
        kept(outcomes(session, source, store, socket, name)) as frame,
    ):
        with shown(session, "import: tasks done", None):
            rows = frame.collect()
        if job.out is not None:
            write_table(session, job, frame, None)
    found = [Outcome(*row) for row in rows]
    return sorted(found, key=lambda one: (one.topic_id is None, one.topic_id, one.partition))


def _report(job: Job, found: list[Outcome]) -> None:
    partitions = [one for one in found if one.topic_id is not None]
    troubled = [one for one in partitions if one.trouble is not None]
    refused = sum(one.refused for one in found)
    facts: dict[str, object] = {
        "partitions": len(partitions),
        "records": sum(one.records for one in found),
        "imported": sum(one.imported for one in found),
        "there already": sum(one.repeated for one in found),
        "dropped as Kafka does": sum(one.dropped for one in found),
        "records refused": refused,
        "partitions refused": len(troubled),
        "offsets missing": sum(sum(one.missing.values()) for one in found),
    }
    if job.json:
        named = {one.name: one.trouble for one in troubled}
        named_records = [list(pair) for one in found for pair in one.refused_records.items()]
        result: dict[str, object] = {key.replace(" ", "_"): v for key, v in facts.items()}
        result |= {"out": str(job.out)} if job.out is not None else {}
        print_json({**result, "refused": named, "refused_records": named_records[:NAMED_MAX]})
    else:
        print_pairs(facts.items())
    _note(found, troubled)
    if troubled or refused:
        raise typer.Exit(ExitStatus.PARTLY)


def _note(found: list[Outcome], troubled: list[Outcome]) -> None:
    """Name on standard error what was refused."""
    for one in troubled:
        print_note(f"{one.name} is refused: {one.trouble}")
    records = [pair for one in found for pair in one.refused_records.items()]
    for place, why in records[:NAMED_MAX]:
        print_note(f"{place} cannot be decoded: {why}")
    for one in found:
        for place, count in one.missing.items():
            print_note(f"{place}: {count} offsets are missing between the first and the last")

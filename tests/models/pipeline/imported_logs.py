"""An import that runs as a job, and the logs that it left in the store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from gzip import open as open_gzipped
from pathlib import Path

from pyspark.sql import SparkSession

from tests.models.actors.local_world import CLUSTER
from tierledger.conformance.answering import outcome_from_state, partition_of
from tierledger.conformance.answers import AnsweredQuestion, grouped_by_after, read_answers
from tierledger.conformance.trace import answers_path, read_records
from tierledger.conformance.verdicts import CheckReport, check
from tierledger.events.event_codec import genesis
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.log_events import Event
from tierledger.events.partition.evolve import evolve
from tierledger.events.partition.state import PartitionState
from tierledger.pipeline.folding.store import JobStore
from tierledger.pipeline.imports.job import import_into, outcomes
from tierledger.pipeline.imports.source import planned_source
from tierledger.pipeline.imports.task import Outcome
from tierledger.storage.connector import URL_SETTING

RECORDED = "recorded"

Logs = dict[TopicIdPartition, list[Event]]


def import_now(spark: SparkSession, source: Path | str, url: str) -> list[Outcome]:
    """Import `source` into the store at `url`; the outcome of each partition, strays last."""
    return import_into_store(spark, source, {URL_SETTING: url})


def import_into_store(
    spark: SparkSession, source: Path | str, config: Mapping[str, object]
) -> list[Outcome]:
    """The same for the store of the settings `config`."""
    store = JobStore.of(config, CLUSTER)
    with import_into(store) as socket:
        frame = outcomes(spark, planned_source(str(source)), store, socket, RECORDED)
        found = [Outcome(*row) for row in frame.collect()]
    return sorted(found, key=lambda one: (one.topic_id is None, one.topic_id, one.partition))


def logs_in(url: str) -> Logs:
    """All events of each partition."""

    async def read() -> Logs:
        async with JobStore.of(url, CLUSTER).opened() as catalog:
            tips = [entry.topic_id_partition async for entry in catalog.partitions()]
            return {
                tip: [event async for event in catalog.reader(tip).events()] for tip in tips
            }

    return asyncio.run(read())


def stored_batches(url: str) -> dict[str, bytes]:
    """The stored bytes of each batch, by key."""

    async def read() -> dict[str, bytes]:
        async with JobStore.of(url, CLUSTER).opened() as catalog:
            return dict(await catalog.backend.get_like(f"{CLUSTER}/log/", limit=100_000))

    return asyncio.run(read())


def checked(logs: Logs, trace: Path, *, at_end: bool = False) -> CheckReport:
    """Compare answers from `logs` with the trace's, each as of the time of its question.

    `at_end`: only questions at the trace's end, for `logs` that have other offsets.
    """
    asked = list(read_answers(answers_path(trace)))
    if at_end:
        asked = [one for one in asked if one.question.after is None]
    folds: dict[TopicIdPartition, _Fold] = {}
    ours: list[AnsweredQuestion] = []
    for after, questions in grouped_by_after([one.question for one in asked]):
        for question in questions:
            tip = partition_of(question)
            if tip not in folds:
                folds[tip] = _Fold(tip, logs.get(tip, ()))
            state = folds[tip].until(after)
            ours.append(AnsweredQuestion(question, outcome_from_state(state, question)))
    return check(read_records(trace), asked, ours)


def assert_answers(url: str, traces: Iterable[Path], *, at_end: bool = False) -> None:
    """Assert that the store gives the answers that Kafka gave; see `checked`."""
    logs = logs_in(url)
    for trace in traces:
        report = checked(logs, trace, at_end=at_end)
        assert report.passed, (trace.name, report.summary(), report.findings)


class _Fold:
    """One partition's events, applied up to given offsets of the metadata topic."""

    def __init__(self, tip: TopicIdPartition, events: Sequence[Event]) -> None:
        first = genesis(CLUSTER, tip.topic_id, tip.partition)
        self._state = PartitionState(tip, first)
        self._events = events
        self._at = 0

    def until(self, after: Mapping[int, int] | None) -> PartitionState:
        while self._at < len(self._events):
            event = self._events[self._at]
            source = getattr(event.body, "source", None)
            if (
                after is not None
                and source is not None
                and source[1] > after.get(source[0], -1)
            ):
                break
            evolve(self._state, event)
            self._at += 1
        return self._state


def lines_of(traces: Iterable[Path]) -> Iterator[bytes]:
    """The records of `traces`, line by line."""
    for trace in traces:
        with open_gzipped(trace / "records.jsonl.gz") as lines:
            yield from lines

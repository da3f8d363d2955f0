"""One replay, from trace to verdicts: feed, ask, compare. The command prints the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tierledger.conformance import churn
from tierledger.conformance.answering import answer_from_actors, answer_from_storage
from tierledger.conformance.answers import (
    AnsweredQuestion,
    Outcome,
    Question,
    grouped_by_after,
    read_answers,
)
from tierledger.conformance.driver import Driver
from tierledger.conformance.loaded_trace import LoadedTrace, RefusedRecord
from tierledger.conformance.services import Service
from tierledger.conformance.trace import answers_path
from tierledger.conformance.verdicts import CheckReport, check
from tierledger.events.commands import ImportedRecord
from tierledger.events.errors import RemoteStorageError
from tierledger.storage.backend import MetadataStorageBackend


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """Options of a replay.

    Attributes:
        strict: Send ordinary commands instead of importing.
        churn: Number of leadership changes, stops and host kills to add.
        seed: The random seed from which they are drawn.
        sources: Where questions are answered: leader, follower, storage.
    """

    strict: bool = False
    churn: int = 0
    seed: int = 0
    sources: tuple[str, ...] = ()


@dataclass(slots=True)
class ReplayResult:
    """The result of a replay."""

    trace: LoadedTrace
    counts: Counter[str]
    refusals: list[tuple[ImportedRecord, RemoteStorageError]]
    answered: dict[str, list[AnsweredQuestion]] = field(default_factory=dict)

    @property
    def refused(self) -> list[RefusedRecord]:
        """Records that could not be read."""
        return self.trace.refused

    def check(self, kafka: Path) -> dict[str, CheckReport]:
        """The answers of each source compared with Kafka's."""
        return {
            source: check(self.trace.raw, read_answers(answers_path(kafka)), ours)
            for source, ours in self.answered.items()
        }


async def replay(
    service: Service,
    trace: LoadedTrace,
    questions: Sequence[Question],
    options: ReplayOptions,
    progress: Callable[[int], None],
) -> ReplayResult:
    """Feed `trace` through the service and ask `questions` at the points they name."""
    planned = churn.plan(
        options.churn,
        records=trace.record_count,
        partitions=len(trace.partitions),
        seed=options.seed,
    )
    driver = Driver(service, trace, strict=options.strict, churn=planned, progress=progress)
    result = ReplayResult(trace, driver.counts, driver.refusals)
    backend = await service.readable_backend() if "storage" in options.sources else None
    try:
        await driver.start()
        for after, asked in grouped_by_after(questions):
            await driver.feed(after)
            for source in options.sources:
                outcomes = await _answer(service, driver, backend, source, asked)
                result.answered.setdefault(source, []).extend(
                    AnsweredQuestion(question, outcome)
                    for question, outcome in zip(asked, outcomes, strict=True)
                )
        await driver.feed(None)
        await driver.close()
    finally:
        if backend is not None:
            await backend.close()
    return result


async def _answer(
    service: Service,
    driver: Driver,
    backend: MetadataStorageBackend | None,
    source: str,
    asked: Sequence[Question],
) -> list[Outcome]:
    if backend is not None and source == "storage":
        return await answer_from_storage(service.settings, backend, asked)
    return await answer_from_actors(driver.observer, source, asked)

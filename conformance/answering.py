"""Answers the questions of a trace from a leader, a follower, or the store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from tierledger.actors.calls import FOLLOWER, LEADER
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.messages import Query
from tierledger.actors.queries import LISTS, QUERIES, AnswerForm, answer_of
from tierledger.conformance.answers import (
    Failure,
    Outcome,
    QueryResult,
    Question,
    recorded_segment,
)
from tierledger.events.errors import PartitionDeleted, RemoteStorageError
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.partition.state import PartitionState
from tierledger.events.tables.segment_rows import id_of_row
from tierledger.storage.backend import MetadataStorageBackend
from tierledger.storage.partition.reader import PartitionReader

SOURCES = (LEADER, FOLLOWER, "storage")

ASKED_AT_ONCE = 1000
"""Most questions in progress at a time; calls that wait for one host share a message."""


async def answer_from_actors(
    manager: AsyncRemoteLogMetadataManager, role: str, questions: Sequence[Question]
) -> list[Outcome]:
    """The outcome of each question, asked of leaders or of followers."""
    outcomes: list[Outcome] = []
    for start in range(0, len(questions), ASKED_AT_ONCE):
        part = questions[start : start + ASKED_AT_ONCE]
        outcomes += await asyncio.gather(*(_ask(manager, role, question) for question in part))
    return outcomes


async def _ask(
    manager: AsyncRemoteLogMetadataManager, role: str, question: Question
) -> Outcome:
    tip = partition_of(question)
    query = _query(question)
    try:
        if question.query in LISTS:
            return QueryResult(_plain(question.query, await manager.rows(tip, query, role)))
        answered = await manager.ask(tip, role, query)
        return QueryResult(_plain(question.query, answered.value))
    except RemoteStorageError as error:
        return Failure(type(error).__name__)


async def answer_from_storage(
    settings: ServiceSettings, backend: MetadataStorageBackend, questions: Sequence[Question]
) -> list[Outcome]:
    """The outcome of each question, from checkpoint and log, without any actor."""
    states: dict[TopicIdPartition, PartitionState] = {}
    keys = settings.connector().key_factory(settings.cluster_id)
    outcomes: list[Outcome] = []
    for question in questions:
        tip = partition_of(question)
        if tip not in states:
            reader = PartitionReader(backend, keys, settings.serde(), settings.cluster_id, tip)
            states[tip] = (await reader.state()).state
        outcomes.append(outcome_from_state(states[tip], question))
    return outcomes


def outcome_from_state(state: PartitionState, question: Question) -> Outcome:
    """The answer of a partition in that state."""
    try:
        return QueryResult(_plain(question.query, _from_state(state, question)))
    except RemoteStorageError as error:
        return Failure(type(error).__name__)


def _from_state(state: PartitionState, question: Question) -> Any:  # noqa: ANN401
    if state.is_finished:
        raise PartitionDeleted(f"{state.topic_id_partition}: its deletion is finished")
    return answer_of(state, _query(question))


def _query(question: Question) -> Query:
    return Query(question.query, question.epoch or 0, question.offset or 0)


def partition_of(question: Question) -> TopicIdPartition:
    """The partition of a question."""
    return TopicIdPartition(question.topic_id, question.partition, question.topic)


def _plain(query: str, value: Any) -> Any:  # noqa: ANN401 - JSON of any kind.
    """An answer in the form of an answers file."""
    match QUERIES[query].form:
        case AnswerForm.ROW:
            return None if value is None else str(Uuid(id_of_row(value)))
        case AnswerForm.ROWS if QUERIES[query].is_ordered:
            return [str(Uuid(id_of_row(row))) for row in value]
        case AnswerForm.ROWS:
            segments = [recorded_segment(row) for row in value]
            return sorted(segments, key=lambda one: (one["start_offset"], one["id"]))
        case _:
            return value

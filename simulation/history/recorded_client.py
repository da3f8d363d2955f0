"""A client that records each call in a history, in a world and on a live service alike."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, NamedTuple

from tierledger.actors.calls import LEADER, Answered, PartitionKey
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.messages import Query
from tierledger.actors.ports import IdSource
from tierledger.events.errors import RemoteStorageError
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.kafka.codec import KafkaValue
from tierledger.simulation.history.calls import (
    INFO,
    READ,
    WRITE,
    Recorder,
    digest_of,
    outcome_of,
)


class _RecordedCall(NamedTuple):
    """The call that the current task makes: its number in the history, and its request id."""

    number: int
    request: bytes = b""


_CALL: ContextVar[_RecordedCall | None] = ContextVar("call", default=None)


def call_text() -> str | None:
    """Which of the history's calls the current task makes, for people; None: none of them."""
    call = _CALL.get()
    return None if call is None else f"call {call.number}"


class CountedIds:
    """Ids of requests and segments: unique within a run, and the same in each run of a seed."""

    def __init__(self, prefix: int) -> None:
        self._prefix = prefix.to_bytes(8, "big")
        self._count = 0

    def request_id(self) -> bytes:
        self._count += 1
        return self._prefix + self._count.to_bytes(4, "big")

    def segment_id(self) -> Uuid:
        return Uuid(self.request_id() + b"seg\x00")


class NamedIds:
    """Request ids that people can read: the name of who asks, and a number."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0

    def request_id(self) -> bytes:
        self._count += 1
        return f"{self._name}/{self._count}".encode()


class KnownIds:
    """A source of request ids that returns the id which a `RecordedClient` has recorded."""

    def __init__(self, ids: IdSource) -> None:
        self.ids = ids

    def request_id(self) -> bytes:
        call = _CALL.get()
        return call.request if call and call.request else self.ids.request_id()


class RecordedClient:
    """One process of a history, which makes one call at a time.

    A call in doubt may still take effect later, so after it the process has a new name.
    """

    def __init__(
        self,
        manager: AsyncRemoteLogMetadataManager,
        ids: KnownIds,
        recorder: Recorder,
        name: str,
    ) -> None:
        """`manager` draws its request ids from `ids`; many clients may share both."""
        self.manager = manager
        self._ids = ids
        self._recorder = recorder
        self._name = name
        self._lives = 0

    @property
    def process(self) -> str:
        return f"{self._name}/{self._lives}"

    async def write(
        self, tip: TopicIdPartition, work: Awaitable[int], what: str, wanted: KafkaValue | None
    ) -> RemoteStorageError | None:
        """Run the write in `work` and record it; returns the error it ended with, if any.

        `wanted`: None for an import, which has no request id.
        """
        claim = self.manager.claim_to_lead(tip)
        request = b"" if wanted is None else self._ids.ids.request_id()
        number = self._recorder.begin(
            process=self.process,
            kind=WRITE,
            key=PartitionKey.of(tip),
            role=LEADER,
            claim=claim,
            request=request,
            what=what,
            wanted=wanted,
        )
        token = _CALL.set(_RecordedCall(number, request))
        try:
            position = await work
        except (RemoteStorageError, asyncio.CancelledError) as error:
            return self._failed(number, error)
        finally:
            with suppress(ValueError):  # Another context, if the process ended.
                _CALL.reset(token)
        self._recorder.ok(number, position, b"")
        return None

    async def read(
        self, tip: TopicIdPartition, role: str, query: Query
    ) -> Answered | RemoteStorageError:
        """Ask, and return the answer, or the error that the call ended with."""
        number = self._recorder.begin(
            process=self.process,
            kind=READ,
            key=PartitionKey.of(tip),
            role=role,
            claim=None,
            request=b"",
            what=query.kind,
            query=query,
        )
        token = _CALL.set(_RecordedCall(number))
        try:
            answered = await self._whole(tip, role, await self.manager.ask(tip, role, query))
        except (RemoteStorageError, asyncio.CancelledError) as error:
            return self._failed(number, error)
        finally:
            with suppress(ValueError):  # Another context, if the process ended.
                _CALL.reset(token)
        value: Any = answered.value
        self._recorder.ok(
            number, answered.position, digest_of(value, query), stale=answered.stale
        )
        return answered

    async def _whole(self, tip: TopicIdPartition, role: str, first: Answered) -> Answered:
        """The answer with all its pages; those of a list share one position."""
        if first.cursor is None:
            return first
        rows: list[Any] = []
        page, router = first, self.manager._connected()
        while True:
            more: Any = page.value
            rows += more
            if page.cursor is None:
                return first._replace(value=rows, cursor=None)
            page = await router.next_page(PartitionKey.of(tip), role, page.cursor)

    def _failed(self, number: int, error: BaseException) -> RemoteStorageError:
        if isinstance(error, asyncio.CancelledError):
            self._recorder.failed(number, error)
            raise error
        assert isinstance(error, RemoteStorageError), "the only two that are caught"
        self._recorder.failed(number, error)
        if outcome_of(error) == INFO:
            self._lives += 1  # The call may still go on.
        return error

"""The router tries again, and never takes a later answer for the fate of an earlier attempt."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.models.actors.local_world import segment
from tierledger.actors.calls import LEADER, Call, CommandCall, PartitionKey
from tierledger.actors.client.router import Router
from tierledger.actors.client.service_link import ServiceLink
from tierledger.actors.coordinator.events import Route
from tierledger.actors.deadline import Attempt
from tierledger.events import commands as cmd
from tierledger.events.errors import (
    CorruptLog,
    CustomMetadataSizeLimitExceeded,
    Fenced,
    InvalidArgument,
    InvalidStateTransition,
    NotAuthorized,
    NotLeader,
    NotReady,
    OutcomeUnknown,
    PartitionDeleted,
    RemoteResourceNotFound,
    RemoteStorageError,
    StorageUnavailable,
)
from tierledger.events.log_events import Origin

KEY = PartitionKey(bytes(16), 0)
CLAIM = cmd.Claim(1, 1, 1)
SOON_S = 0.3
CALL = CommandCall(KEY, cmd.DropTombstones())


class ScriptedService:
    """A connection, its coordinator and its host at once; the host gives prepared answers."""

    def __init__(self, *results: object) -> None:
        self.results = list(results)
        self.coordinator = self

    async def ask(self, request: Any) -> Any:  # noqa: ANN401 - Its answer.
        return await request.put_to(self)

    async def route(self, keys: Sequence[PartitionKey]) -> list[Route]:
        return [Route(True, "host-0/1", None, CLAIM) for _ in keys]

    def host(self, name: str) -> "ScriptedService":
        assert name == "host-0/1"
        return self

    async def call(self, call: Call, attempt: Attempt) -> object:
        attempt.is_sent = True
        if not self.results:
            await asyncio.Event().wait()
        result = self.results.pop(0)
        if isinstance(result, OutcomeUnknown):
            raise result
        return result

    async def close(self) -> None: ...


@asynccontextmanager
async def router_to(*results: object, deadline_s: float) -> AsyncIterator[Router]:
    service: Any = ScriptedService(*results)

    async def connect() -> Any:  # noqa: ANN401 - A connection, as much of it as is asked.
        return service

    router = Router(ServiceLink(connect), deadline_s, b"me")
    try:
        yield router
    finally:
        await router.close()
        assert not service.results


async def changed(*results: object, deadline_s: float = 5.0) -> object:
    async with router_to(*results, deadline_s=deadline_s) as router:
        return await router.change(KEY, CALL)


async def asked(*results: object) -> object:
    """The result of a question whose attempts end so; a further attempt would hang."""
    async with router_to(*results, deadline_s=SOON_S) as router:
        return await router.ask(KEY, LEADER, lambda _: CALL)


async def test_a_write_in_doubt_is_named_in_the_error_as_hosts_name_it() -> None:
    origin = Origin(1, b"mine")
    write = CommandCall(KEY, cmd.AddSegment(CLAIM, origin, segment(0)))
    async with router_to(NotReady("later (request 00)"), deadline_s=SOON_S) as router:
        with pytest.raises(OutcomeUnknown, match=rf" \(request {b'mine'.hex()}\)$"):
            await router.change(KEY, write)


async def test_what_did_not_happen_is_tried_again() -> None:
    assert await changed(NotLeader("moved"), OutcomeUnknown("lost"), 7) == 7


@pytest.mark.parametrize("error", [Fenced("replaced"), CorruptLog("unreadable")])
async def test_a_final_answer_ends_it(error: RemoteStorageError) -> None:
    with pytest.raises(type(error)):
        await changed(NotLeader("moved"), error)


@pytest.mark.parametrize(
    "error",
    [
        Fenced("replaced"),
        CorruptLog("unreadable"),
        NotAuthorized("the token has expired"),
        InvalidArgument("the door is another cluster's by now"),
    ],
)
async def test_a_final_answer_to_this_attempt_leaves_an_earlier_one_open(
    error: RemoteStorageError,
) -> None:
    with pytest.raises(OutcomeUnknown, match="lost"):
        await changed(OutcomeUnknown("lost"), error)


@pytest.mark.parametrize("error", [InvalidStateTransition("no"), RemoteResourceNotFound("no")])
async def test_a_refusal_that_may_not_last_leaves_an_earlier_attempt_open(
    error: RemoteStorageError,
) -> None:
    """The attempt may still be on its way, and be carried out later."""
    with pytest.raises(OutcomeUnknown, match="lost"):
        await changed(OutcomeUnknown("lost"), error)
    with pytest.raises(type(error)):
        await changed(NotLeader("moved"), error)


@pytest.mark.parametrize(
    "error", [CustomMetadataSizeLimitExceeded("129"), PartitionDeleted("gone")]
)
async def test_a_refusal_that_lasts_is_said_of_every_attempt(error: RemoteStorageError) -> None:
    with pytest.raises(type(error)):
        await changed(OutcomeUnknown("lost"), error)


async def test_a_question_ends_with_the_last_refusal_and_leaves_nothing_in_doubt() -> None:
    with pytest.raises(StorageUnavailable, match="away"):
        await asked(NotLeader("moved"), StorageUnavailable("away"))
    with pytest.raises(StorageUnavailable, match="away"):
        await asked(StorageUnavailable("away"), OutcomeUnknown("lost"))
    with pytest.raises(NotReady, match="no answer"):
        await asked()
    with pytest.raises(OutcomeUnknown, match="no answer"):
        await changed(StorageUnavailable("away"), deadline_s=SOON_S)


@pytest.mark.parametrize("error", [CorruptLog("unreadable"), NotAuthorized("expired")])
async def test_a_final_refusal_of_a_question_is_not_hidden_by_a_lost_answer(
    error: RemoteStorageError,
) -> None:
    with pytest.raises(type(error)):
        await asked(OutcomeUnknown("lost"), error)

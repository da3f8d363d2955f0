"""Whatever breaks below a client, its callers hear documented errors, in time; it recovers."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.models.actors.local_world import (
    CLUSTER,
    POLL_S,
    CountedIds,
    LocalWorld,
    eventually,
    partition,
    segment,
)
from tierledger.actors.calls import Call, PartitionKey
from tierledger.actors.client import service_link
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.client.window import WRITES_MAX
from tierledger.actors.deadline import Attempt
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.ports import HostGone
from tierledger.events import errors
from tierledger.events.errors import NotReady, OutcomeUnknown, RetryableError

pytestmark = pytest.mark.parametrize("shared", ["inside"], indirect=True)
"""Clients have connections of their own here."""

TIP = partition()
DEADLINE_S = 0.3
SLACK_S = 2.5
"""Seconds that a busy machine may add to a deadline."""

WINDOW_DEADLINE_S = 3.0
"""More than the slack, so that waiting for it twice would show."""

FOREIGN: list[BaseException] = [
    AssertionError("Expected str or bytes, got NoneType"),
    KeyError("actor"),
    RuntimeError("the client was disconnected"),
    TimeoutError("of somebody else"),
    OSError(111, "Connection refused"),
    asyncio.CancelledError("from within"),
    HostGone("host-0/1: it has ended"),
]


class Breakable:
    """A connection to the service in this process, and its hosts and coordinator, that breaks.

    `broken` is raised by every call of this connection, and of no later one; or, with
    `is_silent`, its calls reach the service, and no answer ever comes.
    """

    def __init__(self, world: LocalWorld) -> None:
        self._world = world
        self.broken: BaseException | None = None
        self.breaks_after = False
        self.is_silent = False
        self.asked = 0

    async def _call(self, work: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401
        if self.broken is not None and not self.breaks_after:
            raise self.broken
        result = await work()
        if self.broken is not None:
            raise self.broken
        if self.is_silent:
            await asyncio.Event().wait()
        return result

    @property
    def coordinator(self) -> "Breakable":
        return self

    def host(self, name: str) -> "BreakableHost":
        return BreakableHost(self, name)

    async def ask(self, request: Any) -> Any:  # noqa: ANN401
        return await self._call(lambda: self._world.service.coordinator.ask(request))

    async def call(self, name: str, call: Call, attempt: Attempt) -> Any:  # noqa: ANN401
        self.asked += 1
        host = self._world.service.host(name)
        attempt.is_sent = True
        return await self._call(lambda: host.call(call, attempt))

    async def close(self) -> None:
        if self.broken is not None:
            raise self.broken


class BreakableHost:
    def __init__(self, connection: Breakable, name: str) -> None:
        self._connection = connection
        self._name = name

    async def call(self, call: Call, attempt: Attempt) -> Any:  # noqa: ANN401
        return await self._connection.call(self._name, call, attempt)


class Client:
    """A manager, and the connections that it has made."""

    def __init__(self, world: LocalWorld, deadline_s: float) -> None:
        self.connections: list[Breakable] = []
        self.unfindable: BaseException | None = None
        self._world = world
        self.manager = AsyncRemoteLogMetadataManager(
            self._connect, CountedIds(), deadline_s=deadline_s
        )

    async def _connect(self, _: ServiceSettings) -> Any:  # noqa: ANN401
        if self.unfindable is not None:
            raise self.unfindable
        self.connections.append(Breakable(self._world))
        return self.connections[-1]

    async def start(self) -> None:
        config = {**self._world.storage, "cluster.id": CLUSTER, "broker.id": 1}
        await self.manager.configure(config)
        await self.manager.on_partition_leadership_changes([TIP], [])
        await eventually(lambda: self.manager.is_ready(TIP))

    @property
    def connection(self) -> Breakable:
        return self.connections[-1]


async def started(world: LocalWorld, deadline_s: float = 5.0) -> Client:
    """A client that leads, and knows where."""
    client = Client(world, deadline_s)
    await client.start()
    await client.manager.add_remote_log_segment_metadata(segment(999))
    return client


def calls_of(manager: AsyncRemoteLogMetadataManager) -> dict[str, Callable[[], Awaitable[Any]]]:
    """Every operation that asks the service something."""

    async def listed() -> list[Any]:
        return [one async for one in manager.list_remote_log_segments(TIP)]

    return {
        "lead": lambda: manager.on_partition_leadership_changes([TIP], []),
        "stop": lambda: manager.on_stop_partitions([partition(7)]),
        "import": lambda: manager.announce_import({partition(8): 5}, [], "cluster"),
        "is_ready": lambda: manager.is_ready(TIP),
        "when_ready": lambda: manager.when_ready([TIP]),
        "add": lambda: manager.add_remote_log_segment_metadata(segment(1)),
        "lookup": lambda: manager.remote_log_segment_metadata(TIP, 0, 5),
        "highest": lambda: manager.highest_offset_for_epoch(TIP, 0),
        "size": lambda: manager.remote_log_size(TIP, 0),
        "next_txn": lambda: manager.next_segment_with_txn_index(TIP, 0, 5),
        "summary": lambda: manager.partition_summary(TIP),
        "list": listed,
    }


CHANGES = {"lead", "stop", "import", "add"}


def is_documented(error: BaseException) -> bool:
    return type(error) is getattr(errors, type(error).__name__, None)


@pytest.mark.parametrize("error", FOREIGN, ids=lambda one: type(one).__name__)
async def test_whatever_is_raised_below_a_client_finds_its_way_back_by_itself(
    shared: LocalWorld, error: BaseException
) -> None:
    client = await started(shared)
    for name, call in calls_of(client.manager).items():
        before = client.connection
        before.broken, before.breaks_after = error, name == "add"
        if isinstance(error, HostGone):
            asyncio.get_running_loop().call_later(0.05, setattr, before, "broken", None)

        while await call() is False:  # Not even one call fails: it is repeated.
            assert name == "is_ready"
            await asyncio.sleep(POLL_S)
    if not isinstance(error, HostGone):  # A host is gone: not the service.
        assert len(client.connections) > len(CHANGES)
    await client.manager.close()


@pytest.mark.parametrize("error", FOREIGN, ids=lambda one: type(one).__name__)
async def test_while_nothing_can_be_found_every_call_fails_with_our_error_and_in_time(
    shared: LocalWorld, error: BaseException
) -> None:
    client = await started(shared, DEADLINE_S)
    client.unfindable = client.connection.broken = error

    async def heard(call: Callable[[], Awaitable[Any]]) -> tuple[object, float]:
        begun = time.perf_counter()
        try:
            return await call(), time.perf_counter() - begun
        except errors.RemoteStorageError as raised:
            return raised, time.perf_counter() - begun

    named = calls_of(client.manager)
    outcomes = await asyncio.gather(*map(heard, named.values()))
    again = await heard(named["add"])
    client.unfindable = client.connection.broken = None

    for name, (what, took) in zip(named, outcomes, strict=True):
        assert took < DEADLINE_S + SLACK_S, name
        if name == "is_ready":
            assert what is False
        else:
            assert isinstance(what, BaseException)
            assert is_documented(what), f"{name}: {what!r}"
            assert isinstance(what, RetryableError | OutcomeUnknown), name
    assert is_documented(again[0])  # type: ignore[arg-type]
    await eventually(lambda: client.manager.is_ready(TIP))
    await client.manager.close()


async def test_a_write_that_was_stored_and_broke_then_is_unknown_or_done_and_never_twice(
    shared: LocalWorld,
) -> None:
    client = await started(shared, DEADLINE_S)
    client.unfindable = AssertionError("Expected str or bytes, got NoneType")
    client.connection.broken, client.connection.breaks_after = client.unfindable, True

    with pytest.raises(OutcomeUnknown, match="AssertionError"):
        await client.manager.add_remote_log_segment_metadata(segment(0))
    client.unfindable = None
    await client.manager.add_remote_log_segment_metadata(segment(0))

    kinds = [type(one.body).__name__ for one in await shared.events(TIP)]
    assert kinds.count("SegmentAdded") == 2
    await client.manager.close()


async def test_a_silent_connection_is_replaced(
    shared: LocalWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_link, "SILENCE_S", 0.2)
    client = await started(shared, DEADLINE_S)
    client.connection.is_silent = True
    with pytest.raises(OutcomeUnknown, match="no answer within"):
        await client.manager.add_remote_log_segment_metadata(segment(0))

    await client.manager.add_remote_log_segment_metadata(segment(0))
    assert len(client.connections) > 1
    await client.manager.close()


# One deadline.


async def test_the_time_in_the_window_is_within_the_deadline_and_nothing_was_sent(
    shared: LocalWorld,
) -> None:
    client = await started(shared, WINDOW_DEADLINE_S)
    client.connection.is_silent = True
    begun = time.perf_counter()

    async def write(number: int) -> BaseException:
        with pytest.raises(errors.RemoteStorageError) as caught:
            await client.manager.add_remote_log_segment_metadata(segment(number))
        return caught.value

    oldest = [asyncio.ensure_future(write(number)) for number in range(WRITES_MAX)]
    await asyncio.sleep(0)
    behind = await asyncio.gather(*(write(WRITES_MAX + number) for number in range(5)))
    took = time.perf_counter() - begun
    unknown = await asyncio.gather(*oldest)

    assert took < WINDOW_DEADLINE_S + SLACK_S
    assert {type(one) for one in behind} <= {errors.Overloaded, NotReady}
    assert all("not sent" in str(one) for one in behind)
    assert OutcomeUnknown in {type(one) for one in unknown}
    await client.manager.close()


async def test_no_operation_outlasts_the_deadline_whatever_it_waits_for(
    shared: LocalWorld,
) -> None:
    client = await started(shared, DEADLINE_S)
    client.connection.is_silent = True
    begun = time.perf_counter()
    calls = calls_of(client.manager)
    outcomes = await asyncio.gather(
        *(call() for call in calls.values()), return_exceptions=True
    )

    assert time.perf_counter() - begun < DEADLINE_S + SLACK_S
    by_name = dict(zip(calls, outcomes, strict=True))
    assert by_name.pop("is_ready") is False
    assert all(isinstance(one, RetryableError | OutcomeUnknown) for one in by_name.values())
    # Of three announcements one was sent, and the others waited for it. A second one may just
    # have been sent when all gave up.
    announced = {type(by_name[one]) for one in ("lead", "stop", "import")}
    assert announced == {OutcomeUnknown, errors.Overloaded}
    await client.manager.close()


async def test_a_service_that_takes_for_ever_to_be_found_is_not_waited_for(
    shared: LocalWorld,
) -> None:
    async def never(_: ServiceSettings) -> Any:  # noqa: ANN401
        await asyncio.Event().wait()

    manager = AsyncRemoteLogMetadataManager(never, CountedIds(), deadline_s=DEADLINE_S)
    begun = time.perf_counter()
    with pytest.raises(NotReady, match="no service was found within"):
        await manager.configure({**shared.storage, "cluster.id": CLUSTER, "broker.id": 1})
    assert time.perf_counter() - begun < DEADLINE_S + SLACK_S


async def test_a_page_that_does_not_come_ends_the_list_in_time(shared: LocalWorld) -> None:
    client = await started(shared, DEADLINE_S)
    router = client.manager._connected()
    client.connection.is_silent = True
    begun = time.perf_counter()
    with pytest.raises(NotReady):
        await router.next_page(PartitionKey.of(TIP), "leader", "cursor")
    assert time.perf_counter() - begun < DEADLINE_S + SLACK_S
    await client.manager.close()

"""Of several processes that would follow Kafka's metadata topic the chosen one does."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from typing_extensions import override

from tests.models.actors.local_world import CLUSTER
from tierledger.actors.coordinator.attendance import Attendance, Followed
from tierledger.actors.coordinator.ownership import Ownership
from tierledger.actors.host_settings import ServiceSettings
from tierledger.moving import following
from tierledger.moving.following import Following, FollowOptions
from tierledger.moving.topic import KafkaCluster
from tierledger.storage.kafka_brokers import KafkaBrokers

KAFKAS = Ownership(1, "kafka")


class Choosing:
    """A coordinator of a cluster that Kafka's own manager owns."""

    ownership = KAFKAS

    def __init__(self) -> None:
        self.attendance = Attendance()

    async def ask(self, request: Any) -> Any:  # noqa: ANN401 - Its answer.
        return await request.put_to(self)

    async def follow_kafka(self, report: dict[str, Any]) -> Followed:
        return Followed(self.ownership, self.attendance.followed(report, 0))

    def report(self) -> dict[str, Any]:
        return self.attendance.report(KAFKAS, {}, 0)["kafka"] or {"round": 0}


class Follower(Following):
    """One whose rounds take no topic."""

    importing = 0

    @override
    async def _kafka_cluster(self) -> KafkaCluster:
        return KafkaCluster(CLUSTER, frozenset())

    @override
    async def _import(self) -> None:
        Follower.importing += 1
        try:
            while True:
                self._round += 1
                await asyncio.sleep(0)
        finally:
            Follower.importing -= 1


@pytest.mark.parametrize("is_frozen", [False, True])
async def test_one_follows_and_another_in_its_place_with_rounds_of_its_own(
    monkeypatch: pytest.MonkeyPatch, is_frozen: bool
) -> None:
    monkeypatch.setattr(following, "REPORT_S", 0.001)
    choosing = Choosing()
    settings = ServiceSettings(CLUSTER, {"metadata.storage.url": "memory:"})
    options = FollowOptions(KafkaBrokers("nobody:9092"))
    one, two = (Follower(settings, choosing, options) for _ in range(2))
    tasks = [asyncio.create_task(each.run()) for each in (one, two)]
    await until(lambda: choosing.report()["round"] > 100)
    first = choosing.report()
    assert Follower.importing == 1

    with monkeypatch.context() as patch:
        if is_frozen:
            patch.setattr(one, "_coordinator", Silent())
        else:
            tasks[0].cancel()
        await until(lambda: choosing.report().get("follower") not in {None, first["follower"]})
        assert choosing.report()["round"] < first["round"]
        await until(lambda: choosing.report()["round"] > 0)
    # One that was frozen, and has thawed, hears of it.
    await until(lambda: Follower.importing == 1)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert choosing.report() == {"round": 0}, "the last has left, too"


async def test_a_follower_that_a_client_cancels_begins_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Cancelled(Follower):
        begun = 0

        @override
        async def _import(self) -> None:
            Cancelled.begun += 1
            if Cancelled.begun == 1:
                raise asyncio.CancelledError
            await super()._import()

    monkeypatch.setattr(following, "REPORT_S", 0.001)
    choosing = Choosing()
    settings = ServiceSettings(CLUSTER, {"metadata.storage.url": "memory:"})
    one = Cancelled(settings, choosing, FollowOptions(KafkaBrokers("nobody:9092")))

    task = asyncio.create_task(one.run())

    await until(lambda: choosing.report()["round"] > 100)
    assert Cancelled.begun == 2
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_coordinator_that_cannot_be_started_yet_ends_no_follower(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Starting(Choosing):
        asked = 0

        @override
        async def follow_kafka(self, report: dict[str, Any]) -> Followed:
            self.asked += 1
            if self.asked in {2, 3}:
                raise ConnectionError("Ray's own error")
            return await super().follow_kafka(report)

    monkeypatch.setattr(following, "REPORT_S", 0.001)
    choosing = Starting()
    settings = ServiceSettings(CLUSTER, {"metadata.storage.url": "memory:"})
    one = Follower(settings, choosing, FollowOptions(KafkaBrokers("nobody:9092")))

    task = asyncio.create_task(one.run())

    await until(lambda: task.done() or choosing.asked > 10)
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_the_seal_is_looked_at_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    async def sealed(_: KafkaBrokers) -> None:
        nonlocal looks
        looks += 1

    class Owned(Choosing):
        ownership = Ownership(1, "tierledger")

    for name, value in {
        "REPORT_S": 0.001,
        "SEAL_S": 0,
        "create": sealed,
        "seal": sealed,
    }.items():
        monkeypatch.setattr(following, name, value)
    settings = ServiceSettings(CLUSTER, {"metadata.storage.url": "memory:"})
    one = Follower(settings, Owned(), FollowOptions(KafkaBrokers("nobody:9092")))

    task = asyncio.create_task(one.run())

    await until(lambda: looks > 10)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


class Silent:
    """The coordinator as one that is frozen hears it."""

    async def ask(self, request: Any) -> Any:  # noqa: ANN401 - Its answer.
        return await request.put_to(self)

    async def follow_kafka(self, _: dict[str, Any]) -> Followed:
        await asyncio.sleep(0.01)
        return Followed(KAFKAS, is_chosen=True)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110 - Tasks beside it do it.
            await asyncio.sleep(0)

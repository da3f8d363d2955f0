"""A host that runs no partitions, and running coordinators that place partitions on it."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from typing_extensions import override

from tests.models.actors.harness import SERDE
from tests.models.actors.local_world import CLUSTER, KEYS, TickingClock
from tierledger.actors.calls import (
    CloseCall,
    CommonTime,
    DeletionsHeard,
    HostPing,
    PartitionKey,
    Placement,
)
from tierledger.actors.coordinator.breaker import Breaker
from tierledger.actors.coordinator.events import Announcement, Registered
from tierledger.actors.coordinator.service import CoordinatorService
from tierledger.actors.holds import Deletions
from tierledger.actors.ports import HostGone
from tierledger.events.commands import Claim
from tierledger.events.errors import OutcomeUnknown
from tierledger.storage.backends.memory import MemoryBackend
from tierledger.storage.clock import Clock


class DeafHost:
    """A host that runs no partitions, and fails as many calls as a test sets."""

    def __init__(self, backend: MemoryBackend, process: str) -> None:
        self.backend = backend
        self.process = process
        self.deaf = 0
        self.is_gone = False
        self.pinged = 0
        self.appends = 0
        self.clock_ms: int | None = None
        self.told: CommonTime | None = None
        """The common time, as told by the newest ping."""
        self.placed: list[Placement] = []
        self.closed: list[CloseCall] = []
        self.lost: list[tuple[PartitionKey, int]] = []
        self.services: list[CoordinatorService] = []
        """Coordinators that were started with this host; `close` closes them."""

    def _hear(self) -> None:
        if self.deaf:
            self.deaf -= 1
            raise OutcomeUnknown("not heard")

    async def ask(self, request: Any) -> Any:  # noqa: ANN401 - Its answer.
        return await request.put_to(self)

    async def place(self, placements: Sequence[Placement]) -> None:
        self._hear()
        self.placed += placements

    async def close_sessions(self, closes: Sequence[CloseCall]) -> None:
        self._hear()
        self.closed += closes

    async def store(
        self, method: str, arguments: Sequence[Any], named: Mapping[str, Any]
    ) -> object:
        self.appends += method == "create_each"
        return await getattr(self.backend, method)(*arguments, **named)

    async def close(self) -> None:
        for one in self.services:
            await one.close()

    async def heed(self, deletions: Deletions) -> list[PartitionKey]:
        self._hear()
        return []

    async def ping(
        self,
        deletions: Deletions,
        time: CommonTime | None,
        placed: int | None = None,
        heard: DeletionsHeard = DeletionsHeard(),  # noqa: B008 - It is a constant.
    ) -> HostPing:
        self.pinged += 1
        self.told = time
        if self.is_gone:
            raise HostGone("ping: it is dead")
        return HostPing(self.process, lost=tuple(self.lost), clock_ms=self.clock_ms)


class LostPing(DeafHost):
    """A host that was started, and whose answers to pings are lost."""

    def __init__(self, backend: MemoryBackend) -> None:
        super().__init__(backend, "host-1/1")

    @override
    async def ping(
        self,
        deletions: Deletions,
        time: CommonTime | None,
        placed: int | None = None,
        heard: DeletionsHeard = DeletionsHeard(),  # noqa: B008 - It is a constant.
    ) -> HostPing:
        raise OutcomeUnknown("the answer was lost")


class Launched:
    """A launcher of the only host."""

    def __init__(self, host: DeafHost) -> None:
        self.host = host
        self.asked: list[str] = []
        self.is_deaf = False
        """Whether the answers of a launched host are lost."""

    def prepare(self, address: str, *, is_replacement: bool = False) -> None:
        self.asked.append(f"prepare {address}")

    async def launch(self, address: str) -> DeafHost:
        self.asked.append(f"launch {address}")
        self.host.is_gone, self.host.process = False, address
        return LostPing(self.host.backend) if self.is_deaf else self.host

    async def find(self, address: str) -> DeafHost:
        return self.host

    async def end(self, address: str, process: str | None) -> None:
        self.asked.append(f"end {address}")


async def started(
    host: DeafHost,
    clock: Clock | None = None,
    launcher: Launched | None = None,
    breaker: Breaker | None = None,
) -> CoordinatorService:
    service = CoordinatorService(
        cluster_id=CLUSTER,
        keys=KEYS,
        serde=SERDE,
        launcher=launcher or Launched(host),
        clock=clock or TickingClock(),
        reader=host.backend,
        breaker=breaker,
    )
    await service.start()
    host.services.append(service)
    return service


_requests = count()


async def registered(service: CoordinatorService, broker: int) -> int:
    """Register `broker` as a client does; returns the new incarnation."""
    request, given = next(_requests).to_bytes(8, "big"), Registered(0, is_given=False)
    while not given.is_given:
        given = await service.register(broker, request, given.incarnation)
    return given.incarnation


def leads(broker: int, number: int, partition: int = 0) -> Announcement:
    return Announcement(
        broker, 1, number, ((bytes(16), partition, "orders", None, None),), (), ()
    )


def claims(host: DeafHost) -> list[Claim]:
    return [placed.assignment.claim for placed in host.placed if placed.assignment]

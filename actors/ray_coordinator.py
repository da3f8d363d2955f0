"""The coordinator as a named, detached Ray actor."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tierledger.actors.coordinator_service import CoordinatorService
from tierledger.actors.ray_cluster import NAMESPACE, ray
from tierledger.actors.ray_handles import RayLauncher
from tierledger.actors.wall_clock import WallClock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tierledger.actors.calls import PartitionKey
    from tierledger.actors.coordinator_events import Announcement, Route
    from tierledger.actors.host_settings import ServiceSettings

COORDINATOR = "coordinator"


class CoordinatorShell:
    """Whoever misses the coordinator makes it; it reads its log and takes up the work."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._settings = settings
        self._service: CoordinatorService | None = None
        self._starting = asyncio.Lock()

    async def start(self) -> None:
        """Start hosts and read the log; a repeat does nothing."""
        async with self._starting:
            if self._service is not None:
                return
            settings = self._settings
            service = CoordinatorService(
                cluster_id=settings.cluster_id,
                keys=settings.connector().key_factory(settings.cluster_id),
                serde=settings.serde(),
                launcher=RayLauncher(settings),
                clock=WallClock(),
            )
            await service.start()
            self._service = service

    def _started(self) -> CoordinatorService:
        assert self._service is not None, "handles start a coordinator before they use it"
        return self._service

    async def register(self, broker_id: int) -> int:
        return await self._started().register(broker_id)

    async def announce(self, announcement: Announcement) -> None:
        await self._started().announce(announcement)

    async def route(self, keys: Sequence[PartitionKey]) -> list[Route]:
        return await self._started().route(keys)

    async def status(self) -> dict[str, Any]:
        return await self._started().status()

    async def close(self) -> None:
        """Stop watching hosts, so that they can be closed."""
        await self._started().close()


# See `ray_host` for the options; a coordinator that dies is made anew by whoever misses it.
_CoordinatorActor: Any = ray.remote(  # type: ignore[call-overload]  # They lack an option.
    max_restarts=0, max_task_retries=0, max_concurrency=10_000, num_cpus=0
)(CoordinatorShell)


def create_coordinator(settings: ServiceSettings) -> Any:
    """The handle of the coordinator, made if there is none."""
    return _CoordinatorActor.options(
        name=COORDINATOR, namespace=NAMESPACE, lifetime="detached", get_if_exists=True
    ).remote(settings)

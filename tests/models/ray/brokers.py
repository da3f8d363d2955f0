"""Brokers that find their service on Ray through its store."""

from pathlib import Path

from tests.models.actors.local_world import CLUSTER
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.host_settings import ServiceSettings


def settings_for(path: Path) -> ServiceSettings:
    return ServiceSettings(CLUSTER, {"metadata.storage.url": f"sqlite:{path}"})


class Brokers:
    """Creates brokers' managers, and keeps them for the test to close at its end."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = settings
        self.managers: list[AsyncRemoteLogMetadataManager] = []

    def config(self, broker_id: int) -> dict[str, object]:
        identity = {"cluster.id": self.settings.cluster_id, "broker.id": broker_id}
        return {**self.settings.storage, **identity}

    async def manager(self, broker_id: int) -> AsyncRemoteLogMetadataManager:
        manager = AsyncRemoteLogMetadataManager()
        await manager.configure(self.config(broker_id))
        self.managers.append(manager)
        return manager

"""A stock broker that tiers into a folder, and keeps its remote log metadata in tierledger."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from tests.models.kafka_broker import CLUSTER_ID, KafkaBroker
from tierledger.simulation.live.postgres_server import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

PLUGIN = Path(__file__).parents[2] / "kafka-plugin" / "target" / "tierledger-kafka-plugin.jar"

SERVE_TIMEOUT_S = 120.0

TIERED = {
    "remote.storage.enable": "true",
    "internal.segment.bytes": "2048",
    "local.retention.bytes": "1",
    "retention.ms": "-1",
    "file.delete.delay.ms": "200",
}
"""A topic's settings: small segments, which leave the broker's disk as soon as they can."""


class TieredBroker(ExitStack):
    """A service on a SQLite file, and a broker on it; a context manager that starts both."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.ledger = folder / "ledger.sqlite"
        self.tier = folder / "tier"
        self.door = f"127.0.0.1:{free_port()}"
        self.broker = KafkaBroker(self._settings())

    def start(self) -> None:
        """Start the service, then the broker."""
        if not PLUGIN.exists():
            raise RuntimeError(f"{PLUGIN} is not there: `make plugin` builds it")
        words = [
            "serve",
            "--store",
            f"sqlite:{self.ledger}",
            "--cluster",
            CLUSTER_ID,
            "--listen",
            self.door,
        ]
        serve = subprocess.Popen(
            [sys.executable, "-m", "tierledger.cli.main", *words],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.enter_context(serve)
        self.callback(serve.terminate)
        assert serve.stdout is not None
        said = serve.stdout.readline()
        assert said.startswith("serving cluster "), said
        self.enter_context(self.broker)

    def _settings(self) -> dict[str, object]:
        manager = "org.tierledger.kafka.TierledgerRemoteLogMetadataManager"
        storage = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
        return {
            "remote.log.storage.system.enable": "true",
            "remote.log.storage.manager.class.name": storage,
            "rsm.config.dir": self.tier,
            "remote.log.metadata.manager.class.name": manager,
            "remote.log.metadata.manager.class.path": PLUGIN,
            "remote.log.metadata.manager.listener.name": "PLAINTEXT",
            "rlmm.config.tierledger.bootstrap": self.door,
            "remote.log.manager.task.interval.ms": 300,
            "log.retention.check.interval.ms": 300,
            "log.initial.task.delay.ms": 300,
            "log.segment.delete.delay.ms": 200,
            "group.initial.rebalance.delay.ms": 0,
        }

    def tiered_logs(self) -> Iterator[Path]:
        """The segments' logs in the tier."""
        return self.tier.rglob("*.log")

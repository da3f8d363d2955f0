"""A stock broker that tiers into a folder, and keeps its remote log metadata in tierledger."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from pathlib import Path

from tierledger.benchmarks.kafka_broker import JARS, PLUGIN_JAR, KafkaBroker

TIERED = {
    "remote.storage.enable": "true",
    "internal.segment.bytes": "2048",
    "local.retention.bytes": "1",
    "file.delete.delay.ms": "200",
}
"""Settings of a tiered topic: small segments, which the broker deletes locally once tiered."""

LISTENER = "remote.log.metadata.manager.listener.name"
"""Kafka's own manager needs it, in shadow and handover, too; the plugin by itself does not."""

_TOPIC_BASED = {
    "remote.log.metadata.manager.class.name": "org.apache.kafka.server.log.remote.metadata."
    "storage.TopicBasedRemoteLogMetadataManager",
    "remote.log.metadata.manager.class.path": None,
    "rlmm.config.tierledger.bootstrap": None,
    "rlmm.config.tierledger.mode": None,
    LISTENER: "PLAINTEXT",
}

STOCK = {
    **_TOPIC_BASED,
    "rlmm.config.remote.log.metadata.topic.replication.factor": 1,
    "rlmm.config.remote.log.metadata.topic.num.partitions": 3,
}
"""Settings of a broker that uses Kafka's own manager of remote log metadata."""


_STORAGE = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"

GUARDED = {
    "remote.log.storage.manager.class.name": "org.tierledger.kafka.GuardedRemoteStorageManager",
    "remote.log.storage.manager.class.path": PLUGIN_JAR,
    "rsm.config.tierledger.guard.class.name": _STORAGE,
}
"""Settings of a broker that asks the ledger before it deletes data."""


class TieredBroker(KafkaBroker):
    """A broker with Kafka's own tier in a folder, and the plugin."""

    def __init__(
        self,
        service: str,
        tier: Path,
        settings: Mapping[str, object] | None = None,
        jars: Path = JARS,
    ) -> None:
        """`service`: the service's URL, as `serve` prints it.

        `settings`: further settings of the broker. `jars`: the broker's release of Kafka.
        """
        if not PLUGIN_JAR.exists():
            raise RuntimeError(f"{PLUGIN_JAR} is not there: `make plugin` builds it")
        self._plugin: dict[str, object] = {
            "remote.log.metadata.manager.class.name": "org.tierledger.kafka."
            "TierledgerRemoteLogMetadataManager",
            "remote.log.metadata.manager.class.path": PLUGIN_JAR,
            "rlmm.config.tierledger.bootstrap": service,
        }
        super().__init__(
            {
                "remote.log.storage.system.enable": "true",
                "remote.log.storage.manager.class.name": _STORAGE,
                "rsm.config.dir": tier,
                **self._plugin,
                "remote.log.manager.task.interval.ms": 300,
                "log.retention.check.interval.ms": 300,
                "log.initial.task.delay.ms": 300,
                "log.segment.delete.delay.ms": 200,
                **(settings or {}),
            },
            jars,
        )
        self._tier = tier

    def become(self, mode: str | None) -> None:
        """Restart the broker with the plugin in `mode`; none: without the plugin."""
        listener = None if mode == "tierledger" else "PLAINTEXT"
        plugin = self._plugin | {"rlmm.config.tierledger.mode": mode, LISTENER: listener}
        self.settings |= _TOPIC_BASED if mode is None else plugin
        self.configure()
        self.restart(signal.SIGTERM)

    def tiered_logs(self) -> list[Path]:
        """The segments' logs in the tier."""
        return list(self._tier.rglob("*.log"))

    def local_start(self, topic: str) -> int:
        """The first offset that this broker has of the topic's partition 0, or -1."""
        return min(self._local(topic), default=-1)

    def local_segments(self, topic: str) -> int:
        """How many segments this broker has of the topic's partition 0."""
        return len(self._local(topic))

    def is_tiered(self, topic: str) -> bool:
        """Whether the broker has only that segment of the partition to which it writes."""
        return len(self._local(topic)) == 1

    def _local(self, topic: str) -> list[int]:
        folders = [self.folder / disk / f"{topic}-0" for disk in self.disks]
        return [int(log.stem) for folder in folders for log in folder.glob("*.log")]

    def errors(self) -> list[str]:
        """Errors in the broker's log since its last start, each with the lines below it.

        Kafka's log of state changes (`logger`) is left out: it reports any new replica as one.
        """
        return re.findall(
            r"^ERROR (?!logger ).*(?:\n(?!ERROR|WARN|INFO).*)*", self.log(), re.MULTILINE
        )

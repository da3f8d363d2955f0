"""The follower of `serve --kafka`: imports Kafka's metadata topic, mirrors into it or seals it.

The owner of the metadata, an `Ownership` of the coordinator's, tells which. The coordinator
chooses one follower, which reports its progress; others stand by. The follower continues while
the metadata moves, so that the `handover` command only has to wait for its progress.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from secrets import token_hex
from typing import Any, NamedTuple, Protocol

from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.conditions import Conditions
from tierledger.actors.coordinator.attendance import Followed
from tierledger.actors.coordinator.events import Owner
from tierledger.actors.coordinator.ownership import Ownership
from tierledger.actors.coordinator.requests import FollowCall
from tierledger.actors.foreign_errors import documenting
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.no_brokers import IMPORTER
from tierledger.actors.wall_clock import WallClock
from tierledger.events.errors import (
    RejectedError,
    RemoteResourceNotFound,
    RemoteStorageError,
)
from tierledger.moving.importing import TailImport
from tierledger.moving.mirroring import Mirror, producer_of
from tierledger.moving.sealing import create, seal
from tierledger.moving.topic import KafkaCluster, check_cluster, kafka_cluster, reading
from tierledger.storage.catalog import Catalog
from tierledger.storage.kafka_brokers import KafkaBrokers
from tierledger.storage.process_log import ProcessLog

REPORT_S = 0.25
"""Seconds between two reports to the coordinator, whose answer is the newest `Ownership`."""

ROUND_S = 0.2
"""Seconds between two rounds."""

BACKOFF_S = (1.0, 2.0, 5.0)
"""Seconds before a failed task begins again, by failures in a row; then always the last."""

DEADLINE_S = 10.0
"""Seconds for a write, or for a partition that is being placed."""

WATCH_S = 2.0
"""Seconds between two looks at the Kafka cluster."""

STALE_S = 30.0
"""Age (s) at which a look at the cluster no longer says which brokers are alive."""

OTHER_CLUSTER = "other-cluster"
"""The condition that Kafka's brokers are of another cluster than the service."""

MIRROR_S = 6 * 3600.0
"""Seconds after which a mirror begins anew with a new producer. Kafka forgets the newest epoch
of a producer that has been idle for some days, and could then no longer fence an old one."""

SEAL_S = 60.0
"""Seconds between two looks whether the topic still has its seals."""

IMPORT, MIRROR, SEAL, NOTHING = "import", "mirror", "seal", "nothing"

_log = ProcessLog("tierledger.moving")
logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # It floods logs without brokers.


class FollowersCoordinator(Protocol):
    """The coordinator, as a process of the service asks it; see `RayCoordinator`."""

    async def ask(self, request: FollowCall) -> Followed: ...


class FollowOptions(NamedTuple):
    """Options of a follower."""

    brokers: KafkaBrokers
    mirror: bool | None = None
    """Whether to mirror and not to seal; None: if the cluster came from Kafka's own manager."""


class Following:
    """A follower; cancel `run` to end it."""

    def __init__(
        self,
        settings: ServiceSettings,
        coordinator: FollowersCoordinator,
        options: FollowOptions,
        *,
        name: str | None = None,
    ) -> None:
        """`settings`: those of the service. `name`: its own, by default a random one."""
        self._settings = settings
        self._coordinator = coordinator
        self._options = options
        self._name = name or token_hex(8)
        self._task = self._asked = NOTHING
        self._reports = self._round = 0
        """Reports to the coordinator, and finished rounds, since this follower was chosen."""
        self._counts: Callable[[], dict[str, Any]] = dict
        """The counts of the present import or mirror, also during a round."""
        self._succeeded: float | None = None
        """When a round last ended without trouble."""
        self._trouble: str | None = None
        self._conditions = Conditions(WallClock().now_ms)
        self._seen: tuple[KafkaCluster, float] | None = None
        """The last look at the Kafka cluster, and when that was."""
        self._doing = {IMPORT: self._import, MIRROR: self._mirror, SEAL: self._seal}

    async def run(self) -> None:
        """Do what the newest `Ownership` asks for, until cancelled."""
        doing: asyncio.Task[None] | None = None
        watching = asyncio.create_task(self._watch())
        try:
            while True:
                await self._report()
                is_over = doing is None or (doing.done() and self._task != NOTHING)
                if is_over or self._asked != self._task:
                    await _ended(doing)
                    if self._task == NOTHING:
                        # The command counts rounds of the chosen follower. Rounds from before
                        # another follower was chosen must not count as new ones.
                        self._reports = self._round = 0
                    self._task, self._trouble, self._counts = self._asked, None, dict
                    doing = asyncio.create_task(self._again(self._task))
                await asyncio.sleep(REPORT_S)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            await _ended(doing)
            with contextlib.suppress(RemoteStorageError), documenting("the coordinator"):
                leaves = {"follower": self._name, "leaves": True}
                await self._coordinator.ask(FollowCall(leaves))

    async def _report(self) -> None:
        self._reports += 1
        report = {
            "follower": self._name,
            "reports": self._reports,
            "task": self._task,
            "round": self._round,
            "trouble": self._trouble,
            "conditions": self._conditions.plain(),
            **self._alive(),
            "succeeded_ms_ago": self._succeeded_ms_ago(),
            **self._counts(),
        }
        try:
            # Starting a coordinator anew may fail with Ray's own errors.
            with documenting("the coordinator"):
                ownership, is_chosen = await self._coordinator.ask(FollowCall(report))
        except RemoteStorageError as error:
            # The coordinator is being replaced; the last `Ownership` holds.
            _log.debug("the coordinator did not take a report", error=str(error))
            return
        self._asked = self._asked_by(ownership) if is_chosen else NOTHING

    def _succeeded_ms_ago(self) -> int | None:
        if self._succeeded is None:
            return None
        return int((asyncio.get_running_loop().time() - self._succeeded) * 1000)

    def _ended_round(self, trouble: str | None) -> None:
        self._trouble = trouble
        if trouble is None:
            self._succeeded = asyncio.get_running_loop().time()
        self._round += 1

    def _alive(self) -> dict[str, Any]:
        """The ids of the brokers that are alive, and when they were; none if not known now."""
        if self._seen is None:
            return {"alive": None}
        cluster, seen_s = self._seen
        ago_s = asyncio.get_running_loop().time() - seen_s
        if ago_s > STALE_S:
            return {"alive": None}
        return {"alive": sorted(cluster.alive), "seen_ms_ago": int(ago_s * 1000)}

    async def _watch(self) -> None:
        """Look at the Kafka cluster again and again, so that `status` knows who is alive."""
        while True:
            try:
                await self._look()
            except Exception as error:  # noqa: BLE001 - The next look may succeed.
                _log.debug("the Kafka cluster was not seen", error=repr(error))
            await asyncio.sleep(WATCH_S)

    async def _look(self) -> None:
        """Note the cluster's id and living brokers.

        Raises:
            RejectedError: It is not the service's cluster.
            StorageUnavailable: The brokers do not answer.
        """
        brokers, expected = self._options.brokers, self._settings.cluster_id
        found = await self._kafka_cluster()
        self._seen = found, asyncio.get_running_loop().time()
        try:
            check_cluster(brokers, found.cluster_id, expected)
        except RejectedError as error:
            self._conditions.hold(OTHER_CLUSTER, str(error))
            raise
        self._conditions.clear(OTHER_CLUSTER)

    async def _kafka_cluster(self) -> KafkaCluster:
        return await kafka_cluster(self._options.brokers)

    def _asked_by(self, ownership: Ownership) -> str:
        if ownership.decider == Owner.KAFKA:
            return IMPORT
        if ownership.decider != Owner.TIERLEDGER:
            return NOTHING
        mirror = self._options.mirror
        return MIRROR if (ownership.epoch > 1 if mirror is None else mirror) else SEAL

    async def _again(self, task: str) -> None:
        """Run a task for ever, with a back-off after failures."""
        failures = 0
        while task != NOTHING:
            before = self._round
            try:
                await self._look()  # Nothing is imported from, or written to, another cluster.
                await self._doing[task]()
            except RemoteResourceNotFound as error:
                self._trouble = str(error)  # Kafka's manager has not created its topic yet.
            except Exception as error:  # noqa: BLE001 - It must not end what is served.
                self._trouble = str(error) or repr(error)
                _log.warning("following Kafka's metadata topic begins anew", error=repr(error))
            failures = 0 if self._round > before else failures
            await asyncio.sleep(BACKOFF_S[min(failures, len(BACKOFF_S) - 1)])
            failures += 1

    async def _import(self) -> None:
        async with AsyncExitStack() as stack:
            tail = await self._new_import(stack)
            self._counts = lambda: {
                "records": tail.imported,
                "refused": len(tail.refused),
                "lag": tail.lag,
            }
            try:
                while True:
                    await tail.round()
                    self._ended_round(tail.trouble)
                    await asyncio.sleep(ROUND_S)
            except RemoteStorageError as error:
                self._trouble = str(error)  # Now: to release and to close may take seconds.
                raise
            finally:
                with contextlib.suppress(RemoteStorageError):
                    await tail.release()

    async def _new_import(self, stack: AsyncExitStack) -> TailImport:
        """An import from the topic's start, which `stack` closes."""
        manager = AsyncRemoteLogMetadataManager(deadline_s=DEADLINE_S)
        stack.push_async_callback(manager.close)
        reader = await stack.enter_async_context(reading(self._options.brokers))
        await manager.configure(
            {
                **self._settings.storage,
                **self._settings.security.as_client.config,
                "cluster.id": self._settings.cluster_id,
                "broker.id": IMPORTER,
            }
        )
        return TailImport(manager, reader, self._settings.cluster_id)

    async def _mirror(self) -> None:
        async with AsyncExitStack() as stack:
            mirror = await self._new_mirror(stack)
            self._counts = lambda: {"records": mirror.mirrored, **mirror.foreign.plain()}
            until = asyncio.get_running_loop().time() + MIRROR_S
            while asyncio.get_running_loop().time() < until:
                await mirror.round()
                self._ended_round(mirror.trouble)
                await asyncio.sleep(ROUND_S)

    async def _new_mirror(self, stack: AsyncExitStack) -> Mirror:
        """A mirror from the topic's start and with a new producer, which `stack` closes."""
        settings, brokers = self._settings, self._options.brokers
        connector = settings.connector()
        backend = await connector.backend(read_only=True)
        stack.push_async_callback(backend.close)
        keys = connector.key_factory(settings.cluster_id)
        catalog = Catalog(backend, keys, settings.serde(), settings.cluster_id)
        reader = await stack.enter_async_context(reading(brokers))
        producer = await stack.enter_async_context(producer_of(brokers))
        return Mirror(catalog, reader, producer, brokers)

    async def _seal(self) -> None:
        while True:
            await create(self._options.brokers)
            await seal(self._options.brokers)
            self._trouble = None
            self._round += 1
            await asyncio.sleep(SEAL_S)


async def _ended(doing: asyncio.Task[None] | None) -> None:
    if doing is not None:
        if doing.cancelled():  # By a client's own task, not by us.
            _log.warning("following Kafka's metadata topic was cancelled and begins anew")
        doing.cancel()
        await asyncio.gather(doing, return_exceptions=True)

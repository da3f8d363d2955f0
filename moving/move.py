"""Moves a cluster's metadata for `handover`: carries out the effects of `procedure`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tierledger.actors.calls import PartitionsCall
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.connection import ServiceConnection
from tierledger.actors.coordinator.attendance import MoveReport
from tierledger.actors.coordinator.events import Owner
from tierledger.actors.coordinator.ownership import GIVE_UP_AFTER_MS, Owned
from tierledger.actors.coordinator.requests import HostsCall, StatusCall
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.no_brokers import OBSERVER
from tierledger.events.errors import RejectedError, RemoteStorageError
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.moving import procedure as steps
from tierledger.moving.comparison import Comparison, Disagreement
from tierledger.moving.procedure import Procedure
from tierledger.moving.topic import kafka_cluster, reading
from tierledger.storage.kafka_brokers import KafkaBrokers

LOOK_S = 0.1
"""Pause before each `ReadStatus`, in seconds."""

COMPARE_PAUSE_S = 0.5
"""Pause before partitions that differ are compared again, in seconds."""

DEADLINE_S = 30.0
"""Deadline of a question to the service, in seconds. After a broker's restart a leader may
still be being placed."""

HOLD_S = GIVE_UP_AFTER_MS / 1000 - 2
"""Seconds for which brokers may hold their writes; the coordinator gives up 2 s later."""


class OwnershipMove:
    """One attempt to move the metadata."""

    def __init__(
        self,
        settings: ServiceSettings,
        connection: ServiceConnection,
        brokers: KafkaBrokers,
        to: Owner,
        *,
        accepts_losses: bool = False,
        is_rehearsal: bool = False,
    ) -> None:
        """`settings`: for a client of the service; `brokers`: Kafka's brokers.

        A rehearsal ends where the move would begin, and changes nothing.
        """
        self._settings = settings
        self._connection = connection
        self._coordinator = connection.coordinator
        self._brokers = brokers
        self._procedure = Procedure(
            to, accepts_losses=accepts_losses, is_rehearsal=is_rehearsal
        )
        self._owned: Owned | None = None
        """The owner, as the coordinator has said last."""
        self._compared_s: float | None = None
        """When the last comparison ended, by the loop's clock."""
        self._pending: set[TopicIdPartition] = set()
        """Partitions that differed at the last comparison, or have changed since."""
        self._positions_known: dict[TopicIdPartition, int] = {}
        """Each log's last position, read before the last comparison."""

    @property
    def report(self) -> MoveReport:
        """How far it is, for people."""
        report, ago_ms = self._procedure.report, None
        if self._compared_s is not None:
            ago_ms = int((asyncio.get_running_loop().time() - self._compared_s) * 1000)
        return report._replace(compared_ms_ago=ago_ms)

    async def made(self, tell: Callable[[str], None]) -> Owned:
        """The new owner, once the metadata has moved; `tell` gets a line for each step.

        After a rehearsal: the owner, if the move could begin now.

        Raises:
            RejectedError: The move was refused or undone: the owner is the one from before.
            RemoteStorageError: The service or the brokers do not answer.
        """
        manager = AsyncRemoteLogMetadataManager(deadline_s=DEADLINE_S)
        try:
            await manager.configure(
                {
                    **self._settings.storage,
                    "cluster.id": self._settings.cluster_id,
                    "broker.id": OBSERVER,
                }
            )
            async with reading(self._brokers) as reader:
                return await self._made(Comparison(manager, reader), tell)
        finally:
            await manager.close()

    async def _made(self, comparison: Comparison, tell: Callable[[str], None]) -> Owned:
        procedure, until = self._procedure, None
        effects = procedure.handle(steps.Begun())
        while True:
            called_for = None
            for effect in effects:
                match effect:
                    case steps.PrintLine(line=line):
                        tell(line)
                    case steps.EndMove(trouble=trouble):
                        if trouble is not None:
                            raise RejectedError(trouble)
                        assert self._owned is not None, "the coordinator answered"
                        return self._owned
                    case _:
                        called_for = effect
            assert called_for is not None, "it goes on or ends"
            stimulus: steps.Stimulus
            try:
                async with asyncio.timeout_at(until):
                    stimulus = await self._carried_out(called_for, comparison)
            except TimeoutError:
                stimulus = steps.TimeIsUp()
            except asyncio.CancelledError:
                # Ctrl-C: the procedure first restores the owner from before the move.
                task = asyncio.current_task()
                assert task is not None, "it was cancelled"
                task.uncancel()
                stimulus = steps.Failed("it was interrupted")
            except RemoteStorageError as error:
                stimulus = steps.Failed(str(error))
            effects = procedure.handle(stimulus)
            if procedure.phase is steps.MovePhase.HOLDING and until is None:
                until = asyncio.get_running_loop().time() + HOLD_S
            if procedure.phase in {steps.MovePhase.RETURNING, steps.MovePhase.ENDING}:
                until = None

    async def _carried_out(
        self, effect: steps.Effect, comparison: Comparison
    ) -> steps.Stimulus:
        match effect:
            case steps.ReadStatus():
                await asyncio.sleep(LOOK_S)
                return await self._look()
            case steps.Compare(is_all=is_all, is_again=is_again):
                await asyncio.sleep(COMPARE_PAUSE_S if is_again else 0)
                found = await self._differences(comparison, is_all=is_all)
                self._compared_s = asyncio.get_running_loop().time()
                segments = {str(one): one.segment for one in found if one.segment is not None}
                return steps.Compared(tuple(map(str, found)), segments)
            case steps.ChangeOwner(wish=wish):
                self._owned = await self._coordinator.ask(wish)
                return steps.HandedOver(self._owned)
            case _:
                raise AssertionError(f"not to be answered: {effect}")

    async def _look(self) -> steps.Looked:
        status, alive = await asyncio.gather(self._coordinator.ask(StatusCall()), self._alive())
        self._owned = Owned(status["owner"], status["owner_epoch"])
        return steps.Looked(
            status["owner_epoch"],
            status["owner"],
            frozenset(alive),
            tuple(status["attending"]),
            status["kafka"],
        )

    async def _alive(self) -> set[int]:
        return set((await kafka_cluster(self._brokers)).alive)

    async def _differences(self, comparison: Comparison, *, is_all: bool) -> list[Disagreement]:
        """The differences, of all partitions or of those that changed or differed last time.

        Positions are read before the comparison, so a partition that changes while it is
        compared, or that no host serves any more, counts as changed next time.
        """
        positions = await self._positions()
        self._pending |= await comparison.read()
        known = self._positions_known
        self._pending |= {
            tip
            for tip in positions.keys() | known.keys()
            if is_all or known.get(tip) != positions.get(tip)
        }
        asked, self._pending = self._pending, set()
        found = await comparison.differences(asked)
        self._positions_known = positions
        self._pending |= {one.partition for one in found}
        return found

    async def _positions(self) -> dict[TopicIdPartition, int]:
        """The last position of each log that the service serves."""
        hosts = await self._coordinator.ask(HostsCall())
        found: dict[TopicIdPartition, int] = {}
        for served in await asyncio.gather(
            *(
                self._connection.host(address).ask(PartitionsCall())
                for address in hosts.values()
            )
        ):
            for one in served:
                topic_id = Uuid.parse(one["topic_id"])
                tip = TopicIdPartition(topic_id, one["partition"], one["topic"])
                found[tip] = max(one["position"], found.get(tip, -1))
        return found

"""A move as a command makes it: carries out what its procedure calls for, and no rule."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.coordinator import procedure as steps
from tierledger.actors.coordinator.ownership import GIVE_UP_AFTER_MS, Owned
from tierledger.actors.coordinator.procedure import Procedure
from tierledger.events.errors import RejectedError, RemoteStorageError
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.moving.comparison import Comparison
from tierledger.moving.topic import live_brokers, reading

if TYPE_CHECKING:
    from collections.abc import Callable

    from tierledger.actors.coordinator.events import Owner
    from tierledger.actors.host_settings import ServiceSettings
    from tierledger.actors.ports import ServiceConnection
    from tierledger.moving.comparison import Difference

LOOK_S = 0.1
"""Between two looks."""

OBSERVER = 2**31 - 3
"""The broker id under which the ledger is asked; Kafka gives none so high."""

COMPARE_ATTEMPTS, SETTLE_ATTEMPTS = 20, 3
COMPARE_PAUSE_S = 0.5
"""What differs is compared again, while brokers write more often: who follows is behind."""

DEADLINE_S = 10.0

HOLD_S = GIVE_UP_AFTER_MS / 1000 - 2
"""How long brokers may hold their writes; the coordinator gives up if this command does not."""


class Move:
    """One run of the command."""

    def __init__(
        self,
        settings: ServiceSettings,
        connection: ServiceConnection,
        brokers: str,
        to: Owner,
        *,
        accepts_losses: bool = False,
    ) -> None:
        """`settings`: of a client of the service; `brokers`: Kafka's."""
        self._settings = settings
        self._connection = connection
        self._coordinator = connection.coordinator
        self._brokers = brokers
        self._procedure = Procedure(to, accepts_losses=accepts_losses)
        self._owned: Owned | None = None
        self._pending: set[TopicIdPartition] = set()
        """What the topic has said something new of since it was compared, or differed then."""
        self._positions_known: dict[TopicIdPartition, int] = {}
        """The position of each log before it was compared."""

    async def made(self, tell: Callable[[str], None]) -> Owned:
        """Who owns the metadata, once it has moved; `tell` hears of each step.

        Raises:
            RejectedError: It was refused, or given back: it is as before.
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
                    case steps.Tell(line=line):
                        tell(line)
                    case steps.End(trouble=trouble):
                        if trouble is not None:
                            raise RejectedError(trouble)
                        assert self._owned is not None, "it was said"
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
                # Ctrl-C: what has begun is given back first.
                task = asyncio.current_task()
                assert task is not None, "it was cancelled"
                task.uncancel()
                stimulus = steps.Failed("it was interrupted")
            except RemoteStorageError as error:
                stimulus = steps.Failed(str(error))
            effects = procedure.handle(stimulus)
            if procedure.phase is steps.Phase.HOLDING and until is None:
                until = asyncio.get_running_loop().time() + HOLD_S
            if procedure.phase in {steps.Phase.RETURNING, steps.Phase.ENDING}:
                until = None

    async def _carried_out(
        self, effect: steps.Effect, comparison: Comparison
    ) -> steps.Stimulus:
        match effect:
            case steps.Look():
                await asyncio.sleep(LOOK_S)
                return await self._look()
            case steps.Compare(is_all=is_all):
                found = await self._differences(comparison, is_all=is_all)
                return steps.Compared(tuple(map(str, found)))
            case steps.Say(wish=wish):
                self._owned = await self._coordinator.hand_over(wish)
                return steps.Said(self._owned)
            case _:
                raise AssertionError(f"not to be answered: {effect}")

    async def _look(self) -> steps.Looked:
        said, alive = await asyncio.gather(
            self._coordinator.status(), live_brokers(self._brokers)
        )
        return steps.Looked(
            said["word"],
            said["owner"],
            frozenset(alive),
            tuple(said["attending"]),
            said["kafka"],
        )

    async def _differences(self, comparison: Comparison, *, is_all: bool) -> list[Difference]:
        """What differs, also when it was looked at again and again."""
        positions = await self._positions()
        self._pending |= await comparison.read()
        moved = {tip for tip, at in positions.items() if self._positions_known.get(tip) != at}
        self._pending |= moved
        if is_all:
            self._pending |= positions.keys()
        found: list[Difference] = []
        attempts = COMPARE_ATTEMPTS if is_all else SETTLE_ATTEMPTS
        for attempt in range(attempts):
            asked, self._pending = self._pending, set()
            found = await comparison.differences(asked)
            self._positions_known |= positions
            differing = {one.partition for one in found}
            positions = await self._positions()
            changed = await comparison.read()
            self._pending = {*differing, *changed}
            if not found:
                return []
            if attempt + 1 < attempts:
                await asyncio.sleep(COMPARE_PAUSE_S)
        return found

    async def _positions(self) -> dict[TopicIdPartition, int]:
        """What the service serves, and the last position of each log that it knows."""
        hosts = await self._coordinator.hosts()
        found: dict[TopicIdPartition, int] = {}
        for said in await asyncio.gather(
            *(self._connection.host(address).partitions() for address in hosts.values())
        ):
            for one in said:
                topic_id = Uuid.parse(one["topic_id"])
                tip = TopicIdPartition(topic_id, one["partition"], one["topic"])
                found[tip] = max(one["position"], found.get(tip, -1))
        return found

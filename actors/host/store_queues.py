"""A host's traffic with its store: requests that wait are sent as one.

Appends of all partitions that arrive while a commit is under way form the next commit (group
commit). Probes, and reads of slots whose append is in doubt, are read together.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple, Protocol

from tierledger.actors import messages as msg
from tierledger.actors.conditions import STORE_REFUSED, Conditions
from tierledger.actors.slices import Slices
from tierledger.events.errors import OutcomeUnknown, RemoteStorageError, StoreRefused
from tierledger.storage.backend import (
    FORMER_BYTES,
    CreateOutcome,
    Former,
    MetadataStorageBackend,
    folder_of,
    older_store,
)

COMMIT_BYTES_MAX = 8 * 1024 * 1024
"""Bytes of one commit; more waits for the next."""

SLOTS_PER_READ = 500

GATHERED_MIN = 8
"""After a commit of at least so many commands the next one waits for those that follow."""

GATHERED_PER_BATCH = 8
"""The wait ends at so many commands for each batch of the commit before: that is enough."""

GATHER_S = 0.004
QUIET_S = 0.001
"""The wait ends after `GATHER_S`, or once no command has come for `QUIET_S`. A client with many
open calls sends the next ones as soon as these are answered. It is worth waiting for them: a
batch costs its partition, and a commit the store, about the same however many commands it
holds."""


class Fed(Protocol):
    """A partition that gets the result of its request as a stimulus."""

    def feed(self, stimulus: msg.Stimulus) -> None: ...


class Holding(Protocol):
    """A partition with commands that are decided on when the next commit begins."""

    def hand_over(self) -> None: ...


class PendingAppend(NamedTuple):
    """A batch that waits to be stored, with the partition that gets the result."""

    partition: Fed
    number: int
    key: str
    value: bytes
    former: Former | None = None
    """What its log has to hold before it."""


class DurableStep(NamedTuple):
    """A durable step that has ended."""

    number: int
    """Of those since the process began."""
    batches: int
    begun_s: float
    ended_s: float


class Committer:
    """Commits all appends that wait in one durable step, again and again."""

    def __init__(self, backend: MetadataStorageBackend, conditions: Conditions) -> None:
        """`conditions`: the host's; `STORE_REFUSED` holds while the store takes no commit."""
        self._backend = backend
        self._conditions = conditions
        self._pending: list[PendingAppend] = []
        self._holding: list[Holding] = []
        self._wake = asyncio.Event()
        self._held = 0
        """Commands that `expect` has counted since the last commit began."""
        self._enough = 0
        """The number of commands at which the wait for more ends."""
        self._answered_at = 0.0
        self._has_enough = asyncio.Event()
        self.newest: Former | None = None
        """The batch that was committed last; a successor has to find it in the store."""
        self.answering: DurableStep | None = None
        """The commit whose outcome a partition hears right now, and lets its callers hear."""
        self.commits = 0
        self.batches = 0

    def add(self, append: PendingAppend) -> None:
        self._pending.append(append)
        self._wake.set()
        self._has_enough.set()

    def expect(self, holding: Holding, *, is_first: bool) -> None:
        """Count a command of `holding`, which hands it over before the next commit begins.

        Commands that arrive during a commit would wait for its end anyway. So a partition's
        next batch holds all that arrive until then, not only the first.
        """
        self._held += 1
        if is_first:
            self._holding.append(holding)
            self._wake.set()
        if self._held == self._enough:
            self._has_enough.set()

    async def run(self) -> None:
        """Commit until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._pending or self._holding:
                await self._gather()
                commands, self._held = self._held, 0
                await self._collect()
                if self._pending:
                    appends = self._take()
                    await self._commit(appends)
                    self._expect_again(commands, len(appends))

    def _expect_again(self, answered: int, batches: int) -> None:
        """Set how many commands to wait for: as many as were just answered, and those held."""
        self._enough = min(answered + self._held, GATHERED_PER_BATCH * batches)
        if answered < GATHERED_MIN:
            self._enough = 0
        self._answered_at = asyncio.get_running_loop().time()

    async def _gather(self) -> None:
        """Wait for the next commands of the callers just answered, if those were many."""
        # A commit costs the store about the same whatever it holds. Without this wait a client
        # with 64 open calls settles into two halves: 32 are being committed while the answers
        # of the other 32 are on their way, and no commit ever holds more than half. So the next
        # commit begins once as many commands have come as were just answered.
        #
        # Not a fixed pause: with one caller at a time it would only add to each call, so below
        # `GATHERED_MIN` nothing is waited for. Not a wait for all either: a caller may have
        # nothing more to say, and then client and host would wait for each other. Hence three
        # ends, of which the first counts: enough, a pause of `QUIET_S`, `GATHER_S` in all.
        until = self._answered_at + GATHER_S
        self._has_enough.clear()
        if self._pending:
            return
        while self._held < self._enough and asyncio.get_running_loop().time() < until:
            before = self._held
            try:
                async with asyncio.timeout(QUIET_S):
                    await self._has_enough.wait()
                return
            except TimeoutError:
                if self._held == before:
                    return

    async def _collect(self) -> None:
        holding, self._holding = self._holding, []
        slices = Slices()
        for one in holding:
            one.hand_over()
            await slices.yield_if_due()

    def _take(self) -> list[PendingAppend]:
        size = 0
        for count, append in enumerate(self._pending):
            size += len(append.value)
            if size > COMMIT_BYTES_MAX and count:
                taken, self._pending = self._pending[:count], self._pending[count:]
                return taken
        taken, self._pending = self._pending, []
        return taken

    async def _commit(self, appends: list[PendingAppend]) -> None:
        self.commits += 1
        self.batches += len(appends)
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        stimuli: list[msg.Stimulus]
        try:
            outcomes = await self._backend.create_each(
                [(a.key, a.value) for a in appends],
                {a.key: a.former for a in appends if a.former is not None},
            )
            stimuli = [
                msg.AppendAnswered(append.number, _OUTCOMES[outcome])
                for append, outcome in zip(appends, outcomes, strict=True)
            ]
            self._conditions.clear(STORE_REFUSED)
            for append, outcome in zip(appends, outcomes, strict=True):
                if outcome is CreateOutcome.CREATED:
                    self.newest = Former(append.key, append.value[:FORMER_BYTES])
        except OutcomeUnknown:
            unknown = msg.AppendOutcome.UNKNOWN
            stimuli = [msg.AppendAnswered(append.number, unknown) for append in appends]
        except RemoteStorageError as error:
            stimuli = [msg.AppendRefused(append.number, error) for append in appends]
            if isinstance(error, StoreRefused):
                self._conditions.hold(STORE_REFUSED, str(error))
        commit = DurableStep(self.commits, len(appends), begun_s, loop.time())
        slices = Slices()
        for append, stimulus in zip(appends, stimuli, strict=True):
            self.answering = commit
            append.partition.feed(stimulus)
            self.answering = None
            await slices.yield_if_due()


_OUTCOMES = {outcome: msg.AppendOutcome(outcome.value) for outcome in CreateOutcome}


class PendingSlot(NamedTuple):
    """A slot that waits to be read, with the partition that gets the result."""

    partition: Fed
    number: int
    key: str
    former: Former | None = None
    """What its log holds before it, as the partition knows."""


class SlotReader:
    """Reads all slots that wait in one request, again and again."""

    def __init__(self, backend: MetadataStorageBackend, conditions: Conditions) -> None:
        """`conditions`: the host's; `STORE_REFUSED` holds once the store turns out older."""
        self._backend = backend
        self._conditions = conditions
        self._pending: list[PendingSlot] = []
        self._wake = asyncio.Event()

    def add(self, slot: PendingSlot) -> None:
        self._pending.append(slot)
        self._wake.set()

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._pending:
                taken = self._pending[:SLOTS_PER_READ]
                del self._pending[:SLOTS_PER_READ]
                await self._read(taken)

    async def _read(self, slots: list[PendingSlot]) -> None:
        stimuli: list[msg.Stimulus]
        try:
            stimuli = await self._found(slots)
        except RemoteStorageError as error:
            stimuli = [msg.ProbeFailed(slot.number, error) for slot in slots]
        slices = Slices()
        for slot, stimulus in zip(slots, stimuli, strict=True):
            slot.partition.feed(stimulus)
            await slices.yield_if_due()

    async def _found(self, slots: list[PendingSlot]) -> list[msg.Stimulus]:
        """What was found in `slots`, in order. Most are empty, being the ends of logs."""
        # Where each log ends, and only then what is in the slots before that. An empty slot
        # alone proves nothing: the slots behind it may be taken, and what stood in it was
        # forgotten. In the other order a slot that is filled between the two reads would seem
        # to be such a one.
        lasts = await self._backend.last_keys([folder_of(slot.key) or "" for slot in slots])
        taken = [
            slot.key
            for slot, last in zip(slots, lasts, strict=True)
            if (last or "") >= slot.key
        ]
        values = await self._backend.get_each(taken) if taken else []
        by_key = dict(zip(taken, values, strict=True))
        return [
            self._refused(slot)
            if slot.former is not None and (last or "") < slot.former.key
            else msg.SlotRead(
                slot.number,
                value := by_key.get(slot.key),
                is_passed=slot.key in by_key and value is None,
            )
            for slot, last in zip(slots, lasts, strict=True)
        ]

    def _refused(self, slot: PendingSlot) -> msg.Stimulus:
        """For a slot whose log ends before what its partition has read or written."""
        assert slot.former is not None, "it has to be there"
        error = older_store("the store", slot.former.key)
        self._conditions.hold(STORE_REFUSED, str(error))
        return msg.ProbeFailed(slot.number, error)

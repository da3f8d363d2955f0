"""Writes batches of many partitions in one durable step while the next batches are made."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self, TypeVar

from tierledger.events.errors import OutcomeUnknown
from tierledger.pipeline.imports.log import Slot
from tierledger.pipeline.imports.writer import Slots, slots
from tierledger.storage.backend import AtomicConflict

T = TypeVar("T")

STEP_BYTES = 1 << 20
"""Bytes of batches per durable step. Writing them takes a hundredth of a second, in which the
next batches are folded."""

ATTEMPTS = 10
"""Attempts at a step whose outcome stays in doubt, before the task gives up."""

RETRY_DELAY_S = 0.2


class TaskCommitter:
    """Creates batches in steps: one in flight, one being filled. Used by one task."""

    def __init__(self, config: Mapping[str, object], socket: str | None) -> None:
        self._config = config
        self._socket = socket
        self._stack = ExitStack()
        self._step: list[Slot] = []
        self._size = 0
        self._in_flight: Future[None] | None = None

    def __enter__(self) -> Self:
        self._thread = self._stack.enter_context(ThreadPoolExecutor(1, "import-commit"))
        self._loop = asyncio.new_event_loop()
        self._stack.callback(self._loop.close)
        opened = slots(self._config, self._socket)
        self._slots: Slots = self._run(opened.__aenter__()).result()
        self._stack.callback(lambda: self._run(opened.__aexit__(None, None, None)).result())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def add(self, slot: Slot) -> None:
        """Queue `slot` for creation. Its tally records whether that succeeds."""
        self._step.append(slot)
        self._size += len(slot.value)
        if self._size >= STEP_BYTES:
            self._send()

    def flush(self) -> None:
        """Wait until every added slot is durable, or its tally has the reason why it is not.

        Raises:
            StorageUnavailable: The store cannot be reached; the last step was not written.
            OutcomeUnknown: The last step is in doubt. A repeated import finds out.
        """
        self._send()
        self._settle()

    def _send(self) -> None:
        # A log's batch may be sent only once the batch before it is durable. So this waits for
        # the step in flight, and then leaves out the logs for which that step failed.
        self._settle()
        step = [slot for slot in self._step if slot.tally.trouble is None]
        self._step, self._size = [], 0
        if step:
            self._in_flight = self._run(_created(self._slots, step))

    def _settle(self) -> None:
        in_flight, self._in_flight = self._in_flight, None
        if in_flight is not None:
            in_flight.result()

    def _run(self, coming: Coroutine[Any, Any, T]) -> Future[T]:
        return self._thread.submit(self._loop.run_until_complete, coming)


async def _created(where: Slots, step: list[Slot]) -> None:
    """Create the batches of `step`, and record the outcome in their tallies.

    Nothing is created in a log to which another writer has appended.
    """
    for attempt in range(ATTEMPTS):
        try:
            await where.create_all([(slot.key, slot.value) for slot in step])
        except AtomicConflict:
            pass
        except OutcomeUnknown:
            if attempt + 1 == ATTEMPTS:
                raise
            await asyncio.sleep(RETRY_DELAY_S)
        else:
            _count(step)
            return
        found = await where.get_each([slot.key for slot in step])
        step = _left_of(step, found)
        if not step:
            return
    raise OutcomeUnknown(f"{step[0].key}: not created after {ATTEMPTS} attempts")


def _left_of(step: list[Slot], found: list[bytes | None]) -> list[Slot]:
    """The batches that are still to be created; `found` is what their slots hold now."""
    pairs = list(zip(step, found, strict=True))
    for slot, value in pairs:
        if value is not None and value != slot.value and slot.tally.trouble is None:
            slot.tally.overtaken(slot.key)
    # A slot may hold this import's own bytes already: from an attempt whose answer was lost, or
    # from another import of the same records. Such a batch counts as stored.
    _count([slot for slot, value in pairs if value == slot.value])
    return [slot for slot, value in pairs if value is None and slot.tally.trouble is None]


def _count(step: list[Slot]) -> None:
    for slot in step:
        slot.tally.stored(slot)

"""Checks of the store: whether it can be read and written, and its clock."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tierledger.actors.wall_clock import WallClock
from tierledger.cli.commands.doctor.check import Check
from tierledger.cli.commands.doctor.given import STORE
from tierledger.cli.commands.doctor.seen import CheckSeen, UnseenError
from tierledger.pages.texts import span_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tierledger.cli.commands.doctor.given import Given

CLOCK_WARNED_MS, CLOCK_FAILED_MS = 2_000, 60_000
"""Milliseconds by which a clock may differ from this machine's; the service's own limit is the
second."""

PROBE = "tierledger-doctor"
"""A key that is never there: what creates it is undone."""


async def _read(given: Given) -> AsyncIterator[CheckSeen]:
    from tierledger.storage.catalog import clusters

    settings = await given.settings()
    backend = await settings.connector().backend(read_only=True)
    try:
        found = await clusters(backend)
    finally:
        await backend.close()
    what = ", ".join(found) if found else "no cluster yet"
    yield CheckSeen.well(
        "", f"it can be read, and has a format that this release knows; {what}"
    )


async def _write(given: Given) -> AsyncIterator[CheckSeen]:
    from tierledger.events.errors import NoSuchStore
    from tierledger.storage.backend import AtomicConflict, Create

    connector = (await given.read_store()).connector()
    try:
        record = await given.record()
    except NoSuchStore:
        if not await connector.try_place():
            raise UnseenError("there is no store yet") from None
        text = "there is no store yet; an object was created, once only, and deleted"
        yield CheckSeen.well("", text)
        return
    is_live = record is not None and await asyncio.to_thread(lambda: record.is_live)
    if connector.has_one_writer and is_live:
        raise UnseenError(
            "the service writes this store, and nobody else can meanwhile; the check "
            "`troubles` tells if it cannot"
        )
    backend = await connector.backend(read_only=False)
    try:
        # The second finds what the first has made, so the store undoes both.
        await backend.execute_atomically([Create(PROBE, b""), Create(PROBE, b"")])
    except AtomicConflict:
        yield CheckSeen.well("", "a write was made, and undone")
    else:
        yield CheckSeen.failed(
            "", f"a write that had to be undone was not: {PROBE}", "use another store"
        )
    finally:
        await backend.close()


async def _clock(given: Given) -> AsyncIterator[CheckSeen]:
    from tierledger.storage.connector import PostgresConnector

    connector = (await given.read_store()).connector()
    if not isinstance(connector, PostgresConnector):
        raise UnseenError("the store has no clock of its own")
    before_ms = WallClock().now_ms()
    its_ms = await connector.server_time_ms()
    after_ms = WallClock().now_ms()
    yield of_clock("", its_ms, before_ms, after_ms)


def of_clock(
    subject: str, its_ms: int, before_ms: int, after_ms: int, other: str = "this machine's"
) -> CheckSeen:
    """How it stands with a clock that was read between two readings of the `other` one."""
    # What the way there and back took is nobody's error.
    off_ms = max(its_ms - after_ms, before_ms - its_ms, 0)
    if not off_ms:
        return CheckSeen.well(subject, f"it has {other} time")
    way = "ahead of" if its_ms > after_ms else "behind"
    text = f"it is {span_text(off_ms)} {way} {other} clock"
    mend = "set both clocks by NTP"
    if off_ms >= CLOCK_FAILED_MS:
        return CheckSeen.failed(subject, text, mend)
    if off_ms >= CLOCK_WARNED_MS:
        return CheckSeen.warning(subject, text, mend)
    return CheckSeen.well(subject, text)


CHECKS_OF_STORE = (
    Check(
        "store-read",
        "the store can be read, and this release knows its format",
        _read,
        "see whether it is there, and whether this user may read it; if it is to be new, "
        "tierledger serve makes it",
        STORE,
    ),
    Check(
        "store-write",
        "the store takes a write, which is undone at once; a bucket without a store: an object "
        "can be created, once only, and deleted",
        _write,
        "see whether this user may write it, and whether there is room",
        STORE,
    ),
    Check(
        "store-clock",
        "the clock of the store's server is this machine's",
        _clock,
        "see whether the store answers",
        STORE,
    ),
)

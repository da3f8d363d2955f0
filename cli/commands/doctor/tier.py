"""Checks of the remote tier: whether it can be listed, read and written."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tierledger.actors.wall_clock import RandomIds
from tierledger.cli.commands.doctor.check import Check
from tierledger.cli.commands.doctor.given import TIER
from tierledger.cli.commands.doctor.seen import CheckSeen, UnseenError
from tierledger.events.errors import RemoteStorageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tierledger.cli.commands.doctor.given import Given
    from tierledger.tiering.objects.store import ObjectStore

PROBE_FOLDER = "tierledger-doctor"
"""Objects below it are no segments of any layout; each lives for a moment."""

HEAD_BYTES = 16
"""Bytes of an object that are read."""


class _TierPlace(NamedTuple):
    store: ObjectStore
    prefix: str


def _place(given: Given) -> _TierPlace:
    from tierledger.tiering.layouts.tier_url import open_store, parse

    url = parse(given.tier)
    return _TierPlace(open_store(url), url.prefix)


async def _any_object(place: _TierPlace) -> tuple[str, int] | None:
    """The name and size of some object; None: there is none."""
    unseen: list[object] = []
    async for page in place.store.pages(place.prefix, unseen.append):
        for one in page:
            return one.path, one.size
    if unseen:
        raise UnseenError(f"{unseen[0]}")
    return None


async def _list(given: Given) -> AsyncIterator[CheckSeen]:
    place = _place(given)
    found = await _any_object(place)
    yield CheckSeen.well("", "it can be listed" if found else "it can be listed, and is empty")


async def _read(given: Given) -> AsyncIterator[CheckSeen]:
    from tierledger.tiering.objects.request_counts import Operation

    place = _place(given)
    try:
        found = await _any_object(place)
    except RemoteStorageError as error:
        raise UnseenError("the tier was not listed, see the check `tier-list`") from error
    if found is None:
        raise UnseenError("the tier is empty: there is nothing to read")
    name, size = found
    if size:
        end = min(size, HEAD_BYTES)
        await place.store.get_range(Operation.LIST, name, 0, end, size)
    else:
        await place.store.get(Operation.LIST, name)
    yield CheckSeen.well("", f"{place.store.name_of(name)} can be read")


async def _write(given: Given) -> AsyncIterator[CheckSeen]:
    from tierledger.tiering.objects.request_counts import Operation

    place = _place(given)
    folder = f"{place.prefix.rstrip('/')}/{PROBE_FOLDER}".lstrip("/")
    name = f"{folder}/{RandomIds().request_id().hex()}"
    created = await place.store.create(Operation.CLEAN, name, b"")
    try:
        again = await place.store.create(Operation.CLEAN, name, b"")
    finally:
        await place.store.delete(Operation.CLEAN, [name])
        await place.store.remove_leftovers(folder)
    if created and not again:
        yield CheckSeen.well(
            "", "an object was created, not created a second time, and deleted"
        )
        return
    yield CheckSeen.warning(
        "",
        "an object was created and deleted, and a second one of its name replaced it",
        "this store has no conditional writes: tierledger does not need them, others may",
    )


CHECKS_OF_TIER = (
    Check(
        "tier-list",
        "the tier can be listed",
        _list,
        "see the URL, and whether its credentials may list it",
        TIER,
    ),
    Check(
        "tier-read",
        "an object in the tier can be read",
        _read,
        "see whether the credentials may read objects",
        TIER,
    ),
    Check(
        "tier-write",
        "an object can be created, once only, and deleted",
        _write,
        "only `trash purge`, `clean` and `forget --tier` write to the tier: give them other "
        "credentials if these are to read alone",
        TIER,
    ),
)

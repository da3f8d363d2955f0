"""Objects that were taken out of a tier, and can be given back until they are removed.

    <folder>/tierledger-quarantine/<plan id>/taken
                                            /objects/<the name that each object had>

`taken` lists them, and is written before the first one is moved. Rule: an object has one of its
two names at every moment, and no name of a tier's segments begins with the folder's.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from tierledger.events.errors import CorruptRemoteData, RemoteResourceNotFound
from tierledger.tiering.objects.request_counts import Operation

if TYPE_CHECKING:
    from tierledger.tiering.objects.store import ObjectStore

FOLDER: Final = "tierledger-quarantine"

TAKEN: Final = "taken"
OBJECTS: Final = "objects"

VERSION: Final = 1

AT_ONCE: Final = 16
"""Requests that are under way at a time."""

PlanId = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16}$")]


class TakenObject(msgspec.Struct, frozen=True):
    """An object with the name and the size that it had in the tier."""

    name: str
    size: Annotated[int, msgspec.Meta(ge=0)]


class Taken(msgspec.Struct, frozen=True):
    """What one plan has taken out of the tier."""

    version: int
    plan: PlanId
    cluster: str
    taken_ms: int
    """When the first one was taken, by the clock of the command."""
    objects: tuple[TakenObject, ...]

    @classmethod
    def of(cls, content: bytes, name: str) -> Taken:
        """The list in the object `name`.

        Raises:
            CorruptRemoteData: It is none.
        """
        try:
            found = msgspec.json.decode(content, type=cls)
        except (msgspec.MsgspecError, ValueError) as error:
            raise CorruptRemoteData(
                f"{name}: this is no list of taken objects: {error}"
            ) from None
        if found.version != VERSION:
            raise CorruptRemoteData(
                f"{name}: a newer program wrote it, version {found.version}; expected {VERSION}"
            )
        return found


def folder_of(tier_folder: str) -> str:
    """The folder of all quarantines of a tier."""
    return f"{tier_folder}/{FOLDER}" if tier_folder else FOLDER


class Quarantine:
    """The quarantine of one plan."""

    def __init__(self, store: ObjectStore, tier_folder: str, plan: str) -> None:
        self._store = store
        self.place = f"{folder_of(tier_folder)}/{plan}"

    @property
    def list_name(self) -> str:
        return f"{self.place}/{TAKEN}"

    def place_of(self, name: str) -> str:
        """The name in the quarantine of what has the name `name` in the tier."""
        return f"{self.place}/{OBJECTS}/{name}"

    async def taken(self) -> Taken | None:
        """What was taken; None if nothing was.

        Raises:
            CorruptRemoteData: The list does not verify.
        """
        try:
            content = await self._store.get(Operation.CLEAN, self.list_name)
        except RemoteResourceNotFound:
            return None
        return Taken.of(content, self._store.name_of(self.list_name))

    async def note(self, taken: Taken) -> None:
        """Write down what is to be taken, durably."""
        await self._store.put(Operation.CLEAN, self.list_name, json_of(taken))
        await self._store.make_durable(self.place)

    async def take(self, objects: Sequence[TakenObject]) -> None:
        """Take the objects, which `note` has listed; a repeat takes the rest."""
        await self._move_each(
            [(one.name, self.place_of(one.name), one.size) for one in objects]
        )

    async def give_back(self, objects: Sequence[TakenObject]) -> None:
        """Give the objects their names in the tier again; a repeat gives the rest."""
        await self._move_each(
            [(self.place_of(one.name), one.name, one.size) for one in objects]
        )

    async def remove(self, objects: Sequence[TakenObject]) -> None:
        """Delete the objects for good."""
        await self._delete([self.place_of(one.name) for one in objects])

    async def objects(self) -> Mapping[str, int]:
        """The objects in it by the names that they had in the tier, with their sizes."""
        below = f"{self.place}/{OBJECTS}"
        found = await self._store.list(Operation.CLEAN, below)
        return {name.removeprefix(f"{below}/"): one.size for name, one in found.items()}

    async def close_if_empty(self) -> bool:
        """Remove the list if no object is left in the quarantine; whether it is gone."""
        if await self.objects():
            return False
        await self._delete([self.list_name])
        return True

    async def _move_each(self, moves: Sequence[tuple[str, str, int]]) -> None:
        """Move the objects of `moves`: each from one name to another, and its size."""
        for at in range(0, len(moves), AT_ONCE):
            some = moves[at : at + AT_ONCE]
            asked = (self._store.move(Operation.CLEAN, *one) for one in some)
            for done in await asyncio.gather(*asked, return_exceptions=True):
                if isinstance(done, BaseException):
                    raise done
            for folder in _folders(target for _, target, _ in some):
                await self._store.make_durable(folder)
            await self._tidy(source for source, _, _ in some)

    async def _delete(self, names: Sequence[str]) -> None:
        for at in range(0, len(names), AT_ONCE):
            some = names[at : at + AT_ONCE]
            await self._store.delete(Operation.CLEAN, some)
            await self._tidy(some)

    async def _tidy(self, gone: Iterable[str]) -> None:
        """Make removals durable, with the folders that they left empty."""
        for folder in _folders(gone):
            await self._store.remove_leftovers(folder)
            await self._store.make_removal_durable(folder)


def _folders(names: Iterable[str]) -> list[str]:
    return sorted({name.rpartition("/")[0] for name in names})


def json_of(taken: Taken) -> bytes:
    return json.dumps(msgspec.to_builtins(taken), separators=(",", ":")).encode()

"""What the console has seen of a store and of the service on it, renewed in the background.

No page waits for the store: it shows what was seen last, and since when that is.
"""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from tierledger.actors.coordinator.events import Owner
from tierledger.actors.wall_clock import WallClock
from tierledger.cli.commands.console.growth import Growth
from tierledger.cli.commands.console.move_view import GONE_MS
from tierledger.cli.commands.console.owners import PastOwners
from tierledger.cli.commands.partitions import Summary, summary_of
from tierledger.cli.commands.status.look import ClusterView, StatusOptions, take_look
from tierledger.cli.opened_store import opened_catalog
from tierledger.events.errors import DataError, RemoteStorageError
from tierledger.storage.partition.point_reads import ask
from tierledger.storage.process_log import ProcessLog

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from tierledger.cli.opened_store import StoreOptions
    from tierledger.events.identifiers import TopicIdPartition
    from tierledger.events.partition.state import PartitionState
    from tierledger.storage.catalog import Catalog

ROUND_S = 1.0
"""The least time between two looks at the ends of all logs."""

SHARE = 4
"""A pause is so many times as long as the look before it: a large store is not kept busy."""

LISTED_S = 5.0
"""The least time between two lists of all partitions."""

SERVICE_S = 2.0
"""The time between two looks at the service."""

MOVING_S = 0.5
"""The same while the metadata moves, which is over in seconds."""

HISTORY_S = 0.25
"""How long one look reads on in logs that pages tell the past of."""

KEYS_PER_READ = 500
"""Logs whose ends, or whose checkpoints, are read at once."""

READ_AT_ONCE = 16
"""Partitions that are read at a time: each takes several requests, one after another."""

SHOWN_AGAIN_S = 10.0
"""Pages are new after that time even if nothing has changed: they tell ages."""


_log = ProcessLog("tierledger.console")


class SeenPartition(NamedTuple):
    """A partition as it was seen last."""

    tip: TopicIdPartition
    summary: Summary | None
    """None if its log cannot be read, or was not read yet."""
    kept: int
    """Segments of it in the trash."""
    error: str | None = None
    """Why its log cannot be read."""
    is_early: bool = False
    """Whether the log was not read yet: this is what a checkpoint holds, if there is one."""

    @property
    def name(self) -> str:
        # Where the first event cannot be read, nobody knows the topic's name.
        return f"{self.tip.topic or self.tip.topic_id}-{self.tip.partition}"


class Blindness(NamedTuple):
    """Since when something cannot be seen, and why."""

    since_ms: int
    reason: str


class Sight:
    """All that pages show of one cluster; `run` keeps it up to date."""

    def __init__(self, options: StoreOptions) -> None:
        self.options = options
        self.cluster = ""
        self.partitions: dict[TopicIdPartition, SeenPartition] = {}
        """All that the store has, as far as they were listed."""
        self.is_listed = False
        """Whether they were all listed once."""
        self.on_screen: Sequence[TopicIdPartition] = ()
        """What a page has shown last; it is read before the others."""
        self.growth = Growth(WallClock().now_ms)
        """What the logs tell of the past, as far as they were read."""
        self.owners = PastOwners()
        """Who has owned the metadata since when."""
        self.view: ClusterView | None = None
        """The service; None before the first look."""
        self.blind: Blindness | None = None
        """Set while the store cannot be read."""
        self.service_blind: Blindness | None = None
        """Set while a service that runs does not answer."""
        self.version = 0
        """Grows with each change."""
        self._changed = asyncio.Event()
        self._told_s = -ROUND_S
        self._is_closed = False
        self._catalog: Catalog | None = None
        self._ends: dict[TopicIdPartition, str | None] = {}

    @property
    def catalog(self) -> Catalog:
        """The store, for pages about one partition.

        Raises:
            RemoteStorageError: It cannot be read now.
        """
        if self._catalog is None:
            reason = "it was not opened yet" if self.blind is None else self.blind.reason
            raise RemoteStorageError(f"the store cannot be read: {reason}")
        return self._catalog

    @property
    def in_trouble(self) -> set[tuple[str, int]]:
        """Topic id and number of the partitions that the service has trouble with."""
        if self.view is None or self.view.service is None:
            return set()
        return {one.key for one in self.view.service[1].partitions if one.trouble is not None}

    @property
    def behind(self) -> dict[tuple[str, int], int]:
        """By topic id and number: the most events that a follower is behind.

        As the service tells, and only of partitions that have a follower.
        """
        if self.view is None or self.view.service is None:
            return {}
        known = self.view.service[1].partitions
        return {one.key: one.lag_max for one in known if one.followers}

    async def changes(self) -> AsyncIterator[int]:
        """The version now, and each later one, until `close`."""
        while not self._is_closed:
            changed = self._changed
            yield self.version
            await changed.wait()

    def close(self) -> None:
        """End `changes`, so that nobody waits for another one."""
        self._is_closed = True
        self.tell()

    async def run(self) -> None:
        """Look until it is cancelled; a mistake of ours ends it, and pages say so."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._watch_store())
                tasks.create_task(self._watch_service())
                tasks.create_task(self._show_again())
        except* Exception as group:  # noqa: BLE001 - Whatever it is, pages have to say so.
            reason = f"the console has failed: {group.exceptions[0]!r}"
            self.blind = Blindness(WallClock().now_ms(), reason)
            self.tell()
            _log.error("the console has failed", exc_info=group)

    def tell(self) -> None:
        """Have open pages look for something newer."""
        self.version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    def _tell_sometimes(self) -> None:
        """Have open pages look, once a second at most: making one delays what it waits for."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._told_s >= ROUND_S:
            self._told_s = now_s
            self.tell()

    async def _show_again(self) -> None:
        while True:
            await asyncio.sleep(SHOWN_AGAIN_S)
            self.tell()

    async def _watch_store(self) -> None:
        while True:
            try:
                async with opened_catalog(self.options) as catalog:
                    self._catalog, self.cluster = catalog, catalog.cluster_id
                    await self._follow(catalog)
            except (RemoteStorageError, OSError) as error:
                if self.blind is None:
                    self.blind = Blindness(WallClock().now_ms(), str(error))
                    self.tell()
            finally:
                self._catalog = None
            await asyncio.sleep(SERVICE_S)

    async def _follow(self, catalog: Catalog) -> None:
        loop = asyncio.get_running_loop()
        tips: Sequence[TopicIdPartition] = ()
        listed_s = -LISTED_S
        while True:
            began_s = loop.time()
            if began_s - listed_s >= LISTED_S:
                tips = await self._list(catalog)
                self._sees()
                listed_s = loop.time()
            await self._renew(catalog, tips)
            is_news = await self.owners.read(catalog)
            is_news |= await self.growth.read(catalog, self._ends, HISTORY_S)
            if is_news:
                self.tell()
            self._sees()
            await asyncio.sleep(max(ROUND_S, SHARE * (loop.time() - began_s)))

    def _sees(self) -> None:
        if self.blind is not None:
            self.blind = None
            self.tell()

    async def _list(self, catalog: Catalog) -> Sequence[TopicIdPartition]:
        """All partitions by name; those that are new are shown before their logs are read."""
        tips: list[TopicIdPartition] = []
        new: list[TopicIdPartition] = []
        async for entry in catalog.partitions():
            if entry.is_forgotten:
                continue
            tips.append(entry.topic_id_partition)
            if tips[-1] not in self.partitions:
                new.append(tips[-1])
            if len(new) == KEYS_PER_READ:  # A long list is shown as it grows.
                await self._show_early(catalog, new)
                new = []
        if new:
            await self._show_early(catalog, new)
        gone = self.partitions.keys() - set(tips)
        for tip in gone:
            del self.partitions[tip]
            self._ends.pop(tip, None)
            self.growth.forget(tip)
        if gone or not self.is_listed:
            self.is_listed = True
            self.tell()
        return sorted(tips, key=lambda tip: (tip.topic, tip.partition))

    async def _show_early(self, catalog: Catalog, tips: Sequence[TopicIdPartition]) -> None:
        self.partitions |= {one.tip: one for one in await early_looks(catalog, tips)}
        self._tell_sometimes()

    async def _renew(self, catalog: Catalog, tips: Sequence[TopicIdPartition]) -> None:
        """Read the partitions whose logs have grown: first those on the screen."""
        left, is_news = dict.fromkeys(tips), False
        while left:
            shown = [tip for tip in self.on_screen if tip in left]
            some = shown or list(itertools.islice(left, KEYS_PER_READ))
            for tip in some:
                del left[tip]
            ends = await catalog.backend.last_keys([catalog.keys.log(tip) for tip in some])
            grown = [
                (tip, end)
                for tip, end in zip(some, ends, strict=True)
                if self.partitions[tip].is_early or self._ends.get(tip) != end
            ]
            for at in range(0, len(grown), READ_AT_ONCE):
                part = grown[at : at + READ_AT_ONCE]
                for seen in await asyncio.gather(
                    *(seen_partition(catalog, tip) for tip, _ in part)
                ):
                    self.partitions[seen.tip] = seen
                # The ends as they were before the partitions were read: what was appended
                # meanwhile makes them differ at the next look, and is not missed.
                self._ends |= part
            if grown:
                is_news = True
                self._tell_sometimes()
        if is_news:
            self.tell()

    async def _watch_service(self) -> None:
        options = StatusOptions(self.options, limit=None, is_repeated=True)
        shown: object = None
        while True:
            try:
                self.view = await take_look(options)
                self.service_blind = None
            except (RemoteStorageError, OSError) as error:
                if self.service_blind is None:
                    self.service_blind = Blindness(WallClock().now_ms(), str(error))
            now = _told(self.view), self.service_blind
            if now != shown:
                shown = now
                self.tell()
            await asyncio.sleep(MOVING_S if self._is_moving else SERVICE_S)

    @property
    def coordinator(self) -> dict[str, Any] | None:
        """The coordinator's status; None if no service runs, or it does not answer."""
        if self.view is None or self.view.service is None:
            return None
        return self.view.service[1].coordinator

    @property
    def _is_moving(self) -> bool:
        known = self.coordinator
        if known is None:
            return False
        told = known["move"]
        if told is not None and not told["outcome"] and told["heard_ms_ago"] <= GONE_MS:
            return True
        return bool(known["owner"] == Owner.MOVING)


async def early_looks(
    catalog: Catalog, tips: Sequence[TopicIdPartition]
) -> list[SeenPartition]:
    """What is known of partitions by one request: names, and what their checkpoints begin with.

    That is neither compared with the log nor the newest.
    """
    stored = await catalog.backend.get_each([catalog.keys.partition(tip) for tip in tips])
    return [_early(catalog, *one) for one in zip(tips, stored, strict=True)]


def _early(catalog: Catalog, tip: TopicIdPartition, stored: bytes | None) -> SeenPartition:
    summary, kept = None, 0
    if stored is not None:
        checkpoints = catalog.reader(tip).checkpoints
        with suppress(DataError):  # Who reads the log tells what is wrong.
            value = checkpoints.parse_partition(stored)
            summary = summary_of(checkpoints.blank(value))
            kept = sum(size for _, _, size, _ in value.kept)
    return SeenPartition(tip, summary, kept, is_early=True)


async def seen_partition(catalog: Catalog, tip: TopicIdPartition) -> SeenPartition:
    """The partition as it is now."""

    def question(state: PartitionState) -> tuple[Summary, int]:
        return summary_of(state), len(state.kept)

    try:
        summary, kept = await ask(catalog.reader(tip), question)
    except RemoteStorageError as error:
        return SeenPartition(tip, None, 0, str(error))
    return SeenPartition(tip, summary, kept)


def _told(view: ClusterView | None) -> object:
    """What of a look at the service is new to somebody who reads the page."""
    if view is None:
        return None
    troubles = [(one.code, one.subject, one.text) for one in view.troubles]
    if view.service is None:
        return troubles
    status = view.service[1]
    hosts = [(one.name, one.is_up, one.leaders, one.followers) for one in status.hosts]
    known = status.coordinator
    return troubles, hosts, None if known is None else _told_of(known)


def _told_of(known: Mapping[str, Any]) -> object:
    """What pages show of the coordinator's status, to be compared with what it was before."""
    plugins = [
        tuple(one[name] for name in ("broker_id", "mode", "owner_epoch", "is_idle", "trouble"))
        for one in known["attending"]
    ]
    shadows = [(one["verification"], one["standing"]) for one in known["shadows"]]
    following = known["kafka"] or {}
    kafka = following.get("task"), following.get("trouble"), bool(following.get("round"))
    told = known["move"] or {}  # None of an older service.
    move = tuple(told.get(name) for name in ("phase", "comparisons", "waits", "outcome"))
    return known["owner"], known["owner_epoch"], plugins, shadows, kafka, move

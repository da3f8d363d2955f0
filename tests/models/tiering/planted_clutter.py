"""Dead weight and traps, planted at random where some partitions are in trouble."""

import asyncio
import os
from collections.abc import Callable
from typing import NamedTuple

from tests.models.tiering.cluttered_tier import (
    COPYING,
    DELETED,
    DELETING,
    FINISHED,
    FIRST,
    SEGMENTS,
    ClutteredPart,
    ClutteredTier,
    moved,
)
from tierledger.actors.coordinator.events import HoldPlaced
from tierledger.actors.holds import Hold
from tierledger.actors.wall_clock import WallClock
from tierledger.events import log_events as log
from tierledger.events.identifiers import Uuid
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.storage.backends.sqlite.backend import SqliteBackend
from tierledger.tiering.quarantine import FOLDER

END = FIRST + 10 * SEGMENTS
"""The first offset that no segment of a partition has."""

HOUR_MS = 3_600_000

OBJECTS, EVENTS = "objects", "events"
"""How a clean-up ends it, if it is dead weight."""


class Mood(NamedTuple):
    """What is the matter with a partition, and what may be cleaned up there nevertheless."""

    name: str
    ends: frozenset[str]
    weight: int


MOODS = (
    Mood("well", frozenset({OBJECTS, EVENTS}), 8),
    Mood("led", frozenset({OBJECTS}), 4),
    Mood("lacks an object", frozenset({EVENTS}), 1),
    Mood("held", frozenset(), 1),
    Mood("damaged", frozenset(), 1),
    Mood("has a hole", frozenset(), 1),
    Mood("ahead of time", frozenset(), 1),
    Mood("an import", frozenset(), 1),
)


class Clutter:
    """Plants damages, and knows which of them are dead weight."""

    def __init__(self, world: ClutteredTier) -> None:
        self.world = world
        self.random = world.random
        self.now_ms = WallClock().now_ms()
        often = self.random.choices(
            MOODS, [one.weight for one in MOODS], k=len(world.parts) - len(MOODS)
        )
        self.moods = dict(zip(world.parts, (*MOODS, *often), strict=True))
        self.dead: set[bytes] = set()
        """Ids of segments that are dead weight."""
        self.trashed: set[bytes] = set()
        """Ids of finished segments that go into the trash, with all their objects."""
        self.led: set[bytes] = set()
        """Ids of segments that are dead weight, and that only a service ends."""
        self.live: dict[str, bytes] = {}
        """Objects that nobody may touch."""
        self._regions = 0
        self._bodies: dict[ClutteredPart, list[log.Body]] = {part: [] for part in world.parts}

    async def plant(self, damages: int) -> None:
        for _ in range(damages):
            part = self.random.choice(self.world.parts)
            self.random.choice(PLANTS)(self, part)
        backend = await SqliteBackend.open(self.world.path)
        for part, bodies in self._bodies.items():
            mood = self.moods[part].name
            part.stored.backend = backend
            await part.stored.append(bodies)
            if mood != "led":
                await part.stored.close()
            if mood == "ahead of time":
                await part.stored.open(time_ms=self.now_ms + HOUR_MS)
                await part.stored.close(time_ms=self.now_ms + HOUR_MS)
            if mood == "an import":
                await part.stored.open(imports=True)
                await part.stored.close()
            if mood == "damaged":
                await part.stored.flip(part.stored.next_batch - 1)
            if mood == "has a hole":
                await part.stored.lose(1)
            if mood == "lacks an object":
                self.random.choice(self.world.finished_objects(part)).unlink()
        await backend.close()
        held = [part.tip.topic for part, one in self.moods.items() if one.name == "held"]
        if held:
            holds = [Hold(f"h-{one}", one, reason="a case", by="somebody") for one in held]
            await self.world.coordinator(*(HoldPlaced(*one) for one in holds))
        dead = {str(Uuid(one)) for one in self.dead}
        self.live = {
            name: content
            for name, content in self.world.objects().items()
            if not any(part[-22:] in dead for part in name.split("/")[:-1])
        }

    def note(self, part: ClutteredPart, bodies: list[log.Body], ends: str = "") -> None:
        """Note events for later, and the last segment as dead weight if the mood allows it."""
        self._bodies[part] += bodies
        if ends in self.moods[part].ends:
            self.dead.add(bytes(self.world.last.remote_log_segment_id.id))
        elif ends == EVENTS and self.moods[part].name == "led":
            self.led.add(bytes(self.world.last.remote_log_segment_id.id))

    def region(self) -> int:
        """The start of offsets that nothing else has."""
        self._regions += 1
        return 100_000_000 + 1000 * self._regions

    def offset(self) -> int:
        """The start of a segment that is finished, or was deleted."""
        return self.random.randrange(END // 10) * 10


Plant = Callable[[Clutter, ClutteredPart], None]


def an_orphan(at: Clutter, part: ClutteredPart) -> None:
    at.note(part, at.world.life(part, at.offset(), None, objects=True, is_old=True), OBJECTS)


def an_orphan_of_which_the_log_tells_nothing(at: Clutter, part: ClutteredPart) -> None:
    """As all that was copied after the backup from which a store was restored."""
    start = END + 10_000 * at.random.randrange(1, 100)
    at.world.life(part, start, None, objects=True, is_old=True)


def a_stuck(state: RemoteLogSegmentState, *, objects: bool) -> Plant:
    def planted(at: Clutter, part: ClutteredPart) -> None:
        bodies = at.world.life(part, END + at.offset(), state, objects=objects, is_old=True)
        at.note(part, bodies, EVENTS)

    return planted


def a_copy_under_way(at: Clutter, part: ClutteredPart) -> None:
    """Log time is that of an earlier event, as after a host's clock was ahead."""
    time_ms = at.now_ms - at.random.randrange(23 * HOUR_MS)
    bodies = at.world.life(part, END, COPYING, time_ms=time_ms, is_old=True)
    at.note(part, bodies)


def a_slow_copy(at: Clutter, part: ClutteredPart) -> None:
    """It began long ago, and its last object was written just now."""
    at.note(part, at.world.life(part, END, at.random.choice((COPYING, DELETING))))


def leavings(at: Clutter, part: ClutteredPart) -> None:
    bodies = at.world.life(part, at.offset(), DELETED, objects=True, is_old=True)
    at.note(part, bodies, OBJECTS)


def young_leavings(at: Clutter, part: ClutteredPart) -> None:
    at.note(part, at.world.life(part, at.offset(), DELETED, objects=True))


def trash(at: Clutter, part: ClutteredPart) -> None:
    until_ms = at.random.choice((1, at.now_ms + HOUR_MS))
    bodies = at.world.life(part, at.offset(), DELETING, is_old=True, kept_until_ms=until_ms)
    at.note(part, bodies)


def superseded(at: Clutter, part: ClutteredPart) -> None:
    """Kafka's tables still list the first of two."""
    start = at.region()
    for _ in range(2):
        at.note(part, at.world.life(part, start, FINISHED, is_old=True))


def lost(*, is_served: bool) -> Plant:
    """A segment that a shorter one has thrown out of Kafka's tables."""

    def planted(at: Clutter, part: ClutteredPart) -> None:
        start = at.region()
        at.note(part, at.world.life(part, start, FINISHED, is_old=True, offsets=20))
        loser = bytes(at.world.last.remote_log_segment_id.id)
        at.note(part, at.world.life(part, start, FINISHED, is_old=True))
        if is_served:
            at.note(part, at.world.life(part, start + 10, FINISHED, is_old=True))
            if at.moods[part].name in {"well", "led"}:
                (at.trashed if at.moods[part].name == "well" else at.led).add(loser)

    return planted


def misplaced(at: Clutter, part: ClutteredPart) -> None:
    """Objects with the id of a segment that lives, in another place."""
    bodies = at.world.life(part, at.region(), FINISHED, is_old=True)
    at.world.put(moved(at.world.last, END + 70), is_old=True)
    at.note(part, bodies)


def another_clusters(at: Clutter, part: ClutteredPart) -> None:
    other = part.tip.__class__(at.world.id(), part.tip.partition, part.tip.topic)
    at.world.life(
        ClutteredPart(part.stored, other), at.offset(), None, objects=True, is_old=True
    )


def another_prefix(at: Clutter, part: ClutteredPart) -> None:
    at.world.prefix = "backup"
    at.world.life(part, at.offset(), None, objects=True, is_old=True)
    at.world.prefix = ""


def a_strange_name(at: Clutter, part: ClutteredPart) -> None:
    """Beside objects that live, what only looks like one of them."""
    path = at.random.choice(at.world.finished_objects(part))
    name = at.random.choice(
        (
            f"{path.name}.tmp",
            path.name.upper(),
            "log.0000",
            "log.000000x",
            "Indexes",
            ".indexes",
        )
    )
    strange = path.with_name(name)
    strange.write_bytes(b"?")
    os.utime(strange, (1, 1))


def in_quarantine_by_nobody(at: Clutter, part: ClutteredPart) -> None:
    folder = at.world.root / FOLDER / "0123456789abcdef" / "objects" / part.tip.topic
    folder.mkdir(parents=True, exist_ok=True)
    (folder / str(at.world.id())).write_bytes(b"?")


PLANTS: tuple[Plant, ...] = (
    an_orphan,
    an_orphan,
    an_orphan_of_which_the_log_tells_nothing,
    a_stuck(COPYING, objects=True),
    a_stuck(COPYING, objects=False),
    a_stuck(DELETING, objects=True),
    a_stuck(DELETING, objects=False),
    a_copy_under_way,
    a_slow_copy,
    leavings,
    young_leavings,
    trash,
    superseded,
    lost(is_served=True),
    lost(is_served=False),
    misplaced,
    another_clusters,
    another_prefix,
    a_strange_name,
    in_quarantine_by_nobody,
)


def planted(world: ClutteredTier, damages: int) -> Clutter:
    clutter = Clutter(world)
    asyncio.run(clutter.plant(damages))
    return clutter

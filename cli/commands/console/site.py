"""The pages of the console, as an ASGI application. It only reads."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections import Counter, defaultdict
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route

from tierledger.actors.wall_clock import WallClock
from tierledger.cli.commands.console.answers import Answers
from tierledger.cli.commands.console.first_look import EVENTS_MIN, checkpointed, first_look
from tierledger.cli.commands.console.gate import HEADERS, WHY_OUT
from tierledger.cli.commands.console.histories import Histories
from tierledger.cli.commands.console.move_view import move_view
from tierledger.cli.commands.console.over_time import SPANS, over_time
from tierledger.cli.commands.console.sight import seen_partition
from tierledger.cli.commands.log import plain_event
from tierledger.cli.commands.status.view import Screen, holds_table, page_of, plugins_table
from tierledger.cli.commands.trash import kept_segments, until_cell
from tierledger.cli.options import parse_point
from tierledger.cli.pages.jobs.strips import ValueBar, bars
from tierledger.cli.pages.report.model import PartitionLog, picture_of
from tierledger.cli.pages.report.page import KINDS, sections_of
from tierledger.cli.pages.stamp import stamp_of
from tierledger.events.errors import (
    DataError,
    RejectedError,
    RemoteResourceNotFound,
    RemoteStorageError,
)
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.log_events import SegmentAdded, SegmentKept, SegmentUpdated
from tierledger.events.partition.evolve import evolve
from tierledger.events.partition.state import PartitionState
from tierledger.events.tables.segment_rows import END, SIZE, START, unpack_row
from tierledger.events.typed_fields import time_text
from tierledger.events.vocabulary import WORDS, Look
from tierledger.pages.environment import render
from tierledger.pages.texts import anchors, many, size_text
from tierledger.storage.catalog import FoundTopic

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from tierledger.cli.commands.console.sight import SeenPartition, Sight
    from tierledger.cli.pages.report.model import Picture
    from tierledger.events.log_events import Event

PAGES: Final = {
    "/": "Cluster",
    "/partitions": "Partitions",
    "/trash": "Trash and holds",
    "/move": "Owner and moves",
}

ROWS: Final = 200
"""Partitions of a page of the list."""

EVENTS: Final = 100
"""Events of a log that a page shows."""

TIMES: Final = 200
"""Log times that the slider of a partition knows before it is let go."""

CHANGES: Final = 100
"""Changes of the owner that a page shows, the newest."""

TOPICS: Final = 25
"""Topics that are drawn."""

ALIVE_S: Final = 15.0
"""The longest silence of the stream that tells of changes; proxies end silent ones."""

RETRY_MS: Final = 1000
"""After so long a page whose stream broke asks for it again."""

LOOK_S: Final = 1.0
"""How long an open page may go unanswered about a session that has ended."""

FIELD_MAX: Final = 60
"""Characters of a field of an event."""

_NOT_FIELDS: Final = frozenset(
    {"position", "session", "log_time_ms", "request_id_hex", "type", "id"}
    | {"source", "event_timestamp_ms", "txn_index_empty", "has_unknown_tags"}
)
"""What is left out of an event's fields: it has a column, or tells a reader little."""


class ListedPartition(NamedTuple):
    """A partition of the list, with what its own log does not tell."""

    seen: SeenPartition
    copied_ms: int | None
    """When its newest copy has finished; None: none has, or its log was not read yet."""
    behind: int | None
    """Events that a follower is behind; None: it has none, or no service runs."""


ORDERS: Final[Mapping[str, Callable[[ListedPartition], Any]]] = {
    "name": lambda one: (one.seen.tip.topic, one.seen.tip.partition),
    "leader": lambda one: _summed(one, lambda found: found.leader.whole),
    "copying": lambda one: _summed(one, lambda found: found.counts[0]),
    "finished": lambda one: _summed(one, lambda found: found.counts[1]),
    "deleting": lambda one: _summed(one, lambda found: found.counts[2]),
    "size": lambda one: _summed(one, lambda found: sum(found.sizes)),
    "kept": lambda one: one.seen.kept,
    "copied": lambda one: -1 if one.copied_ms is None else one.copied_ms,
    "behind": lambda one: -1 if one.behind is None else one.behind,
    "position": lambda one: _summed(one, lambda found: found.position),
    "changed": lambda one: _summed(one, lambda found: found.log_time_ms),
}
"""By what the list of partitions is ordered."""

COLUMNS: Final = {
    "partition": "name",
    "leader": "leader",
    "copying": "copying",
    "finished": "finished",
    "deleting": "deleting",
    "bytes": "size",
    "in the trash": "kept",
    "newest copy": "copied",
    "followers behind": "behind",
    "position": "position",
    "last event": "changed",
}
"""Columns of the list, and by what each orders it."""


def _begins_down(key: str, asked: ListedPart) -> bool:
    """Whether a click on a column shows its last first: the most, and then the other way."""
    return not asked.is_down if key == asked.sort else key not in {"name", "leader"}


def _summed(one: ListedPartition, of: Callable[[Any], Any]) -> tuple[bool, Any]:
    summary = one.seen.summary
    return (False, 0) if summary is None else (True, of(summary))


class ListedPart(NamedTuple):
    """What of the list of partitions is asked for, as it stands in the address."""

    find: str = ""
    sort: str = "name"
    is_down: bool = False
    look: bool = False
    """Only partitions that need a look."""
    start: int = 0

    @classmethod
    def of(cls, query: Mapping[str, str]) -> ListedPart:
        sort = query.get("sort", "name")
        return cls(
            query.get("find", "")[:300],
            sort if sort in ORDERS else "name",
            "down" in query,
            "look" in query,
            _number(query.get("from")) or 0,
        )

    def link(self) -> str:
        given = {
            "find": self.find,
            "sort": self.sort if self.sort != "name" else "",
            "down": "1" if self.is_down else "",
            "look": "1" if self.look else "",
            "from": str(self.start) if self.start else "",
        }
        query = urlencode({name: value for name, value in given.items() if value})
        return f"/partitions?{query}" if query else "/partitions"


class Site:
    """The console's pages about what `sight` has seen."""

    def __init__(self, sight: Sight, *, has_sessions: bool = False) -> None:
        self._sight = sight
        self._has_sessions = has_sessions
        self._histories = Histories()
        self._answers = Answers(sight.tell)

    def app(self) -> Starlette:
        routes = [
            Route("/", self._answering(self._cluster)),
            Route("/partitions", self._answering(self._partitions)),
            Route(
                "/partitions/{topic_id}/{number:int}",
                self._answering(self._partition, self._first),
            ),
            Route("/trash", self._answering(self._trash)),
            Route("/move", self._answering(self._move)),
            Route("/live", self._live),
            Route("/favicon.ico", lambda _: Response(status_code=204)),
        ]
        return Starlette(
            routes=routes, lifespan=self._lifespan, exception_handlers={404: self._missing}
        )

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        looking = asyncio.create_task(self._sight.run())
        try:
            yield
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking

    def _answering(
        self,
        make: Callable[[Request], Any],
        first: Callable[[Request], Awaitable[str | None]] | None = None,
    ) -> Callable[[Request], Any]:
        """A page that is not made twice of the same.

        `first` may give a page to look at while the other is made.
        """

        async def answer(request: Request) -> Response:
            address, answers = f"{request.url.path}?{request.url.query}", self._answers
            made = partial(make, request)
            try:
                if first is not None and not answers.is_known(address):
                    page = await first(request)
                    if page is not None:
                        answers.begin(address, made, is_awaited=False)
                        headers = {"Cache-Control": "no-store", **HEADERS}
                        return HTMLResponse(page, headers=headers)
                newest = await answers.newest(address, made)
            except RemoteStorageError as error:
                status = 404 if isinstance(error, RejectedError) else 503
                return self._message(request, str(error), status)
            tag = f'"{hashlib.blake2b(newest.of.encode(), digest_size=12).hexdigest()}"'
            headers = {"ETag": tag, "Cache-Control": "no-cache", **HEADERS}
            if request.headers.get("if-none-match") == tag:
                return Response(status_code=304, headers=headers)
            return HTMLResponse(newest.html, headers=headers)

        return answer

    def _message(self, request: Request, text: str, status: int) -> Response:
        shown = {"title": "Not to be shown", "message": text, **self._frame(request)}
        page = render("console_missing.html", **shown)
        return HTMLResponse(page, status, headers=HEADERS)

    async def _missing(self, request: Request, _: Exception) -> Response:
        return self._message(request, f"There is no page {request.url.path}.", 404)

    def _frame(self, request: Request) -> dict[str, object]:
        sight = self._sight
        return {
            "stamp": stamp_of(sight.options.store),
            "pages": PAGES,
            "here": request.url.path,
            "blind": sight.blind or sight.service_blind,
            "words": WORDS,
            "kinds": KINDS,
            "has_sessions": self._has_sessions,
        }

    async def _live(self, request: Request) -> Response:
        """A stream of the versions of what was seen."""
        return StreamingResponse(
            self._versions(request), media_type="text/event-stream", headers=HEADERS
        )

    async def _versions(self, request: Request) -> AsyncIterator[str]:
        why_out, silent_s = request.scope.get(WHY_OUT, lambda: None), 0.0
        changes = aiter(self._sight.changes())
        coming = asyncio.ensure_future(anext(changes))
        try:
            yield f"retry: {RETRY_MS}\n\n"
            while not await request.is_disconnected():
                await asyncio.wait([coming], timeout=LOOK_S)
                if (reason := why_out()) is not None:
                    yield f"event: out\ndata: {reason}\n\n"
                    return
                if not coming.done():
                    silent_s += LOOK_S
                    if silent_s >= ALIVE_S:
                        silent_s = 0.0
                        yield ": still here\n\n"
                    continue
                silent_s = 0.0
                try:
                    version = await coming
                except StopAsyncIteration:
                    return
                yield f"data: {version}\n\n"
                coming = asyncio.ensure_future(anext(changes))
        finally:
            coming.cancel()

    async def _cluster(self, request: Request) -> tuple[str, Callable[[], str]]:
        sight, growth = self._sight, self._sight.growth
        seen = list(sight.partitions.values())
        span = request.query_params.get("over", "")
        span = span if span in SPANS else next(iter(SPANS))
        columns, now_ms = growth.columns(span), WallClock().now_ms()

        def page() -> str:
            view = sight.view
            screen: Screen | None = None
            if view is not None and view.service is not None:
                screen = page_of(*view.service, limit=20, left=view.left or ())
            rows, topics = _topic_bars(seen)
            return render(
                "console_cluster.html",
                cluster=sight.cluster or "not known yet",
                is_seen=view is not None,
                troubles=[] if view is None else view.troubles,
                is_listed=sight.is_listed,
                listed=len(seen),
                seen=_read(seen),
                totals=_totals(seen),
                newest_ms=self._newest_copy_ago(seen, now_ms),
                bars=rows,
                topics=topics,
                spans=SPANS,
                span=span,
                moved=over_time(columns, now_ms),
                told=sum(growth.is_read(one.tip) for one in seen),
                screen=screen,
                **self._frame(request),
            )

        return f"cluster {sight.version} {span}", page

    def _newest_copy_ago(self, seen: Sequence[SeenPartition], now_ms: int) -> int | None:
        """The age of the newest copy of all; None if none is known."""
        copied = [self._sight.growth.copied_ms(one.tip) for one in seen]
        newest = max((one for one in copied if one is not None), default=None)
        return None if newest is None else max(now_ms - newest, 0)

    async def _partitions(self, request: Request) -> tuple[str, Callable[[], str]]:
        sight, asked = self._sight, ListedPart.of(request.query_params)
        seen = list(sight.partitions.values())
        copied_ms = sight.growth.copied_ms

        def page() -> str:
            wanted, troubled, lags = asked.find.lower(), sight.in_trouble, sight.behind
            found = [
                ListedPartition(one, copied_ms(one.tip), lags.get(_key(one)))
                for one in seen
                if (not wanted or wanted in f"{one.name} {one.tip.topic_id}".lower())
                and (not asked.look or _needs_a_look(one, troubled))
            ]
            found.sort(key=ORDERS[asked.sort], reverse=asked.is_down)
            part = found[asked.start : asked.start + ROWS]
            sight.on_screen = [one.seen.tip for one in part]
            behind = asked.start + ROWS
            before = max(asked.start - ROWS, 0)
            return render(
                "console_partitions.html",
                asked=asked,
                columns=COLUMNS,
                link_for=lambda key: asked._replace(
                    sort=key, is_down=_begins_down(key, asked), start=0
                ).link(),
                rows=_rows(part),
                now_ms=WallClock().now_ms(),
                found=len(found),
                is_listed=sight.is_listed,
                listed=len(seen),
                seen=_read(seen),
                start=asked.start,
                earlier=asked._replace(start=before).link() if asked.start else None,
                later=asked._replace(start=behind).link() if behind < len(found) else None,
                **self._frame(request),
            )

        return f"partitions {sight.version}", page

    async def _first(self, request: Request) -> str | None:
        """A first look at a partition whose log takes long to read; None for others."""
        tip, catalog = await self._named(request), self._sight.catalog
        seen = self._sight.partitions.get(tip)
        if seen is None or seen.is_early:
            seen = await seen_partition(catalog, tip)
        found = seen.summary
        if found is None or self._histories.behind(tip, found.position) < EVENTS_MIN:
            return None
        look = None
        with suppress(DataError):  # The log tells what is wrong, if it is the log.
            state = await checkpointed(catalog.reader(tip), found.position)
            look = None if state is None else await asyncio.to_thread(first_look, state)
        return render(
            "console_first_look.html",
            name=seen.name,
            events=found.position + 1,
            counts=found.counts,
            size=sum(found.sizes),
            look=look,
            **self._frame(request),
        )

    async def _partition(self, request: Request) -> tuple[str, Callable[[], str]]:
        tip = await self._named(request)
        events = await self._histories.events(self._sight.catalog, tip)
        if not events:
            raise RemoteResourceNotFound(f"{tip} has no event yet")
        query = request.query_params
        newest = events[-1].position
        asked = _moment(query, events)
        at = newest if asked is None else min(asked, newest)
        since = _number(query.get("since"))
        segment = query.get("segment", "").strip()
        seen = self._sight.partitions.get(tip)
        kept = 0 if seen is None else seen.kept

        def page() -> str:
            then = [one for one in events if one.position <= at]
            picture = picture_of(PartitionLog(tip, then))
            shown = [one for one in then if not segment or _is_about(one, segment)]
            return render(
                "console_partition.html",
                section=sections_of([picture])[0],
                shared_names=set[str](),
                link=_link(tip),
                newest=newest,
                times=_sampled_times(events),
                at=at,
                as_of=query.get("as_of", "").strip(),
                then_ms=then[-1].log_time_ms,
                is_now=asked is None or at == newest,
                since=since,
                changes=None if since is None else _changes(then, since),
                size_change=None if since is None else _size_change(picture, then, since),
                segment=segment,
                events=[_event_row(one) for one in shown[: -EVENTS - 1 : -1]],
                more=max(len(shown) - EVENTS, 0),
                kept=kept,
                **self._frame(request),
            )

        return f"{tip} {newest} {at} {since} {kept} {self._blindness}", page

    @property
    def _blindness(self) -> str:
        sight = self._sight
        return f"{sight.blind} {sight.service_blind}"

    async def _trash(self, request: Request) -> tuple[str, Callable[[], str]]:
        sight = self._sight
        kept = [one.tip for one in sight.partitions.values() if one.kept]
        rows = [await self._kept_row(tip) for tip in kept[:ROWS]]
        view = sight.view
        is_read = sight.is_listed and not any(one.is_early for one in sight.partitions.values())

        def page() -> str:
            service = None if view is None else view.service
            holds = None if service is None else holds_table(service[1])
            return render(
                "console_trash.html",
                is_seen=view is not None,
                is_read=is_read,
                holds=holds,
                rows=[one for one in rows if one is not None],
                **self._frame(request),
            )

        return f"trash {sight.version}", page

    async def _move(self, request: Request) -> tuple[str, Callable[[], str]]:
        sight = self._sight
        changes = list(sight.owners.changes)

        def page() -> str:
            view = sight.view
            service = None if view is None else view.service
            return render(
                "console_move.html",
                move=move_view(sight.coordinator, changes),
                plugins=None if service is None else plugins_table(service[1]),
                changes=changes[: -CHANGES - 1 : -1],
                damage=sight.owners.damage,
                now_ms=WallClock().now_ms(),
                **self._frame(request),
            )

        return f"move {sight.version}", page

    async def _kept_row(self, tip: TopicIdPartition) -> dict[str, object] | None:
        try:
            state = (await self._sight.catalog.reader(tip).state()).state
        except DataError:
            return None  # The list of partitions says so.
        kept = kept_segments(state)
        if not kept:
            return None
        rows = [unpack_row(one.row) for one in kept]
        until = until_cell(min(one.until_ms for one in kept))
        return {
            "name": f"{tip.topic}-{tip.partition}",
            "link": _link(tip),
            "segments": len(kept),
            "size": sum(row[SIZE] for row in rows),
            "first": min(row[START] for row in rows),
            "last": max(row[END] for row in rows),
            "deleted_ms": min(one.log_time_ms for one in kept),
            "until": getattr(until, "whole", until),
            "why": kept[0].reason,
        }

    async def _named(self, request: Request) -> TopicIdPartition:
        """The partition in the address.

        Raises:
            RemoteResourceNotFound: The store has none like that.
        """
        given, number = request.path_params["topic_id"], request.path_params["number"]
        topic = FoundTopic(Uuid.parse(given), given, ())
        return await self._sight.catalog.partition(topic, number)


def _number(text: str | None) -> int | None:
    """A position in an address; None if there is none, or it is no number."""
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > 18:
        return None
    return int(text)


def _moment(query: Mapping[str, str], events: Sequence[Event]) -> int | None:
    """The position that is asked for, by itself or by a time; None for the newest.

    Raises:
        InvalidArgument: The time is none.
        RemoteResourceNotFound: The log began later.
    """
    text = query.get("as_of", "").strip()
    if not text:
        return _number(query.get("at"))
    point = parse_point(text, "as of")
    then = [one.position for one in events if point.holds(one.position, one.log_time_ms)]
    if not then:
        began = time_text(events[0].log_time_ms)
        raise RemoteResourceNotFound(
            f"nothing is known as of {text}: the log begins at {began}"
        )
    return then[-1]


def _sampled_times(events: Sequence[Event]) -> str:
    """Positions with their log times (ms), evenly over the log, for a slider that moves."""
    step = max(len(events) // TIMES, 1)
    return " ".join(f"{one.position} {one.log_time_ms}" for one in events[::step])


def _link(tip: TopicIdPartition) -> str:
    return f"/partitions/{tip.topic_id}/{tip.partition}"


def _needs_a_look(one: SeenPartition, troubled: set[tuple[str, int]]) -> bool:
    """Whether it cannot be read, something of it is being deleted, or the service says so."""
    is_deleting = one.summary is not None and one.summary.counts[2] > 0
    return one.error is not None or is_deleting or _key(one) in troubled


def _read(seen: Sequence[SeenPartition]) -> int:
    """How many partitions were read."""
    return sum(not one.is_early for one in seen)


def _key(one: SeenPartition) -> tuple[str, int]:
    """By what the service names it."""
    return str(one.tip.topic_id), one.tip.partition


def _rows(part: Sequence[ListedPartition]) -> list[dict[str, object]]:
    ids = anchors(one.seen.name for one in part)
    rows: list[dict[str, object]] = []
    for name, (one, copied_ms, behind) in zip(ids, part, strict=True):
        found = one.summary
        row: dict[str, object] = {
            "anchor": name,
            "name": one.name,
            "link": _link(one.tip),
            "summary": found,
            "error": one.error,
            "is_early": one.is_early,
        }
        if found is not None:
            row |= {
                "leader": found.leader.whole,
                "counts": found.counts,
                "size": sum(found.sizes),
                "kept": one.kept,
                "copied_ms": copied_ms,
                "behind": behind,
                "position": found.position,
                "changed_ms": found.log_time_ms,
            }
        rows.append(row)
    return rows


def _totals(seen: Sequence[SeenPartition]) -> dict[str, int]:
    known = [one.summary for one in seen if one.summary is not None]
    return {
        "segments": sum(one.counts[1] for one in known),
        "size": sum(one.sizes[1] for one in known),
        "copying": sum(one.counts[0] for one in known),
        "deleting": sum(one.counts[2] for one in known),
        "kept": sum(one.kept for one in seen),
        "damaged": sum(one.error is not None for one in seen),
    }


def _topic_bars(seen: Sequence[SeenPartition]) -> tuple[list[Any], int]:
    """The largest topics, drawn, and how many topics there are."""
    sizes, counts = Counter[str](), defaultdict[str, int](int)
    for one in seen:
        if one.summary is not None and one.summary.counts[1]:
            sizes[one.tip.topic] += one.summary.sizes[1]
            counts[one.tip.topic] += 1
    made = [
        ValueBar(topic, many(counts[topic], "partition"), size, size_text(size), Look.GOOD)
        for topic, size in sizes.most_common(TOPICS)
    ]
    return bars(made), len(sizes)


def _segment_of(event: Event) -> str | None:
    segment_id = getattr(event.body, "segment_id", None)
    return None if segment_id is None else str(Uuid(segment_id))


def _is_about(event: Event, segment: str) -> bool:
    found = _segment_of(event)
    return found is not None and found.startswith(segment)


def _event_row(event: Event) -> dict[str, object]:
    plain = plain_event(event)
    fields = [
        f"{name}={str(value)[:FIELD_MAX]}"
        for name, value in plain.items()
        if name not in _NOT_FIELDS and value is not None
    ]
    return {
        "position": event.position,
        "time_ms": event.log_time_ms,
        "kind": plain["type"],
        "segment": _segment_of(event),
        "fields": " ".join(fields),
    }


def _changes(then: Sequence[Event], since: int) -> dict[str, int]:
    """What the events behind a position did, each kind with its number."""
    found = Counter[str]()
    for event in then:
        if event.position <= since:
            continue
        match event.body:
            case SegmentAdded():
                found["copies begun"] += 1
            case SegmentUpdated(state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED):
                found["copied"] += 1
            case SegmentUpdated(state=RemoteLogSegmentState.DELETE_SEGMENT_FINISHED):
                found["deleted"] += 1
            case SegmentKept():
                found["into the trash"] += 1
            case _:
                pass  # Of leaders, or of something that began.
        found["events"] += 1
    return dict(found)


def _size_change(picture: Picture, then: Sequence[Event], since: int) -> str:
    """By how much the bytes of the picture of `then` differ from those at `since`."""
    before = PartitionState(picture.topic_id_partition, b"")
    for event in itertools.takewhile(lambda one: one.position <= since, then):
        evolve(before, event)
    change = picture.size - sum(before.bytes_by_state)
    return f"{'-' if change < 0 else '+'}{size_text(abs(change))}"

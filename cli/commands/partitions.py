"""`ls` and `describe`: the partitions, and the state of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from msgspec.structs import replace

from tierledger.cli.brokers import broker_text
from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.opened_store import (
    StoreOptions,
    ask_timed,
    found_partition,
    found_topic,
    note_ahead,
    note_later,
    opened_catalog,
)
from tierledger.cli.options import (
    AsOfOption,
    ClusterOption,
    JsonOption,
    PartitionIfAnyArgument,
    StoreOption,
    parse_as_of,
)
from tierledger.cli.output import print_json, print_note, print_pairs
from tierledger.cli.table import Cell, PrintedTable, WideOption, id_cell, print_table, size_cell
from tierledger.cli.topics import TopicArgument
from tierledger.events.errors import (
    DataError,
    InvalidArgument,
    RemoteResourceNotFound,
    StoreRefused,
)
from tierledger.events.lifecycle import RemoteLogSegmentState, RemotePartitionDeleteState
from tierledger.events.typed_fields import time_text
from tierledger.pages.texts import size_text

if TYPE_CHECKING:
    from tierledger.events.identifiers import TopicIdPartition
    from tierledger.events.partition.state import PartitionState, Session
    from tierledger.storage.catalog import Catalog

KEPT_STATES = tuple(RemoteLogSegmentState)[:3]
"""The states of stored segments; a segment that reaches the fourth state is gone."""


LIST_COLUMNS = (
    "topic",
    "id",
    "partition",
    "copying",
    "finished",
    "deleting",
    "bytes",
    "leader",
    "position",
)
EPOCHS_SPARE = ("lost by kafka", "unreferenced")
AHEAD_SHOWN = 10
"""Logs whose time is ahead of now that `ls` names, the furthest first."""

LIST_SPARE = ("position", "copying", "id", "deleting", "leader")


class Summary(NamedTuple):
    """The state of a partition in numbers."""

    counts: list[int]
    sizes: list[int]
    session: Session | None
    delete_state: int | None
    position: int
    log_time_ms: int
    log_time_ahead_ms: int = 0
    """By how much the log's time is ahead of now: a clock was wrong."""

    @property
    def has_begun(self) -> bool:
        """Whether the log has an event yet."""
        return self.position >= 0

    @property
    def is_hidden(self) -> bool:
        """Whether the partition has no segments and no leader."""
        return not sum(self.counts) and not (self.session and self.session.is_open)

    @property
    def leader(self) -> Cell:
        """Who leads, or led last; brief, the broker."""
        if self.session is None:
            return Cell("none yet", "none yet", "none")
        broker = broker_text(self.session.broker_id)
        opened = f"{broker}, session {self.session.number}"
        brief = broker.removeprefix("broker ")
        if not self.session.is_open:
            opened, brief = f"closed ({opened})", f"({brief})"
        return Cell(opened, opened, brief)

    def plain(self) -> dict[str, Any]:
        delete = self.delete_state
        return {
            "segments": _by_state(self.counts),
            "size_in_bytes": _by_state(self.sizes),
            "leader": None if self.session is None else self.session._asdict(),
            "delete_state": None if delete is None else RemotePartitionDeleteState(delete).name,
            "position": self.position,
            "log_time_ms": self.log_time_ms,
            "log_time_ahead_ms": self.log_time_ahead_ms,
        }


async def list_partitions(
    store: StoreOption = None,
    cluster: ClusterOption = None,
    as_of: AsOfOption = None,
    json: JsonOption = False,
    wide: WideOption = False,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Show also partitions that have no segments and no leader."),
    ] = False,
) -> None:
    """List the partitions: segments by state, bytes, who leads, and the log's position.

    The store itself is read; no service is needed, and none is asked: `status` does that.
    A leader in parentheses led last: its session is closed. Commands write,
    too: a leader may be `command`, such as jobs import, or `import`.
    """
    when = parse_as_of(as_of)
    if when is not None and when.position is not None:
        raise InvalidArgument("a position is one partition's: give a time, or describe one")
    shown: list[tuple[TopicIdPartition, Summary | DataError]] = []
    ahead: list[tuple[int, TopicIdPartition]] = []
    damaged = False
    async with opened_catalog(StoreOptions(store, cluster)) as catalog:
        async for entry in catalog.partitions():
            tip = entry.topic_id_partition
            if entry.is_forgotten:
                continue
            try:
                summary, ahead_ms = await ask_timed(catalog.reader(tip), when, summary_of)
            except RemoteResourceNotFound:
                continue  # What was there then is forgotten.
            except StoreRefused:
                raise  # That says nothing about one partition.
            except DataError as error:
                damaged = True
                _note_damage(tip, error)
                shown.append((tip, error))
                continue
            if ahead_ms:
                ahead.append((ahead_ms, tip))
            if summary.has_begun and (everything or not summary.is_hidden):
                shown.append((tip, summary._replace(log_time_ahead_ms=ahead_ms)))
    for ahead_ms, tip in sorted(ahead, reverse=True)[:AHEAD_SHOWN]:
        note_ahead(tip, ahead_ms)
    if len(ahead) > AHEAD_SHOWN:
        print_note(f"{len(ahead) - AHEAD_SHOWN} more logs are ahead of now; --json has them")
    shown.sort(key=lambda one: (one[0].topic, one[0].topic_id, one[0].partition))
    _print_list(shown, json, wide)
    if damaged:
        raise typer.Exit(ExitStatus.FOUND)


async def describe(
    topic: TopicArgument,
    partition: PartitionIfAnyArgument = None,
    store: StoreOption = None,
    cluster: ClusterOption = None,
    as_of: AsOfOption = None,
    json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Describe a topic's partitions, each with its leader epochs.

    Of each leader epoch:

    \b
    epoch           number of the leader epoch
    highest offset  last offset that a finished segment of it ever had
    bytes           finished segments that have it, each counted whole
    referenced      finished segments that answer for offsets of it
    unreferenced    others in it: being copied or deleted, or superseded
    lost by kafka   referenced ones that Kafka's own manager would have lost

    Exit status 1: some partitions are damaged; they are named, and the others are described.
    """  # noqa: D301 - The mark for Click is one character.
    when = parse_as_of(as_of)
    damaged = False
    later: list[TopicIdPartition] = []
    async with opened_catalog(StoreOptions(store, cluster)) as catalog:
        partitions = await _partitions(catalog, topic, partition)
        for tip in partitions:
            try:
                (summary, more), ahead_ms = await ask_timed(catalog.reader(tip), when, _details)
            except RemoteResourceNotFound:
                if partition is not None:
                    raise
                continue
            except StoreRefused:
                raise  # As above.
            except DataError as error:
                damaged = True
                _note_damage(tip, error)
                if json:
                    print_json({**_identity(tip), "damaged": str(error)})
                else:
                    print_pairs([*_names(tip), ("log", "DAMAGED")])
                continue
            note_ahead(tip, ahead_ms)
            if not summary.has_begun:
                later.append(tip)
                continue
            summary = summary._replace(log_time_ahead_ms=ahead_ms)
            if json:
                print_json({**_identity(tip), **summary.plain(), **more})
            else:
                _print_details(tip, summary, more, wide=wide)
    if later and later == partitions:
        note_later(topic if later[1:] else later[0])
    if damaged:
        raise typer.Exit(ExitStatus.FOUND)


def summary_of(state: PartitionState) -> Summary:
    return Summary(
        list(state.count_by_state),
        list(state.bytes_by_state),
        state.session,
        None if state.delete is None else state.delete.state,
        state.next_position - 1,
        state.log_time_ms,
    )


def _print_list(
    shown: list[tuple[TopicIdPartition, Summary | DataError]], json: bool, wide: bool
) -> None:
    if json:
        for tip, found in shown:
            damaged = {"damaged": str(found)}
            print_json(
                {
                    **_identity(tip),
                    **(damaged if isinstance(found, DataError) else found.plain()),
                }
            )
        return
    rows = [
        (tip.topic, id_cell(tip.topic_id), tip.partition, *_cells(found))
        for tip, found in shown
    ]
    if not rows:
        print_note("there is no partition with segments or a leader")
    print_table(PrintedTable(LIST_COLUMNS, rows, LIST_SPARE), wide=wide)


def _cells(found: Summary | DataError) -> tuple[object, ...]:
    if isinstance(found, DataError):
        return (*("?",) * 4, "DAMAGED", "?")
    return (*found.counts, size_cell(sum(found.sizes)), found.leader, found.position)


def _note_damage(tip: TopicIdPartition, error: DataError) -> None:
    print_note(f"{tip} cannot be read: {error}")


async def _partitions(
    catalog: Catalog, topic: str, partition: int | None
) -> list[TopicIdPartition]:
    if partition is not None:
        return [await found_partition(catalog, topic, partition)]
    found = await found_topic(catalog, topic)
    return [  # By the name that the others tell, where one is too damaged to tell it.
        replace(entry.topic_id_partition, topic=found.topic)
        async for entry in catalog.partitions(found.topic_id)
        if not entry.is_forgotten
    ]


def _details(state: PartitionState) -> tuple[Summary, dict[str, Any]]:
    epochs = []
    for epoch in sorted(state.epochs):
        tables = state.epochs[epoch]
        epochs.append(
            {
                "epoch": epoch,
                "highest_offset": tables.highest,
                "size_in_bytes": tables.size,
                "referenced": len(tables.referenced),
                "unreferenced": len(tables.unreferenced),
                "lost_by_kafka": len(tables.lost),
            }
        )
    return summary_of(state), {
        "imported": [[*source, offset] for source, offset in sorted(state.imported.items())],
        "dropped": dict(sorted(state.dropped.items())),
        "disputes": state.disputes,
        "in_trash": len(state.kept),
        "epochs": epochs,
    }


def _print_details(
    tip: TopicIdPartition, summary: Summary, more: dict[str, Any], *, wide: bool
) -> None:
    delete = summary.plain()["delete_state"]
    print_pairs(
        [
            *_names(tip),
            ("log", f"position {summary.position}, {time_text(summary.log_time_ms)}"),
            ("leader", summary.leader.whole),
            ("deletion", delete),
            *(
                (state.name, f"{count} segments, {size_text(size)}")
                for state, count, size in zip(
                    KEPT_STATES, summary.counts, summary.sizes, strict=True
                )
            ),
            ("in the trash", _trash_text(more["in_trash"])),
            *((f"dropped: {reason}", count) for reason, count in more["dropped"].items()),
            ("disputes", more["disputes"] or None),
        ]
    )
    if more["epochs"]:
        names = {"size_in_bytes": "bytes"}
        columns = [names.get(one, one.replace("_", " ")) for one in more["epochs"][0]]
        rows = [
            [
                size_cell(value) if name == "size_in_bytes" else value
                for name, value in epoch.items()
            ]
            for epoch in more["epochs"]
        ]
        print_table(PrintedTable(columns, rows, EPOCHS_SPARE), wide=wide)


def _trash_text(segments: int) -> str | None:
    """What `describe` tells of segments that were deleted and are kept."""
    if not segments:
        return None
    return f"{segments} segments that were deleted: trash show, segments --deleted, undelete"


def _names(tip: TopicIdPartition) -> list[tuple[str, object]]:
    return [("topic", tip.topic), ("topic id", tip.topic_id), ("partition", tip.partition)]


def _identity(tip: TopicIdPartition) -> dict[str, Any]:
    return {"topic": tip.topic, "topic_id": str(tip.topic_id), "partition": tip.partition}


def _by_state(numbers: list[int]) -> dict[str, int]:
    return {state.name: number for state, number in zip(KEPT_STATES, numbers, strict=True)}

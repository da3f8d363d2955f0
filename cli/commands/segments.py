"""`segments`: the segments of a partition, or of one leader epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tierledger.cli.opened_store import (
    StoreOptions,
    found_partition,
    kept_text,
    opened_catalog,
    whole_state,
)
from tierledger.cli.options import (
    EPOCH_MAX,
    AsOfOption,
    ClusterOption,
    DeletedOption,
    FromOption,
    JsonOption,
    PartitionArgument,
    ServiceOption,
    live_role,
    parse_as_of,
)
from tierledger.cli.output import print_note
from tierledger.cli.segment_output import print_segments
from tierledger.cli.table import WideOption
from tierledger.cli.topics import TopicArgument
from tierledger.events.errors import PartitionDeleted, RemoteResourceNotFound
from tierledger.events.tables.segment_rows import START, id_of_row, unpack_row

if TYPE_CHECKING:
    from tierledger.events.partition.state import PartitionState

EPOCHS_NAMED = 20


async def segments(
    topic: TopicArgument,
    partition: PartitionArgument,
    epoch: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=EPOCH_MAX,
            help="List only the segments of this leader epoch, in Kafka's order.",
        ),
    ] = None,
    store: ServiceOption = None,
    cluster: ClusterOption = None,
    as_of: AsOfOption = None,
    deleted: DeletedOption = False,
    json: JsonOption = False,
    wide: WideOption = False,
    source: FromOption = None,
) -> None:
    """List a partition's segments by start offset, or one leader epoch's.

    \b
    id         the segment's id, in names of its objects in the tier
    state      docs/vocabulary.md
    start, end its first and last offset
    bytes      size of its log, without indexes
    epochs     leader epochs in it: EPOCH@FIRST OFFSET; +N: and N more
    broker     the broker that told of it last
    time       when, by that broker's clock
    txn index  empty: no transaction was aborted in it; maybe: unknown
    """  # noqa: D301 - The mark for Click is one character.
    when = parse_as_of(as_of)
    role = live_role(source, store, when, deleted=deleted)
    options = StoreOptions(store, cluster)
    if role is None:
        async with opened_catalog(options) as catalog:
            tip = await found_partition(catalog, topic, partition)
            state = await whole_state(catalog.reader(tip), when)
        rows = _with_deleted(state, epoch) if deleted else _rows(state, epoch)
        if not rows and len(state.kept):
            print_note(kept_text(len(state.kept)))
    else:
        from tierledger.cli.live_reads import list_live

        rows = await list_live(options, (topic, partition), role, epoch)
    if epoch is None:
        rows.sort(key=lambda row: (unpack_row(row)[START], id_of_row(row)))
    print_segments(rows, json=json, wide=wide)


def require_epoch(state: PartitionState, epoch: int) -> None:
    """Tell an epoch without segments from one that never was.

    Raises:
        PartitionDeleted: The partition's deletion has finished.
        RemoteResourceNotFound: No segment of the partition ever had that leader epoch, though
            its log has begun.
    """
    require_partition(state)
    if epoch not in state.epochs and state.next_position:
        known = sorted(state.epochs)
        listed = ", ".join(str(one) for one in known[-EPOCHS_NAMED:])
        has = (
            f"it has {'… ' if len(known) > EPOCHS_NAMED else ''}{listed}"
            if known
            else ("it has none")
        )
        raise RemoteResourceNotFound(
            f"{state.topic_id_partition} has no leader epoch {epoch}; {has}"
        )


def require_partition(state: PartitionState) -> None:
    """Tell a partition without segments from one that is gone.

    Raises:
        PartitionDeleted: The partition's deletion has finished.
    """
    if state.is_finished:
        gone = PartitionDeleted(f"{state.topic_id_partition}: its deletion is finished")
        if len(state.kept):
            gone.add_note(kept_text(len(state.kept)))
        raise gone


def _with_deleted(state: PartitionState, epoch: int | None) -> list[bytes]:
    from tierledger.events.partition.restored import restored, rows_with_kept

    stored = rows_with_kept(state)
    return [stored[id_of_row(row)] for row in _rows(restored(state), epoch)]


def _rows(state: PartitionState, epoch: int | None) -> list[bytes]:
    from tierledger.events.partition.answers import Snapshot, list_all, list_epoch

    require_partition(state)
    if epoch is not None:
        require_epoch(state, epoch)
        return [row for row in list_epoch(Snapshot(state), epoch) if row is not None]
    return list(list_all(Snapshot(state)))

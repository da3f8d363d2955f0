"""`backup`: a store's logs in files, and a store made of them again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tierledger.actors.wall_clock import WallClock
from tierledger.cli.backup_place import PLACES, backup_files
from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.handlers import group_of
from tierledger.cli.opened_store import StoreOptions, opened_catalog
from tierledger.cli.options import (
    ClusterOption,
    JsonOption,
    StoreOption,
    duration_ms,
    parse_time_ms,
)
from tierledger.cli.output import print_json, print_note, print_result, progress
from tierledger.cli.settings import cluster_setting, store_config
from tierledger.cli.table import PrintedTable, print_table, size_cell
from tierledger.events.errors import DataError, InvalidArgument
from tierledger.events.typed_fields import time_text
from tierledger.pages.texts import count_text, many, size_text

if TYPE_CHECKING:
    from tierledger.storage.backup.backup import VerifiedBackup
    from tierledger.storage.backup.files import Backup, BackupFiles, BackupName

ToArgument = Annotated[
    str,
    typer.Argument(
        metavar="TO",
        help=f"Where the backups of one cluster are: {PLACES}. A folder is made if the one "
        "above is there.",
    ),
]
FromArgument = Annotated[
    str, typer.Argument(metavar="FROM", help=f"Where the backups are: {PLACES}.")
]

LIST_COLUMNS = ("backup", "made", "logs", "events", "bytes")
PRUNE_COLUMNS = ("backup", "made", "kept as")


def _keep(which: str) -> Any:  # noqa: ANN401 - As typer has it.
    """The option that keeps so many."""
    return typer.Option(metavar="N", min=0, help=f"Keep {which}.", show_default=False)


def backup_group() -> typer.Typer:
    return group_of(
        "Back up a store, and restore it into another of any kind. A backup is made while the "
        "service runs.",
        {
            "make": make_backup,
            "ls": list_backups,
            "verify": verify_backups,
            "restore": restore_backup,
            "prune": prune_backups,
        },
    )


async def make_backup(
    to: ToArgument,
    store: StoreOption = None,
    cluster: ClusterOption = None,
    json: JsonOption = False,
) -> None:
    """Write what the logs have and no backup in TO has yet; then it is a further backup.

    A service may be running: the store is only read. Exit 3: some logs are damaged; the backup
    has what is before the damage, and they are named.
    """
    from tierledger.storage.backup.backup import make

    files = backup_files(to)
    async with opened_catalog(StoreOptions(store, cluster)) as catalog:
        with progress("batches backed up") as on_batches:
            made = await make(files, catalog, WallClock().now_ms(), on_batches)
    backup = made.backup
    if json:
        print_json(
            {**_plain(made.name, backup), "new": {"events": made.events, "bytes": made.bytes}}
        )
    else:
        print_result(
            f"backup {made.name.number} of cluster {backup.cluster} in {to}: "
            f"{many(len(backup.ends), 'log')}, {many(backup.events, 'event')}; new "
            f"{count_text(made.events)} events ({size_text(made.bytes)})"
        )
    _tell_damaged(backup)


async def list_backups(from_: FromArgument, json: JsonOption = False) -> None:
    """List the backups in FROM, oldest first."""
    files = backup_files(from_)
    found = [(name, await files.backup(name)) for name in await files.backups()]
    if json:
        for name, backup in found:
            print_json(_plain(name, backup))
        return
    rows = [
        (
            name.number,
            time_text(name.made_s * 1000),
            len(backup.ends),
            backup.events,
            size_cell(backup.bytes),
        )
        for name, backup in found
    ]
    print_table(PrintedTable(LIST_COLUMNS, rows), wide=False)
    if not rows:
        print_note(f"there is no backup in {from_}")


async def verify_backups(from_: FromArgument, json: JsonOption = False) -> None:
    """Read all files of all backups in FROM, and verify that each can be restored.

    Exit 1: one cannot; what is wrong is named.
    """
    found = await _verified(backup_files(from_))
    for one in found:
        _print_verified(one, json)
    if not found:
        print_note(f"there is no backup in {from_}")
    if any(one.error is not None for one in found):
        raise typer.Exit(ExitStatus.FOUND)


async def restore_backup(
    from_: FromArgument,
    as_of: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Restore the newest backup made up to that time: ISO 8601, UTC by default, or "
            "how long ago, like 90m or 7d. By default the newest of all.",
        ),
    ] = None,
    store: StoreOption = None,
    cluster: ClusterOption = None,
    json: JsonOption = False,
) -> None:
    """Make a store of a backup: a new one, or one that has nothing of the cluster.

    No service starts on the store before the command has ended well. If it is interrupted, run
    it again. Brokers notice that a ledger is older than what they have seen, see
    docs/backup.md. Exit 3: some logs were damaged when the backup was made.
    """
    as_of_ms = None if as_of is None else parse_time_ms(as_of, "--as-of")
    name, backup = await _restore(backup_files(from_), as_of_ms, store, cluster)
    if json:
        print_json(_plain(name, backup))
    else:
        print_result(
            f"restored backup {name.number} of cluster {backup.cluster}, made "
            f"{time_text(name.made_s * 1000)}: {many(len(backup.ends), 'log')}, "
            f"{many(backup.events, 'event')}"
        )
    _tell_damaged(backup)


async def prune_backups(
    to: Annotated[str, typer.Argument(metavar="TO", help=f"Where the backups are: {PLACES}.")],
    keep_last: Annotated[int, _keep("the newest N")] = 0,
    keep_hourly: Annotated[int, _keep("the last of each of N hours that have one")] = 0,
    keep_daily: Annotated[int, _keep("the last of each of N days that have one")] = 0,
    keep_weekly: Annotated[int, _keep("the last of each of N weeks that have one")] = 0,
    keep_monthly: Annotated[int, _keep("the last of each of N months that have one")] = 0,
    keep_yearly: Annotated[int, _keep("the last of each of N years that have one")] = 0,
    keep_within: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Keep all that were made so long before the newest, or later, like 7d.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be removed.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Let go the old backups in TO that none of the given rules keeps.

    The newest is always kept. All of it is read first: if it is damaged, nothing is removed. A
    `make` may be running. Events that a kept backup has stay, so what is freed are the files
    that tell of a backup, and what killed commands have left.
    """
    from tierledger.storage.backup.backup import prune
    from tierledger.storage.backup.keeping import KeepRules

    within_ms = 0 if keep_within is None else duration_ms(keep_within, "--keep-within")
    counts = keep_last, keep_hourly, keep_daily, keep_weekly, keep_monthly, keep_yearly
    if not within_ms and not any(counts):
        raise InvalidArgument("expected what to keep, such as --keep-last 10 --keep-daily 30")
    files, rules = backup_files(to), KeepRules(*counts, within_ms)
    with progress("parts read", await _parts_in(files)) as on_parts:
        pruned = await prune(files, rules, on_parts, is_dry=dry_run)
    names = sorted((*pruned.kept, *pruned.removed))
    verb = "would be removed" if dry_run else "removed"
    if json:
        print_json(
            {
                "dry_run": dry_run,
                "kept": [_named(one, {"why": pruned.kept[one]}) for one in pruned.kept],
                "removed": [_named(one, {}) for one in pruned.removed],
                "files": len(pruned.left_over.names),
                "bytes": pruned.left_over.bytes,
            }
        )
        return
    rows = [
        (name.number, time_text(name.made_s * 1000), ", ".join(pruned.kept.get(name, [verb])))
        for name in names
    ]
    print_table(PrintedTable(PRUNE_COLUMNS, rows), wide=False)
    print_result(
        f"{verb}: {many(len(pruned.removed), 'backup')}, and "
        f"{many(len(pruned.left_over.names), 'file')} ({size_text(pruned.left_over.bytes)})"
    )


async def _parts_in(files: BackupFiles) -> int | None:
    """How many parts there are; None if the newest backup cannot be read."""
    newest = (await files.index()).newest
    try:
        return None if newest is None else len((await files.backup(newest)).parts)
    except DataError:
        return None


def _named(name: BackupName, more: dict[str, object]) -> dict[str, object]:
    return {"backup": name.number, "made": time_text(name.made_s * 1000), **more}


async def _verified(files: BackupFiles) -> list[VerifiedBackup]:
    from tierledger.storage.backup.backup import verified
    from tierledger.storage.keys import DefaultMetadataKeyFactory
    from tierledger.storage.serde import MsgpackSerDe
    from tierledger.storage.transfer.logs import ClusterLogs

    def logs_of(cluster: str) -> ClusterLogs:
        return ClusterLogs(DefaultMetadataKeyFactory(cluster), MsgpackSerDe(), cluster)

    with progress("parts verified", await _parts_in(files)) as on_parts:
        return await verified(files, logs_of, on_parts)


async def _restore(
    files: BackupFiles, as_of_ms: int | None, store: str | None, named: str | None
) -> tuple[BackupName, Backup]:
    from tierledger.storage.backup.backup import restore
    from tierledger.storage.connector import load_connector, load_serde
    from tierledger.storage.transfer.logs import ClusterLogs

    config, cluster = store_config(store), cluster_setting(named)
    name = await files.chosen(as_of_ms)
    backup = await files.backup(name)
    if cluster not in {None, backup.cluster}:
        raise InvalidArgument(
            f"{name.name} is a backup of cluster {backup.cluster!r}, not of {cluster!r}"
        )
    connector, serde = load_connector(config), load_serde(config)
    backend = await connector.backend(read_only=False)
    try:
        logs = ClusterLogs(connector.key_factory(backup.cluster), serde, backup.cluster)
        with progress("parts restored", len(backup.parts)) as on_parts:
            await restore(files, backup, backend, logs, on_parts)
    finally:
        await backend.close()
    return name, backup


def _plain(name: BackupName, backup: Backup) -> dict[str, object]:
    return {
        "backup": name.number,
        "made": time_text(name.made_s * 1000),
        "cluster": backup.cluster,
        "logs": len(backup.ends),
        "events": backup.events,
        "bytes": backup.bytes,
        "damaged": backup.damaged,
    }


def _tell_damaged(backup: Backup) -> None:
    for why in backup.damaged.values():
        print_note(f"damaged, and in the backup only up to there: {why}")
    if backup.damaged:
        raise typer.Exit(ExitStatus.PARTLY)


def _print_verified(one: VerifiedBackup, json: bool) -> None:
    if json:
        print_json(
            {
                "backup": one.name.number,
                "made": time_text(one.name.made_s * 1000),
                "passed": one.error is None,
                "message": None if one.error is None else str(one.error),
            }
        )
    elif one.error is not None or one.backup is None:
        print_result(f"DAMAGED  backup {one.name.number}: {one.error}", 9)
    else:
        print_result(
            f"ok       backup {one.name.number}: {many(len(one.backup.ends), 'log')}, "
            f"{many(one.backup.events, 'event')}",
            9,
        )

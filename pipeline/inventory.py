"""The objects of a tier, held by this process: listed now, or from an inventory file."""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tierledger.events.errors import InvalidArgument
from tierledger.events.extras import naming_extras
from tierledger.pipeline.fold import EPOCH

if TYPE_CHECKING:
    from tierledger.tiering.objects.directory import Unseen
    from tierledger.tiering.objects.store import ObjectStore

SIZE_MAX: Final = 1 << 46
"""70 TB: no store has larger objects, and sums of sizes fit their columns."""

REQUIRED: Final = ("path", "size", "last_modified")
"""Required columns of an inventory."""

OF_CSV: Final = (".csv", ".csv.gz")
"""Suffixes of inventories in CSV; all others are Parquet."""

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}")


class ListingTotals(NamedTuple):
    """Totals of a listing."""

    objects: int
    size_in_bytes: int
    newest_ms: int | None
    """When the newest object was written; none if the listing has no times."""


class Seen(NamedTuple):
    """An object in a list; any field may be missing in an inventory."""

    path: str | None
    size: int | None
    last_modified_ms: int | None


def milliseconds(at: datetime) -> int:
    """Milliseconds since 1970."""
    return int((at - EPOCH).total_seconds() * 1000)


async def listed_objects(
    store: ObjectStore,
    folder: str,
    limit: int,
    on_listed: Callable[[int], None],
    on_unseen: Callable[[Unseen], None],
) -> list[Seen] | None:
    """All objects below `folder`; none if there are more than `limit`.

    `on_unseen` takes what cannot be listed.

    Raises:
        StorageUnavailable: The store does not answer; a retry is safe.
        StoreRefused: There is no such bucket or directory, or no permission to list it.
    """
    found: list[Seen] = []
    async for page in store.pages(folder, on_unseen):
        found += [Seen(one.path, one.size, milliseconds(one.last_modified)) for one in page]
        on_listed(len(page))
        if len(found) > limit:
            return None
    return found


def read_inventory(place: str, limit: int) -> list[Seen] | None:
    """The objects in an inventory, the newest row of each path; none if it is too long.

    Args:
        place: A file or folder: CSV with a heading if it ends with `.csv` or `.csv.gz`, else
            Parquet. Times are ISO 8601, or milliseconds since 1970.
        limit: The most rows that are read.

    Raises:
        InvalidArgument: A column or pyarrow is missing, or the inventory cannot be read.
    """
    newest: dict[str | None, Seen] = {}
    for count, row in enumerate(_rows(place)):
        if count >= limit:
            return None
        seen = Seen(row["path"] or None, _number(row["size"]), _time_ms(row["last_modified"]))
        known = newest.get(seen.path)
        if known is None or _age(seen) > _age(known):
            newest[seen.path] = seen
    return list(newest.values())


def _age(seen: Seen) -> int:
    return -(1 << 62) if seen.last_modified_ms is None else seen.last_modified_ms


def _rows(place: str) -> Iterator[dict[str, Any]]:
    path = Path(place).expanduser()
    rows = _csv_rows if place.endswith(OF_CSV) else _parquet_rows
    files = [path]
    if path.is_dir():
        files = sorted(one for one in path.iterdir() if one.name[0] not in "._")
    for file in files:
        try:
            yield from rows(file, place)
        except InvalidArgument:
            raise
        except (OSError, EOFError, UnicodeError, csv.Error, ValueError) as error:
            raise InvalidArgument(f"{file}: this listing cannot be read: {error}") from error


def _csv_rows(file: Path, place: str) -> Iterator[dict[str, Any]]:
    opened = gzip.open if file.suffix == ".gz" else open
    # Quoted names may contain line ends.
    with opened(file, "rt", encoding="utf-8", newline="") as lines:
        reader = csv.DictReader(lines)
        require_columns(reader.fieldnames or (), place)
        yield from reader


def _parquet_rows(file: Path, place: str) -> Iterator[dict[str, Any]]:
    with naming_extras(), ExitStack() as stack:
        # Imported here: listing a tier, and CSV, do not need pyarrow.
        import pyarrow.parquet as pq  # noqa: PLC0415

        opened = stack.enter_context(pq.ParquetFile(file))
        require_columns(opened.schema_arrow.names, place)
        for batch in opened.iter_batches(columns=list(REQUIRED)):
            yield from batch.to_pylist()


def require_columns(names: Sequence[str], place: str) -> None:
    """Refuse an inventory without all columns of `REQUIRED`."""
    missing = [name for name in REQUIRED if name not in names]
    if missing:
        raise InvalidArgument(
            f"{place}: expected columns {', '.join(REQUIRED)}; {', '.join(missing)} is missing"
        )


def _number(value: object) -> int | None:
    if isinstance(value, int):
        return value
    text = str(value).strip()
    return int(text) if _NUMBER.fullmatch(text) else None


def _time_ms(value: object) -> int | None:
    if not isinstance(value, datetime):
        number = _number(value)
        if number is not None:
            return number
        try:
            value = datetime.fromisoformat(str(value).strip())
        except ValueError:
            return None
    return milliseconds(value if value.tzinfo is not None else value.replace(tzinfo=UTC))


def require_inventory(place: str) -> None:
    """Refuse a missing inventory before other work begins.

    Raises:
        InvalidArgument: There is no such file or folder. A URL is not checked.
    """
    if "://" not in place and not Path(place).expanduser().exists():
        raise InvalidArgument(f"{place}: there is no such listing")


def totals(listing: Iterable[Seen]) -> ListingTotals:
    """Count a listing.

    Raises:
        InvalidArgument: It has rows without a path, or without a valid size.
    """
    objects, size = 0, 0
    newest: int | None = None
    bad: list[str] = []
    for one in listing:
        objects += 1
        if one.path is None or one.size is None or not 0 <= one.size <= SIZE_MAX:
            bad.append(one.path or "")
            continue
        size += one.size
        if one.last_modified_ms is not None and (
            newest is None or one.last_modified_ms > newest
        ):
            newest = one.last_modified_ms
    refuse_rows(len(bad), min(bad, default=""))
    return ListingTotals(objects, size, newest)


def refuse_rows(count: int, example: str) -> None:
    """Refuse a listing if it has any (`count`) invalid rows; `example` is the path of one."""
    if count:
        raise InvalidArgument(
            f"the listing has {count} rows without a name, or a size from 0 to "
            f"{SIZE_MAX}, such as that of {example[:200]!r}"
        )

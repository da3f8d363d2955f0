"""`scrub`: read and verify every object of a tier that the metadata names."""

from __future__ import annotations

import hashlib
import json as jsonlib
import re
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tierledger.cli.complete_file import complete_file, require_place
from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.log_setup import log_to_stderr
from tierledger.cli.opened_store import StoreOptions, chosen_partitions, opened_catalog
from tierledger.cli.options import (
    UNITS_BYTES,
    ClusterOption,
    JsonOption,
    OverwriteOption,
    PartitionIfAnyArgument,
    StoreOption,
    TierOption,
    number_with_unit,
)
from tierledger.cli.output import print_json, print_note, print_result, progress
from tierledger.cli.settings import store_config, tier_options
from tierledger.cli.table import print_facts
from tierledger.cli.topics import TopicIfAnyArgument
from tierledger.events.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tierledger.tiering.scrub.progress import DamagedObject, Progress

UNLIMITED: Final = "unlimited"
DEFAULT_RATE: Final = "100MiB/s"

MIB: Final = 1 << 20

SAVE_S: Final = 1.0
"""The least time between two saves of the progress; a killed command repeats as much."""

RateOption = Annotated[
    str,
    typer.Option(
        metavar="BYTES/s",
        help="Maximum bytes to read per second: a number with B, KiB, MiB, GiB or TiB; or "
        "unlimited.",
    ),
]
ResumeOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Save the progress in FILE, and continue from there after an interruption.",
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write every finding to FILE, one JSON object per line."),
]


async def scrub(
    tier: TierOption,
    topic: TopicIfAnyArgument = None,
    partition: PartitionIfAnyArgument = None,
    rate: RateOption = DEFAULT_RATE,
    resume: ResumeOption = None,
    out: OutOption = None,
    overwrite: OverwriteOption = False,
    store: StoreOption = None,
    cluster: ClusterOption = None,
    json: JsonOption = False,
) -> None:
    """Read every object of the tier that the metadata names, and verify it byte for byte.

    Exit 1 if anything is damaged. One object that is damaged or cannot be read never hides
    another; exit 4 if some could not be read, exit 3 if logs of metadata are damaged.
    """
    bytes_per_second = parse_rate(rate)
    require_place(out, overwrite=overwrite)
    require_place(resume, out, overwrite=True)
    log_to_stderr()
    made = await _scrub(
        StoreOptions(store, cluster), tier, (topic, partition), bytes_per_second, resume
    )
    if out is not None:
        with complete_file(out, overwrite=overwrite) as file:
            for one in made.findings:
                file.write(jsonlib.dumps(one._asdict()).encode() + b"\n")
    _report(made, json=json)
    _end(made)


def parse_rate(text: str) -> int | None:
    """The bytes per second that `text` means; none for no limit."""
    if text == UNLIMITED:
        return None
    found = number_with_unit(text.removesuffix("/s"), UNITS_BYTES)
    if not found:
        raise InvalidArgument(
            f"--rate: expected a number with {', '.join(UNITS_BYTES)}, like {DEFAULT_RATE}, or "
            f"{UNLIMITED}; got {text[:100]!r}"
        )
    return found


async def _scrub(
    options: StoreOptions,
    tier: str,
    chosen: tuple[str | None, int | None],
    bytes_per_second: int | None,
    resume: Path | None,
) -> Progress:
    from tierledger.tiering.layouts.listed_objects import names_of
    from tierledger.tiering.layouts.tier_url import open_tier, parse
    from tierledger.tiering.scrub.progress import Progress as NewProgress
    from tierledger.tiering.scrub.progress import load_progress
    from tierledger.tiering.scrub.scrubber import Scrubber
    from tierledger.tiering.scrub.segment_source import CatalogSegments

    url = parse(tier)
    async with opened_catalog(options) as catalog, open_tier(tier, tier_options()) as storage:
        partitions = await chosen_partitions(catalog, *chosen)
        scope: dict[str, object] = {
            "tier": f"{url.layout} {url.shown} {url.prefix}",
            "store": _fingerprint(options.store),
            "cluster": catalog.cluster_id,
            "topic": chosen[0],
            "partition": chosen[1],
        }
        made = NewProgress(scope) if resume is None else load_progress(resume, scope)
        if made.is_complete and not made.unread:
            print_note(f"all had been read: {resume} is of a scrub that was done")
        scrubber = Scrubber(
            CatalogSegments(catalog, partitions),
            storage,
            names_of(url.layout, url.prefix),
            made,
            bytes_per_second=bytes_per_second,
        )
        with progress("MiB verified") as on_done, _saved(made, resume) as on_segment:
            whole = 0
            async for _ in scrubber.run():
                on_done(made.bytes // MIB - whole)
                whole = made.bytes // MIB
                on_segment()
        return made


@contextmanager
def _saved(made: Progress, path: Path | None) -> Iterator[Callable[[], None]]:
    """Save the progress at the end, also of an interruption, and now and then before.

    A file of many findings takes long to write, so it is written a tenth of the time at most.
    """
    if path is None:
        yield lambda: None
        return
    due_s = time.monotonic() + SAVE_S

    def save_if_due() -> None:
        nonlocal due_s
        began_s = time.monotonic()
        if began_s >= due_s:
            made.save(path)
            ended_s = time.monotonic()
            due_s = ended_s + max(SAVE_S, 10 * (ended_s - began_s))

    try:
        yield save_if_due
    finally:
        made.save(path)


def _fingerprint(option: str | None) -> str:
    """An id of the store for comparisons, which reveals nothing of its password."""
    url = str(store_config(option).get("metadata.storage.url", ""))
    return hashlib.sha256(re.sub(r"//[^/]*@", "//", url).encode()).hexdigest()[:16]


def _report(made: Progress, *, json: bool) -> None:
    if json:
        print_json(
            {
                **_summary(made),
                "is_complete": made.is_complete,
                "findings": [one._asdict() for one in made.findings],
                "unread": [one._asdict() for one in made.unread],
                "damaged_logs": made.damaged_logs,
            }
        )
        return
    from tierledger.tiering.layouts.listed_objects import nothing_whole

    damaged = _by_segment(made.findings)
    if len(damaged) == made.segments and not made.bytes:
        print_note(nothing_whole(made.segments))
    else:
        for found in damaged:
            _print_damage(found)
    for unread in made.unread:
        where = f"{unread.topic}-{unread.partition}, segment {unread.segment_id}"
        print_result(f"UNREAD   {where}: {unread.message}", 9)
    for log in made.damaged_logs:
        print_result(f"LEFT OUT {log}", 9)
    print_facts(_summary(made))


def _by_segment(findings: Iterable[DamagedObject]) -> Sequence[list[DamagedObject]]:
    found: dict[tuple[str, int, str], list[DamagedObject]] = {}
    for one in findings:
        key = (one.topic_id, one.partition, one.segment_id)
        found.setdefault(key, []).append(one)
    return list(found.values())


def _print_damage(found: list[DamagedObject]) -> None:
    """Print one segment's damage, as a line; several findings, with a line for each."""
    one = found[0]
    where = f"{one.topic}-{one.partition}, offsets {one.start_offset} to {one.end_offset}"
    before = f"DAMAGED  {where}: "
    if len(found) > 1:
        print_result(f"{before}{len(found)} findings", 9)
        before = "  "
    for damage in found:
        at = "" if damage.position is None else f" at byte {damage.position}"
        print_result(f"{before}{damage.object}{at}: {damage.message}", 9)


def _summary(made: Progress) -> dict[str, object]:
    rate = made.bytes / MIB / made.seconds if made.seconds else 0.0
    return {
        "segments": made.segments,
        "bytes": made.bytes,
        "seconds": round(made.seconds, 1),
        "mib_per_second": round(rate, 1),
        "damaged": len(_by_segment(made.findings)),
        "damaged_objects": len(made.findings),
        "unread": len(made.unread),
    }


def _end(made: Progress) -> None:
    """Exit with a status other than 0 if not all is well."""
    if made.damaged_logs:
        raise typer.Exit(ExitStatus.PARTLY)
    if made.findings:
        raise typer.Exit(ExitStatus.FOUND)
    if made.unread:
        raise typer.Exit(ExitStatus.FAILED)

"""`clean plan`: what is dead weight, the evidence, and what would be done about it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tierledger.actors.wall_clock import WallClock
from tierledger.cli.commands.clean.tier import CleanedTier, weigh
from tierledger.cli.complete_file import complete_file, require_place
from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.opened_store import StoreOptions
from tierledger.cli.options import (
    ClusterOption,
    JsonOption,
    OverwriteOption,
    StoreOption,
    TierOption,
    duration_ms,
)
from tierledger.cli.output import print_json, print_note, print_pairs
from tierledger.cli.table import (
    PrintedTable,
    WideOption,
    id_cell,
    print_table,
    size_cell,
    state_cell,
    time_cell,
)
from tierledger.events.errors import InvalidArgument
from tierledger.pages.texts import size_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tierledger.cli.commands.clean.tier import Weighed
    from tierledger.pipeline.cleaning.plan_file import CleaningPlan
    from tierledger.pipeline.cleaning.rules import CleaningAges
    from tierledger.pipeline.cleaning.weights import DeadWeight, LeftWeight

DEFAULT_AGE = "1d"

SHOWN_MAX = 20
"""How many segments are printed, the largest; the plan's file has all."""

SPARE = ("action", "since")


def plan(
    tier: TierOption,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the plan into this file, for clean apply."),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option(metavar="TOPIC", help="Only of this topic: its name or its id."),
    ] = None,
    kind: Annotated[
        str | None, typer.Option(metavar="KIND", help="Only this kind of dead weight.")
    ] = None,
    older_than: Annotated[
        str,
        typer.Option(metavar="TIME", help="Minimum age of dead weight, at least 1d."),
    ] = DEFAULT_AGE,
    quarantine: Annotated[
        str,
        typer.Option(metavar="TIME", help="Minimum time in quarantine, at least 1d."),
    ] = DEFAULT_AGE,
    idle: Annotated[
        bool,
        typer.Option(
            "--idle", help="Nothing was written for a day or more, and that is right."
        ),
    ] = False,
    overwrite: OverwriteOption = False,
    store: StoreOption = None,
    cluster: ClusterOption = None,
    json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """List dead weight: what never ended, what Kafka lost, and objects that no log knows.

    The command changes nothing. Each segment is listed with its evidence, its bytes, and what
    clean apply would do. Exit status 1: there is dead weight. 3: some logs cannot be read; of
    their partitions nothing is judged. 2, among others: the whole is refused, since what is
    missing may be our own doing; the message begins with the reason's name.
    """
    from tierledger.pipeline.cleaning.rules import CleaningAges
    from tierledger.pipeline.cleaning.weights import WeightKind
    from tierledger.tiering.layouts.tier_url import Layout

    if kind is not None and kind not in list(WeightKind):
        raise InvalidArgument(f"--kind: expected one of {', '.join(WeightKind)}; got {kind!r}")
    require_place(out, overwrite=overwrite)
    now_ms = WallClock().now_ms()
    ages = CleaningAges(
        now_ms,
        _age_ms(older_than, "--older-than"),
        _age_ms(quarantine, "--quarantine"),
        idle,
    )
    cleaned = CleanedTier.of(tier, StoreOptions(store, cluster))
    weighed = weigh(cleaned, ages)
    weights = [
        one
        for one in weighed.weights
        if topic in {None, one.topic, one.topic_id} and kind in {None, one.kind}
    ]
    made = _plan(cleaned, ages, weighed, weights)
    if out is not None:
        from tierledger.pipeline.cleaning.plan_file import write_plan

        with complete_file(out, overwrite=overwrite) as file:
            write_plan(made, file)
    _show(made, out, json=json, wide=wide)
    if cleaned.url.layout != Layout.LEDGER:
        print_note(
            f"clean apply deletes in tierledger's own layout only, not in {cleaned.url.layout}"
        )
    if led := sum(map(weighed.is_led, weights)):
        print_note(
            f"{led} segments are of partitions that brokers host: clean apply has the leaders "
            "decide, so the service has to run"
        )
    for one in weighed.looked.damaged:
        print_note(f"{one.name} cannot be read from position {one.position} on: {one.message}")
    if weighed.looked.damaged:
        raise typer.Exit(ExitStatus.PARTLY)
    if weights:
        raise typer.Exit(ExitStatus.FOUND)


def _age_ms(text: str, option: str) -> int:
    from tierledger.pipeline.cleaning.rules import DAY_MS

    found = duration_ms(text, option)
    if found < DAY_MS:
        raise InvalidArgument(f"{option}: expected at least 1d, got {text}")
    return found


def _plan(
    tier: CleanedTier, ages: CleaningAges, weighed: Weighed, weights: Sequence[DeadWeight]
) -> CleaningPlan:
    from tierledger.pipeline.cleaning.plan_file import VERSION, CleaningPlan, PlanHead, PlanLog

    looked, listed = weighed.looked, weighed.looked.world.listed
    head = PlanHead(
        VERSION,
        token_hex(8),
        looked.cluster,
        tier.url.shown,
        ages.now_ms,
        looked.listed_ms,
        listed.objects,
        listed.size_in_bytes,
        ages.older_than_ms,
        ages.quarantine_ms,
        ages.is_idle,
    )
    rests_on = {(one.topic_id, one.partition) for one in weights}
    logs = [
        PlanLog(log.topic, *key, log.next_position, log.chain_hash.hex())
        for key, log in sorted(looked.world.logs.items())
        if key in rests_on
    ]
    return CleaningPlan(head, logs, weights, weighed.left)


def _show(plan: CleaningPlan, out: Path | None, *, json: bool, wide: bool) -> None:
    counts, sizes = Counter[str](), Counter[str]()
    for one in plan.weights:
        counts[one.kind] += 1
        sizes[one.kind] += one.size_in_bytes
    worst = sorted(plan.weights, key=lambda one: -one.size_in_bytes)[:SHOWN_MAX]
    if json:
        import msgspec

        kinds = {kind: {"segments": counts[kind], "bytes": sizes[kind]} for kind in counts}
        print_json(
            {
                **msgspec.to_builtins(plan.head),
                "kinds": kinds,
                "segments": len(plan.weights),
                "bytes": sizes.total(),
                "largest": [_plain(one) for one in worst],
                "left": msgspec.to_builtins(list(plan.left)),
                "out": None if out is None else str(out),
            }
        )
        return
    if worst:
        print_table(PrintedTable.of([_cells(one) for one in worst], SPARE), wide=wide)
    for left in sorted(plan.left, key=lambda one: -one.size_in_bytes)[:SHOWN_MAX]:
        print_note(f"{left_text(left)}: left, {left.reason}: {left.detail}")
    by_kind = [
        (kind, f"{counts[kind]} segments ({size_text(sizes[kind])})") for kind in sorted(counts)
    ]
    print_pairs(
        [
            ("cluster", plan.head.cluster),
            ("tier", plan.head.tier),
            ("objects", plan.head.objects),
            *(by_kind or [("dead weight", "none")]),
            ("plan", out),
        ]
    )
    if len(plan.left) > SHOWN_MAX:
        print_note(f"{len(plan.left) - SHOWN_MAX} more are left; the file of --out has them")
    if len(plan.weights) > len(worst):
        more = len(plan.weights) - len(worst)
        print_note(f"{more} more are not shown here; the file of --out has them")


def left_text(one: LeftWeight) -> str:
    where = one.topic or one.topic_id
    return f"{where}-{one.partition}, {one.count} segments ({size_text(one.size_in_bytes)})"


def _plain(one: DeadWeight) -> dict[str, Any]:
    import msgspec

    plain: dict[str, Any] = msgspec.to_builtins(one)
    return {**plain, "objects": len(one.objects)}


def _cells(one: DeadWeight) -> dict[str, object]:
    return {
        "kind": state_cell(one.kind),
        "topic": one.topic or id_cell(one.topic_id),
        "partition": one.partition,
        "segment": id_cell(one.segment_id),
        "bytes": size_cell(one.size_in_bytes),
        "since": time_cell(one.since_ms),
        "evidence": one.evidence,
        "action": one.action,
    }

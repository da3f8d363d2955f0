"""A page of each kind, with a few made-up items that show all that the page can show."""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from tests.models.simulation.sample_timelines import zombie
from tests.models.storage.partition_logs import (
    DELETED,
    DELETING,
    added,
    finished,
    history,
    opened,
    partition,
    updated,
)
from tierledger.cli.pages.jobs.audit import EXPECTED, audit_content
from tierledger.cli.pages.jobs.costs import costs_content
from tierledger.cli.pages.jobs.coverage import coverage_content
from tierledger.cli.pages.jobs.retention import retention_content
from tierledger.cli.pages.jobs.stuck import stuck_content
from tierledger.cli.pages.report.page import report_page
from tierledger.events import log_events as log
from tierledger.pages.environment import Stamp, render
from tierledger.pipeline.folding.task import DamagedLog
from tierledger.pipeline.jobs.audit.kinds import AuditKind
from tierledger.pipeline.jobs.audit.rows import AuditDigest
from tierledger.pipeline.jobs.costs import CostDigest, summed
from tierledger.pipeline.jobs.coverage.job import Strip, Totals
from tierledger.pipeline.jobs.coverage.rules import CoverageKind
from tierledger.pipeline.jobs.retention.deletions import RetentionQuestion
from tierledger.pipeline.jobs.retention.job import RetentionDigest
from tierledger.pipeline.prices import read_prices
from tierledger.simulation.explain.page import page as run_page

DEPLOY = Path(__file__).parents[3] / "deploy"
NOW_MS = 1_795_000_000_000
DAY_MS = 86_400_000
FACTS = {"cluster": "c", "engine": "local", "currency": "EUR"}
STAMP = Stamp("2026-11-28T09:31:02Z", "0.1.0", "sqlite:ledger.sqlite")


def job_page(
    template: str, content: Mapping[str, object], damaged: Sequence[DamagedLog] = ()
) -> str:
    return render(template, stamp=STAMP, facts=FACTS, damaged=damaged, **content)


def report(topic: str = "payments") -> str:
    """A report of three partitions: with findings of all kinds, deleted, with many epochs."""
    troubled: list[log.Body] = [
        *finished(1, 0, 9),
        *finished(2, 20, 29),
        *finished(3, 25, 34),
        added(4, 35, 39),
        *finished(5, 40, 49),
        updated(5, DELETING),
        opened(2, 2),
        log.SessionDisputed(2, None, 3, None),
        *finished(6, 50, 59, {1: 50}),
    ]
    gone: list[log.Body] = [
        *finished(1, 0, 9),
        *(log.PartitionDeleteUpdated(state, 1, 5) for state in range(3)),
    ]
    long: list[log.Body] = [opened(2, 1, topic=topic)]
    for epoch in range(30):
        long += finished(epoch + 1, epoch * 10, epoch * 10 + 9, {epoch: epoch * 10})
    for number in range(1, 28):
        long += [updated(number, DELETING), updated(number, DELETED)]
    histories = [
        history(troubled),
        history(gone, partition("gone")),
        history(long, partition(topic, 1)),
    ]
    return report_page(histories, "Remote log metadata", {"cluster": "c"}, STAMP)


def run() -> str:
    """The page of a run in which a host pauses, is succeeded, resumes and writes."""
    return run_page(zombie(), STAMP)


def damaged(topic: str) -> list[DamagedLog]:
    return [DamagedLog(topic, "damagedid", 3, 17, "the batch does not verify")]


def coverage(topic: str = "payments") -> str:
    kinds = (
        "covered",
        "hole",
        "covered",
        "overlap",
        "recovered",
        "orphaned_epoch",
        "unfinished",
    )
    rows = [
        {
            "kind": kind,
            "leader_epoch": None if kind == "hole" else 4,
            "start_offset": at * 100,
            "end_offset": at * 100 + 99,
            "segments": 0 if kind == "hole" else 1,
            "size_in_bytes": 0 if kind == "hole" else 1_500_000,
            "segment_ids": [] if kind == "hole" else ["a", "b", "c", "d"],
            "detail": "COPY_SEGMENT_STARTED" if kind == "unfinished" else None,
        }
        for at, kind in enumerate(kinds)
    ]
    totals = {kind: Totals(3, 300, 4_500_000) for kind in kinds}
    strips = [
        Strip(topic, "id", at, {}, [row | {"partition": at} for row in rows]) for at in range(3)
    ]
    return job_page("coverage.html", coverage_content(totals, strips, 700), damaged(topic))


def lone_segments() -> str:
    """A partition of which a thousandth and two millionths are covered, far from each other."""
    rows = [
        {
            "kind": "covered",
            "leader_epoch": 0,
            "start_offset": start,
            "end_offset": end,
            "segments": 1,
            "size_in_bytes": 1000,
            "segment_ids": ["a"],
            "detail": None,
            "partition": 0,
        }
        for start, end in ((0, 999), (500_000, 500_000), (999_999, 999_999))
    ]
    totals = {str(kind): Totals(3, 300, 4_500_000) for kind in CoverageKind}
    strips = [Strip("orders", "id", 0, {}, rows)]
    return job_page("coverage.html", coverage_content(totals, strips, 1))


def stuck(topic: str = "payments") -> str:
    states = ("COPY_SEGMENT_STARTED", "DELETE_SEGMENT_STARTED", "DELETE_PARTITION_MARKED")
    rows: list[dict[str, Any]] = [
        {
            "topic": topic,
            "partition": number,
            "state": states[number % 3],
            "segment_id": None if number % 3 == 2 else f"segment-{number}",
            "since_ms": NOW_MS - (number + 1) * DAY_MS,
            "age_ms": (number + 1) * DAY_MS,
            "broker_id": 2,
            "start_offset": number * 10,
            "end_offset": number * 10 + 9,
            "size_in_bytes": 4096,
            "advice": f"look at {states[number % 3]}",
        }
        for number in reversed(range(9))
    ]
    totals = dict.fromkeys(states[:2], (3, 12288)) | {states[2]: (594, 12_288)}
    limits = dict.fromkeys([*states, "DELETE_PARTITION_STARTED"], DAY_MS)
    return job_page("stuck.html", stuck_content(totals, limits, rows))


def audit(topic: str = "payments") -> str:
    """An audit that found something of each kind, in several partitions."""
    digest = AuditDigest(1000)
    for number in range(3):
        for at, kind in enumerate(AuditKind):
            digest.take(_audited(kind, topic, number, at))
    return job_page("audit.html", audit_content(digest), damaged(topic))


def lossy_audit() -> str:
    """An audit of 806 segments in 60 partitions, of which 766 are not in the tier."""
    digest = AuditDigest(1000)
    for number in range(806):
        kind = (
            AuditKind.WHOLE if number % 20 == 0 and number < 800 else AuditKind.MISSING_OBJECT
        )
        digest.take(_audited(kind, f"topic-{number % 10}", number % 60, number))
    return job_page("audit.html", audit_content(digest), damaged("damaged"))


def _audited(kind: AuditKind, topic: str, partition: int, number: int) -> dict[str, Any]:
    is_there = kind is not AuditKind.MISSING_OBJECT
    is_finished = kind in EXPECTED
    is_foreign = kind is AuditKind.FOREIGN
    return {
        "kind": kind.value,
        "topic": None if is_foreign else topic,
        "topic_id": None if is_foreign else f"id-of-{topic}",
        "partition": None if is_foreign else partition,
        "segment_id": f"segment-{number}",
        "objects": 5 * is_there,
        "size_in_bytes": 1_500_000 * is_there,
        "expected_bytes": 1_500_000 if is_finished else None,
        "last_modified_ms": NOW_MS if is_there else None,
        "detail": "" if is_there else "nothing is there",
        "place": f"a/b/{number}",
    }


def retention(topic: str = "payments") -> str:
    question = RetentionQuestion(DAY_MS, -1, NOW_MS, NOW_MS + 3 * DAY_MS)
    digest = RetentionDigest(question)
    for number in range(4):
        digest.take(
            {
                "what": "partition",
                "topic": topic if number else "",
                "topic_id": f"id-{number}",
                "segments_before": 10,
                "bytes_before": 10_000 * (number + 1),
                "segments_after": 10 - number,
                "bytes_after": 9_000,
            }
        )
        for reason, days in (("time", number), ("size", 0)):
            at_ms = NOW_MS + days * DAY_MS
            digest.take(
                {"what": "segment", "reason": reason, "at_ms": at_ms, "size_in_bytes": 500}
            )
    return job_page("retention.html", retention_content(question, digest))


def costs(topic: str = "payments") -> str:
    """Four topics, of which one has nothing in the tier."""
    prices = read_prices(DEPLOY / "prices.toml")
    digest = CostDigest()
    for number, what in product(range(4), ("tier", "trash")):
        size = number * 10**13
        digest.take(
            {
                "what": what,
                "topic": topic if number else "",
                "topic_id": f"id-{number}",
                "segments": number * 1000,
                "size_in_bytes": size,
                **prices.cost(topic, number * 1000, size)._asdict(),
            }
        )
    rows = digest.rows(prices, "topic")
    whole = {what: summed(row[what] for row in rows) for what in ("tier", "trash")}
    return job_page("costs.html", costs_content("EUR", "topic", rows, whole))


JOBS = {
    "coverage": coverage,
    "costs": costs,
    "stuck": stuck,
    "audit": audit,
    "retention": retention,
}

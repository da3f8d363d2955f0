"""The report of a replay: one page that needs nothing but itself.

Rule: whatever comes from a log is escaped where it enters the page (`report_text`), and the
page forbids itself to load anything, so a hostile topic name stays a name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tierledger.cli.report_bars import lane_limit
from tierledger.cli.report_model import PartitionHistory, picture_of
from tierledger.cli.report_page import section, summary, table
from tierledger.cli.report_script import SCRIPT
from tierledger.cli.report_style import PATTERNS, STYLE
from tierledger.cli.report_text import escaped, json_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tierledger.cli.report_model import Picture

__all__ = ["PartitionHistory", "render"]

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""Nothing may be fetched, from anywhere; what is in the page may run."""


def render(partitions: Sequence[PartitionHistory], title: str, facts: Mapping[str, str]) -> str:
    """The page as HTML, ready to be written as UTF-8.

    Per partition: a lane per leader epoch with a bar per segment, what overlaps and what is
    missing, and who led when; on top the totals. Very many segments are drawn together, so the
    page's size is bounded by what a screen can show.

    Args:
        partitions: Whole logs, each from position 0; shown by topic and partition.
        title: The page's heading.
        facts: What else stands at the top, by name, in this order.

    Raises:
        CorruptLog: A history is not a whole log that `decide` wrote.
    """
    pictures = sorted((picture_of(history) for history in partitions), key=_order)
    brokers = _brokers(pictures)
    limit = lane_limit(lane for picture in pictures for lane in picture.lanes)
    sections = [section(at, one, brokers, limit) for at, one in enumerate(pictures)]
    details = json_text([detail for _, detail in sections])
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escaped(title)}</title><style>{STYLE}</style></head><body>{PATTERNS}"
        f"<header><h1>{escaped(title)}</h1>{summary(pictures, facts)}</header>"
        f"<main>{_controls()}{table(pictures)}{''.join(html for html, _ in sections)}</main>"
        '<div id="tip" role="status" aria-live="polite" hidden></div>'
        f'<script type="application/json" id="details">{details}</script>'
        f"<script>{SCRIPT}</script></body></html>\n"
    )


def _order(picture: Picture) -> tuple[str, int, bytes]:
    identity = picture.topic_id_partition
    return picture.topic, identity.partition, bytes(identity.topic_id)


def _brokers(pictures: Sequence[Picture]) -> list[int]:
    """All brokers that led or copied, so that each keeps its colour over the page."""
    led = {one.opened.broker_id for picture in pictures for one in picture.timeline.leaderships}
    copied = {run.broker_id for picture in pictures for run in picture.timeline.recorded}
    return sorted(led | copied)


def _controls() -> str:
    return (
        '<div class="controls script" role="search" hidden>'
        '<label>Filter <input id="filter" type="search" placeholder="topic, partition or id" '
        'autocomplete="off" spellcheck="false"></label>'
        '<label><input id="findings" type="checkbox"> only with findings</label>'
        '<button type="button" id="unfold">Open all</button>'
        '<button type="button" id="fold">Close all</button>'
        '<output id="count" aria-live="polite"></output></div>'
    )

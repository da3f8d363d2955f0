"""The report's page: it shows everything, loads nothing, and believes no name."""

import re
from collections import Counter

import pytest

from tests.models.pages.html_page import HtmlPage
from tests.models.pages.sample_pages import STAMP
from tests.models.storage.partition_logs import (
    added,
    finished,
    folded,
    history,
    imported,
    opened,
    partition,
    updated,
)
from tierledger.cli.pages.report.bars import LANE_BARS_MAX, lane_limit, rows_of
from tierledger.cli.pages.report.lanes import size_row
from tierledger.cli.pages.report.model import PartitionLog, SegmentKind, picture_of
from tierledger.cli.pages.report.page import SIZES_MAX, report_page, sections_of
from tierledger.cli.pages.time_columns import HEIGHT
from tierledger.events import log_events as log
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.tables.segment_rows import id_of_row
from tierledger.events.vocabulary import WORDS

HOSTILE = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u202e\x00\ud800"


@pytest.mark.parametrize("trace", ["three-brokers-churn", "topic-deletion", "custom-metadata"])
def test_every_segment_of_the_final_state_is_on_the_page(trace: str) -> None:
    histories = imported(trace)

    page = HtmlPage(report_page(histories, trace, {}, STAMP))

    shown = {segment[0]: segment[4] for section in page.data() for segment in section}
    for one in histories:
        for row in folded(one).rows:
            assert shown[str(Uuid(id_of_row(row)))] != SegmentKind.DELETED.value
    assert page.count("details", open="") == 0
    assert len([one for one in page.having("details") if one.get("data-name")]) == len(
        histories
    )


def test_a_lane_has_a_bar_per_segment_and_marks_what_is_wrong() -> None:
    bodies = [*finished(1, 0, 9), *finished(2, 20, 29), *finished(3, 25, 34), added(4, 35, 39)]

    page = HtmlPage(report_page([history(bodies)], "t", {}, STAMP))

    # One more of each stands in the legend.
    looks = {word: f"{word} {WORDS[word].look}" for word in (*SegmentKind, "overlap", "hole")}
    drawn = Counter({word: page.count("rect", _class=looks[word]) - 1 for word in looks})
    assert +drawn == {"served": 3, "copying": 1, "overlap": 1, "hole": 2}, "one of all epochs"


def test_names_and_facts_are_text_wherever_they_stand() -> None:
    bodies = [opened(2, 2, topic=HOSTILE), log.SessionClosed(2, HOSTILE), *finished(1, 0, 9)]
    tip = partition(HOSTILE.replace("\ud800", ""))

    page = HtmlPage(report_page([history(bodies, tip)], HOSTILE, {HOSTILE: HOSTILE}, STAMP))

    page.assert_harmless()
    assert page.count("script") == 5
    assert "</script><script>alert(1)" in page.text()


def test_a_deleted_partition_says_so() -> None:
    deletion = [log.PartitionDeleteUpdated(state, 1, 5) for state in range(3)]

    page = HtmlPage(report_page([history([*finished(1, 0, 9), *deletion])], "t", {}, STAMP))

    assert "DELETE_PARTITION_FINISHED" in page.text()
    assert page.count("rect", _class="flag") - 1 == 3


def test_the_page_refers_to_nothing_but_itself() -> None:
    page = HtmlPage(report_page(imported("one-broker"), "t", {"a": "b"}, STAMP))

    page.assert_harmless()
    assert all(re.fullmatch(r"#[\w.-]+-\d+", str(link)) for link in page.values("a", "href"))
    patterns = {f"#{found['id']}" for found in page.having("pattern")}
    assert set(re.findall(r"url\(([^)]*)\)", page.html)) <= patterns


def test_every_link_of_the_table_leads_to_a_section() -> None:
    page = HtmlPage(report_page(imported("topic-deletion"), "t", {}, STAMP))

    ids = {found["id"] for _, found in page.elements if "id" in found}
    links = [str(found["href"])[1:] for found in page.having("a")]
    assert links
    assert set(links) <= ids
    assert len(ids) == len([1 for _, found in page.elements if "id" in found])


def test_two_topics_of_one_name_are_told_apart_by_their_ids() -> None:
    other = TopicIdPartition(Uuid(b"\x09" * 16), 0, "orders")

    page = HtmlPage(report_page([history([]), history([], other)], "t", {}, STAMP))

    codes = [text for tag, text in page.texts if tag == "code"]
    assert codes.count(str(other.topic_id)) == 2


def test_an_empty_report_is_a_page_and_so_is_an_empty_partition() -> None:
    HtmlPage(report_page([], "nothing", {}, STAMP))
    page = HtmlPage(report_page([PartitionLog(partition(), []), history([])], "t", {}, STAMP))

    assert "No segment was ever added." in page.text()


def test_forty_partitions_fit_in_five_megabytes() -> None:
    html = report_page(imported("large"), "large", {}, STAMP)

    assert len(html.encode()) < 5_000_000


def test_very_many_segments_are_drawn_together_and_nothing_rare_is_lost() -> None:
    bodies: list[log.Body] = []
    for number in range(1, 12_001):
        bodies += finished(number, number * 10, number * 10 + 9)
    bodies.append(added(20_000, 60_000, 60_009))

    picture = picture_of(history(bodies))
    html = report_page([history(bodies)], "t", {}, STAMP)
    page = HtmlPage(html)

    rows = rows_of(picture.lanes[0], LANE_BARS_MAX)
    bars = [bar for row in rows.live for bar in row]
    assert len(bars) <= LANE_BARS_MAX
    assert sum(bar.parts for bar in bars) == 12_001
    assert [bar.kind for bar in bars].count(SegmentKind.COPYING) == 1
    assert "neighbours drawn together" in page.text()
    assert len(html) < 1_000_000


def test_a_crowded_page_leaves_less_to_each_lane() -> None:
    lane = picture_of(history([one for n in range(99) for one in finished(n, n, n)])).lanes[0]

    assert lane_limit([lane]) == LANE_BARS_MAX
    assert lane_limit([lane] * 1000) < 99


def test_offsets_at_the_end_of_the_range_are_drawn_and_exact() -> None:
    last = 2**63 - 1
    page = HtmlPage(report_page([history(finished(1, last - 9, last))], "t", {}, STAMP))

    assert page.data()[0][0][1:3] == [str(last - 9), str(last)]
    assert page.having("rect", _class="served good")[-1]["width"] == "100%"


def test_the_size_over_time_grows_with_copies_and_falls_with_deletions() -> None:
    bodies = [*finished(1, 0, 9), *finished(2, 10, 19), added(3, 20, 29)]

    row = size_row(picture_of(history([*bodies, updated(1, 2), updated(1, 3)])))

    tips = [box.tip.partition(": ")[2] for box in row.drawing.boxes]
    told = [tip for at, tip in enumerate(tips) if not at or tips[at - 1] != tip]
    one, two = "1000 B in 1 segment", "2.0 KiB in 2 segments"
    assert told == [one, two, one], "from the end of a copy to that of a deletion"
    assert row.note == one
    assert row.drawing.boxes[-1].tip.startswith("2023-11-14T22:13:27.000Z")
    assert {box.height for box in row.drawing.boxes} == {HEIGHT, HEIGHT // 2}


def test_a_page_of_very_many_partitions_draws_no_sizes() -> None:
    tips = [partition("t", number) for number in range(SIZES_MAX + 1)]
    pictures = [picture_of(history(finished(1, 0, 9), tip)) for tip in tips]

    assert all(one.sizes for one in sections_of(pictures[1:]))
    assert not any(one.sizes for one in sections_of(pictures))

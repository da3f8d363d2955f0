"""The page of a run: it shows everything, loads nothing, and takes no text for markup."""

import re
import subprocess
import sys

import pytest

from tests.models.pages.html_page import HtmlPage
from tests.models.simulation.sample_timelines import LANES, long_run, zombie
from tierledger.pages.environment import Stamp
from tierledger.simulation.explain.marks import MARKS, UNKNOWN, mark_of
from tierledger.simulation.explain.page import ARROWS_MAX, ROWS_MAX
from tierledger.simulation.explain.page import page as stamped_page
from tierledger.simulation.timeline import (
    Arrow,
    RunLane,
    RunMoment,
    RunTimeline,
    Span,
    first_and_last_us,
    ordered,
)

HOSTILE = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u202e\x00\n\ud800"
EMPTY = RunTimeline("nothing", "run nothing", [], [], [], [], [], [])


STAMP = Stamp("2026-11-28T09:31:02Z", "0.1.0", "a simulated run")


def page(run: RunTimeline) -> str:
    return stamped_page(run, STAMP)


def test_everything_of_a_run_is_on_its_page() -> None:
    run = zombie()

    shown = HtmlPage(page(run))

    data = shown.data()
    assert data["lanes"][0] == ["", ""], "decisions stand in the lane of the run itself"
    assert data["lanes"][1:] == [[lane.name, lane.kind] for lane in LANES]
    assert [len(data[one]) for one in ("moments", "arrows", "spans")] == [
        len(run.moments),
        len(run.arrows),
        len(run.spans),
    ]
    assert run.violations[0] in shown.of("li")
    assert [text for text in shown.of("a") if text in run.decisions] == run.decisions
    assert run.title in shown.of("h1")
    assert run.command in shown.of("code")
    assert (data["first"], data["last"]) == (0, 90_000)


def test_what_was_found_comes_before_anything_else() -> None:
    html = page(zombie())

    assert (
        html.index("1 violation") < html.index('id="picture"') < html.index("<h2>8 decisions")
    )


def test_a_clean_run_says_so() -> None:
    assert "No violation was found in this run." in HtmlPage(page(EMPTY)).of("div")


def test_a_violation_leads_to_its_mark() -> None:
    moments = [RunMoment(5, "", "decision", "d"), RunMoment(9, "", "violation", "v: so it is")]

    html = page(EMPTY._replace(moments=moments, violations=["v: so it is", "w: unmarked"]))

    assert '<li><a href="#m1">v: so it is</a></li>' in html
    assert "<li>w: unmarked</li>" in html


def test_a_message_is_where_and_when_it_was() -> None:
    lost = Arrow(20, "a", "b", 90, "call", "x", is_lost=True, epoch=3, key="orders-0")
    lanes = [RunLane("b", "host"), RunLane("a", "broker")]

    data = HtmlPage(page(EMPTY._replace(lanes=lanes, arrows=[lost]))).data()

    texts = data["texts"]
    assert data["lanes"] == [["a", "broker"], ["b", "host"]]
    ((sent, source, target, received, what, detail, is_lost, epoch, key),) = data["arrows"]
    assert (sent, source, target, received, is_lost, epoch) == (20, 0, 1, 90, 1, 3)
    assert [texts[what], texts[detail], texts[key]] == ["call", "x", "orders-0"]


def test_a_lane_that_nobody_declared_is_drawn_below_the_others() -> None:
    moments = [RunMoment(1, "stray", "crash"), RunMoment(2, "host-1", "crash")]

    run = ordered(EMPTY._replace(lanes=[RunLane("host-1", "host")], moments=moments))

    assert run.lanes == [RunLane("host-1", "host"), RunLane("stray", "")]


def test_what_happened_at_one_time_keeps_its_order() -> None:
    moments = [RunMoment(2, "a", "z"), RunMoment(1, "a", "late"), RunMoment(2, "a", "b")]

    run = ordered(EMPTY._replace(moments=moments))

    assert [one.what for one in run.moments] == ["late", "z", "b"]


def test_the_axis_holds_what_arrives_last() -> None:
    run = EMPTY._replace(
        moments=[RunMoment(5, "a", "x")],
        arrows=[Arrow(6, "a", "b", 70, "call")],
        spans=[Span("a", 1, 60, "dead")],
    )

    assert first_and_last_us(run) == (0, 70)
    assert first_and_last_us(EMPTY) == (0, 1)


def test_names_and_details_of_a_run_are_shown_as_text() -> None:
    run = RunTimeline(
        HOSTILE,
        HOSTILE,
        [RunLane(HOSTILE, HOSTILE)],
        [RunMoment(1, HOSTILE, HOSTILE, HOSTILE, 1, HOSTILE)],
        [Arrow(1, HOSTILE, HOSTILE, None, HOSTILE, HOSTILE)],
        [Span(HOSTILE, 1, 2, HOSTILE, None, HOSTILE)],
        [HOSTILE, "harmless"],
        [HOSTILE],
    )

    shown = HtmlPage(page(run))

    shown.assert_harmless()
    assert shown.count("script") == 3
    assert "</script><script>alert(1)" in shown.of("h1")[0]
    (carried,) = [text for text in shown.of("script") if text.startswith("{")]
    assert not set("<>&") & set(carried)


def test_the_page_refers_to_nothing_but_itself() -> None:
    shown = HtmlPage(page(zombie()))

    shown.assert_harmless()
    assert all(re.fullmatch(r"#[mas]\d+", str(link)) for link in shown.values("a", "href"))


def test_links_lead_to_the_things_they_name() -> None:
    run = ordered(zombie())
    shown = HtmlPage(page(run))
    links = [str(link) for link in shown.values("a", "href")]

    decided = links[: len(run.decisions)]
    assert [run.moments[int(link[2:])].detail for link in decided] == run.decisions
    lines = links[len(run.decisions) :]
    assert sorted(lines) == sorted(
        f"#{kind}{at}"
        for kind, some in (("m", run.moments), ("a", run.arrows), ("s", run.spans))
        for at in range(len(some))
    )


def test_every_colour_of_a_mark_is_in_the_style_sheet() -> None:
    (style,) = HtmlPage(page(zombie())).of("style")

    colours = {mark.colour for mark in (*MARKS.values(), UNKNOWN)} - {"epoch"}
    assert colours <= set(re.findall(r"--(\w+):", style))


def test_every_kind_can_be_switched_off() -> None:
    run = zombie()
    shown = HtmlPage(page(run))
    texts = shown.data()["texts"]

    chips = {
        (found["data-kind"], texts[int(str(found["data-what"]))])
        for _, found in shown.elements
        if found.get("class") == "chip"
    }

    assert chips == {
        *(("m", one.what) for one in run.moments),
        *(("a", one.what) for one in run.arrows),
        *(("s", one.what) for one in run.spans),
    }
    assert {texts[int(str(key))] for key in shown.values("option", "value") if key != "-1"} == {
        "orders-0",
        "orders-1",
    }


@pytest.mark.parametrize(
    ("what", "mark"),
    [
        ("crash", MARKS["crash"]),
        ("crash after durable", MARKS["crash"]),
        ("op ok", MARKS["op ok"]),
        ("claim lost", MARKS["claim lost"]),
        ("claim", MARKS["claim"]),
        ("crashed", UNKNOWN),
        ("", UNKNOWN),
    ],
)
def test_a_mark_belongs_to_the_text_a_moment_begins_with(what: str, mark: object) -> None:
    assert mark_of(what) == mark


def test_no_two_marks_have_one_shape() -> None:
    marks = [*MARKS.values(), UNKNOWN]

    assert len({(mark.path, mark.mode) for mark in marks}) == len(marks)
    for mark in marks:
        numbers = [float(one) for one in re.findall(r"-?\d+(?:\.\d+)?", mark.path)]
        assert max(map(abs, numbers)) <= 8


def test_a_long_run_fits_in_a_megabyte_and_the_table_says_what_it_leaves_out() -> None:
    run = long_run(10_000)

    html = page(run)

    lines = len(run.moments) + len(run.arrows) + len(run.spans)
    assert len(html) < 1_000_000
    assert html.count("<tr><td>") == ROWS_MAX
    assert f"{lines - ROWS_MAX:,} more lines: read them as text." in html


def test_a_run_beyond_the_limits_is_cut_at_its_end_and_says_so() -> None:
    arrows = [Arrow(time, "a", "b", time + 1, "call") for time in range(ARROWS_MAX + 7)]

    html = page(EMPTY._replace(arrows=list(reversed(arrows))))

    data = HtmlPage(html).data()
    assert [data["arrows"][at][0] for at in (0, -1)] == [0, ARROWS_MAX - 1]
    assert data["last"] == ARROWS_MAX + 7
    assert "Left out for size, from the end of the run: 7 messages." in html


def test_the_same_run_gives_the_same_bytes_in_another_process() -> None:
    program = (
        "from tests.models.simulation.sample_timelines import zombie;"
        "from tierledger.pages.environment import Stamp;"
        "from tierledger.simulation.explain.page import page;"
        f"print(page(zombie(), {STAMP}), end='')"
    )

    pages = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
            encoding="utf-8",
        ).stdout
        for seed in ("1", "2")
    }

    assert pages == {page(zombie())}

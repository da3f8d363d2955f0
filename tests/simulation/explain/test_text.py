"""A run as text: one line per event, a column per process."""

from tests.models.simulation.sample_timelines import long_run, zombie
from tierledger.simulation.explain.text import COLUMNS_MAX, text
from tierledger.simulation.timeline import Arrow, RunLane, RunMoment, RunTimeline, Span

LANES = [
    RunLane("broker-1", "broker"),
    RunLane("host-1", "host"),
    RunLane("host-2", "host"),
    RunLane("store", "store"),
]
EMPTY = RunTimeline("a run", "repeat it", LANES, [], [], [], [], [])


def events(run: RunTimeline) -> list[str]:
    """The lines after the heads of the columns."""
    lines = text(run).splitlines()
    (head,) = [at for at, line in enumerate(lines) if "time ms" in line]
    return lines[head + 1 :]


def strips(run: RunTimeline) -> list[str]:
    """The processes' columns of each event."""
    lines = text(run).splitlines()
    (head,) = [line for line in lines if "time ms" in line]
    begin, end = head.index(" 1 2") + 1, head.index("where")
    return [line[begin:end].rstrip() for line in events(run)]


def test_a_run_begins_with_what_was_found_and_how_to_repeat_it() -> None:
    run = zombie()

    lines = text(run).splitlines()

    assert lines[:5] == [
        run.title,
        f"repeat: {run.command}",
        "",
        "violations: 1",
        f"    1  {run.violations[0]}",
    ]
    assert f"decisions: {len(run.decisions)}" in lines
    assert f"    1  {run.decisions[0]}" in lines
    assert "    2  broker-1 (broker)" in lines


def test_a_message_passes_from_column_to_column() -> None:
    arrows = [
        Arrow(1000, "broker-1", "host-2", 3000, "call", "add"),
        Arrow(2000, "store", "host-1", 2500, "created"),
        Arrow(4000, "host-1", "store", None, "create", is_lost=True),
        Arrow(5000, "host-1", "host-2", None, "ping"),
        Arrow(6000, "host-1", "host-1", 6100, "note"),
    ]

    assert strips(EMPTY._replace(arrows=arrows)) == [
        "o---> |",
        "| <---o",
        "| . | |",
        "| | . |",
        "| o---x",
        "| o-> |",
        "| > | |",
        "| . | |",
    ]


def test_a_message_says_what_becomes_of_it() -> None:
    arrows = [
        Arrow(1000, "broker-1", "host-2", 3456, "call", "add"),
        Arrow(4000, "host-1", "store", 4500, "create", is_lost=True),
        Arrow(5000, "host-1", "host-2", None, "ping"),
    ]

    sent, arrived, lost, never = events(EMPTY._replace(arrows=arrows))

    assert sent.endswith("message 0, arrives 3.456, add")
    assert arrived.split()[0] == "3.456"
    assert arrived.endswith("message 0 from broker-1")
    assert lost.endswith("message 1, lost")
    assert never.endswith("message 2, not there by the end")


def test_a_bar_says_until_when_and_what_it_is() -> None:
    spans = [
        Span("broker-1", 1000, 3000, "call", None, "orders-0", "call 3: add"),
        Span("host-1", 1000, 3000, "dead"),
    ]

    call, dead = events(EMPTY._replace(spans=spans))

    assert call.endswith("until 3.000, call 3: add")
    assert dead.endswith("until 3.000")


def test_the_columns_show_who_is_dead_paused_or_cut_off() -> None:
    spans = [
        Span("host-1", 1000, 3000, "dead"),
        Span("host-2", 1500, 4000, "paused"),
        Span("store", 2000, 2500, "cut off"),
    ]
    moments = [RunMoment(time, "broker-1", "op ok") for time in (500, 2200, 2700, 3000, 4000)]

    shown = strips(EMPTY._replace(spans=spans, moments=moments))

    assert shown == [
        "o | | |",
        "| [ | |",
        "|   [ |",
        "|   : [",
        "o   : /",
        "o   : |",
        "o | : |",
        "o | | |",
    ]


def test_what_arrives_comes_before_what_it_causes() -> None:
    run = EMPTY._replace(
        moments=[RunMoment(2000, "host-1", "claim", "session 1", 1, "orders-0")],
        arrows=[
            Arrow(2000, "host-1", "broker-1", None, "reply"),
            Arrow(1000, "store", "host-1", 2000, "created"),
        ],
    )

    _, arrived, claimed, sent = events(run)

    assert "created arrives" in arrived
    assert claimed.endswith("session 1")
    assert "host-1 -> broker-1" in sent


def test_an_event_is_one_line_whatever_it_says() -> None:
    hostile = "one\ntwo\r\u2028three\x1b[31m\u202e\ud800"
    moments = [RunMoment(1, "host-1", hostile, hostile, 1, hostile)]

    shown = text(EMPTY._replace(moments=moments, title=hostile))

    assert shown.encode()
    assert "\x1b" not in shown
    assert len(events(EMPTY._replace(moments=moments))) == 1


def test_too_many_processes_for_columns_are_still_named() -> None:
    lanes = [RunLane(f"host-{at}", "host") for at in range(COLUMNS_MAX + 1)]

    lines = events(EMPTY._replace(lanes=lanes, moments=[RunMoment(1234, "host-7", "crash")]))

    assert [line.split() for line in lines] == [["1.234", "host-7", "crash"]]


def test_every_event_of_a_long_run_has_its_line() -> None:
    run = long_run(3000)

    arrived = sum(not one.is_lost and one.received_us is not None for one in run.arrows)
    expected = len(run.moments) + len(run.arrows) + arrived + len(run.spans)
    assert len(events(run)) == expected

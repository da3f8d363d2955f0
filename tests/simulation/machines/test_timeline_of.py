"""A world's picture has everybody who took part, what happened to them and what they sent."""

from functools import cache

from tierledger.actors.calls import PartitionKey
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.simulation.checkers.violation import Violation
from tierledger.simulation.content import CONTENT_MAX, content
from tierledger.simulation.explain.page import page
from tierledger.simulation.explain.text import text
from tierledger.simulation.machines.scenario import Decision, Scenario, drawn
from tierledger.simulation.machines.shape import shaped
from tierledger.simulation.machines.timeline_of import timeline_of
from tierledger.simulation.machines.verdict import ran
from tierledger.simulation.timeline import Timeline

S = 1_000_000
WHERE = TopicIdPartition(Uuid(bytes(15) + b"\x09"), 0, "orders")

DECISIONS = (
    Decision(int(0.8 * S), "copy", (0, 0, "go on", 5)),
    Decision(int(1.0 * S), "pause", ("host-0", 900)),
    Decision(int(1.2 * S), "elect", (0, 0, 1, 1, 1)),
    Decision(int(2.5 * S), "read", (1, 0, 0, 1, 0, 3)),
    Decision(int(2.8 * S), "store", ("host-0", 2, 0)),
    Decision(int(2.9 * S), "copy", (0, 0, "go on", 7)),
    Decision(int(3.5 * S), "kill", ("host-0",)),
    Decision(int(3.9 * S), "kill", ("coordinator",)),
)


FOUND = [Violation("unlike_model", PartitionKey.of(WHERE), "position 0: as an example")]


def calm(decisions: tuple[Decision, ...]) -> Scenario:
    """A small world of one partition and one host in which only those happen."""
    words = "brokers=2 partitions=1 hosts=1 delays=even skews=none epochs=known knobs=default"
    return shaped(drawn(1), words.split())._replace(decisions=decisions)


@cache
def timeline() -> Timeline:
    world = ran(calm(DECISIONS), keeps=True)
    return timeline_of(world, title="a run", command="again", violations=FOUND)


def test_every_life_has_a_lane_of_its_kind() -> None:
    kinds = {lane.name.partition("/")[0]: lane.kind for lane in timeline().lanes}

    brokers = dict.fromkeys(("broker-1", "broker-2"), "broker")
    assert kinds == {
        **brokers, "coordinator": "coordinator", "host-0": "host", "store": "store",
    }  # fmt: skip
    assert sum(lane.name.startswith("coordinator/") for lane in timeline().lanes) > 1


def test_every_decision_is_listed_and_marked_at_its_time() -> None:
    marked = [one for one in timeline().moments if one.what == "decision"]

    assert [one.detail for one in marked] == timeline().decisions
    assert [one.time_us for one in marked] == [one.at for one in DECISIONS]
    assert timeline().decisions[1] == "1,000.000 ms  pause site=host-0 duration=900"
    assert timeline().decisions[4] == (
        "2,800.000 ms  store site=host-0 fate=answer-of-a-write-lost by=0"
    )


def test_a_decision_says_which_calls_it_led_to() -> None:
    first, read = timeline().decisions[0], timeline().decisions[3]

    assert first.startswith(
        "800.000 ms  copy partition=0 lane=0 operation=go-on draw=5 -> call 0 (add by broker-"
    )
    assert " kind=lookup draw=3 -> call " in read


def test_messages_and_batches_say_what_is_in_them() -> None:
    (added,) = [one for one in timeline().moments if "SegmentAdded(" in one.detail][:1]
    asked = [one for one in timeline().arrows if one.what == "command"]
    answers = [one.detail for one in timeline().arrows if one.what == "answered"]

    assert added.what == "append"
    assert added.detail.startswith("batch 1: position 1")
    assert asked[0].detail.startswith("call 0; 1; 0; AddSegment(claim=Claim(broker_id=")
    assert "call 0; 1; 1" in answers


def test_each_session_of_a_leader_has_its_span() -> None:
    """Two brokers are elected, and the host leads on for the second."""
    claims = [one for one in timeline().moments if one.what == "claim"]
    drawn_sessions = {one.epoch for one in timeline().spans if one.what == "leads"}

    assert [one.epoch for one in claims] == list(dict.fromkeys(one.epoch for one in claims))
    assert drawn_sessions == {one.epoch for one in claims}
    assert len(drawn_sessions) >= 3


def test_a_violation_is_marked_at_the_time_it_is_about() -> None:
    (marked,) = [one for one in timeline().moments if one.what == "violation"]
    (first,) = [
        one for one in timeline().moments if one.detail.startswith("batch 0: ") and one.key
    ]

    assert marked.time_us == first.time_us
    assert marked.detail == "unlike_model: partition 0: position 0: as an example"


def test_what_lasted_has_its_length() -> None:
    spans = timeline().spans

    (paused,) = [one for one in spans if one.what == "paused"]
    assert (paused.begin_us, paused.end_us) == (int(1.0 * S), int(1.9 * S))
    assert any(one.what == "dead" and one.begin_us == int(3.5 * S) for one in spans)
    leads = [one for one in spans if one.what == "leads"]
    assert len(leads) > 1
    assert all(one.epoch is not None and one.key == "orders-0" for one in leads)
    assert all(one.begin_us < one.end_us for one in leads)
    calls = [one for one in spans if one.what == "call"]
    assert len(calls) >= 3
    assert {one.lane.partition("-")[0] for one in calls} == {"broker"}


def test_an_append_has_the_colour_of_the_session_it_was_made_in() -> None:
    appends = [one for one in timeline().moments if one.what == "append" and one.key]
    coloured = [one for one in appends if one.epoch is not None]

    assert coloured
    assert {one.epoch for one in coloured} <= {
        one.epoch for one in timeline().spans if one.what == "leads"
    }


def test_messages_go_between_lanes_and_some_never_arrive() -> None:
    names = {lane.name for lane in timeline().lanes}

    assert all({one.source, one.target} <= names for one in timeline().arrows)
    assert any(one.is_lost and one.source == "store" for one in timeline().arrows)
    assert all(
        one.received_us is None or one.received_us >= one.sent_us for one in timeline().arrows
    )


def test_nothing_reaches_who_is_paused_or_dead() -> None:
    deaf = [one for one in timeline().spans if one.what in {"paused", "dead"}]

    for span in deaf:
        assert not [
            one
            for one in timeline().arrows
            if one.target == span.lane
            and one.received_us is not None
            and span.begin_us <= one.received_us < span.end_us
        ]


def test_a_call_ends_as_its_caller_saw_it() -> None:
    ends = {one.what for one in timeline().moments if one.what.startswith("op ")}

    assert "op ok" in ends
    assert ends <= {"op ok", "op fail", "op info"}


def test_watching_changes_nothing() -> None:
    watched, alone = (ran(drawn(3), keeps=keeps) for keeps in (True, False))

    assert watched.recording.digest() == alone.recording.digest()
    assert not alone.recording.arrows
    assert not alone.recording.moments


def test_the_same_run_gives_the_same_page_and_text() -> None:
    world = ran(calm(DECISIONS), keeps=True)
    again = timeline_of(world, title="a run", command="again", violations=FOUND)

    assert page(again) == page(timeline())
    assert text(again) == text(timeline())


def test_who_was_elected_is_told_in_that_broker_s_lane() -> None:
    elected = [one.lane for one in timeline().moments if one.what == "elect"]

    assert elected
    assert set(elected) <= {lane.name for lane in timeline().lanes if lane.kind == "broker"}


def test_a_violation_that_says_when_it_began_is_marked_there() -> None:
    world = ran(calm(DECISIONS), keeps=True)
    found = [
        Violation("lockout", PartitionKey.of(WHERE), "nothing failed since 1,200.500 ms"),
        Violation("unready", PartitionKey.of(WHERE), "at some time"),
    ]

    shown = timeline_of(world, title="a run", command="again", violations=found)

    marked = [one.time_us for one in shown.moments if one.what == "violation"]
    assert marked == [1_200_500, world.clock.now]


def test_requests_are_text_and_ids_are_short() -> None:
    said = [one.detail for one in timeline().moments if one.what == "append"]

    assert any("request=broker-1/1" in one for one in said)
    assert any("partitions=[[9, 0, 1]]" in one for one in said)


def test_what_is_too_long_says_that_it_goes_on() -> None:
    assert content(["x" * CONTENT_MAX]) == "x" * CONTENT_MAX
    assert content(["x" * (CONTENT_MAX + 1)]) == f"{'x' * CONTENT_MAX}..."

"""A world's picture has everybody who took part, what happened to them and what they sent."""

import re
from functools import cache

from tierledger.actors.calls import PartitionKey
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.pages.environment import Stamp
from tierledger.simulation.checkers.content import CONTENT_MAX, content
from tierledger.simulation.checkers.violation import ASKED, Violation
from tierledger.simulation.explain.page import page
from tierledger.simulation.explain.text import text
from tierledger.simulation.machines.scenario.drawing import REPLICAS_FIRST, drawn
from tierledger.simulation.machines.scenario.scenario import Scenario, SeedDecision
from tierledger.simulation.machines.scenario.shape import shaped, simpler
from tierledger.simulation.machines.timeline_of import timeline_of
from tierledger.simulation.machines.verdict import ran
from tierledger.simulation.timeline import RunTimeline

S = 1_000_000
STAMP = Stamp("2026-11-28 09:31:02 UTC", "0.1.0", "a simulated run")
WHERE = TopicIdPartition(Uuid(bytes(15) + b"\x09"), 0, "orders")

DECISIONS = (
    SeedDecision(int(0.8 * S), "copy", (0, 0, "go on", 5)),
    SeedDecision(int(1.0 * S), "pause", ("host-0", 900)),
    SeedDecision(int(1.2 * S), "elect", (0, 0, 1, 1, 1)),
    SeedDecision(int(2.5 * S), "read", (1, 0, 0, 1, 0, 3)),
    SeedDecision(int(2.8 * S), "store", ("host-0", 2, 0)),
    SeedDecision(int(2.9 * S), "copy", (0, 0, "go on", 7)),
    SeedDecision(int(3.5 * S), "kill", ("host-0",)),
    SeedDecision(int(3.9 * S), "kill", ("coordinator",)),
)


FOUND = [Violation("unlike_model", PartitionKey.of(WHERE), "position 0: as an example")]


def calm(decisions: tuple[SeedDecision, ...]) -> Scenario:
    """A small world of one partition and one host in which only those happen."""
    settings = (
        "brokers=2 partitions=1 hosts=1 delays=even skews=none epochs=known knobs=default"
    )
    return shaped(drawn(1), settings.split())._replace(decisions=decisions)


@cache
def timeline() -> RunTimeline:
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
        "800.000 ms  copy partition=0 caller=0 operation=go-on draw=5 -> call 0 (add by broker-"
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

    assert page(again, STAMP) == page(timeline(), STAMP)
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
    details = [one.detail for one in timeline().moments if one.what == "append"]

    assert any("request=broker-1/1" in one for one in details)
    assert any("partitions=[[9, 0, 1]]" in one for one in details)


def test_what_is_too_long_says_that_it_goes_on() -> None:
    assert content(["x" * CONTENT_MAX]) == "x" * CONTENT_MAX
    assert content(["x" * (CONTENT_MAX + 1)]) == f"{'x' * CONTENT_MAX}..."


def test_followers_and_leaders_have_bars_of_their_own() -> None:
    spans = [one for one in timeline().spans if one.what in {"leads", "follows"}]

    assert {one.what for one in spans} == {"leads", "follows"}
    assert {one.key for one in spans} == {"orders-0"}
    assert all(one.lane.startswith("host-0/") for one in spans)


def test_a_follower_that_is_let_go_has_an_end() -> None:
    """All replicas leave their brokers."""
    world = ran(calm((SeedDecision(1 * S, "release", (0, 30)),)), keeps=True)
    run = timeline_of(world, title="a run", command="again", violations=[])

    gone = [one.time_us for one in run.moments if one.what == "unfollow"]
    first, *_ = [one for one in run.spans if one.what == "follows"]

    assert first.end_us == gone[0] < world.clock.now


def test_loads_readiness_and_healing_are_marked() -> None:
    marked = {one.what: one for one in timeline().moments}

    assert marked["loaded"].detail.startswith(("leader at position", "follower at position"))
    assert " for Claim(broker_id=" in marked["ready"].detail
    assert marked["heal"].time_us < marked["well"].time_us


def test_a_checkpoint_is_marked_with_what_it_covers() -> None:
    world = ran(drawn(0), keeps=True)
    run = timeline_of(world, title="a run", command="again", violations=[])

    written = [one for one in run.moments if one.what == "checkpoint"]

    assert len(written) == world.recording.marks["checkpoint written"]
    assert all(one.detail.startswith("up to position ") and one.key for one in written)


def test_requests_and_messages_say_which_partition_they_are_about() -> None:
    arrows = timeline().arrows
    creates = [one for one in arrows if one.what == "create"]

    assert {one.detail for one in creates if not one.key} <= {
        f"coordinator batch {at}" for at in range(100)
    }
    assert "partition 0 batch 1" in {one.detail for one in creates if one.key == "orders-0"}
    for what in ("command", "answered", "ready", "reported ready", "read slots done"):
        assert "orders-0" in {one.key for one in arrows if one.what == what}


def test_a_violation_stands_where_its_partition_is_shown() -> None:
    (marked,) = [one for one in timeline().moments if one.what == "violation"]

    assert marked.key == "orders-0"


def test_the_time_in_a_text_counts_before_its_calls_and_its_position() -> None:
    world = ran(calm(DECISIONS), keeps=True)
    found = [
        Violation("unanswered", PartitionKey.of(WHERE), "since 1,200.500 ms", (0,)),
        Violation("fed_early", PartitionKey.of(WHERE), "was at position 1 at 1,300.000 ms"),
        Violation("wrong_memory", None, f"{ASKED}: position 0"),
        Violation("miscoordinated", None, "position 0 of the coordinator's log: as an example"),
    ]

    shown = timeline_of(world, title="a run", command="again", violations=found)

    marked = [one.time_us for one in shown.moments if one.what == "violation"]
    (first,) = [one for one in shown.moments if one.detail.startswith("batch 0: position 0-1")]
    assert marked == [1_200_500, 1_300_000, world.clock.now, first.time_us]


def test_a_call_s_bar_says_which_call_it_is() -> None:
    calls = [one.detail for one in timeline().spans if one.what == "call"]

    assert "call 0: add" in calls


def test_what_replicas_are_fed_is_drawn() -> None:
    world = ran(drawn(REPLICAS_FIRST), keeps=True)
    run = timeline_of(world, title="a run", command="again", violations=[])

    fed = [one for one in run.arrows if one.what.startswith("feed ")]
    seen = [one.detail for one in run.moments if one.what == "replica"]

    assert {one.what for one in fed} == {
        "feed subscribed", "feed take", "feed given", "feed drop",
    }  # fmt: skip
    assert all(one.key for one in fed if one.what == "feed given")
    assert any("Change(" in one.detail for one in fed)
    assert any(one.is_lost for one in fed)
    assert any("replica-0 is at position " in one for one in seen)


def test_a_smaller_run_may_do_without_replicas() -> None:
    assert "replicas=none" in simpler(drawn(REPLICAS_FIRST))

    world = ran(shaped(drawn(REPLICAS_FIRST), ["replicas=none"]), keeps=True)

    assert not world.feeding.seen


def test_answers_and_what_replicas_are_fed_name_their_segments() -> None:
    world = ran(drawn(REPLICAS_FIRST), keeps=True)
    run = timeline_of(world, title="a run", command="again", violations=[])

    details = {what: [one.detail for one in run.arrows if one.what == what] for what in
            ("answered", "feed given")}  # fmt: skip

    segments = r"\d+ segments: [0-9a-f]{8} from \d+ in state \d"
    assert any(re.search(rf"{segments}.* at position \d", one) for one in details["answered"])
    assert any(
        re.search(rf"Contents\(.*\) with {segments}", one) for one in details["feed given"]
    )

"""A world's picture has everybody who took part, what happened to them and what they sent."""

import re
from collections.abc import Sequence
from functools import cache

from tierledger.actors.calls import PartitionKey
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.pages.environment import Stamp
from tierledger.simulation.campaign.campaign import watched
from tierledger.simulation.checkers.content import CONTENT_MAX, content
from tierledger.simulation.checkers.violation import ASKED, Violation
from tierledger.simulation.explain.page import page
from tierledger.simulation.explain.text import text
from tierledger.simulation.machines.scenario.scenario import Scenario, SeedDecision
from tierledger.simulation.machines.scenario.shape import shaped, simpler
from tierledger.simulation.machines.timeline_of import timeline_of
from tierledger.simulation.service.plan import REPLICAS_FIRST, drawn
from tierledger.simulation.service.verdict import discard, ran
from tierledger.simulation.service.world import World
from tierledger.simulation.timeline import RunTimeline
from tierledger.simulation.worlds import SERVICE

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


FEEDS_BREAK = 7
"""A seed in which items of feeds are lost."""

DOORS = 30
"""A seed in which brokers call through doors, and hosts pass calls on to each other."""

FOUND = [Violation("unlike_model", PartitionKey.of(WHERE), "position 0: as an example")]


def calm(decisions: tuple[SeedDecision, ...]) -> Scenario:
    """A small world of one partition and one host in which only those happen."""
    settings = (
        "brokers=2 partitions=1 hosts=1 delays=even skews=none epochs=known knobs=default"
    )
    return shaped(drawn(1), settings.split())._replace(decisions=decisions)


def watched_run(
    scenario: Scenario, found: Sequence[Violation] = ()
) -> tuple[World, RunTimeline]:
    """A world that has run, and its picture."""
    with watched(scenario, world=SERVICE) as world:
        return world, timeline_of(world, title="a run", command="again", violations=found)


@cache
def timeline() -> RunTimeline:
    return watched_run(calm(DECISIONS), FOUND)[1]


def test_every_life_has_a_lane_of_its_kind() -> None:
    kinds = {lane.name.partition("/")[0]: lane.kind for lane in timeline().lanes}

    brokers = dict.fromkeys(("broker-1", "broker-2"), "broker")
    assert kinds == {
        **brokers, "coordinator": "coordinator", "host-0": "host", "store": "store", "ray": "",
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
    answers = [one.detail for one in timeline().arrows if one.what == "command answered"]

    assert added.what == "append"
    assert added.detail.startswith("batch 1: position 1")
    assert asked[0].detail.startswith("call 0; AddSegment(claim=Claim(broker_id=")
    assert "call 0; 1" in answers


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
    kept, alone = (ran(drawn(3), keeps=keeps) for keeps in (True, False))
    for world in (kept, alone):
        discard(world)

    assert kept.recording.digest() == alone.recording.digest()
    assert not alone.recording.arrows
    assert not alone.recording.moments


def test_the_same_run_gives_the_same_page_and_text() -> None:
    again = watched_run(calm(DECISIONS), FOUND)[1]

    assert page(again, STAMP) == page(timeline(), STAMP)
    assert text(again) == text(timeline())


def test_who_was_elected_is_told_in_that_broker_s_lane() -> None:
    elected = [one.lane for one in timeline().moments if one.what == "elect"]

    assert elected
    assert set(elected) <= {lane.name for lane in timeline().lanes if lane.kind == "broker"}


def test_a_violation_that_says_when_it_began_is_marked_there() -> None:
    found = [
        Violation("lockout", PartitionKey.of(WHERE), "nothing failed since 1,200.500 ms"),
        Violation("unready", PartitionKey.of(WHERE), "at some time"),
    ]

    world, shown = watched_run(calm(DECISIONS), found)

    marked = [one.time_us for one in shown.moments if one.what == "violation"]
    assert marked == [1_200_500, world.clock.now]


def test_requests_are_text_and_ids_are_short() -> None:
    details = [one.detail for one in timeline().moments if one.what == "append"]

    assert any("request=broker-1/0/" in one for one in details)
    assert any("followers=[[7, 0, orders]]" in one for one in details)


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
    world, run = watched_run(calm((SeedDecision(1 * S, "release", (0, 30)),)))

    gone = [one.time_us for one in run.moments if one.what == "unfollow"]
    first, *_ = [one for one in run.spans if one.what == "follows"]

    assert first.end_us == gone[0] < world.clock.now


def test_loads_readiness_and_healing_are_marked() -> None:
    marked = {one.what: one for one in timeline().moments}

    assert marked["loaded"].detail.startswith(("leader at position", "follower at position"))
    assert " for Claim(broker_id=" in marked["ready"].detail
    assert marked["heal"].time_us < marked["well"].time_us


def test_a_checkpoint_is_marked_with_what_it_covers() -> None:
    world, run = watched_run(drawn(0))

    written = [one for one in run.moments if one.what == "checkpoint"]

    assert len(written) == world.recording.marks["checkpoint written"]
    assert all(one.detail.startswith("up to position ") and one.key for one in written)


def test_requests_and_messages_say_which_partition_they_are_about() -> None:
    arrows = timeline().arrows
    creates = [one for one in arrows if one.what == "create each"]

    assert {one.detail for one in creates if not one.key} <= {
        f"coordinator batch {at}" for at in range(100)
    }
    assert "partition 0 batch 1" in {one.detail for one in creates if one.key == "orders-0"}
    for what in ("command", "command answered", "ready", "ready answered", "last keys done"):
        assert "orders-0" in {one.key for one in arrows if one.what == what}


def test_a_violation_stands_where_its_partition_is_shown() -> None:
    (marked,) = [one for one in timeline().moments if one.what == "violation"]

    assert marked.key == "orders-0"


def test_the_time_in_a_text_counts_before_its_calls_and_its_position() -> None:
    found = [
        Violation("unanswered", PartitionKey.of(WHERE), "since 1,200.500 ms", (0,)),
        Violation("fed_early", PartitionKey.of(WHERE), "was at position 1 at 1,300.000 ms"),
        Violation("wrong_memory", None, f"{ASKED}: position 0"),
        Violation("miscoordinated", None, "position 0 of the coordinator's log: as an example"),
    ]

    world, shown = watched_run(calm(DECISIONS), found)

    marked = [one.time_us for one in shown.moments if one.what == "violation"]
    (first,) = [
        one
        for one in shown.moments
        if one.detail.startswith("batch 0: position 0 HostStarted(") and not one.key
    ]
    assert marked == [1_200_500, 1_300_000, world.clock.now, first.time_us]


def test_a_call_s_bar_says_which_call_it_is() -> None:
    calls = [one.detail for one in timeline().spans if one.what == "call"]

    assert "call 0: add" in calls


def test_what_replicas_are_fed_is_drawn() -> None:
    _, run = watched_run(drawn(FEEDS_BREAK))

    fed = [one for one in run.arrows if one.what.startswith("feed ")]
    seen = [one.detail for one in run.moments if one.what == "replica"]

    assert {one.what for one in fed} >= {
        "feed subscribed", "feed expected",
        "feed snapshot", "feed slice", "feed change", "feed ready", "feed head",
    }  # fmt: skip
    assert all(one.key for one in fed)
    assert any("Change(" in one.detail for one in fed)
    assert any(one.is_lost for one in fed)
    assert any("replica-0 is at position " in one for one in seen)


def test_a_smaller_run_may_do_without_replicas() -> None:
    assert "replicas=none" in simpler(drawn(REPLICAS_FIRST))

    world, _ = watched_run(shaped(drawn(REPLICAS_FIRST), ["replicas=none"]))

    assert not world.fed.seen


def test_answers_and_what_replicas_are_fed_name_their_segments() -> None:
    _, run = watched_run(drawn(REPLICAS_FIRST))

    details = {what: [one.detail for one in run.arrows if one.what == what] for what in
            ("query answered", "feed change", "feed slice")}  # fmt: skip

    segments = r"\d+ segments: [0-9a-f]{8} from \d+ in state \d"
    assert any(
        re.search(rf"{segments}.* at position \d", one) for one in details["query answered"]
    )
    assert any(
        re.search(rf"Contents\(.*\) with {segments}", one) for one in details["feed change"]
    )


def test_what_passes_a_door_is_drawn_call_by_call() -> None:
    world, run = watched_run(drawn(DOORS))
    names = {lane.name for lane in run.lanes}
    way = [one for one in run.arrows if one.detail.startswith("call 0;")]
    kinds = {one.kind for one in run.lanes if one.name in {"stranger/0", "ray/0"}}

    assert {life.name for life in world.lives} < names
    assert {end for one in run.arrows for end in (one.source, one.target)} <= names
    assert kinds == {"broker", ""}
    asked, passed_on, answered, passed_back = way
    assert [one.what for one in way] == ["command"] * 2 + ["command answered"] * 2
    assert passed_on.detail == asked.detail
    assert "AddSegment(claim=" in asked.detail
    assert (answered.detail, passed_back.detail) == ("call 0; 1", "call 0; 1")
    assert (asked.source, passed_on.source) == (passed_back.target, answered.target)

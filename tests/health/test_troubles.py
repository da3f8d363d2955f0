"""The list of troubles: what is found, how urgent it is, and that the documents have it."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.house.test_documents import document, sections_of
from tests.models.actors.reports import NOW_MS, host, reading, served, silent
from tierledger.actors.conditions import Conditions
from tierledger.actors.coordinator.attendance import SILENT_MS
from tierledger.health.status import TROUBLES, Reading, status_of
from tierledger.health.troubles import KINDS, Severity, Trouble, are_well, troubles_of

MOVING = {
    "owner": "moving",
    "owner_epoch": 2,
    "source": "kafka",
    "heading": "tierledger",
    "owner_since_ms": NOW_MS - 10_000,
    "give_up_after_ms": 20_000,
}


OURS = {"owner": "tierledger", "owner_epoch": 3}


def found(given: Reading) -> list[Trouble]:
    return troubles_of(status_of(given))


def only(given: Reading) -> Trouble:
    (one,) = found(given)
    return one


def cluster(**more: object) -> Reading:
    """A service with one host, all well but for `more` in the coordinator's answer."""
    given = {"kafka": follower(), **more}
    return reading({"host-0": host(served(0))}, {}, **given)


def plugin(**more: object) -> dict[str, Any]:
    return {
        "broker_id": 3,
        "incarnation": 2,
        "mode": "handover",
        "owner_epoch": 3,
        "is_idle": False,
        "heard_ms_ago": 400,
        "trouble": None,
        "code": None,
        **more,
    }


def follower(**more: object) -> dict[str, Any]:
    """The report of the process that imports Kafka's topic; brokers 3 and 4 are alive."""
    report = {"task": "import", "round": 7, "heard_ms_ago": 100, "trouble": None}
    return {**report, "alive": [3, 4], **more}


def test_a_service_without_trouble_is_well() -> None:
    assert found(cluster(attending=[plugin()], kafka=follower())) == []


def test_a_note_is_listed_and_well_and_a_warning_is_not() -> None:
    loading = found(reading({"host-0": host(served(0, phase="loading"))}))
    late = found(cluster(kafka=follower(trouble="no brokers")))

    assert [one.severity for one in loading] == [Severity.NOTE]
    assert are_well(loading)
    assert [one.severity for one in late] == [Severity.WARNING]
    assert not are_well(late)


def test_the_most_urgent_comes_first() -> None:
    given = reading(
        {"host-0": host(served(0, phase="loading")), "host-1": silent()},
        kafka=follower(trouble="no brokers"),
    )

    assert [one.code for one in found(given)] == ["host-silent", "import-fails", "loading"]


def test_a_partitions_trouble_is_an_entry_with_its_reason() -> None:
    bad = served(7, phase="quarantined", reason="a checksum is wrong")

    one = only(reading({"host-0": host(bad)}))

    assert (one.code, one.subject) == ("quarantined", "partition orders-7")
    assert one.text.endswith("writes are refused: a checksum is wrong")


def test_a_lost_coordinator_is_one_trouble() -> None:
    assert only(Reading(None, {"host-0": host(served(0))}, {})).code == "coordinator-silent"


def test_a_silent_host_is_silent_since_the_coordinator_heard_it_last() -> None:
    one = only(reading({"host-1": silent()}))

    assert (one.code, one.subject, one.since_ms) == ("host-silent", "host host-1", NOW_MS - 100)
    assert one.text == "no answer within 2 s; 2 leaders are there"


@pytest.mark.parametrize(
    ("more", "code", "subject", "since_ms"),
    [
        ({"unplaced": 4}, "unplaced", "cluster", None),
        (
            {
                "set_aside": 1,
                "set_aside_items": [{"what": "a--1", "reason": "none", "since_ms": 5}],
            },
            "set-aside",
            "item a--1",
            5,
        ),
        ({**MOVING, "kafka": follower(alive=[])}, "owner-moving", "cluster", NOW_MS - 10_000),
        (
            {**MOVING, "owner_since_ms": NOW_MS - 60_000, "kafka": follower(alive=[])},
            "move-overdue",
            "cluster",
            NOW_MS - 60_000,
        ),
        (
            {"attending": [plugin(trouble="silent", code="silent", heard_ms_ago=9_000)]},
            "plugin-silent",
            "broker 3",
            NOW_MS - 9_000,
        ),
        (
            {"attending": [plugin(trouble="in shadow, while …", code="mode")]},
            "plugin-mode",
            "broker 3",
            None,
        ),
        (
            {"attending": [plugin(trouble="not registered", code="not-registered")]},
            "plugin-not-registered",
            "broker 3",
            None,
        ),
        ({"shadows": [{"broker_id": 3, "standing": 2}]}, "shadow-differs", "broker 3", None),
        (
            {"kafka": follower(heard_ms_ago=SILENT_MS + 1, trouble="silent")},
            "follower-silent",
            "kafka",
            NOW_MS - SILENT_MS - 1,
        ),
        (
            {"kafka": follower(trouble="no brokers", trouble_ms_ago=7_000)},
            "import-fails",
            "kafka",
            NOW_MS - 7_000,
        ),
        ({"kafka": follower(task="mirror", trouble="x")}, "mirror-fails", "kafka", None),
        ({"kafka": follower(task="seal", trouble="x")}, "seal-fails", "kafka", None),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_what_the_coordinator_knows_is_told_with_its_subject_and_since_when(
    more: Mapping[str, object], code: str, subject: str, since_ms: int | None
) -> None:
    one = only(cluster(**more))

    assert (one.code, one.subject, one.since_ms) == (code, subject, since_ms)


@pytest.mark.parametrize(
    ("alive", "code"),
    [([3, 4], "plugin-silent"), ([4], "broker-down"), (None, "plugin-silent")],
)
def test_a_silent_plugin_is_the_brokers_trouble_only_if_kafka_says_that_it_is_dead(
    alive: list[int] | None, code: str
) -> None:
    silent_one = plugin(trouble="silent", code="silent", heard_ms_ago=9_000)

    one = only(cluster(attending=[silent_one], kafka=follower(alive=alive)))

    assert (one.code, one.since_ms) == (code, NOW_MS - 9_000)


def test_a_living_broker_without_the_plugin_is_told_once_tierledger_owns_the_metadata() -> None:
    attending = [plugin()]

    one = only(cluster(**OURS, attending=attending))

    assert (one.code, one.subject) == ("plugin-missing", "broker 4")
    # Before that it is as it should be, and a new coordinator has not heard of anybody.
    assert found(cluster(owner="kafka", owner_epoch=3, attending=attending)) == []
    assert found(cluster(**OURS, attending=[], up_ms=SILENT_MS)) == []


def test_writes_that_are_held_are_told_unless_the_metadata_moves() -> None:
    idle = [plugin(is_idle=True, owner_epoch=2)]

    one = only(cluster(owner_epoch=2, attending=idle))

    assert (one.code, one.subject) == ("writes-held", "broker 3")
    assert one.text == "it holds its writes (mode handover); the owner is nobody"
    # It has not heard of the newest owner yet.
    assert found(cluster(owner_epoch=3, attending=idle)) == []
    moving = {**MOVING, "attending": [*idle, plugin(is_idle=True, broker_id=4)]}
    assert [one.code for one in found(cluster(**moving))] == ["owner-moving"]


def test_a_service_that_nobody_told_of_kafka_is_told_if_brokers_use_it() -> None:
    assert found(cluster(kafka=None)) == []
    assert only(cluster(kafka=None, attending=[plugin()])).code == "kafka-not-asked"
    assert only(cluster(kafka=None, owner="kafka")).code == "kafka-not-asked"


def test_a_store_that_lacks_what_a_plugin_has_seen_is_older() -> None:
    others = [f"orders-{number}" for number in range(3)]
    ahead = plugin(seen_epoch=4, seen_reads="tierledger", other_logs=[])
    fed_on = plugin(broker_id=4, seen_epoch=3, seen_reads="tierledger", other_logs=others)

    older = found(cluster(**OURS, attending=[ahead, fed_on]))
    nobodys = found(cluster(owner="nobody", owner_epoch=0, attending=[ahead, fed_on]))

    assert [(one.code, one.subject) for one in older] == [
        ("store-older", "broker 3"),
        ("store-older", "broker 4"),
    ]
    assert "it has seen owner epoch 4, and the store is at 3" in older[0].text
    assert "the log of orders-0 and 2 more ends before" in older[1].text
    assert nobodys == []  # There another trouble tells it.


def test_foreign_records_are_a_trouble_of_their_own() -> None:
    foreign = {
        "foreign": 5,
        "foreign_since_ms": 77,
        "foreign_tiered": 2,
        "foreign_bytes": 2048,
        "foreign_changed": 1,
    }

    one = only(cluster(kafka=follower(task="mirror", **foreign)))

    assert (one.code, one.since_ms) == ("foreign-records", 77)
    assert "has 5 records that tierledger neither wrote nor imported" in one.text
    assert "add 2 segments (2048 bytes) that it does not know, and change 1" in one.text

    failing = follower(task="mirror", **foreign, trouble="no brokers", trouble_ms_ago=9)
    assert [one.code for one in found(cluster(kafka=failing))] == [
        "foreign-records",
        "mirror-fails",
    ]


# Conditions.


def test_a_condition_holds_from_its_first_finding_until_it_is_cleared() -> None:
    times = iter([5, 6])
    conditions = Conditions(lambda: next(times))
    conditions.hold("behind", "1 behind", "a")
    conditions.hold("loading", "all")
    conditions.hold("behind", "2 behind", "a")
    conditions.clear("loading")
    conditions.clear("loading")

    assert conditions.plain() == [
        {"code": "behind", "subject": "a", "since_ms": 5, "text": "2 behind"}
    ]


def test_a_condition_of_any_process_is_a_trouble_of_that_process() -> None:
    held = Conditions(lambda: 5)
    held.hold("behind", "it does not keep up", "the disk")
    given = reading(
        {"host-0": host(served(0), conditions=held.plain())},
        conditions=held.plain(),
        kafka=follower(conditions=held.plain()),
    )

    assert [(one.code, one.subject, one.since_ms) for one in found(given)] == [
        ("behind", "coordinator, the disk", 5),
        ("behind", "kafka, the disk", 5),
        ("behind", "host host-0, the disk", 5),
    ]
    assert found(given)[0].text == "it does not keep up"


def test_a_condition_of_a_newer_release_is_not_lost() -> None:
    held = Conditions(lambda: 5)
    held.hold("on-fire", "smoke")

    one = only(reading({"host-0": host(served(0), conditions=held.plain())}))

    assert (one.code, one.text) == ("unknown-condition", "on-fire: smoke")


def test_an_older_service_says_less_and_its_troubles_are_told() -> None:
    given = cluster(kafka=follower(trouble="no brokers"))
    assert given.coordinator is not None
    newer = {"conditions", "now_ms", "owner_since_ms", "give_up_after_ms"}
    older = {name: one for name, one in given.coordinator.items() if name not in newer}

    one = only(given._replace(coordinator=older))

    assert (one.code, one.since_ms) == ("import-fails", None)
    shadow = {"broker_id": 3, "different": 2}
    assert only(cluster(shadows=[shadow])).code == "shadow-differs"


def test_that_deletions_are_held_is_told_with_the_time_since_and_the_brokers() -> None:
    causes = [{"broker_id": 3, "since_ms": 9_000}, {"broker_id": 4, "since_ms": 8_000}]
    text = "deletions of finished segments are held: brokers 3, 4 ran without the plugin"

    one = only(cluster(deletions_held=causes, deletions_held_text=text))

    assert (one.code, one.severity) == ("deletions-held", Severity.CRITICAL)
    assert (one.since_ms, one.text) == (8_000, text)


def test_a_store_that_is_not_the_one_that_fed_a_broker_is_told_before_it_owns_anything() -> (
    None
):
    fed = plugin(positions=12, mode="tierledger", owner_epoch=0)

    one = only(cluster(owner="nobody", attending=[fed]))

    assert (one.code, one.severity, one.subject) == (
        "other-ledger",
        Severity.CRITICAL,
        "broker 3",
    )
    assert "remembers 12 partitions that another ledger has fed" in one.text
    assert not found(cluster(owner="nobody", attending=[plugin(positions=0)]))


# Documents.


def test_the_documented_troubles_are_those_that_can_be_listed() -> None:
    sections = sections_of(document("docs/runbook.md"))

    assert [one for one in sections if one in KINDS] == list(KINDS)
    for code, kind in KINDS.items():
        assert f"*{kind.severity}*: {kind.meaning}." in sections[code]
        assert f"What to do: {kind.action}." in sections[code]
        assert "\ntierledger " in sections[code], "what to look at"


def test_all_troubles_of_partitions_have_a_kind_with_a_code_for_monitors() -> None:
    assert TROUBLES.keys() <= KINDS.keys()
    assert all(code == code.lower() and " " not in code for code in KINDS)


def test_a_breaker_that_broke_is_critical_with_its_figures() -> None:
    hold = {"name": "breaker", "by": "tierledger", "reason": "600 of 1000", "since_ms": NOW_MS}

    one = only(cluster(holds=[hold]))

    assert (one.code, one.severity, one.subject) == (
        "breaker",
        Severity.CRITICAL,
        "hold breaker",
    )
    assert (one.text, one.since_ms) == ("600 of 1000", NOW_MS)
    assert found(cluster(holds=[{**hold, "by": "somebody"}])) == []


def test_what_no_rule_explains_is_a_trouble_of_its_partition() -> None:
    kept = {"segments": 3, "since_ms": NOW_MS, "reason": "the arithmetic"}

    one = only(reading({"host-0": host(served(0, unexplained=kept))}, {}, kafka=follower()))

    assert (one.code, one.severity, one.subject) == (
        "deletion-unexplained",
        Severity.CRITICAL,
        "partition orders-0",
    )
    assert (one.text, one.since_ms) == ("3 segments, the first: the arithmetic", NOW_MS)

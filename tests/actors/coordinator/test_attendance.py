"""Reports of brokers' plugins, and how `status` shows them."""

from typing import Any

import pytest

from tierledger.actors.calls import PartitionKey
from tierledger.actors.coordinator.attendance import (
    FORGOTTEN_MS,
    REPORTS_MISSED,
    SILENT_MS,
    STALE_MS,
    Attend,
    Attendance,
    Difference,
    MoveReport,
    ShadowReport,
    owned_elsewhere,
    trouble,
)
from tierledger.actors.coordinator.ownership import Ownership, PluginMode

SHADOW, HANDOVER, TIERLEDGER = PluginMode
KAFKAS = Ownership(1, "kafka")
MOVING = Ownership(2, "moving", "kafka", "tierledger")
OURS = Ownership(3, "tierledger")


@pytest.mark.parametrize(
    ("mode", "ownership", "expected"),
    [
        (SHADOW, KAFKAS, None),
        (SHADOW, OURS, "in shadow, while the owner is tierledger"),
        (SHADOW, MOVING, "in shadow, while the owner is moving"),
        (HANDOVER, KAFKAS, None),
        (HANDOVER, MOVING, None),
        (HANDOVER, OURS, None),
        (TIERLEDGER, OURS, None),
        (TIERLEDGER, KAFKAS, "goes by tierledger, while the owner is kafka"),
    ],
)
def test_a_mode_that_does_not_go_with_the_owner_is_told(
    mode: PluginMode, ownership: Ownership, expected: str | None
) -> None:
    found = trouble(Attend(1, 2, mode, 1, False), ownership, newest=2, silent_ms=0)

    assert found == (None if expected is None else ("mode", expected))


@pytest.mark.parametrize(("incarnation", "newest"), [(0, 0), (0, 2), (1, 2)])
def test_a_plugin_that_is_not_registered_is_told(incarnation: int, newest: int) -> None:
    attend = Attend(1, incarnation, HANDOVER, 1, False)

    found = ("not-registered", "not registered")
    assert trouble(attend, KAFKAS, newest, silent_ms=0) == found


def test_a_plugin_is_silent_once_it_was_not_heard_and_is_forgotten_later() -> None:
    attendance = Attendance()
    attendance.attended(Attend(1, 1, HANDOVER, 3, True, ShadowReport(5, 1, ())), 0)

    def attending(now_ms: int) -> list[str | None]:
        return [one["trouble"] for one in report(now_ms)["attending"]]

    def report(now_ms: int) -> dict[str, list[dict[str, str | None]]]:
        return attendance.report(OURS, {1: 1}, now_ms)

    assert attending(SILENT_MS) == [None]
    assert attending(SILENT_MS + 1) == ["silent"]
    assert attending(FORGOTTEN_MS + 1) == []
    assert report(FORGOTTEN_MS + 1)["shadows"] == []


def test_a_moves_report_has_its_age_and_is_forgotten() -> None:
    attendance = Attendance()
    attendance.move_told(MoveReport("kafka", "comparing", compared_ms_ago=200), 1000)

    def move(now_ms: int) -> dict[str, object] | None:
        found: dict[str, object] | None = attendance.report(OURS, {}, now_ms)["move"]
        return found

    young = move(1500)
    assert young is not None
    assert (young["heard_ms_ago"], young["compared_ms_ago"]) == (500, 700)
    assert move(1000 + FORGOTTEN_MS + 1) is None


def test_what_a_move_accepts_counts_in_its_owner_epoch_alone() -> None:
    attendance = Attendance()
    assert attendance.accepted(0) == ()
    attendance.accept(2, (bytes(16),))

    assert [attendance.accepted(epoch) for epoch in (1, 2, 3)] == [(), (bytes(16),), ()]


@pytest.mark.parametrize(
    ("mode", "owner_epoch", "ownership", "expected"),
    [
        (SHADOW, 1, KAFKAS, None),
        (HANDOVER, 1, KAFKAS, None),
        (HANDOVER, 0, KAFKAS, "silent"),
        (TIERLEDGER, 1, KAFKAS, "silent"),
        (SHADOW, 2, MOVING, "silent"),
        (HANDOVER, 2, MOVING, "silent"),
        (HANDOVER, 3, OURS, "silent"),
    ],
)
def test_who_is_silent_is_told_unless_kafkas_own_manager_decides_there_anyhow(
    mode: PluginMode, owner_epoch: int, ownership: Ownership, expected: str | None
) -> None:
    attend = Attend(1, 2, mode, owner_epoch, False)

    found = trouble(attend, ownership, newest=2, silent_ms=SILENT_MS + 1)

    assert found == (None if expected is None else (expected, expected))


def in_shadow(report: ShadowReport) -> Attend:
    return Attend(1, 1, SHADOW, 1, False, report)


NONE = Difference(
    PartitionKey(bytes(16), 0), "orders", "lookup", 0, 5, 9, (), (), None, None, ""
)
ONE, TWO = (bytes([one]) * 16 for one in (1, 2))


@pytest.mark.parametrize(
    ("difference", "is_recovered"),
    [
        (NONE._replace(replica=(ONE,)), True),
        (NONE._replace(kind="list_epoch", replica=(ONE, TWO)), True),
        (NONE._replace(kafka=(ONE,), replica=(TWO,)), False),
        (NONE._replace(kafka=(ONE,)), False),
        (NONE._replace(replica=(ONE,), contents="another size"), False),
        (NONE._replace(kind="size", kafka_number=5, replica_number=7), True),
        (NONE._replace(kind="size", kafka_number=7, replica_number=5), False),
        (NONE._replace(kind="highest_offset", replica_number=7), False),
    ],
)
def test_what_kafka_has_lost_is_recovered_and_anything_else_is_different(
    difference: Difference, is_recovered: bool
) -> None:
    attendance = Attendance()
    attendance.attended(in_shadow(ShadowReport(0, 0, (difference,))), 0)

    (shadow,) = attendance.report(KAFKAS, {}, 0)["shadows"]

    assert (shadow["recovered"], shadow["different"]) == (is_recovered, not is_recovered)
    assert len(shadow["differences"]) == shadow["different"]


def test_what_a_broker_in_shadow_has_compared_is_added_up() -> None:
    attendance = Attendance()
    for _ in range(2):
        attendance.attended(in_shadow(ShadowReport(5, 1, ())), 0)

    (shadow,) = attendance.report(KAFKAS, {}, 0)["shadows"]

    assert shadow == {
        "broker_id": 1,
        "verification": None,
        "verified": None,
        "verified_ms_ago": None,
        "standing": 0,
        "equal": 10,
        "skipped": 2,
        "recovered": 0,
        "different": 0,
        "resolved": 0,
        "differences": [],
    }


# Who follows Kafka's metadata topic.


def follows(attendance: Attendance, follower: str, **changed: object) -> bool:
    return attendance.followed(
        {"follower": follower, "round": 0, "trouble": None, **changed}, 0
    )


def test_the_first_follower_is_chosen_and_another_only_once_that_is_silent() -> None:
    attendance = Attendance()
    for _ in range(3):
        assert follows(attendance, "one", round=7)
        for _ in range(REPORTS_MISSED - 1):
            assert not follows(attendance, "two", round=0)
    assert attendance.report(KAFKAS, {}, 0)["kafka"]["round"] == 7

    assert follows(attendance, "two", round=0)

    assert not follows(attendance, "one", round=8), "one that was frozen does not interfere"
    assert follows(attendance, "two", round=1)
    assert attendance.report(KAFKAS, {}, 0)["kafka"]["round"] == 1


def test_a_follower_that_leaves_makes_room_at_once() -> None:
    attendance = Attendance()
    assert follows(attendance, "one")
    assert not follows(attendance, "two", leaves=True), "it has not been chosen"
    assert not follows(attendance, "three")

    assert not follows(attendance, "one", leaves=True)

    assert attendance.report(KAFKAS, {}, 0)["kafka"] is None
    assert follows(attendance, "three")


def test_a_report_that_was_under_way_when_its_follower_left_keeps_nobody_out() -> None:
    attendance = Attendance()
    assert follows(attendance, "one")
    assert not follows(attendance, "one", leaves=True)

    assert not follows(attendance, "one", round=3), "it arrives after it"

    assert attendance.report(KAFKAS, {}, 0)["kafka"] is None
    assert follows(attendance, "two")


def test_a_follower_that_is_silent_and_that_nobody_replaces_is_told() -> None:
    attendance = Attendance()
    assert follows(attendance, "one")

    assert attendance.report(KAFKAS, {}, SILENT_MS)["kafka"]["trouble"] is None
    assert attendance.report(KAFKAS, {}, SILENT_MS + 1)["kafka"]["trouble"] == "silent"


def test_a_difference_that_has_gone_stands_no_more() -> None:
    attendance = Attendance()
    first, second = (NONE._replace(offset=one, kafka=(ONE,)) for one in (5, 6))
    lost = NONE._replace(replica=(ONE,))
    differ = ShadowReport(7, 0, (first, second, lost), (), 2, 0, None)
    attendance.attended(in_shadow(differ), 0)

    def shadow(now_ms: int = 0) -> dict[str, Any]:
        (found,) = attendance.report(KAFKAS, {}, now_ms)["shadows"]
        return dict(found)

    found = shadow()
    assert (found["standing"], found["different"], found["verification"]) == (2, 2, "differs")

    gone = tuple(one._replace(kafka=()) for one in (first, second))
    attendance.attended(in_shadow(ShadowReport(0, 0, (), gone[:1], 1, 0, None)), 500)

    found = shadow(600)
    assert (found["standing"], found["resolved"], found["different"]) == (1, 1, 2)
    assert found["differences"] == [second._asdict()]

    attendance.attended(in_shadow(ShadowReport(0, 0, (), gone[1:], 0, 0, None)), 600)
    assert shadow(700)["verification"] == "never", "since the newest difference"
    attendance.attended(in_shadow(ShadowReport(3, 0, (), (), 0, 3, 500)), 1_000)
    found = shadow(2_000)
    assert found["differences"] == []
    assert (found["verification"], found["verified"]) == ("verified", 3)
    assert found["verified_ms_ago"] == 1_500
    assert shadow(STALE_MS + 501)["verification"] == "stale"


def test_an_older_plugin_does_not_tell_what_stands() -> None:
    attendance = Attendance()
    different = NONE._replace(kafka=(ONE,))
    attendance.attended(in_shadow(ShadowReport(5, 1, (different,))), 0)

    (found,) = attendance.report(KAFKAS, {}, 0)["shadows"]

    assert (found["standing"], found["verification"]) == (1, None)


def test_a_plugin_hears_how_many_rounds_the_import_has_finished() -> None:
    attendance = Attendance()
    assert attendance.import_rounds == 0

    attendance.followed({"follower": "one", "trouble": None, "task": "import", "round": 4}, 0)

    assert attendance.import_rounds == 4


def test_who_has_seen_tierledger_own_the_metadata_of_another_ledger_is_told() -> None:
    attendance = Attendance()
    for broker, reads in enumerate(("tierledger", "kafka", "")):
        attend = Attend(broker, 1, HANDOVER, 0, False, None, 34, 5, reads)
        attendance.attended(attend, 0)
    attending = attendance.report(Ownership(), {}, 0)["attending"]

    found = owned_elsewhere(attending)

    assert found is not None
    assert "in owner epoch 5, has fed the plugins of brokers 0 (34 partitions)" in found
    assert owned_elsewhere(attending[1:]) is None  # It moved back to Kafka's own manager.

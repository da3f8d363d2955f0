"""The output of `tierledger status`, with and without a service."""

import io
import itertools
import json
from pathlib import Path

import pytest
from rich.console import Console

from tests.models.actors.reports import host, reading, served, session, silent
from tests.models.cli.command_line import invoke, run
from tierledger.actors.no_brokers import REPLAY
from tierledger.cli.commands.status import view
from tierledger.cli.commands.status.view import Screen, ServiceIdentity, page_of, print_page
from tierledger.cli.table import Cell
from tierledger.events.typed_fields import time_text
from tierledger.health.left import LeftPartition
from tierledger.health.status import Reading, status_of

IDENTITY = ServiceIdentity("c1", "sqlite:/x", "127.0.0.1:1", 7, 0, None)


def table(page: Screen, first_column: str) -> list[dict[str, object]]:
    """The rows of the table whose first column is called so, as a pipe gets them."""
    (found,) = [one for one in page.tables if one.columns[0] == first_column]
    rows = [[one.whole if isinstance(one, Cell) else one for one in row] for row in found.rows]
    return [dict(zip(found.columns, row, strict=True)) for row in rows]


def page(given: Reading, limit: int | None = 20) -> Screen:
    return page_of(IDENTITY, status_of(given), limit)


def test_many_partitions_do_not_flood_a_terminal_and_the_worst_is_first() -> None:
    bad = served(999, phase="quarantined", reason="a checksum is wrong")
    many = reading({"host-0": host(*(served(number) for number in range(500)), bad)})

    found = page(many)

    rows = table(found, "topic")
    assert len(rows) == 20
    assert (rows[0]["partition"], rows[0]["trouble"]) == (
        999,
        "quarantined: a checksum is wrong",
    )
    assert found.remark == "481 more partitions, none of them worse; --all shows them"
    assert dict(found.pairs)["not well"] == "quarantined 1"
    assert len(table(page(many, None), "topic")) == 501
    assert page(many, None).remark is None


def test_what_a_broker_without_the_plugin_has_tiered_is_shown() -> None:
    segment = {
        "topic": "orders",
        "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ",
        "partition": 3,
        "id": "AAAAAAAAAAAAAAAAAAAAAg",
        "start_offset": 10,
        "end_offset": 19,
        "bytes": 4096,
        "state": "COPY_SEGMENT_FINISHED",
    }
    kafka = {"task": "mirror", "round": 7, "heard_ms_ago": 500, "trouble": None}
    more = {"foreign_segments": [segment] * 3}
    status = status_of(reading({"host-0": host(served(0))}, kafka={**kafka, **more}))

    rows = table(page_of(IDENTITY, status, 2), "tiered by others")

    assert rows == 2 * [
        {
            "tiered by others": "orders",
            "topic id": "AAAAAAAAAAAAAAAAAAAAAQ",
            "partition": 3,
            "segment": "AAAAAAAAAAAAAAAAAAAAAg",
            "offsets": "10-19",
            "bytes": "4096",
            "state": "COPY_SEGMENT_FINISHED",
        }
    ]


def test_what_no_broker_hosts_is_shown_last_with_what_to_do() -> None:
    left = LeftPartition("gone", "AAAAAAAAAAAAAAAAAAAAAQ", 3, 20, 4096)
    found = page_of(IDENTITY, status_of(reading({"host-0": host(served(0))})), 20, [left])

    (row,) = table(found, "left of")

    assert row == {
        "left of": "gone",
        "id": "AAAAAAAAAAAAAAAAAAAAAQ",
        "partition": 3,
        "segments": 20,
        "bytes": "4096",
        "what to do": "no broker hosts it: tierledger forget removes them",
    }


def test_a_partition_is_shown_with_its_session_and_followers() -> None:
    led = served(
        0,
        session={**session(4), "leader_epoch": 8},
        disputes=3,
        disputes_in_a_row=1,
        last_dispute_ms=1_700_000_000_000,
    )
    hosts = {"host-0": host(led), "host-1": host(served(0, "follower", position=8))}

    (row,) = table(page(reading(hosts)), "topic")

    assert row == {
        "topic": "orders",
        "partition": 0,
        "leader": "host-0, leading",
        "position": 10,
        "session": "4: broker 1, 2/3, epoch 8",
        "followers": "host-1 at 8, 2 behind",
        "disputes": "3, last 2023-11-14T22:13:20.000Z",
    }


def test_hosts_are_shown_with_their_counts_and_silent_ones_with_what_they_should_do() -> None:
    busy = host(
        served(0),
        alarms={"quarantined": 1, "Fenced": 3},
        process="host-0/1/abc/0123456789ab/17",
        feeds={
            "open": 2,
            "replicas": 3,
            "lag_events_max": 40,
            "snapshots": 1,
            "snapshots_waiting": 1,
            "overtaken": 5,
        },
    )

    found = page(reading({"host-0": busy, "host-1": silent()}))

    first, second = table(found, "host")
    assert first == {
        "host": "host-0",
        "process": "pid 17",
        "node": "01234567",
        "leaders": 1,
        "followers": 0,
        "commits": 4,
        "batches/commit": "2.5",
        "fed": "3, 2 snapshots, 40 events behind, 5 overtaken",
        "alarms": "Fenced 3, quarantined 1",
        "heard": "0.1 s ago",
    }
    assert (second["process"], second["leaders"]) == ("silent: no answer within 2 s", "(2)")
    assert dict(found.pairs)["not well"] == "host-silent 1"


def test_the_coordinators_node_is_shown_and_how_many_live_if_there_are_several() -> None:
    def pairs(**more: object) -> dict[str, object]:
        return dict(page(reading({}, {}, **more)).pairs)

    one = pairs(node="0123456789ab", nodes={"expected": 1, "alive": ["0123456789ab"]})
    lost = pairs(node="0123456789ab", nodes={"expected": 3, "alive": ["0123456789ab", "b"]})

    assert one["coordinator"] == "at position 5, on node 01234567"
    assert (one["Ray nodes"], lost["Ray nodes"]) == (None, "2 alive, expected 3")
    # An older service tells neither.
    assert (pairs()["coordinator"], pairs()["Ray nodes"]) == ("at position 5", None)


def test_all_well_is_one_line() -> None:
    found = page(reading({"host-0": host(served(0))}))

    assert dict(found.pairs)["not well"] == "nothing"
    assert table(found, "broker") == [
        {"broker": 1, "incarnation": 2, "last announcement": "2/3"}
    ]


def test_what_is_set_aside_is_shown_with_its_reason_and_is_not_well() -> None:
    aside = {"what": "orders--1", "reason": "expected 16 bytes", "since_ms": 0, "broker_id": 1}
    found = reading({"host-0": host(served(0))}, set_aside=1, set_aside_items=[aside])
    shown = page(found)

    assert dict(shown.pairs)["not well"] == "set-aside 1"
    (row,) = table(shown, "not well")
    assert (row["of"], row["since"], row["what"]) == (
        "item orders--1",
        time_text(0),
        "expected 16 bytes",
    )


def test_a_silent_coordinator_is_said() -> None:
    found = page(Reading(None, {}, {}))

    assert dict(found.pairs)["coordinator"].startswith("does not answer")  # type: ignore[attr-defined]
    assert table(found, "not well")[0]["not well"] == "coordinator-silent"


def test_plugins_are_shown_with_how_they_stand_those_in_trouble_first() -> None:
    one = reading({})
    assert one.coordinator is not None
    well = {
        "broker_id": 1,
        "incarnation": 2,
        "mode": "shadow",
        "owner_epoch": 3,
        "is_idle": False,
        "is_guarded": True,
        "heard_ms_ago": 400,
        "trouble": None,
        "code": None,
    }
    bad = {**well, "broker_id": 2, "owner_epoch": 0, "is_idle": True, "is_guarded": False}
    bad = {**bad, "trouble": "silent", "code": "silent"}
    shadow = {
        "broker_id": 1,
        "equal": 7,
        "verification": "verified",
        "verified": 6,
        "verified_ms_ago": 125_000,
        "standing": 1,
        "recovered": 2,
        "different": 3,
        "resolved": 2,
        "skipped": 0,
        "differences": [],
    }
    owned = {**one.coordinator, "owner": "kafka", "owner_epoch": 3}
    coordinator = {**owned, "attending": [well, bad], "shadows": [shadow]}

    found = page(one._replace(coordinator=coordinator))

    assert dict(found.pairs)["owner"] == "kafka, owner epoch 3"
    not_well = "plugin-silent 1, shadow-differs 1, kafka-not-asked 1"
    assert dict(found.pairs)["not well"] == not_well
    assert table(found, "plugin of") == [
        {
            "plugin of": 2,
            "mode": "shadow",
            "owner epoch": "none",
            "guard": "no",
            "writes": "none",
            "heard": "0.4 s ago",
            "trouble": "silent",
            "compared": None,
        },
        {
            "plugin of": 1,
            "mode": "shadow",
            "owner epoch": 3,
            "guard": "yes",
            "writes": None,
            "heard": "0.4 s ago",
            "trouble": None,
            "compared": "verified 2 min ago over 6 answers: 7 equal, 2 recovered, "
            "3 different, 2 resolved, 1 standing, 0 skipped",
        },
    ]


def test_a_watched_status_has_the_columns_that_fit_and_names_the_others() -> None:
    found = page(reading({"host-0": host(served(1))}))
    hosts = next(one for one in found.tables if one.columns[0] == "host")

    def shown(width: int, *, wide: bool = False) -> list[str]:
        output = io.StringIO()
        Console(width=width, file=output).print(view.rendered(found, "now", width, wide=wide))
        return output.getvalue().split()

    narrow, roomy, wide = shown(60), shown(200), shown(60, wide=True)

    assert set(hosts.columns) <= set(roomy)
    assert set(hosts.columns) <= set(wide)
    assert {"host", "leaders", "note:", "--wide"} <= set(narrow)
    assert not {"note:", "--wide"} & {*roomy, *wide}


def test_what_registers_as_a_broker_and_is_none_has_a_name() -> None:
    known = {"incarnation": 1, "announced": None}
    brokers = {1: known, REPLAY: known}

    found = page(reading({"host-0": host()}, brokers=brokers))

    assert [one["broker"] for one in table(found, "broker")] == [1, "replay"]


def test_names_cannot_move_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    print_page(page(reading({"host-0": host(served(0, topic="evil\x1b[2J"))})))

    shown = capsys.readouterr().out
    assert "evil\\x1b[2J" in shown
    assert "\x1b" not in shown


def test_json_has_all_of_it_in_a_fixed_order() -> None:
    status = status_of(reading({"host-0": host(served(0)), "host-1": silent()}))

    plain = json.loads(json.dumps(status.plain()))

    assert list(plain) == ["coordinator", "brokers", "hosts", "totals", "partitions"]
    assert list(plain["partitions"][0]) == [
        "topic",
        "topic_id",
        "partition",
        "trouble",
        "leader",
        "placed_on",
        "followers",
        "session",
        "disputes",
        "disputes_in_a_row",
        "last_dispute_ms",
        "unexplained",
        "kept",
        "position",
    ]
    assert plain["hosts"][1]["silence"] == "no answer within 2 s"
    assert plain["totals"]["partitions_led"] == 1


# Without a service.


def test_without_a_service_the_store_says_what_it_knows(store: Path) -> None:
    shown = run(store, "status")
    answer = run(store, "status", "--json")

    assert (shown.exit_code, answer.exit_code) == (1, 1)
    assert "none runs on this store; start one with: tierledger serve" in shown.stdout
    assert "partitions stored  4; tierledger ls lists them" in shown.stdout
    assert json.loads(answer.stdout)["service"] is None
    assert json.loads(answer.stdout)["stored"] == {"partitions": 4, "is_complete": True}


def test_the_help_of_status_explains_each_word_that_needs_it() -> None:
    told = invoke("status", "--help").stdout.partition("What the words mean:")[2]

    found = status_of(reading({"host-0": host(served(0))}))
    tables = (
        [*view._host_row(found.hosts[0]), *view._partition_row(found.partitions[0])],
        ["incarnation", "last announcement", "plugin of", "left of", "tiered by others"],
        ["coordinator", "owner", "owner epoch", "led", "open session", "not well"],
    )
    plain = {"host", "process", "listens", "node", "topic", "partition", "leader", "broker"}
    words = {*itertools.chain(*tables)} - plain - {"trouble"}
    assert {word for word in words if word not in told} == set()

"""The commands that read a store, run as a user runs them."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.cli.command_line import (
    EMPTY,
    HOSTILE,
    OLD_ORDERS,
    ORDERS,
    in_process,
    invoke,
    lines,
    refused,
    run,
    write,
)
from tests.models.storage.stored_partitions import CLUSTER, StoredPartition, segment_id
from tierledger.actors.wall_clock import WallClock
from tierledger.cli.options import parse_time_ms
from tierledger.events.errors import InvalidArgument
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.typed_fields import MS_MAX
from tierledger.storage.backends.sqlite.backend import SqliteBackend
from tierledger.storage.partition.forgetting import forget

BOTH = Uuid(b"\x77" * 16)


def test_ls_shows_what_holds_segments_or_is_led(store: Path) -> None:
    found = lines(run(store, "ls", "--json"))

    assert [(one["topic"], one["partition"]) for one in found] == [
        ("gone", 0),
        ("orders", 0),
        ("orders", 1),
    ]
    assert found[2] == {
        "topic": "orders",
        "topic_id": str(ORDERS),
        "partition": 1,
        "segments": {
            "COPY_SEGMENT_STARTED": 0,
            "COPY_SEGMENT_FINISHED": 18,
            "DELETE_SEGMENT_STARTED": 1,
        },
        "size_in_bytes": {
            "COPY_SEGMENT_STARTED": 0,
            "COPY_SEGMENT_FINISHED": 18_000,
            "DELETE_SEGMENT_STARTED": 1_000,
        },
        "leader": found[2]["leader"],
        "delete_state": None,
        "position": 43,
        "log_time_ms": found[2]["log_time_ms"],
        "log_time_ahead_ms": 0,
    }
    assert found[2]["leader"]["broker_id"] == 1
    assert found[0]["delete_state"] == "DELETE_PARTITION_FINISHED"


def test_ls_all_shows_the_empty_ones_too_and_no_name_moves_the_cursor(store: Path) -> None:
    found = lines(run(store, "ls", "--all", "--json"))
    table = run(store, "ls", "--all").stdout

    assert [one["topic"] for one in found] == [HOSTILE, "gone", "orders", "orders"]
    assert "\x1b" not in table
    assert "evil\\x1b[2J\\nname" in table
    assert str(ORDERS) in table


def test_ls_as_of_a_time_shows_what_was_there_then(store: Path) -> None:
    found = lines(run(store, "ls", "--json", "--as-of", "2023-11-14T22:13:19.500Z"))

    assert [one["topic_id"] for one in found] == [str(OLD_ORDERS)]
    assert run(store, "ls", "--as-of", "3").exit_code == 2
    nothing = run(store, "ls", "--as-of", "1999-01-01")
    assert "note: there is no partition with segments or a leader" in nothing.stderr


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ("segments orders 1", 0),
        ("segments orders 1 --epoch 0", 0),
        ("describe orders 1", 0),
        ("describe orders", 0),
        ("lookup orders 1 0 5", 1),
        ("ls --all", 0),
    ],
)
def test_what_began_later_was_not_there_then_and_that_is_no_error(
    store: Path, asked: str, status: int
) -> None:
    then = run(store, *asked.split(), "--as-of", "1999-01-01")

    assert then.exit_code == status, then.output
    said = "no partition with" if "ls" in asked else f"{ORDERS}:orders-1 then: its log began"
    assert said in then.stderr
    assert str(ORDERS) not in then.stdout


def test_ls_goes_on_after_a_partition_that_cannot_be_read(store: Path) -> None:
    async def damage(backend: SqliteBackend) -> None:
        tip = TopicIdPartition(OLD_ORDERS, 0, "orders")
        key = StoredPartition(backend, tip).keys.log_batch(tip, 0)
        await backend.update(key, b"damaged")

    write(store, damage)

    result = run(store, "ls", "--json")

    assert result.exit_code == 1
    shown = result.stdout.splitlines()
    assert len(shown) == 3
    assert ['"damaged"' in line for line in shown].count(True) == 1
    assert "cannot be read" in result.stderr


@pytest.mark.parametrize("json", [False, True])
def test_describe_names_a_damaged_partition_and_shows_the_others(
    store: Path, json: bool
) -> None:
    async def damage(backend: SqliteBackend) -> None:
        tip, sound = (TopicIdPartition(BOTH, number, "both") for number in range(2))
        await StoredPartition(backend, tip).open()
        await StoredPartition(backend, sound).open()
        await backend.update(StoredPartition(backend, tip).keys.log_batch(tip, 0), b"damaged")

    write(store, damage)

    result = run(store, "describe", "both", *(["--json"] if json else []))

    assert result.exit_code == 1
    assert "both-0" in result.stderr
    assert "cannot be read" in result.stderr
    shown = result.stdout.splitlines()
    if json:
        assert ['"damaged"' in line for line in shown] == [True, False]
    else:
        assert [line.split()[-1] for line in shown if line.startswith("partition")] == [
            "0",
            "1",
        ]
        assert [line.split()[1] for line in shown if line.startswith("log")] == [
            "DAMAGED",
            "position",
        ]


def test_describe_shows_the_leader_epochs(store: Path) -> None:
    (found,) = lines(run(store, "describe", "orders", 1, "--json", "--cluster", CLUSTER))

    assert found["epochs"] == [
        {
            "epoch": 0,
            "highest_offset": 99,
            "size_in_bytes": 9000,
            "referenced": 8,
            "unreferenced": 1,
            "lost_by_kafka": 0,
        },
        {
            "epoch": 1,
            "highest_offset": 199,
            "size_in_bytes": 10_000,
            "referenced": 10,
            "unreferenced": 0,
            "lost_by_kafka": 0,
        },
    ]
    text = run(store, "describe", "orders")
    assert "COPY_SEGMENT_FINISHED" in text.stdout
    assert "several topics were called 'orders'" in text.stderr


def test_segments_come_by_start_offset_or_in_kafkas_order(store: Path) -> None:
    everything = lines(run(store, "segments", "orders", 1, "--json"))
    of_epoch = lines(run(store, "segments", "orders", 1, "--epoch", 1, "--json"))

    assert [one["start_offset"] for one in everything] == [0, *range(20, 200, 10)]
    assert [one["start_offset"] for one in of_epoch] == list(range(100, 200, 10))
    assert of_epoch[0]["leader_epochs"] == [[1, 100]]
    assert "COPY_SEGMENT_FINISHED" in run(store, "segments", "orders", 1).stdout


def test_lookup_shows_the_segment_that_serves_an_offset(store: Path) -> None:
    (found,) = lines(run(store, "lookup", "orders", 1, 1, 105, "--json"))

    assert found["id"] == str(Uuid(segment_id(10)))
    assert found["id"] in run(store, "lookup", ORDERS, 1, 1, 105).stdout


def test_lookup_of_what_no_segment_holds_exits_with_1(store: Path) -> None:
    result = run(store, "lookup", "orders", 1, 0, 15)

    assert (result.exit_code, result.stdout) == (1, "no segment\n")
    assert run(store, "lookup", "orders", 1, 0, 15, "--json").stdout == "null\n"


@pytest.mark.parametrize(
    "as_of", ["40", "2023-11-14T22:13:21.900", "2023-11-14T23:13:21+01:00"]
)
def test_lookup_as_of_then_finds_what_is_gone_now(store: Path, as_of: str) -> None:
    (found,) = lines(run(store, "lookup", "orders", 1, 0, 5, "--json", "--as-of", as_of))

    assert found["state"] == "COPY_SEGMENT_FINISHED"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lookup", "nothing", 0, 0, 0], "has no topic 'nothing'"),
        (["lookup", "orders", 7, 0, 0], "has no partition 7"),
        (["lookup", "orders", 1, 5, 0], "has no leader epoch 5; it has 0, 1"),
        (["segments", "orders", 1, "--epoch", 5], "has no leader epoch 5; it has 0, 1"),
        (["segments", "gone", 0], "its deletion is finished"),
        (["describe", "orders", 1, "--as-of", "yesterday"], "expected a number (N or pos"),
        (["describe", "orders", 1, "--as-of", "9" * 5000], "expected a whole number from 0"),
        (["describe", "orders", 1, "--as-of", "position:"], "expected a whole number from 0"),
        (["describe", "orders", 1, "--as-of", "20261121"], "position:20261121 or 2026-11-21"),
        (["describe", "orders", 1, "--as-of", "position:20261121"], "a position up to 43"),
        (["describe", "orders", 1, "--as-of", "99999999"], "a position up to 43"),
        (["ls", "--as-of", "1764000000000"], "or a time in ms as ms:1764000000000"),
        (
            ["serve", "--cluster", "other"],
            "it holds test-cluster; to add a cluster to this store: --new",
        ),
        (["hold", "ls", "--cluster", "other"], "the store has no cluster 'other'"),
        (["describe", "orders", 1, "--as-of", "0001-01-01"], "got '0001-01-01'"),
        (["ls", "--as-of", "9999-12-31T23:59:59-14:00"], "expected a number"),
        (["status", "--interval", "9" * 5000], "(5000 characters)"),
        (["status", "--interval", "2"], "expected a number with ms, s, m, h, d"),
        (["status", "--interval", "99ms"], "expected 100ms to 1d, got 99ms"),
        (["ls", "--as-of", "2 days"], "or how long ago, like 90m or 7d"),
        (["ls", "--as-of", "99999d"], "or how long ago, like 90m or 7d"),
        (["describe", "orders", 1, "--as-of", "999"], "expected a position up to 43"),
        (["log", "orders", 1, "--start", 44], "--start: expected a position up to 43, got 44"),
        (["ls", "--cluster", "other"], "the store has no cluster 'other'"),
        (["lookup", "orders", 1, 0, 0, "--from", "moon"], "--from"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_cannot_be_answered_is_one_line_and_exit_2(
    store: Path, arguments: Sequence[object], message: str
) -> None:
    refused(run(store, *arguments), message)


def test_log_shows_every_event_and_can_start_and_stop_anywhere(store: Path) -> None:
    everything = lines(run(store, "log", "orders", 1, "--json"))
    cut = run(store, "log", "orders", 1, "--start", 41, "--limit", 2, "--json")
    part = lines(cut)
    whole = run(store, "log", "orders", 1)
    text = whole.stdout.splitlines()

    assert [one["position"] for one in everything] == list(range(44))
    assert [one["type"] for one in everything[:3]] == [
        "SessionOpened",
        "SegmentAdded",
        "SegmentUpdated",
    ]
    assert part == everything[41:43]
    assert part[0]["state"] == "DELETE_SEGMENT_STARTED"
    assert len(text) == 44
    assert "SegmentUpdated" in text[41]
    assert cut.stderr.endswith("note: there are more: --start 43 shows them\n")
    assert "there are more" not in whole.stderr


def test_log_shows_as_many_events_as_asked_of_a_log_that_was_forgotten(store: Path) -> None:
    tip = TopicIdPartition(BOTH, 0, "again")

    async def forgotten(backend: SqliteBackend) -> None:
        partition = await StoredPartition.led(backend, tip)
        await partition.close()
        await forget(partition.reader())
        partition = await StoredPartition.resumed(backend, tip)
        for _ in range(2):
            await partition.open()
            await partition.close()

    write(store, forgotten)

    found = lines(run(store, "log", "again", 0, "--limit", 3, "--json"))

    assert [one["position"] for one in found] == [2, 3, 4]
    then = run(store, "segments", "again", 0, "--as-of", "1999-01-01")
    refused(then, "nothing is known of")  # What was then is forgotten.


def test_a_hostile_name_stays_on_its_line_in_the_log(store: Path) -> None:
    text = run(store, "log", EMPTY, 0).stdout

    assert "\x1b" not in text
    assert len(text.splitlines()) == 2


def test_several_clusters_must_be_told_apart(store: Path) -> None:
    async def second(backend: SqliteBackend) -> None:
        tip = TopicIdPartition(ORDERS, 0, "elsewhere")
        await StoredPartition(backend, tip, "second").open()

    write(store, second)

    unnamed = run(store, "ls")
    named = lines(run(store, "ls", "--json", "--cluster", "second"))

    refused(unnamed, "second")
    assert [one["topic"] for one in named] == ["elsewhere"]


def test_the_store_is_named_by_the_environment_too(store: Path) -> None:
    result = invoke("ls", "--json", env={"TIERLEDGER_STORE": f"sqlite:{store}"})

    assert len(lines(result)) == 3


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sqlite:nowhere.sqlite", "nowhere.sqlite; --store or TIERLEDGER_STORE names one"),
        ("ftp:x", "--store: expected the URL of a store, sqlite:FILE"),
    ],
)
def test_no_store_is_one_line_and_exit_2(url: str, message: str) -> None:
    refused(invoke("ls", "--store", url), message)


def test_a_process_of_its_own_exits_as_said_and_loads_neither_ray_nor_rich(store: Path) -> None:
    (found, loaded), (missed, _), (wrong, _) = (
        in_process("lookup", "orders", 1, 0, *more, "--store", f"sqlite:{store}")
        for more in ([55], [15], [15, "--cluster", "no"])
    )

    assert (found.returncode, missed.returncode, wrong.returncode) == (0, 1, 2)
    assert not loaded & {"ray", "rich"}
    assert str(Uuid(segment_id(5))) in found.stdout
    assert wrong.stderr.startswith("error: the store has no cluster")
    assert "Traceback" not in wrong.stderr


def test_a_time_may_be_said_by_how_long_ago_it_is(store: Path) -> None:
    (now,) = [one for one in lines(run(store, "ls", "--json")) if one["partition"] == 1]
    (ago,) = [
        one
        for one in lines(run(store, "ls", "--json", "--as-of", "500ms"))
        if one["partition"] == 1
    ]

    assert now == ago
    before_all = run(store, "ls", "--json", "--as-of", f"{366 * 100}d")
    refused(before_all, "expected")  # Before 1970.
    for text, distance_ms in {
        "90m": -5_400_000,
        "-90m": -5_400_000,
        "7d": -604_800_000,
        "+2h": 7_200_000,
    }.items():
        expected = WallClock().now_ms() + distance_ms
        assert 0 <= parse_time_ms(text, "--x") - expected < 60_000


@given(st.text(max_size=12))
def test_a_text_is_a_time_or_an_error_that_says_what_was_expected(text: str) -> None:
    try:
        found = parse_time_ms(text, "--x")
    except InvalidArgument as error:
        refusal = str(error)
    else:
        refusal = ""
        assert 0 <= found <= MS_MAX

    assert not refusal or refusal.startswith("--x: expected a time like ")

"""Each "cannot", "never" and "only" of some pages names a test that shows it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tierledger.actors.coordinator import attendance, unowned
from tierledger.moving import following, move, procedure

ROOT = Path(__file__).parents[2]


def part(page: str, begins: str, ends: str) -> str:
    """The page from `begins` on, up to `ends`."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return begins + text.partition(begins)[2].partition(ends)[0]


# The table behind it says by itself how each of its lines is tested.
KAFKA = part("kafka.md", "# Kafka brokers\n", "\n## What it does\n")
STORES = part("settings.md", "A store is `FILE`", "\n### PostgreSQL\n")

STRONG = re.compile(
    r"\b(cannot|may not|never|nobody|nothing|no broker|only|always|must|alone|refuses?|refused"
    r"|for ever)\b",
    re.IGNORECASE,
)

HANDOVER = "tests/kafka/test_handover.py"
SEAL = "tests/kafka/test_seal.py"
HELD = "tests/kafka/test_held_deletions.py"
BESIDE = "tests/kafka/test_beside.py"
FOLLOWING = "tests/moving/test_following.py"
PROCEDURE = "tests/moving/test_procedure.py"
COORDINATOR = "tests/actors/coordinator"
RESTORED = "tests/actors/service/test_restored_database.py"
PUT_BACK = "tests/actors/service/test_put_back_stores.py"
TOUCHED = "tests/storage/backends/sqlite/test_touched_files.py"

SHOWN = {
    "It takes the metadata alone": "tests/kafka/test_one_broker.py::test_what_was_produced",
    "only once tierledger owns": f"{COORDINATOR}/test_ownership.py::test_a_broker_decides",
    "tiered nothing at once": f"{HANDOVER}::test_a_fresh_cluster_is_handed_over_once",
    "cannot take the lead": "tests/kafka/test_three_brokers.py::test_a_leader_that_was_frozen",
    "refuses brokers of another cluster": f"{HANDOVER}::test_a_service_does_not_start_with",
    "manager needs the listener's name": "tests/kafka/test_away.py::test_a_wrong_setting",
    "and `handover` alone": "tests/kafka/test_one_broker.py::test_what_was_produced",
    "It refuses a cluster that has tiered": f"{SEAL}::test_behind_a_seal_no_other_store",
    "so is what only the tier has": f"{SEAL}::test_a_cluster_whose_store_is_lost",
    "unless `--new` is given": f"{HANDOVER}::test_a_fresh_cluster_is_handed_over_once",
    "`handover --to kafka` refuses, too": f"{SEAL}::test_behind_a_seal_no_other_store",
    "Any other setting is refused": "tests/storage/test_kafka_brokers.py::test_what_is_wrong",
    "`never verified` or `stale`": f"{COORDINATOR}/test_attendance.py::test_a_difference_that",
    "nothing of its partition was imported": "tests/kafka/test_modes.py::test_shadow_answers",
    "counts only if two looks": "tests/kafka/test_modes.py::test_shadow_compares_nothing",
    "nothing changed, in these cases": f"{PROCEDURE}::test_what_does_not_fit_is_refused",
    "counts only if five": f"{PROCEDURE}::test_while_brokers_write_only_what_stays",
    "counts as idle only when": "tests/kafka/test_modes.py::test_a_broker_goes_over",
    "`Kafka's own manager may not take over yet`": f"{SEAL}::test_behind_a_seal_no_other_store",
    "refuses a broker in shadow": f"{COORDINATOR}/test_coordinator.py::test_a_brokers_plugin",
    "Nothing can refuse a stock broker": f"{SEAL}::test_a_stock_broker_that_meets_a_seal",
    "ends, and is never ready": f"{SEAL}::test_a_stock_broker_that_meets_a_seal",
    "deletes nothing and tiers nothing": f"{SEAL}::test_a_stock_broker_that_meets_a_seal",
    "as if nothing had been": f"{SEAL}::test_behind_a_seal_no_other_store",
    "looks every minute": "tests/moving/test_followers.py::test_the_seal_is_looked_at",
    "nothing stops a stock broker": f"{BESIDE}::test_what_a_stock_broker_did",
    "over what only the tier has": f"{HELD}::test_what_a_stock_broker_has_made_unreadable",
    "refuse to begin the": "tests/actors/service/test_held_deletions.py::test_a_leader",
    "if only the plugin was silent": f"{COORDINATOR}/test_unowned.py::test_a_plugin_that_began",
    "never lowers a log start": f"{HELD}::test_what_a_stock_broker_has_made_unreadable",
    "is noticed only by what": f"{COORDINATOR}/test_unowned.py::test_a_broker_that_was_there",
    "only one of two running mirrors": "tests/moving/test_fencing.py::test_a_mirror_that_was",
    "names deleted topics for ever": f"{FOLLOWING}::test_the_way_back_is_open_after_a_topic",
    "or never used": f"{FOLLOWING}::test_the_way_back_is_open_after_an_empty_partition",
    "alarm only for those": f"{COORDINATOR}/test_attendance.py::test_who_is_silent_is_told",
    "may not write that they are deleted": "tests/moving/test_lives.py::test_what_a_topic_left",
    "cannot delete in that tier": "tests/cli/test_left_segments.py::test_what_is_left_is_forg",
    "while a broker hosts the partition": "tests/cli/test_left_segments.py::test_what_a_broker",
    "no broker on tierledger sees that": f"{FOLLOWING}::test_who_writes_the_topic_beside",
    "differs, with both answers, and refuses": f"{BESIDE}::test_what_a_stock_broker_did",
    "only Kafka's topic has come back": f"{FOLLOWING}::test_what_others_wrote_is_taken_over",
    "and compares as it would before a move": f"{PROCEDURE}::test_a_rehearsal_ends",
    "If nothing differs, it moves": f"{PROCEDURE}::test_a_cluster_moves",
    "only the stock broker has tiered": f"{FOLLOWING}::test_who_writes_the_topic_beside",
    "the newest commits are in `FILE-wal` only": f"{TOUCHED}::test_a_copy_without_its_log",
    "leave the files alone": f"{TOUCHED}::test_nothing_is_acknowledged_once_the_files",
    "never; nothing is lost": f"{TOUCHED}::test_the_same_bytes_written_over_the_file",
    "fail with `StoreRefused`": f"{TOUCHED}::test_nothing_is_acknowledged_once_the_files",
    "writes nothing more into it": f"{TOUCHED}::test_who_closes_writes_nothing",
    "are refused by whoever opens them": f"{TOUCHED}::test_who_closes_writes_nothing",
    "An empty `FILE` is refused": f"{TOUCHED}::test_the_log_of_a_file_that_was_emptied",
    "Only the start of a service": "tests/actors/ray/test_coordinator.py::test_who_replaces_a",
    "`cp` is right only after": f"{TOUCHED}::test_a_writer_that_ends_leaves",
    "Not noticed is a copy": f"{TOUCHED}::test_a_copy_without_its_log_is_a_store",
    "`FILE` alone is the whole store then": f"{TOUCHED}::test_a_writer_that_ends_leaves",
    "lacks its newest commits": f"{TOUCHED}::test_a_copy_without_its_log_is_refused",
    "alone from a running or killed service": f"{TOUCHED}::test_a_copy_without_its_log",
    "only Kafka's plugins remember more": f"{RESTORED}::test_a_plugin_that_has_seen_more",
    "that host writes nothing any more": f"{PUT_BACK}::test_an_older_store_takes_no_write",
    "with the key that is missing": f"{PUT_BACK}::test_an_older_store_takes_no_write",
}
"""Tests, by how their names begin, for words of each sentence."""


def sentences() -> Iterator[str]:
    """Those of the prose, each line of a table or list for itself."""
    text = re.sub(r"^```.*?^```$", "", KAFKA + STORES, flags=re.MULTILINE | re.DOTALL)
    for block in re.split(r"\n(?=\n|\||- |\d\. |#)", text):
        yield from re.split(r"(?<=[.:;]) (?=[A-Z`*])", " ".join(block.split()))


@pytest.mark.parametrize("sentence", [one for one in sentences() if STRONG.search(one)])
def test_a_strong_sentence_names_its_test(sentence: str) -> None:
    assert [words for words in SHOWN if words in sentence], "which test shows it?"


def test_the_tests_that_are_named_are_there() -> None:
    prose = " ".join((KAFKA + STORES).split())
    for words, test in SHOWN.items():
        file, _, name = test.partition("::")
        assert words in prose, f"nobody says {words!r} any more"
        assert f"def {name}" in (ROOT / file).read_text(encoding="utf-8"), test


@pytest.mark.parametrize(
    ("said", "is_s", "in_program_s"),
    [
        ("not idle within 18 s", 18, move.HOLD_S),
        ("(5 s after it came to life", 5, unowned.CAME_MS / 1000),
        ("or 15 s after its plugin was last heard", 15, unowned.SILENT_MS / 1000),
        ("looks every minute", 60, following.SEAL_S),
        ("For one more hour", 3600, attendance.FORGOTTEN_MS / 1000),
        ("after about a minute", 60, procedure.LOOKS * move.LOOK_S),
        ("five seconds after", 5, attendance.REPORTS_MISSED * following.REPORT_S),
    ],
)
def test_a_time_that_is_said_is_the_programs(
    said: str, is_s: float, in_program_s: float
) -> None:
    assert said in " ".join(KAFKA.split())
    assert in_program_s == pytest.approx(is_s)

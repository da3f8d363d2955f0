"""The words for what something is, and for what is wrong with it: one list for all.

Pages, tables on terminals, JSON and jobs take a word's meaning, its look and its weight from
here, so the same thing is never an alarm in one place and well in another. Where a word is
given, it is decided by others: this module only says what it means.

To add a word: add it here and in docs/vocabulary.md, whose table a test compares.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple


class Look(StrEnum):
    """How a word looks; the value is its class in style sheets."""

    GOOD = "good"
    """As it should be: green."""
    KEPT = "kept"
    """tierledger has what Kafka's own manager has lost: green, striped."""
    OPEN = "open"
    """Begun and not ended: blue, dashed."""
    LEAVING = "leaving"
    """Being deleted: purple."""
    WARN = "warn"
    """Costs storage, or needs a look within the day; no record is lost: amber."""
    BAD = "bad"
    """Missing, damaged or not served: red, hatched."""
    IDLE = "idle"
    """Gone, not judged, or nothing to do: grey."""


class Word(NamedTuple):
    """What a word means, wherever it stands."""

    of: str
    """What it is said of."""
    meaning: str
    look: Look
    is_finding: bool = False
    """Whether a command that finds it ends with status 1."""


SEGMENT, DELETION, RANGE = "a segment", "a partition's deletion", "a range of offsets"
OBJECTS, LOG, OBJECT, ANSWER = "a segment's objects", "a log", "an object", "an answer"
EVENT, SERVICE, RUN = "an event", "a service", "a simulated run"
CHECK, STEP = "a check of `doctor`", "a step of a move"

WORDS: Final[Mapping[str, Word]] = {
    # States, by their names in Kafka and in short.
    "COPY_SEGMENT_STARTED": Word(
        SEGMENT, "its copy to the tier has begun; nobody reads it", Look.OPEN
    ),
    "COPY_SEGMENT_FINISHED": Word(SEGMENT, "it is in the tier, and is read there", Look.GOOD),
    "DELETE_SEGMENT_STARTED": Word(
        SEGMENT, "its deletion has begun; nobody reads it", Look.LEAVING
    ),
    "DELETE_SEGMENT_FINISHED": Word(SEGMENT, "it is gone", Look.IDLE),
    "DELETE_PARTITION_MARKED": Word(
        DELETION, "the topic is deleted, and its segments are to go", Look.LEAVING
    ),
    "DELETE_PARTITION_STARTED": Word(DELETION, "its segments are going", Look.LEAVING),
    "DELETE_PARTITION_FINISHED": Word(DELETION, "all its segments are gone", Look.IDLE),
    "copying": Word(SEGMENT, "`COPY_SEGMENT_STARTED`", Look.OPEN),
    "finished": Word(SEGMENT, "`COPY_SEGMENT_FINISHED`", Look.GOOD),
    "deleting": Word(SEGMENT, "`DELETE_SEGMENT_STARTED`", Look.LEAVING),
    "deleted": Word(SEGMENT, "`DELETE_SEGMENT_FINISHED`", Look.IDLE),
    "stuck": Word(
        "a copy or deletion", "it lasts longer than it may", Look.WARN, is_finding=True
    ),
    # Which finished segment answers.
    "served": Word(SEGMENT, "it is finished, and answers lookups", Look.GOOD),
    "recovered": Word(
        "a segment, range or answer",
        "Kafka's own manager has lost it; tierledger has it, and answers with it",
        Look.KEPT,
    ),
    "superseded": Word(
        SEGMENT, "it is finished, and others answer for all its offsets", Look.IDLE
    ),
    # Offsets of a log.
    "covered": Word(RANGE, "finished segments of the log hold it", Look.GOOD),
    "hole": Word(RANGE, "no finished segment of the log holds it", Look.BAD, is_finding=True),
    "orphaned_epoch": Word(
        RANGE,
        "segments hold it in a leader epoch that the log does not have there",
        Look.WARN,
        is_finding=True,
    ),
    "overlap": Word(RANGE, "several finished segments hold it", Look.WARN),
    # Objects in the tier, beside what the logs tell.
    "missing_object": Word(
        OBJECTS,
        "a finished segment lacks its log, its indexes, or everything",
        Look.BAD,
        is_finding=True,
    ),
    "incomplete_set": Word(
        OBJECTS, "a finished segment lacks some parts or files", Look.BAD, is_finding=True
    ),
    "size_mismatch": Word(
        OBJECTS, "a finished segment's objects have another size", Look.BAD, is_finding=True
    ),
    "unreadable_metadata": Word(
        OBJECTS,
        "a finished segment's custom metadata is another layout's, so nothing finds it",
        Look.BAD,
        is_finding=True,
    ),
    "deleted_but_there": Word(
        OBJECTS, "a deleted segment has objects left", Look.WARN, is_finding=True
    ),
    "orphan": Word(
        OBJECTS, "they are old, and no log has named their segment", Look.WARN, is_finding=True
    ),
    "foreign": Word(OBJECTS, "their names are not this tier's", Look.IDLE),
    "too_young": Word(OBJECTS, "like an orphan, but too young to be called one", Look.IDLE),
    "unknown_partition": Word(
        OBJECTS, "the store does not have their partition, or has forgotten its log", Look.IDLE
    ),
    "damaged_log": Word(OBJECTS, "their partition's log is damaged: not judged", Look.IDLE),
    "changing": Word(OBJECTS, "copied or deleted while the audit ran", Look.OPEN),
    "unfinished": Word("a segment or its objects", "being copied or deleted", Look.OPEN),
    "unseen": Word(OBJECTS, "part of the tier could not be listed: not judged", Look.IDLE),
    "elsewhere": Word(
        OBJECTS, "a finished segment below another prefix, not listed", Look.IDLE
    ),
    "whole": Word(OBJECTS, "a finished segment with all that it should have", Look.GOOD),
    # What a clean-up finds beside that.
    "unfinished_copy": Word(
        SEGMENT,
        "its copy began long ago, and neither finished nor was given up",
        Look.WARN,
        True,
    ),
    "unfinished_deletion": Word(
        SEGMENT, "its deletion began long ago, and did not end", Look.WARN, is_finding=True
    ),
    "lost_segment": Word(
        SEGMENT, "Kafka's own manager has lost it, and others answer for it", Look.WARN, True
    ),
    "left_of_topic": Word(
        SEGMENT, "it is finished, and its topic's deletion began", Look.WARN, is_finding=True
    ),
    "quarantined": Word(
        OBJECTS, "a clean-up took them out of the tier long enough ago", Look.WARN, True
    ),
    # What is read and verified.
    "ok": Word("a log or checkpoint", "it is what was written", Look.GOOD),
    "damaged": Word(
        "a log, checkpoint or object", "it is not what was written", Look.BAD, is_finding=True
    ),
    "stray": Word("a key", "the store has it, and it is not tierledger's", Look.WARN, True),
    "unread": Word(OBJECT, "it could not be read: not judged; status 4", Look.IDLE),
    "left_out": Word(LOG, "it is damaged, so what it tells is not judged; status 3", Look.IDLE),
    # Answers, compared with those of Kafka's own manager.
    "equal": Word(ANSWER, "it is Kafka's own", Look.GOOD),
    "missed": Word(ANSWER, "it is none or lacks a segment, and should not", Look.BAD, True),
    "wrong": Word(ANSWER, "it is another one than Kafka's", Look.BAD, is_finding=True),
    "different": Word(ANSWER, "a broker in shadow got two answers", Look.WARN),
    "resolved": Word(ANSWER, "it was different, and no longer is", Look.GOOD),
    "standing": Word(ANSWER, "it is different now", Look.WARN),
    "skipped": Word(ANSWER, "it could not be compared", Look.IDLE),
    # Unusual events.
    "corrupt": Word(EVENT, "the log does not verify from it on", Look.BAD),
    "custom_metadata_dropped": Word(
        EVENT, "its custom metadata was too large, and was not stored", Look.WARN
    ),
    "disputed": Word(
        "a leadership", "two brokers claimed it, and nobody could tell who leads", Look.WARN
    ),
    "dropped": Word(EVENT, "an imported record that Kafka's own manager drops", Look.IDLE),
    "late": Word(EVENT, "its broker's time is before the segment's last", Look.IDLE),
    "repeated": Word(EVENT, "it repeats the present state", Look.IDLE),
    "resurrected": Word(EVENT, "an imported one that adds a deleted segment again", Look.IDLE),
    # How urgent a trouble is.
    "critical": Word(
        SERVICE, "something is not served, or about to cost data", Look.BAD, is_finding=True
    ),
    "warning": Word(
        "a service or a check",
        "all is served, but something does not mend itself",
        Look.WARN,
        is_finding=True,
    ),
    "note": Word(SERVICE, "it passes, or somebody chose it", Look.IDLE),
    "well": Word(CHECK, "what was looked at is as it should be", Look.GOOD),
    "failed": Word(
        CHECK, "what was looked at cannot be used as it is", Look.BAD, is_finding=True
    ),
    "not_looked_at": Word(CHECK, "nothing was given to look at", Look.IDLE),
    "done": Word(STEP, "it is behind", Look.GOOD),
    "under_way": Word(STEP, "it has begun, and is waited for", Look.OPEN),
    "to_come": Word(STEP, "it has not begun", Look.IDLE),
    "violation": Word(RUN, "a checker proves it wrong", Look.BAD, is_finding=True),
}


def spelled(word: str) -> str:
    """`word` as people read it: without underscores, unless it is a name of Kafka's."""
    return word if word.isupper() else word.replace("_", " ")


def findings(words: Iterable[str]) -> tuple[str, ...]:
    """Those of `words` that make the exit status 1, in their order."""
    return tuple(one for one in words if WORDS[one].is_finding)

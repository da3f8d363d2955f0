"""One word means one thing: for pages, terminals, JSON, jobs and documents alike."""

import re
from enum import StrEnum
from pathlib import Path

import pytest

from tierledger.cli.commands.doctor.seen import CheckState
from tierledger.cli.commands.jobs.stuck import STATE_NAMES
from tierledger.cli.commands.status.view import _COMPARED
from tierledger.cli.pages.report.model import SegmentKind
from tierledger.cli.segment_output import BRIEF_STATES
from tierledger.cli.table import STYLES, state_cell
from tierledger.conformance.verdicts import CheckReport, Verdict
from tierledger.events.lifecycle import RemoteLogSegmentState, RemotePartitionDeleteState
from tierledger.events.vocabulary import WORDS, Look, spelled
from tierledger.health.troubles import Severity
from tierledger.pages.environment import source
from tierledger.pipeline.cleaning.weights import WeightKind
from tierledger.pipeline.jobs.audit.kinds import FINDINGS as AUDIT_FINDINGS
from tierledger.pipeline.jobs.audit.kinds import AuditKind
from tierledger.pipeline.jobs.coverage.rules import FINDINGS as COVERAGE_FINDINGS
from tierledger.pipeline.jobs.coverage.rules import CoverageKind
from tierledger.pipeline.tables.anomalies import AnomalyKind

DOCS = Path(__file__).parents[2] / "docs"
ENUMS: tuple[type[StrEnum], ...] = (
    AuditKind,
    CoverageKind,
    AnomalyKind,
    Verdict,
    Severity,
    SegmentKind,
    WeightKind,
    CheckState,
)


def rows(document: str) -> list[list[str]]:
    lines = (DOCS / document).read_text(encoding="utf-8").splitlines()
    return [[cell.strip() for cell in one.strip("|").split("|")] for one in lines if "|" in one]


@pytest.mark.parametrize("words", ENUMS, ids=lambda one: one.__name__)
def test_every_kind_that_is_given_is_a_word(words: type[StrEnum]) -> None:
    assert {str(one) for one in words} <= set(WORDS)


def test_every_state_is_a_word_and_its_short_form_looks_the_same() -> None:
    states = {one.name for one in (*RemoteLogSegmentState, *RemotePartitionDeleteState)}
    compared = set(_COMPARED)

    assert states | compared | set(STATE_NAMES) <= set(WORDS)
    for state, brief in BRIEF_STATES.items():
        assert WORDS[state].look is WORDS[brief].look
        assert WORDS[brief].meaning == f"`{state}`"


def test_the_documented_words_are_those_there_are() -> None:
    documented = [row for row in rows("vocabulary.md") if row[0].startswith("`")]

    assert documented[: len(Look)] == [
        [f"`{look}`", row[1]] for look, row in zip(Look, documented, strict=False)
    ]
    assert documented[len(Look) :] == [
        [f"`{name}`", word.of, word.meaning, f"`{word.look}`", "yes" if word.is_finding else ""]
        for name, word in WORDS.items()
    ]


def test_the_kinds_of_jobs_have_the_status_of_their_words() -> None:
    told = {row[0].strip("`"): row[-1] for row in rows("jobs.md") if row[-1] in {"yes", "no"}}

    expected = {str(kind) for kind in (*AUDIT_FINDINGS, *COVERAGE_FINDINGS)}
    assert {word for word, is_finding in told.items() if is_finding == "yes"} == expected
    assert set(told) == {str(kind) for kind in (*AuditKind, *CoverageKind)}


@pytest.mark.parametrize("verdict", Verdict)
def test_a_replay_fails_for_the_verdicts_whose_words_say_so(verdict: Verdict) -> None:
    counts = {one: int(one is verdict) for one in Verdict}

    assert CheckReport(counts, 1, 1, ()).passed is not WORDS[verdict].is_finding


def test_an_alarm_is_always_a_finding() -> None:
    # The log of a corrupt event is damaged, which has a status of its own.
    alarms = {name for name, word in WORDS.items() if word.look is Look.BAD} - {"corrupt"}

    assert alarms <= {name for name, word in WORDS.items() if word.is_finding}


@pytest.mark.parametrize("look", Look)
def test_every_look_has_its_style_on_pages_and_terminals(look: Look) -> None:
    styles = source("styles/looks.css")

    assert f"rect.{look} {{" in styles
    assert re.search(rf"^\.swatch(\.{look})? {{", styles, re.MULTILINE)
    assert STYLES[look]


def test_people_read_words_and_kafkas_names_stay_as_they_are() -> None:
    assert spelled("missing_object") == "missing object"
    assert spelled("COPY_SEGMENT_STARTED") == "COPY_SEGMENT_STARTED"
    assert state_cell(Severity.CRITICAL).style == STYLES[Look.BAD]

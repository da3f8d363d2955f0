"""`tierledger replay`: a recorded trace through live leaders; writes Kafka's answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from tierledger.cli.complete_file import STANDARD_OUTPUT, complete_file, require_place
from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.given_file import is_standard_input, readable
from tierledger.cli.log_setup import log_to_stderr
from tierledger.cli.opened_store import StoreOptions
from tierledger.cli.options import ClusterOption, OverwriteOption, ServiceOption
from tierledger.cli.output import error_text, print_json, print_note, print_pairs, progress
from tierledger.events.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tierledger.conformance.answers import Question
    from tierledger.conformance.loaded_trace import LoadedTrace
    from tierledger.conformance.replay import ReplayOptions, ReplayResult
    from tierledger.conformance.services import Service
    from tierledger.conformance.verdicts import CheckReport

REFUSALS_SHOWN = 20
FINDINGS_SHOWN = 10
WHY_MAX = 100
"""Characters of a finding's reason that are shown: it may name thousands of segments."""

TracesArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="TRACE_DIR",
        help="Directories with records.jsonl[.gz]; - is standard input, with such lines.",
    ),
]
StrictOption = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Send the records as ordinary commands instead of imports, and report every "
        "refusal.",
    ),
]
ChurnOption = Annotated[
    int,
    typer.Option(min=0, help="Number of leadership changes, stops and host kills to add."),
]
HostsOption = Annotated[
    int,
    typer.Option(min=1, max=1000, help="Number of hosts, if the command starts a service."),
]
SeedOption = Annotated[int, typer.Option(help="Seed of the random --churn.")]
OriginOption = Annotated[
    str | None,
    typer.Option(
        help="Name of the recorded cluster, by which a repeated replay is recognised; by "
        "default the directory's name."
    ),
]
GapsOption = Annotated[
    bool,
    typer.Option(
        "--allow-gaps", help="Continue if offsets are missing in the recording, and count them."
    ),
]
AnswerOption = Annotated[
    Path | None,
    typer.Option(
        metavar="QUERIES", help="File with questions to answer (JSONL); - is standard input."
    ),
]
OutOption = Annotated[
    Path | None, typer.Option(metavar="ANSWERS", help="File to write the answers to (JSONL).")
]
SourceOption = Annotated[
    list[str] | None,
    typer.Option(
        "--from",
        metavar="SOURCE",
        help="What answers: leader, follower, storage or all; may be repeated.",
    ),
]
CheckOption = Annotated[
    bool, typer.Option("--check", help="Compare the answers with the trace's answers.jsonl.")
]
ReportOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE.html", help="Write a report on the replay as one page of HTML."),
]


class ReplayFiles(NamedTuple):
    """The files that a replay writes."""

    answers: dict[str, Path]
    """The file of each source of answers."""
    report: Path | None
    overwrite: bool
    json: bool


async def replay_command(
    traces: TracesArgument,
    store: ServiceOption = None,
    cluster: ClusterOption = None,
    strict: StrictOption = False,
    churn: ChurnOption = 0,
    hosts: HostsOption = 1,
    seed: SeedOption = 0,
    origin: OriginOption = None,
    allow_gaps: GapsOption = False,
    answer: AnswerOption = None,
    out: OutOption = None,
    source: SourceOption = None,
    check: CheckOption = False,
    report: ReportOption = None,
    overwrite: OverwriteOption = False,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Send recorded metadata through live leaders into a store, and compare the answers.

    Uses the service that runs on the store, or starts one for its own duration. Exit status 1:
    an answer is wrong or missing (--check), or a record was refused (--strict). 3: some records
    were refused; they are named, and all others are replayed.
    """
    from tierledger.cli.service_settings import client_settings
    from tierledger.cli.settings import names_doors, refused_doors
    from tierledger.conformance.loaded_trace import load_trace
    from tierledger.conformance.replay import ReplayOptions
    from tierledger.conformance.services import service_for

    sources = _sources(source, wanted=check or answer is not None)
    for asked, option in (
        (churn, "--churn"),
        ("storage" in sources, "--from storage"),
        (report, "--report"),
    ):
        if asked and names_doors(store):
            raise refused_doors(store, f"{option} reads the store itself")
    if answer is not None and (out is None or len(traces) > 1 or check):
        raise InvalidArgument("--answer takes one trace, --out, and no --check")
    if origin is None and any(map(is_standard_input, traces)):
        raise InvalidArgument("-: expected --origin with standard input")
    traces = [readable(one, "jsonl") for one in traces]
    answer = None if answer is None else readable(answer, "jsonl")
    answers = {} if out is None else _answer_files(out, sources)
    require_place(*answers.values(), report, overwrite=overwrite)
    loaded = [(path, load_trace(path, origin=origin, allow_gaps=allow_gaps)) for path in traces]
    questions = [_questions(path, answer, check=check) for path in traces]
    options = ReplayOptions(strict=strict, churn=churn, seed=seed, sources=sources)
    log_to_stderr()
    written = ReplayFiles(answers, report, overwrite, json)
    settings = await client_settings(StoreOptions(store, cluster), is_new=True)
    service = await service_for(replace(settings, hosts=hosts))
    print_note(f"service {service.description}")
    try:
        failed, refused = await _run(service, loaded, questions, options, written)
    finally:
        await service.close()
    if failed or (refused and strict):
        raise typer.Exit(ExitStatus.FOUND)
    if refused:
        raise typer.Exit(ExitStatus.PARTLY)


def _sources(given: list[str] | None, *, wanted: bool) -> tuple[str, ...]:
    from tierledger.conformance.answering import SOURCES

    if not wanted:
        return ()
    named = given or ["leader"]
    if "all" in named:
        return SOURCES
    for one in named:
        if one not in SOURCES:
            raise InvalidArgument(f"--from: expected one of {', '.join(SOURCES)}, got {one!r}")
    return tuple(dict.fromkeys(named))


def _questions(trace: Path, answer: Path | None, *, check: bool) -> list[Question]:
    from tierledger.conformance.answers import read_questions
    from tierledger.conformance.trace import answers_path

    if answer is not None:
        return list(read_questions(answer))
    return list(read_questions(answers_path(trace))) if check else []


async def _run(
    service: Service,
    loaded: Sequence[tuple[Path, LoadedTrace]],
    questions: Sequence[list[Question]],
    options: ReplayOptions,
    written: ReplayFiles,
) -> tuple[bool, bool]:
    """Replay; returns whether an answer is not right, and whether a record was refused."""
    from tierledger.conformance.replay import replay

    failed = refused = False
    for (path, trace), asked in zip(loaded, questions, strict=True):
        if asked and (known := await _known(service, trace)):
            print_note(
                f"the store holds {known} of the partitions of {path.name} already: "
                "questions about earlier moments are answered from what is there now, "
                "and --check may call that wrong or missed"
            )
        with progress(f"replaying {path.name}", trace.record_count) as advance:
            result = await replay(service, trace, asked, options, advance)
        _write_answers(written, result)
        reports = result.check(path) if asked and not written.answers else {}
        _print_result(path, result, reports, json=written.json)
        failed = failed or any(not one.passed for one in reports.values())
        refused = refused or bool(result.refusals or result.refused)
    if written.report is not None:
        page = await _page(service, [trace for _, trace in loaded])
        with complete_file(written.report, overwrite=written.overwrite) as file:
            file.write(page.encode())
        print_note(f"report written to {written.report}")
    return failed, refused


def _answer_files(out: Path, sources: Sequence[str]) -> dict[str, Path]:
    """The file for the answers of each source, named after the source."""
    if len(sources) == 1:
        return {sources[0]: out}
    if str(out) == STANDARD_OUTPUT:
        raise InvalidArgument(f"--out {out}: expected --from with one source, got several")
    return {source: out.with_suffix(f".{source}{out.suffix}") for source in sources}


def _write_answers(written: ReplayFiles, result: ReplayResult) -> None:
    from tierledger.conformance.answers import answer_line

    for source, path in written.answers.items():
        with complete_file(path, overwrite=written.overwrite) as file:
            for one in result.answered[source]:
                assert one.outcome is not None, "every question got an outcome"
                file.write(f"{answer_line(one.question, one.outcome)}\n".encode())


def _print_result(
    path: Path,
    result: ReplayResult,
    reports: dict[str, CheckReport],
    *,
    json: bool,
) -> None:
    trace = result.trace
    summary: dict[str, object] = {
        "trace": path.name,
        "partitions": len(trace.partitions),
        "records": trace.record_count,
        "records refused": len(result.refused) + len(result.refusals),
        **dict(sorted(result.counts.items())),
        **{f"answers from {source}": one.summary() for source, one in reports.items()},
    }
    if trace.gaps:
        summary["offsets missing"] = sum(g.last_offset - g.first_offset + 1 for g in trace.gaps)
    if json:
        told = {name.replace(" ", "_"): value for name, value in summary.items()}
        for source, one in reports.items():
            told[f"answers_from_{source}"] = one.plain()
        print_json(told)
    else:
        print_pairs(summary.items())
    for topic_id, names in trace.names.items():
        print_note(f"topic id {topic_id} goes by several names: {', '.join(names)}")
    for refused in result.refused[:REFUSALS_SHOWN]:
        at = f"metadata partition {refused.partition}, offset {refused.offset}"
        print_note(f"refused: {at}: {refused.reason}")
    for item, error in result.refusals[:REFUSALS_SHOWN]:
        at = f"metadata partition {item.metadata_partition}, offset {item.offset}"
        print_note(f"refused: {at}: {error_text(error)}")
    for source, one in reports.items():
        for finding in one.findings[:FINDINGS_SHOWN]:
            why = finding.why
            why = why if len(why) <= WHY_MAX else f"{why[:WHY_MAX]}…"
            print_note(f"{source}: {finding.verdict}: {_asked(finding.question)}: {why}")


def _asked(question: Question) -> str:
    """A question in words, with the moment at which it was asked."""
    parts = [f"{question.query} of {question.topic}-{question.partition}"]
    parts += [] if question.epoch is None else [f"epoch {question.epoch}"]
    parts += [] if question.offset is None else [f"offset {question.offset}"]
    if question.after is not None:
        reached = " ".join(f"{at}:{offset}" for at, offset in sorted(question.after.items()))
        parts += [f"after {reached or 'nothing'}"]
    return ", ".join(parts)


async def _known(service: Service, trace: LoadedTrace) -> int:
    """How many partitions of `trace` have a log already; 0 if that is unknown."""
    settings = service.settings
    backend = await service.readable_backend()
    if backend is None:
        return 0  # It cannot be read.
    keys = settings.connector().key_factory(settings.cluster_id)
    try:
        logs = [
            await backend.get_like(keys.log(part.topic_id_partition), limit=1)
            for part in trace.partitions
        ]
    finally:
        await backend.close()
    return sum(map(bool, logs))


async def _page(service: Service, traces: Sequence[LoadedTrace]) -> str:
    """The report on all partitions of `traces`, from their logs."""
    from tierledger.cli.pages.report.model import PartitionLog
    from tierledger.cli.pages.report.page import report_page
    from tierledger.cli.pages.stamp import stamp
    from tierledger.storage.connector import URL_SETTING
    from tierledger.storage.locate import public_url
    from tierledger.storage.partition.reader import PartitionReader

    settings = service.settings
    backend = await service.readable_backend()
    assert backend is not None, "the command has refused what is no store"
    keys = settings.connector().key_factory(settings.cluster_id)
    histories = []
    try:
        for trace in traces:
            for part in trace.partitions:
                tip = part.topic_id_partition
                reader = PartitionReader(
                    backend, keys, settings.serde(), settings.cluster_id, tip
                )
                histories.append(PartitionLog(tip, [event async for event in reader.events()]))
    finally:
        await backend.close()
    facts = {"cluster": settings.cluster_id, "traces": ", ".join(t.origin for t in traces)}
    made = stamp(public_url(str(settings.storage[URL_SETTING])))
    return report_page(histories, "Remote log metadata", facts, made)

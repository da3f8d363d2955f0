"""Commands without extras: those that read work, the others name the extra they need."""

from pathlib import Path

import pytest

from tests.models.cli.base_install import run_in_base
from tierledger.events.extras import EXTRAS, missing

COMMAND = "from tierledger.cli.main import main; main()"
TRACE = Path(__file__).parents[1] / "traces" / "one-broker"


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        ("--help", "lookup"),
        ("ls", "orders"),
        ("describe orders", "COPY_SEGMENT_FINISHED"),
        ("segments orders 1", "COPY_SEGMENT_FINISHED"),
        ("segments orders 1 --as-of 20 --json", "COPY_SEGMENT_FINISHED"),
        ("lookup orders 1 1 105", "COPY_SEGMENT_FINISHED"),
        ("log orders 1", "SegmentUpdated"),
        ("verify", "orders"),
        ("export -", "timestamp_ms"),
        (f"replay {TRACE} --store memory: --check", "records refused      0"),
    ],
)
def test_a_command_that_reads_needs_no_extra(store: Path, arguments: str, output: str) -> None:
    named = [] if arguments.startswith(("--help", "replay")) else ["--store", f"sqlite:{store}"]

    done = run_in_base(COMMAND, *arguments.split(), *named)

    assert done.returncode == 0, done.stderr
    assert output in done.stdout


def test_status_needs_no_extra_where_no_service_runs(store: Path) -> None:
    done = run_in_base(COMMAND, "status", "--store", f"sqlite:{store}")

    assert (done.returncode, done.stderr) == (1, "")
    assert "none runs on this store" in done.stdout


def test_watching_the_status_needs_no_extra_where_no_service_runs(store: Path) -> None:
    enough = (
        "import os, signal\n"
        "from tierledger.cli.commands.status import watch\n"
        "show = watch.print_look\n"
        "def print_look(*look):\n"
        "    show(*look)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "watch.print_look = print_look\n"
    )

    done = run_in_base(enough + COMMAND, "status", "--watch", "--store", f"sqlite:{store}")

    assert (done.returncode, done.stderr) == (0, "")
    assert "none runs on this store" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        ("serve", "service"),
        (f"replay {TRACE}", "service"),
        ("simulate live --minutes 1", "service"),
        ("cat orders 1 --tier dir:.", "tier"),
        ("scrub --tier dir:.", "tier"),
        ("tables segments --out table", "spark"),
        ("jobs stuck --engine spark", "spark"),
        (f"jobs import {TRACE}", "spark"),
    ],
)
def test_a_command_that_needs_an_extra_names_it(
    store: Path, arguments: str, extra: str
) -> None:
    named = [] if arguments.startswith("simulate") else ["--store", f"sqlite:{store}"]

    done = run_in_base(COMMAND, *arguments.split(), *named)

    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr in {f"error: {missing(one)}\n" for one in EXTRAS if EXTRAS[one] == extra}

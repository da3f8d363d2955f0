"""Exit codes: one for each outcome, decided in one place."""

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from tests.events.test_errors import CLASSES
from tests.house.test_documents import document, table
from tests.models.cli.command_line import orders, write
from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.main import OneLineErrors
from tierledger.events import errors

COMMANDS = sorted((Path(__file__).parents[2] / "cli").rglob("*.py"))
ENDS = {"typer.Exit", "sys.exit", "os._exit", "_leave_at_once", "SystemExit"}

BY_ERROR = {
    errors.InvalidArgument: ExitStatus.USAGE,
    errors.RemoteResourceNotFound: ExitStatus.USAGE,
    errors.StoreRefused: ExitStatus.USAGE,
    errors.MetadataParseError: ExitStatus.USAGE,
    errors.StorageUnavailable: ExitStatus.FAILED,
    errors.NotReady: ExitStatus.FAILED,
    errors.OutcomeUnknown: ExitStatus.FAILED,
    errors.CorruptLog: ExitStatus.FAILED,
    OSError: ExitStatus.FAILED,
    ConnectionResetError: ExitStatus.FAILED,
    BrokenPipeError: ExitStatus.FAILED,  # Of a connection: the output is whole.
    ZeroDivisionError: ExitStatus.FAILED,  # A mistake of ours.
    KeyboardInterrupt: ExitStatus.INTERRUPTED,
    EOFError: ExitStatus.FAILED,
}


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: path.name)
def test_a_command_ends_with_a_status_that_has_a_name(path: Path) -> None:
    ends = [
        ast.unparse(node)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ENDS
    ]

    unnamed = [end for end in ends if "(ExitStatus." not in end and end != "os._exit(status)"]
    assert not unnamed, "take one of cli/exit_status.py"


def test_the_statuses_are_those_that_are_described() -> None:
    described = [
        (int(number), name.strip("`"))
        for number, name, _ in table(document("docs/commands.md"), "status")
    ]

    assert described == [(status.value, status.name) for status in ExitStatus]


@pytest.mark.parametrize("error", BY_ERROR, ids=lambda error: error.__name__)
def test_what_ends_a_command_is_told_by_its_status(error: type[BaseException]) -> None:
    app = typer.Typer(cls=OneLineErrors, pretty_exceptions_enable=False)

    @app.callback()
    def group() -> None: ...

    @app.command()
    def fail() -> None:
        raise error("the reason")

    result = CliRunner().invoke(app, ["fail"])

    assert result.exit_code == BY_ERROR[error]
    assert result.exit_code != ExitStatus.FOUND


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_no_error_of_ours_says_that_something_was_found(error: type[Exception]) -> None:
    assert ExitStatus.of(error("x")) in {ExitStatus.USAGE, ExitStatus.FAILED}


@pytest.mark.parametrize(
    "arguments",
    [["verify"], ["ls"], ["lookup", "orders", "1", "0", "9999"], ["--help"]],
    ids=str,
)
def test_a_command_whose_reader_has_enough_ends_as_others_do(
    arguments: list[str], tmp_path: Path
) -> None:
    write(tmp_path / "store", orders)
    reader, writer = os.pipe()
    os.close(reader)

    done = subprocess.run(
        [sys.executable, "-m", "tierledger.cli.main", *arguments],
        stdout=writer,
        stderr=subprocess.PIPE,
        env={**os.environ, "TIERLEDGER_STORE": f"sqlite:{tmp_path / 'store'}"},
        text=True,
        check=False,
    )
    os.close(writer)

    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, "")

"""The `tierledger` command. Each command lives in a module of its own and gets its name here.

Only this module decides how a command ends: an error of ours is one line on stderr, and
`exit_status` defines the status.
"""

from __future__ import annotations

import io
import select
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from typing import Annotated, Any

import typer
from typing_extensions import override

from tierledger.cli.commands.backup import backup_group
from tierledger.cli.commands.bundle import bundle
from tierledger.cli.commands.cat import cat
from tierledger.cli.commands.check import check_history
from tierledger.cli.commands.clean.group import clean_group
from tierledger.cli.commands.columns import columns_group
from tierledger.cli.commands.console.command import console
from tierledger.cli.commands.doctor.doctor import doctor
from tierledger.cli.commands.export import export
from tierledger.cli.commands.forget import forget
from tierledger.cli.commands.handover import handover_command
from tierledger.cli.commands.hold import hold_group
from tierledger.cli.commands.jobs.groups import jobs_group, spark_group, tables_group
from tierledger.cli.commands.log import show_log
from tierledger.cli.commands.lookup import lookup
from tierledger.cli.commands.metrics import metrics_group
from tierledger.cli.commands.partitions import describe, list_partitions
from tierledger.cli.commands.replay import replay_command
from tierledger.cli.commands.restart import restart
from tierledger.cli.commands.scrub import scrub
from tierledger.cli.commands.segments import segments
from tierledger.cli.commands.serve import serve_command
from tierledger.cli.commands.simulate.simulate import simulate_group
from tierledger.cli.commands.sql import sql
from tierledger.cli.commands.status.status import status_command
from tierledger.cli.commands.storage import storage_group
from tierledger.cli.commands.trash import trash_group
from tierledger.cli.commands.undelete import undelete
from tierledger.cli.commands.verify import verify_store
from tierledger.cli.complete_file import command_output
from tierledger.cli.dashed_ids import CommandOfIds
from tierledger.cli.examples import CommandsWithExamples
from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.given_file import command_input
from tierledger.cli.log_setup import flush_log
from tierledger.cli.output import print_error
from tierledger.cli.usage_errors import reword
from tierledger.events.errors import NoSuchStore, RemoteStorageError
from tierledger.events.extras import naming_extras


class _StandardOutput(io.FileIO):
    """Standard output whose errors name it, as those of files do."""

    NAME = "standard output"
    is_given_up = False
    """Whether its error is told: what is still buffered would only fail again, so it goes."""

    @override
    def write(self, data: Any, /) -> int:
        if self.is_given_up:
            return len(data)
        try:
            return super().write(data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.NAME) from error


class OneLineErrors(CommandsWithExamples):
    """Commands whose errors of ours end the process with one line instead of a traceback.

    So do the system's errors: a full disk, or an output that accepts nothing.
    """

    @override
    def invoke(self, ctx: Any) -> Any:
        try:
            with command_output(), command_input(), naming_extras():
                return super().invoke(ctx)
        except typer.BadParameter as error:
            reword(error)
            raise
        except (RemoteStorageError, OSError) as error:
            if isinstance(error, NoSuchStore):
                error.add_note(
                    "--store or TIERLEDGER_STORE names one that is there; tierledger serve, "
                    "replay and jobs import make one"
                )
            if isinstance(error, BrokenPipeError) and _nobody_reads():
                raise
            _tell(error)
            raise typer.Exit(ExitStatus.of(error)) from error

    @override
    def main(self, *args: Any, **extra: Any) -> Any:
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # As `start` has set it.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            try:
                return super().main(*args, **extra)
            finally:
                flush_log()
                sys.stdout.flush()  # Now, while a failure can be reported.
        except SystemExit as end:
            _end_otherwise(end)
            raise
        except BrokenPipeError:
            _end_by_closed_pipe()
        except OSError as error:
            _tell(error)
            sys.exit(ExitStatus.FAILED)
        except Exception:  # noqa: BLE001 - A mistake of ours; Python's status says "found".
            traceback.print_exc()
            sys.exit(ExitStatus.FAILED)


def _tell(error: Exception) -> None:
    """Print the error; after one of standard output, write nothing more there."""
    print_error(error)
    match error, sys.stdout:
        case (
            OSError(filename=_StandardOutput.NAME),
            io.TextIOWrapper(buffer=io.BufferedWriter(raw=_StandardOutput() as output)),
        ):
            output.is_given_up = True
        case _:
            pass


def _end_otherwise(end: SystemExit) -> None:
    """Set the status and end in cases that Click reports as a mere failure."""
    why = end.__context__
    if isinstance(why, BrokenPipeError):
        _end_by_closed_pipe()
    if isinstance(why, typer.Abort) and why.__context__ is not None:
        # At a prompt: Ctrl-C, or the input ended.
        interrupted = isinstance(why.__context__, KeyboardInterrupt)
        end.code = ExitStatus.INTERRUPTED if interrupted else ExitStatus.FAILED


def _nobody_reads() -> bool:
    """Whether an output of ours broke, and not a connection."""
    looked = select.poll()
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is not None:
            looked.register(stream, 0)
    return any(event & select.POLLERR for _, event in looked.poll(0))


def _end_by_closed_pipe() -> None:
    """The reader has closed the pipe: end silently, as `cat` and `grep` do."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.raise_signal(signal.SIGPIPE)


app = typer.Typer(
    cls=OneLineErrors,
    name="tierledger",
    help="Remote log metadata of Kafka's tiered storage: what is where, since when, and why."
    "\n\n--store or TIERLEDGER_STORE names the store. A command's help ends with examples.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"tierledger {version('tierledger')}")
        raise typer.Exit


@app.callback(help=app.info.help)
def options(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Options of the program itself."""


COMMANDS: dict[str, Callable[..., None]] = {
    "ls": list_partitions,
    "describe": describe,
    "segments": segments,
    "lookup": lookup,
    "log": show_log,
    "cat": cat,
    "sql": sql,
    "verify": verify_store,
    "scrub": scrub,
    "export": export,
    "undelete": undelete,
    "forget": forget,
    "serve": serve_command,
    "handover": handover_command,
    "restart": restart,
    "status": status_command,
    "doctor": doctor,
    "bundle": bundle,
    "console": console,
    "replay": replay_command,
    "check": check_history,
}

for name, command in COMMANDS.items():
    app.command(name, cls=CommandOfIds)(command)
app.add_typer(backup_group(), name="backup")
app.add_typer(storage_group(), name="storage")
app.add_typer(hold_group(), name="hold")
app.add_typer(trash_group(), name="trash")
app.add_typer(clean_group(), name="clean")
app.add_typer(metrics_group(), name="metrics")
app.add_typer(tables_group(), name="tables")
app.add_typer(columns_group(), name="columns")
app.add_typer(jobs_group(), name="jobs")
app.add_typer(simulate_group(), name="simulate")
app.add_typer(spark_group(), name="spark")


class _WithoutPandas(MetaPathFinder):
    """Keeps Arrow from loading pandas where that is installed: half a second, for nothing."""

    @override
    def find_spec(self, fullname: str, path: Any, target: Any = None, /) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is not used here", name=fullname)


def _build_only(names: Sequence[str]) -> None:
    """Build no other command than the one that is named: all of them take 0.1 s."""
    commands = [one for one in app.registered_commands if one.name in names]
    groups = [one for one in app.registered_groups if one.name in names]
    if commands or groups:
        app.registered_commands, app.registered_groups = commands, groups


def main() -> None:
    if not __debug__:
        print(
            "tierledger checks itself with assertions; run Python without -O", file=sys.stderr
        )
        sys.exit(ExitStatus.FAILED)
    if sys.stdout is None:
        print_error(OSError("standard output is closed"))
        sys.exit(ExitStatus.FAILED)
    if sys.argv[1:2] == ["sql"]:
        sys.meta_path.insert(0, _WithoutPandas())
    plain = sys.stdout
    output = io.BufferedWriter(_StandardOutput(plain.fileno(), "wb", closefd=False))
    sys.stdout = io.TextIOWrapper(
        output, plain.encoding, plain.errors, line_buffering=plain.isatty()
    )
    _build_only(sys.argv[1:2])
    app()


if __name__ == "__main__":
    main()

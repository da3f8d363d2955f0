"""The `tierledger` command. Each command lives in a module of its own and gets its name here.

Only this module decides how a command ends: an error of ours is one line on stderr, and
`exit_status` defines the status.
"""

from __future__ import annotations

import atexit
import io
import os
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.abc import MetaPathFinder
from typing import Annotated, Any, NoReturn

import typer
from typing_extensions import override

from tierledger.cli.complete_file import command_output
from tierledger.cli.dashed_ids import CommandOfIds
from tierledger.cli.examples import CommandsWithExamples
from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.given_file import command_input
from tierledger.cli.handlers import handler_of
from tierledger.cli.loading import loading
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


ABOUT = (
    "Remote log metadata of Kafka's tiered storage: what is where, since when, and why.\n\n"
    "--store or TIERLEDGER_STORE names the store. A command's help ends with examples."
)

COMMANDS = {
    "ls": "partitions:list_partitions",
    "describe": "partitions:describe",
    "segments": "segments:segments",
    "lookup": "lookup:lookup",
    "log": "log:show_log",
    "cat": "cat:cat",
    "sql": "sql:sql",
    "verify": "verify:verify_store",
    "scrub": "scrub:scrub",
    "export": "export:export",
    "undelete": "undelete:undelete",
    "forget": "forget:forget",
    "serve": "serve:serve_command",
    "handover": "handover:handover_command",
    "restart": "restart:restart",
    "status": "status.status:status_command",
    "doctor": "doctor.doctor:doctor",
    "bundle": "bundle:bundle",
    "console": "console.command:console",
    "replay": "replay:replay_command",
    "check": "check:check_history",
}
"""Commands by name: the module in `commands`, and the function in it."""

GROUPS = {
    "backup": "backup:backup_group",
    "storage": "storage:storage_group",
    "hold": "hold:hold_group",
    "trash": "trash:trash_group",
    "clean": "clean.group:clean_group",
    "metrics": "metrics:metrics_group",
    "tables": "jobs.groups:tables_group",
    "columns": "columns:columns_group",
    "jobs": "jobs.groups:jobs_group",
    "simulate": "simulate.simulate:simulate_group",
    "spark": "jobs.groups:spark_group",
}
"""Groups of commands, with the function that makes each."""


def print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"tierledger {version('tierledger')}")
        raise typer.Exit


def program(names: Sequence[str] = ()) -> typer.Typer:
    """The program with the commands `names`; with all commands if none is of these names.

    Only those are loaded. All of them take 0.2 s.
    """
    app = typer.Typer(
        cls=OneLineErrors,
        name="tierledger",
        help=ABOUT,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )

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

    some = [name for name in names if name in COMMANDS or name in GROUPS]
    for name, place in COMMANDS.items():
        if not some or name in some:
            app.command(name, cls=CommandOfIds)(handler_of(_loaded(place)))
    for name, place in GROUPS.items():
        if not some or name in some:
            app.add_typer(_loaded(place)(), name=name)
    return app


def _loaded(place: str) -> Callable[..., Any]:
    module, _, function = place.partition(":")
    found: Callable[..., Any] = getattr(
        import_module(f"tierledger.cli.commands.{module}"), function
    )
    return found


class _WithoutPandas(MetaPathFinder):
    """Keeps Arrow from loading pandas where that is installed: half a second, for nothing."""

    @override
    def find_spec(self, fullname: str, path: Any, target: Any = None, /) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is not used here", name=fullname)


RUNTIMES = ("obstore", "slatedb")
"""Packages with threads of their own that call into Python, a moment after the answer that was
waited for, too."""


def _leave(status: int) -> NoReturn:
    """End the process as Python does, but without ending the interpreter.

    A thread that calls into an interpreter which is ending is ended by it, and those of
    `RUNTIMES` abort the process then.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # As `multiprocessing` does.
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


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
    with loading():
        app = program(sys.argv[1:2])
    try:
        app()
    except SystemExit as end:
        if not any(one in sys.modules for one in RUNTIMES):
            raise
        _leave(int(end.code or ExitStatus.WELL))


if __name__ == "__main__":
    main()

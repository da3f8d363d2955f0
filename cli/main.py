"""The `tierledger` command. Commands live in modules of their own, registered here.

Exit codes: 0 well; 1 the answer is "no" (damage found, no such segment); 2 the question was
wrong or could not be answered; 3 answered, but for what is damaged. An error of ours is one
line on stderr.
"""

from __future__ import annotations

import sys
from typing import Any

import typer
from typer.core import TyperGroup
from typing_extensions import override

from tierledger.cli import (
    cat_command,
    check_command,
    export_command,
    forget_command,
    log_command,
    lookup_command,
    partition_commands,
    replay_command,
    segments_command,
    serve_command,
    simulate_command,
    spark_command,
    status_command,
    verify_command,
)
from tierledger.cli.output import print_error
from tierledger.events.errors import RemoteStorageError

EXIT_ERROR = 2


class OneLineErrors(TyperGroup):
    """Commands whose errors of ours end the process with one line instead of a traceback.

    So do those of the system: a full disk, or an output that takes nothing.
    """

    @override
    def invoke(self, ctx: Any) -> Any:
        try:
            answer = super().invoke(ctx)
            sys.stdout.flush()  # Now, while what it cannot take can still be told.
        except BrokenPipeError:
            raise  # Who reads has enough; Click ends the process in silence.
        except (RemoteStorageError, OSError) as error:
            print_error(error)
            raise typer.Exit(EXIT_ERROR) from error
        return answer


app = typer.Typer(
    cls=OneLineErrors,
    name="tierledger",
    help="Remote log metadata of Kafka's tiered storage: what is where, since when, and why.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

for commands in (
    partition_commands,
    segments_command,
    lookup_command,
    log_command,
    cat_command,
    verify_command,
    export_command,
    spark_command,
    forget_command,
    serve_command,
    status_command,
    replay_command,
    simulate_command,
    check_command,
):
    commands.register(app)


def main() -> None:
    """Run the command line."""
    if not __debug__:
        sys.exit("tierledger checks itself with assertions; run Python without -O")
    if sys.stdout is None:
        print_error(OSError("standard output is closed"))
        sys.exit(EXIT_ERROR)
    app()


if __name__ == "__main__":
    main()

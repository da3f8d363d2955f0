"""The commands of `clean`."""

from __future__ import annotations

import typer

from tierledger.cli.commands.clean.apply import apply
from tierledger.cli.commands.clean.plan import plan
from tierledger.cli.commands.clean.undo import undo
from tierledger.cli.examples import CommandsWithExamples


def clean_group() -> typer.Typer:
    group = typer.Typer(
        cls=CommandsWithExamples,
        help="Clean up what is dead weight in a tier, with evidence, and undo it.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.command("plan")(plan)
    group.command("apply")(apply)
    group.command("undo")(undo)
    return group

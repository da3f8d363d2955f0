"""The commands of `clean`."""

from __future__ import annotations

import typer

from tierledger.cli.commands.clean.apply import apply
from tierledger.cli.commands.clean.plan import plan
from tierledger.cli.commands.clean.undo import undo
from tierledger.cli.handlers import group_of


def clean_group() -> typer.Typer:
    return group_of(
        "Clean up what is dead weight in a tier, with evidence, and undo it.",
        {"plan": plan, "apply": apply, "undo": undo},
    )

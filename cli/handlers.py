"""How functions become commands: one function for each, which may be a coroutine function."""

from __future__ import annotations

import asyncio
from functools import wraps
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

import typer

from tierledger.cli.examples import CommandsWithExamples

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def group_of(about: str, commands: Mapping[str, Callable[..., Any]]) -> typer.Typer:
    """A group with these commands, by their names; `about` is its help."""
    group = typer.Typer(
        cls=CommandsWithExamples, help=about, no_args_is_help=True, rich_markup_mode=None
    )
    for name, command in commands.items():
        group.command(name)(handler_of(command))
    return group


def handler_of(command: Callable[..., Any]) -> Callable[..., Any]:
    """`command` as typer calls it: a coroutine runs on an event loop of its own."""
    if not iscoroutinefunction(command):
        return command

    @wraps(command)
    def handler(**given: Any) -> None:  # noqa: ANN401 - The options of `command`.
        asyncio.run(command(**given))

    return handler

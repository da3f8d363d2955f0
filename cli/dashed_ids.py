"""Commands that take an id for an id, also one that begins with "-".

Topic ids are URL-safe base64; one in 64 of those that brokers before 3.2 made begins with "-".
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice
from typing import Any

from typer.core import TyperCommand
from typing_extensions import override

from tierledger.events.errors import InvalidArgument
from tierledger.events.identifiers import Uuid


class CommandOfIds(TyperCommand):
    """A command whose arguments may be ids."""

    @override
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        taking = {
            name
            for one in self.get_params(ctx)
            if one.param_type_name == "option" and not getattr(one, "is_flag", False)
            for name in one.opts
        }
        return super().parse_args(ctx, ids_last(args, taking))


def ids_last(given: Sequence[str], taking: Collection[str]) -> list[str]:
    """`given`, with "--" before its arguments if one of them is an id that begins with "-".

    `taking`: the options that are followed by a value.
    """
    options: list[str] = []
    arguments: list[str] = []
    rest = iter(given)
    for one in rest:
        if one == "--":
            arguments += rest
        elif one in taking:
            options += [one, *islice(rest, 1)]
        elif one.startswith("-") and len(one) > 1 and not is_id(one):
            options.append(one)
        else:
            arguments.append(one)
    dashed = any(one.startswith("-") and is_id(one) for one in arguments)
    return [*options, "--", *arguments] if dashed else [*given]


def is_id(text: str) -> bool:
    """Whether `text` is an id as Kafka prints it."""
    try:
        return str(Uuid.parse(text)) == text
    except InvalidArgument:
        return False

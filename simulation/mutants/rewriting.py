"""Mutants made by replacing a piece of a function's source text."""

from __future__ import annotations
import __future__

import inspect
import textwrap
from typing import Any

from tierledger.events.errors import InvalidArgument


def rewritten(function: Any, old: str, new: str) -> list[tuple[Any, str, Any]]:  # noqa: ANN401
    """Patches of the function, in whose source `new` replaces `old`; `old` occurs once there.

    The patches replace its code, not its name, so modules that imported it have the mistake.

    Raises:
        InvalidArgument: The source holds `old` not at all, or more than once.
    """
    text = textwrap.dedent(inspect.getsource(function))
    if text.count(old) != 1:
        raise InvalidArgument(
            f"{function.__qualname__}: expected {old!r} once, found it {text.count(old)} times"
        )
    made: dict[str, Any] = {}
    flags = __future__.annotations.compiler_flag
    code = compile(text.replace(old, new), inspect.getfile(function), "exec", flags)
    exec(code, function.__globals__, made)  # noqa: S102 - A text of our own.
    return [(function, "__code__", made[function.__name__].__code__)]

"""Messages for wrong options and arguments: what was expected, and what was given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tierledger.cli.output import shortened

if TYPE_CHECKING:
    import typer

_EXPECTED = {
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number that fits",
    "float_parsing": "a number",
    "greater_than_equal": "at least {ge}",
    "less_than_equal": "at most {le}",
    "finite_number": "a number that ends",
    "string_unicode": "text in UTF-8",
}
"""What was expected, by the parser's name of the mistake."""


_MISSING = {
    "partition": "topic and partition as two arguments: orders 0",
    "tier": "the place of the segments: --tier s3://BUCKET/PREFIX, or dir:DIR",
    "kafka": "the address of a broker: --kafka HOST:PORT",
}
"""What is expected for a parameter that was not given, where its name does not tell."""


def reword(error: typer.BadParameter) -> None:
    """Rewrite `error` to tell what was expected instead of how the parser failed.

    Typer's parser is pydantic, which has errors of its own; other errors stay as they are.
    """
    name = getattr(error.param, "name", None)
    if not error.message and name in _MISSING:  # Of a parameter that was not given.
        error.message = f"Expected {_MISSING[name]}"
    cause: Any = error.__cause__
    if not hasattr(cause, "errors"):
        return
    first = cause.errors()[0]
    expected = _EXPECTED.get(first["type"], "a value of another kind")
    expected = expected.format(**first.get("ctx", {}))
    error.message = f"expected {expected}, got {shortened(first['input'])}"

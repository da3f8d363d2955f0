"""`tierledger simulate`, run as by a user."""

import json
from typing import Any

from typer.testing import Result

from tests.models.cli.command_line import invoke

MISTAKE = "M08"
"""A mutant that nearly each seed catches."""


def simulate(*arguments: str) -> Result:
    return invoke("simulate", *arguments)


def document(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.stdout)
    return found

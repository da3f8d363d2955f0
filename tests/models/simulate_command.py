"""`tierledger simulate`, run as a user runs it."""

import json
from typing import Any

from typer.testing import CliRunner, Result

from tierledger.cli.main import app

MISTAKE = "M08"
"""A mutant that nearly every seed catches."""


def simulate(*words: str) -> Result:
    return CliRunner().invoke(app, ["simulate", *words])


def document(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.stdout)
    return found

"""What the program itself offers: its version, help by `-h`, completion in a shell."""

import os
import subprocess
import sys
from importlib.metadata import version

import pytest
from typer.testing import CliRunner

from tests.house.test_documents import commands
from tierledger.cli.main import app

GROUPS = ["", "spark", "simulate"]


def test_it_tells_its_version() -> None:
    result = CliRunner().invoke(app, ["--version"])

    assert result.exit_code == 0
    assert result.stdout == f"tierledger {version('tierledger')}\n"


@pytest.mark.parametrize("command", [*GROUPS, *commands()])
def test_every_command_helps_by_a_letter(command: str) -> None:
    result = CliRunner().invoke(app, [*command.split(), "-h"])

    assert result.exit_code == 0
    assert result.stdout.startswith("Usage: ")
    assert result.stdout == CliRunner().invoke(app, [*command.split(), "--help"]).stdout


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("tierledger ve", {"verify"}),
        ("tierledger spark co", {"coverage"}),
        ("tierledger spark coverage --pa", {"--page", "--partition"}),
        ("tierledger simulate live --ch", {"--change-every"}),
    ],
)
def test_a_shell_completes_commands_and_options(words: str, offered: set[str]) -> None:
    asked = {
        "_TIERLEDGER_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }

    result = CliRunner(env=asked).invoke(app, [], prog_name="tierledger")

    assert set(result.stdout.split()) >= offered


def test_completion_can_be_installed() -> None:
    shown = CliRunner().invoke(app, ["--help"]).stdout

    assert "--install-completion" in shown
    assert "--show-completion" in shown


@pytest.mark.parametrize("asked", [{}, {"_TIERLEDGER_COMPLETE": "complete_bash"}])
def test_help_and_completion_load_nothing_that_opens_a_store(asked: dict[str, str]) -> None:
    script = (
        "import sys; from tierledger.cli.main import main\n"
        "sys.argv[0] = 'tierledger'\n"
        "try: main()\n"
        "finally: print(*sorted(sys.modules), file=sys.stderr)"
    )
    words = {"COMP_WORDS": "tierledger ve", "COMP_CWORD": "1"}

    done = subprocess.run(
        [sys.executable, "-c", script, *([] if asked else ["--help"])],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **words, **asked},
    )

    loaded = set(done.stderr.split())
    assert "verify" in done.stdout
    assert "tierledger.cli.commands.verify" in loaded
    assert not loaded & {
        *("tierledger.storage.catalog", "tierledger.actors.coordinator", "sqlite3"),
        *("ray", "pyspark", "pyarrow", "obstore", "aiokafka", "rich", "structlog"),
    }

"""The program itself: its version, help by `-h`, completion in a shell."""

import signal
import subprocess
import sys
from importlib.metadata import version
from types import SimpleNamespace

import pytest

from tests.house.test_documents import commands
from tests.models.cli.command_line import in_process, invoke
from tierledger.cli import start

GROUPS = ["", "tables", "jobs", "spark", "simulate"]


def test_it_tells_its_version() -> None:
    result = invoke("--version")

    assert result.exit_code == 0
    assert result.stdout == f"tierledger {version('tierledger')}\n"


@pytest.mark.parametrize("command", [*GROUPS, *commands()])
def test_every_command_helps_by_a_letter(command: str) -> None:
    result = invoke(*command.split(), "-h")

    assert result.exit_code == 0
    assert result.stdout.startswith("Usage: ")
    assert result.stdout == invoke(*command.split(), "--help").stdout


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("tierledger ve", {"verify"}),
        ("tierledger jobs co", {"coverage"}),
        ("tierledger spark co", {"coverage"}),
        ("tierledger jobs coverage --pa", {"--page", "--partition"}),
        ("tierledger simulate live --ch", {"--change-every"}),
    ],
)
def test_a_shell_completes_commands_and_options(typed: str, offered: set[str]) -> None:
    asked = {
        "_TIERLEDGER_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(typed.split()) - 1),
    }

    result = invoke(env=asked, prog_name="tierledger")

    assert set(result.stdout.split()) >= offered


def test_completion_can_be_installed() -> None:
    shown = invoke("--help").stdout

    assert "--install-completion" in shown
    assert "--show-completion" in shown


@pytest.mark.parametrize("asked", [{}, {"_TIERLEDGER_COMPLETE": "complete_bash"}])
def test_help_and_completion_load_nothing_that_opens_a_store(asked: dict[str, str]) -> None:
    typed = {"COMP_WORDS": "tierledger ve", "COMP_CWORD": "1"}

    done, loaded = in_process(*([] if asked else ["--help"]), **typed, **asked)

    assert done.returncode == 0
    assert "verify" in done.stdout
    assert "tierledger.cli.commands.verify" in loaded
    assert not loaded & {
        *("tierledger.storage.catalog", "tierledger.actors.coordinator", "sqlite3"),
        *("ray", "pyspark", "pyarrow", "obstore", "aiokafka", "rich", "structlog"),
    }


def test_a_command_that_is_named_loads_alone() -> None:
    done, loaded = in_process("sql", "--help")

    assert done.returncode == 0
    assert {one for one in loaded if one.startswith("tierledger.cli.commands.")} == {
        "tierledger.cli.commands.sql",
        *(f"tierledger.cli.commands.jobs{more}" for more in ("", ".job", ".money", ".times")),
    }


def test_a_command_that_there_is_not_is_looked_for_among_all() -> None:
    done, _ = in_process("verifi")

    assert done.returncode == 2
    assert "Did you mean 'verify'?" in done.stderr


def test_what_is_loaded_is_not_looked_through_again() -> None:
    code = (
        "import gc, sys; sys.argv = ['tierledger', '--version']\n"
        "from tierledger.cli.start import main\n"
        "try: main()\n"
        "finally: print(gc.isenabled(), gc.get_freeze_count() > 10_000)"
    )

    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)

    assert done.stdout.split()[-2:] == [b"True", b"True"]


def test_ctrl_c_ends_the_process_until_the_program_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    met: list[object] = []
    loaded = SimpleNamespace(main=lambda: met.append(signal.getsignal(signal.SIGINT)))
    monkeypatch.setitem(sys.modules, "tierledger.cli.main", loaded)
    before = signal.getsignal(signal.SIGINT)

    try:
        for handler in (signal.default_int_handler, signal.SIG_IGN):
            signal.signal(signal.SIGINT, handler)
            start.main()
    finally:
        signal.signal(signal.SIGINT, before)

    assert met == [signal.SIG_DFL, signal.SIG_IGN]
    assert invoke("--version").exit_code == 0


STILL_ANSWERING = """
import asyncio, sys, time
from contextlib import suppress
import obstore
from obstore.store import S3Store
from tierledger.cli.main import main

class LongInEnding:
    def __del__(self, sleep=time.sleep):
        sleep(2)

async def ask():
    loop = asyncio.get_running_loop()
    call_soon = loop.call_soon_threadsafe

    def late(*arguments, sleep=time.sleep, **more):
        call_soon(*arguments, **more)
        sleep(1)

    loop.call_soon_threadsafe = late  # Called by a thread of Rust's, with the answer.
    store = S3Store(
        "bucket", endpoint="http://127.0.0.1:1", region="us-east-1",
        access_key_id="id", secret_access_key="secret",
        client_options={"allow_http": True}, retry_config={"max_retries": 0},
    )
    with suppress(obstore.exceptions.BaseError):
        await obstore.head_async(store, "object")

asyncio.run(ask())
sys.kept = LongInEnding()
main()
"""


@pytest.mark.parametrize(("argument", "status"), [("--version", 0), ("none", 2)])
def test_a_command_that_ends_while_a_buckets_client_is_still_answering_is_not_aborted(
    argument: str, status: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STILL_ANSWERING, argument],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == status, done.stderr
    assert done.stdout + done.stderr

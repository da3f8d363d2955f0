"""What helps at the prompt: examples, completion, and what was meant."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.models.cli.command_line import invoke, refused, run, write
from tests.models.storage.stored_partitions import StoredPartition, finished
from tierledger.cli.examples import EXAMPLES
from tierledger.cli.whole_program import app
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.storage.backends.sqlite.backend import SqliteBackend


def commands(group: Any, before: str = "") -> dict[str, Any]:  # noqa: ANN401 - Typer's own kind.
    found: dict[str, Any] = {}
    for name, one in group.commands.items():
        if hasattr(one, "commands"):
            found |= commands(one, f"{before}{name} ")
        else:
            found[before + name] = one
    return found


EACH = commands(typer.main.get_command(app))
FORMER = {name: one for name, one in EACH.items() if name.startswith("spark ")}
"""Commands under the former name of `tables` and `jobs`."""
COMMANDS = {name: one for name, one in EACH.items() if name not in FORMER}

DEPLOY = Path(__file__).parents[2] / "deploy"
"""The files that are shipped as examples."""


def test_each_command_has_examples_and_no_other_has() -> None:
    assert set(EXAMPLES) == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_commands_help_ends_with_its_examples(name: str) -> None:
    result = invoke(*name.split(), "--help")

    assert result.exit_code == 0
    ends = result.stdout.rstrip().splitlines()[-len(EXAMPLES[name]) :]
    assert [line.strip() for line in ends] == list(EXAMPLES[name])
    assert max(map(len, result.stdout.splitlines())) <= 80, "as wide as a terminal is"


def test_tables_and_jobs_are_found_under_their_former_name() -> None:
    groups = {name: group for group in ("tables", "jobs") for name in _under(group)}

    assert {f"spark {name}" for name in groups} == set(FORMER)
    assert "former name of `tables` and `jobs`" in invoke("spark", "--help").stdout
    for name, group in groups.items():
        now, then = (invoke(one, name, "--help").stdout for one in (group, "spark"))
        assert then.replace(f"tierledger spark {name}", f"tierledger {group} {name}", 1) == now


def _under(group: str) -> list[str]:
    return [name.partition(" ")[2] for name in COMMANDS if name.startswith(f"{group} ")]


@pytest.mark.parametrize("group", ["", "hold", "trash", "tables", "jobs", "spark", "simulate"])
def test_a_list_of_commands_tells_whole_sentences(group: str) -> None:
    lines = invoke(*group.split(), "--help").stdout.splitlines()

    assert not [line for line in lines[1:] if line.endswith("...")]
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_takes_its_examples(name: str) -> None:
    for example in EXAMPLES[name]:
        program, *words = shlex.split(example)
        own = name.split()

        assert program == "tierledger"
        assert words[: len(own)] == own
        COMMANDS[name].make_context(name, words[len(own) :])  # It raises what is wrong.


READERS = ("ls", "describe", "segments", "lookup", "log", "sql", "verify", "export", "forget")
GROUPS = ("trash", "tables", "jobs")
ELSEWHERE = ("--from leader", "s3://", "jobs import")
"""What needs a service, a tier or Kafka."""


async def as_in_the_examples(backend: SqliteBackend) -> None:
    orders = TopicIdPartition(Uuid(bytes([1]) * 16), 0, "orders")
    partition = await StoredPartition.led(backend, orders)
    for number in range(400, 480):
        await partition.append(finished(number, epoch=3))
    old = TopicIdPartition(Uuid(bytes([2]) * 16), 0, "old-topic")
    await (await StoredPartition.led(backend, old)).close()


def test_the_examples_of_what_reads_a_store_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "store", as_in_the_examples)
    for name in ("prices.toml", "labels.toml"):
        (tmp_path / name).symlink_to(DEPLOY / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIERLEDGER_STORE", f"sqlite:{tmp_path / 'store'}")
    told = [
        example
        for name, examples in EXAMPLES.items()
        for example in examples
        if name.split()[0] in {*READERS, *GROUPS}
        if not any(one in example for one in ELSEWHERE)
    ]

    # 1: it has found what it looks for, such as stuck copies.
    failed = {
        example: done.output
        for example in told
        if (done := invoke(*shlex.split(example)[1:])).exit_code not in {0, 1}
    }

    assert len(told) > 20
    assert not failed


def completed(*words: str, store: object) -> list[str]:
    """What bash is told that the last word may become."""
    asked = {
        "_TIERLEDGER_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(("tierledger", *words)),
        "COMP_CWORD": str(len(words)),
        "TIERLEDGER_STORE": f"sqlite:{store}",
    }
    program = (
        "import sys; sys.argv[0] = 'tierledger'; from tierledger.cli.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | asked,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_a_topic_is_completed_from_the_store(store: Path) -> None:
    assert completed("describe", "or", store=store) == ["orders"]
    assert completed("describe", "x", store=store) == []
    assert completed("describe", "or", store="/nowhere/store") == []


def test_an_unknown_topic_is_answered_with_those_that_are_alike(store: Path) -> None:
    refused(run(store, "describe", "order"), "no topic 'order'; is it 'orders'?")
    stranger = run(store, "describe", "payments")
    refused(stranger, "no topic 'payments'; tierledger ls lists the topics")
    assert " is it " not in stranger.stderr

"""Commands that ask a running service: named by its doors or its store, and without Ray."""

import asyncio
import json
import re
import shlex
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest
from typer.testing import Result

from tests.actors.door.clients import served
from tests.cli.test_help import COMMANDS, DEPLOY
from tests.models.actors.local_world import CLUSTER, LocalWorld, copy, partition, segment
from tests.models.actors.published import publish, published
from tests.models.actors.secrets import Secrets
from tests.models.cli.base_install import run_in_base
from tests.models.cli.command_line import invoke, lines, refused
from tests.models.storage.stored_partitions import TRACES
from tierledger.actors.discovery.service_record import ServiceRecord
from tierledger.actors.door.security.settings import CA_KEY, TOKEN_KEY
from tierledger.cli.examples import EXAMPLES
from tierledger.cli.exit_status import ExitStatus

TIP = partition()
NOBODY = "tierledger://127.0.0.1:1"
COMMAND = "from tierledger.cli.main import main; main()"


async def run(*arguments: object, env: dict[str, str] | None = None) -> Result:
    return await asyncio.to_thread(invoke, *arguments, "--cluster", CLUSTER, env=env)


async def filled(world: LocalWorld, **more: str) -> None:
    manager = await world.broker(1, more=more)
    await manager.on_partition_leadership_changes([TIP], [])
    await copy(manager, segment(0), segment(1))


async def ways_to(world: LocalWorld) -> list[str]:
    return [await world.service.url(), world.storage["metadata.storage.url"]]


async def test_the_status_of_a_service_is_told_through_its_doors(tmp_path: Path) -> None:
    async with published(tmp_path, hosts=2) as world:
        await filled(world)
        url, store = await ways_to(world)

        by_doors = await run("status", "--json", "--store", url)
        by_store = await run("status", "--json", "--store", store)
        shown = await run("status", "--store", url)

    (one,), (other,) = lines(by_doors), lines(by_store)
    assert one["service"]["doors"] == url
    assert other["service"]["pid"] is not None
    for told in (one, other):
        assert [host["name"] for host in told["hosts"]] == ["host-0", "host-1"]
        assert [part["topic"] for part in told["partitions"]] == ["orders"]
    assert (shown.exit_code, url in shown.stdout) == (0, True)


async def test_doors_serve_one_cluster_which_need_not_be_named_and_no_other(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as world:
        url = await world.service.url()

        unnamed = await asyncio.to_thread(invoke, "status", "--store", url, "--json")
        other = await asyncio.to_thread(invoke, "status", "--store", url, "--cluster", "other")

    assert lines(unnamed)[0]["cluster"] == CLUSTER
    said = f"this host serves cluster '{CLUSTER}', not"
    assert f"{said} 'other': expected '{CLUSTER}' as --cluster" in other.stderr


async def test_what_is_wrong_in_a_host_or_the_coordinator_is_in_the_list_until_it_is_over(
    tmp_path: Path,
) -> None:
    async with published(tmp_path) as world:
        await filled(world)
        url, _ = await ways_to(world)
        of_host = world.service.host("host-0").host.report.conditions
        of_host.hold("behind", "it does not keep up", "the disk")
        world.service.coordinator.conditions.hold("on-fire", "smoke")

        shown = await run("status", "--store", url)
        told = await run("status", "--json", "--store", url)
        of_host.clear("behind", "the disk")
        world.service.coordinator.conditions.clear("on-fire")
        after = await run("status", "--store", url)

    one = json.loads(told.stdout)
    assert [(each["code"], each["subject"]) for each in one["troubles"]] == [
        ("behind", "host host-0, the disk"),
        ("unknown-condition", "coordinator"),
    ]
    assert one["troubles"][0]["since_ms"] is not None
    assert [each.exit_code for each in (shown, told, after)] == [1, 1, 0], after.stdout
    assert "behind 1, unknown-condition 1" in shown.stdout


async def test_segments_are_asked_for_through_doors_by_a_topics_name_or_id(
    tmp_path: Path,
) -> None:
    async with published(tmp_path, hosts=2) as world:
        await filled(world)
        found = []
        for way in await ways_to(world):
            for topic in ("orders", TIP.topic_id):
                asked = ("--store", way, "--from", "leader", "--json")
                found.append(await run("lookup", topic, 0, 0, 15, *asked))
                found.append(await run("segments", topic, 0, *asked))
        url, _ = await ways_to(world)
        by_default = [
            await run("lookup", "orders", 0, 0, 15, "--store", url, "--json"),
            await run("segments", "orders", 0, "--store", url, "--json"),
        ]
        unknown = await run("segments", "nobody", 0, "--store", url)

    assert {one.exit_code for one in found} == {0}
    assert [one.stdout for one in by_default] == [one.stdout for one in found[:2]]
    assert {json.loads(one.stdout)["start_offset"] for one in found[::2]} == {10}
    assert {len(one.stdout.splitlines()) for one in found[1::2]} == {2}
    assert unknown.exit_code == ExitStatus.USAGE
    assert "no host leads or follows a topic called 'nobody'" in unknown.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("lookup orders 0 0 1 --as-of 1h", "--as-of reads the store itself"),
        ("segments orders 0 --deleted", "--deleted reads the store itself"),
        ("segments orders 0 --from store", "this command works on the store itself"),
        (f"replay {TRACES / 'one-broker'} --churn 3", "--churn reads the store itself"),
        (f"replay {TRACES / 'one-broker'} --check --from all", "--from storage reads the"),
        (f"replay {TRACES / 'one-broker'} --report x.html", "--report reads the store itself"),
    ],
)
async def test_what_only_a_store_can_answer_is_not_asked_of_doors(
    arguments: str, message: str
) -> None:
    result = await run(*arguments.split(), "--store", NOBODY)

    refused(
        result, f"--store: {NOBODY} is the URL of a running service", message, "sqlite:FILE"
    )


OF_STORES = [
    name
    for name, one in COMMANDS.items()
    if "store" in {param.name for param in one.params} and name != "simulate live"
]


@pytest.mark.parametrize("name", OF_STORES)
async def test_each_command_takes_the_url_of_a_service_or_says_that_it_works_on_stores(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIERLEDGER_STORE", NOBODY)
    (tmp_path / "RECORDING").symlink_to(TRACES / "one-broker")
    (tmp_path / "prices.toml").symlink_to(DEPLOY / "prices.toml")
    (option,) = [one for one in COMMANDS[name].params if one.name == "store"]
    example = re.sub(r"s3://\S+", f"dir:{tmp_path}", EXAMPLES[name][0])
    example = re.sub(r" --store \S+| --check --from all", "", example)
    example = example.replace("broker-1:9092", "127.0.0.1:1")

    result = await run(*shlex.split(example)[1:])

    # That a service is not reached is what `doctor` is there to find, and `bundle` to show.
    ends = {"doctor": {ExitStatus.FOUND}, "bundle": {ExitStatus.WELL}}
    assert result.exit_code in ends.get(name, {ExitStatus.USAGE, ExitStatus.FAILED})
    told = f"TIERLEDGER_STORE: {NOBODY} is the URL of a running service" in result.stderr
    assert told is ("tierledger://HOST:PORT" not in option.help), result.stderr


@pytest.mark.parametrize(
    "arguments",
    ["status", "lookup orders 0 0 1 --from leader", f"replay {TRACES / 'one-broker'}"],
)
async def test_doors_behind_which_nobody_is_are_named(arguments: str) -> None:
    result = await run(*arguments.split(), "--store", NOBODY)

    assert result.exit_code == ExitStatus.FAILED
    assert "127.0.0.1:1" in result.stderr


@pytest.mark.parametrize("way", [0, 1])
async def test_a_recording_is_replayed_through_doors_without_ray(
    tmp_path: Path, way: int
) -> None:
    async with published(tmp_path) as world:
        store = (await ways_to(world))[way]
        asked = ["replay", TRACES / "one-broker", "--check", "--from", "leader", "--json"]
        arguments = [*asked, "--from", "follower", "--store", store, "--cluster", CLUSTER]
        replayed = await asyncio.to_thread(run_in_base, COMMAND, *arguments)
        status = await asyncio.to_thread(
            run_in_base, COMMAND, "status", "--store", store, "--cluster", CLUSTER
        )

    assert replayed.returncode == 0, replayed.stderr
    told = json.loads(replayed.stdout)["answers_from_leader"]
    assert (told["wrong"], told["missed"]) == (0, 0)
    assert status.returncode == 0, status.stderr


@pytest.mark.parametrize("way", [0, 1])
async def test_files_in_the_environment_prove_who_asks(tmp_path: Path, way: int) -> None:
    secrets = Secrets(tmp_path)
    reader = secrets.client("reader")
    env = {"TIERLEDGER_CA": reader[CA_KEY], "TIERLEDGER_TOKEN": reader[TOKEN_KEY]}
    async with published(tmp_path, security=secrets.door()) as world:
        await filled(world, **secrets.client("broker:1"))
        store = (await ways_to(world))[way]
        asked = ["segments", "orders", 0, "--from", "leader", "--json", "--store", store]
        found = await run(*asked, env=env)
        stranger = await run(*asked, env={"TIERLEDGER_CA": reader[CA_KEY]})

    assert found.exit_code == 0, found.stderr
    assert len(found.stdout.splitlines()) == 2
    assert stranger.exit_code == ExitStatus.USAGE
    assert "; TIERLEDGER_TOKEN names the file of a command's token" in stranger.stderr


async def test_a_host_that_is_not_trusted_is_told_in_one_line(tmp_path: Path) -> None:
    secrets = Secrets(tmp_path)
    command = ["-m", "tierledger.cli.main", "status", "--store"]
    async with published(tmp_path, security=secrets.door()) as world:
        command.append(await world.service.url())
        asked = await asyncio.create_subprocess_exec(
            *(sys.executable, *command), stdout=PIPE, stderr=PIPE
        )
        _, told = await asked.communicate()

    assert asked.returncode == ExitStatus.USAGE
    (line,) = told.decode().splitlines()
    assert "one of a known authority" in line
    assert "for a command TIERLEDGER_CA" in line


async def test_a_service_none_of_whose_hosts_answers_is_not_said_to_be_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ServiceRecord, "is_live", value=True)
    async with served(tmp_path) as world:  # Nobody keeps its record true.
        await publish(world, (("host-0/1", "127.0.0.1:1", "host-0/1/gone"),))
        shown = await run("status", "--store", world.storage["metadata.storage.url"])

    assert "does not answer" in shown.stdout
    assert "silent: " in shown.stdout
    assert "127.0.0.1:1" in shown.stdout

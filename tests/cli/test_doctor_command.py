"""`tierledger doctor` on real servers, files and certificates, each failure planted once."""

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from importlib.metadata import version
from pathlib import Path

import psycopg
import pytest
from typer.testing import Result

from tests.house.test_documents import document, table
from tests.models.actors.local_world import CLUSTER, POLL_S
from tests.models.actors.published import published
from tests.models.actors.reports import reading, silent
from tests.models.actors.secrets import Authority, Secrets
from tests.models.cli.command_line import invoke, orders
from tests.models.cli.terminal import on_terminal
from tests.models.tiering.faulty_object_store import Fault, FaultyS3, Seen
from tierledger.actors.coordinator.attendance import Attend
from tierledger.actors.coordinator.events import Owner
from tierledger.actors.coordinator.ownership import Handover, PluginMode
from tierledger.actors.discovery.service_record import record_of
from tierledger.actors.host import report
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.processes import this_process
from tierledger.actors.wall_clock import WallClock
from tierledger.cli.commands.doctor.backups import of_backup
from tierledger.cli.commands.doctor.check import Check, CheckLine, lines_of
from tierledger.cli.commands.doctor.checks import CHECKS
from tierledger.cli.commands.doctor.column_files import of_column_files
from tierledger.cli.commands.doctor.doctor import INDENT
from tierledger.cli.commands.doctor.given import Given
from tierledger.cli.commands.doctor.kafka import (
    CUSTOM_METADATA,
    ENABLED,
    GUARD,
    KNOWN,
    MANAGER,
    PLUGIN,
    STORAGE,
    of_settings,
)
from tierledger.cli.commands.doctor.machine import fits, of_disk
from tierledger.cli.commands.doctor.seen import CheckSeen, CheckState
from tierledger.cli.commands.doctor.service import MEND_SILENT
from tierledger.cli.commands.doctor.store import PROBE, of_clock
from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.opened_store import StoreOptions
from tierledger.events.partition.decide import Limits
from tierledger.health.status import ServiceStatus, status_of
from tierledger.simulation.live.s3_server import S3Server
from tierledger.storage.backends.postgres.backend import PostgresBackend
from tierledger.storage.backends.sqlite.backend import SqliteBackend
from tierledger.storage.locate import parse_store_url
from tierledger.tiering.layouts.tier_url import open_store, parse
from tierledger.tiering.objects.request_counts import Operation

WELL, WARNING, FAILED, UNSEEN = CheckState
HOUR_MS = 3_600_000
NOTHING = Given(StoreOptions(), None, None)


def seen(result: Result, check: str) -> list[tuple[str, str]]:
    """The states and texts of a check's lines."""
    rows = [json.loads(one) for one in result.stdout.splitlines()]
    return [(one["state"], one["text"]) for one in rows if one["check"] == check]


def state_of(result: Result, check: str) -> str:
    ((state, _),) = seen(result, check)
    return state


def doctor(*arguments: object) -> Result:
    result = invoke("doctor", "--json", *arguments)
    assert result.exit_code in {ExitStatus.WELL, ExitStatus.FOUND}, result.output
    return result


def option(check: Check) -> str:
    """The option that a check needs; empty if it needs none."""
    return (check.needs or "").partition(" ")[0].strip(",")


def test_what_no_option_names_is_not_looked_at_and_the_line_names_the_option() -> None:
    result = invoke("doctor")

    lines = result.stdout.splitlines()
    assert result.exit_code == ExitStatus.WELL, result.output
    for check in CHECKS:
        (line,) = [one for one in lines if one[INDENT:].startswith(f"{check.name} ")][:1]
        if check.needs is not None:
            assert line.startswith("not looked at")
            assert option(check) in line


def test_a_server_of_postgresql_is_read_written_and_left_as_it_was(postgres_url: str) -> None:
    async def filled() -> None:
        backend = await PostgresBackend.open(parse_store_url(postgres_url))
        await orders(backend)
        await backend.close()

    async def probe() -> bytes | None:
        backend = await PostgresBackend.open(parse_store_url(postgres_url), read_only=True)
        found = await backend.get(PROBE)
        await backend.close()
        return found

    asyncio.run(filled())

    result = doctor("--store", postgres_url)

    for check in ("store-read", "store-write", "store-clock"):
        assert state_of(result, check) == WELL, seen(result, check)
    assert asyncio.run(probe()) is None
    assert state_of(result, "service") == FAILED  # None runs.
    assert result.exit_code == ExitStatus.FOUND


def test_a_user_who_may_only_read_the_store_is_told(postgres_url: str) -> None:
    async def made() -> None:
        await (await PostgresBackend.open(parse_store_url(postgres_url))).close()

    asyncio.run(made())
    with psycopg.connect(postgres_url, autocommit=True) as session:
        (schema,) = session.execute("SELECT current_schema()").fetchone() or ("",)
        session.execute("CREATE ROLE only_reader LOGIN")
        session.execute(f"GRANT USAGE ON SCHEMA {schema} TO only_reader")
        session.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO only_reader")
    reader = postgres_url.replace("//tierledger@", "//only_reader@")
    assert reader != postgres_url

    result = doctor("--store", reader)

    assert state_of(result, "store-read") == WELL, seen(result, "store-read")
    ((state, text),) = seen(result, "store-write")
    assert state == FAILED
    assert "permission denied" in text


def test_a_file_is_looked_at_and_another_writer_is_told(store: Path) -> None:
    url = f"sqlite:{store}"

    async def while_open() -> Result:
        backend = await SqliteBackend.open(store)
        try:
            return await asyncio.to_thread(doctor, "--store", url)
        finally:
            await backend.close()

    alone, beside = doctor("--store", url), asyncio.run(while_open())

    assert [state_of(alone, f"store-{one}") for one in ("read", "write", "clock")] == [
        *(WELL, WELL, UNSEEN)
    ]
    assert state_of(beside, "store-read") == WELL
    ((state, text),) = seen(beside, "store-write")
    assert state == FAILED
    assert "is being written by process" in text


def test_a_store_that_is_not_there_is_told_and_not_made(tmp_path: Path) -> None:
    result = doctor("--store", f"sqlite:{tmp_path / 'none.sqlite'}")

    assert state_of(result, "store-read") == FAILED
    assert seen(result, "store-write") == [(UNSEEN, "there is no store yet")]
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def bucket(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in s3_server.options().items():
        monkeypatch.setenv(f"AWS_{name.upper()}", value)
    return s3_server.place()


def test_a_bucket_is_listed_read_written_and_left_as_it_was(
    bucket: str, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = ("tier-list", "tier-read", "tier-write")
    empty = doctor("--tier", bucket)
    folder = s3_server.data.joinpath(*bucket.removeprefix("s3://").split("/"))
    tier = parse(bucket)
    put = open_store(tier, s3_server.options()).put
    asyncio.run(put(Operation.COPY, f"{tier.prefix}/object", b"of somebody"))

    result = doctor("--tier", bucket)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    refused = doctor("--tier", bucket)

    assert [state_of(empty, one) for one in checks] == [WELL, UNSEEN, WELL], empty.stdout
    assert [state_of(result, one) for one in checks] == [WELL] * 3, result.stdout
    assert [one.name for one in folder.rglob("*") if one.is_file()] == ["object"]
    assert [state_of(refused, one) for one in checks] == [FAILED, UNSEEN, FAILED]
    assert [text for _, text in seen(refused, "tier-list")] == [
        f"{bucket}: list failed: SignatureDoesNotMatch: the secret is not the one of this key"
    ]


def test_a_bucket_is_tried_before_it_has_a_store_and_left_as_it_was(
    bucket: str, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"slatedb:{bucket}"

    def forgotten(asked: Seen) -> Fault | None:
        """Let a second object of a name be made, as a store that overwrites."""
        again = asked.method == "PUT" and asked.path in put
        put.add(asked.path)
        return Fault.FORGET if again else None

    put: set[str] = set()
    fresh = doctor("--store", url)
    with FaultyS3(s3_server.endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT", proxy.endpoint)
        proxy.plan = forgotten
        overwriting = doctor("--store", url)

    assert state_of(fresh, "store-read") == FAILED
    assert seen(fresh, "store-write") == [
        (WELL, "there is no store yet; an object was created, once only, and deleted")
    ]
    ((state, text),) = seen(overwriting, "store-write")
    assert state == FAILED
    assert "expected a store with conditional writes" in text
    assert s3_server.objects(bucket) == {}


def test_a_wrong_secret_is_told_once_and_in_words(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")

    result = doctor("--store", f"slatedb:{bucket}")

    why = "SignatureDoesNotMatch: the secret is not the one of this key"
    assert seen(result, "store-read") == [(FAILED, f"slatedb:{bucket}: {why}")]
    for check in ("store-write", "store-clock", "service"):
        assert seen(result, check) == [
            (UNSEEN, "the store was not read, see the check `store-read`")
        ]
    assert result.stdout.count('"failed"') == 1


def test_a_tier_in_a_folder_is_left_as_it_was(tmp_path: Path) -> None:
    result = doctor("--tier", f"dir:{tmp_path}")
    gone = doctor("--tier", f"dir:{tmp_path / 'none'}")

    assert state_of(result, "tier-write") == WELL
    assert list(tmp_path.rglob("*")) == []
    assert state_of(gone, "tier-list") == FAILED


@pytest.mark.parametrize(("days", "state"), [(90, WELL), (5, WARNING), (-1, FAILED)])
def test_a_certificate_of_this_machine_is_told_before_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: int, state: CheckState
) -> None:
    certificate, key = Authority(tmp_path).issue("own", "own", days=days)
    monkeypatch.setenv("TIERLEDGER_CERTIFICATE", str(certificate))
    monkeypatch.setenv("TIERLEDGER_KEY", str(key))

    result = doctor()

    assert state_of(result, "certificates") == state
    assert result.exit_code == (ExitStatus.WELL if state is WELL else ExitStatus.FOUND)


async def test_a_service_is_asked_and_the_certificates_that_its_doors_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = Secrets(tmp_path)
    monkeypatch.setenv("TIERLEDGER_CA", str(secrets.authority.certificate))
    monkeypatch.setenv("TIERLEDGER_TOKEN", secrets.client("reader")["door.token.location"])
    async with published(tmp_path, hosts=2, security=secrets.door()) as world:
        store = world.storage["metadata.storage.url"]

        result = await asyncio.to_thread(doctor, "--store", store, "--cluster", CLUSTER)

    doors = seen(result, "doors")
    assert [state for state, _ in doors] == [WELL, WELL]
    assert seen(result, "service") == [(WELL, "2 of 2 hosts answer")]
    own = version("tierledger")
    assert seen(result, "releases") == [(WELL, f"2 of 2 hosts run release {own}")]
    ((state, text),) = seen(result, "service-clock")
    assert (state, "behind this machine's clock" in text) == (FAILED, True)  # It is of 2023.
    assert {state_of(result, one) for one in ("plugins", "service-kafka")} == {UNSEEN}
    # Those of the two doors, and of their files; they end in two days.
    states = [state for state, _ in seen(result, "certificates")]
    assert states.count(WARNING) >= 3
    assert UNSEEN not in states


async def test_hosts_that_are_all_silent_are_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    found = status_of(reading({"host-0": silent(), "host-1": silent()}))

    async def served(_: Given) -> ServiceStatus:
        return found

    monkeypatch.setattr(Given, "service", served)
    (check,) = [one for one in CHECKS if one.name == "service"]
    given = Given(StoreOptions("tierledger://127.0.0.1:1"), None, None)

    lines = [one async for one in lines_of([check], given, 1.0)]

    assert lines == [
        CheckLine("service", CheckSeen.failed("", "0 of 2 hosts answer", MEND_SILENT))
    ]


async def test_hosts_of_another_release_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "RELEASE", "0.0.9")
    async with published(tmp_path) as world:
        store = world.storage["metadata.storage.url"]
        result = await asyncio.to_thread(doctor, "--store", store, "--cluster", CLUSTER)

    ((state, text),) = seen(result, "releases")
    assert (state, "it runs 0.0.9, this command" in text) == (WARNING, True)


async def test_plugins_tell_their_release_and_their_brokers_time(tmp_path: Path) -> None:
    async with published(tmp_path, clock=WallClock()) as world:
        coordinator = world.service.coordinator
        told = Attend(1, 1, PluginMode.TIERLEDGER, 0, False, is_guarded=True)
        reports = [
            told._replace(release=version("tierledger"), clock_ms=1),
            told._replace(broker_id=2, release="0.0.1", clock_ms=100_000),
            told._replace(broker_id=3),
        ]
        for at, one in enumerate(reports):
            request = bytes([one.broker_id]) * 12
            registered = await coordinator.register(one.broker_id, request, 0)
            reports[at] = one._replace(incarnation=registered.incarnation)

        async def keep_reporting() -> None:
            while True:
                for one in reports:
                    ahead_ms, now_ms = one.clock_ms, world.clock.now_ms()
                    clock_ms = now_ms + ahead_ms if ahead_ms else 0
                    await coordinator.attend(one._replace(clock_ms=clock_ms))
                await asyncio.sleep(POLL_S)

        await coordinator.hand_over(Handover(Owner.TIERLEDGER, Owner.NOBODY))
        store = world.storage["metadata.storage.url"]
        reporting = asyncio.create_task(keep_reporting())

        result = await asyncio.to_thread(doctor, "--store", store, "--cluster", CLUSTER)
        reporting.cancel()

    plugins = seen(result, "plugins")
    assert [state for state, _ in plugins] == [WELL, WARNING, WARNING], plugins
    assert "the plugin is of 0.0.1" in plugins[1][1]
    clocks = seen(result, "broker-clocks")
    assert [state for state, _ in clocks] == [WELL, FAILED]
    assert "ahead of the coordinator's clock" in clocks[1][1]


async def test_a_door_that_nobody_reaches_is_told(tmp_path: Path) -> None:
    async with published(tmp_path) as world:
        url = await world.service.url()
        both = f"{url},127.0.0.1:1"

        result = await asyncio.to_thread(doctor, "--store", both, "--cluster", CLUSTER)

    assert [state for state, _ in seen(result, "doors")] == [WELL, FAILED]
    assert state_of(result, "store-read") == UNSEEN


def test_a_server_that_never_answers_is_a_line_and_ends_nothing_else(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        result = doctor(
            *("--store", f"postgresql://nobody@127.0.0.1:{port}/db", "--timeout", "500ms"),
            *("--kafka", f"127.0.0.1:{port}", "--tier", f"dir:{tmp_path}"),
        )

    for check in ("store-read", "store-write", "store-clock", "kafka-cluster"):
        assert seen(result, check) == [(FAILED, "no answer within 0.5 s, which --timeout sets")]
    assert state_of(result, "tier-list") == WELL


@pytest.mark.parametrize("error", [ZeroDivisionError(), ModuleNotFoundError(name="ours")])
async def test_a_check_that_breaks_is_a_line_and_what_it_saw_before_stays(
    error: Exception,
) -> None:
    async def breaks(_: Given) -> AsyncIterator[CheckSeen]:
        yield CheckSeen.well("disk", "there")
        raise error

    async def works(_: Given) -> AsyncIterator[CheckSeen]:
        yield CheckSeen.well("", "here")

    checks = (Check("one", "", breaks, "mend it"), Check("two", "", works, ""))

    lines = [one async for one in lines_of(checks, NOTHING, 1.0)]

    assert lines == [
        CheckLine("one", CheckSeen.well("disk", "there")),
        CheckLine("one", CheckSeen.failed("", f"the check broke: {error!r}", "mend it")),
        CheckLine("two", CheckSeen.well("", "here")),
    ]


HANGS = """
import sys, threading
from tierledger.cli.commands.doctor import checks
from tierledger.actors.wall_clock import WallClock
from tierledger.cli.commands.doctor.check import Check, CheckSeen

async def hangs(given):
    import asyncio
    await asyncio.shield(asyncio.to_thread(threading.Event().wait))
    yield CheckSeen.well("", "")

checks.CHECKS = (Check("hangs", "", hangs, "mend it"),)
sys.argv = ["tierledger", "doctor", "--timeout", "100ms"]
from tierledger.cli.main import main
main()
"""


def test_a_thread_that_the_system_keeps_does_not_keep_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == ExitStatus.FOUND, done.stderr
    late = "no answer within 0.1 s, which --timeout sets"
    assert done.stdout == f"failed         hangs            {late}; mend it\n"


def test_a_variable_that_nothing_reads_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [one for one in os.environ if one.startswith("TIERLEDGER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TIERLEDGER_STOER", "sqlite:x")
    monkeypatch.setenv("TIERLEDGER_CA", "no-such-file")

    told = seen(doctor(), "settings")

    assert [state for state, _ in told] == [WARNING, FAILED]
    assert "cannot be read" in told[1][1]


def test_lines_fit_a_terminal_of_80_columns(store: Path) -> None:
    shown = on_terminal("doctor", columns=80, store=store)

    assert shown.status == ExitStatus.FOUND
    # A path that is longer stays whole.
    assert not [one for one in shown.lines if len(one) > 80 and " " in one.strip()]
    states = tuple(one.replace("_", " ") for one in CheckState)
    assert all(one.startswith((*states, " " * INDENT)) for one in shown.lines)


@pytest.mark.parametrize(
    ("found", "wanted", "is_so"),
    [
        ("2.60.0", "ray==2.60.0", True),
        ("2.60.1", "ray==2.60.0", False),
        ("3.0", "duckdb>=2.0,<3", False),
        ("2.10", "duckdb>=2.0,<3", True),
        ("7.35", "protobuf>=7.35.1,<8", False),
        ("1.0", "anything", True),
    ],
)
def test_an_installed_version_fits_or_not(found: str, wanted: str, is_so: bool) -> None:
    assert fits(found, wanted) is is_so


def test_the_newest_backup_is_told_with_its_age(tmp_path: Path) -> None:
    store, folder = tmp_path / "ledger.sqlite", tmp_path / "backups"

    async def filled() -> None:
        backend = await SqliteBackend.open(store)
        await orders(backend)
        await backend.close()

    asyncio.run(filled())
    missing = doctor("--backups", folder)
    folder.mkdir()
    empty = doctor("--backups", folder)
    made = invoke("backup", "make", folder, "--store", f"sqlite:{store}")
    assert made.exit_code == ExitStatus.WELL, made.output
    there = doctor("--backups", folder)

    assert seen(missing, "backup") == [(FAILED, f"{folder} is no folder with backups")]
    assert seen(empty, "backup") == [(FAILED, f"there is no backup in {folder}")]
    ((state, text),) = seen(there, "backup")
    assert state == WELL
    assert text.startswith("the newest was made ")


@pytest.mark.parametrize(
    ("age_ms", "damaged", "state"),
    [(0, 0, WELL), (25 * HOUR_MS, 0, WELL), (27 * HOUR_MS, 0, WARNING), (0, 2, FAILED)],
)
def test_an_old_backup_and_one_that_lacks_something_are_told(
    age_ms: int, damaged: int, state: CheckState
) -> None:
    assert of_backup("/backup", age_ms, damaged).state is state


def test_column_files_that_are_behind_are_told(tmp_path: Path) -> None:
    store, place = tmp_path / "ledger.sqlite", f"dir:{tmp_path}/files"

    async def filled() -> None:
        backend = await SqliteBackend.open(store)
        await orders(backend)
        await backend.close()

    asyncio.run(filled())
    asked = ("--store", f"sqlite:{store}", "--columns", place)
    none = doctor(*asked)
    assert invoke("columns", "write", *asked).exit_code == ExitStatus.WELL
    whole = doctor(*asked)
    (file,) = (tmp_path / "files").iterdir()
    file.write_bytes(b"short")
    spoiled = doctor(*asked)

    ((state, text),) = seen(none, "columns")
    assert state == WARNING
    assert re.match(r"\d+ events are only in the logs, the first for [\d.]+ ", text)
    assert seen(whole, "columns") == [(WELL, "the files have all events")]
    ((state, text),) = seen(spoiled, "columns")
    assert (state, text) == (WARNING, "1 files cannot be used, and are read from the logs")


@pytest.mark.parametrize(
    ("behind", "lag_ms", "unusable", "state"),
    [(0, 0, 0, WELL), (9, HOUR_MS, 0, WELL), (9, HOUR_MS + 1, 0, WARNING), (0, 0, 1, WARNING)],
)
def test_a_lag_of_an_hour_is_told(
    behind: int, lag_ms: int, unusable: int, state: CheckState
) -> None:
    assert of_column_files("dir:/files", behind, lag_ms, unusable).state is state


@pytest.mark.parametrize(
    ("free", "state"), [(6 << 30, WELL), (4 << 30, WARNING), (1 << 20, FAILED)]
)
def test_a_full_disk_is_told(free: int, state: CheckState) -> None:
    assert of_disk("/store", free, 1 << 40).state is state


@pytest.mark.parametrize(
    ("its_ms", "state"),
    [(1_000_050, WELL), (1_003_000, WARNING), (996_000, WARNING), (1_100_000, FAILED)],
)
def test_a_clock_that_is_off_is_told(its_ms: int, state: CheckState) -> None:
    assert of_clock("", its_ms, 1_000_000, 1_000_100).state is state


RIGHT = {ENABLED: "true", MANAGER: PLUGIN, STORAGE: GUARD, CUSTOM_METADATA: "128"}


@pytest.mark.parametrize(
    ("changed", "state"),
    [
        ({}, WELL),
        ({ENABLED: "false"}, FAILED),
        ({MANAGER: "org.apache.kafka.Another"}, FAILED),
        ({MANAGER: None}, FAILED),
        ({STORAGE: "com.example.Storage"}, WARNING),
        ({"rlmm.config.tierledger.mod": None}, WARNING),
        ({"rlmm.config.tierledger.mode": None, "rlmm.config.others": None}, WELL),
    ],
    ids=str,
)
def test_a_brokers_setting_that_is_wrong_is_told(
    changed: dict[str, str | None], state: CheckState
) -> None:
    assert [one.state for one in of_settings("broker 1", {**RIGHT, **changed}, None)] == [state]


def test_the_plugins_settings_are_those_that_are_documented() -> None:
    documented = table(document("kafka-plugin/README.md"), "key, behind `rlmm.config.`")

    assert [row[0] for row in documented] == [f"tierledger.{one}" for one in KNOWN]


def test_the_limit_of_the_service_is_held_against_the_brokers() -> None:
    settings = ServiceSettings("c", {}, Limits(custom_metadata_bytes_max=127))
    record = record_of(settings, "127.0.0.1:1", this_process(), 1)

    (told,) = of_settings("broker 1", RIGHT, record)

    assert (told.state, "copy segments" in told.text) == (WARNING, True)


def test_the_documented_checks_are_those_there_are() -> None:
    documented = table(document("docs/doctor.md"), "check")

    assert documented == [[one.name, one.about, option(one)] for one in CHECKS]

"""`bundle`: what others need to look into an incident, in one file, without secrets."""

from __future__ import annotations

import json as json_module
import os
import platform
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tierledger.cli.complete_file import complete_file
from tierledger.cli.options import (
    PARTITION_MAX,
    UNITS_MS,
    ClusterOption,
    KafkaConfigOption,
    KafkaIfAnyOption,
    OverwriteOption,
    ServiceOption,
    duration_ms,
    given_brokers,
)
from tierledger.cli.output import counted, print_note
from tierledger.cli.redaction import Redaction, known_secrets
from tierledger.cli.settings import (
    environment,
    given_url,
    names_doors,
    ray_folder,
    service_config,
)
from tierledger.events.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PROGRAM = (sys.executable, "-m", "tierledger.cli.main")

LOG_BYTES = 2 * 1024 * 1024
"""Of each log, its end."""

LOGS = ("worker-*.err", "worker-*.out", "raylet*.err", "raylet*.out", "gcs_server.*")
"""Logs in Ray's folder of a cluster: those of hosts and coordinator, and Ray's own."""

TIMES_MS = range(1000, UNITS_MS["h"] + 1)

README = """\
What `tierledger bundle` collected on {host} at {when}.

index.json     each file, the command that made it, its exit status and how long it took
versions.json  releases and this machine
*.jsonl        what the commands printed; *.err what they said on standard error
ray/           the end of the newest logs of Ray on this machine: hosts, coordinator, raylet

Secrets are taken out: values of the environment and of files that are known to be secret, and
what looks like a password, a token or a key. Names of topics, hosts and buckets are in it, and
so is custom metadata of segments if a partition was named. Read it before you hand it on.
Logs of other machines are not in it: run the command on each node. Nor is what `serve` itself
has said: with systemd, add `journalctl --unit tierledger`.
"""


class BundlePart(NamedTuple):
    """A file of the bundle, which a command prints."""

    name: str
    arguments: Sequence[str]


class MadePart(NamedTuple):
    """What the command of a part has printed, and said on standard error."""

    printed: str
    said: str
    facts: dict[str, Any]
    """Its entry in the bundle's index."""


def bundle(
    out: Annotated[Path, typer.Argument(metavar="OUT.zip", help="File to write.")],
    topic: Annotated[
        str | None,
        typer.Option(metavar="TOPIC", help="A topic whose history is to be in it, too."),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option(min=0, max=PARTITION_MAX, help="With --topic: the partition."),
    ] = None,
    tier: Annotated[
        str | None, typer.Option(metavar="URL", help="URL of the remote tier, for `doctor`.")
    ] = None,
    kafka: KafkaIfAnyOption = None,
    kafka_config: KafkaConfigOption = None,
    ray_logs: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            file_okay=False,
            exists=True,
            help="Folder of a Ray cluster, session_…. By default the newest of this machine.",
        ),
    ] = None,
    timeout: Annotated[
        str, typer.Option(metavar="TIME", help="How long each part may take, like 30s.")
    ] = "60s",
    store: ServiceOption = None,
    cluster: ClusterOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Collect what others need to look into an incident, in one file, without secrets.

    In it is what `doctor`, `status`, `ls`, `hold ls` and `trash ls` print, versions, and the
    end of Ray's logs on this machine; with --topic and --partition, that partition's segments
    and events. A part that fails is in it with what it said. Only the end of logs is taken, and
    nothing is changed but what `doctor` does and undoes.
    """
    timeout_ms = duration_ms(timeout, "--timeout")
    if timeout_ms not in TIMES_MS:
        raise InvalidArgument(f"--timeout: expected 1s to 1h, got {timeout}")
    if (topic is None) != (partition is None):
        raise InvalidArgument("expected --topic and --partition together")
    brokers = given_brokers(kafka, kafka_config)
    service_config(store)  # A URL of something else is refused at once.
    named = [*_option("--store", store), *_option("--cluster", cluster)]
    around = [
        *_option("--tier", tier),
        *_option("--kafka", kafka),
        *_option("--kafka-config", kafka_config),
    ]
    parts = [
        BundlePart("doctor", ["doctor", *named, *around]),
        BundlePart("status", ["status", *named]),
    ]
    if not names_doors(store):
        parts += [
            BundlePart("partitions", ["ls", *named]),
            BundlePart("holds", ["hold", "ls", *named]),
            BundlePart("trash", ["trash", "ls", *named]),
        ]
    if topic is not None:
        where = [topic, str(partition), *named]
        parts.append(BundlePart("segments", ["segments", *where]))
        if not names_doors(store):
            parts.append(BundlePart("log", ["log", *where]))
    properties = {} if brokers is None else brokers.settings()
    secrets = Redaction(known_secrets(environment(), [given_url(store), tier], properties))
    logs = ray_logs or _newest_session()
    with (
        complete_file(out, overwrite=overwrite) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        _fill(_Bundle(archive, secrets), parts, logs, timeout_ms / 1000)
    print_note(f"{out} is written; read it before you hand it on")


def _option(name: str, value: object) -> list[str]:
    return [] if value is None else [name, str(value)]


class _Bundle:
    """The file as it is filled; each text loses its secrets on the way in."""

    def __init__(self, archive: zipfile.ZipFile, secrets: Redaction) -> None:
        self._archive = archive
        self._secrets = secrets

    def add(self, name: str, text: str) -> None:
        """Add a file, if it has any text."""
        if text:
            self._archive.writestr(name, self._secrets.without_secrets(text))

    def add_json(self, name: str, value: object) -> None:
        self.add(name, json_module.dumps(value, indent=1, ensure_ascii=False) + "\n")


def _fill(
    bundle: _Bundle, parts: Sequence[BundlePart], logs: Path | None, timeout_s: float
) -> None:
    index = []
    for part in counted(parts, "parts", len(parts)):
        made = _made(part, timeout_s)
        bundle.add(f"{part.name}.jsonl", made.printed)
        bundle.add(f"{part.name}.err", made.said)
        index.append(made.facts)
    for log in [] if logs is None else sorted(_logs_in(logs)):
        bundle.add(f"ray/{log.name}", _end_of(log))
    bundle.add_json("versions.json", _versions())
    bundle.add_json("index.json", index)
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    bundle.add("README.txt", README.format(host=platform.node(), when=when))


def _made(part: BundlePart, timeout_s: float) -> MadePart:
    """Run the command in a process of its own: what breaks there, or hangs, ends no other."""
    arguments = [*part.arguments, "--json"]
    begun = time.monotonic()
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as said:
        status: int | None = None
        try:
            status = subprocess.run(
                [*PROGRAM, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=said,
                timeout=timeout_s,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            print_note(f"{part.name}: no end within {timeout_s:g} s")
        printed.seek(0)
        said.seek(0)
        texts = [file.read().decode(errors="replace") for file in (printed, said)]
    facts = {
        "part": part.name,
        "command": ["tierledger", *arguments],
        "exit_status": status,  # None: it was ended, as its time was over.
        "seconds": round(time.monotonic() - begun, 1),
    }
    return MadePart(texts[0], texts[1], facts)


def _versions() -> dict[str, Any]:
    from importlib.metadata import distributions

    return {
        "python": sys.version,
        "platform": platform.platform(),
        "packages": {one.name: one.version for one in distributions()},
        "environment": sorted(  # Names alone.
            name for name in environment() if name.startswith(("TIERLEDGER_", "RAY_", "AWS_"))
        ),
    }


def _newest_session() -> Path | None:
    parent = Path(ray_folder() or tempfile.gettempdir()) / "ray"
    try:
        found = [one for one in parent.glob("session_2*") if one.is_dir()]
        return max(found, key=lambda one: one.stat().st_mtime, default=None)
    except OSError:
        return None


def _logs_in(session: Path) -> Iterator[Path]:
    folder = session / "logs"
    for pattern in LOGS:
        yield from (folder if folder.is_dir() else session).glob(pattern)


def _end_of(log: Path) -> str:
    """The last lines of a log; why not, if it cannot be read."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - LOG_BYTES))
            text = file.read().decode(errors="replace")
    except OSError as error:
        return f"{error}\n"
    return text.partition("\n")[2] if size > LOG_BYTES else text

"""Checks of this machine: what is installed, what the environment sets, and its disks."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, requires, version
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from tierledger.actors.door.security.renewed import read
from tierledger.actors.door.security.tls import Pair, read_authorities
from tierledger.cli.commands.doctor.check import Check
from tierledger.cli.commands.doctor.given import KAFKA, STORE, TIER
from tierledger.cli.commands.doctor.seen import CheckSeen
from tierledger.cli.settings import (
    DOOR_VARIABLES,
    door_config,
    ray_folder,
    tier_options,
    unknown_variables,
)
from tierledger.events.errors import RemoteStorageError
from tierledger.pages.texts import size_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tierledger.cli.commands.doctor.given import Given

PACKAGE = "tierledger"

FREE_WARNED, FREE_FAILED = 5 << 30, 512 << 20
"""Bytes that are free on a disk below which it is a warning, or a failure."""

_BOUND = re.compile(r"(>=|==|<)([0-9.]+)")
_NAME = re.compile(r"[A-Za-z0-9._-]+")


async def _versions(_: Given) -> AsyncIterator[CheckSeen]:
    python = ".".join(map(str, sys.version_info[:3]))
    yield CheckSeen.well("", f"{PACKAGE} {version(PACKAGE)}, Python {python}")
    for line in requires(PACKAGE) or ():
        wanted = line.partition(";")[0].strip()
        name = _NAME.match(wanted)
        try:
            found = version(name[0] if name else wanted)
        except PackageNotFoundError:
            continue  # Of an extra; what needs it names it.
        if not fits(found, wanted):
            yield CheckSeen.warning(
                "",
                f"{wanted} is expected, and {found} is installed",
                f"pip install '{wanted}'",
            )


def fits(found: str, wanted: str) -> bool:
    """Whether the version `found` is one that the requirement `wanted` asks for."""
    for how, bound in _BOUND.findall(wanted):
        pairs = list(zip_longest(_numbers(found), _numbers(bound), fillvalue=0))
        ours, theirs = [one for one, _ in pairs], [one for _, one in pairs]
        if not {">=": ours >= theirs, "==": ours == theirs, "<": ours < theirs}[how]:
            return False
    return True


def _numbers(text: str) -> list[int]:
    return [int(one) for one in re.findall(r"[0-9]+", text)[:4]]


async def _settings(given: Given) -> AsyncIterator[CheckSeen]:
    unknown = unknown_variables()
    for name in unknown:
        yield CheckSeen.warning(name, "nothing reads this variable", "docs/settings.md has all")
    config = door_config()
    for variable, setting in DOOR_VARIABLES.items():
        if setting in config:
            yield _file(variable, config[setting])
    certificate, key = (config.get(DOOR_VARIABLES[name]) for name in _PAIR)
    if certificate and key:
        yield _tried(" and ".join(_PAIR), lambda: Pair(certificate, key).read())
    if keys := tier_options().get("keys"):
        from tierledger.tiering.layouts.manifest.keys import PrivateKeys

        yield _tried("TIERLEDGER_TIER_KEYS", lambda: PrivateKeys.of(keys))
    if given.has(KAFKA) and given.brokers.config is not None:
        yield _tried("--kafka-config", given.brokers.client_options)
    if not unknown and not config:
        yield CheckSeen.well("", "no variable of the environment is unknown")


_PAIR = ("TIERLEDGER_CERTIFICATE", "TIERLEDGER_KEY")


def _file(variable: str, path: str) -> CheckSeen:
    if variable == "TIERLEDGER_CA":
        return _tried(variable, lambda: read_authorities(path))
    return _tried(variable, lambda: read(path, "the file"))


def _tried(what: str, attempt: Callable[[], object]) -> CheckSeen:
    try:
        attempt()
    except RemoteStorageError as error:
        return CheckSeen.failed(what, str(error), "docs/settings.md tells what it takes")
    return CheckSeen.well(what, "it can be used")


async def _disk(given: Given) -> AsyncIterator[CheckSeen]:
    for folder in await _folders(given):
        found = shutil.disk_usage(folder)
        yield of_disk(str(folder), found.free, found.total)


async def _folders(given: Given) -> list[Path]:
    """The folders of this machine that grow, as far as they are known, each once."""
    found = [Path(ray_folder() or tempfile.gettempdir())]
    if given.has(STORE):
        from tierledger.cli.settings import store_config
        from tierledger.storage.locate import parse_store_url

        url = parse_store_url(str(store_config(given.options.store)["metadata.storage.url"]))
        found += [] if url.path is None else [url.path.parent]
    if given.has(TIER):
        from tierledger.tiering.layouts.tier_url import DIRECTORY, parse

        tier = parse(given.tier)
        found += [Path(tier.root)] if tier.scheme == DIRECTORY else []
    return list(dict.fromkeys(one for one in found if one.is_dir()))


def of_disk(folder: str, free: int, total: int) -> CheckSeen:
    """How it stands with a disk of which `free` bytes of `total` are free."""
    text = f"{size_text(free)} of {size_text(total)} are free"
    mend = "make room, or a bigger disk"
    if free < FREE_FAILED:
        return CheckSeen.failed(folder, text, mend)
    if free < FREE_WARNED:
        return CheckSeen.warning(folder, text, mend)
    return CheckSeen.well(folder, text)


MACHINE = (
    Check(
        "versions",
        "Python, and each package of an extra that is installed, has a version that fits",
        _versions,
        "install tierledger anew",
    ),
    Check(
        "settings",
        "the environment sets nothing unknown, and all files and values that are given can "
        "be used",
        _settings,
        "docs/settings.md has all settings",
    ),
    Check(
        "disk",
        "there is room where a SQLite store, a tier in a folder, and Ray's logs are",
        _disk,
        "see whether the disk answers",
    ),
)

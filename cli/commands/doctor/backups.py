"""The check of backups: whether the newest one is new, and has all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierledger.actors.wall_clock import WallClock
from tierledger.cli.backup_place import backup_files
from tierledger.cli.commands.doctor.check import Check
from tierledger.cli.commands.doctor.given import BACKUPS
from tierledger.cli.commands.doctor.seen import CheckSeen
from tierledger.pages.texts import span_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tierledger.cli.commands.doctor.given import Given

AGE_WARNED_MS = 26 * 3_600_000
"""Milliseconds; one a day is in time, also if it takes an hour or two."""


async def _backup(given: Given) -> AsyncIterator[CheckSeen]:
    files = backup_files(given.backups)
    name = await files.chosen()
    backup = await files.backup(name)
    age_ms = WallClock().now_ms() - name.made_s * 1000
    yield of_backup(given.backups, age_ms, len(backup.damaged))


def of_backup(place: str, age_ms: int, damaged: int) -> CheckSeen:
    """How it stands with backups whose newest is `age_ms` old and lacks a part of some logs."""
    text = f"the newest was made {span_text(max(age_ms, 0))} ago"
    if damaged:
        return CheckSeen.failed(
            place,
            f"{text}, and has of {damaged} damaged logs what is before the damage",
            "run `tierledger verify`, and see the runbook's `quarantined`",
        )
    if age_ms > AGE_WARNED_MS:
        return CheckSeen.warning(place, text, "see why `tierledger backup make` has not run")
    return CheckSeen.well(place, text)


CHECKS_OF_BACKUPS = (
    Check(
        "backup",
        "the newest backup there is at most 26 hours old, and lacks nothing",
        _backup,
        "run `tierledger backup make`, and `tierledger backup verify`",
        BACKUPS,
    ),
)

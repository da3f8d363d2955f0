"""Which backups are kept when old ones are let go: restic's and borg's rules, in UTC."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from tierledger.storage.backup.files import BackupName


class KeepRules(NamedTuple):
    """How many to keep; a backup is kept if one of the rules says so."""

    last: int = 0
    hourly: int = 0
    """Of so many hours that have one the last of the hour; so with the others."""
    daily: int = 0
    weekly: int = 0
    monthly: int = 0
    yearly: int = 0
    within_ms: int = 0
    """All that were made so long before the newest, or later."""


_PERIODS: dict[str, Callable[[datetime], object]] = {
    "hourly": lambda made: (made.date(), made.hour),
    "daily": datetime.date,
    "weekly": lambda made: made.isocalendar()[:2],
    "monthly": lambda made: (made.year, made.month),
    "yearly": lambda made: made.year,
}


def kept(backups: Sequence[BackupName], rules: KeepRules) -> dict[BackupName, list[str]]:
    """Those of `backups`, oldest first, that are kept, and which rules say so.

    The newest is kept whatever the rules are.
    """
    why: dict[BackupName, list[str]] = {one: [] for one in backups}
    for one in backups[-1:]:
        why[one].append("newest")
    for one in backups[max(0, len(backups) - rules.last) :]:
        why[one].append("last")
    for name, period in _PERIODS.items():
        left, before = getattr(rules, name), None
        for one in reversed(backups):
            its = period(datetime.fromtimestamp(one.made_s, UTC))
            if left and its != before:
                why[one].append(name)
                left -= 1
            before = its
    for one in backups if rules.within_ms else ():
        if (backups[-1].made_s - one.made_s) * 1000 <= rules.within_ms:
            why[one].append("within")
    return {one: reasons for one, reasons in why.items() if reasons}

"""All checks of `doctor`; loaded when it runs, as they know all parts of a service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierledger.cli.commands.doctor.backups import CHECKS_OF_BACKUPS
from tierledger.cli.commands.doctor.certificates import CERTIFICATES
from tierledger.cli.commands.doctor.column_files import CHECKS_OF_COLUMN_FILES
from tierledger.cli.commands.doctor.kafka import CHECKS_OF_KAFKA
from tierledger.cli.commands.doctor.machine import MACHINE
from tierledger.cli.commands.doctor.service import CHECKS_OF_SERVICE
from tierledger.cli.commands.doctor.store import CHECKS_OF_STORE
from tierledger.cli.commands.doctor.tier import CHECKS_OF_TIER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tierledger.cli.commands.doctor.check import Check

CHECKS: Sequence[Check] = (
    *MACHINE,
    *CERTIFICATES,
    *CHECKS_OF_STORE,
    *CHECKS_OF_SERVICE,
    *CHECKS_OF_TIER,
    *CHECKS_OF_KAFKA,
    *CHECKS_OF_BACKUPS,
    *CHECKS_OF_COLUMN_FILES,
)
"""All checks, in the order of the lines; `docs/doctor.md` has the same table."""

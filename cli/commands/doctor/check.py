"""What a check is, what it finds, and how it is looked at: each ends by its deadline.

A check that breaks, or does not end, is a line of its own; the others go on.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from tierledger.cli.commands.doctor.seen import CheckSeen, UnseenError
from tierledger.cli.output import error_text
from tierledger.events.errors import RemoteStorageError
from tierledger.events.extras import is_of_extra, missing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from tierledger.cli.commands.doctor.given import Given

END_S = 1.0
"""How long a check that is over its deadline may take to end."""


NAME = 15
"""Characters of the longest name of a check."""

TEXT_MAX = 400
"""Characters of an error that are shown; some have a server's whole page."""


class Check(NamedTuple):
    """One thing that `doctor` looks at."""

    name: str
    """Stays the same between releases."""
    about: str
    look: Callable[[Given], AsyncIterator[CheckSeen]]
    mend: str
    """What an operator does if the check itself fails."""
    needs: str | None = None
    """The option without which there is nothing to look at."""


class CheckLine(NamedTuple):
    """A line of `doctor`."""

    check: str
    seen: CheckSeen

    def plain(self) -> dict[str, Any]:
        return {"check": self.check, **self.seen._asdict(), "state": str(self.seen.state)}

    @property
    def text(self) -> str:
        """The line as people read it."""
        seen = self.seen
        what = f"{seen.subject}: {seen.text}" if seen.subject else seen.text
        todo = f"; {seen.mend}" if seen.mend else ""
        return f"{seen.state.replace('_', ' '):<13}  {self.check:<{NAME}}  {what}{todo}"


async def lines_of(
    checks: Iterable[Check], given: Given, deadline_s: float
) -> AsyncIterator[CheckLine]:
    """The lines of all checks, in their order; they look at once, each for `deadline_s`.

    A check that does not even end when it is cancelled is left behind.
    """
    begun = [(one, asyncio.create_task(_looked(one, given, deadline_s))) for one in checks]
    for check, task in begun:
        # Its own deadline ends it; not if it waits for a thread that the system keeps.
        done, _ = await asyncio.wait({task}, timeout=deadline_s + END_S)
        if not done:
            yield CheckLine(check.name, _late(check, deadline_s))
            continue
        for seen in task.result():
            yield CheckLine(check.name, seen)


def _late(check: Check, deadline_s: float) -> CheckSeen:
    text = f"no answer within {deadline_s:g} s, which --timeout sets"
    return CheckSeen.failed("", text, check.mend)


async def _looked(check: Check, given: Given, deadline_s: float) -> list[CheckSeen]:
    if check.needs is not None and not given.has(check.needs):
        return [CheckSeen.unseen(f"needs {check.needs}")]
    found: list[CheckSeen] = []
    try:
        async with asyncio.timeout(deadline_s):
            async for one in check.look(given):
                found.append(one)  # noqa: PERF401 - What was seen before an error stays.
    except UnseenError as error:
        found.append(CheckSeen.unseen(str(error)))
    except TimeoutError:
        found.append(_late(check, deadline_s))
    except Exception as error:  # noqa: BLE001 - A check that breaks ends no other.
        if isinstance(error, ModuleNotFoundError) and is_of_extra(error):
            return [*found, CheckSeen.unseen(str(missing(error.name or "")))]
        is_known = isinstance(error, RemoteStorageError | OSError)
        whole = error_text(error) if is_known else f"the check broke: {error!r}"
        text = whole.partition("\n")[0][:TEXT_MAX]
        found.append(CheckSeen.failed("", text, check.mend))
    return found

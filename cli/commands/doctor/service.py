"""Checks of a running service: what it says of itself, and who reaches whom."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from typing import TYPE_CHECKING

from tierledger.actors.wall_clock import WallClock
from tierledger.cli.commands.doctor.check import Check
from tierledger.cli.commands.doctor.given import SEE_SERVICE, SERVICE, STORE
from tierledger.cli.commands.doctor.seen import CheckSeen, CheckState, UnseenError
from tierledger.cli.commands.doctor.store import of_clock
from tierledger.health.troubles import Severity, by_code, troubles_of
from tierledger.pages.texts import span_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tierledger.cli.commands.doctor.given import Given

STATES = {
    Severity.CRITICAL: CheckState.FAILED,
    Severity.WARNING: CheckState.WARNING,
    Severity.NOTE: CheckState.WELL,
}
"""How it stands with what has a trouble of that severity."""


MEND_SILENT = "see the checks `troubles` and `doors`"


async def _service(given: Given) -> AsyncIterator[CheckSeen]:
    if given.has(STORE):
        await given.read_store()
    found = await given.service()
    if found is None:
        (none,) = (await given.look()).troubles
        yield CheckSeen.failed("", none.text, none.action)
        return
    up = sum(one.is_up for one in found.hosts)
    text = f"{up} of {len(found.hosts)} hosts answer"
    yield CheckSeen.well("", text) if up else CheckSeen.failed("", text, MEND_SILENT)


async def _troubles(given: Given) -> AsyncIterator[CheckSeen]:
    troubles = list(by_code(troubles_of(await given.served())))
    for one in troubles:
        text = f"{one.code}, {one.text}"
        yield CheckSeen(STATES[one.severity], one.subjects, text, one.action)
    if not troubles:
        yield CheckSeen.well("", "`tierledger status` lists none")


async def _clock(given: Given) -> AsyncIterator[CheckSeen]:
    before_ms = WallClock().now_ms()
    found = await given.coordinator()
    yield of_clock("coordinator", found["now_ms"], before_ms, WallClock().now_ms())


async def _doors(given: Given) -> AsyncIterator[CheckSeen]:
    from tierledger.actors.door.client.knocking import opens
    from tierledger.actors.door.security.settings import ClientSecurity

    doors, tls = await given.doors()
    config = {**(await given.settings()).storage}
    security = ClientSecurity.of(config, tls=tls)
    for door, is_open in zip(
        doors, await asyncio.gather(*(opens(one, security) for one in doors)), strict=True
    ):
        if is_open:
            yield CheckSeen.well(door, "it is reached from here, and serves")
        else:
            mend = "see the network, and what `serve --advertise` names for it"
            yield CheckSeen.failed(door, "it is not reached from here, or does not serve", mend)


async def _releases(given: Given) -> AsyncIterator[CheckSeen]:
    found = await given.served()
    own, hosts = version("tierledger"), [one for one in found.hosts if one.is_up]
    for one in hosts:
        if one.release != own:
            theirs = one.release or "an older release that does not tell which"
            mend = f"install release {own} on its node, then `tierledger restart`"
            yield CheckSeen.warning(one.name, f"it runs {theirs}, this command {own}", mend)
    if same := sum(one.release == own for one in hosts):
        yield CheckSeen.well("", f"{same} of {len(hosts)} hosts run release {own}")


async def _plugins(given: Given) -> AsyncIterator[CheckSeen]:
    found = await given.coordinator()
    own = version("tierledger")
    for one in found["attending"]:
        subject = f"broker {one['broker_id']}"
        heard = f"mode {one['mode']}, heard {span_text(one['heard_ms_ago'])} ago"
        if one["trouble"]:
            mend = "see `troubles`, and the broker's log"
            yield CheckSeen.failed(subject, f"{heard}: {one['trouble']}", mend)
        elif one.get("release") != own:
            theirs = one.get("release") or "an older release that does not tell which"
            mend = f"install the plugin of release {own}"
            yield CheckSeen.warning(subject, f"{heard}; the plugin is of {theirs}", mend)
        else:
            yield CheckSeen.well(subject, f"{heard}, {GUARDED[one['is_guarded']]}")
    if not found["attending"]:
        raise UnseenError("no broker's plugin has reported to the service")


GUARDED = {True: "with the guard", False: "without the guard", None: "maybe without the guard"}


async def _broker_clocks(given: Given) -> AsyncIterator[CheckSeen]:
    found = await given.coordinator()
    for one in found["attending"]:
        if (off_ms := one.get("clock_off_ms")) is not None:
            yield of_clock(f"broker {one['broker_id']}", off_ms, 0, 0, "the coordinator's")
    if all(one.get("clock_off_ms") is None for one in found["attending"]):
        raise UnseenError("no broker's plugin has told its time to the service")


async def _asks_kafka(given: Given) -> AsyncIterator[CheckSeen]:
    found = await given.coordinator()
    kafka = found["kafka"]
    if kafka is None:
        raise UnseenError("the service was started without `--kafka`")
    alive = kafka.get("alive")
    heard = f"the process that asks was heard {span_text(kafka['heard_ms_ago'])} ago"
    if kafka["trouble"]:
        yield CheckSeen.failed(
            "", f"{heard}: {kafka['trouble']}", "see the network from `serve` to the brokers"
        )
    elif alive is None:
        yield CheckSeen.unseen(f"{heard}, and has not told of the brokers yet")
    else:
        yield CheckSeen.well(
            "", f"{heard}, and sees brokers {', '.join(map(str, sorted(alive)))}"
        )


CHECKS_OF_SERVICE = (
    Check(
        "service",
        "a service runs on the store, and answers this command",
        _service,
        "see the log of `serve`, and what TIERLEDGER_TOKEN and TIERLEDGER_CA name",
        SERVICE,
    ),
    Check(
        "troubles",
        "what `tierledger status` lists, by code; clocks of hosts are among it",
        _troubles,
        SEE_SERVICE,
        SERVICE,
    ),
    Check(
        "service-clock",
        "the coordinator's clock is this machine's",
        _clock,
        SEE_SERVICE,
        SERVICE,
    ),
    Check(
        "doors",
        "this machine reaches each host's door",
        _doors,
        SEE_SERVICE,
        SERVICE,
    ),
    Check(
        "releases",
        "all hosts run the release of this command",
        _releases,
        SEE_SERVICE,
        SERVICE,
    ),
    Check(
        "plugins",
        "brokers reach the service: their plugins report, and are of this release",
        _plugins,
        SEE_SERVICE,
        SERVICE,
    ),
    Check(
        "broker-clocks",
        "the clock of each broker with the plugin is the coordinator's",
        _broker_clocks,
        SEE_SERVICE,
        SERVICE,
    ),
    Check(
        "service-kafka",
        "the service reaches Kafka's brokers",
        _asks_kafka,
        SEE_SERVICE,
        SERVICE,
    ),
)

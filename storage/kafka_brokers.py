"""Addresses of a Kafka cluster's brokers, and the TLS and login settings of clients.

The settings' file has the form of Kafka's own tools (`--command-config`), with fewer settings.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeAlias, TypeVar

from typing_extensions import override

from tierledger.events.errors import InvalidArgument
from tierledger.events.sent_fields import with_defaults

OTHERS_S = 0.5
"""Seconds that the other brokers have after the first answer, so that none holds it up."""

PORT_MAX = 65_535

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

PROTOCOL, MECHANISM, JAAS = "security.protocol", "sasl.mechanism", "sasl.jaas.config"
USERNAME, PASSWORD = "sasl.username", "sasl.password"
TRUSTSTORE, KEYSTORE = "ssl.truststore.location", "ssl.keystore.location"
TYPES = ("ssl.truststore.type", "ssl.keystore.type")
KEY_PASSWORD = "ssl.key.password"
IDENTIFICATION = "ssl.endpoint.identification.algorithm"
SETTINGS = (
    *(PROTOCOL, MECHANISM, JAAS, USERNAME, PASSWORD),
    *(TRUSTSTORE, KEYSTORE, *TYPES, KEY_PASSWORD, IDENTIFICATION),
)

_ADDRESS = re.compile(r"[^\s,]+:([0-9]{1,5})")

T = TypeVar("T")
Connection: TypeAlias = Any
"""A connection of aiokafka, which has no types."""


@dataclass(frozen=True, slots=True)
class KafkaBrokers:
    """The brokers at `HOST:PORT,HOST:PORT`.

    Raises:
        InvalidArgument: `addresses` has another form.
    """

    addresses: str
    config: str | None = None
    """The settings' file, read at each use; None: without TLS and login."""

    __setstate__ = with_defaults

    def __post_init__(self) -> None:
        for address in self.addresses.split(","):
            found = _ADDRESS.fullmatch(address)
            if found is None or not 1 <= int(found[1]) <= PORT_MAX:
                raise InvalidArgument(
                    "expected the addresses of Kafka's brokers as HOST:PORT,HOST:PORT,…, "
                    f"got {self.addresses!r:.200}"
                )

    @override
    def __str__(self) -> str:
        return self.addresses

    def settings(self) -> Mapping[str, str]:
        """The settings in the file, as they are; none without a file.

        Raises:
            InvalidArgument: The file cannot be read.
        """
        return {} if self.config is None else _properties(self.config)

    def client_options(self) -> dict[str, Any]:
        """Arguments for a client of aiokafka, besides the addresses.

        Raises:
            InvalidArgument: The file cannot be read, or has an unknown setting.
        """
        if self.config is None:
            return {}
        return _Config(self.config, _properties(self.config)).client_options()

    async def answers(
        self, ask: Callable[[Connection], Awaitable[T]], within_s: float
    ) -> dict[str, T]:
        """Brokers' answers by address, of all that answer within `OTHERS_S` of the first.

        All brokers are asked at once, each by a connection of its own.

        Raises:
            ConnectionError: No broker answered within `within_s`; with each one's error.
            InvalidArgument: The settings' file is wrong; see `client_options`.
        """
        from aiokafka.conn import collect_hosts, create_conn  # type: ignore[import-untyped] # noqa: PLC0415 - An extra.

        options, timeout_ms = self.client_options(), int(within_s * 1000)

        async def answer(host: str, port: int) -> T:
            connection = await create_conn(
                host, port, client_id="tierledger", request_timeout_ms=timeout_ms, **options
            )
            try:
                return await ask(connection)
            finally:
                connection.close()

        hosts = collect_hosts(self.addresses, randomize=False)
        asked = {
            asyncio.create_task(answer(host, port)): f"{host}:{port}" for host, port, _ in hosts
        }
        try:
            return await _first(asked, within_s)
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)


async def _first(asked: Mapping[asyncio.Task[T], str], within_s: float) -> dict[str, T]:
    loop = asyncio.get_running_loop()
    until, answers = loop.time() + within_s, dict[str, T]()
    why = dict.fromkeys(asked.values(), "no answer in time")
    waiting = set(asked)
    while waiting and (left := until - loop.time()) > 0:
        done, waiting = await asyncio.wait(
            waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED
        )
        for task in done:
            error = task.exception()
            if error is None:
                answers[asked[task]] = task.result()
                until = min(until, loop.time() + OTHERS_S)
            else:
                why[asked[task]] = str(error) or repr(error)
    if not answers:
        raise ConnectionError("; ".join(f"{address}: {text}" for address, text in why.items()))
    return answers


@dataclass(frozen=True, slots=True, repr=False)
class _Config:
    """A file's settings. Errors never have the value of a secret one."""

    file: str
    given: Mapping[str, str]

    def client_options(self) -> dict[str, Any]:
        for name in self.given:
            if name not in SETTINGS:
                self._refuse(f"expected one of {', '.join(SETTINGS)}; got {name}")
        protocol = self._one_of(PROTOCOL, PROTOCOLS, PROTOCOLS[0])
        for prefix, needed in (("ssl.", "SSL"), ("sasl.", "SASL")):
            unused = [name for name in self.given if name.startswith(prefix)]
            if unused and needed not in protocol:
                self._refuse(f"{unused[0]} has no effect with {PROTOCOL}={protocol}")
        options: dict[str, Any] = {"security_protocol": protocol}
        if protocol.endswith("SSL"):
            options["ssl_context"] = self._context()
        if protocol.startswith("SASL"):
            options["sasl_mechanism"] = self._one_of(MECHANISM, MECHANISMS, None)
            name, password = self._login()
            options |= {"sasl_plain_username": name, "sasl_plain_password": password}
        return options

    def _refuse(self, why: str) -> NoReturn:
        raise InvalidArgument(f"{self.file}: {why}")

    def _one_of(self, name: str, known: tuple[str, ...], default: str | None) -> str:
        found = self.given.get(name, default)
        if found not in known:
            self._refuse(f"{name}: expected {', '.join(known)}; got {found}")
        return found

    def _login(self) -> tuple[str, str]:
        jaas = dict(re.findall(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"', self.given.get(JAAS, "")))
        pair = [
            self.given.get(key, re.sub(r"\\(.)", r"\1", jaas.get(name, "")))
            for key, name in ((USERNAME, "username"), (PASSWORD, "password"))
        ]
        if not all(pair):
            self._refuse(
                f'expected {JAAS} with username="…" and password="…", or {USERNAME} and '
                f"{PASSWORD}"
            )
        return pair[0], pair[1]

    def _context(self) -> ssl.SSLContext:
        for name in TYPES:
            self._one_of(name, ("PEM",), "PEM")
        name = TRUSTSTORE
        try:
            context = ssl.create_default_context(cafile=self.given.get(TRUSTSTORE))
            name = KEYSTORE
            if KEYSTORE in self.given:
                # Without a password OpenSSL would prompt for one at the terminal.
                password = self.given.get(KEY_PASSWORD, "")
                context.load_cert_chain(self.given[KEYSTORE], password=lambda: password)
        except OSError as error:
            self._refuse(
                f"{name}: expected a PEM file, got {self.given[name]} ({error.strerror})"
            )
        if not self._one_of(IDENTIFICATION, ("https", ""), "https"):
            context.check_hostname = False
        return context


def _properties(file: str) -> dict[str, str]:
    """The properties in a Java properties file, with continued lines and escapes."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise InvalidArgument(f"cannot read {file}: {why}") from None
    found: dict[str, str] = {}
    for line in re.sub(r"(?<!\\)((?:\\\\)*)\\\n[ \t]*", r"\1", text).splitlines():
        if line.strip() and line.strip()[0] not in "#!":
            name, _, value = re.sub(r"\s*[=:\s]\s*", "=", line.strip(), count=1).partition("=")
            found[name] = re.sub(r"\\(.)", r"\1", value)
    return found

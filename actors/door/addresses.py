"""Addresses of doors: `HOST:PORT`, and `tierledger://HOST:PORT,HOST:PORT` for several.

With `tierledgers://` all of them speak TLS.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from typing_extensions import override

from tierledger.events.errors import InvalidArgument
from tierledger.events.typed_fields import shown

SCHEME = "tierledger://"
TLS_SCHEME = "tierledgers://"

PORT_MAX = 65_535


def names_doors(url: str) -> bool:
    """Whether `url` names the doors of a service, and no store."""
    return url.startswith((SCHEME, TLS_SCHEME))


class DoorAddress(NamedTuple):
    """A machine's name or IP address, and a port; 0 stands for any free port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> DoorAddress:
        """The address in `text`; an IPv6 address stands in brackets.

        Raises:
            InvalidArgument: `text` is no address.
        """
        host, _, port = text.rpartition(":")
        bare = host.removeprefix("[").removesuffix("]")
        is_bracketed = host == f"[{bare}]"
        is_number = port.isascii() and port.isdigit() and int(port[:6]) <= PORT_MAX
        if not bare or not is_number or is_bracketed is not (":" in bare):
            raise InvalidArgument(
                f"expected HOST:PORT, or [IPV6]:PORT, with a port up to {PORT_MAX}, "
                f"got {shown(text)}"
            )
        return cls(bare, int(port))

    def at(self, number: int) -> DoorAddress:
        """The address `number` ports further; port 0 (any free one) stays 0.

        Raises:
            InvalidArgument: There is no such port.
        """
        port = self.port + number if self.port else 0
        if port > PORT_MAX:
            raise InvalidArgument(f"expected a port up to {PORT_MAX}, got {port}")
        return self._replace(port=port)

    @override
    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def url_of(doors: Iterable[str], *, tls: bool = False) -> str:
    """The URL that names `doors`."""
    return (TLS_SCHEME if tls else SCHEME) + ",".join(doors)


def doors_in(url: str) -> list[str]:
    """The doors that a URL names, in its order.

    Raises:
        InvalidArgument: `url` names no doors, or a port is 0.
    """
    if not names_doors(url):
        raise InvalidArgument(f"expected {SCHEME}HOST:PORT,…, got {shown(url)}")
    try:
        named = [DoorAddress.parse(one) for one in url.partition("://")[2].split(",")]
    except InvalidArgument as error:
        raise InvalidArgument(
            f"expected {SCHEME}HOST:PORT,…, got {shown(url)}: {error}"
        ) from None
    for one in named:
        if one.port == 0:
            raise InvalidArgument(f"expected a port from 1 on, got {one}")
    return [str(one) for one in named]

"""How a client finds its service: by the scheme of the URL that it is configured with.

`tierledger://HOST:PORT,…` names hosts, which are called over gRPC; any other URL is a store's,
whose service is found through Ray. Each way is imported when it is taken: Ray takes a second to
load, and need not be installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierledger.actors.door.addresses import SCHEME, TLS_SCHEME
from tierledger.events.extras import naming_extras
from tierledger.storage.connector import URL_SETTING, setting

if TYPE_CHECKING:
    from tierledger.actors.host_settings import ServiceSettings
    from tierledger.actors.ports import ServiceConnection


async def connect(settings: ServiceSettings) -> ServiceConnection:
    """The way to the service that `settings` name.

    Raises:
        InvalidArgument: The URL is wrong, or what this way needs is not installed.
        NotReady: No service runs there.
        StoreRefused: There is no such store.
    """
    url = setting(settings.storage, URL_SETTING) or ""
    if url.startswith((SCHEME, TLS_SCHEME)):
        from tierledger.actors.door.connection import connect_at  # noqa: PLC0415

        return await connect_at(url)(settings)
    with naming_extras():
        from tierledger.actors.ray_service import connect as through_ray  # noqa: PLC0415

    return await through_ray(settings)

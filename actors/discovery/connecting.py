"""How a client finds its service: by the scheme of the URL that it is configured with.

`tierledger://HOST:PORT,…` names hosts; any other URL is a store's, whose record names them.
Either way they are called over gRPC, which is imported when it is needed.
"""

from __future__ import annotations

from tierledger.actors.connection import ServiceConnection
from tierledger.actors.door.addresses import SCHEME, TLS_SCHEME
from tierledger.actors.host_settings import ServiceSettings
from tierledger.storage.connector import URL_SETTING, setting


async def connect(settings: ServiceSettings) -> ServiceConnection:
    """A connection to the service that `settings` name.

    Raises:
        InvalidArgument: The URL is wrong, or the settings do not fit the service's doors.
        NotReady: No service runs there.
        NotAuthorized: A host refuses this client, or the client does not trust the host.
        NoSuchStore: There is no such store.
    """
    url = setting(settings.storage, URL_SETTING) or ""
    if url.startswith((SCHEME, TLS_SCHEME)):
        from tierledger.actors.door.client.connection import connect_at  # noqa: PLC0415

        return await connect_at(url)(settings)
    from tierledger.actors.discovery.found_connection import connect as through_store  # noqa: PLC0415

    return await through_store(settings)

"""How a client finds its service: by the scheme of the URL that it is configured with.

`tierledger://HOST:PORT,…` names hosts; any other URL is a store's, whose record names them.
Either way they are called over gRPC, which is imported when it is needed.
"""

from __future__ import annotations

from tierledger.actors.connection import ServiceConnection
from tierledger.actors.door.addresses import SCHEME, TLS_SCHEME, names_doors
from tierledger.actors.host_settings import ServiceSettings
from tierledger.events.errors import InvalidArgument
from tierledger.events.typed_fields import shown
from tierledger.storage.connector import CONNECTOR_SETTING, URL_SETTING, setting
from tierledger.storage.locate import SCHEMES, is_store_url, public_url


async def connect(settings: ServiceSettings) -> ServiceConnection:
    """A connection to the service that `settings` name.

    Raises:
        InvalidArgument: The URL is wrong, or the settings do not fit the service's doors.
        NotReady: No service runs there.
        NotAuthorized: A host refuses this client, or the client does not trust the host.
        NoSuchStore: There is no such store.
    """
    url = setting(settings.storage, URL_SETTING) or ""
    has_connector = setting(settings.storage, CONNECTOR_SETTING) is not None
    if url and not (has_connector or names_doors(url) or is_store_url(url)):
        raise InvalidArgument(
            f"{URL_SETTING}: expected the doors of a service, {SCHEME}HOST:PORT,… or with TLS "
            f"{TLS_SCHEME}…, or its store, {SCHEMES['sqlite']}, {SCHEMES['postgresql']} or "
            f"{SCHEMES['slatedb']}; "
            f"got {shown(public_url(url))}"
        )
    if names_doors(url):
        from tierledger.actors.door.client.connection import connect_at  # noqa: PLC0415

        try:
            at_doors = connect_at(url)
        except InvalidArgument as error:
            raise InvalidArgument(f"{URL_SETTING}: {error}") from None
        return await at_doors(settings)
    from tierledger.actors.discovery.found_connection import connect as through_store  # noqa: PLC0415

    return await through_store(settings)

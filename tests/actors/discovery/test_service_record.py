"""A service's record is readable without rights, and enough to start the service again."""

from typing import Any

import pytest

from tierledger.actors.discovery.service_record import (
    HostDoor,
    ServiceRecord,
    parsed,
    record_of,
)
from tierledger.actors.door.security.settings import DoorSecurity
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.processes import this_process
from tierledger.events.errors import CorruptCheckpoint
from tierledger.events.partition.decide import Limits
from tierledger.events.typed_fields import as_tuples
from tierledger.storage.serde import MsgpackSerDe

URL = "postgresql://me:secret@h/db?sslmode=require"
LIMITS = Limits(custom_metadata_bytes_max=7)


def test_a_password_is_not_in_the_record() -> None:
    for name in ("metadata.storage.url", "rlmm.config.metadata.storage.url"):
        record = record_of(ServiceSettings("c", {name: URL}, LIMITS), "a:1", this_process(), 1)

        assert "secret" not in repr(record)


def test_who_knows_the_password_revives_the_service_with_it() -> None:
    started = ServiceSettings("c", {"metadata.storage.url": URL}, LIMITS)
    record = record_of(started, "a:1", this_process(), 1)
    finders = {
        URL: URL,
        # Through a password file, or by another name of the server.
        "postgresql://me@h/db?sslmode=require": "postgresql://me@h/db?sslmode=require",
        "postgresql://me:secret@h.local/db": "postgresql://me@h/db?sslmode=require",
    }
    for own, expected in finders.items():
        found_with = ServiceSettings("c", {"metadata.storage.url": own})

        settings = record.settings_of(found_with)

        assert settings.storage == {"metadata.storage.url": expected}
        assert settings.limits == LIMITS


WHOLE = ("h:1", 5, 7, ((("metadata.storage.url", "sqlite:x"),), 128, 1000, 1, 100))


@pytest.mark.parametrize("settings", [WHOLE[3], WHOLE[3][:3]])
def test_a_record_of_any_release_is_read(settings: tuple[Any, ...]) -> None:
    record = parsed((*WHOLE[:3], settings, None))

    assert record.pid == 5
    assert record.settings_of(ServiceSettings("c", {})).limits == Limits(128, 1000)
    assert record.settings_of(ServiceSettings("c", {})).listen == "127.0.0.1:0"
    assert (record.host_doors, record.speaks_tls) == ([], False)


BEFORE_DOORS = (
    *WHOLE[:3],
    (*WHOLE[3], None, None, (None,) * 6 + (False, False)),
    None,
    "node",
    "cluster",
    "5.1",
)
"""As the release before doors were recorded wrote it; hosts that did not listen have None."""


def test_a_record_without_doors_is_one_of_a_service_that_clients_do_not_find() -> None:
    record = parsed(BEFORE_DOORS)

    assert record.doors is None
    assert record.settings_of(ServiceSettings("c", {})).listen == "127.0.0.1:0"


def test_doors_are_read_as_they_were_written() -> None:
    settings = ServiceSettings("c", {}, security=DoorSecurity("cert", "key"), nodes=3)
    written = record_of(settings, "h:1", this_process(), 1)._replace(
        doors=(("host-0/1", "h:2", "host-0/1/x/5"),)
    )

    record = parsed(as_tuples(MsgpackSerDe().deserialize("service", stored(written))))

    assert record == written
    assert record.settings_of(settings) == settings
    assert record.host_doors == [HostDoor("host-0/1", "h:2", "host-0/1/x/5")]
    assert record.speaks_tls


def stored(record: ServiceRecord) -> bytes:
    return MsgpackSerDe().serialize("service", list(record))


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ((), "expected 4 fields, got 0"),
        ((*WHOLE, None, None, None, None, None, None), "expected 9 fields, got 10"),
        ((*WHOLE, None, None, None, None, (("a", "h:1"),)), "for doors[0], got ('a', 'h:1')"),
        ((5, *WHOLE[1:]), "expected text for address, got 5"),
        (("h:1", 5.0, *WHOLE[2:]), "expected an integer for pid, got 5.0"),
        ((*WHOLE[:3], None), "for settings, got None"),
        ((*WHOLE[:3], (1, 128, 1000)), "for storage, got 1"),
        ((*WHOLE[:3], ((), "128", 1000)), "for custom_metadata_bytes_max, got '128'"),
    ],
)
def test_a_record_of_wrong_fields_is_refused_by_name(
    fields: tuple[Any, ...], complaint: str
) -> None:
    with pytest.raises(CorruptCheckpoint) as caught:
        parsed(fields)

    assert complaint in str(caught.value)


@pytest.mark.parametrize("address", ["", "h", "h:x", "h:999999999"])
def test_nothing_listens_where_there_is_no_address(address: str) -> None:
    assert not parsed((address, *WHOLE[1:])).is_live

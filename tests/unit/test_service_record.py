"""What a service says of itself can be read by anybody, and is enough to revive it."""

from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.service_record import record_of
from tierledger.events.decide import Limits

URL = "postgresql://me:secret@h/db?sslmode=require"
LIMITS = Limits(custom_metadata_bytes_max=7)


def test_a_password_is_not_in_the_record() -> None:
    for name in ("metadata.storage.url", "rlmm.config.metadata.storage.url"):
        record = record_of(ServiceSettings("c", {name: URL}, LIMITS), "a:1", 1, 1)

        assert "secret" not in repr(record)


def test_who_knows_the_password_revives_the_service_with_it() -> None:
    started = ServiceSettings("c", {"metadata.storage.url": URL}, LIMITS)
    record = record_of(started, "a:1", 1, 1)
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

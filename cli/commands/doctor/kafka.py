"""Checks of Kafka's brokers: that they are reached, and set as tierledger needs them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from tierledger.cli.commands.doctor.check import Check
from tierledger.cli.commands.doctor.given import KAFKA, STORE
from tierledger.cli.commands.doctor.seen import CheckSeen, UnseenError
from tierledger.events.errors import RemoteStorageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from tierledger.actors.discovery.service_record import ServiceRecord
    from tierledger.cli.commands.doctor.given import Given

ENABLED = "remote.log.storage.system.enable"
MANAGER = "remote.log.metadata.manager.class.name"
STORAGE = "remote.log.storage.manager.class.name"
CUSTOM_METADATA = "remote.log.metadata.custom.metadata.max.bytes"

PLUGIN = "org.tierledger.kafka.TierledgerRemoteLogMetadataManager"
GUARD = "org.tierledger.kafka.GuardedRemoteStorageManager"

OWN = "rlmm.config.tierledger."
KNOWN = (
    "bootstrap",
    "mode",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "token.location",
    "token.without.tls",
    "replica.max.bytes",
    "write.timeout.ms",
    "finish.timeout.ms",
)
"""The plugin's settings behind `OWN`; it does not refuse others, as they may be Kafka's."""

ANSWER_S = 5.0
"""How long a broker may take to connect and answer."""

_SET = "set it in the broker's server.properties, and restart it: docs/kafka.md"


async def _cluster(given: Given) -> AsyncIterator[CheckSeen]:
    found = await given.kafka()
    ids = ", ".join(map(str, sorted(found.alive)))
    expected = found.cluster_id
    if given.has(STORE):
        with suppress(UnseenError):  # The check `store-read` tells it.
            expected = (await given.read_store()).cluster_id
    if found.cluster_id != expected:
        yield CheckSeen.failed(
            "",
            f"these brokers are of the cluster {found.cluster_id}, and the store is of "
            f"{expected}",
            "give the brokers of the store's cluster, or name it by `--cluster`",
        )
        return
    yield CheckSeen.well("", f"the cluster {found.cluster_id} has brokers {ids}")


async def _brokers(given: Given) -> AsyncIterator[CheckSeen]:
    from tierledger.moving.broker_versions import versions_of

    found = await given.each_broker()
    versions = await versions_of(given.brokers)
    for broker, address in sorted(found.addresses.items()):
        if broker in versions:
            text = f"it is reached at {address}, and runs Kafka {versions[broker]} or newer"
            yield CheckSeen.well(f"broker {broker}", text)
        else:
            yield CheckSeen.failed(
                f"broker {broker}",
                f"it is not reached at {address}, where it says that it listens",
                "see the network, and the broker's advertised.listeners",
            )


async def _settings(given: Given) -> AsyncIterator[CheckSeen]:
    from tierledger.moving.broker_settings import settings_of

    addresses = (await given.each_broker()).addresses
    record = None
    with suppress(RemoteStorageError):  # The check `store-read` tells it.
        record = await given.record()
    asked = (
        settings_of(given.brokers, broker, address, ANSWER_S)
        for broker, address in sorted(addresses.items())
    )
    answers = await asyncio.gather(*asked, return_exceptions=True)
    for broker, found in zip(sorted(addresses), answers, strict=True):
        subject = f"broker {broker}"
        if isinstance(found, RemoteStorageError):
            mend = "see the broker's log, and whether the user may describe its settings"
            yield CheckSeen.failed(subject, str(found), mend)
        elif isinstance(found, BaseException):
            raise found
        else:
            for one in of_settings(subject, found, record):
                yield one


def of_settings(
    subject: str, found: Mapping[str, str | None], record: ServiceRecord | None
) -> Iterator[CheckSeen]:
    """How it stands with a broker's settings, and with those of the service on its store."""
    wrong = False
    for name, expected in ((ENABLED, "true"), (MANAGER, PLUGIN)):
        if found.get(name) != expected:
            wrong = True
            yield CheckSeen.failed(
                subject, f"{name} is {found.get(name)}, not {expected}", _SET
            )
    if found.get(STORAGE) != GUARD:
        wrong = True
        yield CheckSeen.warning(
            subject,
            f"{STORAGE} is {found.get(STORAGE)}: without the guard, what the broker deletes is "
            "gone",
            "put the guard before it: docs/deletion.md",
        )
    for name in sorted(found):
        if name.startswith(OWN) and name.removeprefix(OWN) not in KNOWN:
            wrong = True
            yield CheckSeen.warning(
                subject,
                f"the plugin has no setting {name}",
                "kafka-plugin/README.md has all of them",
            )
    own = found.get(CUSTOM_METADATA)
    limit = None if record is None else record.settings.custom_metadata_bytes_max
    if own is not None and limit is not None and limit < int(own):
        wrong = True
        yield CheckSeen.warning(
            subject,
            f"{CUSTOM_METADATA} is {own}, and the service takes {limit}: the broker would copy "
            "segments with more again and again",
            f"start `serve` with --custom-metadata-max-bytes {own}",
        )
    if not wrong:
        yield CheckSeen.well(subject, "remote storage is on, with the plugin and the guard")


async def _seal(given: Given) -> AsyncIterator[CheckSeen]:
    from tierledger.actors.coordinator.events import Owner
    from tierledger.moving.freshness import TO_DO, seal_of

    seal = await seal_of(given.brokers)
    if not given.has(STORE):
        yield CheckSeen.well("", seal or "Kafka's metadata topic has no seal")
        return
    owner = Owner((await given.coordinator())["owner"])
    if seal is not None and owner is Owner.NOBODY:
        yield CheckSeen.failed("", f"nobody owns the metadata on this store, but {seal}", TO_DO)
    elif seal is None and owner is Owner.TIERLEDGER:
        yield CheckSeen.warning(
            "",
            "tierledger owns the metadata, and Kafka's metadata topic has no seal: a broker "
            "without the plugin would delete",
            "start `serve` with `--kafka`, which seals it",
        )
    else:
        yield CheckSeen.well("", f"the owner is {owner}; {'a' if seal else 'no'} seal is there")


CHECKS_OF_KAFKA = (
    Check(
        "kafka-cluster",
        "Kafka's brokers answer, and are of the store's cluster",
        _cluster,
        "see the addresses, and what `--kafka-config` has",
        KAFKA,
    ),
    Check(
        "brokers",
        "this machine reaches each broker, and its release is one that tierledger knows",
        _brokers,
        "see the check `kafka-cluster`",
        KAFKA,
    ),
    Check(
        "broker-settings",
        "each broker has remote storage on, with the plugin and the guard, the service's limit "
        "on custom metadata, and no unknown setting of the plugin",
        _settings,
        "see the check `kafka-cluster`",
        KAFKA,
    ),
    Check(
        "kafka-seal",
        "the seal in Kafka's metadata topic fits the owner of the metadata",
        _seal,
        "see the check `kafka-cluster`",
        KAFKA,
    ),
)

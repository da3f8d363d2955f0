"""A broker that wants a certificate and a login is asked, imported from and mirrored into."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.models.actors.local_world import partition, segment
from tests.models.actors.secrets import Authority, openssl
from tests.models.cli.command_line import invoke
from tests.models.kafka.clients import create_topic
from tests.ray.test_serve import served
from tierledger.actors.oracle.kafka import KafkaOracle
from tierledger.cli.exit_status import ExitStatus
from tierledger.events.errors import StorageUnavailable
from tierledger.events.kafka.codec import encode
from tierledger.moving.mirroring import producer_of
from tierledger.pipeline.imports.source import METADATA_TOPIC
from tierledger.pipeline.imports.topic import cluster_id_of
from tierledger.simulation.live.kafka_broker import CLUSTER_ID, KafkaBroker
from tierledger.simulation.live.server import free_ports
from tierledger.storage.kafka_brokers import KafkaBrokers

PASSWORD, WRONG = "the-password-of-ledger", "another-password"
KEY_PASSWORD = "the-password-of-the-key"
LOGINS = {"PLAIN": "plain.Plain", "SCRAM-SHA-512": "scram.Scram"}
POLL_S = 0.1
JAAS = "org.apache.kafka.common.security.{}LoginModule required"

pytestmark = pytest.mark.ray


class Secured:
    """The broker, and files with which it is asked."""

    def __init__(self, folder: Path, broker: KafkaBroker, address: str, ca: Path) -> None:
        self.broker = broker
        self.address = address
        self._folder = folder
        self._ca = ca

    def brokers(
        self, password: str = PASSWORD, mechanism: str = "PLAIN", *, certificate: bool = True
    ) -> KafkaBrokers:
        file = self._folder / "client.properties"
        jaas = JAAS.format(LOGINS[mechanism])
        keystore = (
            f"ssl.keystore.location={self._folder / 'client-keystore.pem'}\n"
            f"ssl.key.password={KEY_PASSWORD}\n"
        )
        file.write_text(
            f"security.protocol=SASL_SSL\nsasl.mechanism={mechanism}\n"
            f'sasl.jaas.config={jaas} username="ledger" password="{password}";\n'
            f"ssl.truststore.location={self._ca}\nssl.truststore.type=PEM\n"
            f"{keystore if certificate else ''}"
        )
        return KafkaBrokers(self.address, str(file))


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Its clients have no other way in; its own controller has."""
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority(folder)
    certificate, key = authority.issue("broker", "broker")
    keystore = folder / "keystore.pem"
    keystore.write_text(key.read_text() + certificate.read_text())
    certificate, key = authority.issue("client", "client", names=None)
    locked = folder / "client-locked.key"
    openssl(
        *("pkcs8", "-topk8", "-in", key, "-out", locked, "-passout", f"pass:{KEY_PASSWORD}")
    )
    (folder / "client-keystore.pem").write_text(locked.read_text() + certificate.read_text())
    broker = KafkaBroker()
    broker.formatting = (*("--add-scram", f"SCRAM-SHA-512=[name=ledger,password={PASSWORD}]"),)
    address = f"127.0.0.1:{free_ports()}"
    listener = "listener.name.sasl_ssl"
    plain, scram = (JAAS.format(module) for module in LOGINS.values())
    broker.settings = {
        "listeners": f"SASL_SSL://{address},CONTROLLER://127.0.0.1:{broker.controller_port}",
        "advertised.listeners": f"SASL_SSL://{address}",
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "SASL_SSL",
        "sasl.enabled.mechanisms": ",".join(LOGINS),
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        f"{listener}.plain.sasl.jaas.config": f"{plain} "
        f'username="ledger" password="{PASSWORD}" user_ledger="{PASSWORD}";',
        f"{listener}.scram-sha-512.sasl.jaas.config": f"{scram};",
        f"{listener}.ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": keystore,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": authority.certificate,
    }
    with broker:
        yield Secured(folder, broker, address, authority.certificate)


@pytest.mark.parametrize("mechanism", LOGINS)
async def test_who_proves_who_it_is_is_answered_and_nobody_else(
    secured: Secured, mechanism: str
) -> None:
    brokers = secured.brokers(mechanism=mechanism)
    assert await cluster_id_of(brokers) == CLUSTER_ID
    assert await KafkaOracle(brokers).leaders_of([partition(0)]) == [None]

    with pytest.raises(StorageUnavailable, match="uthentication") as raised:
        await cluster_id_of(secured.brokers(WRONG, mechanism))
    assert WRONG not in str(raised.value)
    with pytest.raises(StorageUnavailable):
        await cluster_id_of(secured.brokers(mechanism=mechanism, certificate=False))


async def test_a_service_follows_it(secured: Secured, tmp_path: Path) -> None:
    brokers = secured.brokers(mechanism="SCRAM-SHA-512")
    await create_topic(brokers.addresses, METADATA_TOPIC, **brokers.client_options())
    async with producer_of(brokers) as producer:
        await producer.send_and_wait(METADATA_TOPIC, encode(segment(1, partition(0))))
    store = f"sqlite:{tmp_path / 'ledger.sqlite'}"
    asked = ["--kafka", brokers.addresses, "--kafka-config", str(brokers.config)]
    with ExitStack() as stack:
        stack.enter_context(served(store, "--cluster", CLUSTER_ID, *asked))
        arguments = ("handover", "--to", "kafka", "--store", store, *asked)
        done = await asyncio.to_thread(invoke, *arguments)
        assert done.exit_code == ExitStatus.WELL, done.stderr
        status_of_kafka, status = dict[str, object](), ""
        while not status_of_kafka.get("records"):
            await asyncio.sleep(POLL_S)
            seen = await asyncio.to_thread(invoke, "status", "--store", store, "--json")
            status = seen.stdout
            status_of_kafka = json.loads(status)["coordinator"]["kafka"] or {}
        assert status_of_kafka["trouble"] is None
        assert PASSWORD not in status
    known = await asyncio.to_thread(invoke, "segments", "orders", 0, "--store", store)
    assert known.stdout

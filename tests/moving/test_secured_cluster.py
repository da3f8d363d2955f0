"""A broker that wants a certificate and a login is asked, imported from and mirrored into."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from aiokafka.protocol.admin import CreateAclsRequest  # type: ignore[import-untyped] # It has no types.

from tests.models.actors.local_world import partition, segment
from tests.models.actors.secrets import Authority, openssl
from tests.models.cli.command_line import invoke
from tests.models.kafka.clients import administered, create_topic
from tests.ray.test_serve import served
from tierledger.actors.oracle.kafka import KafkaOracle
from tierledger.benchmarks.kafka_broker import CLUSTER_ID, KafkaBroker
from tierledger.cli.exit_status import ExitStatus
from tierledger.events.errors import StorageUnavailable
from tierledger.events.kafka.codec import encode
from tierledger.moving.mirroring import MIRROR, producer_of
from tierledger.moving.sealing import sealed_partitions
from tierledger.pipeline.imports.source import METADATA_TOPIC
from tierledger.pipeline.imports.topic import cluster_id_of
from tierledger.simulation.live.server import free_ports
from tierledger.storage.kafka_brokers import KafkaBrokers

USER, OPERATOR = "ledger", "operator"
"""The service's, and one that may do everything; both have the same password."""
PASSWORD, WRONG = "the-password-of-ledger", "another-password"
KEY_PASSWORD = "the-password-of-the-key"
LOGINS = {
    "PLAIN": "plain.Plain",
    "SCRAM-SHA-256": "scram.Scram",
    "SCRAM-SHA-512": "scram.Scram",
}
POLL_S = 0.1

TOPIC, CLUSTER, TRANSACTIONAL_ID = 2, 4, 5
READ, WRITE, CREATE, DELETE, DESCRIBE, DESCRIBE_CONFIGS = 3, 4, 5, 6, 8, 10
LITERAL = ALLOW = 3
"""Kafka's codes of resources, operations, patterns and permissions."""

RIGHTS = (
    (TOPIC, "*", [DESCRIBE, DESCRIBE_CONFIGS]),
    (CLUSTER, "kafka-cluster", [DESCRIBE, DESCRIBE_CONFIGS]),
    (TOPIC, METADATA_TOPIC, [READ, CREATE, WRITE, DELETE]),
    (TRANSACTIONAL_ID, MIRROR, [WRITE, DESCRIBE]),
)
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
        self,
        password: str = PASSWORD,
        mechanism: str = "PLAIN",
        *,
        user: str = USER,
        certificate: bool = True,
    ) -> KafkaBrokers:
        file = self._folder / f"{user}.properties"
        jaas = JAAS.format(LOGINS[mechanism])
        keystore = (
            f"ssl.keystore.location={self._folder / 'client-keystore.pem'}\n"
            f"ssl.key.password={KEY_PASSWORD}\n"
        )
        file.write_text(
            f"security.protocol=SASL_SSL\nsasl.mechanism={mechanism}\n"
            f'sasl.jaas.config={jaas} username="{user}" password="{password}";\n'
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
    scrams = [one for one in LOGINS if one != "PLAIN"]
    for one in scrams:
        broker.formatting += ("--add-scram", f"{one}=[name={USER},password={PASSWORD}]")
    address = f"127.0.0.1:{free_ports()}"
    listener = "listener.name.sasl_ssl"
    plain = JAAS.format(LOGINS["PLAIN"])
    broker.settings = {
        "listeners": f"SASL_SSL://{address},CONTROLLER://127.0.0.1:{broker.controller_port}",
        "advertised.listeners": f"SASL_SSL://{address}",
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "SASL_SSL",
        "sasl.enabled.mechanisms": ",".join(LOGINS),
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        f"{listener}.plain.sasl.jaas.config": f"{plain} "
        f'username="{OPERATOR}" password="{PASSWORD}" '
        f'user_{OPERATOR}="{PASSWORD}" user_{USER}="{PASSWORD}";',
        **{
            f"{listener}.{one.lower()}.sasl.jaas.config": f"{JAAS.format(LOGINS[one])};"
            for one in scrams
        },
        f"{listener}.ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": keystore,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": authority.certificate,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{OPERATOR};User:ANONYMOUS",  # The controller's own listener.
    }
    with broker:
        secured = Secured(folder, broker, address, authority.certificate)
        asyncio.run(grant(secured))
        yield secured


async def grant(secured: Secured) -> None:
    """Give the service's user the rights that docs/kafka.md names, and no others."""
    options = secured.brokers(user=OPERATOR).client_options()
    rights = [
        (one_of, name, LITERAL, f"User:{USER}", "*", operation, ALLOW)
        for one_of, name, operations in RIGHTS
        for operation in operations
    ]
    async with administered(secured.address, **options) as admin:
        for right in rights:
            answer = await admin._send_request(CreateAclsRequest(*right))
            assert [code for code, _ in answer.creation_responses] == [0], answer


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
        await cluster_id_of(brokers)  # Its file is the same, and is read again.
    with pytest.raises(StorageUnavailable):
        await cluster_id_of(secured.brokers(mechanism=mechanism, certificate=False))


async def followed(store: str, task: str, count: str = "round") -> dict[str, object]:
    """What `status` says of the follower once it does that task, and the count is above 0."""
    while True:
        shown = await asyncio.to_thread(invoke, "status", "--store", store, "--json")
        assert PASSWORD not in shown.stdout
        report: dict[str, object] = json.loads(shown.stdout)["coordinator"]["kafka"] or {}
        if report.get("task") == task and report.get(count):
            return report
        await asyncio.sleep(POLL_S)


@pytest.mark.long
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
        report = await followed(store, "import", "records")
        assert report["trouble"] is None
    known = await asyncio.to_thread(invoke, "segments", "orders", 0, "--store", store)
    assert known.stdout


async def test_the_rights_that_are_documented_let_it_seal_and_mirror(
    secured: Secured, tmp_path: Path
) -> None:
    operator = secured.brokers(user=OPERATOR)
    async with administered(secured.address, **operator.client_options()) as admin:
        if METADATA_TOPIC in await admin.list_topics():
            await admin.delete_topics([METADATA_TOPIC])
    brokers = secured.brokers(mechanism="SCRAM-SHA-512")
    store = f"sqlite:{tmp_path / 'ledger.sqlite'}"
    asked = ["--kafka", brokers.addresses, "--kafka-config", str(brokers.config)]
    for task, more in (("seal", []), ("mirror", ["--mirror"])):
        with served(store, "--cluster", CLUSTER_ID, *asked, *more):
            if task == "seal":
                given = ("handover", "--fresh", "--store", store, *asked)
                done = await asyncio.to_thread(invoke, *given)
                assert done.exit_code == ExitStatus.WELL, done.stderr
            report = await followed(store, task)
        assert report["trouble"] is None
    assert not await sealed_partitions(brokers)

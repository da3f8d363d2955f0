"""The file with settings for connections to Kafka's brokers, and its errors."""

import ssl
from pathlib import Path

import pytest

from tests.models.actors.secrets import Authority
from tierledger.events.errors import InvalidArgument
from tierledger.storage.kafka_brokers import KafkaBrokers

SECRET = "a-secret-that-nobody-may-see"
LOGIN = (
    "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
    f'    username="ledger" \\\n    password="{SECRET}";\n'
)
SASL = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"


def brokers_of(folder: Path, text: str) -> KafkaBrokers:
    file = folder / "client.properties"
    file.write_text(text)
    return KafkaBrokers("127.0.0.1:9092", str(file))


@pytest.mark.parametrize(
    "addresses",
    [
        "",
        "nowhere",
        "dir:",
        ":9092",
        "a:9092,",
        "a b:9092",
        "a:0",
        "a:65536",
        "a:" + "9" * 5000,
    ],
)
def test_addresses_of_another_form_are_refused(addresses: str) -> None:
    with pytest.raises(InvalidArgument, match="as HOST:PORT,HOST:PORT"):
        KafkaBrokers(addresses)


def test_without_a_file_nothing_is_said() -> None:
    assert KafkaBrokers("127.0.0.1:9092").client_options() == {}


@pytest.mark.parametrize(
    "login", [LOGIN, f"# a comment\nsasl.username = ledger\n\nsasl.password: {SECRET}\n"]
)
def test_a_login_is_read_in_both_spellings(tmp_path: Path, login: str) -> None:
    brokers = brokers_of(tmp_path, SASL.replace("PLAIN\n", "SCRAM-SHA-512\n") + login)

    assert brokers.client_options() == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "ledger",
        "sasl_plain_password": SECRET,
    }
    assert SECRET not in repr(brokers)


@pytest.mark.parametrize(
    ("algorithm", "checks"), [("", True), ("ssl.endpoint.identification.algorithm=", False)]
)
def test_tls_has_the_authorities_and_the_certificate_of_the_files(
    tmp_path: Path, algorithm: str, checks: bool
) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("client", "client")
    keystore = tmp_path / "keystore.pem"
    keystore.write_text(key.read_text() + certificate.read_text())
    text = f"security.protocol=SSL\nssl.truststore.location={authority.certificate}\n"
    text += f"ssl.truststore.type=PEM\nssl.keystore.location={keystore}\n{algorithm}"

    options = brokers_of(tmp_path, text).client_options()

    context = options.pop("ssl_context")
    assert options == {"security_protocol": "SSL"}
    assert isinstance(context, ssl.SSLContext)
    (known,) = context.get_ca_certs()
    assert known["subject"] == ((("commonName", "authority"),),)
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, checks)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("security.protocol=TLS", "security.protocol: expected PLAINTEXT, SSL, .*; got TLS"),
        ("security.protocols=SSL", "expected one of .*; got security.protocols"),
        (f"{SASL}sasl.mechanism=GSSAPI\n{LOGIN}", "sasl.mechanism: .*; got GSSAPI"),
        (f"security.protocol=SASL_PLAINTEXT\n{LOGIN}", "sasl.mechanism: .*; got None"),
        (f'{SASL}sasl.jaas.config=Plain required password="{SECRET}";', "username="),
        (f"{SASL}sasl.password={SECRET}", "username="),
        (LOGIN, "sasl.jaas.config has no effect with security.protocol=PLAINTEXT"),
        (f"{SASL}{LOGIN}ssl.keystore.location=x", "ssl.keystore.location has no effect"),
        ("security.protocol=SSL\nssl.truststore.type=JKS", "ssl.truststore.type: .*got JKS"),
        ("security.protocol=SSL\nssl.truststore.location=none.pem", "got none.pem"),
        ("security.protocol=SSL\nssl.keystore.location=/dev/null", "ssl.keystore.location: "),
    ],
)
def test_what_is_wrong_is_named_and_no_secret(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why) as raised:
        brokers_of(tmp_path, text).client_options()

    assert "client.properties: " in str(raised.value)
    assert SECRET not in str(raised.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"cannot read .*none"):
        KafkaBrokers("127.0.0.1:9092", str(tmp_path / "none")).client_options()

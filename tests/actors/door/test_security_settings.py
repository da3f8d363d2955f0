"""Settings that a door refuses before it opens, and its lists and rules."""

import os
import pickle
from pathlib import Path

import pytest

from tests.models.actors.secrets import TOKENS, Authority, Secrets, line, token_file, token_list
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.addresses import DoorAddress, doors_in, url_of
from tierledger.actors.door.security.identity import (
    FEED_RULES,
    RULES,
    Identity,
    check_allowed,
    check_fed,
)
from tierledger.actors.door.security.renewed import Renewed
from tierledger.actors.door.security.settings import (
    CA_KEY,
    CERTIFICATE_KEY,
    PLAINTEXT_KEY,
    TOKEN_KEY,
    ClientSecurity,
    DoorSecurity,
    is_loopback,
)
from tierledger.actors.door.security.tls import Pair
from tierledger.actors.door.security.tokens import digest_of, read_list, read_token
from tierledger.events.errors import InvalidArgument, NotAuthorized

NOWHERE = DoorAddress("127.0.0.1", 0)
EVERYWHERE = DoorAddress("0.0.0.0", 4711)  # noqa: S104 - It is refused.


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Secrets:
    return Secrets(tmp_path_factory.mktemp("secrets"))


def checked(security: DoorSecurity, listen: DoorAddress = NOWHERE, now_ms: int = 0) -> None:
    security.check(listen, lambda: now_ms)


# Off loopback.


def test_off_loopback_neither_plaintext_nor_anybody_by_default(secrets: Secrets) -> None:
    both = "encryption .* and proof of who calls .* or --allow-plaintext --allow-anonymous"
    with pytest.raises(InvalidArgument, match=both):
        checked(DoorSecurity(), EVERYWHERE)
    with pytest.raises(InvalidArgument, match="expected proof of who calls"):
        checked(secrets.door(tokens=False), EVERYWHERE)
    plaintext = secrets.door()._replace(certificate=None, key=None, ca=None)
    with pytest.raises(InvalidArgument, match=r"encryption \(.*, or --allow-plaintext to do"):
        checked(plaintext, EVERYWHERE)

    checked(secrets.door(), EVERYWHERE)
    checked(secrets.door(mutual=True, tokens=False), EVERYWHERE)
    checked(DoorSecurity(allow_plaintext=True, allow_anonymous=True), EVERYWHERE)
    checked(DoorSecurity())


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),  # noqa: S104
        ("::", False),
        ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("localhost.example", False),
        ("127.0.0.1.example", False),
    ],
)
def test_loopback_is_what_no_other_machine_can_be(host: str, *, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_settings_that_do_not_fit_together_are_refused(secrets: Secrets) -> None:
    whole = secrets.door()
    with pytest.raises(InvalidArgument, match="both --tls-cert and --tls-key"):
        checked(whole._replace(key=None))
    with pytest.raises(InvalidArgument, match="beside another --tls option"):
        checked(whole._replace(certificate=None, key=None))
    with pytest.raises(InvalidArgument, match="both --tokens and --host-token"):
        checked(whole._replace(host_token=None))
    reader = token_file(secrets.folder, "reader")
    with pytest.raises(InvalidArgument, match=r"expected the identity host .* got reader"):
        checked(whole._replace(host_token=reader))


def test_hosts_do_not_start_with_an_expired_token(tmp_path: Path, secrets: Secrets) -> None:
    short = tmp_path / "tokens"
    short.write_text(line(TOKENS["host"], "host", "1970-01-01T00:00:01Z"))
    security = secrets.door()._replace(tokens=str(short))

    checked(security, now_ms=999)
    with pytest.raises(InvalidArgument, match="has expired"):
        checked(security, now_ms=1000)


def test_hosts_that_would_not_trust_each_other_do_not_start(
    tmp_path: Path, secrets: Secrets
) -> None:
    whole = secrets.door()
    other = Authority(tmp_path, "other")
    with pytest.raises(InvalidArgument, match="would not trust each other: ") as refused:
        checked(whole._replace(ca=None))
    assert "gRPC's own list in " in str(refused.value)
    assert refused.value.__notes__ == ["--tls-ca names the authority of --tls-cert"]
    with pytest.raises(InvalidArgument, match=rf"{other.certificate} in {whole.certificate}"):
        checked(whole._replace(ca=str(other.certificate)))

    checked(whole._replace(client_ca=whole.ca, ca=None))
    former = secrets.authority.issue("former", "host", days=-1)
    checked(whole._replace(certificate=str(former[0]), key=str(former[1])))
    names = secrets.authority.issue("elsewhere", "host", names="DNS:ledger.example")
    checked(whole._replace(certificate=str(names[0]), key=str(names[1])))


# Files.


def test_a_certificate_and_a_key_that_do_not_belong_together_are_refused(
    tmp_path: Path, secrets: Secrets
) -> None:
    other = Authority(tmp_path).issue("other", "other")
    missing, broken = tmp_path / "missing", tmp_path / "broken"
    broken.write_text("no certificate")

    for pair in [
        Pair(str(secrets.pair[0]), str(other[1])),
        Pair(str(broken), str(other[1])),
        Pair(str(other[0]), str(broken)),
    ]:
        with pytest.raises(InvalidArgument, match=f"its key, not encrypted, in {pair.key}"):
            pair.read()
    with pytest.raises(InvalidArgument, match="missing cannot be read: No such file"):
        Pair(str(missing), str(other[1])).read()
    with pytest.raises(InvalidArgument, match="expected PEM certificates"):
        checked(secrets.door()._replace(client_ca=str(broken)))


def test_the_list_of_tokens_says_whose_they_are(tmp_path: Path) -> None:
    known = read_list(str(token_list(tmp_path)))

    for identity, token in TOKENS.items():
        found = known.find(digest_of(token))
        assert found is not None
        assert found.identity == Identity.parse(identity)
    assert known.find(digest_of("another")) is None


SECRET = "a-token-in-the-wrong-place-0123456789"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing\n",
        f"{SECRET} broker:3\n",
        f"{digest_of('x').hex()}\n",
        f"{digest_of('x').hex()} {SECRET}\n",
        f"{digest_of('x').hex()} broker:\n",
        f"{digest_of('x').hex()} broker:03\n",
        f"{digest_of('x').hex()} broker:2147483648\n",
        f"{digest_of('x').hex()} anybody\n",
        f"{digest_of('x').hex()} reader {SECRET}\n",
        f"{digest_of('x').hex()} reader 2027-01-01T00:00:00\n",
        f"{digest_of('x').hex()} reader 2027-01-01T00:00:00Z more\n",
        line(SECRET, "reader") + line(SECRET, "admin"),
        "\xff\x00",
    ],
)
def test_a_list_that_is_none_is_refused_and_not_repeated(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tokens"
    path.write_text(text, encoding="latin-1")

    with pytest.raises(InvalidArgument, match="tokens") as caught:
        read_list(str(path))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "short", f"{SECRET} {SECRET}", f"{SECRET}\n{SECRET}", "ä" * 20]
)
def test_a_file_without_one_token_is_refused_and_not_repeated(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / "token"
    path.write_text(text)

    with pytest.raises(InvalidArgument, match="expected one token") as caught:
        read_token(str(path))
    assert SECRET not in str(caught.value)


def test_what_is_read_again_keeps_the_former_if_the_new_is_wrong(tmp_path: Path) -> None:
    path = token_list(tmp_path)
    complaints: list[str] = []
    files = Renewed((str(path),), lambda: read_list(str(path)), complaints.append)
    former = files.current()

    replace(path, "nonsense\n")
    assert files.current() is former
    assert files.current() is former
    assert len(complaints) == 1, "once for each change"
    path.unlink()
    assert files.current() is former
    assert len(complaints) == 2
    replace(path, line(SECRET, "reader"))
    assert [str(one.identity.name) for one in files.current().known] == ["reader"]
    assert len(complaints) == 2


def replace(path: Path, text: str) -> None:
    """As a careful administrator does: at once."""
    new = path.with_suffix(".new")
    new.write_text(text)
    os.replace(new, path)  # noqa: PTH105


# Clients.


def test_a_client_is_told_which_settings_contradict_each_other() -> None:
    with pytest.raises(InvalidArgument, match=r"tierledgers://… beside door\.ssl\.ca"):
        ClientSecurity.of({CA_KEY: "ca.pem"}, tls=False)
    with pytest.raises(InvalidArgument, match=r"both door\.ssl\.certificate"):
        ClientSecurity.of({CERTIFICATE_KEY: "c.pem"}, tls=True)
    with pytest.raises(InvalidArgument, match="expected true or false, got 'yes'"):
        ClientSecurity.of({PLAINTEXT_KEY: "yes"}, tls=True)


def test_a_token_leaves_the_machine_encrypted_or_on_request(tmp_path: Path) -> None:
    config = {TOKEN_KEY: token_file(tmp_path, "reader")}
    sent = (("authorization", f"Bearer {TOKENS['reader']}"),)

    with pytest.raises(NotAuthorized, match="not sent without TLS") as caught:
        ClientSecurity.of(config, tls=False).metadata("10.0.0.1:4711")
    assert TOKENS["reader"] not in str(caught.value)

    assert ClientSecurity.of(config, tls=False).metadata("[::1]:4711") == sent
    assert ClientSecurity.of(config, tls=True).metadata("10.0.0.1:4711") == sent
    on_request = {**config, PLAINTEXT_KEY: "true"}
    assert ClientSecurity.of(on_request, tls=False).metadata("10.0.0.1:4711") == sent
    assert ClientSecurity.of({}, tls=False).metadata("10.0.0.1:4711") == ()


def test_a_url_says_whether_doors_speak_tls() -> None:
    doors = ["one:1", "[::1]:2"]

    assert doors_in(url_of(doors, tls=True)) == doors_in(url_of(doors)) == doors
    assert url_of(doors, tls=True).startswith("tierledgers://")


def test_no_setting_holds_what_is_in_the_files(secrets: Secrets) -> None:
    door = secrets.door(mutual=True)
    key = secrets.pair[1].read_text().splitlines()[1]
    for one in (door, door.as_client):
        for text in (repr(one), pickle.dumps(one).decode("latin-1")):
            assert TOKENS["host"] not in text
            assert key not in text


# What identities may do.

KINDS = {field.name for field in pb.Call.DESCRIPTOR.oneofs_by_name["ask"].fields}
ASKING = {"question", "ready", "next_page", "route", "hosts", "status"}


def in_the_name_of(kind: str, broker_id: int) -> pb.Call:
    """A call of that kind, with every field that names a broker set to one."""
    call = pb.Call()
    getattr(call, kind).SetInParent()
    fill(getattr(call, kind), broker_id)
    return call


def fill(message: object, broker_id: int) -> None:
    for field in message.DESCRIPTOR.fields:  # type: ignore[attr-defined]
        if field.name in {"broker_id", "origin_broker_id"}:
            setattr(message, field.name, broker_id)
        elif field.message_type is not None and field.name in {"claim", "add"}:
            getattr(message, field.name).SetInParent()
            fill(getattr(message, field.name), broker_id)


def test_every_kind_of_call_has_a_rule() -> None:
    assert set(RULES) == KINDS, "who may ask for this? Say so in door/security/identity.py"


def test_every_message_of_a_feed_has_a_rule() -> None:
    fields = {one.name for one in pb.ClientFrame.DESCRIPTOR.fields}

    assert set(FEED_RULES) == fields - {"greeting", "calls", "cancelled"}


@pytest.mark.parametrize("kind", ["subscribed", "expected"])
def test_a_replica_hears_of_its_own_brokers_claim_only(kind: str) -> None:
    message = pb.Expect(claim=pb.Claim(broker_id=3))
    for name in ("broker:3", "broker:*", "admin", "host"):
        check_fed(Identity.parse(name), kind, message)
    for name in ("broker:5", "reader"):
        with pytest.raises(NotAuthorized, match=f"{name} may not speak for broker 3"):
            check_fed(Identity.parse(name), kind, message)
        check_fed(Identity.parse(name), kind, pb.Expect())


def test_a_kind_without_a_rule_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(RULES, "hosts")

    with pytest.raises(NotAuthorized, match="reader may not ask for hosts"):
        check_allowed(Identity.parse("reader"), in_the_name_of("hosts", 0))


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_broker_speaks_for_itself_only_and_a_reader_asks_only(kind: str) -> None:
    names = ["broker:3", "broker:*", "admin", "host", "reader"]
    allowed = {
        (name, broker_id)
        for name in names
        for broker_id in (3, 5)
        if is_allowed(Identity.parse(name), in_the_name_of(kind, broker_id))
    }

    everything = {(name, broker_id) for name in names for broker_id in (3, 5)}
    if kind in ASKING:
        assert allowed == everything
    elif kind in {
        "hand_over",
        "tell_move",
        "place_hold",
        "release_hold",
        "release_kept",
        "clean_up",
        "replace_process",
    }:
        assert {name for name, _ in allowed} == {"admin", "host"}
    else:
        assert allowed == everything - {("broker:3", 5), ("reader", 3), ("reader", 5)}


def is_allowed(identity: Identity, call: pb.Call) -> bool:
    try:
        check_allowed(identity, call)
    except NotAuthorized:
        return False
    return True


CHANGES = sorted({field.name for field in pb.Write.DESCRIPTOR.oneofs_by_name["change"].fields})


def written(change: str) -> pb.Call:
    """A write of broker 3 with nothing of another's."""
    write = pb.Write(claim=pb.Claim(broker_id=3), origin_broker_id=3)
    getattr(write, change).SetInParent()
    if change != "import_records":
        getattr(write, change).broker_id = 3
    return pb.Call(write=write)


@pytest.mark.parametrize("change", CHANGES)
def test_no_broker_in_a_write_may_be_another(change: str) -> None:
    identity = Identity.parse("broker:3")
    foreign = [written(change) for _ in range(3)]
    foreign[0].write.claim.broker_id = 5
    foreign[1].write.origin_broker_id = 5
    if change == "import_records":
        assert not is_allowed(identity, written(change))
        assert not is_allowed(Identity.parse("broker:*"), written(change))
        assert is_allowed(Identity.parse("admin"), written(change))
        return
    getattr(foreign[2].write, change).broker_id = 5

    assert is_allowed(identity, written(change))
    for call in foreign:
        with pytest.raises(NotAuthorized, match="broker:3 may not speak for broker 5"):
            check_allowed(identity, call)


def test_an_announcement_that_imports_is_an_admins() -> None:
    call = pb.Call(announce=pb.Announce(broker_id=3, import_cluster="old"))

    assert not is_allowed(Identity.parse("broker:3"), call)
    assert not is_allowed(Identity.parse("broker:*"), call)
    assert is_allowed(Identity.parse("admin"), call)

"""TLS, tokens and identities over real sockets, also with programs that are not ours."""

import asyncio
import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tests.actors.door.clients import door_of
from tests.models.actors.local_world import (
    CLUSTER,
    TOPIC_ID,
    LocalWorld,
    copy,
    eventually,
    listed,
    partition,
    segment,
    sqlite_in,
)
from tests.models.actors.secrets import TOKENS, Authority, Secrets, line, token_file
from tierledger.actors.calls import LEADER
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.addresses import SCHEME, TLS_SCHEME, DoorAddress
from tierledger.actors.door.client import streams as streams_module
from tierledger.actors.door.client.connection import greeting_of
from tierledger.actors.door.client.replicas import FedReplica, Replicas
from tierledger.actors.door.client.streams import Stream, Streams
from tierledger.actors.door.limits import METHOD, SERVICE, DoorLimits
from tierledger.actors.door.security.settings import (
    CA_KEY,
    TOKEN_KEY,
    ClientSecurity,
    DoorSecurity,
)
from tierledger.actors.door.server.gateway import Gateway
from tierledger.actors.door.server.host_door import DoorSettings, open_door
from tierledger.events.commands import Claim
from tierledger.events.errors import (
    InvalidArgument,
    NotAuthorized,
    NotReady,
    OutcomeUnknown,
    Overloaded,
    RemoteStorageError,
)
from tierledger.simulation.live.server import free_ports

TIP = partition()
PROTO = Path(__file__).parents[3] / "actors" / "door" / "door.proto"


@pytest.fixture
def secrets(tmp_path: Path) -> Secrets:
    return Secrets(tmp_path)


class SetClock:
    """A clock that stands where it is put."""

    def __init__(self) -> None:
        self.ms = 1_700_000_000_000

    def now_ms(self) -> int:
        self.ms += 1
        return self.ms


def guarded(
    folder: Path, security: DoorSecurity, hosts: int = 1, clock: SetClock | None = None
) -> LocalWorld:
    """A service whose hosts listen as `security` says, to be entered."""
    door = DoorSettings(f"127.0.0.1:{free_ports(hosts)}", security=security)
    return LocalWorld(sqlite_in(folder), hosts, clock=clock, door=door)


@pytest.fixture
async def world(tmp_path: Path, secrets: Secrets) -> AsyncIterator[LocalWorld]:
    """A host that tells clients apart by their tokens."""
    async with guarded(tmp_path, secrets.door()) as world:
        yield world


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts look at their list of tokens with each call."""
    monkeypatch.setattr("tierledger.actors.door.server.admission.LOOK_S", 0.0)


async def opening(world: LocalWorld, config: Mapping[str, str], *, tls: bool = True) -> Stream:
    """A stream to the world's first host, closed with the world."""
    security = ClientSecurity.of(config, tls=tls)
    stream = await Stream.opened(await door_of(world), greeting_of(CLUSTER), security)
    world.opened.push_async_callback(stream.close)
    return stream


async def told(stream: Stream) -> dict[str, Any]:
    """The host's own report."""
    asked = pb.StatusQuestion(of=pb.StatusQuestion.HOST)
    answer = await stream.ask(pb.Call(status=asked))
    status: dict[str, Any] = json.loads(answer.status.json)
    return status


# Who is let in.


@pytest.mark.parametrize("identity", ["broker:1", "broker:*", "admin"])
async def test_a_broker_with_its_token_works_through_any_host(
    tmp_path: Path, secrets: Secrets, identity: str
) -> None:
    async with guarded(tmp_path, secrets.door(), hosts=2) as world:
        tips = [partition(number) for number in range(4)]
        manager = await world.leader(*tips, more=secrets.client(identity))
        for tip in tips:
            await copy(manager, segment(1, tip))
        assert [await listed(manager, tip) for tip in tips] == [[1]] * 4

        # Hosts come in at each other's doors, too.
        stream = await opening(world, secrets.client("reader"))
        answers = [await stream.ask(sizes(number)) for number in range(4)]
        assert [one.found.number for one in answers] == [10] * 4
        assert any(one.better_door for one in answers)


def sizes(number: int) -> pb.Call:
    asked = pb.Partition(topic_id=TOPIC_ID, partition=number, topic="orders")
    return pb.Call(question=pb.Question(partition=asked, role=pb.LEADER, kind=pb.SIZE))


async def test_a_certificate_says_who_it_is_where_there_are_no_tokens(
    tmp_path: Path, secrets: Secrets
) -> None:
    pair = secrets.authority.issue("broker", "broker:1", names=None)
    nameless = secrets.authority.issue("nameless", "kafka-1.example")
    async with guarded(tmp_path, secrets.door(mutual=True, tokens=False), hosts=2) as world:
        manager = await world.leader(TIP, more=secrets.client(pair=pair))
        await copy(manager, segment(1))

        assert await listed(manager) == [1]
        for more, message in [
            (secrets.client(pair=pair), "broker:1 may not speak for broker 5"),
            (secrets.client(pair=nameless), "common name: expected reader.*kafka-1.example"),
        ]:
            with pytest.raises(NotAuthorized, match=message):
                await world.broker(5, more=more)


async def test_another_brokers_id_is_refused_at_the_greeting_and_in_each_call(
    world: LocalWorld, secrets: Secrets
) -> None:
    with pytest.raises(NotAuthorized, match=r"broker:3 may not speak for broker 1 \(greeting"):
        await world.broker(1, more=secrets.client("broker:3"))
    with pytest.raises(NotAuthorized, match=r"reader may not speak for broker 1 \(greeting"):
        await world.broker(1, more=secrets.client("reader"))

    stream = await opening(world, secrets.client("broker:3"))
    for call in [
        pb.Call(register=pb.Register(broker_id=1, request=b"x")),
        pb.Call(announce=pb.Announce(broker_id=1, incarnation=1, number=1)),
        pb.Call(write=pb.Write(claim=pb.Claim(broker_id=1), origin_broker_id=3)),
    ]:
        failure = (await stream.ask(call)).failure
        assert failure.kind == pb.NOT_AUTHORIZED
        assert failure.fate == pb.REJECTED
        assert "broker:3 may not speak for broker 1" in failure.message
    status = await world.service.coordinator.status()
    assert status["brokers"] == {}, "nothing was registered"


async def test_no_way_leads_to_a_door_that_is_open_to_other_machines(tmp_path: Path) -> None:
    everywhere = DoorSettings("0.0.0.0:0", "127.0.0.1")
    async with LocalWorld(sqlite_in(tmp_path)) as world:
        host, coordinator = world.service.host("host-0").host, world.service.coordinator

        with pytest.raises(InvalidArgument, match="can be reached from other machines"):
            await open_door(host, "host-0/1", everywhere, coordinator)
        assert host.report.door is None


# Who is not, and hears why.


def over_tls(secrets: Secrets, identity: str | None = "reader") -> dict[str, str]:
    return secrets.client(identity)


def without_token(secrets: Secrets) -> dict[str, str]:
    return secrets.client()


def with_text(text: str) -> Callable[[Secrets], dict[str, str]]:
    def made(secrets: Secrets) -> dict[str, str]:
        path = secrets.folder / "own.token"
        path.write_text(text)
        return {**secrets.client(), TOKEN_KEY: str(path)}

    return made


def expired(secrets: Secrets) -> dict[str, str]:
    with secrets.tokens.open("a") as file:
        file.write(line("an-expired-token-0123456789", "reader", "2001-01-01T00:00:00+02:00"))
    return with_text("an-expired-token-0123456789")(secrets)


def of_another_authority(secrets: Secrets) -> dict[str, str]:
    other = Authority(secrets.folder, "unknown")
    return {**secrets.client("reader"), CA_KEY: str(other.certificate)}


def of_no_authority(secrets: Secrets) -> dict[str, str]:
    return {key: value for key, value in secrets.client("reader").items() if key != CA_KEY}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (of_no_authority, "one of a known authority; name its file: `door.ssl.ca.location`"),
        (without_token, "expected one bearer token in the stream's metadata"),
        (with_text("a-token-nobody-knows-0123456789"), "bearer token is not known here"),
        (expired, "the bearer token of reader has expired"),
        (
            of_another_authority,
            "host's certificate is not accepted: unable to get local issuer",
        ),
    ],
)
async def test_a_client_that_is_not_let_in_hears_why(
    tmp_path: Path, secrets: Secrets, config: Callable[[Secrets], dict[str, str]], message: str
) -> None:
    more = config(secrets)
    async with guarded(tmp_path, secrets.door()) as world:
        with pytest.raises(NotAuthorized, match=message):
            await world.broker(1, more=more)


@pytest.mark.parametrize(
    ("names", "days", "message"),
    [
        ("IP:127.0.0.9", 2, "certificate is not accepted: IP address mismatch"),
        ("IP:127.0.0.1", -1, "certificate is not accepted: certificate has expired"),
    ],
)
async def test_a_host_with_a_wrong_certificate_is_not_believed(
    tmp_path: Path, secrets: Secrets, names: str, days: int, message: str
) -> None:
    secrets.authority.issue("host", "host", names, days)
    async with guarded(tmp_path, secrets.door()) as world:
        with pytest.raises(NotAuthorized, match=message):
            await world.broker(1, more=secrets.client("broker:1"))


async def test_without_a_certificate_or_with_a_strangers_nobody_comes_in(
    tmp_path: Path, secrets: Secrets
) -> None:
    stranger = Authority(tmp_path, "unknown").issue("stranger", "broker:1")
    async with guarded(tmp_path, secrets.door(mutual=True)) as world:
        with pytest.raises(NotAuthorized, match="client's certificate, and none was shown"):
            await world.broker(1, more=secrets.client("broker:1"))
        with pytest.raises(NotAuthorized, match="client's certificate, and ours is not one"):
            await world.broker(1, more=secrets.client("broker:1", stranger))


async def test_both_sides_have_to_speak_tls_or_neither(
    tmp_path: Path, secrets: Secrets
) -> None:
    async with guarded(tmp_path / "..", secrets.door()) as world:
        with pytest.raises(NotAuthorized, match="speaks TLS; expected a URL of tierledgers:"):
            await opening(world, {TOKEN_KEY: token_file(tmp_path, "reader")}, tls=False)
    async with guarded(tmp_path, DoorSecurity()) as world:
        with pytest.raises(NotAuthorized, match="does not speak TLS; expected a URL of tierl"):
            await opening(world, secrets.client("reader"))


async def test_a_host_that_is_away_is_not_said_to_be_a_stranger(secrets: Secrets) -> None:
    security = ClientSecurity.of(secrets.client("reader"), tls=True)
    with pytest.raises(NotReady):
        await Stream.opened(f"127.0.0.1:{free_ports()}", greeting_of(CLUSTER), security)


async def test_a_client_that_was_refused_does_not_hammer(
    secrets: Secrets, monkeypatch: pytest.MonkeyPatch
) -> None:
    knocks = []

    async def refused(*_: object) -> Stream:
        knocks.append(loop.time())
        raise NotAuthorized("no")

    loop = asyncio.get_running_loop()
    now_s = [0.0]
    monkeypatch.setattr(loop, "time", lambda: now_s[0])
    streams = Streams(greeting_of(CLUSTER), opened=refused)
    for tick in range(3000):
        now_s[0] = tick / 100
        with pytest.raises(NotAuthorized):
            await streams.to("one:1")
    monkeypatch.undo()

    assert len(knocks) < 15, "of 30 s"
    longest = streams_module.REFUSED_PAUSE_MAX_S
    assert max(b - a for a, b in pairwise(knocks)) <= longest + 0.1
    await streams.close()


class NoDesk:
    """Nobody gets so far."""

    async def close(self) -> None:
        pass


async def test_a_farewell_is_read_by_who_greets_too_late() -> None:
    gateway = Gateway(NoDesk(), CLUSTER, DoorLimits(connections_max=0))  # type: ignore[arg-type]
    door = str(await gateway.start(DoorAddress("127.0.0.1", 0)))
    channel = grpc.aio.insecure_channel(door)
    call: Any = channel.stream_stream(f"/{SERVICE}/{METHOD}")()
    await call.wait_for_connection()
    # By then the host's farewell and the end of the stream have arrived; nothing tells of it.
    await asyncio.sleep(0.1)

    with pytest.raises(Overloaded, match="0 connections are open"):
        await Stream(door, channel, call)._greet(greeting_of(CLUSTER))
    await channel.close()
    await gateway.close()


async def test_a_host_whose_token_is_not_the_hosts_any_more_does_not_blame_its_client(
    tmp_path: Path, secrets: Secrets
) -> None:
    async with guarded(tmp_path, secrets.door(), hosts=2) as world:
        tips = [partition(number) for number in range(4)]
        manager = await world.leader(*tips, more=secrets.client("broker:1"))
        for tip in tips:
            await copy(manager, segment(1, tip))
        (tmp_path / "host.token").write_text("a-token-nobody-knows-0123456789")
        stream = await opening(world, secrets.client("reader"))

        answers = [await stream.ask(sizes(number)) for number in range(4)]

        kinds = {one.failure.kind for one in answers if one.HasField("failure")}
        assert kinds == {pb.NOT_READY}


# Renewed without a restart.


async def test_a_certificate_is_renewed_on_both_sides(
    world: LocalWorld, tmp_path: Path, secrets: Secrets
) -> None:
    config = secrets.client("reader")
    before = await opening(world, config)

    renewed = Authority(tmp_path, "renewed")
    certificate, key = renewed.issue("new", "host")
    os.replace(certificate, secrets.pair[0])  # noqa: PTH105
    os.replace(key, secrets.pair[1])  # noqa: PTH105
    with pytest.raises(NotAuthorized, match="unable to get local issuer"):
        await opening(world, config)
    shutil.copy(renewed.certificate, config[CA_KEY])
    after = await opening(world, config)

    assert (await told(before))["host"] == (await told(after))["host"] == "host-0"


async def test_a_wrong_certificate_leaves_the_former_and_raises_an_alarm(
    world: LocalWorld, secrets: Secrets
) -> None:
    secrets.pair[0].write_text("no certificate")

    stream = await opening(world, secrets.client("reader"))

    assert (await told(stream))["alarms"] == {"door": 1}


async def test_a_client_renews_its_token_while_it_works(
    world: LocalWorld, secrets: Secrets, looking: None
) -> None:
    config = secrets.client("broker:1")
    manager = await world.leader(TIP, more=config)
    stranger = await opening(world, secrets.client("broker:1"))
    former, new = secrets.tokens.read_text(), "the-renewed-token-0123456789"

    replaced(Path(config[TOKEN_KEY]), new)
    replaced(
        secrets.tokens,
        former.replace(line(TOKENS["broker:1"], "broker:1"), line(new, "broker:1")),
    )
    await copy(manager, segment(1))

    assert await listed(manager) == [1]
    assert await world.alarms() == {}
    with pytest.raises(RemoteStorageError, match="not known here"):
        await told(stranger)


async def test_a_token_that_was_just_added_counts_at_once(
    tmp_path: Path, secrets: Secrets
) -> None:
    new = "a-token-that-was-just-added-0123456789"
    async with guarded(tmp_path, secrets.door()) as world:
        await opening(world, secrets.client("reader"))
        replaced(secrets.tokens, secrets.tokens.read_text() + line(new, "reader"))

        after = await opening(world, with_text(new)(secrets))

        assert (await told(after))["host"] == "host-0"


async def test_a_client_whose_token_counts_no_more_hears_so_and_promises_nothing(
    world: LocalWorld, secrets: Secrets, looking: None
) -> None:
    manager = await world.leader(TIP, more=secrets.client("broker:1"))
    own = line(TOKENS["broker:1"], "broker:1")
    replaced(secrets.tokens, secrets.tokens.read_text().replace(own, ""))

    with pytest.raises(OutcomeUnknown, match="not known here"):
        await manager.add_remote_log_segment_metadata(segment(1))
    with pytest.raises(NotAuthorized, match="not known here"):
        await manager.add_remote_log_segment_metadata(segment(2))
    with pytest.raises(NotAuthorized, match="not known here"):
        await listed(manager)


async def test_replicas_are_fed_by_right_and_for_as_long_as_it_lasts(
    world: LocalWorld, secrets: Secrets, looking: None
) -> None:
    manager = await world.leader(TIP, more=secrets.client("broker:1"))
    position = await copy(manager, segment(1))
    url, claim = await world.service.url(), manager.claim_to_lead(TIP)

    async def fed(config: Mapping[str, str], claim: Claim | None) -> FedReplica:
        home = await world.opened.enter_async_context(Replicas(url, CLUSTER, settings=config))
        return home.of(TIP, LEADER, claim)

    nobody = await fed(secrets.client(), None)
    foreign = await fed(secrets.client("reader"), claim)
    reader = await fed(secrets.client("reader"), None)
    broker = await fed(secrets.client("broker:1"), claim)
    await broker.when_ready()
    await reader.reached(position)
    await eventually(lambda: nobody.trouble is not None and foreign.trouble is not None)
    assert "expected one bearer token" in str(nobody.trouble)
    assert "reader may not speak for broker 1 (subscribed)" in str(foreign.trouble)
    assert (nobody.position, foreign.position) == (-1, -1)
    reader.expect(claim)
    await eventually(lambda: reader.trouble is not None)
    assert "reader may not speak for broker 1" in str(reader.trouble)
    reader.expect(None)
    await reader.reached(await copy(manager, segment(2)))

    own = line(TOKENS["reader"], "reader")
    replaced(secrets.tokens, secrets.tokens.read_text().replace(own, ""))
    held = reader.position
    await broker.reached(await copy(manager, segment(3)))
    await eventually(lambda: "not known here" in str(reader.trouble))
    assert reader.position == held


async def test_a_wrong_list_leaves_the_former_and_raises_an_alarm(
    world: LocalWorld, secrets: Secrets, looking: None
) -> None:
    stream = await opening(world, secrets.client("reader"))
    secrets.tokens.write_text("nonsense")

    assert (await told(stream))["alarms"] == {"door": 1}
    with pytest.raises(NotAuthorized, match="expected one bearer token"):
        await opening(world, secrets.client())


async def test_a_token_counts_until_it_expires_also_on_an_open_stream(
    tmp_path: Path, secrets: Secrets, looking: None
) -> None:
    secrets.tokens.write_text(
        line(TOKENS["host"], "host") + line(TOKENS["reader"], "reader", "2030-01-01T00:00:00Z")
    )
    clock = SetClock()
    async with guarded(tmp_path, secrets.door(), clock=clock) as world:
        stream = await opening(world, secrets.client("reader"))
        assert (await told(stream))["host"] == "host-0"

        clock.ms = 1_893_456_000_000
        with pytest.raises(RemoteStorageError, match="the bearer token of reader has expired"):
            await told(stream)


def replaced(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


# Secrets stay where they are.


async def test_no_token_and_no_key_is_in_logs_answers_errors_or_pickles(
    tmp_path: Path, secrets: Secrets, capfd: pytest.CaptureFixture[str]
) -> None:
    unknown = "a-token-nobody-knows-0123456789"
    seen: list[object] = []
    async with guarded(tmp_path, secrets.door(mutual=True), hosts=2) as world:
        pair = secrets.authority.issue("broker", "broker:1")
        manager = await world.leader(TIP, more=secrets.client("broker:1", pair))
        await copy(manager, segment(1))
        config = {**secrets.client(pair=pair), TOKEN_KEY: str(tmp_path / "unknown.token")}
        (tmp_path / "unknown.token").write_text(unknown)
        with pytest.raises(NotAuthorized) as caught:
            await opening(world, config)
        stream = await opening(world, secrets.client("reader", pair))
        seen += [caught.value, repr(caught.value.__cause__), stream, vars(stream)]
        seen += [await told(stream), await world.service.coordinator.status()]
        seen += [vars(one) for one in (manager, world.door, stream._channel)]
        seen.append(pickle.dumps(world.door.security if world.door else None))
        secrets.tokens.write_text(f"{unknown} reader")
        with pytest.raises(NotAuthorized):
            await opening(world, config)
    told_all = "".join(map(repr, seen)) + "".join(capfd.readouterr())
    stored = (tmp_path / "store.sqlite").read_bytes()

    assert "a client was not let in" in told_all, "what is searched has the logs"
    keys = [one.read_text().splitlines()[1] for one in (secrets.pair[1], pair[1])]
    for secret in (unknown, *TOKENS.values(), *keys):
        assert secret not in told_all
        assert secret.encode() not in stored


# Programs that are not ours.


ASKED = "Requested Signature Algorithms"
"""Of a client's certificate."""


def s_client(door: str, *options: str | Path) -> subprocess.CompletedProcess[str]:
    command = ["openssl", "s_client", "-connect", door, "-alpn", "h2", *map(str, options)]
    return subprocess.run(
        command,
        input="",
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=60,
    )


async def test_openssl_finds_tls_1_2_or_newer_and_a_certificate_that_holds(
    tmp_path: Path, secrets: Secrets
) -> None:
    ca = secrets.authority.certificate
    async with guarded(tmp_path, secrets.door()) as world:
        door = await door_of(world)
        sessions = {
            one: await asyncio.to_thread(s_client, door, "-CAfile", ca, *one.split())
            for one in ("-tls1_3", "-tls1_2", "-tls1_1 -cipher ALL@SECLEVEL=0")
        }

    new, old, too_old = sessions.values()
    assert "Verify return code: 0 (ok)" in new.stdout
    assert "ALPN protocol: h2" in new.stdout
    assert ASKED not in new.stdout + old.stdout
    assert "TLSv1.3" in new.stdout
    assert "Verify return code: 0 (ok)" in old.stdout
    assert too_old.returncode != 0
    assert "Cipher is (NONE)" in too_old.stdout
    assert "no protocols available" not in too_old.stderr, "it was offered"


async def test_openssl_is_asked_for_a_certificate_and_needs_one(
    tmp_path: Path, secrets: Secrets
) -> None:
    pair = secrets.authority.issue("reader", "reader")
    own = ("-cert", pair[0], "-key", pair[1])
    async with guarded(tmp_path, secrets.door(mutual=True)) as world:
        door = await door_of(world)
        without = await asyncio.to_thread(s_client, door, "-tls1_2")
        with_own = await asyncio.to_thread(s_client, door, "-tls1_2", *own)

    assert ASKED in without.stdout
    assert without.returncode != 0
    assert with_own.returncode == 0


def described() -> Any:  # noqa: ANN401
    """Message classes made of the .proto file alone."""
    command = ["-m", "grpc_tools.protoc", f"--proto_path={PROTO.parent}"]
    files = subprocess.run(
        [sys.executable, *command, "--descriptor_set_out=/dev/stdout", PROTO.name],
        check=True,
        capture_output=True,
    ).stdout
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(files).file:
        pool.Add(file)
    return {
        name: message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"tierledger.door.v1.{name}")
        )
        for name in ("ClientFrame", "HostFrame")
    }


def converse(door: str, ca: bytes, token: str | None, *texts: dict[str, Any]) -> list[Any]:
    """A host's answers to frames that gRPC's own blocking client sends."""
    made = described()
    metadata = () if token is None else (("authorization", f"Bearer {token}"),)
    with grpc.secure_channel(door, grpc.ssl_channel_credentials(ca)) as channel:
        call = channel.stream_stream(
            "/tierledger.door.v1.Door/Converse",
            request_serializer=made["ClientFrame"].SerializeToString,
            response_deserializer=made["HostFrame"].FromString,
        )
        return list(call((made["ClientFrame"](**one) for one in texts), metadata=metadata))


async def test_a_client_that_is_made_of_the_description_alone_is_answered(
    tmp_path: Path, secrets: Secrets
) -> None:
    ca = secrets.authority.certificate.read_bytes()
    greeting = {"version_min": 1, "version_max": 1, "cluster_id": CLUSTER, "broker_id": 3}
    frames = ({"greeting": greeting}, {"calls": [{"id": 1, "hosts": {}}]})
    async with guarded(tmp_path, secrets.door()) as world:
        door = await door_of(world)
        let_in = await asyncio.to_thread(converse, door, ca, TOKENS["broker:3"], *frames)
        as_other = await asyncio.to_thread(converse, door, ca, TOKENS["broker:1"], *frames)
        nobody = await asyncio.to_thread(converse, door, ca, None, *frames)

    assert let_in[0].greeting.cluster_id == CLUSTER
    assert "broker:1 may not speak for broker 3" in as_other[0].farewell.message
    for frame in (as_other, nobody):
        assert len(frame) == 1
        assert frame[0].farewell.kind == 18
        assert not frame[0].HasField("greeting"), "strangers are told nothing"


async def test_a_url_is_enough_for_a_manager(world: LocalWorld, secrets: Secrets) -> None:
    url = await world.service.url()
    assert url.startswith(TLS_SCHEME)
    own = {"cluster.id": CLUSTER, "broker.id": 1}
    config = {f"rlmm.config.{key}": one for key, one in secrets.client("broker:1").items()}
    manager = AsyncRemoteLogMetadataManager()
    await manager.configure({"metadata.storage.url": url, **own, **config})
    await manager.close()

    plain = AsyncRemoteLogMetadataManager()
    with pytest.raises(NotAuthorized, match="speaks TLS"):
        await plain.configure({"metadata.storage.url": url.replace(TLS_SCHEME, SCHEME), **own})

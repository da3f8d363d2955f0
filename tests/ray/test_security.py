"""A service with TLS and tokens on Ray: where it listens, and what it gives away."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.models.actors.local_world import CLUSTER, copy, lead, listed, partition, segment
from tests.models.actors.secrets import TOKENS, Secrets, token_file
from tests.ray.test_serve import run, served
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.door.client.connection import connect_at
from tierledger.actors.wall_clock import RandomIds
from tierledger.cli.exit_status import ExitStatus
from tierledger.events.errors import NotAuthorized
from tierledger.simulation.live.processes import descendants

TIP = partition()
LOOPBACK = ("127.", "[::1]:", "[::ffff:127.")


def listened_on(pids: set[int]) -> dict[str, str]:
    """The addresses on which processes listen, each with its process."""
    sockets = subprocess.run(
        ["ss", "-Hltnp"], check=True, capture_output=True, text=True
    ).stdout
    return {
        line.split()[3]: line
        for line in sockets.splitlines()
        if pids & {int(one) for one in re.findall(r"pid=(\d+)", line)}
    }


def shown_by(pid: int) -> bytes:
    """The process as `ps` shows it: its arguments, and its environment to its user."""
    try:
        found = [Path(f"/proc/{pid}/{one}").read_bytes() for one in ("cmdline", "environ")]
    except OSError:
        return b""
    return b"".join(found)


async def test_a_served_door_lets_in_who_proves_it_and_gives_nothing_away(
    tmp_path: Path,
) -> None:
    secrets = Secrets(tmp_path)
    store = f"sqlite:{tmp_path / 'store.sqlite'}"
    ca = secrets.authority.certificate
    options = ["--cluster", CLUSTER, "--hosts", 2, "--listen", "127.0.0.1:0", "--tls-ca", ca]
    options += ["--tls-cert", secrets.pair[0], "--tls-key", secrets.pair[1]]
    options += ["--tokens", secrets.tokens, "--host-token", token_file(tmp_path, "host")]
    with served(store, *options) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        own = {"metadata.storage.url": store, "cluster.id": CLUSTER, "broker.id": 1}
        manager = AsyncRemoteLogMetadataManager(connect_at(url), RandomIds())
        await manager.configure({**own, **secrets.client("broker:1")})
        await lead(manager, TIP)
        await copy(manager, segment(1))
        assert await listed(manager) == [1]
        await manager.close()
        stranger = AsyncRemoteLogMetadataManager(connect_at(url), RandomIds())
        with pytest.raises(NotAuthorized, match="broker:3 may not speak for broker 1"):
            await stranger.configure({**own, **secrets.client("broker:3")})

        pids = {process.pid, *descendants(process.pid)}
        where = listened_on(pids)
        shown = b"".join(map(shown_by, pids))
        status = run("status", "--store", store, "--json").stdout
    stored = (tmp_path / "store.sqlite").read_bytes()
    secret = [secrets.pair[1].read_text().splitlines()[1], *TOKENS.values()]

    assert url.startswith("tierledgers://127.0.0.1:")
    assert len(where) > 4, "two doors, and Ray's own"
    assert not [line for at, line in where.items() if not at.startswith(LOOPBACK)]
    assert str(secrets.tokens) in shown.decode(errors="replace"), "paths may be seen"
    for one in secret:
        assert one.encode() not in shown
        assert one.encode() not in stored
        assert one not in status


def test_a_door_to_other_machines_is_not_opened_by_default(tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite"
    everywhere = ["--listen", "0.0.0.0:0", "--advertise", "127.0.0.1"]

    refused = run("serve", "--store", f"sqlite:{store}", *everywhere)

    assert refused.returncode == ExitStatus.USAGE
    assert "0.0.0.0:0 can be reached from other machines: expected encryption" in refused.stderr
    assert "or --allow-plaintext --allow-anonymous to do without" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
    assert not store.exists()

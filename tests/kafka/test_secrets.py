"""Neither token nor key is in a line of the plugin's log, at whatever level."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.models.door_secrets import TOKENS, Secrets, token_file
from tests.models.local_world import CLUSTER
from tests.models.plugins import log_level, started
from tests.ray.test_serve import served
from tierledger.simulation.live.kafka_broker import JARS

JAVA_LOGGING = """\
handlers=java.util.logging.ConsoleHandler
java.util.logging.ConsoleHandler.level=ALL
.level=ALL
"""

pytestmark = pytest.mark.ray


async def test_no_line_has_them(tmp_path: Path) -> None:
    secrets = Secrets(tmp_path)
    options: list[object] = ["--cluster", CLUSTER, "--listen", "127.0.0.1:0"]
    options += ["--tls-ca", secrets.authority.certificate]
    options += ["--tls-cert", secrets.pair[0], "--tls-key", secrets.pair[1]]
    options += ["--tokens", secrets.tokens, "--host-token", token_file(tmp_path, "host")]
    certificate, key = secrets.authority.issue("broker", "broker")
    broken = tmp_path / "broken.key"
    broken.write_text(key.read_text().replace("M", "hush+key M", 1))
    log, logging = tmp_path / "log", tmp_path / "logging"
    logging.write_text(JAVA_LOGGING)
    java = (log_level(tmp_path, "trace"), f"-Djava.util.logging.config.file={logging}")
    given = {
        "tierledger.ssl.ca.location": secrets.authority.certificate,
        "tierledger.ssl.certificate.location": certificate,
        "tierledger.token.location": token_file(tmp_path, "broker:1"),
    }
    with (
        served(f"sqlite:{tmp_path / 'store.sqlite'}", *options) as process,
        started(JARS, *java, log=log) as plugins,
    ):
        assert process.stdout is not None, "it is a pipe"
        url = process.stdout.readline().split()[-1]
        for file in (key, broken):
            await plugins.open(
                1, CLUSTER, url, **given, **{"tierledger.ssl.key.location": file}
            )
            said = "tierledger answers at" if file is key else "a file of the plugin's settings"
            while said not in log.read_text():  # noqa: ASYNC110 - It has no event.
                await asyncio.sleep(0.01)
            assert await plugins.ask("1 close") == "done"
    text = log.read_text()
    assert ".shaded.grpc." in text, "the connections say what they do"
    lines = key.read_text().splitlines()[1:-1]
    for secret in (TOKENS["broker:1"], "hush+key", *lines):
        assert secret not in text

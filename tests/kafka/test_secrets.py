"""Neither token nor key is in a line of the plugin's log, at whatever level."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.actors.door.test_security import guarded
from tests.models.actors.local_world import CLUSTER
from tests.models.actors.secrets import TOKENS, Secrets, token_file
from tests.models.kafka.plugins import log_level, started
from tierledger.benchmarks.kafka_broker import JARS

JAVA_LOGGING = """\
handlers=java.util.logging.ConsoleHandler
java.util.logging.ConsoleHandler.level=ALL
.level=ALL
"""


async def test_no_line_has_them(tmp_path: Path) -> None:
    secrets = Secrets(tmp_path)
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
    with started(JARS, *java, log=log) as plugins:
        async with guarded(tmp_path, secrets.door()) as world:
            url = await world.service.url()
            for file, message in (
                (key, "tierledger answers at"),
                (broken, "a file of the plugin's settings"),
            ):
                own_key = {"tierledger.ssl.key.location": file}
                await plugins.open(1, CLUSTER, url, **given, **own_key)
                while message not in log.read_text():  # noqa: ASYNC110 - It has no event.
                    await asyncio.sleep(0.01)
                assert await plugins.ask("1 close") == "done"
    text = log.read_text()
    assert ".shaded.grpc." in text, "the connections say what they do"
    lines = key.read_text().splitlines()[1:-1]
    for secret in (TOKENS["broker:1"], "hush+key", *lines):
        assert secret not in text

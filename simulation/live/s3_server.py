"""A real S3 server, which can be stopped, killed, frozen and restarted on its data.

The server is S3Proxy, a Java program that keeps each object as a file in its data folder (see
tests/s3_server/pom.xml; `scripts/setup.sh --with-java` fetches it). It listens only on
loopback, checks signatures, and leaves neither a process nor a file behind.
"""

from __future__ import annotations

import http.client
import shutil
from contextlib import closing, suppress
from pathlib import Path

from typing_extensions import override

from tierledger.simulation.live.server import QUICK_JAVA, LiveServer

JARS = Path(__file__).parents[2] / ".venv" / "s3proxy"
BUCKET = "tier"
IDENTITY = "test-identity"
SECRET = "test-secret-of-no-value"

_LOGGING = """\
<configuration>
  <appender name="E" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{HH:mm:ss.SSS} %level %logger{0} %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="E"/></root>
</configuration>
"""

# The server keeps each request in memory to check its signature.
_JAVA = ("java", "-Xmx1g", *QUICK_JAVA)


class S3Server(LiveServer):
    """A server with one bucket; a context manager that starts it and removes everything.

    It accepts 8 MiB/s.
    """

    name = "s3"

    def __init__(self) -> None:
        """Prepare a server on a port of its own."""
        super().__init__()
        self._prefixes = 0

    @override
    def _prepare(self) -> None:
        (self.data / BUCKET).mkdir(parents=True)
        (self.folder / "logback.xml").write_text(_LOGGING)
        (self.folder / "s3proxy.properties").write_text(self._properties())

    @property
    def data(self) -> Path:
        """The server's data: a folder for each bucket, a file for each object."""
        return self.folder / "data"

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def options(self, endpoint: str | None = None) -> dict[str, str]:
        """Options for `open_tier` to reach the server, or a proxy of it at `endpoint`."""
        return {
            "endpoint": endpoint or self.endpoint,
            "region": "us-east-1",
            "access_key_id": IDENTITY,
            "secret_access_key": SECRET,
            "allow_http": "true",
        }

    def environment(self, endpoint: str | None = None) -> dict[str, str]:
        """The same as variables of the environment."""
        return {f"AWS_{key.upper()}": value for key, value in self.options(endpoint).items()}

    def place(self) -> str:
        """The URL of an empty prefix in the bucket; each call returns another."""
        self._prefixes += 1
        return f"s3://{BUCKET}/tier-{self._prefixes}"

    def objects(self, url: str) -> dict[str, int]:
        """Names relative to `url` and sizes of the objects under `url`, read from disk."""
        root = self.data / url.removeprefix("s3://")
        return {
            str(path.relative_to(root)): path.stat().st_size
            for path in sorted(root.rglob("*"))
            if path.is_file()
        }

    @override
    def _command(self) -> list[str]:
        if not (JARS / ".key").exists() or shutil.which("java") is None:
            raise RuntimeError(
                f"the S3 server is not in {JARS}, or there is no Java: "
                "run scripts/setup.sh --with-java, which installs both or says how to"
            )
        return [
            *_JAVA,
            f"-Dlogback.configurationFile={self.folder / 'logback.xml'}",
            "-cp",
            f"{JARS}/*",
            "org.gaul.s3proxy.Main",
            "--properties",
            str(self.folder / "s3proxy.properties"),
        ]

    @override
    def _is_up(self) -> bool:
        with suppress(OSError, http.client.HTTPException), closing(self._connect()) as to:
            to.request("GET", "/")  # Unsigned, so refused, but answered.
            to.getresponse().read()
            return True
        return False

    def _properties(self) -> str:
        lines = {
            "s3proxy.endpoint": self.endpoint,
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.identity": IDENTITY,
            "s3proxy.credential": SECRET,
            # A bulk delete has its checksum in a header that the server does not know.
            "s3proxy.ignore-unknown-headers": "true",
            "jclouds.provider": "filesystem-nio2",
            "jclouds.identity": "none",
            "jclouds.credential": "none",
            "jclouds.filesystem.basedir": str(self.data),
        }
        return "".join(f"{key}={value}\n" for key, value in lines.items())

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)

"""A real S3 server for tests: started, stopped, killed, frozen, started again on the same data.

It is S3Proxy, a Java program that keeps each object as a file of its data folder (see
tests/s3_server/pom.xml; `scripts/setup.sh --with-java` fetches it). It listens on loopback
only, checks signatures, and leaves neither a process nor a file behind.
"""

from __future__ import annotations

import http.client
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tierledger.simulation.live.postgres_server import free_port

if TYPE_CHECKING:
    from types import TracebackType

JARS = Path(__file__).parents[2] / ".venv" / "s3proxy"
BUCKET = "tier"
IDENTITY = "test-identity"
SECRET = "test-secret-of-no-value"

READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20.0
POLL_S = 0.01

_LOGGING = """\
<configuration>
  <appender name="E" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{HH:mm:ss.SSS} %level %logger{0} %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="E"/></root>
</configuration>
"""

# It keeps a request in memory to check its signature.
_JAVA = ("java", "-Xmx1g", "-XX:+UseSerialGC", "-Xshare:auto")


class S3Server:
    """A server with one bucket; a context manager that starts it and removes everything."""

    def __init__(self, *, for_bulk: bool = False) -> None:
        """Prepare a server on a port of its own.

        It starts in half the time if it is not meant for bulk, and then takes 8 MiB/s.
        """
        self.port = free_port()
        self._java = _JAVA if for_bulk else (*_JAVA, "-XX:TieredStopAtLevel=1")
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._prefixes = 0

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="tierledger-s3-"))
        try:
            (self.data / BUCKET).mkdir(parents=True)
            (self._folder / "logback.xml").write_text(_LOGGING)
            (self._folder / "s3proxy.properties").write_text(self._properties())
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()

    @property
    def folder(self) -> Path:
        """Where everything of this server lies."""
        assert self._folder is not None, "enter the server first"
        return self._folder

    @property
    def data(self) -> Path:
        """The server's data: a folder for each bucket, a file for each object."""
        return self.folder / "data"

    @property
    def bucket_folder(self) -> Path:
        """The bucket, seen from behind."""
        return self.data / BUCKET

    @property
    def endpoint(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The server's process."""
        assert self._process is not None, "the server does not run"
        return self._process.pid

    def options(self, endpoint: str | None = None) -> dict[str, str]:
        """What `open_tier` must know to reach it, possibly through a proxy at `endpoint`."""
        return {
            "endpoint": endpoint or self.endpoint,
            "region": "us-east-1",
            "access_key_id": IDENTITY,
            "secret_access_key": SECRET,
            "allow_http": "true",
        }

    def place(self) -> str:
        """The URL of an empty prefix in the bucket, which nobody else was given."""
        self._prefixes += 1
        return f"s3://{BUCKET}/tier-{self._prefixes}"

    def objects(self, url: str) -> dict[str, int]:
        """Names (behind `url`) and sizes of the objects under `url`, as the disk holds them."""
        root = self.data / url.removeprefix("s3://")
        return {
            str(path.relative_to(root)): path.stat().st_size
            for path in sorted(root.rglob("*"))
            if path.is_file()
        }

    def start(self) -> None:
        """Start it on what the folder holds; returns when it answers.

        Raises:
            RuntimeError: It did not come up, with the end of its log; or it is not installed.
        """
        assert self._process is None, "the server runs already"
        if not (JARS / ".key").exists() or shutil.which("java") is None:
            raise RuntimeError(
                f"the S3 server is not in {JARS}, or there is no Java: "
                "run scripts/setup.sh --with-java, which installs both or says how to"
            )
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *self._java,
                    f"-Dlogback.configurationFile={self.folder / 'logback.xml'}",
                    "-cp",
                    f"{JARS}/*",
                    "org.gaul.s3proxy.Main",
                    "--properties",
                    str(self.folder / "s3proxy.properties"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
            )
        self._wait_until_ready()

    def stop(self) -> None:
        """End it in good order."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a power cut would; `start` brings it back with the same data."""
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """Stop it where it is: connections stay open, nothing answers."""
        self._running().send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._running().send_signal(signal.SIGCONT)

    def remove(self) -> None:
        """End it and remove its folder."""
        self.kill()
        if self._folder is not None:
            shutil.rmtree(self._folder)
            self._folder = None

    def log(self) -> str:
        """What the server wrote."""
        return self._log.read_text(errors="replace")

    @property
    def _log(self) -> Path:
        return self.folder / "server.log"

    def _properties(self) -> str:
        lines = {
            "s3proxy.endpoint": self.endpoint,
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.identity": IDENTITY,
            "s3proxy.credential": SECRET,
            # A bulk delete brings a checksum in a header that it does not know.
            "s3proxy.ignore-unknown-headers": "true",
            "jclouds.provider": "filesystem-nio2",
            "jclouds.identity": "none",
            "jclouds.credential": "none",
            "jclouds.filesystem.basedir": str(self.data),
        }
        return "".join(f"{key}={value}\n" for key, value in lines.items())

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the server does not run"
        return self._process

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGCONT)
        process.send_signal(how)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_TIMEOUT_S)

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)

    def _wait_until_ready(self) -> None:
        process = self._running()
        deadline = time.monotonic() + READY_TIMEOUT_S
        while process.poll() is None and time.monotonic() < deadline:
            with suppress(OSError, http.client.HTTPException), closing(self._connect()) as to:
                to.request("GET", "/")  # Refused, as it is not signed; an answer.
                to.getresponse().read()
                return
            time.sleep(POLL_S)
        self.kill()
        raise RuntimeError(f"the S3 server did not start: {self.log()[-2000:]}")

"""Kafka's own tests of tiered storage pass on brokers with the plugin, each of them.

They wait up to 35 s for what they expect; two classes take 50 s with any manager. What a run
leaves in its folder: JUnit's report, the brokers' log, and a store for each test's cluster.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
from asyncio.subprocess import STDOUT
from collections import Counter
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET
from zipfile import ZipFile

import pytest

from tests.models.kafka.any_cluster import any_cluster
from tierledger.benchmarks.kafka_broker import PLUGIN_JAR, SUITE

PACKAGE = "org.apache.kafka.tiered.storage"

_LOGGING = """\
<Configuration status="off">
  <Appenders>
    <Console name="out"><PatternLayout pattern="%d{ABSOLUTE} %p %c{1} %m%n%ex"/></Console>
  </Appenders>
  <Loggers>
    <Logger name="org.tierledger" level="info"/>
    <Root level="error"><AppenderRef ref="out"/></Root>
  </Loggers>
</Configuration>
"""


class Ran(NamedTuple):
    """One of Kafka's tests."""

    name: str
    failure: str
    """Empty if it passed."""


@pytest.fixture(scope="module")
def wrapper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The classes that run Kafka's, compiled."""
    if not (SUITE / ".key").exists() or not PLUGIN_JAR.exists():
        raise RuntimeError(
            f"{SUITE} or {PLUGIN_JAR} is missing: run scripts/setup.sh --with-kafka-suite"
        )
    classes = tmp_path_factory.mktemp("classes")
    source = Path(__file__).with_name("TierledgerSuite.java")
    compiler = ["javac", "-proc:none", "-nowarn", "-cp", f"{SUITE}/*"]
    subprocess.run([*compiler, "-d", str(classes), str(source)], check=True)
    return classes


def names_of_tests() -> list[str]:
    """Kafka's classes of tests, but for the transactions'."""
    (jar,) = SUITE.glob("kafka-storage-*-test.jar")
    folder = f"{PACKAGE.replace('.', '/')}/integration"
    files = "\n".join(ZipFile(jar).namelist())
    found = re.findall(rf"^{folder}/(?!Base|Transactions)(\w+)\.class$", files, re.MULTILINE)
    return sorted(found)


async def run(
    wrapper: Path, folder: Path, tests: list[str]
) -> tuple[list[Ran], dict[str, Counter[str]]]:
    """The outcomes of Kafka's `tests`, and the alarms of each cluster that they started.

    The class that is called as `folder` runs them, in a Java process of its own.
    """
    (folder / "tmp").mkdir(parents=True)
    (folder / "log4j2.xml").write_text(_LOGGING)
    async with any_cluster(folder) as door:
        with (folder / "log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *("java", "-Xmx2g", f"-Djava.io.tmpdir={folder / 'tmp'}"),
                f"-Dlog4j2.configurationFile={folder / 'log4j2.xml'}",
                f"-Dsuite.tests={','.join(tests)}",
                f"-Dsuite.plugin={PLUGIN_JAR}",
                f"-Dsuite.door={door.address}",
                *("-cp", f"{wrapper}:{SUITE}/*"),
                *("org.junit.platform.console.ConsoleLauncher", "execute"),
                *("--select-class", f"{PACKAGE}.TierledgerSuite${folder.name}"),
                *("--details", "none", "--disable-banner", "--reports-dir", folder),
                stdout=log,
                stderr=STDOUT,
            )
            try:
                await process.wait()
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
    report = folder / "TEST-junit-jupiter.xml"
    assert report.exists(), (folder / "log").read_text(errors="replace")[-5_000:]
    ran = [told(case, tests) for case in ET.parse(report).iter("testcase")]
    return ran, door.alarms


def told(case: ET.Element, tests: list[str]) -> Ran:
    """What JUnit reports of one test; it numbers classes as they stand in `tests`."""
    output = "".join(one.text or "" for one in case.iter("system-out"))
    number = re.search(r"class-template-invocation:#(\d+)", output)
    shown = re.search(r"display-name: (?:executeTieredStorageTest\(String\)\.)?(.+)", output)
    assert shown is not None, f"expected a display-name, got {output!r}"
    test = tests[int(number[1]) - 1 if number else 0]
    wrong = [f"{one.tag}: {one.text}" for one in case if not one.tag.startswith("system-")]
    return Ran(f"{test}.{shown[1]}", "\n".join(wrong))


@pytest.mark.long
@pytest.mark.timeout(7200)
async def test_each_of_kafkas_tests_passes(
    wrapper: Path, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    done = await asyncio.gather(
        run(wrapper, tmp_path / "Tiering", names_of_tests()),
        run(wrapper, tmp_path / "Transactions", ["TransactionsWithTieredStoreTest"]),
    )
    for ran, _ in done:
        for name, failure in ran:
            with subtests.test(name):
                if failure:
                    pytest.fail(failure, pytrace=False)
    assert [len(ran) for ran, _ in done] == [32, 42]
    assert [len(alarms) for _, alarms in done] == [32, 42], "each has a cluster, on tierledger"
    assert not [found for _, alarms in done for found in alarms.values() if found]

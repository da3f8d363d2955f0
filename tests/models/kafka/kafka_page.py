"""The commands and settings in docs/kafka.md, with a test's own store and servers."""

from __future__ import annotations

import re
from pathlib import Path

from tierledger.benchmarks.kafka_broker import CLUSTER_ID

_PAGE = Path(__file__).parents[3] / "docs" / "kafka.md"


def _blocks(language: str) -> list[str]:
    text = _PAGE.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def commands(store: str, door: str, kafka: str) -> list[list[str]]:
    """The arguments of each `tierledger` command, in the page's order."""
    instead = {
        "sqlite:ledger.sqlite": store,
        "127.0.0.1:4711": door,
        "127.0.0.1:9092": kafka,
        '"$CLUSTER"': CLUSTER_ID,
    }
    lines = "".join(_blocks("console")).replace("\\\n", "").splitlines()
    return [
        [instead.get(one, one) for one in line.split()[2:]]
        for line in lines
        if line.startswith("$ tierledger ")
    ]


def settings() -> set[str]:
    """The keys of the page's settings for brokers, without those of the service's own file."""
    brokers = [block for block in _blocks("properties") if "rlmm.config." in block]
    return {line.partition("=")[0] for block in brokers for line in block.splitlines()}

"""Whether a cluster is fresh is asked until its partitions have leaders."""

import pytest

from tierledger.events.errors import StorageUnavailable
from tierledger.moving import freshness
from tierledger.moving.freshness import once_led


class Electing:
    """A cluster that elects the last leader after some looks."""

    def __init__(self, looks: int) -> None:
        self.left = looks

    async def starts(self) -> list[str]:
        self.left -= 1
        if self.left >= 0:
            raise StorageUnavailable("where a-0 starts, broker 1: NotLeaderForPartitionError")
        return ["a-0"]


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freshness, "ELECTION_LOOK_S", 0.0)


async def test_brokers_that_were_just_started_are_asked_again() -> None:
    assert await once_led(Electing(3).starts) == ["a-0"]


async def test_what_nobody_leads_for_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freshness, "ELECTION_S", 0.0)

    with pytest.raises(StorageUnavailable, match="NotLeaderForPartition"):
        await once_led(Electing(3).starts)

"""The tier and the store that a clean-up works on, and how it looks at them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from tierledger.actors.wall_clock import WallClock
from tierledger.cli.opened_store import StoreOptions, opened_catalog
from tierledger.cli.output import progress
from tierledger.cli.settings import cluster_setting, store_config
from tierledger.storage.locate import default_store_url

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tierledger.actors.coordinator.fold import Fold
    from tierledger.pipeline.cleaning.look import SeenTier
    from tierledger.pipeline.cleaning.rules import CleaningAges, SeenLog
    from tierledger.pipeline.cleaning.weights import CleaningRefusal, DeadWeight, LeftWeight
    from tierledger.pipeline.jobs.audit.segments import LogKey
    from tierledger.tiering.layouts.listed_objects import LayoutNames
    from tierledger.tiering.layouts.tier_url import TierUrl
    from tierledger.tiering.objects.store import ObjectStore


TRASH_MS: Final = 7 * 86_400_000
"""How long finished segments stay in the trash, unless a term says longer."""


class CleanedTier(NamedTuple):
    """A tier, opened, and the store that knows it."""

    given: str
    url: TierUrl
    names: LayoutNames
    objects: ObjectStore
    options: StoreOptions

    @classmethod
    def of(cls, tier: str, options: StoreOptions) -> CleanedTier:
        from tierledger.tiering.layouts.listed_objects import names_of
        from tierledger.tiering.layouts.tier_url import open_store, parse

        store_config(options.store)  # A URL that is no store's is refused at once.
        url = parse(tier)
        return cls(tier, url, names_of(url.layout, url.prefix), open_store(url), options)


class Weighed(NamedTuple):
    """What a look has found, judged."""

    looked: SeenTier
    weights: Sequence[DeadWeight]
    left: Sequence[LeftWeight]
    led: Mapping[LogKey, str]
    """Partitions whose events only a service writes, and why."""

    def is_led(self, one: DeadWeight) -> bool:
        """Whether it ends by events that only a service writes."""
        from tierledger.pipeline.cleaning.weights import BY_EVENTS

        return one.kind in BY_EVENTS and (one.topic_id, one.partition) in self.led


def weigh(tier: CleanedTier, ages: CleaningAges) -> Weighed:
    """Look at the tier and its store, and judge what is there.

    Raises:
        RejectedError: Nothing can be judged; begins with the name of a `CleaningRefusal`.
    """
    from tierledger.pipeline.cleaning.look import looked
    from tierledger.pipeline.cleaning.rules import refuse_world, weighed
    from tierledger.pipeline.folding.store import JobStore
    from tierledger.storage.connector import URL_SETTING

    config = store_config(tier.options.store) or {URL_SETTING: str(default_store_url())}
    store = JobStore.of(config, cluster_setting(tier.options.cluster))
    bars = asyncio.run(_bars(tier.options))
    bars.refuse_all()
    with progress("clean: objects listed") as on_listed:
        found = looked(store, tier.objects, tier.names, WallClock().now_ms, on_listed)
    refuse_world(found.world, ages)
    led = {key: why for key, log in found.world.logs.items() if (why := bars.why_led(log))}
    return Weighed(found, *weighed(found.world, ages, bars.of), led)


async def _bars(options: StoreOptions) -> Bars:
    from tierledger.actors.coordinator.log import folded

    async with opened_catalog(options) as catalog:
        return Bars(await folded(catalog), WallClock().now_ms())


class Bars:
    """Why nothing is cleaned up, by what the coordinator's log tells."""

    def __init__(self, fold: Fold, now_ms: int) -> None:
        self._fold = fold
        self._now_ms = now_ms

    def refuse_all(self) -> None:
        """Check that this store decides what is deleted, and that something may be.

        Raises:
            RejectedError: It does not, or nothing may be.
        """
        from tierledger.actors.coordinator.holding import deletions
        from tierledger.pipeline.cleaning.rules import refuse
        from tierledger.pipeline.cleaning.weights import CleaningRefusal

        ownership = self._fold.state.ownership
        if ownership.has_another:
            refuse(
                CleaningRefusal.NOT_THE_OWNER,
                f"the metadata's owner is {ownership.owner}; expected tierledger, since "
                "another manager knows segments that this store does not",
            )
        if held := deletions(self._fold.state).held:
            refuse(CleaningRefusal.DELETIONS_HELD, held)

    def why_led(self, log: SeenLog) -> str:
        """Why only its leader, or a coordinator, may write a partition's log; empty: we may."""
        from tierledger.actors.coordinator.unled_log import hosting
        from tierledger.events.identifiers import TopicIdPartition, Uuid

        tip = TopicIdPartition(Uuid.parse(log.key.topic_id), log.key.partition, log.topic)
        if brokers := hosting(self._fold, tip):
            return f"it is hosted by brokers {', '.join(map(str, brokers))}"
        return "its session is open: a broker leads it" if log.is_open else ""

    def of(self, log: SeenLog) -> tuple[CleaningRefusal, str] | None:
        """Why nothing of a partition is touched."""
        from tierledger.actors.coordinator.events import Owner
        from tierledger.actors.coordinator.holding import deletions
        from tierledger.actors.due import why_held
        from tierledger.events.identifiers import TopicIdPartition, Uuid
        from tierledger.pipeline.cleaning.weights import CleaningRefusal

        state = self._fold.state
        tip = TopicIdPartition(Uuid.parse(log.key.topic_id), log.key.partition, log.topic)
        if log.imports is not None and state.ownership.owner != Owner.TIERLEDGER:
            what = (
                f"its log imports the history of {log.imports}, which Kafka's manager decides"
            )
            return CleaningRefusal.NOT_THE_OWNER, what
        if why := why_held(tip, deletions(state), self._now_ms):
            return CleaningRefusal.HELD, why
        return None

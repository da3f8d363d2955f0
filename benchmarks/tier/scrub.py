"""A scrub of a log that a copy task has put into a directory: every byte and every batch."""

import time

from tierledger.benchmarks.report import Figure, median
from tierledger.benchmarks.scale import Bench
from tierledger.benchmarks.tier.logs import write_log
from tierledger.benchmarks.tier.read import MIB, SEGMENTS, copied
from tierledger.cli.opened_store import StoreOptions, chosen_partitions, opened_catalog
from tierledger.tiering.layouts.listed_objects import names_of
from tierledger.tiering.layouts.tier_url import Layout, open_tier
from tierledger.tiering.scrub.progress import Progress
from tierledger.tiering.scrub.scrubber import Scrubber
from tierledger.tiering.scrub.segments import CatalogSegments


async def measure(bench: Bench) -> list[Figure]:
    """MiB of the tier per second, in a process that does nothing else."""
    folder = bench.new_store("tier-scrub").with_suffix("")
    bench.say("tier: writing and copying a log")
    written = write_log(folder / "tiered-0", SEGMENTS, bench.scale.tier_bytes // SEGMENTS)
    async with copied(folder, written):
        pass
    rates = []
    options = StoreOptions(f"sqlite:{folder / 'ledger.sqlite'}")
    async with opened_catalog(options) as catalog:
        partitions = await chosen_partitions(catalog, None, None)
        for _ in bench.turns("tier: scrubbing"):
            progress = Progress({})
            async with open_tier(f"dir:{folder / 'tier'}") as storage:
                scrubber = Scrubber(
                    CatalogSegments(catalog, partitions),
                    storage,
                    names_of(Layout.LEDGER, ""),
                    progress,
                    bytes_per_second=None,
                )
                begun = time.perf_counter()
                async for _ in scrubber.run():
                    pass
                rates.append(progress.bytes / MIB / (time.perf_counter() - begun))
            assert progress.segments == SEGMENTS, "all of it was read"
            assert not progress.findings, "nothing is damaged"
    what = f"{written.size_in_bytes / MIB:,.0f} MiB of log in batches of 16 KiB, our own layout"
    return [median("tier: scrubbed, directory", rates, "MiB/s", None, what)]

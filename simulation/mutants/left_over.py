"""Mistakes after which something is left over that nothing needs any more."""

from __future__ import annotations

from tierledger.simulation.mutants.mistakes import Patches, mistake
from tierledger.simulation.mutants.rewriting import rewritten
from tierledger.storage.partition.checkpoint import CheckpointStore


@mistake("M106", "stray_key")
def dropped_page_stays() -> Patches:
    """A page that a table no longer has stays in the store."""
    return rewritten(CheckpointStore._pages, "in sorted(table.dropped)", "in ()")

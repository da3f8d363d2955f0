"""Counters of an index cache, for metrics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class IndexCacheCounts:
    """What a cache has done since it was made, and what it holds now."""

    hits: int = 0
    """Calls answered from memory."""
    misses: int = 0
    """Calls that waited for a file or for remote storage."""
    file_hits: int = 0
    """Entries read back from their files, without a remote request."""
    loads: int = 0
    """Entries fetched from remote storage."""
    load_failures: int = 0
    evictions: int = 0
    removals: int = 0
    """Entries that `remove` took out."""
    distrusted: int = 0
    """Entries that `distrust` took out: their positions did not match the log."""
    corrupt_files: int = 0
    """Damaged cache files, which were removed."""
    corrupt_downloads: int = 0
    """Indexes from remote storage that did not verify, and were dropped."""
    empty_offset_indexes: int = 0
    """Loads of an offset index that should have entries and has none; reads start at 0."""
    file_errors: int = 0
    """Failed reads, writes, renames or removals of cache files."""
    files_removed_at_start: int = 0
    """Temporary files left over by a process that ended too early."""
    refusals: int = 0
    """Failed openings: another cache uses the directory, or it is unusable."""
    entries: int = 0
    bytes: int = 0

"""What an index cache tells about itself, for metrics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class IndexCacheCounts:
    """What a cache has done since it was made, and what it holds."""

    hits: int = 0
    """Answered from memory."""
    misses: int = 0
    """Had to wait: for a file, or for remote storage."""
    file_hits: int = 0
    """Entries read back from their files, without a request."""
    loads: int = 0
    """Entries that came from remote storage."""
    load_failures: int = 0
    evictions: int = 0
    removals: int = 0
    """Entries that `remove` took out."""
    distrusted: int = 0
    """Entries that `distrust` took out: the log was not where they said."""
    corrupt_files: int = 0
    """Files of the cache that were damaged, and removed."""
    corrupt_downloads: int = 0
    """Indexes from remote storage that did not verify, and were thrown away."""
    empty_offset_indexes: int = 0
    """Loads of an offset index that has no entries and should: it is done without."""
    file_errors: int = 0
    """Times that the disk refused to read, write, rename or remove."""
    files_removed_at_start: int = 0
    """Left over by a process that ended too early."""
    refusals: int = 0
    """Times that the directory could not be had: another cache uses it, or nobody can."""
    entries: int = 0
    bytes: int = 0

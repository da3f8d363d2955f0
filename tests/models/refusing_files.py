"""A directory of the index cache on a disk that refuses what it is told to."""

import errno
from pathlib import Path

from typing_extensions import override

from tierledger.tiering.index_cache.files import CacheDirectory, SegmentKey


class RefusingFiles(CacheDirectory):
    """Counts down how often it refuses each kind of work."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.full_for = 0
        """Writes that find the disk full when half of the file is there."""
        self.keeps_names_for = 0
        """Renames that are refused."""
        self.keeps_files_for = 0
        """Removals that are refused."""

    @override
    def write(self, path: Path, data: bytes) -> None:
        if self.full_for:
            self.full_for -= 1
            super().write(path, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        super().write(path, data)

    @override
    def keep(self, temporary: Path, key: SegmentKey) -> None:
        self._rename()
        super().keep(temporary, key)

    @override
    def doom(self, key: SegmentKey) -> Path | None:
        self._rename()
        return super().doom(key)

    @override
    def remove(self, path: Path) -> None:
        if self.keeps_files_for:
            self.keeps_files_for -= 1
            raise OSError(errno.EIO, "Input/output error", str(path))
        super().remove(path)

    def _rename(self) -> None:
        if self.keeps_names_for:
            self.keeps_names_for -= 1
            raise OSError(errno.EROFS, "Read-only file system", str(self.path))

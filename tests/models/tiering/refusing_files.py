"""A directory of the index cache on a disk that refuses operations as planned by a test."""

import errno
from pathlib import Path

from typing_extensions import override

from tierledger.tiering.index_cache.files import CacheDirectory, CacheKey


class RefusingFiles(CacheDirectory):
    """Refuses a planned number of operations of each kind."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.full_for = 0
        """The number of next writes that fail on a full disk after half of the file."""
        self.keeps_names_for = 0
        """The number of next renames that are refused."""
        self.keeps_files_for = 0
        """The number of next removals that are refused."""

    @override
    def write(self, path: Path, data: bytes) -> None:
        if self.full_for:
            self.full_for -= 1
            super().write(path, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        super().write(path, data)

    @override
    def keep(self, temporary: Path, key: CacheKey) -> None:
        self._rename()
        super().keep(temporary, key)

    @override
    def doom(self, key: CacheKey) -> Path | None:
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

"""Where a store's column files are: a folder, or a bucket (`bucket.py`).

Rule: a file has the digest of its bytes in its name, and gets that name when it is whole and
durable. So a file that is read is the one that was written, or it is not used.
"""

from __future__ import annotations

import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import TypeAlias

SCHEME = "dir:"
FORMS = f"{SCHEME}DIR or s3://BUCKET/PREFIX"

DIGEST_BYTES = 16

Note: TypeAlias = "Callable[[str], None]"
"""Takes a sentence about files that are not used."""


def warn(text: str) -> None:
    """A note for programs, and for whoever reads what Spark's workers print."""
    warnings.warn(text, stacklevel=2)


_NAME = re.compile(r"(\d{8})-([0-9a-f]{32})\.parquet", re.ASCII)


class UnusableFile(Exception):
    """A column file that is not there, or is not what was written; the log has all it had."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name} {why}")
        self.name = name


def file_name(number: int, data: bytes) -> str:
    """The name of the file with `data`; files that were written later have higher numbers."""
    return f"{number:08d}-{_digest(data)}.parquet"


def ordered_names(found: Iterable[str]) -> list[str]:
    """The names of column files among `found`, in the order in which they were written."""
    return sorted(one for one in found if _NAME.fullmatch(one))


def number_of(name: str) -> int:
    """The number in the name of a column file."""
    return int(name[:8])


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=DIGEST_BYTES).hexdigest()


class ColumnPlace(ABC):
    """A place with column files. Its text is the setting that names it, without a secret.

    All methods but `read` and `end_of` raise `OSError` for a folder, and `StorageUnavailable`
    or `StoreRefused` for a bucket.
    """

    @abstractmethod
    def names(self) -> list[str]:
        """The names of the files, in the order in which they were written.

        Other files are left out. There are none if there is no such folder.
        """

    @abstractmethod
    def end_of(self, name: str, size: int) -> tuple[bytes, int]:
        """At most the last `size` bytes of a file, and how many it has.

        Raises:
            UnusableFile: It cannot be read.
        """

    def read(self, name: str) -> bytes:
        """The bytes of a file, which are what was written.

        Raises:
            UnusableFile: It cannot be read, or has other bytes.
        """
        data = self._bytes(name)
        if _digest(data) != name[9:41]:
            raise UnusableFile(name, "is damaged: its bytes do not have the digest in its name")
        return data

    @abstractmethod
    def _bytes(self, name: str) -> bytes: ...

    @abstractmethod
    def write(self, number: int, data: bytes) -> str:
        """Write a file, which appears when it is durable; its name. A failure leaves none."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file, which may be gone already."""

    def remove_unfinished(self) -> None:  # noqa: B027 - A bucket has nothing unfinished.
        """Remove what killed writers have left, and the folder if nothing else is in it."""

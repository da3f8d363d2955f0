"""Finds where backups are, by what the user has given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tierledger.storage.backup.files import BackupFiles

PLACES = "a folder, or s3://BUCKET/PREFIX"


def backup_files(place: str) -> BackupFiles:
    """The backups at `place`, a folder or a bucket.

    Raises:
        InvalidArgument: It is neither.
    """
    from tierledger.storage.backup.files import BackupFiles
    from tierledger.storage.backup.place import Folder

    if "://" not in place:
        return BackupFiles(Folder(Path(place)))
    from tierledger.tiering.backup_bucket import backup_bucket

    return BackupFiles(backup_bucket(place))

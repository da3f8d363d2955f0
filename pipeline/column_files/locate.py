"""Finds the place of a store's column files by the store's settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tierledger.events.errors import InvalidArgument
from tierledger.pipeline.column_files.folder import ColumnFolder
from tierledger.pipeline.column_files.place import FORMS, SCHEME, ColumnPlace
from tierledger.storage.connector import CONNECTOR_SETTING, URL_SETTING, setting
from tierledger.storage.locate import default_store_url, parse_store_url

COLUMNS_SETTING = "metadata.storage.columns.url"
"""The setting of a store that says where its column files are."""

BESIDE = ".columns"
"""What follows the name of a SQLite file in the name of the folder of its column files."""


def column_place(config: Mapping[str, object]) -> ColumnPlace | None:
    """Where the column files of a store with settings `config` are; None if it has none.

    Raises:
        InvalidArgument: The setting is no place for them.
    """
    url = setting(config, COLUMNS_SETTING)
    if url is not None:
        return _named(url)
    beside = _beside(config)
    return ColumnFolder(beside) if beside is not None and beside.is_dir() else None


def place_to_write(config: Mapping[str, object]) -> ColumnPlace:
    """Where to write column files; for a SQLite file by default a folder beside it.

    Raises:
        InvalidArgument: The setting is no place for them, or the store has no default.
    """
    url = setting(config, COLUMNS_SETTING)
    if url is not None:
        return _named(url)
    beside = _beside(config)
    if beside is None:
        raise InvalidArgument(
            f"expected where the column files are, as {FORMS}: a store that is no SQLite file "
            "has no default"
        )
    return ColumnFolder(beside)


def _named(url: str) -> ColumnPlace:
    folder = url.removeprefix(SCHEME)
    if url.startswith(SCHEME) and folder and "\0" not in folder:
        return ColumnFolder(Path(folder).expanduser().absolute())
    if "://" not in url:
        raise InvalidArgument(f"expected where the column files are, as {FORMS}; got {url!r}")
    from tierledger.pipeline.column_files.bucket import bucket_at  # noqa: PLC0415 - An extra's.

    return bucket_at(url)


def _beside(config: Mapping[str, object]) -> Path | None:
    if setting(config, CONNECTOR_SETTING) is not None:
        return None  # What the URL means is its own affair.
    url = setting(config, URL_SETTING)
    path = (default_store_url() if url is None else parse_store_url(url)).path
    return None if path is None else path.with_name(path.name + BESIDE)

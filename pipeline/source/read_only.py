"""What the formats have in common: each can be read, and none can be written."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import DataSource
from typing_extensions import override

from tierledger.events.errors import InvalidArgument

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class ReadOnlySource(DataSource):
    """A format that refuses `save`, `INSERT`, and `CREATE TABLE … AS SELECT`."""

    @override
    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        raise InvalidArgument(
            f"the format {self.name()} can only be read: a store is written by its service, "
            "and by imports (tierledger jobs import)"
        )

    @override
    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:
        self.writer(schema, overwrite)

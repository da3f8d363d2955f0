"""The fixed parts of Kafka's remote log metadata records."""

from __future__ import annotations

from struct import Struct
from typing import Final

FRAME_VERSION: Final = 1
MESSAGE_VERSION: Final = 0
"""The only known version of each of the four records."""

SEGMENT, SEGMENT_UPDATE, PARTITION_DELETE, SEGMENT_SNAPSHOT = range(4)

HEADER_MAX: Final = 32767
"""The highest number in a frame: Kafka reads each of the three into 16 bits."""

TEXT: Final = 32
"""The first number that may begin a text instead of a frame."""

TXN_INDEX_EMPTY: Final = 0
"""The tag of the one known tagged field, in records 0 and 3: a byte, absent for false."""

TXN_INDEX_EMPTY_ALONE: Final = bytes((1, TXN_INDEX_EMPTY, 1, 1))
"""The section of tagged fields with which most segments of a Kafka 4 end: only that field."""

FRAMES: Final = tuple(bytes((FRAME_VERSION, key, MESSAGE_VERSION)) for key in range(4))
KEY_OF_FRAME: Final = {frame: key for key, frame in enumerate(FRAMES)}

PARTITION: Final = Struct(">16si")  # topic id, partition
SEGMENT_HEAD: Final = Struct(">qqiqq")  # start, end, broker, largest timestamp, event time
EPOCH: Final = Struct(">iq")  # leader epoch, offset
PLAIN_EPOCH: Final = Struct(">iqB")  # The same, and the number of tagged fields.
SIZE: Final = Struct(">i")
UPDATE_HEAD: Final = Struct(">iq")  # broker, event time
STATE: Final = Struct(">b")

PLAIN_SEGMENT: Final = Struct(">16sB qqiqq B iqB i B b")
"""Behind the partition, a segment with one leader epoch and no custom metadata, up to its last
tagged fields: id, tags, `SEGMENT_HEAD`, number of epochs, `PLAIN_EPOCH`, `SIZE`, custom, state.
"""

PLAIN_UPDATE: Final = Struct(">16sB iq B b B")
"""The same of an update: id, tags, `UPDATE_HEAD`, custom, state, tags."""

"""What an answer to ApiVersions tells of a broker's version; see also tests/kafka."""

from io import BytesIO

import pytest

from tierledger.moving.broker_versions import VERSIONS, level_in

HEAD = bytes.fromhex("0000020012000000040000000000")
"""No error; one request, number 18, versions 0 to 4; no throttling."""

FEATURES = bytes.fromhex(
    "03"
    "0e67726f75702e76657273696f6e0001000100"  # group.version 1
    "116d657461646174612e76657273696f6e0001001500"  # metadata.version 1 to 21
)  # fmt: skip


@pytest.mark.parametrize(
    ("tags", "level"),
    [
        (b"\x00", None),  # A broker that uses ZooKeeper.
        (b"\x01\x00" + bytes([len(FEATURES)]) + FEATURES, 21),
        # Unknown tags behind it are no trouble; nor are other features alone.
        (b"\x02\x00" + bytes([len(FEATURES)]) + FEATURES + b"\x09\x01x", 21),
        (b"\x01\x00\x01\x01", None),
    ],
)
def test_the_newest_metadata_version_is_found_or_missing(
    tags: bytes, level: int | None
) -> None:
    assert level_in(VERSIONS.Answer.decode(BytesIO(HEAD + tags))) == level

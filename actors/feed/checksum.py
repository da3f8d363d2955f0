"""The checksum of what a replica holds at one position; `docs/feed.md` gives the bytes.

It is the sum modulo 2^128 of the BLAKE2b-128 hashes of the elements: each row, each epoch's
numbers, each segment's strays, and the head. A state keeps the sum over its rows anyway. A
change costs one hash for each element that is added or removed.
"""

from __future__ import annotations

import struct

from tierledger.actors.feed.frames import DeleteState, EpochNumbers, Strays
from tierledger.events.partition.state import DIGEST_MODULUS, hash_of

_EPOCH = struct.Struct(">ci?qq")
_HEAD = struct.Struct(">cqb")


def share_of_epoch(numbers: EpochNumbers) -> int:
    """What an epoch's numbers add to the sum."""
    epoch, highest, size = numbers
    return hash_of(_EPOCH.pack(b"E", epoch, highest is not None, highest or 0, size))


def share_of_strays(strays: Strays) -> int:
    """What a segment's strays add to the sum."""
    segment_id, epochs = strays
    return hash_of(
        b"S" + segment_id + b"".join(one.to_bytes(4, "big", signed=True) for one in epochs)
    )


def checksum(shares: int, position: int, chain_hash: bytes, delete_state: DeleteState) -> bytes:
    """The 16 bytes of the checksum, from the elements' sum `shares` and the head."""
    delete = -1 if delete_state is None else delete_state
    head = hash_of(_HEAD.pack(b"P", position, delete) + chain_hash)
    return ((shares + head) % DIGEST_MODULUS).to_bytes(16, "big")

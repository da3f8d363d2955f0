"""The checksum of what a replica holds at one position; `docs/feed.md` gives the bytes.

A sum modulo 2^128 over the BLAKE2b-128 hashes of its elements: each row, each epoch's numbers,
each segment's strays, and the head. The sum over rows is the one that a state keeps anyway, and
a change costs one hash for each element that comes, and one for each that goes.
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
    """16 bytes that agree if the head does, and the elements; `shares` is the sum of theirs."""
    delete = -1 if delete_state is None else delete_state
    head = hash_of(_HEAD.pack(b"P", position, delete) + chain_hash)
    return ((shares + head) % DIGEST_MODULUS).to_bytes(16, "big")

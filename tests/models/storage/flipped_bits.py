"""Bytes with flipped bits, as a bad disk or a bad line leaves them."""

from pathlib import Path


def flipped(data: bytes, at: int = -1, bits: int = 1) -> bytes:
    """`data` with the bits `bits` of byte `at` flipped."""
    changed = bytearray(data)
    changed[at] ^= bits
    return bytes(changed)


def flip(path: Path, at: int = -1, bits: int = 1) -> None:
    """Flip the bits `bits` of the file's byte `at`."""
    path.write_bytes(flipped(path.read_bytes(), at, bits))

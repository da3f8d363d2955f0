"""Bytes in which bits are turned, as a bad disk or a bad line turns them."""

from pathlib import Path


def flipped(data: bytes, at: int = -1, bits: int = 1) -> bytes:
    """`data` with those bits of byte `at` turned."""
    changed = bytearray(data)
    changed[at] ^= bits
    return bytes(changed)


def flip(path: Path, at: int = -1, bits: int = 1) -> None:
    """Turn those bits of the file's byte `at`."""
    path.write_bytes(flipped(path.read_bytes(), at, bits))

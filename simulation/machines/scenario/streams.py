"""Random numbers of a seed by purpose: draws for one purpose change no other."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from random import Random
from typing import NamedTuple, TypeVar

T = TypeVar("T")


def chance(seed: int, name: str) -> float:
    """A number from 0 to 1 that depends on `seed` and `name` alone."""
    drawn = blake2b(f"{seed}:{name}".encode(), digest_size=7).digest()
    return int.from_bytes(drawn, "big") / (1 << 56)


def pick(seed: int, name: str, values: Sequence[T]) -> T:
    return values[int(chance(seed, name) * len(values))]


def stream(seed: int, name: str) -> Random:
    """The random numbers of one purpose; they are the same in every process."""
    return Random(f"{seed}:{name}")


class Size(NamedTuple):
    """The size of a seed's world, and its random numbers."""

    seed: int
    brokers: int
    hosts: int
    partitions: int
    duration: int

    def stream(self, name: str) -> Random:
        """The random numbers of one purpose: draws for another purpose do not change them."""
        return stream(self.seed, name)
